"""The places where threads wait for tasks, and the tasks that they may execute meanwhile (``task.c``).

At a team's barrier, a thread takes the first task of the team's queue, whichever task generated it
(``gomp_barrier_handle_tasks``). At a taskwait, a thread takes children of the waiting task (``GOMP_taskwait``). It also
takes children before an undeferred task that depends on some of them (``gomp_task_maybe_wait_for_dependencies``). At
the end of a task group, it takes members of the group, or children of the waiting task if no member is queued
(``GOMP_taskgroup_end``). If tasks have priorities, the thread may take another task of the team first, but only if one
of the awaited tasks could begin. If no awaited task can begin, the thread sleeps until one is over or free to begin.
Tasks never move to another thread: ``untied`` is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.helpers.entries import wait_kind
from ompd.contract.ompt import State
from ompd.contract.plugin import ANY, CHILDREN, GROUP, SchedulingPoint
from ompd.errors import CorruptState, Unavailable

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Task, Thread

# More tasks than a thread waits for in any program.
_MOST = 1 << 22
_WITHOUT_DEPENDENCES = ("GOMP_taskwait", "GOMP_taskgroup_end", "GOMP_taskloop", "GOMP_taskloop_ull")


def kind_of(thread: Thread) -> str | None:
    """Return the kind of wait that the entry point of a thread shows: :meth:`ThreadHandle.wait_kind`.

    gcc's code has no separate entry point to wait for the dependences of an undeferred task; ``GOMP_task`` waits for
    them.
    """
    group = thread.stack.innermost_group()
    entry = group.entry if group is not None else None
    if entry is None or group is None or group.code is not None:
        return None
    if entry.startswith("GOMP_task") and entry not in _WITHOUT_DEPENDENCES:
        return "dependence"
    return wait_kind((entry,))


def point_of(thread: Thread) -> SchedulingPoint | None:
    """Return the place at which the thread waits and may execute other tasks, None if it is at no such place.

    :raises Unavailable: if the thread waits in a routine whose task is unknown
    """
    if thread.is_idle:
        return None
    state = thread.state().state
    if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT:
        # Except for a worker that has left its region: it waits in the pool, where it executes no tasks.
        return SchedulingPoint("barrier", thread.current_task(), ANY) if not thread.has_left_region() else None
    if state not in (State.WAIT_TASKWAIT, State.WAIT_TASKGROUP):
        return None
    task = thread.kept_task()
    if task is None:
        raise Unavailable("the runtime has no task for the code that waits")
    if state == State.WAIT_TASKGROUP:
        return _group(task)
    return _dependence(task) if kind_of(thread) == "dependence" else _taskwait(task)


def _taskwait(task: Task) -> SchedulingPoint:
    # The scheduling point of a taskwait. It has no count, because the thread continues when the list of children is
    # empty.
    tasks = task.runtime.tasks
    address, value = task.view.address_of("taskwait"), task.view.pointer("taskwait")
    children, is_whole = tasks.children_of(task.address), not tasks.faults
    return SchedulingPoint("taskwait", task, CHILDREN, None, address, value, children, is_whole)


def _group(task: Task) -> SchedulingPoint:
    group = task.view.pointer("taskgroup")
    if group is None:
        raise Unavailable("the task is in no task group any more")
    view = task.runtime.view("gomp_taskgroup", group)
    count = _checked(view.unsigned("num_children"), group)
    explicit = task.runtime.tasks.reachable.values()
    members = [other for other in explicit if other.taskgroup == group and not other.is_undeferred]
    address = view.address_of("num_children")
    return SchedulingPoint("taskgroup", task, GROUP, count, address, count, members, len(members) == count)


def _dependence(task: Task) -> SchedulingPoint:
    wait = task.view.pointer("taskwait")
    if wait is None:
        raise Unavailable("the task does not wait any more")
    view = task.runtime.view("gomp_taskwait", wait)
    count = _checked(view.unsigned("n_depend"), wait)
    children = task.runtime.tasks.children_of(task.address)
    awaited = [child for child in children if child.view.unsigned("parent_depends_on")]
    address = view.address_of("n_depend")
    return SchedulingPoint("dependence", task, CHILDREN, count, address, count, awaited, len(awaited) == count)


def _checked(count: int, address: int) -> int:
    if count > _MOST:
        raise CorruptState(address, f"{count} tasks are said to be waited for")
    return count
