"""What a thread waits for, as far as the runtime tells: part of ``threads``."""

from __future__ import annotations

from dataclasses import replace

from ompd import outlined
from ompd.contract.ompt import State, is_wait
from ompd.contract.plugin import (
    LOCK_TYPES,
    AddressSpace,
    BarrierState,
    LockState,
    ParallelHandle,
    RuntimeInternals,
    ThreadHandle,
)
from ompd.contract.plugin import ThreadState as KeptState
from ompd.errors import LayoutUnavailable, OmpdError, Unavailable
from ompd.model import Wait
from ompd.questions.facts import Facts
from ompd.session import Session

_KINDS: dict[int, str] = {
    State.WAIT_TASKWAIT: "taskwait",
    State.WAIT_TASKGROUP: "taskgroup",
    State.WAIT_MUTEX: "mutex",
    State.WAIT_LOCK: "lock",
    State.WAIT_CRITICAL: "critical",
    State.WAIT_ATOMIC: "atomic",
    State.WAIT_ORDERED: "ordered",
    State.WAIT_TARGET: "target",
    State.WAIT_TARGET_MAP: "target",
    State.WAIT_TARGET_UPDATE: "target",
}
_BARRIER_KEYS = ("arrived", "expected", "missing")
_LOCK_KEYS = ("object", "symbol", "owner", "owner_source")


class Waits:
    """Answers for the threads of one runtime; what is the same for a whole team is asked once."""

    def __init__(self, session: Session, space: AddressSpace) -> None:
        self._session = session
        self._space = space
        self._barriers: dict[str, BarrierState | OmpdError | None] = {}

    def of(
        self,
        state: KeptState | None,
        handle: ThreadHandle,
        region: ParallelHandle | None,
        facts: Facts,
        thread: int | None,
    ) -> Wait | None:
        """Return what the thread waits for, None if it does not; parts that cannot be told are noted in *facts*.

        :param thread: its native id, None if that is not known
        """
        wait = self._of(state, handle, region, facts)
        if wait is None:
            return None
        try:
            how = self._session.process.progress(thread) if thread is not None else None
        except OmpdError as error:
            how, facts.unavailable["wait.how"] = None, str(error)
        if how is None:
            facts.unavailable.setdefault("wait.how", "its registers do not tell, or what it waits on is lost")
        return replace(wait, how=how)

    def _of(
        self, state: KeptState | None, handle: ThreadHandle, region: ParallelHandle | None, facts: Facts
    ) -> Wait | None:
        if state is None:
            facts.unavailable["wait"] = facts.unavailable["wait_id"] = facts.unavailable["state"]
            return None
        if not is_wait(state.state):
            return None
        if State.WAIT_BARRIER <= state.state < State.WAIT_TASKWAIT:
            return self._barrier(region, facts)
        if State.WAIT_MUTEX <= state.state < State.WAIT_TARGET:
            return self._lock(state, handle, facts)
        return Wait(_KINDS.get(state.state, "unknown"))

    def _internals(self) -> RuntimeInternals:
        return self._space.internals()

    def _barrier(self, region: ParallelHandle | None, facts: Facts) -> Wait:
        found = self._asked_barrier(region) if region is not None else None
        if isinstance(found, BarrierState):
            return Wait("barrier", arrived=found.arrived, expected=found.expected, missing=found.missing)
        reason = str(found) if found is not None else "no thread of the team is at a barrier any more: it is over"
        for key in _BARRIER_KEYS:
            facts.unavailable[f"wait.{key}"] = reason
        return Wait("barrier")

    def _asked_barrier(self, region: ParallelHandle) -> BarrierState | OmpdError | None:
        if region.id not in self._barriers:
            try:
                self._barriers[region.id] = self._internals().barrier(region)
            except OmpdError as error:
                self._barriers[region.id] = error
        return self._barriers[region.id]

    def _lock(self, state: KeptState, handle: ThreadHandle, facts: Facts) -> Wait:
        kind = _KINDS.get(state.state, "unknown")
        try:
            lock = self._internals().lock(handle)
            if lock is None:
                raise Unavailable("the thread's stack does not show which lock it asks for")
        except OmpdError as error:
            # That nothing tells where a lock keeps what is asked for is no damage.
            untold = Unavailable(str(error)) if isinstance(error, LayoutUnavailable) else error
            for key in _LOCK_KEYS if state.wait_id is None else _LOCK_KEYS[1:]:
                facts.untold(f"wait.{key}", untold)
            if state.wait_id is None:
                facts.untold("wait_id", untold)
            return Wait(kind, object=state.wait_id)
        if state.wait_id is None:
            facts.unavailable["wait_id"] = "the runtime keeps no states in this process"
        symbol = self._symbol(lock)
        if symbol is None:
            facts.unavailable["wait.symbol"] = "the variable that stands for the lock was not found"
        if lock.owner is None:
            for key in ("owner", "owner_source"):
                facts.unavailable[f"wait.{key}"] = "this kind of lock does not name its holder"
        return Wait(
            lock.kind,
            object=lock.address,
            symbol=symbol,
            owner=lock.owner,
            owner_source="runtime" if lock.owner is not None else None,
        )

    def _symbol(self, lock: LockState) -> str | None:
        if lock.is_unnamed:
            return "critical"
        if lock.variable is None:
            return None
        place = self._session.process.locate(lock.variable)
        if place.module is not None and lock.kind == "lock":
            known = self._session.process.variables_of_type(place.module, LOCK_TYPES)
            expression = next((v.expression for v in known if v.address == lock.variable), None)
            if expression is not None:
                return f"&{expression}"
        if place.symbol is None or place.symbol_address is None:
            return None
        critical = outlined.critical_name(place.symbol)
        if critical is not None:
            return f"critical({critical})" if critical else "critical"
        offset = lock.variable - place.symbol_address
        return f"&{place.symbol}" + (f"+{offset:#x}" if offset else "")
