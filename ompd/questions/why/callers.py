"""Which routines the code of a process may call, by the names in the symbol tables of its modules."""

from __future__ import annotations

from collections.abc import Collection

from ompd.errors import MalformedFile
from ompd.session import Session

CREATES_TASKS = frozenset(
    ("GOMP_task\0", "GOMP_task@", "GOMP_taskloop", "GOMP_target_ext", "__kmpc_omp_task_alloc", "__tgt_target")
)
"""What names a routine that creates tasks; its end tells it from a longer name, as that of a taskwait."""
MOVES_TASKS = frozenset(("__kmpc_omp_task_alloc",))
"""What names the routine of code whose untied tasks may go on on another thread. Code of gcc has no parts of tasks."""


def may_call(session: Session, names: Collection[str]) -> bool:
    """Return whether a module other than the OpenMP runtimes names one of the routines, or whether that is unknown."""
    runtimes = [runtime.found.module for runtime in session.runtimes]
    for loaded in session.process.loaded_modules():
        if loaded.record in runtimes and not loaded.is_program:
            continue
        try:
            if loaded.symbols is None or loaded.symbols.mentions(names):
                return True
        except MalformedFile:
            return True
    return False
