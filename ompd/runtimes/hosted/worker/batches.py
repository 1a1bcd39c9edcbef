"""OMPD in a worker: initialises the library, and makes the calls of the host's batches until the host has ended."""

from __future__ import annotations

import ctypes

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
    RESULT,
    RESULTS,
    RESULTS_HEAD,
)
from ompd.runtimes.hosted.signatures import SIGNATURES, Function
from ompd.runtimes.hosted.worker.callbacks import Callbacks
from ompd.runtimes.hosted.worker.calls import Library, Result
from ompd.runtimes.hosted.worker.channel import Channel
from ompd.runtimes.hosted.worker.raw import Blocks, RawMemory
from ompd.runtimes.hosted.worker.spaces import KnownSpace, Spaces

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ERROR = 4  # ompd_rc_error
_FIRST_VERSION = 201811


def serve(channel: Channel) -> Callable[[ctypes.CDLL], None]:
    """Return the function that serves the host with a library. This must be called before the process is confined,
    because it opens files.
    """
    return _Worker(channel).run


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._memory = RawMemory()
        self._blocks = Blocks()
        self._spaces = Spaces(self._channel)
        self._callbacks = Callbacks(self._channel, self._spaces, self._blocks, self._memory)

    def run(self, loaded: ctypes.CDLL) -> None:
        library = self._begin(loaded)
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

    def _begin(self, loaded: ctypes.CDLL) -> Library | None:
        library = Library(loaded, self._channel, self._spaces, self._blocks, self._memory)
        for needed in (Function.GET_API_VERSION, Function.INITIALIZE, Function.PROCESS_INITIALIZE):
            if not library.has(needed):
                self._channel.refuse(ABSENT, 0, SIGNATURES[needed].name)
                return None
        version = ctypes.c_int64(_FIRST_VERSION)
        code = library.call(Function.GET_API_VERSION, ctypes.addressof(version))
        if code:
            self._channel.refuse(CALLED, code, SIGNATURES[Function.GET_API_VERSION].name)
            return None
        name = ctypes.c_uint64(0)
        library.call(Function.GET_VERSION_STRING, ctypes.addressof(name))
        text = library.version_string(name.value)
        code = library.call(Function.INITIALIZE, version.value, ctypes.addressof(self._callbacks.table))
        if code:
            self._channel.refuse(CALLED, code, SIGNATURES[Function.INITIALIZE].name, version.value)
            return None
        functions = [function for function in SIGNATURES if function != Function.LOAD and library.has(function)]
        self._channel.ready(version.value, text, [(function, SIGNATURES[function].name) for function in functions])
        return library

    def _made(self, library: Library, body: memoryview) -> Sequence[bytes]:
        releases, forgotten, added, calls = BATCH_HEAD.unpack_from(body)
        offset = BATCH_HEAD.size
        # Contexts are added first, so that a message may add and forget the same context.
        start = offset + NUMBER.size * (releases + forgotten)
        for _ in range(added):
            (context,), (ahead,) = NUMBER.unpack_from(body, start), NUMBER.unpack_from(body, start + NUMBER.size)
            self._spaces.known[context] = KnownSpace(context, ahead)
            start += 2 * NUMBER.size
        for number in range(releases):
            library.release(NUMBER.unpack_from(body, offset + NUMBER.size * number)[0])
        offset += NUMBER.size * releases
        for number in range(forgotten):
            library.forget(NUMBER.unpack_from(body, offset + NUMBER.size * number)[0])
        end = start + CALL.size * calls
        blob = body[end:]
        results: list[bytes] = []
        rows = bytearray()
        for function, count, makes, *words in CALL.iter_unpack(body[start:end]):
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
