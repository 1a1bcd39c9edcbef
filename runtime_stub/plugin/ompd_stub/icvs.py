"""Internal control variables: each task has its own (``struct stub_icvs``), and the process has some in its root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ompd.contract.helpers import icv_readers
from ompd.contract.helpers.icv_readers import Value
from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription
from ompd_stub.tasks import Task
from ompd_stub.teams import Region
from ompd_stub.threads import Thread

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime


def describe() -> list[IcvDescription]:
    """Return the available ICVs."""
    return icv_readers.describe(_READERS)


def read(runtime: Runtime, name: str, handle: object) -> Value:
    """Return the value of ICV *name* for *handle*, which has to be of the ICV's scope.

    :raises BadInput: if there is no such ICV, or *handle* is of another kind
    """
    return icv_readers.read(_READERS, _HANDLES, runtime, name, handle)


def _of_task(name: str, convert: Callable[[int], Value] = int) -> Callable[[Task], Value]:
    def read_it(task: Task) -> Value:
        icvs = task.runtime.embedded(task.view, "icvs", "stub_icvs")
        return convert(icvs.signed(name))

    return read_it


def _of_thread(name: str, convert: Callable[[int], Value] = int) -> Callable[[Thread], Value]:
    return icv_readers.of_thread(Thread.current_task, _of_task(name, convert))


def _of_process(name: str, convert: Callable[[int], Value] = int) -> Callable[[Runtime], Value]:
    def read_it(runtime: Runtime) -> Value:
        return convert(runtime.root.unsigned(name))

    return read_it


def _schedule(task: Task) -> str:
    icvs = task.runtime.embedded(task.view, "icvs", "stub_icvs")
    return icv_readers.schedule(icvs.unsigned("schedule_kind"), icvs.signed("schedule_chunk"), task.address)


def display(runtime: Runtime) -> dict[str, str]:
    """Return the settings by their names in the environment.

    They are the settings of the process, and those of a new initial task (``process.icvs``).
    """
    root, initial = runtime.root, runtime.embedded(runtime.root, "icvs", "stub_icvs")
    schedule = initial.unsigned("schedule_kind"), initial.signed("schedule_chunk"), initial.address
    return {
        "OMP_CANCELLATION": _TRUTH[root.unsigned("cancellation") != 0],
        "OMP_DEBUG": ("disabled", "enabled")[root.unsigned("debug_enabled") != 0],
        "OMP_DEFAULT_DEVICE": str(initial.signed("default_device")),
        "OMP_DYNAMIC": _TRUTH[initial.unsigned("dynamic") != 0],
        "OMP_MAX_ACTIVE_LEVELS": str(initial.signed("max_active_levels")),
        "OMP_MAX_TASK_PRIORITY": str(root.signed("max_task_priority")),
        "OMP_NUM_THREADS": str(initial.signed("nthreads")),
        "OMP_PROC_BIND": icv_readers.binding(initial.signed("proc_bind")),
        "OMP_SCHEDULE": icv_readers.schedule(*schedule),
        "OMP_STACKSIZE": f"{root.unsigned('stack_size')}B",
        "OMP_THREAD_LIMIT": str(initial.signed("thread_limit")),
    }


_TRUTH = ("false", "true")
_HANDLES: icv_readers.Handles = {Scope.THREAD: Thread, Scope.PARALLEL: Region, Scope.TASK: Task}

_READERS: icv_readers.Readers = {
    "dyn-var": (Scope.THREAD, _of_thread("dynamic", bool)),
    "run-sched-var": (Scope.TASK, _schedule),
    "stacksize-var": (Scope.ADDRESS_SPACE, _of_process("stack_size")),
    "cancel-var": (Scope.ADDRESS_SPACE, _of_process("cancellation", bool)),
    "max-task-priority-var": (Scope.ADDRESS_SPACE, _of_process("max_task_priority")),
    "debug-var": (Scope.ADDRESS_SPACE, _of_process("debug_enabled", bool)),
    "nthreads-var": (Scope.THREAD, _of_thread("nthreads")),
    "default-device-var": (Scope.THREAD, _of_thread("default_device")),
    "thread-limit-var": (Scope.TASK, _of_task("thread_limit")),
    "max-active-levels-var": (Scope.TASK, _of_task("max_active_levels")),
    "bind-var": (Scope.TASK, _of_task("proc_bind", icv_readers.binding)),
    "num-procs-var": (Scope.ADDRESS_SPACE, _of_process("num_procs")),
    "ompd-num-procs-var": (Scope.ADDRESS_SPACE, _of_process("num_procs")),
    **icv_readers.COMMON,
}
