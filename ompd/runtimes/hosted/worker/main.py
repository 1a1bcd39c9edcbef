"""What the worker does: load a library, initialise it, and make the calls of its host until that has gone.

``main(["SOCKET", "PAGE", "LIFELINE", "MEMORY", "NAME", "DESCRIPTOR", "GLOBAL", ...])``: numbers of descriptors, the
bytes that the process may have, and what to load.
"""

from __future__ import annotations

import ctypes
import gc
import os

from ompd.runtimes.hosted.loading.loader import load
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED, confine, protects
from ompd.runtimes.hosted.protocol import (
    ABSENT,
    BAD_SIZE,
    BATCH,
    BATCH_HEAD,
    CALL,
    CALLED,
    FINISH,
    FINISHED,
    MAX_MESSAGE,
    NUMBER,
    READY,
    READY_HEAD,
    RESULT,
    RESULTS,
    RESULTS_HEAD,
    UNLOADED,
    VERSION,
    packed_rows,
)
from ompd.runtimes.hosted.signatures import SIGNATURES, Function
from ompd.runtimes.hosted.worker.callbacks import Callbacks
from ompd.runtimes.hosted.worker.calls import Library, Result
from ompd.runtimes.hosted.worker.channel import Channel
from ompd.runtimes.hosted.worker.lifeline import end_with
from ompd.runtimes.hosted.worker.raw import Blocks, RawMemory
from ompd.runtimes.hosted.worker.spaces import KnownSpace, Spaces

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN_FAULT = 70
"""The status with which the worker ends where it is at fault itself, or the library has damaged it."""

_ERROR = 4  # ompd_rc_error
_FIRST_VERSION = 201811


def main(arguments: Sequence[str]) -> None:
    """Serve the host. Never returns."""
    try:
        gc.disable()  # what is made here lives as long as its space, or a moment
        _Worker(arguments).run()
    except BaseException as error:  # noqa: BLE001  its own words go where the library's output goes
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(OWN_FAULT)
    os._exit(0)


class _Worker:
    def __init__(self, arguments: Sequence[str]) -> None:
        channel, page, lifeline, memory = map(int, arguments[:4])
        end_with(lifeline)
        rest = arguments[4:]
        self._steps = [
            (name, int(number), is_global == "1")
            for name, number, is_global in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        ]
        self._channel = Channel(channel, page)
        self._memory = RawMemory()
        self._blocks = Blocks()
        self._spaces = Spaces(self._channel)
        self._callbacks = Callbacks(self._channel, self._spaces, self._blocks, self._memory)
        if not protects(confine(memory)):
            self._channel.warn(UNCONFINED.encode())

    def run(self) -> None:
        library = self._begin()
        if library is None:
            return
        while True:
            kind, body = self._channel.receive()
            self._channel.begin_batch()
            if kind == BATCH:
                self._channel.send(RESULTS, *self._made(library, memoryview(body)))
            elif kind == FINISH:
                code = self._finish(library)
                self._channel.send(FINISHED, RESULTS_HEAD.pack(code & 0xFFFFFFFF, len(self._blocks), 0))
                return

    def _begin(self) -> Library | None:
        self._channel.begin(Function.LOAD)
        try:
            loaded = load(self._steps)
        except (OSError, AttributeError) as error:
            self._refuse(UNLOADED, 0, str(error))
            return None
        self._channel.end()
        library = Library(loaded, self._channel, self._spaces, self._blocks, self._memory)
        for needed in (Function.GET_API_VERSION, Function.INITIALIZE, Function.PROCESS_INITIALIZE):
            if not library.has(needed):
                self._refuse(ABSENT, 0, SIGNATURES[needed].name)
                return None
        version = ctypes.c_int64(_FIRST_VERSION)
        code = library.call(Function.GET_API_VERSION, ctypes.addressof(version))
        if code:
            self._refuse(CALLED, code, SIGNATURES[Function.GET_API_VERSION].name)
            return None
        name = ctypes.c_uint64(0)
        library.call(Function.GET_VERSION_STRING, ctypes.addressof(name))
        text = library.version_string(name.value)
        code = library.call(Function.INITIALIZE, version.value, ctypes.addressof(self._callbacks.table))
        if code:
            self._refuse(CALLED, code, SIGNATURES[Function.INITIALIZE].name, version.value)
            return None
        functions = [function for function in SIGNATURES if function != Function.LOAD and library.has(function)]
        rows = [(0, 0, text), *((function, 0, SIGNATURES[function].name.encode()) for function in functions)]
        head = READY_HEAD.pack(VERSION, CALLED, 0, len(rows), version.value)
        self._channel.send(READY, head, packed_rows(rows))
        return library

    def _refuse(self, outcome: int, code: int, text: str, version: int = 0) -> None:
        row = packed_rows([(0, 0, text.encode("utf-8", "replace"))])
        self._channel.send(READY, READY_HEAD.pack(VERSION, outcome, code, 1, version), row)

    def _made(self, library: Library, body: memoryview) -> Sequence[bytes]:
        releases, forgotten, added, calls = BATCH_HEAD.unpack_from(body)
        offset = BATCH_HEAD.size
        # Contexts are added first, so that a message may forget what it adds.
        at = offset + NUMBER.size * (releases + forgotten)
        for _ in range(added):
            (context,), (ahead,) = NUMBER.unpack_from(body, at), NUMBER.unpack_from(body, at + NUMBER.size)
            self._spaces.known[context] = KnownSpace(context, ahead)
            at += 2 * NUMBER.size
        for number in range(releases):
            library.release(NUMBER.unpack_from(body, offset + NUMBER.size * number)[0])
        offset += NUMBER.size * releases
        for number in range(forgotten):
            library.forget(NUMBER.unpack_from(body, offset + NUMBER.size * number)[0])
        end = at + CALL.size * calls
        blob = body[end:]
        results: list[bytes] = []
        rows = bytearray()
        for function, count, makes, *words in CALL.iter_unpack(body[at:end]):
            results.append(_packed(library.perform(function, words[:count], makes, blob), self._channel.count, rows))
        if self._callbacks.is_elsewhere:
            self._callbacks.is_elsewhere = False
            self._channel.warn(b"called back from a thread of its own, which is refused")
        head = RESULTS_HEAD.pack(len(results), len(self._blocks), self._blocks.size >> 10)
        return head, *results, bytes(rows)

    def _finish(self, library: Library) -> int:
        for context in sorted(self._spaces.known, reverse=True):  # devices before their processes
            library.forget(context)
        return library.call(Function.FINALIZE) if library.has(Function.FINALIZE) else 0


def _packed(result: Result, begun: int, rows: bytearray) -> bytes:
    words = [*result.words, 0, 0, 0, 0][:4]
    if len(rows) + len(result.rows) > MAX_MESSAGE // 2:
        result = Result(_ERROR, BAD_SIZE)
    if result.row_count:
        words[0] = len(rows) << 32 | len(result.rows)
        rows += result.rows
    words = [word & 0xFFFFFFFFFFFFFFFF for word in words]
    return RESULT.pack(result.code, result.outcome, result.row_count, begun & 0xFFFFFFFF, *words)
