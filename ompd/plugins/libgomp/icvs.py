"""Internal control variables: a task keeps those that are its own (``gomp_task_icv``).

Those of the whole process lie in variables that stripped builds do not name. What the routines that ask for them
answer, an emulator can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription
from ompd.errors import BadInput, CorruptState, Unavailable
from ompd.plugins.libgomp.regions import Region
from ompd.plugins.libgomp.tasks import InitialTask, Task
from ompd.plugins.libgomp.threads import Thread

if TYPE_CHECKING:
    from ompd.plugins.libgomp.plugin import Runtime

Value = int | bool | str

# enum gomp_schedule_type, and its modifier
_SCHEDULES = {0: "runtime", 1: "static", 2: "dynamic", 3: "guided", 4: "auto"}
_MONOTONIC = 0x80000000
# enum omp_proc_bind_t
_BINDINGS = ("false", "true", "primary", "close", "spread")


def describe() -> list[IcvDescription]:
    """Return the ICVs that can be asked for."""
    return [IcvDescription(name, scope) for name, (scope, _) in _READERS.items()]


def read(runtime: Runtime, name: str, handle: object) -> Value:
    """Return the value of ICV *name* for *handle*, which has to be of its scope.

    :raises BadInput: if there is no such ICV, or *handle* is of another kind
    """
    if name not in _READERS:
        raise BadInput(f"no internal control variable {name!r}")
    scope, reader = _READERS[name]
    if not isinstance(handle, _HANDLES[scope] if scope in _HANDLES else type(runtime)):
        raise BadInput(f"{name} is a variable of scope {scope.name.lower()}")
    return reader(handle)


def _of_thread(reader: Callable[[Task | InitialTask], Value]) -> Callable[[Thread], Value]:
    def read_of_current_task(thread: Thread) -> Value:
        task = thread.current_task()
        if task is None:
            raise Unavailable("the thread is idle: no task gives it this variable")
        return reader(task)

    return read_of_current_task


def _member(name: str, convert: Callable[[int], Value] = int) -> Callable[[Task | InitialTask], Value]:
    def read_it(task: Task | InitialTask) -> Value:
        if isinstance(task, InitialTask):
            return _global(task, name, convert)
        if f"icv.{name}" not in task.view.layout.fields:
            return convert(_queried(task.runtime, task.runtime.threads()[0], _ASKED[name]))
        return convert(task.view.unsigned(f"icv.{name}"))

    return read_it


# Routines that read the variable of the calling thread's task, or, if it has none, the process's own.
_ASKED = {
    "nthreads_var": "omp_get_max_threads",
    "dyn_var": "omp_get_dynamic",
    "max_active_levels_var": "omp_get_max_active_levels",
    "thread_limit_var": "omp_get_thread_limit",
    "default_device_var": "omp_get_default_device",
    "bind_var": "omp_get_proc_bind",
}


def _global(task: InitialTask, name: str, convert: Callable[[int], Value]) -> Value:
    thread = task.of
    if task.status() != "executing" or name not in _ASKED:
        raise Unavailable("the thread has no task of its own, and the variable of the process has no symbol")
    return convert(_queried(thread.runtime, thread, _ASKED[name]))


def _queried(runtime: Runtime, thread: Thread, routine: str) -> int:
    address = runtime.process.symbol_in(runtime.module, routine)
    if address is None:
        raise Unavailable(f"{runtime.module.name} does not export {routine}")
    return runtime.process.call(address, thread.native).value & 0xFFFFFFFF


def _run_sched(task: Task | InitialTask) -> str:
    if isinstance(task, InitialTask):
        raise Unavailable("the thread has no task of its own, and the variable of the process has no symbol")
    kind, chunk = task.view.unsigned("icv.run_sched_var"), task.view.signed("icv.run_sched_chunk_size")
    name = _SCHEDULES.get(kind & ~_MONOTONIC)
    if name is None:
        raise CorruptState(task.address, f"schedule of kind {kind:#x}")
    return f"{'monotonic:' if kind & _MONOTONIC else ''}{name}" + (f",{chunk}" if chunk > 0 else "")


def _binding(value: int) -> str:
    if value >= len(_BINDINGS):
        raise Unavailable(f"proc_bind is {value}")
    return _BINDINGS[value]


def _limit(value: int) -> int:
    return min(value, 0x7FFFFFFF)  # as omp_get_thread_limit() answers


def _thread_num(thread: Thread) -> int:
    number = thread.thread_num()
    if number is None:
        raise Unavailable("the thread is in no team")
    return number


def _process_wide(routine: str, convert: Callable[[int], Value] = int) -> Callable[[Runtime], Value]:
    return lambda runtime: convert(_queried(runtime, runtime.threads()[0], routine))


_HANDLES: Mapping[Scope, type | tuple[type, ...]] = {
    Scope.THREAD: Thread,
    Scope.PARALLEL: Region,
    Scope.TASK: (Task, InitialTask),
}

_READERS: Mapping[str, tuple[Scope, Callable[..., Value]]] = {
    "dyn-var": (Scope.THREAD, _of_thread(_member("dyn_var", bool))),
    "run-sched-var": (Scope.TASK, _run_sched),
    "cancel-var": (Scope.ADDRESS_SPACE, _process_wide("omp_get_cancellation", bool)),
    "max-task-priority-var": (Scope.ADDRESS_SPACE, _process_wide("omp_get_max_task_priority")),
    "nthreads-var": (Scope.THREAD, _of_thread(_member("nthreads_var"))),
    "default-device-var": (Scope.THREAD, _of_thread(_member("default_device_var"))),
    "levels-var": (Scope.PARALLEL, Region.level),
    "active-levels-var": (Scope.PARALLEL, Region.active_level),
    "thread-limit-var": (Scope.TASK, _member("thread_limit_var", _limit)),
    "max-active-levels-var": (Scope.TASK, _member("max_active_levels_var")),
    "bind-var": (Scope.TASK, _member("bind_var", _binding)),
    "thread-num-var": (Scope.THREAD, _thread_num),
    "ompd-thread-num-var": (Scope.THREAD, _thread_num),
    "final-task-var": (Scope.TASK, lambda task: task.is_final()),
    "ompd-final-var": (Scope.TASK, lambda task: task.is_final()),
    "ompd-final-task-var": (Scope.TASK, lambda task: task.is_final()),
    "implicit-task-var": (Scope.TASK, lambda task: task.kind() != "explicit"),
    "ompd-implicit-var": (Scope.TASK, lambda task: task.kind() != "explicit"),
    "ompd-implicit-task-var": (Scope.TASK, lambda task: task.kind() != "explicit"),
    "team-size-var": (Scope.PARALLEL, Region.size),
    "ompd-team-size-var": (Scope.PARALLEL, Region.size),
}
