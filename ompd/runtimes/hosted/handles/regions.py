"""Parallel regions, as a library reports them.

LLVM's libraries have a handle also for OpenMP's implicit parallel region, at level 0, in which an initial thread is
outside of all others. It is no region of the contract. It has a team of one, and chains of regions end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.helpers.walks import MAX_NESTING, most_threads
from ompd.contract.ompd import Scope
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.runtimes.hosted.api import Batch, ParallelRef
from ompd.runtimes.hosted.handles import stacks
from ompd.runtimes.hosted.handles.identities import Identities
from ompd.runtimes.hosted.handles.queries import Handle, given, no_call, or_else, placed, unique_name

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.hosted.handles.space import HostedSpace
    from ompd.runtimes.hosted.handles.tasks import Task
    from ompd.runtimes.hosted.handles.threads import Thread

TEAM_SIZE = ("team-size-var", "ompd-team-size-var")
LEVEL, ACTIVE_LEVEL = ("levels-var",), ("active-levels-var",)

# How many implicit tasks are queried for a region's function, because all of them have the same one.
_MAX_TASKS = 8


class Region(Handle):
    """A parallel region."""

    ref: ParallelRef

    @cached_property
    def id(self) -> str:
        """The native id of its primary thread, and the number of regions around it, itself included."""
        depth = or_else(lambda: sum(not region.is_outside for region in self.chain()), 0)
        native = or_else(lambda: self.thread(0).native_thread_id(), None)
        # A region that is over and the one that its primary thread is in now may agree in both.
        return unique_name(self.space.regions.names, f"{'?' if native is None else native}.{depth}")

    def siblings(self) -> Sequence[Region]:
        """Return all regions that are known."""
        return self.space.regions.known

    def enclosing(self) -> Region | None:
        outer = self.around()
        return outer if outer is not None and not outer.is_outside else None

    def around(self) -> Region | None:
        """Return the library's enclosing region, which may be the implicit one at level 0."""
        around = self.space.regions.around
        if self not in around:
            unasked = [region for region in self.space.regions.known if region not in around]
            batch = self.space.batch()
            pending = [batch.get_enclosing_parallel_handle(region.ref) for region in unasked]
            around.update(zip(unasked, placed(self.space.hosted_library, pending, self.space.regions.at), strict=True))
        return given(around[self])

    def chain(self) -> Iterator[Region]:
        """Yield the region, and the library's regions around it, innermost first.

        :raises CorruptState: if they do not end
        """
        seen: set[Region] = set()
        region: Region | None = self
        while region is not None:
            if region in seen or len(seen) >= MAX_NESTING:
                raise CorruptState(0, f"{self.space.hosted_library.name}: the chain of enclosing regions does not end")
            seen.add(region)
            yield region
            region = region.around()

    @property
    def is_outside(self) -> bool:
        """Whether the region is the implicit one around code outside of all regions."""
        try:
            return self.level() == 0
        except Unavailable:
            # A task without a generating task belongs to a region that no construct began.
            return self.around() is None and or_else(lambda: self.implicit_task(0).generating() is None, False)

    def size(self) -> int:
        size = self.number(TEAM_SIZE, Scope.PARALLEL)
        if not 0 < size <= self.space.regions.most_threads:
            raise CorruptState(0, f"{self.space.hosted_library.name} says that a team has {size} threads")
        return size

    def level(self) -> int:
        return self.number(LEVEL, Scope.PARALLEL)

    def active_level(self) -> int:
        return self.number(ACTIVE_LEVEL, Scope.PARALLEL)

    @cached_property
    def members(self) -> Sequence[Thread | OmpdError]:
        """The threads of the team by their numbers, with the error in place of one that is unknown.

        :raises OmpdError: if the size of the team is unknown
        """
        return self.space.all_threads.in_team(self)

    def number_of(self, thread: Thread) -> int | None:
        """Return a thread's number in the team, None if the team does not have it.

        :raises OmpdError: if that is unknown
        """
        for number, member in enumerate(self.members):
            if member is thread:
                return number
        for member in self.members:
            given(member)
        return None

    def thread(self, thread_num: int) -> Thread:
        if not 0 <= thread_num < len(self.members):
            raise BadInput(f"the team of {self.id} has {len(self.members)} threads, and no number {thread_num}")
        return given(self.members[thread_num])

    def implicit_task(self, thread_num: int) -> Task:
        tasks = self.space.tasks.implicit_tasks(self)
        if not 0 <= thread_num < len(tasks):
            raise BadInput(f"the team of {self.id} has {len(tasks)} threads, and no number {thread_num}")
        return given(tasks[thread_num])

    @cached_property
    def is_live(self) -> bool:
        """Whether the region's primary thread is in the region. A worker may keep its last region, and the library
        reports it; only the primary thread shows that a region is over.
        """
        primary = or_else(lambda: self.thread(0), None)
        if primary is None:
            return True  # nothing shows the contrary
        return or_else(lambda: any(region is self for region in primary.regions()), True)

    def function(self) -> int | None:
        """Return the function of an implicit task. For gcc's code libraries name the runtime's routine that calls it;
        the stacks of the region's threads show the function then.

        :raises Unavailable: if neither is known
        """
        fault: OmpdError | None = None
        for number in range(min(self.size(), _MAX_TASKS)):
            try:
                return self.implicit_task(number).function()
            except OmpdError as error:
                fault = fault or error
        entry = or_else(lambda: stacks.entry_of_region(self), None)
        if entry is not None:
            return entry
        raise fault or Unavailable("the region has no implicit task")

    def encountering_frames(self) -> Sequence[Frame]:
        return stacks.encountering_frames(self)

    def tool_data(self) -> int:
        return self.tool_word(Scope.PARALLEL)

    def ompt_id(self) -> NoReturn:
        no_call("the identifiers that a runtime gives")

    def source(self) -> NoReturn:
        no_call("a compiler's note of a construct")

    def barriers(self) -> NoReturn:
        no_call("who has arrived at a barrier")

    def unfinished_tasks(self) -> NoReturn:
        no_call("how many tasks are not complete")


class Regions:
    """The regions of a runtime that its threads and tasks belong to."""

    def __init__(self, space: HostedSpace) -> None:
        self._space = space
        self.known: list[Region] = []
        self.around: dict[Region, Region | OmpdError | None] = {}
        """The library's enclosing region of each region that was queried."""
        self.names: dict[str, int] = {}
        """How often each id was given."""
        self._identities: Identities[ParallelRef, Region] = Identities(
            space.hosted_library, Batch.parallel_handle_compare, self._new
        )

    def _new(self, ref: ParallelRef) -> Region:
        region = Region(self._space, ref)
        self.known.append(region)
        return region

    def at(self, refs: Sequence[ParallelRef]) -> list[Region]:
        """Return the regions of handles."""
        icv = or_else(lambda: self._space.icv_of(LEVEL, Scope.PARALLEL), None)
        if icv is None:
            return self._identities.place(refs)
        # Handles of one region have one level.
        batch = self._space.batch()
        levels = [batch.get_icv_from_scope(ref, Scope.PARALLEL, icv.number) for ref in refs]
        keys = [level.value().value if level.error() is None else None for level in levels]
        return self._identities.place(refs, keys)

    @cached_property
    def most_threads(self) -> int:
        """More threads than a team can have."""
        return most_threads(self._space.process)
