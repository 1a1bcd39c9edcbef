"""Barriers of a team (``gomp_barrier_t``): who waits at which of the two that a team has.

A team has one structure with one generation and two counters (``bar.h``). ``awaited`` counts down the threads that come
to the barrier directive, to the end of a worksharing construct or to that of a reduction: these are one barrier, where
ever they are in the source. ``awaited_final`` counts those that come to the region's end. Threads of which some wait
at the one and some at the other wait for ever.
"""

from __future__ import annotations

from ompd.contract.waits import BarrierState
from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.libgomp.handles import Region, Thread
from ompd.runtimes.libgomp.stacks.routines import BARRIERS, PARALLEL, TASK
from ompd.runtimes.libgomp.waits.docks import FINAL, INNER, barrier_at_end, is_at_unnamed_barrier

# bar.h: what the low bits of a barrier's generation say
_TASK_PENDING, _WAITING_FOR_TASK, _CANCELLED = 1, 2, 4
# Who waits sleeps on the generation as it was. These two are set while others sleep on: a thread that is woken up looks
# for tasks, and sleeps again.
_NO_RELEASE = _TASK_PENDING | _WAITING_FOR_TASK
_PASSAGE = 8
_COUNTERS = {INNER: "barrier.awaited", FINAL: "barrier.awaited_final"}


def barriers_of(region: Region) -> tuple[BarrierState, ...]:
    """See :meth:`ParallelHandle.barriers`.

    Who waits at which barrier is told by the threads' stacks, and has to be what that barrier has counted.

    :raises Unavailable: if a thread's stack does not show at which barrier it is
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
        BarrierState.gathering(team, here, _doubt(region, kind, len(here)), _NO_RELEASE, _word(region, kind))
        for kind, here in present.items()
        if here
    )


def _barrier_of(thread: Thread, region: Region) -> tuple[str | None, bool]:
    # At which barrier its implicit task waits, and whether that is certain: it has called a routine at whose end there
    # is one, or its code is over.
    if not thread.memberships:
        return None, True  # a worker that has gone back to the pool has passed the barrier at the region's end
    stack, own = thread.stack, thread.group_of(region.address)
    if own is None and stack.runs_other_code:
        return None, True  # but for one that runs a task there: then the counts differ
    if own is None:
        raise Unavailable("where a thread of the team is in the region is not to be told from its stack")
    if own.code == TASK and stack.calls_its_own(own) is False:
        return INNER, False  # the region's code has jumped to where it executes tasks
    if own.code != PARALLEL:
        return barrier_at_end(stack, own, region), True
    for called in reversed(stack.groups[: stack.groups.index(own)]):
        if called.entry is None and called.code == TASK:
            return INNER, False  # tasks are executed in taskwait, too
        if called.entry in BARRIERS or is_at_unnamed_barrier(stack, called, region):
            return INNER, True
        if not stack.is_interrupted(called):
            break  # else the handler of the signal may have called a barrier
    return None, True


def _word(region: Region, kind: str) -> tuple[int, int, int]:
    # Its counter, and how often the team has passed one of its barriers: bar.h, the bits of the generation above those.
    view, name = region.barrier, _COUNTERS[kind]
    return view.address_of(name), view.unsigned(name), view.unsigned("barrier.generation") // _PASSAGE


def _counted(region: Region, kind: str) -> int:
    # How many threads have arrived, by the barrier itself. The last one sets the counter back, and has the others wait
    # until no task is left.
    view = region.barrier
    total, awaited = view.unsigned("barrier.total"), view.unsigned(_COUNTERS[kind])
    if total != region.nthreads:
        raise CorruptState(region.address, f"a barrier for {total} threads in a team of {region.nthreads}")
    if awaited > total:
        raise CorruptState(region.address, f"a barrier that awaits {awaited} of {total} threads")
    is_full = awaited == total and view.unsigned("barrier.generation") & _WAITING_FOR_TASK
    return total if is_full else total - awaited


def _doubt(region: Region, kind: str, seen: int) -> str | None:
    counted = _counted(region, kind)
    if seen == counted:
        return None
    if kind == INNER and region.barrier.unsigned("barrier.generation") & _CANCELLED and seen < counted:
        return None  # threads that left it when the region was cancelled are counted still
    return f"{seen} threads are seen at the barrier, which has counted {counted}: some are just arriving, or leaving"
