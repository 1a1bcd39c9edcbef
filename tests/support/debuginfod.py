"""A debuginfod server on this machine."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Server:
    """A debuginfod server on this machine: *files* by path; *asked* has the requested paths."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    lies: bool = False  # ends before the announced length
    drips: bool = False  # sends one byte at a time


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server until the context ends."""
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + state.lies))
            self.end_headers()
            try:
                for at in range(0, len(content), 1 if state.drips else len(content)):
                    self.wfile.write(content[at : at + (1 if state.drips else len(content))])
                    if state.drips:
                        time.sleep(0.05)
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield state
    listening.shutdown()
    listening.server_close()
