"""Tasks that a library reports: tasks that threads execute, implicit tasks of regions, and tasks that generated other
tasks or were suspended for them. OMPD has no call that returns any other task.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.code_owners import RUNTIME
from ompd.contract.ompd import Scope
from ompd.contract.plugin import FrameAddress, TaskWait
from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.hosted.api import Batch, FrameInfo, IcvWord, Pending, TaskRef
from ompd.runtimes.hosted.handles.identities import Identities
from ompd.runtimes.hosted.handles.queries import Handle, given, no_call, placed, unique_name, value

if TYPE_CHECKING:
    from ompd.runtimes.hosted.handles.regions import Region
    from ompd.runtimes.hosted.handles.space import HostedSpace
    from ompd.runtimes.hosted.handles.threads import Thread

IMPLICIT = ("implicit-task-var", "ompd-implicit-var", "ompd-implicit-task-var")
FINAL = ("final-task-var", "ompd-final-var", "ompd-final-task-var")

_NO_CODE = (0, (1 << 64) - 1)
_ALL_ONES_32 = (1 << 32) - 1


class Task(Handle):
    """A task."""

    ref: TaskRef

    def __init__(self, space: HostedSpace, ref: TaskRef) -> None:
        super().__init__(space, ref)
        self.place: tuple[Region, int] | None = None
        """The region and the thread number of an implicit task, None for any other task."""

    @cached_property
    def id(self) -> str:
        """The region and the thread number of an implicit task. For any other task, its exit frame or the thread that
        executes it.
        """
        if self.place is not None:
            region, number = self.place
            return f"{region.id}:{number}"
        # The exit frame is unique, because it is an address on one thread's stack.
        with suppress(OmpdError):
            exit_frame, _ = self.frames()
            if exit_frame is not None:
                return unique_name(self.space.tasks.names, f"{exit_frame.address:#x}")
        name = "task"
        with suppress(OmpdError):
            thread = self.space.tasks.executing_threads.get(self)
            if thread is not None:
                name = f"{thread.native_thread_id()}+"
        return unique_name(self.space.tasks.names, name)

    def siblings(self) -> Sequence[Task]:
        """Return all known tasks."""
        return self.space.tasks.known

    def likeness(self) -> None:
        """Return None, because the facts of each task have to be queried."""

    @property
    def is_implicit(self) -> bool:
        """Whether the task is implicit, by implicit-task-var or by its place in a region."""
        try:
            return self.number(IMPLICIT, Scope.TASK) != 0
        except Unavailable:
            if self.place is not None:
                return True
            raise

    def kind(self) -> str:
        if not self.is_implicit:
            return "explicit"
        return "implicit" if self.parallel() is not None else "initial"  # at level 0 the task is initial

    def status(self) -> str:
        """Return ``executing`` or ``suspended``.

        :raises Unavailable: for an explicit task that no thread executes or has suspended for another
        """
        if self in self.space.tasks.executing_threads:
            return "executing"
        if self in self.space.tasks.suspending_threads or self.kind() != "explicit":
            return "suspended"
        no_call("whether a task that no thread executes is suspended, or over")

    def waits_for(self) -> TaskWait | None:
        """Return None for a task that a thread executes or has suspended. For any other task the wait is unknown."""
        try:
            self.status()
        except OmpdError:
            no_call("whether a task waits for others")
        return None

    def unfinished_children(self) -> NoReturn:
        no_call("how many tasks that a task has generated are not complete")

    def thread(self) -> Thread | None:
        """Return the thread that executes or has suspended the task. For an implicit task in a known place, it is the
        thread of that place.

        :raises Unavailable: for an explicit task that no thread executes or has suspended for another
        """
        thread = self.space.tasks.executing_threads.get(self) or self.space.tasks.suspending_threads.get(self)
        if thread is not None:
            return thread
        if self.place is not None:
            region, number = self.place
            return region.thread(number)
        no_call("on which thread a task is that has generated others")

    def is_final(self) -> bool:
        return self.number(FINAL, Scope.TASK) != 0

    def is_tied(self) -> bool:
        """Return True for an implicit task.

        :raises Unavailable: for an explicit task
        """
        if self.kind() == "explicit":
            no_call("whether a task is tied")
        return True

    def generating(self) -> Task | None:
        return self._linked(self.space.tasks.generating, Batch.get_generating_task_handle)

    def scheduling(self) -> Task | None:
        """Return the task that was suspended for this task.

        :raises Unavailable: if the library reports no such task, and the runtime does not record states
        """
        task = self._linked(self.space.tasks.scheduling, Batch.get_scheduling_task_handle)
        if task is None and not self.is_implicit:
            keeps_states = True
            with suppress(OmpdError):
                keeps_states = self.space.keeps_states()
            if not keeps_states:
                raise Unavailable(
                    "the runtime keeps which task was suspended for another only with OMP_DEBUG=enabled, or for a tool"
                )
        return task

    def _linked(
        self, links: dict[Task, Task | OmpdError | None], call: Callable[[Batch, TaskRef], Pending[TaskRef]]
    ) -> Task | None:
        # The task to which this task is linked, for example its scheduling task; None if there is none. *call* is the
        # method of Batch that queries the link. All known tasks are queried in one exchange, and *links* keeps the
        # results.
        if self not in links:
            unqueried = [task for task in self.space.tasks.known if task not in links]
            batch = self.space.batch()
            pending = [call(batch, task.ref) for task in unqueried]
            links.update(zip(unqueried, placed(self.space.hosted_library, pending, self.space.tasks), strict=True))
        return given(links[self])

    def parallel(self) -> Region | None:
        region = self.place[0] if self.place is not None else self._queried_region()
        return region if region is not None and not region.is_outside else None

    def _queried_region(self) -> Region | None:
        # The region that the library reports, which may be the implicit region at level 0.
        tasks = self.space.tasks
        if self not in tasks.regions:
            unqueried = [task for task in tasks.known if task.place is None and task not in tasks.regions]
            batch = self.space.batch()
            pending = [batch.get_task_parallel_handle(task.ref) for task in unqueried]
            regions = placed(self.space.hosted_library, pending, self.space.regions)
            tasks.regions.update(zip(unqueried, regions, strict=True))
        return given(tasks.regions[self])

    def function(self) -> int | None:
        """Return the entry of the task's code.

        :raises Unavailable: if the library returns no function of the program
        """
        address = self.fact(Batch.get_task_function)
        library = self.space.hosted_library.name
        if address in _NO_CODE or address == _ALL_ONES_32:
            if self.is_implicit and self.parallel() is None:
                return None
            raise Unavailable(f"{library} names no code for the task")
        if self.space.process.module_at(address) is None:
            raise Unavailable(f"{library} says that a task's code is at {address:#x}, where no module is")
        if self.space.owners.at(address) == RUNTIME:
            raise Unavailable(f"{library} names the runtime's own code, at {address:#x}, which calls that of the task")
        return address

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        exit_frame, enter_frame = self.fact(Batch.get_task_frame)
        return _frame(exit_frame), _frame(enter_frame)

    def tool_data(self) -> int:
        return self.tool_word(Scope.TASK)

    def ompt_id(self) -> NoReturn:
        no_call("the identifiers that a runtime gives")

    def ompt_type(self) -> NoReturn:
        no_call("the type of a task")

    def source(self) -> NoReturn:
        no_call("a compiler's note of a construct")


def _frame(info: FrameInfo) -> FrameAddress | None:
    return FrameAddress(info.address, info.flag) if info.address else None


class Tasks(Identities[TaskRef, Task]):
    """The tasks of a runtime that queries for its threads, regions or other tasks have returned."""

    def __init__(self, space: HostedSpace) -> None:
        super().__init__(space.hosted_library)
        self._space = space
        self.known: list[Task] = []
        self.generating: dict[Task, Task | OmpdError | None] = {}
        """The task that generated each task, for tasks that were queried."""
        self.scheduling: dict[Task, Task | OmpdError | None] = {}
        """The task that was suspended for each task, for tasks that were queried."""
        self.regions: dict[Task, Region | OmpdError | None] = {}
        """The region that the library reports, for tasks that were queried and have no known place in a region."""
        self.names: dict[str, int] = {}
        """How often each id was given."""
        self._implicit: dict[Region, list[Task | OmpdError]] = {}
        self._implicit_on: dict[Thread, list[Task]] = {}
        self._without_key: list[Task] = []  # implicit tasks that are not in the identities yet

    def compare(self, batch: Batch, one: TaskRef, other: TaskRef) -> Pending[int]:
        return batch.task_handle_compare(one, other)

    def new(self, ref: TaskRef) -> Task:
        task = Task(self._space, ref)
        self.known.append(task)
        return task

    def of(self, refs: Sequence[TaskRef]) -> list[Task]:
        if not refs:
            return []
        for region in list(self._space.regions.known):
            if region.is_live:
                with suppress(OmpdError):  # not raised here, because the row of the region shows the error
                    self.implicit_tasks(region)
        tasks, self._without_key = self._without_key, []
        for task, key in zip(tasks, self._keys([task.ref for task in tasks]), strict=True):
            self.add(task, key)
        return self.place(refs, self._keys(refs))

    def _keys(self, refs: Sequence[TaskRef]) -> list[Hashable]:
        # A key for each task's handles: all handles of one task have the same frames and the same kind. Frames are
        # addresses on one thread's stack.
        batch = self._space.batch()
        frames = [batch.get_task_frame(ref) for ref in refs]
        kinds: list[Pending[IcvWord]] = []
        with suppress(OmpdError):  # without the variable, only the frames are compared
            number = self._space.icv_of(IMPLICIT, Scope.TASK).number
            kinds = [batch.get_icv_from_scope(ref, Scope.TASK, number) for ref in refs]
        addresses = [
            None if frame.error() is not None else tuple(info.address for info in frame.value()) for frame in frames
        ]
        are_implicit = [None if kind.error() is not None else kind.value().value for kind in kinds]
        return list(zip(addresses, are_implicit or [None] * len(refs), strict=True))

    def implicit_tasks(self, region: Region) -> Sequence[Task | OmpdError]:
        """Return the implicit tasks of a region by thread number, with the error in place of an unknown task.

        :raises OmpdError: if the size of the team is unknown
        """
        if region not in self._implicit:
            batch = self._space.batch()
            pending = [batch.get_task_in_parallel(region.ref, number) for number in range(region.size())]
            tasks: list[Task | OmpdError] = []
            for number, result in enumerate(pending):
                try:
                    tasks.append(self._implicit_task(region, number, value(self._space.hosted_library, result)))
                except OmpdError as error:
                    tasks.append(error)
            self._implicit[region] = tasks
        return self._implicit[region]

    def _implicit_task(self, region: Region, number: int, ref: TaskRef) -> Task:
        # The implicit tasks of a region are all different. A library that reports two regions as one may return the
        # same task for both.
        others: list[Task] = []
        with suppress(OmpdError):  # without the thread, the task is not compared
            others = self._implicit_on.setdefault(region.thread(number), [])
        batch = self._space.batch()
        compared = [batch.task_handle_compare(ref, other.ref) for other in others]
        for other, difference in zip(others, compared, strict=True):
            if difference.value() == 0:
                return other
        task = self.new(ref)
        task.place = region, number
        others.append(task)
        self._without_key.append(task)
        return task

    @cached_property
    def executing_threads(self) -> Mapping[Task, Thread]:
        """The thread that executes each task."""
        threads: dict[Task, Thread] = {}
        for thread in self._space.threads():
            with suppress(OmpdError):  # the task of this thread is unknown
                task = thread.current_task()
                if task is not None:
                    threads.setdefault(task, thread)
        return threads

    @cached_property
    def suspending_threads(self) -> Mapping[Task, Thread]:
        """The thread that has suspended each task for another task."""
        threads: dict[Task, Thread] = {}
        for thread in self._space.threads():
            with suppress(OmpdError):  # the remaining tasks of this thread are unknown
                for task in islice(thread.tasks(), 1, None):
                    threads.setdefault(task, thread)
        return threads
