"""The worker's end of the socket, and the page that shows the host the current call."""

from __future__ import annotations

import mmap
import os
from _socket import socket

from ompd.runtimes.hosted.protocol import (
    ANSWER,
    ANSWER_HEAD,
    CALLBACK,
    CALLBACK_HEAD,
    ENTRY,
    HEADER,
    MAX_MESSAGE,
    OWN_FAULT,
    PAGE,
    READY,
    READY_HEAD,
    VERSION,
    WARNING,
    message,
    packed_rows,
)

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    # Stores one entry of an answer to a callback: the entry's kind, the context, two words, the bytes
    Keep = Callable[[int, int, int, int, bytes], None]

_MAX_WARNINGS, _MAX_TEXT = 100, 2000
_PIECE = 1 << 18


def stop(fault: bytes) -> NoReturn:
    """End the process, after writing *fault* for the host. May be called from C, through which no exception passes."""
    os.write(2, fault + b"\n")
    os._exit(OWN_FAULT)


class Channel:
    """The messages that the worker sends and receives.

    :param descriptor: the socket's descriptor
    :param page: the descriptor of the shared memory
    """

    def __init__(self, descriptor: int, page: int) -> None:
        self._socket = socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._progress = memoryview(mmap.mmap(page, PAGE)).cast("Q")
        self._count = 0
        self._process = os.getpid()
        self._warnings = 0

    def begin(self, function: int) -> None:
        """Note that a function of the library is about to be called."""
        self._count += 1
        self._progress[0] = self._count
        self._progress[1] = function

    def end(self) -> None:
        """Note that the function has returned. A process that the library has forked ends here."""
        if os.getpid() != self._process:
            os._exit(0)
        self._progress[1] = 0

    @property
    def count(self) -> int:
        """The number of calls of the library's functions so far."""
        return self._count

    def receive(self) -> tuple[int, bytes]:
        """Return kind and body of the host's next message. Ends the process if the host has ended."""
        size, kind = HEADER.unpack(self._exactly(HEADER.size))
        if size > MAX_MESSAGE:
            stop(b"a message is too large")
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        piece = self._socket.recv(min(size, _PIECE)) if size else b""
        if len(piece) == size:
            return piece
        received = bytearray(piece)
        while piece and len(received) < size:
            piece = self._socket.recv(min(size - len(received), _PIECE))
            received += piece
        if len(received) < size:
            os._exit(0)  # the host has ended
        return bytes(received)

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message. A process that the library has forked sends nothing and ends."""
        if os.getpid() != self._process:
            os._exit(0)
        try:
            self._socket.sendall(message(kind, *parts))
        except OSError:
            os._exit(0)

    def ready(self, api_version: int, version_string: bytes, functions: Sequence[tuple[int, str]]) -> None:
        """Send the versions of the loaded library, and the functions of the interface that it has."""
        rows = [(0, 0, version_string), *((number, 0, name.encode()) for number, name in functions)]
        self.send(READY, READY_HEAD.pack(VERSION, 0, 0, len(rows), api_version), packed_rows(rows))

    def refuse(self, outcome: int, code: int, text: str, api_version: int = 0) -> None:
        """Send the reason why the library cannot be used: the loader's message, or a function's name."""
        row = packed_rows([(0, 0, text.encode("utf-8", "replace"))])
        self.send(READY, READY_HEAD.pack(VERSION, outcome, code, 1, api_version), row)

    def warn(self, text: bytes) -> None:
        """Send a line that the library has printed, or a warning about its misbehaviour, at most a hundred per
        batch.
        """
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            self.send(WARNING, text[:_MAX_TEXT])

    def begin_batch(self) -> None:
        """Start a new count of warnings."""
        self._warnings = 0

    def ask(
        self,
        which: int,
        context: int,
        keep: Keep,
        *,
        thread: int = 0,
        words: tuple[int, int] = (0, 0),
        raw: bytes = b"",
    ) -> int:
        """Have the host serve a callback, store the entries of the answer with *keep*, and return the answer's code."""
        self.send(CALLBACK, CALLBACK_HEAD.pack(which, context, thread, *words, 0), raw)
        kind, body = self.receive()
        if kind != ANSWER:
            stop(b"no answer")
        code, count = ANSWER_HEAD.unpack_from(body)
        offset = ANSWER_HEAD.size
        for _ in range(count):
            what, of, first, second, size = ENTRY.unpack_from(body, offset)
            offset += ENTRY.size
            keep(what, of, first, second, body[offset : offset + size])
            offset += size
        return int(code)
