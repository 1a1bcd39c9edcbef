"""An OMPD library in a separate process: start, calls, callbacks, end."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ompd.contract.callbacks import Callbacks
from ompd.errors import LibraryError, OmpdError, Rc
from ompd.runtimes.hosted import protocol
from ompd.runtimes.hosted.api import Batch, Call, Outcome, Ref, SpaceRef
from ompd.runtimes.hosted.connection import Connection, rc_of, returned
from ompd.runtimes.hosted.process import Interface, Limits, Loadable, Loads
from ompd.runtimes.hosted.protocol import (
    BATCH,
    BATCH_HEAD,
    CALL,
    CALLBACK_HEAD,
    FINISH,
    FINISHED,
    NUMBER,
    RESULT,
    RESULTS,
    RESULTS_HEAD,
)
from ompd.runtimes.hosted.results import Malformed, RowReader
from ompd.runtimes.hosted.serving import Server
from ompd.runtimes.hosted.signatures import SIGNATURES, Function

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["HostedLibrary", "Limits", "Loadable"]

_OMPD = Interface(
    protocol.OMPD, "an OMPD library", {number: signature.name for number, signature in SIGNATURES.items()}
)
_MAX_CALLS = 20_000
_SIGN = 1 << 63
_STATES_HINT = "run the program with OMP_DEBUG=enabled, so that its runtime keeps this"
_FAULTS = {
    protocol.ABSENT: "not implemented",
    protocol.NO_HANDLE: "success without a handle",
    protocol.BAD_HANDLE: "a handle that is not valid here",
    protocol.BAD_TEXT: "a result that cannot be read",
    protocol.ENDLESS: "an enumeration without end",
    protocol.BAD_SIZE: "an impossible size",
}
# Letters in signatures for results that the worker sends as rows: "r" for any number of rows, "s" for one text
_ROWS = ("r", "s")
# For each function, whether each word of its result is signed
_SIGNED = {
    function: tuple(
        sign for letter in signature.gives for sign in ((False, True) if letter == "f" else (letter in "wi",))
    )
    for function, signature in SIGNATURES.items()
}


class HostedLibrary:
    """A running, initialised library. It can inspect any number of processes, one call at a time.

    :param warn: called with each cleaned line that the library prints, and with warnings about its misbehaviour
    :param waits: whether to wait until the library is ready. Otherwise the first use waits, like :meth:`wait`
    :param program: a worker to use instead of the Python worker, for a library of another architecture
        (``runtime_stub/host/``)
    :raises LibraryError: if the library cannot be loaded or initialised
    """

    def __init__(
        self,
        loadable: Loads,
        *,
        limits: Limits | None = None,
        warn: Callable[[str], None] = lambda text: None,
        waits: bool = True,
        program: Path | None = None,
    ) -> None:
        self.name = loadable.name
        """The library's name in messages."""
        self.allocated = 0
        """The number of memory blocks that the library had not freed after the last exchange, or, after :meth:`close`,
        at its end.
        """
        self.api_version = 0
        """The version of the interface that the library implements, as a value of ``_OPENMP``; 0 until the library is
        ready.
        """
        self.version_string = ""
        """The library's own version text (``ompd_get_version_string``), cleaned; empty until the library is ready."""
        self.functions: frozenset[str] = frozenset()
        """The C names of the interface's functions that the library has; empty until the library is ready."""
        self._numbers = itertools.count(1)
        self._servers: dict[int, Server] = {}
        self._released: list[int] = []
        self._forgotten: list[int] = []
        self._added: list[tuple[int, int]] = []
        self._faults: dict[int, OmpdError] = {}
        self._is_closed = False
        self._connection = Connection(
            loadable, _OMPD, self._serve, limits=limits or Limits(), warn=warn, program=program
        )
        if waits:
            self.wait()

    def wait(self) -> None:
        """Wait until the library is ready. Its descriptors must stay open until then.

        :raises LibraryError: if the library cannot be loaded or initialised
        """
        ready = self._connection.wait()
        self.api_version, self.version_string = ready.api_version, ready.version_string
        self.functions = ready.functions

    @property
    def error(self) -> LibraryError | None:
        """The reason why the library's process has ended, None while it runs."""
        return self._connection.error

    @property
    def process_id(self) -> int:
        """The id of the library's process."""
        return self._connection.process_id

    def batch(self) -> Batch:
        """Return a new batch of calls."""
        return Batch(self)

    def new_number(self) -> int:
        return next(self._numbers)

    def add_context(self, callbacks: Callbacks, ahead: int) -> int:
        number = self.new_number()
        self._servers[number] = Server(number, callbacks, ahead)
        self._added.append((number, max(0, min(ahead, 1 << 24))))
        return number

    def release(self, number: int) -> None:
        # Only note the number, because the garbage collector may call this at any moment.
        (self._forgotten if number in self._servers else self._released).append(number)

    def forget(self, space: SpaceRef) -> None:
        """Release all handles of an address space, and the worker's cache of its memory and symbols."""
        if space.number in self._servers:
            self._forgotten.append(space.number)
            self._exchange(())

    def run(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        found: list[Outcome] = []
        for start in range(0, len(calls), _MAX_CALLS):
            found += self._exchange(calls[start : start + _MAX_CALLS])
        return found

    def _exchange(self, calls: Sequence[Call]) -> list[Outcome]:
        if self.error is None and self._is_closed:
            raise LibraryError(self.name, None, "it has been closed", has_ended=True)
        self.wait()
        self._connection.check()
        released, self._released = self._released, []
        forgotten, self._forgotten = self._forgotten, []
        added, self._added = self._added, []
        self._faults.clear()
        self._expect(calls)
        parts = _packed(calls, released, forgotten, added)
        try:
            return self._connection.exchange(
                BATCH, parts, RESULTS, lambda body: self._results(calls, body), len(calls) + len(released)
            )
        finally:
            for number in forgotten:
                self._servers.pop(number, None)

    def _expect(self, calls: Sequence[Call]) -> None:
        for server in self._servers.values():
            server.begin()
        named: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for call in calls:
            if call.function == Function.GET_THREAD_HANDLE:
                space, kind, identifier = call.arguments
                if isinstance(space, Ref) and isinstance(kind, int) and isinstance(identifier, bytes):
                    named[space.number].append((kind, identifier))
        for number, identifiers in named.items():
            if number in self._servers:
                self._servers[number].expect(identifiers)

    def _serve(self, body: bytes) -> bytes:
        which, context, thread, first, second, _ = CALLBACK_HEAD.unpack_from(body)
        server = self._servers.get(context)
        if server is None:
            return protocol.ANSWER_HEAD.pack(Rc.BAD_INPUT, 0)
        answer, fault = server.answer(which, thread, first, second, body[CALLBACK_HEAD.size :])
        if fault is not None and len(self._faults) < _MAX_CALLS:
            self._faults[self._connection.calls & 0xFFFFFFFF] = fault
        return answer

    def _results(self, calls: Sequence[Call], body: bytes) -> list[Outcome]:
        count, self.allocated, _ = RESULTS_HEAD.unpack_from(body)
        if count != len(calls):
            raise Malformed("another number of results")
        end = RESULTS_HEAD.size + RESULT.size * count
        if len(body) < end:
            raise Malformed("results end early")
        outcomes, reader = [], RowReader(body, end)
        for call, result in zip(calls, RESULT.iter_unpack(body[RESULTS_HEAD.size : end]), strict=True):
            outcomes.append(self._outcome(call, result, reader, end))
        return outcomes

    def _outcome(self, call: Call, result: tuple[int, ...], reader: RowReader, blob: int) -> Outcome:
        code, outcome, count, begun, *words = result
        is_list = code == Rc.INCOMPLETE and call.function == Function.GET_ICV_FROM_SCOPE
        if outcome or (code != Rc.OK and not is_list):
            return Outcome(code, (), (), self._failed(call, code, outcome, self._faults.get(begun)))
        gives = SIGNATURES[call.function].gives
        if gives in _ROWS or count:
            if gives != "r" and (gives != "s" or count != 1):
                raise Malformed("a result of another kind than the function has")
            rows = reader.read(blob + (words[0] >> 32), count) if count else ()
            return Outcome(code, (), rows, None)
        signed = [
            word - (1 << 64) if is_signed and word & _SIGN else word
            for word, is_signed in zip(words, _SIGNED[call.function], strict=False)
        ]
        return Outcome(code, signed, (), None)

    def _failed(self, call: Call, code: int, outcome: int, reason: OmpdError | None) -> LibraryError:
        name = SIGNATURES[call.function].name
        if outcome in _FAULTS:
            return LibraryError(self.name, name, _FAULTS[outcome], rc=rc_of(code))
        if outcome == protocol.NOT_CALLED:
            return LibraryError(
                self.name, name, f"not called, since its argument failed with {returned(code)},", rc=rc_of(code)
            )
        hint = _STATES_HINT if code == Rc.NEEDS_STATE_TRACKING else ""
        error = LibraryError(self.name, name, returned(code), rc=rc_of(code), reason=str(reason or ""), hint=hint)
        error.__cause__ = reason.with_traceback(None) if reason is not None else None
        return error

    def close(self) -> None:
        """Release everything, finalise the library and end its process, whatever its state. Raises nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.error is not None:
            return
        if not self._connection.is_ready:
            self._connection.fail("not waited for")
            return
        try:
            self._connection.exchange(FINISH, (), FINISHED, self._finished, self.allocated)
        except LibraryError as error:
            self._connection.report(str(error).removeprefix(f"{self.name}: "))
        finally:
            self._connection.end()
            self._servers.clear()

    def _finished(self, body: bytes) -> None:
        code, self.allocated, _ = RESULTS_HEAD.unpack_from(body)
        if code:
            self._connection.report(f"{returned(code)} in ompd_finalize")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _packed(
    calls: Sequence[Call], released: Sequence[int], forgotten: Sequence[int], added: Sequence[tuple[int, int]]
) -> list[bytes]:
    numbers = [*released, *forgotten, *itertools.chain.from_iterable(added)]
    parts = [
        BATCH_HEAD.pack(len(released), len(forgotten), len(added), len(calls)),
        b"".join(map(NUMBER.pack, numbers)),
    ]
    blob = bytearray()
    for function, arguments, makes in calls:
        words = []
        for argument in arguments:
            if isinstance(argument, Ref):
                words.append(argument.number)
            elif isinstance(argument, int):
                words.append(argument & 0xFFFFFFFFFFFFFFFF)
            else:
                words.append(len(blob) << 32 | len(argument))
                blob += argument
        parts.append(CALL.pack(function, len(words), makes, *words, *(0,) * (5 - len(words))))
    return [*parts, bytes(blob)]
