"""Which routines the code of a process may call, by the names in the symbol tables of its modules."""

from __future__ import annotations

from collections.abc import Collection

from ompd import naming
from ompd.session import Session

CREATES_TASKS = frozenset(
    (
        *("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull", "GOMP_target_ext"),
        *("__kmpc_omp_task_alloc", "__kmpc_omp_target_task_alloc"),
    )
)
"""The routines that create tasks."""
MOVES_TASKS = frozenset(("__kmpc_omp_task_alloc",))
"""That of code whose untied tasks may go on on another thread. Code of gcc has no parts of tasks."""


def may_call(session: Session, names: Collection[str]) -> bool:
    """Return whether a module other than the OpenMP runtimes names one of the routines, or whether that is unknown."""
    return any(not naming.is_runtime_file(loaded.name) for loaded, _ in session.process.symbols.naming(names))
