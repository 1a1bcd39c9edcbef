"""The worker's end of the socket, and the page that shows the host the current call."""

from __future__ import annotations

import mmap
import os
from _socket import socket

from ompd.runtimes.hosted.protocol import (
    ANSWER,
    ANSWER_HEAD,
    BAD_SIZE,
    BATCH,
    CALL,
    CALLBACK,
    CALLED,
    COUNT,
    ENTRY,
    HEADER,
    MAX_MESSAGE,
    OWN_FAULT,
    PAGE,
    RESULT,
    RESULTS,
    RESULTS_HEAD,
    VERSION,
    WARNING,
    message,
    packed_callback,
    packed_rows,
)

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TypeAlias

    from ompd.runtimes.hosted.dmpl.worker import DmplLibrary
    from ompd.runtimes.hosted.trial.worker import TrialLibrary
    from ompd.runtimes.hosted.worker.calls import OmpdLibrary

    Library: TypeAlias = OmpdLibrary | DmplLibrary | TrialLibrary
    # An entry of an answer to a callback: its kind, the context, two words, the bytes
    Entry: TypeAlias = tuple[int, int, int, int, bytes]

_MAX_WARNINGS, _MAX_TEXT = 100, 2000
_PIECE = 1 << 18
_ERROR = 4  # ompd_rc_error


def stop(fault: bytes) -> NoReturn:
    """End the process, after writing *fault* for the host. May be called from C, through which no exception passes."""
    os.write(2, fault + b"\n")
    os._exit(OWN_FAULT)


class Result:
    """The result of a call: its code, the worker's outcome, its words, and the bytes of its rows in a message. If there
    are rows, their place replaces the first word.
    """

    __slots__ = ("code", "outcome", "row_count", "rows", "words")

    def __init__(
        self, code: int, outcome: int = CALLED, words: Sequence[int] = (), rows: bytes = b"", row_count: int = 0
    ) -> None:
        self.code, self.outcome, self.words = code, outcome, words
        self.rows, self.row_count = rows, row_count


def started(api_version: int, version_string: bytes, functions: Sequence[tuple[int, str]]) -> Result:
    """Return the result of a start: the library's versions, and the functions of the interface that it has."""
    rows = [(0, 0, version_string), *((number, 0, name.encode()) for number, name in functions)]
    return Result(0, CALLED, (0, VERSION, api_version), packed_rows(rows), len(rows))


def refused(outcome: int, code: int, text: str) -> Result:
    """Return the reason why the library cannot be used: the loader's message, or a function's name."""
    row = packed_rows([(0, 0, text.encode("utf-8", "replace"))])
    return Result(code, outcome, (0, VERSION), row, 1)


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
        self.is_elsewhere = False
        """Whether the library has called back, since the last results, from a thread other than the worker's."""

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

    def serve(self, library: Library) -> None:
        """Make the calls of the host's batches, until the host has ended."""
        while True:
            body = memoryview(self._receive(BATCH))
            self._warnings = 0
            (count,) = COUNT.unpack_from(body)
            end = COUNT.size + CALL.size * count
            blob = body[end:]
            results: list[bytes] = []
            rows = bytearray()
            for number, argument_count, makes, *words in CALL.iter_unpack(body[COUNT.size : end]):
                results.append(self._packed(library.perform(number, words[:argument_count], makes, blob), rows))
            if self.is_elsewhere:
                self.is_elsewhere = False
                self.warn(b"called back from a thread of its own, which is refused")
            self._send(RESULTS, RESULTS_HEAD.pack(len(results), library.allocated), *results, bytes(rows))

    def report_start(self, result: Result) -> None:
        """Send the result of the library's start."""
        rows = bytearray()
        self._send(RESULTS, RESULTS_HEAD.pack(1, 0), self._packed(result, rows), bytes(rows))

    def _packed(self, result: Result, rows: bytearray) -> bytes:
        # The bytes of a result. Its rows are appended to *rows*.
        if len(rows) + len(result.rows) > MAX_MESSAGE // 2:
            result = Result(_ERROR, BAD_SIZE)
        words = [word & 0xFFFFFFFFFFFFFFFF for word in (*result.words, 0, 0, 0, 0)[:4]]
        if result.row_count:
            words[0] = len(rows) << 32 | len(result.rows)
            rows += result.rows
        return RESULT.pack(result.code, result.outcome, result.row_count, self._count & 0xFFFFFFFF, *words)

    def _receive(self, wanted: int) -> bytes:
        # The body of the host's next message, which must be of the *wanted* kind. If the host has ended, this process
        # ends.
        size, kind = HEADER.unpack(self._exactly(HEADER.size))
        if size > MAX_MESSAGE:
            stop(b"a message is too large")
        if kind != wanted:
            stop(b"a message of the wrong kind")
        return self._exactly(size)

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

    def _send(self, kind: int, *parts: bytes) -> None:
        # A process that the library has forked sends nothing and ends.
        if os.getpid() != self._process:
            os._exit(0)
        try:
            self._socket.sendall(message(kind, *parts))
        except OSError:
            os._exit(0)

    def warn(self, text: bytes) -> None:
        """Send a line that the library has printed, or a warning about its misbehaviour, at most a hundred per
        batch.
        """
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            self._send(WARNING, text[:_MAX_TEXT])

    def ask(
        self, which: int, context: int, *, thread: int = 0, words: Sequence[int] = (), raw: bytes = b""
    ) -> tuple[int, Sequence[Entry]]:
        """Have the host serve a callback, and return the code and the entries of its answer."""
        self._send(CALLBACK, packed_callback(which, context, thread, words, raw))
        body = self._receive(ANSWER)
        code, count = ANSWER_HEAD.unpack_from(body)
        entries: list[Entry] = []
        offset = ANSWER_HEAD.size
        for _ in range(count):
            kind, of_context, first, second, size = ENTRY.unpack_from(body, offset)
            offset += ENTRY.size
            entries.append((kind, of_context, first, second, body[offset : offset + size]))
            offset += size
        return code, entries

    def ask_single(
        self, which: int, context: int = 0, *, thread: int = 0, words: Sequence[int] = (), raw: bytes = b""
    ) -> tuple[int, int, bytes]:
        """Have the host serve a callback whose answer has one entry. Return the answer's code, word and bytes."""
        code, entries = self.ask(which, context, thread=thread, words=words, raw=raw)
        for _, _, word, _, data in entries:
            return code, word, data
        return code, 0, b""
