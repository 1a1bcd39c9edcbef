"""Tasks (``struct stub_task``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.helpers.walks import MAX_TASKS, all_tasks, chain
from ompd.contract.memory import StructLayout, StructView
from ompd.contract.plugin import Dependence, FrameAddress, TaskWait, ThreadHandle
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState
from ompd_stub.teams import Region, Team, Teams

_MAX_DEPENDENCES = 1 << 16

# ompt_task_type_t of 2015; a degenerate task is an explicit one that is executed where it is met.
_KINDS = {1: "initial", 2: "implicit", 3: "explicit", 4: "explicit", 5: "explicit"}
_TYPES = {1: "serial", 2: "implicit", 3: "explicit", 4: "target", 5: "degenerate"}
_QUEUED = 1
# What a task that has not begun has of its own besides.
_ALIKE = ("type", "generating", "team", "function", "is_final", "child_count")
_STATUSES = {_QUEUED: "queued", 2: "executing", 3: "suspended", 4: "detached", 5: "complete"}


class OnStack(ThreadHandle, Protocol):
    """What tasks need of a thread."""

    def stack_bounds(self) -> tuple[int, int]:
        """Return where its stack begins and ends."""


class Task(Unnoted):
    """One ``stub_task``."""

    def __init__(self, runtime: Tasks, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.address:#x}"

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`.

        :raises CorruptState: if there is no such type
        """
        return self._word("type", _KINDS)

    def status(self) -> str:
        """See :meth:`TaskHandle.status`.

        :raises CorruptState: if there is no such status
        """
        status = self._word("status", _STATUSES)
        return "waiting" if status == "queued" and self._predecessor_count() else status

    def likeness(self) -> Hashable | None:
        """See :meth:`TaskHandle.likeness`: all that is read of one that is queued, while nothing is kept for tools."""
        read = self.view.unsigned
        if read("status") != _QUEUED or self._predecessor_count() or self.runtime.keeps_states():
            return None
        return tuple(map(read, _ALIKE))

    def _predecessor_count(self) -> int:
        count = self.view.signed("predecessor_count")
        if not 0 <= count <= MAX_TASKS:
            raise CorruptState(self.address, f"task that waits for {count} others")
        return count

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: ``predecessor_count`` and ``dependences``; a detached task is its event.

        :raises CorruptState: if it has more dependences than any task
        """
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.address)
        if status != "waiting":
            return None
        return TaskWait("dependence", self._predecessor_count(), tuple(self._predecessors()), self.dependences)

    @cached_property
    def dependences(self) -> tuple[Dependence, ...]:
        """The items of its depend clauses.

        :raises CorruptState: if it has more than any task
        """
        count, array = self.view.signed("dependence_count"), self.view.pointer("dependences")
        if not 0 <= count <= _MAX_DEPENDENCES or (count and array is None):
            raise CorruptState(self.address, f"task with {count} dependences")
        size = self.runtime.layouts["stub_dependence"].size or 0
        views = (self.runtime.view("stub_dependence", (array or 0) + number * size) for number in range(count))
        return tuple(Dependence(view.unsigned("address"), not view.signed("is_out")) for view in views)

    def _predecessors(self) -> Iterator[Task]:
        # The siblings that were created before it, are not complete, and name something that it names, unless both only
        # read that.
        parent = self.generating()
        if parent is None:
            return
        own = {item.address: item.is_in for item in self.dependences}
        for other in parent.children():
            if other.view.unsigned("id") < self.view.unsigned("id") and any(
                item.address in own and not (item.is_in and own[item.address]) for item in other.dependences
            ):
                yield other

    def unfinished_children(self) -> int:
        """Return ``child_count``.

        :raises CorruptState: if it cannot be
        """
        count = self.view.signed("child_count")
        if not 0 <= count <= MAX_TASKS:
            raise CorruptState(self.address, f"task with {count} children")
        return count

    def _word(self, name: str, words: dict[int, str]) -> str:
        value = self.view.unsigned(name)
        if value not in words:
            raise CorruptState(self.address, f"task of {name} {value}")
        return words[value]

    @cached_property
    def team(self) -> Team:
        """The team that executes its region.

        :raises CorruptState: if it has none
        """
        address = self.view.pointer("team")
        if address is None:
            raise CorruptState(self.address, "task without a team")
        return self.runtime.team_at(address)

    def thread(self) -> OnStack | None:
        """Return ``thread``."""
        address = self.view.pointer("thread")
        if self.status() in ("queued", "waiting", "detached", "complete") or address is None:
            return None
        return self.runtime.thread_at(address)

    def is_final(self) -> bool:
        """Return ``is_final``."""
        return self.view.signed("is_final") != 0

    def is_tied(self) -> bool:
        """Return True: the stub leaves every task that has begun on its thread, also one that says it is not tied."""
        return True

    def generating(self) -> Task | None:
        """Return ``generating``."""
        address = self.view.pointer("generating")
        return self.runtime.task_at(address) if address is not None else None

    def scheduling(self) -> Task | None:
        """Return ``scheduling``, which explicit tasks alone have."""
        if self.kind() != "explicit" or self.status() in ("queued", "waiting"):
            return None
        self.runtime.require_debug()
        address = self.view.pointer("scheduling")
        return self.runtime.task_at(address) if address is not None else None

    def parallel(self) -> Region | None:
        """Return the region that its team executes."""
        return self.team.region

    def function(self) -> int | None:
        """Return ``function``.

        :raises CorruptState: if only an initial one could have none
        """
        function = self.view.pointer("function")
        if function is None and self.kind() != "initial":
            raise CorruptState(self.address, f"an {self.kind()} task has no code")
        return function

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Return exit and reenter frame: the latter is OpenMP 5's enter frame.

        :raises CorruptState: if one does not lie on the stack of the task's thread
        """
        self.runtime.require_debug()
        view = StructView(self.view.memory, self.runtime.layouts["stub_frame"], self.view.address_of("frame"))
        return (
            self._frame(view, "exit_runtime_frame", "exit_frame_flags"),
            self._frame(view, "reenter_runtime_frame", "reenter_frame_flags"),
        )

    def _frame(self, view: StructView, name: str, flags: str) -> FrameAddress | None:
        address = view.pointer(name)
        if address is None:
            return None
        thread = self.thread()
        if thread is None:
            raise CorruptState(self.address, f"{name} is {address:#x}, and the task is on no thread")
        low, high = thread.stack_bounds()
        if not low <= address < high:
            raise CorruptState(self.address, f"{name} is {address:#x}, and its thread's stack {low:#x} to {high:#x}")
        return FrameAddress(address, view.signed(flags))

    def tool_data(self) -> int:
        """Return ``tool_data``."""
        self.runtime.require_debug()
        return self.view.unsigned("tool_data")

    def ompt_id(self) -> int:
        """Return ``id``, an ``ompt_task_id_t`` of 2015."""
        return self.view.unsigned("id")

    def ompt_type(self) -> str:
        """Return ``type``, an ``ompt_task_type_t`` of 2015.

        :raises CorruptState: if there is no such type
        """
        return self._word("type", _TYPES)

    def children(self) -> Iterable[Task]:
        """Return the explicit tasks that it generated and that are not complete.

        :raises CorruptState: if the list of them does not end
        """
        first = self.view.pointer("first_child")
        task_at = self.runtime.task_at
        what = "the list of a task's children"
        return map(task_at, chain(first, lambda at: task_at(at).view.pointer("next_sibling"), MAX_TASKS, what))


class Tasks(Teams):
    """The runtime with its tasks."""

    def __init__(self, process: Process, module: Module, layouts: Mapping[str, StructLayout], root: StructView) -> None:
        super().__init__(process, module, layouts, root)
        self._tasks: dict[int, Task] = {}

    @abstractmethod
    def thread_at(self, address: int) -> OnStack:
        """Return the thread whose descriptor is at *address*.

        :raises CorruptState: if the runtime has none there
        """

    def task_at(self, address: int) -> Task:
        """Return the task at *address*, read once."""
        if address not in self._tasks:
            self._tasks[address] = Task(self, self.view("stub_task", address))
        return self._tasks[address]

    def region_task(self, team: Team, thread: int) -> Task:
        """Return the implicit task of one of a team's threads, by its descriptor.

        :raises CorruptState: if it has no such thread
        """
        if thread not in team.threads:
            raise CorruptState(team.address, f"thread {thread:#x} runs a region whose team does not have it")
        return self.task_at(team.implicit[team.threads.index(thread)])

    def all_tasks(self) -> Sequence[Task]:
        """Return the tasks of all teams: implicit and initial ones, and those that came of them and are not complete.

        :raises CorruptState: if there is no end of them
        """
        return self._all_tasks

    @cached_property
    def _all_tasks(self) -> Sequence[Task]:
        first = (self.task_at(at) for team in self.teams.values() for at in team.implicit)
        return tuple(all_tasks(first, Task.children))

    @cached_property
    def explicit_tasks(self) -> Mapping[int, Sequence[Task]]:
        """The explicit tasks that are on each thread, by the thread's descriptor.

        :raises OmpdError: if the thread of a task is unknown
        """
        found: dict[int, list[Task]] = {}
        for task in self.all_tasks():
            thread = task.thread() if task.kind() == "explicit" else None
            if thread is not None:
                found.setdefault(thread.address, []).append(task)
        return found

    def check_queue(self, team: Team) -> None:
        """Make sure that the queue of a team's tasks ends.

        :raises CorruptState: if not
        """
        first = team.view.pointer("first_queued")
        what = "the queue of a team's tasks"
        for _ in chain(first, lambda at: self.task_at(at).view.pointer("next_queued"), MAX_TASKS, what):
            pass

    def queued_tasks(self) -> Sequence[Task]:
        """Return the explicit tasks that are not complete, those in no queue and those that have begun among them.

        :raises CorruptState: if a queue, or a list of children, does not end
        """
        for team in self.teams.values():
            self.check_queue(team)
        return [task for task in self.all_tasks() if task.kind() == "explicit"]
