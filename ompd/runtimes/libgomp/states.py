"""The state of a thread, derived from its stack because libgomp keeps no states.

The state follows from the routine that user code called. The thread's registers show whether it waits at its team's
barrier or in its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.helpers.entries import asks_only, is_overhead
from ompd.contract.ompt import State
from ompd.contract.plugin import ThreadState
from ompd.errors import Unavailable
from ompd.runtimes.libgomp import barriers
from ompd.runtimes.libgomp.stacks import BEGIN, PARALLEL, STATES, Group

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Parallel, Thread

_DERIVED = "derived"
_UNNAMED = "the runtime's routine that the thread is in"


def thread_state(thread: Thread) -> ThreadState:
    """Return the state of *thread*.

    :raises Unavailable: if the thread's stack does not show the state
    """
    if thread.is_idle:
        return ThreadState(State.IDLE, None, _DERIVED)
    if thread.is_about_to_begin():
        return ThreadState(State.OVERHEAD, None, _DERIVED)
    if thread.has_left_region():
        return ThreadState(State.WAIT_BARRIER_IMPLICIT_PARALLEL, None, _DERIVED)
    return ThreadState(_derived(thread), None, _DERIVED)


def _derived(thread: Thread) -> State:
    stack = thread.stack
    group = stack.innermost_group()
    if group is None:
        if not stack.reaches_user and not stack.runs_other_code:
            raise Unavailable(f"the stack shows no code of the user's{': ' + stack.stopped if stack.stopped else ''}")
        return _working(thread)
    entry = group.entry or ""
    state = STATES.get(entry)
    if state is not None:
        return state
    if entry == BEGIN and group.code == PARALLEL:
        return State.WORK_PARALLEL  # the region's code jumped to this code
    at_barrier = _unnamed_barrier(thread, group)
    if at_barrier is not None:
        return at_barrier
    may_be_at_end = group.forks or not naming.is_entry(group.entry)
    if may_be_at_end and group.code is None and _is_at_end(thread, group):
        return _last_barrier(thread, group, _innermost(thread))
    if asks_only(entry):
        return _working(thread)
    if is_overhead(entry) and (not group.forks or thread.is_told_apart(group)):
        return State.WAIT_TASKWAIT if _waits_for_dependence(thread, group) else State.OVERHEAD
    is_named = group.entry is not None and entry != BEGIN
    raise Unavailable(f"{entry if is_named else _UNNAMED} does not tell it")


def _working(thread: Thread) -> State:
    # The thread is in user code, or in a library that user code calls.
    return State.WORK_PARALLEL if thread.inner else State.WORK_SERIAL


def _waits_for_dependence(thread: Thread, group: Group) -> bool:
    # Whether the thread is in GOMP_task and waits for the tasks on which an undeferred task depends. GOMP_task then
    # sets ``taskwait`` of the encountering task.
    if group.code is not None or not (group.entry or "").startswith("GOMP_task"):
        return False
    address = thread.view.pointer("task")
    return address is not None and thread.runtime.task_at(address).view.pointer("taskwait") is not None


def _innermost(thread: Thread) -> Parallel:
    return thread.runtime.team_at(thread.memberships[0].team)


def _unnamed_barrier(thread: Thread, group: Group) -> State | None:
    # The state of a thread that waits in an unnamed routine with a barrier, to which user code or the routine at the
    # region's end has jumped. None if the thread is in no such routine.
    if not thread.memberships or group.code is not None:
        return None
    region = _innermost(thread)
    if not barriers.is_at_unnamed_barrier(thread, group, region):
        return None
    has_left_region = thread.group_of(region.address) is group
    return _last_barrier(thread, group, region) if has_left_region else State.WAIT_BARRIER


def _last_barrier(thread: Thread, group: Group, region: Parallel) -> State:
    barrier = barriers.barrier_at_end(thread, group, region)
    return State.WAIT_BARRIER if barrier == barriers.INNER else State.WAIT_BARRIER_IMPLICIT_PARALLEL


def _is_at_end(thread: Thread, group: Group) -> bool:
    # Whether the thread waits at the end of its region. A wait for the team's barrier shows this, because the beginning
    # of a region has no barrier.
    if not thread.memberships:
        return False
    region = _innermost(thread)
    return thread.group_of(region.address) is not None and barriers.waits_for_team(thread, group, region)
