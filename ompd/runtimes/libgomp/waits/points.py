"""Where threads wait for tasks, and which ones they execute meanwhile (``task.c``).

At a team's barrier a thread takes the first of the team's queue, whoever generated it
(``gomp_barrier_handle_tasks``). At a taskwait it takes children of the task that waits (``GOMP_taskwait``), also before
one that is not deferred and depends on some of them (``gomp_task_maybe_wait_for_dependencies``); at the end of a task
group the members of that, or such children while no member is queued (``GOMP_taskgroup_end``). Where tasks have
priorities it may take another of the team before one of these, but never when none of these can begin. When none can,
it sleeps until one of those is over or free to begin. Tasks are never moved: ``untied`` is ignored.
"""

from __future__ import annotations

from ompd.contract.helpers.entries import wait_kind
from ompd.contract.ompt import State
from ompd.contract.plugin import ANY, CHILDREN, GROUP, SchedulingPoint
from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.libgomp.handles import Task, Thread
from ompd.runtimes.libgomp.task_walk import AllTasks

_MOST = 1 << 22
_WITHOUT_DEPENDENCES = ("GOMP_taskwait", "GOMP_taskgroup_end", "GOMP_taskloop", "GOMP_taskloop_ull")


def kind_of(thread: Thread) -> str | None:
    """See :meth:`ThreadHandle.wait_kind`. Code of gcc has no entry point for dependences of a task that is not
    deferred: ``GOMP_task`` waits for them.
    """
    group = thread.stack.innermost_group()
    entry = group.entry if group is not None else None
    if entry is None or group is None or group.code is not None:
        return None
    if entry.startswith("GOMP_task") and entry not in _WITHOUT_DEPENDENCES:
        return "dependence"
    return wait_kind((entry,))


def point_of(thread: Thread, tasks: AllTasks) -> SchedulingPoint | None:
    """See :meth:`ThreadHandle.scheduling_point`.

    :raises Unavailable: if it waits in a routine whose task is unknown
    """
    if thread.is_idle:
        return None
    state = thread.state().state
    if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT:
        # A worker that has passed its region's end waits in the pool.
        return SchedulingPoint("barrier", thread.current_task(), ANY) if not thread.has_left_region() else None
    if state not in (State.WAIT_TASKWAIT, State.WAIT_TASKGROUP):
        return None
    task = thread.current_task()
    if not isinstance(task, Task):
        raise Unavailable("the runtime has no task for the code that waits")
    if state == State.WAIT_TASKGROUP:
        return _group(task, tasks)
    return _dependence(task, tasks) if kind_of(thread) == "dependence" else _taskwait(task, tasks)


def _taskwait(task: Task, tasks: AllTasks) -> SchedulingPoint:
    # It keeps no count: the thread goes on when the list of children is empty.
    address, value = task.view.address_of("taskwait"), task.view.pointer("taskwait")
    found, is_whole = tasks.children_of(task.address), not tasks.faults
    return SchedulingPoint("taskwait", task, CHILDREN, None, address, value, found, is_whole)


def _group(task: Task, tasks: AllTasks) -> SchedulingPoint:
    group = task.view.pointer("taskgroup")
    if group is None:
        raise Unavailable("the task is in no task group any more")
    view = task.runtime.view("gomp_taskgroup", group)
    count = _counted(view.unsigned("num_children"), group)
    found = [other for other in tasks.found.values() if other.taskgroup == group and not other.is_undeferred]
    address = view.address_of("num_children")
    return SchedulingPoint("taskgroup", task, GROUP, count, address, count, found, len(found) == count)


def _dependence(task: Task, tasks: AllTasks) -> SchedulingPoint:
    wait = task.view.pointer("taskwait")
    if wait is None:
        raise Unavailable("the task does not wait any more")
    view = task.runtime.view("gomp_taskwait", wait)
    count = _counted(view.unsigned("n_depend"), wait)
    found = [child for child in tasks.children_of(task.address) if child.view.unsigned("parent_depends_on")]
    address = view.address_of("n_depend")
    return SchedulingPoint("dependence", task, CHILDREN, count, address, count, found, len(found) == count)


def _counted(count: int, address: int) -> int:
    if count > _MOST:
        raise CorruptState(address, f"{count} tasks are said to be waited for")
    return count
