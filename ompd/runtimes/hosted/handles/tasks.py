"""Tasks, as a library reports them: those that threads execute, the implicit ones of regions, and those that generated
others or were suspended for them. OMPD has no call that leads to any other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from typing import NoReturn

from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.ompd import Scope
from ompd.contract.plugin import FrameAddress, TaskWait, ThreadHandle
from ompd.contract.process import Module, Process
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.runtimes.hosted.api import Batch, FrameInfo, Pending, SpaceRef, TaskRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.handles.asking import Asked, given, known
from ompd.runtimes.hosted.handles.identities import Identities
from ompd.runtimes.hosted.handles.regions import Region, Regions

IMPLICIT = ("implicit-task-var", "ompd-implicit-var", "ompd-implicit-task-var")
FINAL = ("final-task-var", "ompd-final-var", "ompd-final-task-var")

_Kept = dict["Task", "Task | OmpdError | None"]
_NO_CODE = (0, (1 << 64) - 1)
_ALL_ONES_32 = (1 << 32) - 1


class Task(Asked):
    """See :class:`ompd.contract.plugin.TaskHandle`."""

    ref: TaskRef

    def __init__(self, space: Tasks, ref: TaskRef) -> None:
        super().__init__(ref)
        self.space = space
        # Of an implicit task that its region has led to: the region, and its thread's number.
        self.place: tuple[Region, int] | None = None
        self._id: str | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def id(self) -> str:
        """Of an implicit task the region and the thread's number, of another one the thread that led to it first."""
        if self._id is None:
            self._id = self.space.name_task(self)
        return self._id

    def likeness(self) -> Hashable | None:
        """See :meth:`TaskHandle.likeness`: each task is queried."""
        return None

    def _is(self, names: Sequence[str]) -> bool:
        return self.space.number_of(self, self.space.known_tasks, names, Scope.TASK) != 0

    @property
    def is_implicit(self) -> bool:
        """Whether it is no explicit one: implicit-task-var, or because it is in its place in a region."""
        try:
            return self._is(IMPLICIT)
        except Unavailable:
            if self.place is not None:
                return True
            raise

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`. At level 0 an implicit task is the initial one."""
        if not self.is_implicit:
            return "explicit"
        return "implicit" if self.parallel() is not None else "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`.

        :raises Unavailable: for an explicit task that no thread executes or has suspended for another
        """
        if self in self.space.executing_threads:
            return "executing"
        if self in self.space.suspending_threads or self.kind() != "explicit":
            return "suspended"
        self.space.no_call("whether a task that no thread executes is suspended, or over")

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: a task that a thread executes, or has suspended, waits for none."""
        if known(self.status, None) is None:
            self.space.no_call("whether a task waits for others")
        return None

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`.

        :raises Unavailable: always
        """
        self.space.no_call("how many tasks that a task has generated are not complete")

    def thread(self) -> ThreadHandle | None:
        """See :meth:`TaskHandle.thread`.

        :raises Unavailable: for an explicit task that no thread executes or has suspended for another
        """
        found = self.space.executing_threads.get(self) or self.space.suspending_threads.get(self)
        if found is not None:
            return found
        if self.place is not None:
            region, number = self.place
            return region.thread(number)
        self.space.no_call("on which thread a task is that has generated others")

    def is_final(self) -> bool:
        """See :meth:`TaskHandle.is_final`: final-task-var."""
        return self._is(FINAL)

    def is_tied(self) -> bool:
        """See :meth:`TaskHandle.is_tied`.

        :raises Unavailable: for an explicit task
        """
        if self.kind() == "explicit":
            self.space.no_call("whether a task is tied")
        return True

    def generating(self) -> Task | None:
        """See :meth:`TaskHandle.generating`."""
        return self.space.generating_of(self)

    def scheduling(self) -> Task | None:
        """See :meth:`TaskHandle.scheduling`."""
        return self.space.scheduling_of(self)

    def parallel(self) -> Region | None:
        """See :meth:`TaskHandle.parallel`."""
        region = self.space.region_of_task(self)
        return region if region is not None and not region.is_outside else None

    def function(self) -> int | None:
        """See :meth:`TaskHandle.function`.

        :raises Unavailable: if the library names none of the program's
        """
        found = self.space.fact(self, self.space.known_tasks, "function", Batch.get_task_function)
        library = self.space.client.name
        if found in _NO_CODE or found == _ALL_ONES_32:
            if self.is_implicit and self.parallel() is None:
                return None
            raise Unavailable(f"{library} names no code for the task")
        if self.space.process.module_at(found) is None:
            raise Unavailable(f"{library} says that a task's code is at {found:#x}, where no module is")
        if self.space.owners.at(found) == RUNTIME:
            raise Unavailable(f"{library} names the runtime's own code, at {found:#x}, which calls that of the task")
        return found

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """See :meth:`TaskHandle.frames`."""
        exit_frame, enter_frame = self.space.fact(self, self.space.known_tasks, "frames", Batch.get_task_frame)
        return _frame(exit_frame), _frame(enter_frame)

    def tool_data(self) -> int:
        """See :meth:`TaskHandle.tool_data`."""
        return self.space.tool_data_of(self, self.space.known_tasks, Scope.TASK)

    def ompt_id(self) -> int:
        """See :meth:`Numbered.ompt_id`.

        :raises Unavailable: always
        """
        self.space.no_call("the identifiers that a runtime gives")

    def ompt_type(self) -> str:
        """See :meth:`NumberedTask.ompt_type`.

        :raises Unavailable: always
        """
        self.space.no_call("the type of a task")

    def source(self) -> NoReturn:
        """See :meth:`TaskHandle.source`.

        :raises Unavailable: always
        """
        self.space.no_call("a compiler's note of a construct")


def _frame(info: FrameInfo) -> FrameAddress | None:
    return FrameAddress(info.address, info.flag) if info.address else None


class Tasks(Regions):
    """The tasks of an address space that threads, regions and other tasks have led to."""

    def __init__(
        self, process: Process, module: Module, library: HostedLibrary, ref: SpaceRef, *, is_whole: bool = False
    ) -> None:
        super().__init__(process, module, library, ref, is_whole=is_whole)
        self.known_tasks: list[Task] = []
        self._tasks: Identities[TaskRef, Task] = Identities(library, Batch.task_handle_compare, self._new_task)
        self._implicit: dict[Region, list[Task | OmpdError]] = {}
        self._by_thread: dict[ThreadHandle, list[Task]] = {}  # the implicit ones
        self._unplaced: list[Task] = []  # those whose keys have not been read
        self._generating: _Kept = {}
        self._scheduling: _Kept = {}
        self._regions_of_tasks: dict[Task, Region | OmpdError | None] = {}
        self._task_names: dict[str, int] = {}

    def _new_task(self, ref: TaskRef) -> Task:
        task = Task(self, ref)
        self.known_tasks.append(task)
        return task

    # Which task a handle stands for

    def tasks_at(self, refs: Sequence[TaskRef]) -> list[Task]:
        """Return the tasks that handles stand for."""
        if not refs:
            return []
        for region in list(self.known_regions):
            if region.is_live:
                with suppress(OmpdError):  # its own row says so
                    self.implicit_tasks_of(region)
        unplaced, self._unplaced = self._unplaced, []
        for task, key in zip(unplaced, self._keys([task.ref for task in unplaced]), strict=True):
            self._tasks.add(task, key)
        return self._tasks.place(refs, self._keys(refs))

    def _keys(self, refs: Sequence[TaskRef]) -> list[Hashable]:
        # What is equal for all handles of one task. Frames are on one thread's stack, where there are any.
        batch = self.batch()
        frames = [batch.get_task_frame(ref) for ref in refs]
        number = known(lambda: self.icv_of(IMPLICIT, Scope.TASK).number, None)
        kinds = [batch.get_icv_from_scope(ref, Scope.TASK, number) for ref in refs] if number is not None else []
        addresses = [
            None if frame.error() is not None else tuple(info.address for info in frame.value()) for frame in frames
        ]
        flags = [None if kind.error() is not None else kind.value().value for kind in kinds] or [None] * len(refs)
        return list(zip(addresses, flags, strict=True))

    # Implicit tasks

    def implicit_task_of(self, region: Region, thread_num: int) -> Task:
        """See :meth:`Region.implicit_task`."""
        found = self.implicit_tasks_of(region)
        if not 0 <= thread_num < len(found):
            raise BadInput(f"the team of {region.id} has {len(found)} threads, and no number {thread_num}")
        return given(found[thread_num])

    def implicit_tasks_of(self, region: Region) -> Sequence[Task | OmpdError]:
        """Return the implicit tasks of a region by their threads' numbers, and what went wrong with others.

        :raises OmpdError: if it is unknown how many there are
        """
        if region not in self._implicit:
            batch = self.batch()
            pending = [batch.get_task_in_parallel(region.ref, number) for number in range(region.size())]
            found: list[Task | OmpdError] = []
            for number, one in enumerate(pending):
                try:
                    found.append(self._implicit_at(region, number, self.value(one)))
                except OmpdError as error:
                    found.append(error)
            self._implicit[region] = found
        return self._implicit[region]

    def _implicit_at(self, region: Region, number: int, ref: TaskRef) -> Task:
        # Of one region each is another one. A library that takes two regions for one may have the same for both.
        thread = known(partial(region.thread, number), None)
        others = self._by_thread.setdefault(thread, []) if thread is not None else []
        batch = self.batch()
        compared = [batch.task_handle_compare(ref, other.ref) for other in others]
        for other, same in zip(others, compared, strict=True):
            if same.value() == 0:
                return other
        task = self._new_task(ref)
        task.place = region, number
        others.append(task)
        self._unplaced.append(task)
        return task

    # What leads from one to another

    def generating_of(self, task: Task) -> Task | None:
        """See :meth:`Task.generating`."""
        return self._led_to(self._generating, task, Batch.get_generating_task_handle)

    def scheduling_of(self, task: Task) -> Task | None:
        """See :meth:`Task.scheduling`.

        :raises Unavailable: if the library says none for a task that was scheduled, and the runtime keeps no states
        """
        found = self._led_to(self._scheduling, task, Batch.get_scheduling_task_handle)
        if found is None and not task.is_implicit and known(self.keeps_states, None) is False:
            raise Unavailable(
                "the runtime keeps which task was suspended for another only with OMP_DEBUG=enabled, or for a tool"
            )
        return found

    def _led_to(self, kept: _Kept, task: Task, record: Callable[[Batch, TaskRef], Pending[TaskRef]]) -> Task | None:
        if task not in kept:
            unasked = [one for one in self.known_tasks if one not in kept]
            batch = self.batch()
            pending = [record(batch, one.ref) for one in unasked]
            kept.update(zip(unasked, self.placed(pending, self.tasks_at), strict=True))
        return given(kept[task])

    def region_of_task(self, task: Task) -> Region | None:
        """Return the library's region of a task, which may be the implicit one at level 0."""
        if task.place is not None:
            return task.place[0]
        if task not in self._regions_of_tasks:
            unasked = [one for one in self.known_tasks if one.place is None and one not in self._regions_of_tasks]
            batch = self.batch()
            pending = [batch.get_task_parallel_handle(one.ref) for one in unasked]
            self._regions_of_tasks.update(zip(unasked, self.placed(pending, self.regions_at), strict=True))
        return given(self._regions_of_tasks[task])

    # Which are on threads

    @cached_property
    def executing_threads(self) -> Mapping[Task, ThreadHandle]:
        """The threads that execute tasks."""
        found: dict[Task, ThreadHandle] = {}
        for thread in self.threads():
            task = known(thread.current_task, None)
            if isinstance(task, Task):
                found.setdefault(task, thread)
        return found

    @cached_property
    def suspending_threads(self) -> Mapping[Task, ThreadHandle]:
        """The threads that have suspended tasks for others that they execute."""
        found: dict[Task, ThreadHandle] = {}
        for thread in self.threads():
            try:
                for task in islice(self.tasks_on(thread), 1, None):
                    found.setdefault(task, thread)
            except OmpdError:
                continue  # what is further out is not known
        return found

    def tasks_on(self, thread: ThreadHandle) -> Iterator[Task]:
        """Yield the tasks that a thread executes or has suspended for others, from the current one outwards.

        :raises OmpdError: if one is unknown, or they do not end
        """
        current = thread.current_task()
        task = current if isinstance(current, Task) else None
        seen: set[Task] = set()
        while task is not None:
            if task in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(thread.address, f"{self.client.name}: the tasks of a thread do not end")
            seen.add(task)
            yield task
            if task.is_implicit:
                region = task.parallel()
                # The task that encountered a region waits for it on the region's primary thread.
                task = task.generating() if region is not None and region.thread(0) is thread else None
            else:
                task = task.scheduling()

    def name_task(self, task: Task) -> str:
        """Return an id for a task, that no other one has."""
        if task.place is not None:
            region, number = task.place
            return f"{region.id}:{number}"
        # Where its code was called is a place on one thread's stack.
        exit_frame = known(lambda: task.frames()[0], None)
        if exit_frame is not None:
            name = f"{exit_frame.address:#x}"
        else:
            thread = known(lambda: self.executing_threads.get(task), None)
            native = known(thread.native_thread_id, None) if thread is not None else None
            name = f"{native}+" if native is not None else "task"
        same = self._task_names[name] = self._task_names.get(name, 0) + 1
        return name if same == 1 else f"{name}#{same}"

    @abstractmethod
    def threads(self) -> Sequence[ThreadHandle]:
        """See :meth:`AddressSpace.threads`."""

    @abstractmethod
    def keeps_states(self) -> bool:
        """See :meth:`AddressSpace.keeps_states`."""
