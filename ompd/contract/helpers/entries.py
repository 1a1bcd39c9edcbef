"""Entry points of libgomp, which gcc's code and user code call. Other runtimes have them, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ompd.contract.ompt import State

WAITING: Mapping[str, State] = {
    # gcc calls GOMP_barrier for the directive, and at the end of worksharing constructs whose schedule is static.
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
"""The state of a thread that executes one of these routines."""

_KINDS: Mapping[str, str] = {
    "GOMP_taskwait_depend": "dependence",
    "__kmpc_omp_wait_deps": "dependence",
    "__kmpc_omp_taskwait_deps_51": "dependence",
    "GOMP_doacross_wait": "doacross",
    "GOMP_doacross_ull_wait": "doacross",
    "__kmpc_doacross_wait": "doacross",
    "GOMP_loop_end": "loop",
    "GOMP_loop_end_cancel": "loop",
    "GOMP_sections_end": "sections",
    "GOMP_sections_end_cancel": "sections",
    "GOMP_single_copy_start": "copyprivate",
    "GOMP_single_copy_end": "copyprivate",
    "__kmpc_copyprivate": "copyprivate",
}

_ROUTINE = re.compile(
    r"(?:omp_(?:get|in|is|test|init|destroy|unset|capture)_"
    r"|omp_set_(?!(?:nest_)?lock(?:_|$)))"
    r"|ompc_(?:get|set|in|is|capture)_|omp_fulfill_event"
)
# Routines that begin or end a construct, or distribute its work. Some of gcc's also wait, for dependences or at
# barriers.
_OVERHEAD = re.compile(
    r"GOMP_(?:parallel|task(?:yield|group_start|group_reduction_\w+)?(?:$|@)|loop|sections|single_start|cancel"
    r"|critical_(?:name_)?end|ordered_end|atomic_end|doacross_(?:ull_)?post|workshare_task_reduction_register"
    r"|scope_start|masked_start)"
    r"|__kmpc_(?:(?:end_)?serialized_parallel|fork_(?:call|teams)|omp_(?:reg_)?task(?!wait|loop)|omp_reg_task"
    r"|task_reduction_|taskred_|taskgroup$|proxy_task|(?:dist_)?for_static_|dispatch_|dist_dispatch_|(?:end_)?(?:single|master|masked)$"
    r"|sections_|next_section|end_sections|end_(?:critical|ordered|scope)$|scope$|flush|push_|doacross_(?:post|fini)"
    r"|atomic_end$|threadprivate|cancel$|cancellationpoint$)"
)


def wait_kind(routines: Iterable[str]) -> str | None:
    """Return the :meth:`~ompd.contract.plugin.ThreadHandle.wait_kind` of a thread that waits in *routines*."""
    return next((_KINDS[name] for name in routines if name in _KINDS), None)


def asks_only(routine: str) -> bool:
    """Return whether a routine that user code called is an OpenMP API routine that never waits, such as
    ``omp_get_thread_num``. A thread in such a routine has the state it had before the call.
    """
    return _ROUTINE.match(routine) is not None


def is_overhead(routine: str) -> bool:
    """Return whether a routine that user code called belongs to a construct and does not itself wait."""
    return _OVERHEAD.match(routine) is not None
