"""Teams (``struct stub_team``), and the regions that they execute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.helpers.walks import MAX_NESTING
from ompd.contract.memory import StructView, read_words
from ompd.contract.plugin import TaskHandle, ThreadHandle
from ompd.contract.process import Frame
from ompd.contract.waits import BarrierState
from ompd.errors import BadInput, CorruptState
from ompd_stub.reading import Reading

_MAX_TEAMS = 1 << 20


class Team:
    """One ``stub_team``."""

    def __init__(self, runtime: Teams, view: StructView) -> None:
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

    def thread(self, number: int) -> ThreadHandle:
        """Return one of its threads."""
        return self.runtime.thread_at(self.threads[number])


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

    def thread(self, thread_num: int) -> ThreadHandle:
        """See :meth:`ParallelHandle.thread`."""
        self._check(thread_num)
        return self.team.thread(thread_num)

    def implicit_task(self, thread_num: int) -> TaskHandle:
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

    def ompt_id(self) -> int:
        """Return ``id``, an ``ompt_parallel_id_t`` of 2015."""
        return self.team.view.unsigned("id")

    def barriers(self) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""
        return self.team.runtime.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`: what the team's implicit tasks have generated."""
        return sum(self.team.runtime.task_at(task).unfinished_children() for task in self.team.implicit)


class Teams(Reading, ABC):
    """The runtime with its teams. What its tasks, its threads and their stacks tell of them is added above."""

    @cached_property
    def _teams(self) -> Mapping[int, Team]:
        views = self.listed("stub_team", self.root.pointer("teams"), _MAX_TEAMS, "the list of teams")
        return {address: Team(self, view) for address, view in views.items()}

    @property
    def teams(self) -> Mapping[int, Team]:
        """All teams whose region is not over, by address.

        :raises CorruptState: if the list of them does not end
        """
        return self._teams

    def team_at(self, address: int) -> Team:
        """Return the team at *address*.

        :raises CorruptState: if the runtime has none there
        """
        try:
            return self.teams[address]
        except KeyError:
            raise CorruptState(address, "no team of the runtime lies there") from None

    @abstractmethod
    def task_at(self, address: int) -> TaskHandle:
        """Return the task at *address*."""

    @abstractmethod
    def thread_at(self, address: int) -> ThreadHandle:
        """Return the thread whose descriptor is at *address*.

        :raises CorruptState: if the runtime has none there
        """

    @abstractmethod
    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""

    @abstractmethod
    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""
