"""libgomp's routines by their names, as user code calls them."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.contract.helpers.entries import WAITING
from ompd.contract.ompt import State

BEGIN = "(a worker's first routine)"
PARALLEL, TASK, UNDEFERRED = "parallel", "task", "undeferred"

FORKS = "GOMP_parallel"
BEGIN_THREADS = ("start_thread", "clone", "__clone", "__clone3", "clone3")
UNDEFERRED_TASKS = ("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull")
# GOMP_taskwait and GOMP_taskwait_depend execute children of the task that called them (task.c: both take tasks of its
# children_queue alone), and none of a task that has ended: its children have no parent any more.
WAITS_FOR_CHILDREN = "GOMP_taskwait"
# These call the code of constructs that are neither regions nor tasks here.
TARGETS = ("GOMP_target", "GOACC_")
_NEITHER = ("GOMP_teams", *TARGETS)

STATES: Mapping[str, State] = {
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
"""What a thread waits for that is in one of these."""
BARRIERS = frozenset(name for name, state in STATES.items() if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT)
"""Those at whose end threads of a team wait for each other."""


def code_called(routine: str, entry: str | None) -> str | None:
    """Return what a routine calls, ``""`` for one without a name: ``parallel``, ``task`` or ``undeferred``, None if
    that is neither a region's code nor a task's.

    :param entry: the routine that user code called
    """
    if routine.startswith(FORKS):
        return PARALLEL
    # A routine without a name in that of a teams or target construct calls the code of that.
    if routine.startswith(_NEITHER) or (not routine and (entry or "").startswith(_NEITHER)):
        return None
    return UNDEFERRED if routine in UNDEFERRED_TASKS else TASK
