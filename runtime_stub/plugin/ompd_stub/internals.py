"""Locks, barriers and queues: the optional protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.contract.memory import StructView
from ompd.contract.plugin import BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState
from ompd_stub.handles import MAX_TASKS, Region, Registry, Team, Thread
from ompd_stub.threadprivate import Threadprivate

# enum stub_lock_kind
_LOCK, _NEST_LOCK, _CRITICAL, _UNNAMED, _ATOMIC = 1, 2, 3, 4, 5
_KINDS = {_LOCK: "lock", _NEST_LOCK: "lock", _CRITICAL: "critical", _UNNAMED: "critical", _ATOMIC: "atomic"}


class Internals:
    """See :class:`ompd.contract.plugin.RuntimeInternals`."""

    def __init__(self, runtime: Registry, threadprivate: Threadprivate) -> None:
        self._runtime = runtime
        self._threadprivate = threadprivate

    def lock(self, handle: ThreadHandle) -> LockState | None:
        """Return what is in ``waits_for``, or, of a thread that waits for its turn, the loop."""
        thread = _thread(handle)
        address = thread.view.pointer("waits_for")
        if address is not None:
            return self._lock(address)
        work = thread.view.pointer("waits_for_turn")
        if work is None:
            return None
        view = self._runtime.view("stub_work", work)
        owner = view.pointer("ordered_owner")
        return LockState(work, "ordered", self._runtime.thread_at(owner).native if owner is not None else None, ())

    def _lock(self, address: int) -> LockState:
        view = self._runtime.view("stub_lock", address)
        kind = view.unsigned("kind")
        if kind not in _KINDS:
            raise CorruptState(address, f"lock of kind {kind}")
        owner = view.pointer("owner")
        return LockState(
            address,
            _KINDS[kind],
            self._runtime.thread_at(owner).native if owner is not None else None,
            self._waiters(view),
            view.pointer("variable"),
            is_unnamed=kind == _UNNAMED,
        )

    def _waiters(self, view: StructView) -> tuple[int, ...]:
        found: dict[int, int] = {}
        here = view.pointer("first_waiter")
        while here is not None:
            if here in found:
                raise CorruptState(view.address, "the line of those who wait for a lock does not end")
            thread = self._runtime.thread_at(here)
            found[here] = thread.native
            here = thread.view.pointer("next_waiter")
        return tuple(found.values())

    def barriers(self, handle: ParallelHandle) -> Sequence[BarrierState]:
        """Return who is noted to have arrived (``at_barrier``). A team has one barrier, whatever threads come for.

        :raises CorruptState: if it has counted more than there are
        """
        team = _region(handle).team
        barrier = self._runtime.embedded(team.view, "barrier", "stub_barrier")
        arrived, expected = barrier.signed("arrived"), barrier.signed("expected")
        if expected != team.size or not 0 <= arrived <= expected:
            raise CorruptState(
                team.address, f"barrier where {arrived} of {expected} have arrived, of a team of {team.size}"
            )
        members = [team.thread(number).native for number in range(team.size)]
        here = [self._runtime.task_at(task).view.signed("at_barrier") for task in team.implicit]
        present = {member for member, is_here in zip(members, here, strict=True) if is_here}
        doubt = None
        if len(present) != arrived:
            doubt = f"{len(present)} threads are at a barrier that has counted {arrived}: one is on its way"
        return (BarrierState.gathering(members, present, doubt),) if present or doubt is not None else ()

    def unfinished_tasks(self, handle: ParallelHandle) -> int:
        """See :meth:`RuntimeInternals.unfinished_tasks`: what the team's implicit tasks have generated."""
        team = _region(handle).team
        return sum(self._runtime.task_at(task).unfinished_children() for task in team.implicit)

    def queued_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks that are not complete, those in no queue and those that have begun among them.

        :raises CorruptState: if a queue, or a list of children, does not end
        """
        for team in self._runtime.teams.values():
            self.check_queue(team)
        return [task for task in self._runtime.all_tasks() if task.kind() == "explicit"]

    def check_queue(self, team: Team) -> None:
        """Make sure that the queue of a team's tasks ends.

        :raises CorruptState: if not
        """
        here, seen = team.view.pointer("first_queued"), set[int]()
        while here is not None:
            if here in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(team.address, "the queue of a team's tasks does not end")
            seen.add(here)
            here = self._runtime.task_at(here).view.pointer("next_queued")

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """Return none: :meth:`queued_tasks` has them, too."""
        return ()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return none: every task has the one that generated it, which is kept for it."""
        return {}

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """Return none: :meth:`queued_tasks` has those with a priority, too."""
        return ()

    def task_source(self, handle: TaskHandle) -> str | None:
        """gcc notes nothing of constructs."""

    def region_source(self, handle: ParallelHandle) -> str | None:
        """gcc notes nothing of constructs."""

    def barrier_source(self, handle: ThreadHandle) -> str | None:
        """gcc notes nothing of constructs."""

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`RuntimeInternals.threadprivate_copies`."""
        return self._threadprivate.copies()


def _thread(handle: ThreadHandle) -> Thread:
    if not isinstance(handle, Thread):
        raise TypeError(f"not a thread of the stub's: {handle!r}")
    return handle


def _region(handle: ParallelHandle) -> Region:
    if not isinstance(handle, Region):
        raise TypeError(f"not a region of the stub's: {handle!r}")
    return handle
