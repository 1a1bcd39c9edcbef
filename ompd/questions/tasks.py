"""``tasks``: the tasks that can be found through threads, regions and queues."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from ompd.contract.plugin import AddressSpace, Dependence, FrameAddress, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import BadInput, LayoutUnavailable, OmpdError, Unavailable
from ompd.model import Answer, DependenceRecord, RegionFunction, TaskFrame, TaskRecord, TaskWaitRecord
from ompd.questions import places
from ompd.questions.facts.answers import (
    answer,
    as_tree,
    begin,
    each,
    name_thread,
    native_thread,
    readable_runtimes,
    threads_of,
)
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.regions import live_regions
from ompd.questions.runtimes import records
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> Answer[TaskRecord]:
    """Return the initial, implicit and explicit tasks that exist, each after the task that generated it.

    An explicit task is found if a thread executes it or has suspended it, or if it generated such a task. It is also
    found in a queue, or by another task that refers to it while it waits for a dependence or an event. The count
    ``unfinished_children`` includes tasks that were not found.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    problems = begin(session)
    rows: list[TaskRecord] = []
    for runtime in readable_runtimes(session, problems):
        if runtime.space is not None:
            rows += _Collector(session, runtime, runtime.space, problems).rows()
    return answer(session, as_tree(rows, attrgetter("generating")), records(session, problems), problems)


_names_of_facts = tuple(field.name for field in fields(TaskRecord))[1:]  # all but the id
_facts_of = attrgetter(*_names_of_facts)


class _Alike:
    """A group of tasks that differ only in their ids. Queues may have thousands of such tasks."""

    __slots__ = ("facts", "is_listed")

    def __init__(self) -> None:
        self.is_listed = False  # whether a task of the group is listed already, with its ancestors
        self.facts: tuple[Any, ...] | None = None  # the fields of the record of one task, without the id


class _Collector:
    """The tasks of one runtime, and the threads they are on."""

    def __init__(self, session: Session, runtime: LoadedRuntime, space: AddressSpace, problems: Problems) -> None:
        self._session = session
        self._runtime = runtime
        self._space = space
        self._problems = problems
        self._tasks: dict[str, TaskHandle] = {}
        self._threads: dict[str, int] = {}
        self._current: set[str] = set()  # the ids of the threads' current tasks
        self._alike: dict[Hashable, _Alike] = {}
        self._others: dict[str, _Alike] = {}  # the group of equal tasks, by the id of each

    def rows(self) -> list[TaskRecord]:
        self._from_threads()
        for region in live_regions(self._session, self._runtime, self._space, self._problems).values():
            self._from_region(region)
        self._from_queues()
        self._from_counts()
        return list(map(self._as_found, each(self._session, self._tasks.items(), self._row)))

    def _from_threads(self) -> None:
        for handle in threads_of(self._runtime, self._problems):
            try:
                task = handle.current_task()
                if task is None:
                    continue
                self._current.add(task.id)
                thread = self._native_id(handle)
                for of_thread in (task, *self._suspended_by(task)):
                    if thread is not None:
                        self._threads.setdefault(of_thread.id, thread)
                    self._with_ancestors(of_thread)
            except OmpdError as error:
                self._problems.missing(f"{self._runtime.id}: tasks of {name_thread(self._session, handle)}", error)

    def _native_id(self, handle: ThreadHandle) -> int | None:
        try:
            return native_thread(self._session, handle)
        except OmpdError:
            return None  # the rows of the thread's tasks have the reason

    def _suspended_by(self, task: TaskHandle) -> Iterator[TaskHandle]:
        # The tasks that are suspended below *task* on its thread, if the runtime records them.
        visited = {task.id}
        suspended: TaskHandle | None = task
        while suspended is not None:
            try:
                suspended = suspended.scheduling()
            except OmpdError:
                return  # some runtimes record scheduling tasks only for tools; the task's row has the reason
            if suspended is not None:
                if suspended.id in visited or _is_queued(suspended):
                    return  # an untied task may have gone on on another thread, and be suspended there
                visited.add(suspended.id)
                yield suspended

    def _with_ancestors(self, task: TaskHandle) -> None:
        path: set[str] = set()
        ancestor: TaskHandle | None = task
        while ancestor is not None and ancestor.id not in self._tasks:
            self._tasks[ancestor.id] = ancestor
            path.add(ancestor.id)
            ancestor = ancestor.generating()
        if ancestor is not None and ancestor.id in path:
            self._problems.incomplete(f"{self._runtime.id}: task {ancestor.id} is said to have generated itself")

    def _from_region(self, region: ParallelHandle) -> None:
        try:
            for number in range(region.size()):
                self._listed(region.implicit_task(number))
        except OmpdError as error:
            self._problems.missing(f"{self._runtime.id}: implicit tasks of region {region.id}", error)
        try:
            # The task that encountered the region is suspended on its primary thread.
            encountering = region.implicit_task(0).generating()
            if encountering is not None and encountering.id not in self._threads:
                self._threads[encountering.id] = native_thread(self._session, region.thread(0))
        except OmpdError as error:
            self._problems.missing(f"{self._runtime.id}: the task that encountered region {region.id}", error)

    def _from_queues(self) -> None:
        self._from_queue("queued tasks", self._space.queued_tasks)
        self._from_queue("tasks that wait for a dependence or an event", self._space.waiting_tasks)
        self._from_queue("queued tasks that were given a priority", self._prioritized)

    def _from_queue(self, what: str, ask: Callable[[], Iterable[TaskHandle]]) -> None:
        try:
            for task in ask():
                self._listed(task)
        except LayoutUnavailable as error:
            self._problems.note(f"{self._runtime.id}: {what} are not known: {error}")
        except OmpdError as error:
            self._problems.missing(f"{self._runtime.id}: {what}", error)

    def _from_counts(self) -> None:
        try:
            for region, count in self._space.unlisted_tasks().items():
                tasks = "1 more task, which was" if count == 1 else f"{count} more tasks, which were"
                self._problems.note(
                    f"{self._runtime.id}: region {region} waits for {tasks} not found: the task that generated"
                    f" {'it' if count == 1 else 'them'} is over"
                )
        except LayoutUnavailable:
            return  # a warning has named what is unknown
        except OmpdError as error:
            self._problems.missing(f"{self._runtime.id}: how many tasks regions have", error)

    def _listed(self, task: TaskHandle) -> None:
        # List a task with its ancestors. If its parent is unknown, go on with the other tasks: its row has the reason.
        try:
            likeness = task.likeness()
        except OmpdError:
            likeness = None
        try:
            if likeness is None:
                self._with_ancestors(task)
                return
            alike = self._alike.get(likeness)
            if alike is None:
                alike = self._alike[likeness] = _Alike()
            identifier = task.id
            self._others[identifier] = alike
            if alike.is_listed:
                self._tasks.setdefault(identifier, task)
                return
            self._with_ancestors(task)
            alike.is_listed = True
        except Unavailable:
            return
        except OmpdError as error:
            self._problems.missing(f"{self._runtime.id}: what generated task {task.id}", error)

    def _prioritized(self) -> Iterable[TaskHandle]:
        # Return the queued tasks with a priority, none if max-task-priority-var is 0: the runtime then ignores
        # priorities.
        try:
            if not self._space.icv("max-task-priority-var", self._space):
                return ()
        except (Unavailable, BadInput):
            pass
        return self._space.prioritized_tasks()

    def _row(self, listed: tuple[str, TaskHandle]) -> TaskRecord:
        identifier, task = listed
        alike = self._others.get(identifier)
        if alike is None or identifier in self._threads:
            return self._record(task)
        if alike.facts is None:
            facts = Facts(f"task {identifier}", self._problems)
            row = self._record(task, facts)
            if facts.is_whole:
                alike.facts = _facts_of(row)
            return row
        row = TaskRecord(identifier, *alike.facts)
        if row.ompt_id is None:
            return row
        try:
            return replace(row, ompt_id=task.ompt_id())  # equal tasks have different ids for tools
        except OmpdError:
            return self._record(task)

    def _record(self, task: TaskHandle, facts: Facts | None = None) -> TaskRecord:
        facts = facts or Facts(f"task {task.id}", self._problems)
        kind = facts.get("kind", task.kind)
        status = facts.get("status", task.status)
        generating = facts.get("generating", task.generating)
        scheduling = facts.get("scheduling", task.scheduling)
        region = facts.get("parallel", task.parallel)
        frames = facts.get("exit_frame", task.frames)
        if "exit_frame" in facts.unavailable:
            facts.unavailable["enter_frame"] = facts.unavailable["exit_frame"]
        exit_frame, enter_frame = frames if frames is not None else (None, None)
        for key, frame in (("exit_frame", exit_frame), ("enter_frame", enter_frame)):
            if frame is not None and frame.flags is None:
                facts.unavailable[f"{key}.flags"] = "the OMPD library does not tell them"
        thread = self._threads.get(task.id)
        if thread is None:
            thread = facts.get("thread", self._thread, task)
        return TaskRecord(
            id=task.id,
            runtime=self._runtime.id,
            kind=kind,
            thread=thread,
            generating=generating.id if generating is not None else None,
            scheduling=scheduling.id if scheduling is not None else None,
            parallel=region.id if region is not None else None,
            function=places.named(facts, "function", facts.get("function", self._function, task, kind)),
            exit_frame=_frame(exit_frame),
            enter_frame=_frame(enter_frame),
            status=status,
            final=facts.get("final", task.is_final),
            tied=facts.get("tied", task.is_tied),
            tool_data=facts.get("tool_data", task.tool_data),
            unfinished_children=facts.get("unfinished_children", task.unfinished_children),
            waits_for=facts.get("waits_for", self._wait, task, facts),
            ompt_id=facts.own("ompt_id", task.ompt_id),
            ompt_type=facts.own("ompt_type", task.ompt_type),
            unavailable=facts.unavailable,
        )

    def _as_found(self, row: TaskRecord) -> TaskRecord:
        # Return a row with facts corrected that only the rows of all tasks and threads show to be wrong.
        if row.status == "queued" and row.id in self._current:
            row = replace(row, status="executing")  # libomp notes the thread of a task before the task's begin
        # An untied task still names the task that was suspended for it after that task has ended.
        if row.scheduling is None or row.scheduling in self._tasks:
            return row
        reason = f"the runtime names task {row.scheduling}, which was not found: it may be over"
        return replace(row, scheduling=None, unavailable={**row.unavailable, "scheduling": reason})

    def _wait(self, task: TaskHandle, facts: Facts) -> TaskWaitRecord | None:
        wait = task.waits_for()
        if wait is None:
            return None
        if wait.kind == "dependence" and wait.dependences is None:
            facts.unavailable["waits_for.dependences"] = "nothing leads from the task to the items of its depend clause"
        return TaskWaitRecord(
            wait.kind,
            wait.count,
            tuple(other.id for other in wait.tasks),
            tuple(map(self._dependence, wait.dependences)) if wait.dependences is not None else None,
            wait.event,
        )

    def _dependence(self, item: Dependence) -> DependenceRecord:
        place = self._session.process.places.locate(item.address)
        symbol = place.symbol
        if symbol is not None and place.symbol_address is not None and item.address != place.symbol_address:
            symbol += f"+{item.address - place.symbol_address:#x}"
        access = None if item.is_in is None else "in" if item.is_in else "out"
        return DependenceRecord(item.address, symbol, access)

    def _thread(self, task: TaskHandle) -> int | None:
        handle = task.thread()
        return native_thread(self._session, handle) if handle is not None else None

    def _function(self, task: TaskHandle, kind: str | None) -> RegionFunction | None:
        if kind != "explicit":
            region = task.parallel()
            return places.region_function(self._session, region) if region is not None else None
        return places.task_function(self._session, task)


def _is_queued(task: TaskHandle) -> bool:
    try:
        return task.status() == "queued"
    except OmpdError:
        return False  # its row says why


def _frame(frame: FrameAddress | None) -> TaskFrame | None:
    return TaskFrame(frame.address, frame.flags) if frame is not None else None
