"""What a thread is doing: libgomp keeps no states, so all are derived from what its stack shows.

Which of the runtime's routines user code called tells what a thread that is in one waits for; which barrier it is, the
team's or the pool's, the thread's registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ompd.contract.helpers.entries import WAITING, asks_only, is_overhead
from ompd.contract.ompt import State
from ompd.contract.plugin import ThreadState
from ompd.errors import Unavailable
from ompd.runtimes.libgomp import stacks

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.threads import Thread

DERIVED = "derived"

ROUTINE_STATES: Mapping[str, State] = {
    **WAITING,
    # The barriers of a single construct with copyprivate, and of reductions over tasks.
    "GOMP_single_copy_start": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_single_copy_end": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_workshare_task_reduction_unregister": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    # Fortran's
    "omp_set_lock_": State.WAIT_LOCK,
    "omp_set_nest_lock_": State.WAIT_LOCK,
    "GOMP_doacross_wait": State.WAIT_ORDERED,
    "GOMP_doacross_ull_wait": State.WAIT_ORDERED,
    "GOMP_taskloop": State.WAIT_TASKGROUP,
    "GOMP_taskloop_ull": State.WAIT_TASKGROUP,
}
# Those at whose end threads of a team wait for each other.
BARRIERS = frozenset(
    name for name, state in ROUTINE_STATES.items() if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT
)


def thread_state(thread: Thread) -> ThreadState:
    """Return what *thread* is doing.

    :raises Unavailable: if its stack does not tell
    """
    if thread.is_idle:
        return ThreadState(State.IDLE, None, DERIVED)
    if thread.is_about_to_begin():
        return ThreadState(State.OVERHEAD, None, DERIVED)
    if thread.has_left_region():
        return ThreadState(State.WAIT_BARRIER_IMPLICIT_PARALLEL, None, DERIVED)
    return ThreadState(_derived(thread), None, DERIVED)


def _derived(thread: Thread) -> State:
    group = stacks.innermost_group(thread)
    if group is None:
        if not stacks.reaches_user(thread) and not stacks.runs_other_code(thread):
            _, _, stopped = stacks.parsed(thread)
            raise Unavailable(f"the stack shows no code of the user's{': ' + stopped if stopped else ''}")
        return _working(thread)
    state = ROUTINE_STATES.get(group.entry or "")
    if state is not None:
        return state
    if group.entry == stacks.BEGIN and group.code == stacks.PARALLEL:
        return State.WORK_PARALLEL  # in what the region's code has jumped to
    at = _unnamed_barrier(thread, group)
    if at is not None:
        return at
    may_be_at_end = group.forks or not stacks.is_entry(group.entry)
    if may_be_at_end and group.code is None and _is_at_end(thread, group):
        return _last_barrier(thread, group)
    if asks_only(group.entry or ""):
        return _working(thread)
    if is_overhead(group.entry or "") and (not group.forks or stacks.is_told_apart(thread, group)):
        return State.WAIT_TASKWAIT if _waits_for_dependence(thread, group) else State.OVERHEAD
    is_named = group.entry is not None and group.entry != stacks.BEGIN
    routine = group.entry if is_named else "the runtime's routine that the thread is in"
    raise Unavailable(f"{routine} does not tell it")


def _working(thread: Thread) -> State:
    # In the user's own code, or in a library called from it: level 0 is outside of all regions.
    return State.WORK_PARALLEL if thread.inner else State.WORK_SERIAL


def _waits_for_dependence(thread: Thread, group: stacks.Group) -> bool:
    # A task that is not deferred is begun once those that it depends on are over; GOMP_task notes that it waits.
    if group.code is not None or not (group.entry or "").startswith("GOMP_task"):
        return False
    address = thread.view.pointer("task")
    return address is not None and thread.runtime.task_at(address).view.pointer("taskwait") is not None


def _unnamed_barrier(thread: Thread, group: stacks.Group) -> State | None:
    # User code has jumped to a routine with a barrier, so that nothing names it; or the region's end has.
    if not thread.memberships or group.code is not None:
        return None
    region = thread.runtime.team_at(thread.memberships[0].team)
    if not stacks.is_at_unnamed_barrier(thread, group, region):
        return None
    at = stacks.hosted(thread).get(region.address)
    has_left_region = at is not None and stacks.parsed(thread).groups[at] is group
    return _last_barrier(thread, group) if has_left_region else State.WAIT_BARRIER


def _last_barrier(thread: Thread, group: stacks.Group) -> State:
    region = thread.runtime.team_at(thread.memberships[0].team)
    at = stacks.barrier_at_end(thread, group, region)
    return State.WAIT_BARRIER if at == stacks.INNER else State.WAIT_BARRIER_IMPLICIT_PARALLEL


def _is_at_end(thread: Thread, group: stacks.Group) -> bool:
    # Whether it is the end of the region that it waits at: its beginning has no barrier.
    if not thread.memberships:
        return False
    region = thread.runtime.team_at(thread.memberships[0].team)
    return stacks.hosted(thread).get(region.address) is not None and stacks.waits_for_team(thread, group, region)
