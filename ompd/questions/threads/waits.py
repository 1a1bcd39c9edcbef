"""The waits of OpenMP threads, by the records of the runtime: part of ``threads``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ompd import naming
from ompd.contract.ompt import State, is_wait
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.contract.plugin import ThreadState as KeptState
from ompd.contract.waits import LOCK_TYPES, BarrierState
from ompd.errors import LayoutUnavailable, NoCall, NotBegun, OmpdError, Unavailable
from ompd.model import RegionFunction, Wait
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.questions.facts.damage import is_damaged
from ompd.questions.facts.gathering import Facts
from ompd.session import Session

_KINDS: dict[int, Kind] = {
    State.WAIT_TASKWAIT: Kind.TASKWAIT,
    State.WAIT_TASKGROUP: Kind.TASKGROUP,
    State.WAIT_MUTEX: Kind.MUTEX,
    State.WAIT_LOCK: Kind.LOCK,
    State.WAIT_CRITICAL: Kind.CRITICAL,
    State.WAIT_ATOMIC: Kind.ATOMIC,
    State.WAIT_ORDERED: Kind.ORDERED,
    State.WAIT_TARGET: Kind.TARGET,
    State.WAIT_TARGET_MAP: Kind.TARGET,
    State.WAIT_TARGET_UPDATE: Kind.TARGET,
}
# States of threads at barriers of an unknown construct.
_BARRIERS_OF_CONSTRUCTS = frozenset(
    (State.WAIT_BARRIER, State.WAIT_BARRIER_IMPLEMENTATION, State.WAIT_BARRIER_IMPLICIT_WORKSHARE)
)
_CONSTRUCTS = ("copyprivate", "loop", "sections", "single")
_BARRIER_KEYS = ("arrived", "expected", "missing", "object", "value", "generation")
_OWNER_KEYS: tuple[str, ...] = ("owner", "owner_source", "owner_address", "owner_value", "owner_gone")
_LOCK_KEYS = ("object", "symbol", *_OWNER_KEYS)
_AT_NONE = "none of the team's barriers counts the thread: it has not arrived yet, or was released"


class Waits:
    """Reads the waits of one runtime's threads. Facts that all threads of a team share are read only once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._barriers: dict[str, Mapping[int, BarrierState] | OmpdError] = {}
        self._constructs: dict[str, RegionFunction | None] = {}
        self._tasks: dict[str, int | OmpdError] = {}
        self._at_barriers: dict[tuple[int, int | None], Wait] = {}  # by the barrier's id() and its unfinished tasks
        self._waits: dict[tuple[int, str | None], tuple[Wait, Wait]] = {}  # by id() and how: without and with how

    def of(
        self,
        state: KeptState | None,
        handle: ThreadHandle,
        region: ParallelHandle | None,
        facts: Facts,
        thread: int | None,
    ) -> Wait | None:
        """Return the wait of a thread, None if it does not wait. Note unknown parts in *facts*.

        :param thread: its native id, None if that is unknown
        """
        wait = self._of(state, handle, region, facts, thread)
        if wait is None:
            return None
        if state is not None and state.state in _BARRIERS_OF_CONSTRUCTS:
            construct = _kind_by_runtime(handle)
            wait = replace(wait, construct=construct if construct in _CONSTRUCTS else None)
        try:
            how = self._how(wait, region, thread) if thread is not None else None
        except OmpdError as error:
            how, facts.unavailable["wait.how"] = None, str(error)
        if how is None:
            facts.unavailable.setdefault("wait.how", "its registers do not show it, or what it waits on is lost")
        # Threads with the same wait share one record.
        shared = self._waits.get((id(wait), how))
        if shared is None:
            shared = self._waits[id(wait), how] = wait, replace(wait, how=how)
        return shared[1]

    def construct_of(self, region: ParallelHandle) -> RegionFunction | None:
        """Return the construct of a region, None if it is unknown."""
        if region.id not in self._constructs:
            try:
                self._constructs[region.id] = places.region_function(self._session, region)
            except OmpdError:
                self._constructs[region.id] = None
        return self._constructs[region.id]

    def _how(self, wait: Wait, region: ParallelHandle | None, thread: int) -> str | None:
        process = self._session.process
        if wait.kind is not Kind.BARRIER or region is None:
            return process.waiting.progress(thread)
        barriers = self._barriers_of(region)
        if isinstance(barriers, OmpdError):
            how = process.waiting.progress(thread)
            if how == "released":
                raise barriers  # the word has changed, but the change may release no thread
            return how
        how = process.waiting.progress(thread, barriers[thread].flags if thread in barriers else 0)
        # A thread that was woken at a barrier with unfinished tasks is not released: it looks for a task, and sleeps
        # again.
        return "blocked" if how == "released" and wait.unfinished_tasks else how

    def _of(
        self,
        state: KeptState | None,
        handle: ThreadHandle,
        region: ParallelHandle | None,
        facts: Facts,
        thread: int | None,
    ) -> Wait | None:
        if state is None:
            facts.unavailable["wait"] = facts.unavailable["wait_id"] = facts.unavailable["state"]
            return None
        if not is_wait(state.state):
            return _internal(handle) if state.state == State.OVERHEAD else None
        if State.WAIT_BARRIER <= state.state < State.WAIT_TASKWAIT:
            return self._barrier(region, facts, thread)
        if state.state == State.WAIT_ORDERED and _kind_by_runtime(handle) == Kind.DOACROSS:
            return _doacross(handle, facts)
        if State.WAIT_MUTEX <= state.state < State.WAIT_TARGET:
            return self._lock(state, handle, facts)
        if state.state == State.WAIT_TASKWAIT and _kind_by_runtime(handle) == Kind.DEPENDENCE:
            return Wait(Kind.DEPENDENCE)
        return Wait(_KINDS.get(state.state, Kind.UNKNOWN))

    def _barrier(self, region: ParallelHandle | None, facts: Facts, thread: int | None) -> Wait:
        # Return the wait at the barrier of the team at which the thread has arrived. If that is unknown, its fields are
        # None, and *facts* get the reasons.
        barriers = self._barriers_of(region) if region is not None else {}
        if isinstance(barriers, OmpdError):
            reason = str(barriers)
            if not isinstance(barriers, (NoCall, NotBegun)):
                facts.unreadable("who has arrived at its barrier", barriers)
        elif region is None:
            reason = facts.unavailable.get("parallel", "the thread is in no parallel region")
        elif thread is None:
            reason = "its thread of the process is unknown"
        elif thread not in barriers:
            reason = _AT_NONE
        elif (barrier := barriers[thread]).doubt is None:
            tasks = self._unfinished_tasks(region, facts) if not barrier.missing else None
            shared = self._at_barriers.get((id(barrier), tasks))
            if shared is None:
                shared = self._at_barriers[id(barrier), tasks] = Wait(
                    Kind.BARRIER,
                    object=barrier.address,
                    arrived=len(barrier.present),
                    expected=len(barrier.present) + len(barrier.missing),
                    missing=barrier.missing,
                    unfinished_tasks=tasks,
                    value=barrier.value,
                    generation=barrier.generation,
                )
            return shared
        else:
            # It is unknown which threads have arrived. Report the barrier all the same: its value and generation at two
            # looks show whether it was passed.
            wait = Wait(Kind.BARRIER, object=barrier.address, value=barrier.value, generation=barrier.generation)
            for key in _BARRIER_KEYS:
                if getattr(wait, key) is None:
                    facts.unavailable[f"wait.{key}"] = barrier.doubt
            return wait
        for key in _BARRIER_KEYS:
            facts.unavailable[f"wait.{key}"] = reason
        return Wait(Kind.BARRIER)

    def _barriers_of(self, region: ParallelHandle) -> Mapping[int, BarrierState] | OmpdError:
        # Return the barrier at which each thread of a region's team waits, by native id, or the error of reading them.
        if region.id not in self._barriers:
            try:
                barriers = region.barriers()
                self._barriers[region.id] = {thread: barrier for barrier in barriers for thread in barrier.present}
            except OmpdError as error:
                self._barriers[region.id] = error
        return self._barriers[region.id]

    def _unfinished_tasks(self, region: ParallelHandle, facts: Facts) -> int | None:
        if region.id not in self._tasks:
            try:
                self._tasks[region.id] = region.unfinished_tasks()
            except OmpdError as error:
                # If the layout lacks the place of the count, nothing is corrupt, so no warning is due.
                self._tasks[region.id] = Unavailable(str(error)) if isinstance(error, LayoutUnavailable) else error
        count = self._tasks[region.id]
        if isinstance(count, OmpdError):
            facts.missing("wait.unfinished_tasks", count)
            return None
        return count

    def _lock(self, state: KeptState, handle: ThreadHandle, facts: Facts) -> Wait:
        kind = _KINDS.get(state.state, Kind.UNKNOWN)
        try:
            lock = handle.lock()
            if lock is None:
                raise Unavailable("the thread's stack does not show which lock it waits for")
        except OmpdError as error:
            # If the layout of locks is unknown, nothing is corrupt, so no warning is due.
            lock_error = Unavailable(str(error)) if isinstance(error, LayoutUnavailable) else error
            for key in _LOCK_KEYS if state.wait_id is None else _LOCK_KEYS[1:]:
                facts.missing(f"wait.{key}", lock_error)
            if state.wait_id is None:
                facts.missing("wait_id", lock_error)
            return Wait(kind, object=state.wait_id)
        if state.wait_id is None:
            facts.unavailable["wait_id"] = "the runtime keeps no states in this process"
        kind = Kind.INTERNAL_LOCK if lock.kind == "internal" else Kind(lock.kind)
        symbol = lock_symbol(self._session, kind, lock.variable, is_unnamed=lock.is_unnamed)
        if symbol is None:
            facts.unavailable["wait.symbol"] = "the variable that stands for the lock was not found"
        owner_gone = lock.owner_gone
        if lock.owner_fault is not None:
            for key in _OWNER_KEYS:
                facts.missing(f"wait.{key}", lock.owner_fault)
        elif lock.owner is None:
            keys, reason = _OWNER_KEYS, "this kind of lock does not record its owner"
            if lock.owner_address is not None:
                keys, reason = _OWNER_KEYS[:2], owner_gone or "the owner that the runtime names was not found"
            for key in keys:
                facts.unavailable[f"wait.{key}"] = reason
            if lock.owner_address is not None and owner_gone is None:
                facts.unavailable["wait.owner_gone"] = "what the owner's word names was not found"
        if owner_gone is not None and is_damaged(self._session):
            owner_gone = None
            facts.unavailable["wait.owner_gone"] = "the target has lost something: it may be what has the lock"
        return Wait(
            kind,
            object=lock.address,
            symbol=symbol,
            owner=lock.owner,
            owner_source=None if lock.owner is None else "derived" if lock.is_searched else "runtime",
            owner_address=lock.owner_address,
            owner_value=lock.owner_value,
            owner_gone=owner_gone,
        )


def _doacross(handle: ThreadHandle, facts: Facts) -> Wait:
    try:
        lock = handle.lock()
        if lock is None or Kind(lock.kind) is not Kind.DOACROSS:
            raise Unavailable("for which iteration of the loop it waits is not known")
    except OmpdError as error:
        for key in ("object", "symbol", "owner", "owner_source"):
            facts.unavailable[f"wait.{key}"] = str(error)
        return Wait(Kind.DOACROSS)
    if lock.owner is None:
        facts.unavailable["wait.owner"] = "the runtime does not record who executes this iteration"
    source = None if lock.owner is None else "derived" if lock.is_searched else "runtime"
    return Wait(
        Kind.DOACROSS,
        object=lock.address,
        symbol=lock.name,
        owner=lock.owner,
        owner_source=source,
        loop=lock.loop,
        iteration=lock.iteration,
    )


def _kind_by_runtime(handle: ThreadHandle) -> str | None:
    try:
        return handle.wait_kind()
    except OmpdError:
        return None  # only its state is known


def lock_symbol(session: Session, kind: Kind, variable: int | None, *, is_unnamed: bool = False) -> str | None:
    """Return a lock's name, such as ``&lock`` or ``critical(name)``, None if its variable is unknown.

    :param variable: the address of the user's variable, None if it was not found
    :param is_unnamed: whether it is the critical section without a name
    """
    if is_unnamed:
        return "critical"
    if variable is None:
        return None
    place = session.process.places.locate(variable)
    if place.module is not None and kind is Kind.LOCK:
        locks = session.process.types.variables_of_type(place.module, LOCK_TYPES)
        expression = next((lock.expression for lock in locks if lock.address == variable), None)
        if expression is not None:
            return f"&{expression}"
    if place.symbol is None or place.symbol_address is None:
        return None
    critical = naming.critical_name(place.symbol)
    if critical is not None:
        return f"critical({critical})" if critical else "critical"
    offset = variable - place.symbol_address
    if kind is Kind.ONCE and not offset:
        return session.process.places.source_name(place.module, place.symbol)
    return f"&{place.symbol}" + (f"+{offset:#x}" if offset else "")


def _internal(handle: ThreadHandle) -> Wait | None:
    # Return the wait of a thread in the runtime's own code for one of the runtime's locks, None without one.
    try:
        lock = handle.lock()
    except OmpdError:
        return None
    return Wait(Kind.INTERNAL_LOCK, object=lock.address, symbol=lock.name) if lock and lock.kind == "internal" else None
