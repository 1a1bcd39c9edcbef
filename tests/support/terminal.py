"""A program on a pseudo-terminal: type into it, and wait for its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.runs import can_be_read

# Colours, cursor movements, and the marks around pasted text.
_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])|\r|\x07")
SHOWN_SECONDS = 60


class Terminal:
    """A program on a terminal of 200 columns; use it in a ``with`` statement."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._pid, self._master = pty.fork()
        if self._pid == 0:  # the child
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
                os.chdir(cwd)
                os.execvpe(command[0], list(command), dict(env))
            finally:
                os._exit(127)
        self._shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._master)

    def type(self, text: str) -> None:
        """Type *text* unchanged."""
        os.write(self._master, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Wait for *pattern*, and return and drop the output up to its end."""
        deadline = time.monotonic() + SHOWN_SECONDS
        while (found := re.search(pattern, self._shown)) is None:
            left = deadline - time.monotonic()
            assert left > 0 and can_be_read(self._master, left), f"no {pattern!r} in {self._shown!r}"
            self._shown += _CONTROL.sub("", os.read(self._master, 1 << 16).decode("utf-8", "replace"))
        text, self._shown = self._shown[: found.end()], self._shown[found.end() :]
        return text
