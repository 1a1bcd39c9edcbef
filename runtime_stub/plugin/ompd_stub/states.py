"""States of threads: the state that the stub keeps (2015's numbers), or else derived from the called routine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.helpers.entries import WAITING, asks_only, is_overhead
from ompd.contract.ompt import FROM_2015, State, is_wait
from ompd.contract.plugin import ThreadState
from ompd.errors import CorruptState, Unavailable
from ompd_stub import stacks

if TYPE_CHECKING:
    from ompd_stub.threads import Thread

_ROUTINES = {
    **WAITING,
    "GOMP_single_copy_start": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_single_copy_end": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_taskloop": State.WAIT_TASKGROUP,
    "GOMP_taskloop_ull": State.WAIT_TASKGROUP,
}
# stub_task.at_barrier, an enum stub_barrier_kind: the kind of barrier at which the thread counts as arrived.
_BARRIERS = {
    1: State.WAIT_BARRIER_EXPLICIT,
    2: State.WAIT_BARRIER_IMPLICIT,
    3: State.WAIT_BARRIER_IMPLICIT_PARALLEL,
}


def thread_state(thread: Thread) -> ThreadState:
    """Return the state of *thread*.

    :raises CorruptState: if the runtime's number is no state
    :raises Unavailable: if the runtime keeps no states, and the stack does not show one
    """
    if not thread.runtime.keeps_states():
        return ThreadState(_derived(thread), None, "derived")
    kept = thread.view.unsigned("state")
    if kept not in FROM_2015:
        raise CorruptState(thread.address, f"thread in state {kept:#x}")
    state = FROM_2015[kept]
    wait_id = thread.view.unsigned("wait_id") if is_wait(state) else 0
    return ThreadState(state, wait_id or None, "runtime")


def _derived(thread: Thread) -> State:
    if thread.team is None:
        return State.IDLE
    if thread.view.pointer("waits_for_turn") is not None:
        return State.WAIT_ORDERED
    task = thread.current_task()
    barrier = task.view.signed("at_barrier") if task is not None and task.kind() == "implicit" else 0
    if barrier:
        return _BARRIERS.get(barrier, State.WAIT_BARRIER)
    entry = "" if stacks.runs_no_routine(thread) else stacks.innermost_entry(thread)
    if not entry or asks_only(entry):
        return State.WORK_PARALLEL if thread.team.level else State.WORK_SERIAL
    state = _ROUTINES.get(entry.removesuffix("_"))
    if state is not None:
        return state
    if is_overhead(entry) or (task is not None and not stacks.runs_code_of(thread, task)):
        return State.OVERHEAD  # the task's code has ended, or has not begun
    raise Unavailable(f"the runtime keeps no states in this process (OMP_DEBUG=on makes it), and {entry} does not tell")
