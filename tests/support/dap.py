"""A small client of the debug adapter protocol, for ``lldb-dap``."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.runs import can_be_read

ANSWER_SECONDS = 60


class DebugAdapter:
    """A debug adapter and the messages that it sent; use it in a ``with`` statement."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._number = 0
        self._raw = b""
        self._said: list[dict[str, Any]] = []

    def __enter__(self) -> DebugAdapter:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def send(self, command: str, **arguments: object) -> int:
        """Send a request without waiting, and return its number."""
        self._number += 1
        body = json.dumps({"seq": self._number, "type": "request", "command": command, "arguments": arguments}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self._number

    def ask(self, command: str, **arguments: object) -> Any:
        """Send a request and return the body of its response."""
        return self.response(self.send(command, **arguments))

    def answered(self, number: int) -> dict[str, Any]:
        """Return the response to request *number*, even a refusal."""
        return self._wait(lambda m: m["type"] == "response" and m["request_seq"] == number)

    def response(self, number: int) -> Any:
        """Return the body of the response to request *number*."""
        found = self.answered(number)
        assert found["success"], found
        return found.get("body")

    def event(self, name: str) -> Any:
        """Return the body of the next event of this name."""
        return self._wait(lambda m: m["type"] == "event" and m["event"] == name).get("body")

    def _wait(self, is_it: Any) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            for message in self._said:
                if is_it(message):
                    self._said.remove(message)
                    return message
            self._read(deadline)

    def _read(self, deadline: float) -> None:
        stream = self._process.stdout
        assert stream is not None
        head, found, rest = self._raw.partition(b"\r\n\r\n")
        size = int(head.rpartition(b":")[2]) if found else 0
        if found and len(rest) >= size:
            self._said.append(json.loads(rest[:size]))
            self._raw = rest[size:]
            return
        assert can_be_read(stream.fileno(), max(deadline - time.monotonic(), 0)), "the adapter says nothing"
        piece = stream.read(1 << 16)
        assert piece, f"the adapter ended with status {self._process.wait()}"
        self._raw += piece
