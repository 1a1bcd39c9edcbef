"""The places where threads wait for tasks, and the tasks that they may execute meanwhile (``kmp_tasking.cpp``).

A waiting thread takes tasks from its own queue and from the queues of the team's other threads
(``__kmp_execute_tasks_template``). ``__kmp_task_is_allowed`` decides which tasks the thread may execute. At a barrier
it may execute any task. It is restricted at a taskwait, at the end of a task group, and while a task that is not
deferred waits for dependences. There it may execute all untied tasks, but only those tied tasks that are descendants of
its last tied task (``td_last_tied``). With KMP_TASK_STEALING_CONSTRAINT=0 it may execute any task there, too.

An implicit task counts as the last tied task only while its ``td_taskwait_thread`` shows that it waits. A wait for
dependences (``__kmpc_omp_wait_deps``) does not set this member, so an implicit task's thread may execute any task
meanwhile. In all these waits threads look for tasks repeatedly. A thread that sleeps at a barrier is woken up when the
first task of the region is queued, and by each thread that takes tasks from its queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ompd.contract.helpers.entries import wait_kind
from ompd.contract.memory import StructView
from ompd.contract.ompt import State
from ompd.contract.plugin import ANY, TIED_DESCENDANTS, SchedulingPoint
from ompd.errors import LayoutUnavailable, Unavailable
from ompd.runtimes.libomp.stacks import states

if TYPE_CHECKING:
    from ompd.runtimes.libomp.handles import Task, Thread


def kind_of(thread: Thread) -> str | None:
    """Return the kind of wait that the runtime's routines on a thread's stack show: :meth:`ThreadHandle.wait_kind`."""
    return wait_kind(states.routines_inside(thread)) or states.ended_construct(thread)


def point_of(thread: Thread) -> SchedulingPoint | None:
    """Return the scheduling point at which *thread* waits: :meth:`ThreadHandle.scheduling_point`.

    :raises Unavailable: if the waiting task, or the tasks for which it waits, are unknown
    :raises LayoutUnavailable: if only the layouts that OMPD publishes are known
    """
    waiting = thread.runtime.waiting
    state = thread.state().state
    if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT:
        return SchedulingPoint("barrier", thread.current_task(), ANY)
    if state not in (State.WAIT_TASKWAIT, State.WAIT_TASKGROUP):
        return None
    task = thread.current_task()
    if task is None:
        raise Unavailable("the thread executes no task")
    try:
        if state == State.WAIT_TASKGROUP:
            return _taskgroup(task)
        if kind_of(thread) == "dependence":
            return _dependence(thread, task)
        view = StructView(task.view.memory, thread.runtime.details.layout("kmp_taskdata_t"), task.address)
        address, count = view.address_of("td_incomplete_child_tasks"), view.signed("td_incomplete_child_tasks")
        return _point("taskwait", task, count, address, waiting.children.get(task.address, ()))
    except LayoutUnavailable as error:
        raise Unavailable(str(error)) from error


def _taskgroup(task: Task) -> SchedulingPoint:
    runtime = task.runtime
    group = _group_of(task)
    if group is None:
        raise Unavailable("the task is in no task group any more")
    view = StructView(runtime.heap, runtime.details.layout("kmp_taskgroup"), group)
    members = [other for other in runtime.waiting.explicit if _group_of(other) == group]
    return _point("taskgroup", task, view.signed("count"), view.address_of("count"), members)


def _group_of(task: Task) -> int | None:
    return _group_view(task).pointer("td_taskgroup")


def _group_view(task: Task) -> StructView:
    layout = task.runtime.details.layout("kmp_taskdata_t.td_taskgroup")
    return StructView(task.runtime.heap, layout, task.address)


def _dependence(thread: Thread, task: Task) -> SchedulingPoint:
    # The scheduling point of a task that waits for dependences. The node (kmp_depnode_t) for the wait is on the stack,
    # in the frame of the waiting routine. Without exactly one such node, the awaited tasks are unknown.
    runtime = thread.runtime
    frames = runtime.process.stack(thread.native_thread_id()).frames
    low, high = frames[0].sp, frames[-1].cfa or frames[-1].sp
    nodes = runtime.waiting.without_task(low, high) if frames else ()
    if len(nodes) != 1:
        return SchedulingPoint("dependence", task, _allowed_tasks("dependence", task))
    ((address, count, predecessors),) = nodes
    return _point("dependence", task, count, address, predecessors)


def _point(kind: str, task: Task, count: int, address: int, tasks: Sequence[Task]) -> SchedulingPoint:
    return SchedulingPoint(kind, task, _allowed_tasks(kind, task), count, address, count, tasks, len(tasks) == count)


def _allowed_tasks(kind: str, task: Task) -> str:
    # If td_last_tied is another task, because *task* is untied, the restriction to its descendants is not reported.
    if not task.runtime.constrains_task_stealing or (kind == "dependence" and task.kind() != "explicit"):
        return ANY
    try:
        last = _group_view(task).pointer("td_last_tied")
        return TIED_DESCENDANTS if last == task.address else ANY
    except LayoutUnavailable:
        return TIED_DESCENDANTS if task.is_tied() else ANY
