"""What threads wait for and what tasks are queued: the optional protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_signed
from ompd.contract.plugin import BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState, MemoryFault, Unavailable
from ompd.runtimes.libgomp import barriers, stacks
from ompd.runtimes.libgomp.regions import Region
from ompd.runtimes.libgomp.tasks import MAX_TASKS
from ompd.runtimes.libgomp.threads import Thread

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime

# A mutex is 0 while it is free, 1 while it is held, -1 while it is held and somebody waits.
_HELD = (1, -1)
_PLAIN_LOCKS = ("omp_set_lock", "omp_set_lock_")
_NEST_LOCKS = ("omp_set_nest_lock", "omp_set_nest_lock_")


class Internals:
    """The optional protocol for one runtime; see :class:`ompd.contract.plugin.RuntimeInternals`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process

    # Barriers

    def barriers(self, handle: ParallelHandle) -> Sequence[BarrierState]:
        """Return who waits at the barrier of a region's end, and who at the team's other one.

        :raises Unavailable: if a thread's stack does not show at which it is
        """
        return barriers.barriers_of(_region(handle))

    def unfinished_tasks(self, handle: ParallelHandle) -> int:
        """See :meth:`RuntimeInternals.unfinished_tasks`: ``task_count``, which leaves out those that wait for others.

        :raises CorruptState: if there are more than any program has
        """
        region = _region(handle)
        view = StructView(self._runtime.heap, self._runtime.layouts["gomp_team"], region.address)
        count = view.unsigned("task_count")
        if count > MAX_TASKS:
            raise CorruptState(region.address, f"team with {count} tasks")
        return count

    # Locks

    def lock(self, handle: ThreadHandle) -> LockState | None:
        """Return the lock that a thread waits for, by the routine that it called.

        :raises Unavailable: if its registers show none, or several
        """
        thread = _thread(handle)
        group = stacks.innermost_group(thread)
        if group is None or group.entry is None:
            return None
        entry = group.entry
        if entry == "GOMP_ordered_start":
            return self._ordered(thread)
        if entry in _PLAIN_LOCKS or entry in _NEST_LOCKS:
            address = self._mutex(thread, group, users=True)
            owner = self._nest_owner(address) if entry in _NEST_LOCKS else None
            return LockState(address, "lock", owner, (), address)
        if entry == "GOMP_critical_name_start":
            address = self._mutex(thread, group, users=True)
            return LockState(address, "critical", None, (), address)
        if entry in ("GOMP_critical_start", "GOMP_atomic_start"):
            address = self._mutex(thread, group, users=False)
            kind = "critical" if entry == "GOMP_critical_start" else "atomic"
            return LockState(address, kind, None, (), None, is_unnamed=kind == "critical")
        return None

    def _mutex(self, thread: Thread, group: stacks.Group, *, users: bool) -> int:
        # The word that it sleeps on; of one that spins, the only held mutex that its registers lead to.
        awaited = stacks.futex_word(thread)
        if awaited is not None:
            return awaited
        found = [word for word in stacks.waiting_words(thread, group) if self._is_held(word, users)]
        if len(found) != 1:
            raise Unavailable("the thread's registers do not show which lock it asks for")
        return found[0]

    def _is_held(self, address: int, users: bool) -> bool:
        if address % 4 or not address:
            return False
        module = self._process.module_at(address)
        if users == (module is self._runtime.module) or (module is not None and module.is_system_library):
            return False
        try:
            return read_signed(self._process, address, 4) in _HELD
        except (MemoryFault, CorruptState):
            return False

    def _nest_owner(self, address: int) -> int | None:
        # omp_nest_lock_t.owner is the address of the ICVs of the task that holds it.
        layout = self._runtime.layouts["omp_nest_lock_t"]
        owner = StructView(self._process, layout, address).pointer("owner")
        if owner is None:
            return None
        task = owner - self._runtime.layouts["gomp_task"].field("icv").offset
        for known in (self._runtime.implicit_tasks, self._runtime.current_tasks, self._runtime.explicit_tasks):
            if task in known:
                holder = self._runtime.task_at(task).thread()
                return holder.native if holder is not None else None
        return None

    def _ordered(self, thread: Thread) -> LockState:
        # Threads take their turns by semaphores, each its own; the loop's work share tells whose turn it is.
        semaphore = thread.view.address_of("release")
        share = thread.view.pointer("ts.work_share")
        owner: int | None = None
        if share is not None and thread.memberships:
            view = StructView(self._runtime.heap, self._runtime.layouts["gomp_work_share"], share)
            number = view.signed("ordered_owner")
            region = self._runtime.team_at(thread.memberships[0].team)
            if 0 <= number < region.nthreads and number != thread.memberships[0].number:
                owner = region.thread(number).native
        return LockState(semaphore, "ordered", owner, ())

    # Tasks

    def queued_tasks(self) -> Iterator[TaskHandle]:
        """Yield the explicit tasks that are not over, those that wait for a dependence or for an event among them."""
        return self._runtime.iter_explicit_tasks()

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """Return none: :meth:`queued_tasks` has them, too."""
        return ()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """See :meth:`RuntimeInternals.unlisted_tasks`: by ``task_count``, of teams that nobody is changing it of."""
        runtime = self._runtime
        known: dict[str, int] = {}
        for task in runtime.found_tasks.values():
            region = task.parallel() if task.is_counted else None
            if region is not None:
                known[region.id] = known.get(region.id, 0) + 1
        found: dict[str, int] = {}
        for team in runtime.live_teams if not runtime.faults else ():
            view = StructView(runtime.heap, runtime.layouts["gomp_team"], team)
            region = runtime.team_at(team)
            if not view.unsigned("task_lock") and view.unsigned("task_count") > known.get(region.id, 0):
                found[region.id] = view.unsigned("task_count") - known.get(region.id, 0)
        return found

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
        """Return none: libgomp keeps no copies."""
        return ()


def _region(handle: ParallelHandle) -> Region:
    if not isinstance(handle, Region):
        raise TypeError(f"not a region of libgomp's: {handle!r}")
    return handle


def _thread(handle: ThreadHandle) -> Thread:
    if not isinstance(handle, Thread):
        raise TypeError(f"not a thread of libgomp's: {handle!r}")
    return handle
