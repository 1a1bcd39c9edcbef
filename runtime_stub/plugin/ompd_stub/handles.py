"""Handles of the stub's: teams and regions, tasks, threads. Each knows the others, by where their structures lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.walks import MAX_NESTING, MAX_TASKS, chain
from ompd.contract.memory import StructView, read_words
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import (
    BarrierState,
    ConstructCode,
    Dependence,
    FrameAddress,
    LockState,
    TaskWait,
    ThreadState,
)
from ompd.contract.process import Frame
from ompd.errors import BadInput, CorruptState, Unsupported
from ompd_stub.reading import Reading

_MAX_DEPENDENCES = 1 << 16

# ompt_thread_type_t
_TYPES = {1: "initial", 2: "worker", 3: "other"}
# ompt_task_type_t of 2015; a degenerate task is an explicit one that is executed where it is met.
_KINDS = {1: "initial", 2: "implicit", 3: "explicit", 4: "explicit", 5: "explicit"}
_QUEUED = 1
# What a task that has not begun has of its own besides.
_ALIKE = ("type", "generating", "team", "function", "is_final", "child_count")
_STATUSES = {_QUEUED: "queued", 2: "executing", 3: "suspended", 4: "detached", 5: "complete"}


class Registry(Reading, ABC):
    """Which handles there are in one process, and what modules above this one find out about them."""

    @property
    @abstractmethod
    def teams(self) -> Mapping[int, Team]:
        """All teams whose region is not over, by address."""

    @abstractmethod
    def team_at(self, address: int) -> Team:
        """Return the team at *address*."""

    @abstractmethod
    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""

    @abstractmethod
    def thread_at(self, address: int) -> Thread:
        """Return the thread whose descriptor lies at *address*."""

    @abstractmethod
    def task_at(self, address: int) -> Task:
        """Return the task at *address*, read once."""

    @abstractmethod
    def all_tasks(self) -> Sequence[Task]:
        """Return the tasks of all teams."""

    @property
    @abstractmethod
    def explicit_tasks(self) -> Mapping[int, Sequence[Task]]:
        """See :attr:`ompd_stub.runtime.Runtime.explicit_tasks`."""

    @abstractmethod
    def state_of(self, thread: Thread) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""

    @abstractmethod
    def lock_of(self, thread: Thread) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""

    @abstractmethod
    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""

    @abstractmethod
    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""

    @abstractmethod
    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""

    @abstractmethod
    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`."""


class Team:
    """One ``stub_team``."""

    def __init__(self, runtime: Registry, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    @cached_property
    def size(self) -> int:
        """Number of threads.

        :raises CorruptState: if it is not between 1 and the number of threads that there are
        """
        size = self.view.signed("size")
        if not 1 <= size <= self.runtime.most_threads:
            raise CorruptState(self.address, f"team of {size} threads")
        return size

    @cached_property
    def level(self) -> int:
        """How many regions it is in: 0 for that of an initial thread.

        :raises CorruptState: if the team around it says otherwise
        """
        level, parent = self.view.signed("level"), self.parent
        if not 0 <= level <= MAX_NESTING or (level == 0) != (parent is None):
            raise CorruptState(self.address, f"team at level {level}, {'with' if parent else 'without'} one around it")
        if parent is not None and parent.view.signed("level") != level - 1:
            raise CorruptState(self.address, f"team at level {level}, around it one at {parent.view.signed('level')}")
        return level

    @cached_property
    def parent(self) -> Team | None:
        """The team of the thread that met its region, None at level 0."""
        address = self.view.pointer("parent")
        return self.runtime.team_at(address) if address is not None else None

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Where the descriptors of its threads lie, by thread number.

        :raises CorruptState: if one is missing
        """
        return self._words("threads")

    @cached_property
    def implicit(self) -> tuple[int, ...]:
        """Where their implicit tasks lie.

        :raises CorruptState: if one is missing
        """
        return self._words("implicit")

    def _words(self, name: str) -> tuple[int, ...]:
        array = self.view.pointer(name)
        if array is None:
            raise CorruptState(self.address, f"team without {name}")
        members = tuple(read_words(self.runtime.heap, array, self.size))
        if 0 in members:  # a team is not to be found before it has them all
            raise CorruptState(array, f"team without member {members.index(0)} of its {name}")
        return members

    @property
    def region(self) -> Region | None:
        """The region that it executes, None at level 0."""
        return Region(self) if self.level else None

    def thread(self, number: int) -> Thread:
        """Return one of its threads."""
        return self.runtime.thread_at(self.threads[number])

    def region_task(self, thread: Thread) -> Task:
        """Return the implicit task of one of its threads.

        :raises CorruptState: if it has no such thread
        """
        if thread.address not in self.threads:
            raise CorruptState(self.address, f"thread {thread.address:#x} runs a region whose team does not have it")
        return self.runtime.task_at(self.implicit[self.threads.index(thread.address)])

    def check_queue(self) -> None:
        """Make sure that the queue of its tasks ends.

        :raises CorruptState: if not
        """
        first = self.view.pointer("first_queued")
        what = "the queue of a team's tasks"
        for _ in chain(first, lambda at: self.runtime.task_at(at).view.pointer("next_queued"), MAX_TASKS, what):
            pass


@dataclass(frozen=True)
class Region(Unnoted):
    """A parallel region, by its team."""

    team: Team

    @property
    def id(self) -> str:
        """See :attr:`ParallelHandle.id`."""
        return f"{self.team.address:#x}"

    def enclosing(self) -> Region | None:
        """See :meth:`ParallelHandle.enclosing`."""
        return self.team.parent.region if self.team.parent is not None else None

    def size(self) -> int:
        """Return ``size``."""
        return self.team.size

    def level(self) -> int:
        """Return ``level``."""
        return self.team.level

    def active_level(self) -> int:
        """Return ``active_level``.

        :raises CorruptState: if it is more than the level
        """
        level = self.team.view.signed("active_level")
        if not 0 <= level <= self.team.level:
            raise CorruptState(self.team.address, f"team at active level {level}, level {self.team.level}")
        return level

    def thread(self, thread_num: int) -> Thread:
        """See :meth:`ParallelHandle.thread`."""
        self._check(thread_num)
        return self.team.thread(thread_num)

    def implicit_task(self, thread_num: int) -> Task:
        """See :meth:`ParallelHandle.implicit_task`."""
        self._check(thread_num)
        return self.team.runtime.task_at(self.team.implicit[thread_num])

    def _check(self, thread_num: int) -> None:
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")

    def function(self) -> int | None:
        """Return ``function``."""
        return self.team.view.pointer("function")

    def encountering_frames(self) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return self.team.runtime.encountering_frames_of(self)

    def tool_data(self) -> int:
        """Return ``tool_data``."""
        self.team.runtime.require_debug()
        return self.team.view.unsigned("tool_data")

    def barriers(self) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""
        return self.team.runtime.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`: what the team's implicit tasks have generated."""
        return sum(self.team.runtime.task_at(task).unfinished_children() for task in self.team.implicit)


class Task(Unnoted):
    """One ``stub_task``."""

    def __init__(self, runtime: Registry, view: StructView) -> None:
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

    def thread(self) -> Thread | None:
        """Return ``thread``."""
        address = self.view.pointer("thread")
        if self.status() in ("queued", "waiting", "detached", "complete") or address is None:
            return None
        return self.runtime.thread_at(address)

    def is_final(self) -> bool:
        """Return ``is_final``."""
        return self.view.signed("is_final") != 0

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

    def children(self) -> Iterable[Task]:
        """Return the explicit tasks that it generated and that are not complete.

        :raises CorruptState: if the list of them does not end
        """
        first = self.view.pointer("first_child")
        task_at = self.runtime.task_at
        what = "the list of a task's children"
        return map(task_at, chain(first, lambda at: task_at(at).view.pointer("next_sibling"), MAX_TASKS, what))


class Thread:
    """One ``stub_thread``."""

    def __init__(self, runtime: Registry, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``pthread``, or ``native_id`` as the thread itself was told it."""
        if kind == ThreadIdKind.PTHREAD:
            return self.view.unsigned("pthread")
        if kind == ThreadIdKind.LWP:
            return self.view.signed("native_id")
        raise Unsupported(f"the stub keeps no thread identifiers of kind {kind!r}")

    @cached_property
    def native(self) -> int:
        """The system's identifier, as the debugger has it."""
        return native_thread_id(self.runtime.callbacks, self.view.unsigned("pthread"))

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return self.native

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`.

        :raises CorruptState: if there is no such type
        """
        kind = self.view.unsigned("type")
        if kind not in _TYPES:
            raise CorruptState(self.address, f"thread of type {kind}")
        return _TYPES[kind]

    @cached_property
    def team(self) -> Team | None:
        """The team whose region it executes, None in the pool.

        :raises CorruptState: if that does not have this thread
        """
        address = self.view.pointer("team")
        if address is None:
            return None
        team = self.runtime.team_at(address)
        if self.address not in team.threads:
            raise CorruptState(self.address, "a thread is said to be in a team that does not have it")
        return team

    def thread_num(self) -> int | None:
        """Return its place in the team: on its way into a region or out of it ``thread_num`` is that of the other."""
        return self.team.threads.index(self.address) if self.team is not None else None

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.team.region if self.team is not None else None

    def current_task(self) -> Task | None:
        """Return ``task``.

        :raises CorruptState: if a thread of a team has none
        """
        if self.team is None:
            return None
        address = self.view.pointer("task")
        if address is None:
            raise CorruptState(self.address, "a thread of a team executes no task")
        return self.runtime.task_at(address)

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: the stub has no target constructs."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return self.runtime.state_of(self)

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""
        return self.runtime.lock_of(self)

    def barrier_source(self) -> None:
        """See :meth:`ThreadHandle.barrier_source`: gcc's code records nothing of constructs."""

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`: not told apart."""
        return False

    def tool_data(self) -> int:
        """Return ``tool_data``."""
        self.runtime.require_debug()
        return self.view.unsigned("tool_data")

    def stack_bounds(self) -> tuple[int, int]:
        """Return where its stack begins and ends.

        :raises CorruptState: if that cannot be
        """
        self.runtime.require_debug()
        low, high = self.view.unsigned("stack_low"), self.view.unsigned("stack_high")
        if not 0 < low < high:
            raise CorruptState(self.address, f"a stack from {low:#x} to {high:#x}")
        return low, high

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return self.runtime.construct_code_of(self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`: by the stub's DMPL library."""
        return self.runtime.threadprivate_of_other(self.native, address)
