"""The barriers of a team (``gomp_barrier_t``) and of the pool, and which threads wait at them.

A team has one structure with one generation and two counters (``bar.h``). ``awaited`` counts down the threads that
arrive at a barrier directive, or at the end of a worksharing construct or a reduction. All these places in the source
share one barrier. ``awaited_final`` counts down the threads that arrive at the region's end. If some threads wait at
one barrier and some at the other, all wait for ever. Between regions a worker waits at the dock of its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.code_owners import RUNTIME
from ompd.contract.waits import BarrierState
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.stacks import BARRIERS, BEGIN, PARALLEL, TASK, Group

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Parallel, Thread
    from ompd.runtimes.libgomp.members import Member

# The two barriers of a team: FINAL at the region's end, INNER at all other places.
FINAL, INNER = "final", "inner"
_COUNTERS = {INNER: "barrier.awaited", FINAL: "barrier.awaited_final"}

# bar.h: the low bits of a barrier's generation (BAR_TASK_PENDING, BAR_WAITING_FOR_TASK, BAR_CANCELLED)
_TASK_PENDING, _WAITING_FOR_TASK, _CANCELLED = 1, 2, 4
# The bits of the generation that do not release a waiting thread. The thread sleeps on the generation. If one of these
# two bits changes, the thread wakes up, looks for tasks, and sleeps again.
_NO_RELEASE = _TASK_PENDING | _WAITING_FOR_TASK
# BAR_INCR: the bits above count the barriers that the team has passed.
_PASSAGE = 8


def barriers_of(region: Parallel) -> tuple[BarrierState, ...]:
    """Return the barriers of a region's team at which threads wait.

    The threads' stacks show which threads wait at which barrier. If a barrier's counter disagrees with the number of
    these threads, the result has a doubt.

    :raises Unavailable: if a thread's stack does not show at which barrier it waits
    """
    threads = [region.thread(number) for number in range(region.size())]
    present: dict[str, set[int]] = {kind: set() for kind in _COUNTERS}
    likely: set[int] = set()
    for thread in threads:
        kind, is_certain = _barrier_of(thread, region)
        if kind is not None:
            (present[kind] if is_certain else likely).add(thread.native)
    if likely and _counted(region, INNER) == len(present[INNER]) + len(likely):
        present[INNER] |= likely
    team = [thread.native for thread in threads]
    return tuple(
        BarrierState.gathering(team, waiting, _doubt(region, kind, len(waiting)), _NO_RELEASE, _word(region, kind))
        for kind, waiting in present.items()
        if waiting
    )


def _barrier_of(thread: Thread, region: Parallel) -> tuple[str | None, bool]:
    # The barrier at which the thread's implicit task waits, None if it waits at no barrier, and whether that is
    # certain. The barrier is certain if the task has called a routine that ends with a barrier, or if the task's code
    # is over.
    if not thread.memberships:
        return None, True  # a worker back in the pool has passed the barrier at the region's end
    stack, group = thread.stack, thread.group_of(region.address)
    if group is None and stack.runs_other_code:
        return None, True  # if the thread runs a task at a barrier, _doubt() reports it
    if group is None:
        raise Unavailable("where a thread of the team is in the region is not to be told from its stack")
    if group.code == TASK and stack.calls_its_own(group) is False:
        return INNER, False  # the region's code has jumped to a routine that executes tasks, perhaps at a barrier
    if group.code != PARALLEL:
        return barrier_at_end(thread, group, region), True
    for called in reversed(stack.groups[: stack.groups.index(group)]):
        if called.entry is None and called.code == TASK:
            return INNER, False  # uncertain: the unnamed routine executes tasks, which a taskwait does, too
        if called.entry in BARRIERS or is_at_unnamed_barrier(thread, called, region):
            return INNER, True
        if not stack.is_interrupted(called):
            break  # only a signal handler could have called a barrier further inside
    return None, True


def _word(region: Parallel, kind: str) -> tuple[int, int, int]:
    # The address and the value of a barrier's counter, and the number of barriers that the team has passed.
    view, name = region.barrier, _COUNTERS[kind]
    return view.address_of(name), view.unsigned(name), view.unsigned("barrier.generation") // _PASSAGE


def _counted(region: Parallel, kind: str) -> int:
    # The number of threads that have arrived, according to the barrier's own counter. The last thread resets the
    # counter. If it also sets _WAITING_FOR_TASK, all threads have arrived and wait until no task is left.
    view = region.barrier
    total, awaited = view.unsigned("barrier.total"), view.unsigned(_COUNTERS[kind])
    if total != region.nthreads:
        raise CorruptState(region.address, f"a barrier for {total} threads in a team of {region.nthreads}")
    if awaited > total:
        raise CorruptState(region.address, f"a barrier that awaits {awaited} of {total} threads")
    is_full = awaited == total and view.unsigned("barrier.generation") & _WAITING_FOR_TASK
    return total if is_full else total - awaited


def _doubt(region: Parallel, kind: str, arrived_count: int) -> str | None:
    counted = _counted(region, kind)
    if arrived_count == counted:
        return None
    if kind == INNER and region.barrier.unsigned("barrier.generation") & _CANCELLED and arrived_count < counted:
        return None  # threads that left because the region was cancelled are still counted
    counts = f"{arrived_count} threads are seen at the barrier, which has counted {counted}"
    return f"{counts}: some are just arriving, or leaving"


# The barrier of one thread, by the thread's stack


def is_docked(thread: Member) -> bool:
    """Return whether a thread is a worker that waits in the pool for its next region.

    :raises Unavailable: if the thread's registers do not show at which barrier it waits
    :raises CorruptState: if the thread's stack cannot be followed
    """
    stack = thread.stack
    outermost = stack.groups[-1] if stack.groups else None
    if outermost is None or outermost.entry != BEGIN:
        # A docked worker's stack has the worker's first routine outermost. If the stack could not be followed to its
        # outermost frame, the answer is unknown, unless user code or other code is on it.
        if not stack.runs_other_code and stack.stopped is not None and not stack.reaches_user:
            sp = stack.frames[-1].sp if stack.frames else 0
            unknown = "whether the thread is idle cannot be told, since its stack cannot"
            raise CorruptState(sp, f"{unknown}: {stack.stopped}")
        return False
    return outermost.code is None and _waits_at_dock(thread, outermost)


def _waits_at_dock(thread: Member, group: Group) -> bool:
    stack, layouts = thread.stack, thread.runtime.layouts
    barrier = layouts["gomp_team"].field("barrier.total").offset
    generation = layouts["gomp_team"].field("barrier.generation").offset - barrier
    dock_offset = layouts["gomp_thread_pool"].field("threads_dock.bar.generation").offset
    dock = thread.pool + dock_offset if thread.pool is not None else None
    at_team = thread.claims[-1].team + barrier + generation if thread.claims else None
    # If a signal interrupted the wait, only look at frames from the interrupted one outwards. The signal's handler may
    # wait for something else.
    first = group.inner if stack.is_interrupted(group) else 0
    frames = stack.frames[first : group.outer + 1]
    awaited = stack.process.futex_word(frames[0]) if first else stack.futex_word()
    if awaited is not None:
        return awaited == dock  # otherwise it waits at the team's barrier, or for a lock
    # A spinning thread makes no system call. One of its registers holds the address of the generation, or of the
    # structure that contains the generation.
    innermost = next((frame for frame in frames if stack.owners.of(frame) == RUNTIME), None)
    values = set(innermost.registers.values()) if innermost is not None else set()
    for less in (0, generation):
        matching = [word for word in (dock, at_team) if word is not None and word - less in values]
        if len(matching) == 1:
            return matching[0] == dock
    raise Unavailable("the thread's registers do not show whether it waits at its team's barrier or in the pool")


def waits_for_team(thread: Member, group: Group, region: Parallel) -> bool:
    """Return whether the routine of *group* holds the address of the barrier of a region's team, or of the barrier's
    generation.
    """
    stack = thread.stack
    awaited = stack.process.futex_word(stack.frames[group.inner])
    words = _words_of_barrier(region)
    return awaited in words if awaited is not None else not words.isdisjoint(stack.waiting_words(group))


def is_forming(primary: Member, region: Parallel) -> bool:
    """Return whether the primary thread of a region is still creating the team's other threads.

    The primary thread is then in the routine that began the region, and at none of the region's barriers.
    """
    try:
        group = primary.stack.innermost_group()
        if group is None or not group.forks or group.code is not None:
            return False
        return not waits_for_team(primary, group, region)
    except OmpdError:
        return False


def is_at_unnamed_barrier(thread: Member, group: Group, region: Parallel) -> bool:
    """Return whether a thread waits at a region's barrier in an unnamed routine, to which user code has jumped."""
    if group.entry is not None:
        return False
    stack = thread.stack
    words, awaited = _words_of_barrier(region), stack.futex_word()
    if awaited is None:
        return not words.isdisjoint(stack.frames[group.inner].registers.values())
    return awaited in words


def _words_of_barrier(region: Parallel) -> set[int]:
    return {region.view.address_of(f"barrier.{name}") for name in ("total", "generation")}


def barrier_at_end(thread: Member, group: Group, region: Parallel) -> str | None:
    """Return the barrier at which a thread waits after leaving its region's code, None if it waits at no barrier.

    This is the barrier of the region's end, unless the region's code left by a tail call to a routine with a barrier.
    After such a tail call, the outermost routine's call is the one of the region's code, through a pointer.
    """
    if group.code != TASK and not waits_for_team(thread, group, region):
        return None
    direct = thread.stack.calls_its_own(group)
    if direct is None:  # choose the barrier whose counter shows that a thread has arrived
        total = region.barrier.unsigned("barrier.total")
        inner, final = (region.barrier.unsigned(_COUNTERS[kind]) != total for kind in (INNER, FINAL))
        return INNER if inner and not final else FINAL
    return FINAL if direct else INNER
