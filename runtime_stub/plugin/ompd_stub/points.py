"""Places at which threads wait for tasks, and the tasks that they execute meanwhile (``tasks.c``, ``barrier.c``).

At a barrier ``take_task`` gives a thread any task of its team's queue. At other places it gives only descendants of the
waiting task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.helpers.entries import wait_kind
from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.memory import StructView
from ompd.contract.ompt import State
from ompd.contract.plugin import ANY, DESCENDANTS, SchedulingPoint
from ompd.errors import CorruptState, Unavailable
from ompd_stub import stacks

if TYPE_CHECKING:
    from ompd_stub.tasks import Task
    from ompd_stub.threads import Thread


def wait_kind_of(thread: Thread) -> str | None:
    """Return the kind of the thread's wait, by the name of its routine.

    A thread that waits in ``GOMP_task`` before an undeferred task waits for a ``dependence``, too.
    """
    entry = stacks.innermost_entry(thread).removesuffix("_")
    if entry == "GOMP_task" and thread.state().state == State.WAIT_TASKWAIT:
        return "dependence"
    return wait_kind((entry,))


def point_of(thread: Thread) -> SchedulingPoint | None:
    """Return the place at which a thread waits and may execute other tasks, None if it does not wait there.

    :raises Unavailable: if the waiting task is unknown
    """
    state = thread.state().state
    if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT:
        return SchedulingPoint("barrier", thread.current_task(), ANY)
    if state not in (State.WAIT_TASKWAIT, State.WAIT_TASKGROUP):
        return None
    task = thread.current_task()
    if task is None:
        raise Unavailable("the thread executes no task")
    if state == State.WAIT_TASKGROUP:
        return _group(task)
    if wait_kind_of(thread) == "dependence":
        return SchedulingPoint("dependence", task, DESCENDANTS)
    return _point("taskwait", task, task.view, "child_count", [*task.children()])


def _group(task: Task) -> SchedulingPoint:
    group = task.view.pointer("taskgroup")
    if group is None:
        raise Unavailable("the task is in no task group any more")
    found = [other for other in task.runtime.all_tasks() if other.view.pointer("taskgroup") == group]
    members = [other for other in found if other.kind() == "explicit" and other.address != task.address]
    return _point("taskgroup", task, task.runtime.view("stub_taskgroup", group), "count", members)


def _point(kind: str, task: Task, view: StructView, counter: str, found: list[Task]) -> SchedulingPoint:
    count, address = view.signed(counter), view.address_of(counter)
    if not 0 <= count <= MAX_TASKS:
        raise CorruptState(address, f"{count} tasks are said to be waited for")
    return SchedulingPoint(kind, task, DESCENDANTS, count, address, count, found, len(found) == count)
