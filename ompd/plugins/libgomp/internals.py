"""What threads wait for and what tasks are queued: the optional protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_signed
from ompd.contract.plugin import BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState, MemoryFault, Unavailable
from ompd.plugins.libgomp import stacks, states
from ompd.plugins.libgomp.regions import Region
from ompd.plugins.libgomp.threads import Thread

if TYPE_CHECKING:
    from ompd.plugins.libgomp.plugin import Runtime

# bar.h: what the low bits of a barrier's counter say
_WAITING_FOR_TASK = 2
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

    def barrier(self, handle: ParallelHandle) -> BarrierState | None:
        """Return who has arrived at the barrier that a team gathers at, by the stacks of its threads.

        :raises Unavailable: if the barrier's own count is another one: then threads were caught on their way
        """
        region = _region(handle)
        arrived: list[int] = []
        missing: list[int] = []
        for number in range(region.size()):
            thread = region.thread(number)
            (arrived if self._has_arrived(thread, region) else missing).append(thread.native)
        if not arrived:
            return None
        counted = self._counted(region)
        if len(arrived) not in counted:
            raise Unavailable(
                f"{len(arrived)} threads are seen at the team's barrier, which has counted {counted[0]}: they were on"
                " their way"
            )
        return BarrierState(len(arrived), region.size(), tuple(missing))

    def _has_arrived(self, thread: Thread, region: Region) -> bool:
        # Its implicit task has called a routine at whose end there is a barrier, or its code is over.
        if not thread.memberships:
            return True  # a worker that has gone back to the pool has passed the barrier at the region's end
        at = stacks.hosted(thread).groups.get(region.address)
        if at is None and stacks.runs_other_code(thread):
            return False  # but for one that runs a task there: then the counts differ
        if at is None:
            raise Unavailable("where a thread of the team is in the region is not to be told from its stack")
        groups = stacks.parsed(thread).groups
        if groups[at].code != stacks.PARALLEL:
            return stacks.waits_for_team(thread, groups[at], region)
        return at > 0 and groups[at - 1].entry in states.BARRIERS

    def _counted(self, region: Region) -> tuple[int, ...]:
        # How many of its threads each of the team's two barriers has counted: that of the region's end has a counter of
        # its own. The last one to arrive counts for all, and has the others wait until no task is left.
        view = region.barrier
        total = view.unsigned("barrier.total")
        if total != region.nthreads:
            raise CorruptState(region.address, f"a barrier for {total} threads in a team of {region.nthreads}")
        counts = []
        for member in ("barrier.awaited", "barrier.awaited_final"):
            awaited = view.unsigned(member)
            if awaited > total:
                raise CorruptState(region.address, f"a barrier that awaits {awaited} of {total} threads")
            if awaited != total:
                counts.append(total - awaited)
        if view.unsigned("barrier.generation") & _WAITING_FOR_TASK:
            counts.append(total)
        return tuple(counts) or (0,)

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

    def queued_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks that are not over, those that wait for a dependence or for an event among them."""
        return tuple(self._runtime.explicit_tasks.values())

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """Return none: :meth:`queued_tasks` has those with a priority, too."""
        return ()

    def task_source(self, handle: TaskHandle) -> str | None:
        """gcc notes nothing of constructs."""

    def region_source(self, handle: ParallelHandle) -> str | None:
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
