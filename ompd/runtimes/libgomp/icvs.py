"""Internal control variables. Each task has its own copies (``gomp_task_icv``).

In stripped builds the variables of the whole process have no symbols. Their values are results of the library's own
query routines, which an emulator runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ompd.contract.helpers import icv_readers
from ompd.contract.helpers.icv_readers import Value
from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription, TeamSizing
from ompd.errors import Unavailable
from ompd.runtimes.libgomp.handles import InitialTask, Parallel, Task, Thread

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.runtime import Runtime


def describe() -> list[IcvDescription]:
    """Return the ICVs that can be read."""
    return icv_readers.describe(_READERS)


def read(runtime: Runtime, name: str, handle: object) -> Value:
    """Return the value of an ICV for a handle of its scope.

    :raises BadInput: if there is no such ICV, or *handle* has another scope
    """
    return icv_readers.read(_READERS, _HANDLES, runtime, name, handle)


def _of_thread(reader: Callable[[Task | InitialTask], Value]) -> Callable[[Thread], Value]:
    return icv_readers.of_thread(Thread.current_task, reader)


def _member(name: str, convert: Callable[[int], Value] = int) -> Callable[[Task | InitialTask], Value]:
    def read_it(task: Task | InitialTask) -> Value:
        if isinstance(task, InitialTask):
            return _global(task, name, convert)
        if f"icv.{name}" not in task.view.layout.fields:
            return convert(_answer(task.runtime, task.runtime.threads()[0], _ROUTINES[name]))
        return convert(task.view.unsigned(f"icv.{name}"))

    return read_it


# Routines that return a variable of the calling thread's task, or the process's variable if the thread has no task.
_ROUTINES = {
    "nthreads_var": "omp_get_max_threads",
    "dyn_var": "omp_get_dynamic",
    "max_active_levels_var": "omp_get_max_active_levels",
    "thread_limit_var": "omp_get_thread_limit",
    "default_device_var": "omp_get_default_device",
    "bind_var": "omp_get_proc_bind",
}


def _global(task: InitialTask, name: str, convert: Callable[[int], Value]) -> Value:
    thread = task.of
    if name not in _ROUTINES:
        raise Unavailable("the thread has no task of its own, and the variable of the process has no symbol")
    # While the task is suspended, the thread has another one. Without a task, the routine reads the process's variable.
    nulls = (thread.view.address_of("task"),) if task.status() != "executing" else ()
    return convert(_answer(thread.runtime, thread, _ROUTINES[name], nulls))


def _answer(runtime: Runtime, thread: Thread, routine: str, nulls: Collection[int] = ()) -> int:
    address = runtime.process.symbol_in(runtime.module, routine)
    if address is None:
        raise Unavailable(f"{runtime.module.name} does not export {routine}")
    return runtime.process.evaluate(address, thread.native, nulls).value & 0xFFFFFFFF


_NO_LIMIT = 0x7FFFFFFF


def sizing(region: Parallel) -> TeamSizing:
    """Return the variables from which ``gomp_resolve_num_threads`` computes the size of a team.

    :raises Unavailable: if one of them is unknown
    """
    task = region.implicit_task(0).generating()
    if task is None:
        raise Unavailable("which task encountered the region is unknown")
    own = region.implicit_task(0).view.layout.fields
    limit = int(_member("thread_limit_var", _limit)(task))
    # GCC 9 and 10 decide by nest_var, too.
    has_levels = "icv.max_active_levels_var" in own
    return TeamSizing(
        nthreads=int(_member("nthreads_var")(task)),
        dynamic=bool(_member("dyn_var", bool)(task)),
        thread_limit=limit if limit < _NO_LIMIT else None,
        max_active_levels=int(_member("max_active_levels_var")(task)) if has_levels else None,
        active_level=region.outer_active_level,
    )


def _run_sched(task: Task | InitialTask) -> str:
    if isinstance(task, InitialTask):
        raise Unavailable("the thread has no task of its own, and the variable of the process has no symbol")
    kind, chunk = task.view.unsigned("icv.run_sched_var"), task.view.signed("icv.run_sched_chunk_size")
    return icv_readers.schedule(kind, chunk, task.address)


def _limit(value: int) -> int:
    return min(value, _NO_LIMIT)  # like omp_get_thread_limit()


def _process_wide(routine: str, convert: Callable[[int], Value] = int) -> Callable[[Runtime], Value]:
    return lambda runtime: convert(_answer(runtime, runtime.threads()[0], routine))


_HANDLES: icv_readers.Handles = {
    Scope.THREAD: Thread,
    Scope.PARALLEL: Parallel,
    Scope.TASK: (Task, InitialTask),
}

_READERS: icv_readers.Readers = {
    "dyn-var": (Scope.THREAD, _of_thread(_member("dyn_var", bool))),
    "run-sched-var": (Scope.TASK, _run_sched),
    "cancel-var": (Scope.ADDRESS_SPACE, _process_wide("omp_get_cancellation", bool)),
    "max-task-priority-var": (Scope.ADDRESS_SPACE, _process_wide("omp_get_max_task_priority")),
    "nthreads-var": (Scope.THREAD, _of_thread(_member("nthreads_var"))),
    "default-device-var": (Scope.THREAD, _of_thread(_member("default_device_var"))),
    "thread-limit-var": (Scope.TASK, _member("thread_limit_var", _limit)),
    "max-active-levels-var": (Scope.TASK, _member("max_active_levels_var")),
    "bind-var": (Scope.TASK, _member("bind_var", icv_readers.binding)),
    **icv_readers.COMMON,
}
