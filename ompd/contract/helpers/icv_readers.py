"""Read internal control variables by a table of readers, for any runtime.

A plugin's table has, for each variable, its name, the scope of its handles, and a function that reads it for a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription, TaskHandle, ThreadHandle
from ompd.errors import BadInput, CorruptState, Unavailable

Value = int | bool | str
Readers = Mapping[str, tuple[Scope, Callable[..., Value]]]
Handles = Mapping[Scope, type | tuple[type, ...]]
"""The classes of a plugin's handles, by scope. Scopes not listed belong to the address space."""

# enum gomp_schedule_type and omp_sched_t, with their modifier; omp_proc_bind_t
_SCHEDULES = {0: "runtime", 1: "static", 2: "dynamic", 3: "guided", 4: "auto"}
_MONOTONIC = 0x80000000
_BINDINGS = ("false", "true", "primary", "close", "spread")


def describe(readers: Readers) -> list[IcvDescription]:
    """Return the ICVs of a table."""
    return [IcvDescription(name, scope) for name, (scope, _) in readers.items()]


def read(readers: Readers, handles: Handles, space: object, name: str, handle: object) -> Value:
    """Return the value of ICV *name* for *handle*, which must have the ICV's scope.

    :param space: the address space
    :raises BadInput: if there is no such ICV, or *handle* has another scope
    """
    if name not in readers:
        raise BadInput(f"no internal control variable {name!r}")
    scope, reader = readers[name]
    if not isinstance(handle, handles.get(scope, type(space))):
        raise BadInput(f"{name} is a variable of scope {scope.name.lower()}")
    return reader(handle)


def of_thread(task_of: Callable[[Any], Any | None], reader: Callable[[Any], Value]) -> Callable[[Any], Value]:
    """Return a reader that takes a thread and applies *reader* to the thread's current task."""

    def read_of_current_task(thread: ThreadHandle) -> Value:
        task = task_of(thread)
        if task is None:
            raise Unavailable("the thread is idle: no task gives it this variable")
        return reader(task)

    return read_of_current_task


def schedule(kind: int, chunk: int, address: int) -> str:
    """Return run-sched-var as OMP_SCHEDULE spells it, from GOMP's numbers for the schedule and its chunk size.

    :param address: the address of the structure with these numbers
    :raises CorruptState: if *kind* is no schedule
    """
    name = _SCHEDULES.get(kind & ~_MONOTONIC)
    if name is None:
        raise CorruptState(address, f"schedule of kind {kind:#x}")
    return f"{'monotonic:' if kind & _MONOTONIC else ''}{name}" + (f",{chunk}" if chunk > 0 else "")


def binding(value: int) -> str:
    """Return bind-var as OMP_PROC_BIND spells it, from an ``omp_proc_bind_t``."""
    if not 0 <= value < len(_BINDINGS):
        raise Unavailable(f"proc_bind is {value}")
    return _BINDINGS[value]


def _thread_num(thread: ThreadHandle) -> int:
    number = thread.thread_num()
    if number is None:
        raise Unavailable("the thread is in no team")
    return number


def _is_implicit(task: TaskHandle) -> bool:
    return task.kind() != "explicit"


_is_final, _size = methodcaller("is_final"), methodcaller("size")

COMMON: Mapping[str, tuple[Scope, Callable[[Any], Value]]] = {
    "levels-var": (Scope.PARALLEL, methodcaller("level")),
    "active-levels-var": (Scope.PARALLEL, methodcaller("active_level")),
    "thread-num-var": (Scope.THREAD, _thread_num),
    "ompd-thread-num-var": (Scope.THREAD, _thread_num),
    "final-task-var": (Scope.TASK, _is_final),
    "ompd-final-var": (Scope.TASK, _is_final),
    "ompd-final-task-var": (Scope.TASK, _is_final),
    "implicit-task-var": (Scope.TASK, _is_implicit),
    "ompd-implicit-var": (Scope.TASK, _is_implicit),
    "ompd-implicit-task-var": (Scope.TASK, _is_implicit),
    "team-size-var": (Scope.PARALLEL, _size),
    "ompd-team-size-var": (Scope.PARALLEL, _size),
}
"""Readers of the control variables that handles offer as methods, by the variables' names in OpenMP 5.1 and 5.0."""
