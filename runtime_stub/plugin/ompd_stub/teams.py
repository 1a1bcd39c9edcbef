"""Teams (``struct stub_team``), and the regions that they execute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.helpers.walks import MAX_NESTING
from ompd.contract.memory import StructView, read_words
from ompd.errors import BadInput, CorruptState, Unavailable
from ompd_stub import stacks, waits

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.contract.waits import BarrierState
    from ompd_stub.runtime import Runtime
    from ompd_stub.tasks import Task
    from ompd_stub.threads import Thread


class Team:
    """One ``stub_team``."""

    def __init__(self, runtime: Runtime, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    @cached_property
    def size(self) -> int:
        """Number of threads.

        :raises CorruptState: if it is not between 1 and the most threads that a team can have
        """
        size = self.view.signed("size")
        if not 1 <= size <= self.runtime.most_threads:
            raise CorruptState(self.address, f"team of {size} threads")
        return size

    @cached_property
    def level(self) -> int:
        """The number of regions around the team's threads, 0 for the team of an initial thread.

        :raises CorruptState: if it does not fit the level of the parent team
        """
        level, parent = self.view.signed("level"), self.parent
        if not 0 <= level <= MAX_NESTING or (level == 0) != (parent is None):
            raise CorruptState(self.address, f"team at level {level}, {'with' if parent else 'without'} one around it")
        if parent is not None and parent.view.signed("level") != level - 1:
            raise CorruptState(self.address, f"team at level {level}, around it one at {parent.view.signed('level')}")
        return level

    @cached_property
    def parent(self) -> Team | None:
        """The team of the thread that encountered this team's region, None at level 0."""
        address = self.view.pointer("parent")
        return self.runtime.team_at(address) if address is not None else None

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """The addresses of the threads' descriptors, by thread number.

        :raises CorruptState: if one is missing
        """
        return self._words("threads")

    @cached_property
    def implicit(self) -> tuple[int, ...]:
        """The addresses of the threads' implicit tasks, by thread number.

        :raises CorruptState: if one is missing
        """
        return self._words("implicit")

    def _words(self, name: str) -> tuple[int, ...]:
        array = self.view.pointer(name)
        if array is None:
            raise CorruptState(self.address, f"team without {name}")
        members = tuple(read_words(self.runtime.heap, array, self.size))
        if 0 in members:  # the runtime lists a team only when it has all members
            raise CorruptState(array, f"team without member {members.index(0)} of its {name}")
        return members

    @property
    def region(self) -> Region | None:
        """The region that the team executes, None at level 0."""
        return Region(self) if self.level else None

    def implicit_task_of(self, thread: Thread) -> Task:
        """Return the implicit task of one of the team's threads.

        :raises CorruptState: if *thread* is not in the team
        """
        if thread.address not in self.threads:
            raise CorruptState(self.address, f"thread {thread.address:#x} runs a region whose team does not have it")
        return self.runtime.task_at(self.implicit[self.threads.index(thread.address)])


@dataclass(frozen=True)
class Region:
    """A parallel region, identified by its team."""

    team: Team

    @property
    def id(self) -> str:
        return f"{self.team.address:#x}"

    def enclosing(self) -> Region | None:
        return self.team.parent.region if self.team.parent is not None else None

    def size(self) -> int:
        return self.team.size

    def sizing(self) -> NoReturn:
        raise Unavailable("this plugin does not know how the stub chooses the size of a team")

    def level(self) -> int:
        return self.team.level

    def active_level(self) -> int:
        """Return ``active_level``.

        :raises CorruptState: if it is negative, or more than the level
        """
        level = self.team.view.signed("active_level")
        if not 0 <= level <= self.team.level:
            raise CorruptState(self.team.address, f"team at active level {level}, level {self.team.level}")
        return level

    def thread(self, thread_num: int) -> Thread:
        self._check(thread_num)
        return self.team.runtime.thread_at(self.team.threads[thread_num])

    def implicit_task(self, thread_num: int) -> Task:
        self._check(thread_num)
        return self.team.runtime.task_at(self.team.implicit[thread_num])

    def _check(self, thread_num: int) -> None:
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")

    def function(self) -> int | None:
        return self.team.view.pointer("function")

    def encountering_frames(self) -> Sequence[Frame]:
        return stacks.encountering_frames(self)

    def tool_data(self) -> int:
        self.team.runtime.require_debug()
        return self.team.view.unsigned("tool_data")

    def ompt_id(self) -> int:
        """Return ``id``, an ``ompt_parallel_id_t`` of 2015."""
        return self.team.view.unsigned("id")

    def barriers(self) -> Sequence[BarrierState]:
        return waits.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """Return the number of incomplete tasks that the team's implicit tasks have generated."""
        return sum(self.team.runtime.task_at(task).unfinished_children() for task in self.team.implicit)

    def source(self) -> None:
        """Return None: gcc's code records nothing of constructs."""
