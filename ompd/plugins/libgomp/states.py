"""What a thread is doing: libgomp keeps no states, so all are derived from what its stack shows.

Which of the runtime's routines user code called tells what a thread that is in one waits for; which barrier it is, the
team's or the pool's, the thread's registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ompd.contract.ompt import State
from ompd.contract.plugin import ThreadState
from ompd.errors import Unavailable
from ompd.plugins.entries import WAITING
from ompd.plugins.libgomp import stacks

if TYPE_CHECKING:
    from ompd.plugins.libgomp.threads import Thread

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
    return ThreadState(_derived(thread), None, DERIVED)


def _derived(thread: Thread) -> State:
    group = stacks.innermost_group(thread)
    if group is None:
        if not stacks.reaches_user(thread) and not stacks.runs_other_code(thread):
            _, _, stopped = stacks.parsed(thread)
            raise Unavailable(f"the stack shows no code of the user's{': ' + stopped if stopped else ''}")
        # In the user's own code, or in a library called from it: level 0 is outside of all regions.
        return State.WORK_PARALLEL if thread.memberships else State.WORK_SERIAL
    state = ROUTINE_STATES.get(group.entry or "")
    if state is not None:
        return state
    if group.entry == stacks.BEGIN and group.code == stacks.PARALLEL:
        return State.WORK_PARALLEL  # in what the region's code has jumped to
    if group.forks and group.code is None and _is_at_end(thread, group):
        return _last_barrier(thread)
    raise Unavailable(f"{group.entry or 'the innermost routine of the runtime'} does not tell it")


def _last_barrier(thread: Thread) -> State:
    # A region's code may end with a jump to a routine with a barrier of its own: the other one of the team's two.
    view = thread.runtime.team_at(thread.memberships[0].team).barrier
    total = view.unsigned("barrier.total")
    plain, final = (view.unsigned(f"barrier.{name}") != total for name in ("awaited", "awaited_final"))
    return State.WAIT_BARRIER if plain and not final else State.WAIT_BARRIER_IMPLICIT_PARALLEL


def _is_at_end(thread: Thread, group: stacks.Group) -> bool:
    # Whether it is the end of the region that it waits at: its beginning has no barrier.
    if not thread.memberships:
        return False
    region = thread.runtime.team_at(thread.memberships[0].team)
    return stacks.hosted(thread).groups.get(region.address) is not None and stacks.waits_for_team(thread, group, region)
