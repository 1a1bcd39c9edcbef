"""Entry points that code of gcc's, and the user's own, calls whatever runtime it runs on: libgomp has them, and libomp
and others stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ompd.contract.ompt import State

WAITING: Mapping[str, State] = {
    # Called for the directive, and at the end of worksharing constructs whose schedule is static.
    "GOMP_barrier": State.WAIT_BARRIER,
    "GOMP_barrier_cancel": State.WAIT_BARRIER,
    "GOMP_loop_end": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    "GOMP_loop_end_cancel": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    "GOMP_sections_end": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    "GOMP_sections_end_cancel": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    "GOMP_critical_start": State.WAIT_CRITICAL,
    "GOMP_critical_name_start": State.WAIT_CRITICAL,
    "omp_set_lock": State.WAIT_LOCK,
    "omp_set_nest_lock": State.WAIT_LOCK,
    "GOMP_ordered_start": State.WAIT_ORDERED,
    "GOMP_atomic_start": State.WAIT_ATOMIC,
    "GOMP_taskwait": State.WAIT_TASKWAIT,
    "GOMP_taskwait_depend": State.WAIT_TASKWAIT,
    "GOMP_taskgroup_end": State.WAIT_TASKGROUP,
}
"""What a thread waits for that is in one of these routines."""
