"""An OMPD library in a separate process: start, calls, callbacks, end."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ompd.contract.callbacks import Callbacks
from ompd.errors import LibraryError, OmpdError, Rc
from ompd.runtimes.hosted import protocol
from ompd.runtimes.hosted.api import Batch, Outcome, Ref, SpaceRef
from ompd.runtimes.hosted.connection import Connection, rc_of, returned
from ompd.runtimes.hosted.messages import Call, Callback, Malformed, Reply
from ompd.runtimes.hosted.process import Interface, Limits, Loadable, Loads
from ompd.runtimes.hosted.protocol import ADD, ANSWER_HEAD, COUNT, FORGET, RELEASE, signed
from ompd.runtimes.hosted.serving import Server
from ompd.runtimes.hosted.signatures import SIGNATURES, Function

__all__ = ["HostedLibrary", "Limits", "Loadable"]

_OMPD = Interface(
    protocol.OMPD, "an OMPD library", {number: signature.name for number, signature in SIGNATURES.items()}
)
_MAX_CALLS = 20_000
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


class HostedLibrary(Connection):
    """A running, initialised library. It can inspect any number of processes, one call at a time.

    :param warnings: gets each cleaned line that the library prints, and warnings about its misbehaviour
    :param waits: whether to wait until the library is ready. Otherwise the first use waits, like :meth:`wait`
    :raises LibraryError: if the library cannot be loaded or initialised
    """

    def __init__(
        self,
        loadable: Loads,
        *,
        limits: Limits | None = None,
        warnings: list[str] | None = None,
        waits: bool = True,
        program: Path | None = None,
    ) -> None:
        self._numbers = itertools.count(1)
        self._servers: dict[int, Server] = {}
        self._released: list[int] = []
        self._forgotten: list[int] = []
        self._added: list[tuple[int, int]] = []
        self._faults: dict[int, OmpdError] = {}
        self._is_closed = False
        super().__init__(loadable, _OMPD, limits=limits or Limits(), warnings=warnings, program=program)
        if waits:
            self.wait()

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
        outcomes: list[Outcome] = []
        for start in range(0, len(calls), _MAX_CALLS):
            outcomes += self._exchange(calls[start : start + _MAX_CALLS])
        return outcomes

    def _exchange(self, calls: Sequence[Call], further: int = 0) -> list[Outcome]:
        if self.error is None and self._is_closed:
            raise LibraryError(self.name, None, "it has been closed", has_ended=True)
        self.wait()
        self.check()
        released, self._released = self._released, []
        forgotten, self._forgotten = self._forgotten, []
        added, self._added = self._added, []
        self._faults.clear()
        self._expect(calls)
        # Contexts are added first, so that one exchange may add and forget the same context.
        first = [Call(ADD, context) for context in added]
        for function, numbers in ((RELEASE, released), (FORGET, forgotten)):
            if numbers:
                first.append(Call(function, (b"".join(map(COUNT.pack, numbers)),)))
        try:
            replies = self.make([*first, *calls], len(released) + further)
        finally:
            for number in forgotten:
                self._servers.pop(number, None)
        try:
            return self._outcomes(calls, replies[len(first) :])
        except Malformed as error:
            raise self.invalid() from error

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

    def answer(self, callback: Callback) -> bytes:
        server = self._servers.get(callback.context)
        if server is None:
            return ANSWER_HEAD.pack(Rc.BAD_INPUT, 0)
        first, second, _ = callback.words
        answer, fault = server.answer(callback.which, callback.thread, first, second, callback.raw)
        if fault is not None and len(self._faults) < _MAX_CALLS:
            self._faults[self._process.progress.calls & 0xFFFFFFFF] = fault
        return answer

    def _outcomes(self, calls: Sequence[Call], replies: Sequence[Reply]) -> list[Outcome]:
        return [self._outcome(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _outcome(self, call: Call, reply: Reply) -> Outcome:
        code, outcome, begun, words, rows = reply
        is_list = code == Rc.INCOMPLETE and call.function == Function.GET_ICV_FROM_SCOPE
        if outcome or (code != Rc.OK and not is_list):
            return Outcome(code, (), (), self._failed(call, code, outcome, self._faults.get(begun)))
        gives = SIGNATURES[call.function].gives
        if gives in _ROWS or rows:
            if gives != "r" and (gives != "s" or len(rows) != 1):
                raise Malformed("a result of another kind than the function has")
            return Outcome(code, (), rows, None)
        numbers = [
            signed(word) if is_signed else word for word, is_signed in zip(words, _SIGNED[call.function], strict=False)
        ]
        return Outcome(code, numbers, (), None)

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
        try:
            self._finish()
        finally:
            self._is_closed = True

    def _finish(self) -> None:
        if self.error is not None:
            return
        if not self.is_ready:
            self.fail("not waited for")
            return
        # Devices have higher numbers than their processes, and are forgotten before them.
        self._forgotten = sorted(self._servers, reverse=True)
        finalize = SIGNATURES[Function.FINALIZE].name
        try:
            outcomes = self._exchange(
                [Call(Function.FINALIZE, ())] if finalize in self.functions else [], self.allocated
            )
            if outcomes and outcomes[0].rc:
                self.report(f"{returned(outcomes[0].rc)} in {finalize}")
        except LibraryError as error:
            self.report(str(error).removeprefix(f"{self.name}: "))
        finally:
            self._process.end()
            self._servers.clear()
