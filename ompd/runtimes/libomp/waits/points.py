"""Where threads wait for tasks, and which ones they execute meanwhile (``kmp_tasking.cpp``).

Whoever waits takes tasks of its own queue and of those of the team's other threads (``__kmp_execute_tasks_template``).
``__kmp_task_is_allowed`` decides which: at a barrier any. At a taskwait, at the end of a task group and where a task
that is not deferred waits for dependences, of the tied ones only descendants of the last tied task that the thread
executes (``td_last_tied``), and all untied ones; with KMP_TASK_STEALING_CONSTRAINT=0 any there, too. An implicit task
counts as that last one only while ``td_taskwait_thread`` says that it waits, which a wait for dependences does not set
(``__kmpc_omp_wait_deps``): meanwhile any may be executed. These waits are spent looking for tasks. A thread that sleeps
at a barrier is woken up when the first task of the region is queued, and by whoever takes tasks from its queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ompd.contract.helpers.entries import wait_kind
from ompd.contract.memory import StructView, read_unsigned
from ompd.contract.ompt import State
from ompd.contract.plugin import ANY, TIED_DESCENDANTS, SchedulingPoint
from ompd.errors import LayoutUnavailable, OmpdError, Unavailable
from ompd.runtimes.libomp.stacks.states import States
from ompd.runtimes.libomp.teams.tasks import Task
from ompd.runtimes.libomp.teams.threads import Thread, Threads
from ompd.runtimes.libomp.waits.dependences import Waiting

_CONSTRAINT, _SETTING = "__kmp_task_stealing_constraint", "KMP_TASK_STEALING_CONSTRAINT"


class Points:
    """The scheduling points of one runtime's threads."""

    def __init__(self, runtime: Threads, states: States, waiting: Waiting) -> None:
        self._runtime = runtime
        self._details = runtime.details
        self._states = states
        self._waiting = waiting

    def of(self, thread: Thread) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`.

        :raises Unavailable: if the task that waits, or what it waits for, is unknown
        """
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
                return self._group(task)
            if wait_kind(self._states.routines_inside(thread)) == "dependence":
                return self._dependence(thread, task)
            return self._taskwait(task)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def _taskwait(self, task: Task) -> SchedulingPoint:
        view = StructView(task.view.memory, self._details.layout("kmp_taskdata_t"), task.address)
        address, count = view.address_of("td_incomplete_child_tasks"), view.signed("td_incomplete_child_tasks")
        return self._point("taskwait", task, count, address, self._children.get(task.address, ()))

    def _group(self, task: Task) -> SchedulingPoint:
        group = self._group_of(task)
        if group is None:
            raise Unavailable("the task is in no task group any more")
        view = StructView(self._runtime.heap, self._details.layout("kmp_taskgroup"), group)
        found = [other for other in self._explicit if self._group_of(other) == group]
        return self._point("taskgroup", task, view.signed("count"), view.address_of("count"), found)

    def _group_of(self, task: Task) -> int | None:
        return self._view(task).pointer("td_taskgroup")

    def _view(self, task: Task) -> StructView:
        return StructView(self._runtime.heap, self._details.layout("kmp_taskdata_t.td_taskgroup"), task.address)

    def _dependence(self, thread: Thread, task: Task) -> SchedulingPoint:
        # The node of what waits is in the frame of the routine that waits for it.
        frames = self._runtime.process.stack(thread.native_thread_id()).frames
        low, high = frames[0].sp, frames[-1].cfa or frames[-1].sp
        nodes = self._waiting.without_task(low, high) if frames else ()
        if len(nodes) != 1:
            return SchedulingPoint("dependence", task, self._takes("dependence", task))
        ((address, count, found),) = nodes
        return self._point("dependence", task, count, address, found)

    def _point(self, kind: str, task: Task, count: int, address: int, found: Sequence[Task]) -> SchedulingPoint:
        return SchedulingPoint(kind, task, self._takes(kind, task), count, address, count, found, len(found) == count)

    def _takes(self, kind: str, task: Task) -> str:
        # Of an untied task's thread it is another task whose descendants the tied ones have to be.
        if not self._is_constrained or (kind == "dependence" and task.kind() != "explicit"):
            return ANY
        try:
            last = self._view(task).pointer("td_last_tied")
            return TIED_DESCENDANTS if last == task.address else ANY
        except LayoutUnavailable:
            return TIED_DESCENDANTS if task.is_tied() else ANY

    @cached_property
    def _is_constrained(self) -> bool:
        # False where it is unknown: then nothing is concluded from it.
        process = self._runtime.process
        try:
            address = process.symbol_in(self._runtime.module, _CONSTRAINT)
            if address is not None:
                return read_unsigned(process, address, 4) != 0
            return process.environment().get(_SETTING, "1").strip() == "1"
        except OmpdError:
            return False

    @cached_property
    def _explicit(self) -> Sequence[Task]:
        return self._waiting.explicit()

    @cached_property
    def _children(self) -> dict[int, list[Task]]:
        found: dict[int, list[Task]] = {}
        for task in self._explicit:
            parent = task.view.pointer("td_parent")
            if parent is not None:
                found.setdefault(parent, []).append(task)
        return found
