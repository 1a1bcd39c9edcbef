"""Parallel regions and their teams (``struct gomp_team``): one team for each, serialized ones too."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.memory import StructView
from ompd.contract.plugin import BarrierState
from ompd.contract.process import Frame
from ompd.errors import BadInput, CorruptState, NotBegun, OmpdError, Unavailable
from ompd.runtimes.libgomp import barriers, stacks
from ompd.runtimes.libgomp.structures import NO_TOOL_DATA, copied
from ompd.runtimes.libgomp.tasks import IMPLICIT, MAX_TASKS, Task

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime
    from ompd.runtimes.libgomp.threads import Thread

_HEAD = ("nthreads", "prev_ts.team", "prev_ts.team_id", "prev_ts.level", "prev_ts.active_level", "ordered_release")


class Region(Unnoted):
    """One ``gomp_team``. Each part is read once, when first asked for."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address
        self._layout = runtime.layouts["gomp_team"]

    @property
    def id(self) -> str:
        """See :attr:`ParallelHandle.id`."""
        return f"{self.address:#x}"

    @cached_property
    def view(self) -> StructView:
        """The ``gomp_team``, its first members read before."""
        return copied(self.runtime.heap, self._layout, self.address, _HEAD)

    @cached_property
    def nthreads(self) -> int:
        """The number of its threads.

        :raises CorruptState: if it cannot be
        """
        count = self.view.unsigned("nthreads")
        if not 0 < count <= self.runtime.most_threads:
            raise CorruptState(self.address, f"team of {count} threads")
        return count

    @cached_property
    def outer_team(self) -> int | None:
        """The address of the team that its primary thread was in when it met the construct."""
        return self.view.pointer("prev_ts.team")

    @cached_property
    def outer_number(self) -> int:
        """The primary thread's number in that team."""
        return self.view.unsigned("prev_ts.team_id")

    @cached_property
    def outer_level(self) -> int:
        """How many regions enclose it."""
        return self.view.unsigned("prev_ts.level")

    def enclosing(self) -> Region | None:
        """See :meth:`ParallelHandle.enclosing`."""
        return self.runtime.team_at(self.outer_team) if self.outer_team is not None else None

    def size(self) -> int:
        """Return ``nthreads``."""
        return self.nthreads

    def level(self) -> int:
        """Return the number of regions that enclose it, and itself."""
        return self.outer_level + 1

    def active_level(self) -> int:
        """Return how many of them have more than one thread."""
        return self.view.unsigned("prev_ts.active_level") + (self.nthreads > 1)

    def thread(self, thread_num: int) -> Thread:
        """See :meth:`ParallelHandle.thread`.

        :raises Unavailable: if no thread of the process says that it is that one
        """
        self._check(thread_num)
        found = self.runtime.members(self.address).get(thread_num)
        if found is None:
            there = len(self.runtime.process.threads())
            if there < self.nthreads and not self._is_forming:
                # fork() gives the child one thread, and a copy of the team; and a thread may end by itself.
                left = f"the team has {self.nthreads} threads, the process {there}: it is a fork, or threads have ended"
                raise Unavailable(left)
            raise NotBegun("no thread of the process has that number in the team: it has not begun, or is lost")
        return found

    @cached_property
    def _is_forming(self) -> bool:
        # Whether its primary thread is still making the others: it is in the routine that began the region, and at none
        # of its barriers.
        primary = self.runtime.members(self.address).get(0)
        try:
            group = stacks.innermost_group(primary) if primary is not None else None
            if primary is None or group is None or not group.forks or group.code is not None:
                return False
            return not stacks.waits_for_team(primary, group, self)
        except OmpdError:
            return False

    def implicit_task(self, thread_num: int) -> Task:
        """Return an element of ``implicit_task``.

        :raises Unavailable: if it has not been made yet
        """
        self._check(thread_num)
        if not self.has_task(thread_num):
            raise Unavailable(f"thread {thread_num} has not joined its team yet")
        return self.runtime.task_at(self.runtime.implicit_task_at(self.address, thread_num))

    def has_task(self, thread_num: int) -> bool:
        """Tell whether the implicit task of a thread has been made, which is done before the thread itself is: until
        then its memory holds what was there before.
        """
        if thread_num == 0 or thread_num in self.runtime.members(self.address):
            return True
        first, own = (self.runtime.task_at(self.runtime.implicit_task_at(self.address, at)) for at in (0, thread_num))
        return own.parent == first.parent and own.gomp_kind == IMPLICIT and own.view.unsigned("icv.nthreads_var") != 0

    @property
    def first_task(self) -> int:
        """Where the first of its implicit tasks lies."""
        return self.view.address_of("implicit_task")

    def _check(self, thread_num: int) -> None:
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")

    @cached_property
    def barrier(self) -> StructView:
        """The ``gomp_team``, its barrier's words read before."""
        members = ("barrier.total", "barrier.generation", "barrier.awaited", "barrier.awaited_final")
        return copied(self.runtime.heap, self._layout, self.address, members)

    def function(self) -> int:
        """Return the entry of the function that the compiler made of the region, from the stack of one of its threads.

        :raises Unavailable: if no thread of the team has it on its stack
        """
        return stacks.region_entry(self)

    def encountering_frames(self) -> tuple[Frame, ...]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return stacks.encountering_frames(self)

    def tool_data(self) -> int:
        """Not kept: libgomp has no OMPT."""
        raise Unavailable(NO_TOOL_DATA)

    def barriers(self) -> tuple[BarrierState, ...]:
        """See :meth:`ParallelHandle.barriers`: that of the region's end, and the team's other one.

        :raises Unavailable: if a thread's stack does not show at which it is
        """
        return barriers.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`: ``task_count``, which leaves out those that wait for others.

        :raises CorruptState: if there are more than any program has
        """
        count = StructView(self.runtime.heap, self._layout, self.address).unsigned("task_count")
        if count > MAX_TASKS:
            raise CorruptState(self.address, f"team with {count} tasks")
        return count
