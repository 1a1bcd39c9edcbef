"""Parallel regions, as a library reports them.

LLVM's libraries also have a handle for OpenMP's implicit parallel region at level 0, which contains an initial thread
outside of all other regions. The contract has no such region. Its team has one thread, and chains of regions end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.helpers.walks import MAX_NESTING, most_threads
from ompd.contract.ompd import Scope
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.runtimes.hosted.api import Batch, ParallelRef, Pending
from ompd.runtimes.hosted.handles import stacks
from ompd.runtimes.hosted.handles.identities import Identities
from ompd.runtimes.hosted.handles.queries import Handle, given, no_call, placed, unique_name

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.hosted.handles.space import HostedSpace
    from ompd.runtimes.hosted.handles.tasks import Task
    from ompd.runtimes.hosted.handles.threads import Thread

TEAM_SIZE = ("team-size-var", "ompd-team-size-var")
LEVEL, ACTIVE_LEVEL = ("levels-var",), ("active-levels-var",)

# The most implicit tasks that are queried for a region's function. All of a region's implicit tasks have the same
# function.
_MAX_TASKS = 8


class Region(Handle):
    """A parallel region."""

    ref: ParallelRef

    @cached_property
    def id(self) -> str:
        """The native id of the region's primary thread, and the number of enclosing regions, including this one."""
        depth, native = 0, "?"
        with suppress(OmpdError):
            depth = sum(not region.is_outside for region in self.chain())
        with suppress(OmpdError):
            native = str(self.thread(0).native_thread_id())
        # A region that is over may have the same primary thread and level as the region that this thread executes now.
        return unique_name(self.space.regions.names, f"{native}.{depth}")

    def siblings(self) -> Sequence[Region]:
        """Return all known regions."""
        return self.space.regions.known

    def enclosing(self) -> Region | None:
        outer = self.around()
        return outer if outer is not None and not outer.is_outside else None

    def around(self) -> Region | None:
        """Return the enclosing region that the library reports, which may be the implicit region at level 0."""
        around = self.space.regions.around
        if self not in around:
            unqueried = [region for region in self.space.regions.known if region not in around]
            batch = self.space.batch()
            pending = [batch.get_enclosing_parallel_handle(region.ref) for region in unqueried]
            around.update(zip(unqueried, placed(self.space.hosted_library, pending, self.space.regions), strict=True))
        return given(around[self])

    def chain(self) -> Iterator[Region]:
        """Yield this region and the enclosing regions that the library reports, innermost first.

        :raises CorruptState: if the chain does not end
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
        """Whether this is the implicit region around code that is outside of all other regions."""
        try:
            return self.level() == 0
        except Unavailable:
            # A region is implicit if its task has no generating task, because then no construct began the region.
            is_outermost = self.around() is None
        with suppress(OmpdError):
            return is_outermost and self.implicit_task(0).generating() is None
        return False

    def size(self) -> int:
        size = self.number(TEAM_SIZE, Scope.PARALLEL)
        if not 0 < size <= self.space.regions.most_threads:
            raise CorruptState(0, f"{self.space.hosted_library.name} says that a team has {size} threads")
        return size

    def sizing(self) -> NoReturn:
        no_call("how a runtime chooses the size of a team")

    def level(self) -> int:
        return self.number(LEVEL, Scope.PARALLEL)

    def active_level(self) -> int:
        return self.number(ACTIVE_LEVEL, Scope.PARALLEL)

    @cached_property
    def members(self) -> Sequence[Thread | OmpdError]:
        """The threads of the team by number, with the error in place of an unknown thread.

        :raises OmpdError: if the size of the team is unknown
        """
        return self.space.all_threads.in_team(self)

    def number_of(self, thread: Thread) -> int | None:
        """Return a thread's number in the team, None if the thread is not in the team.

        :raises OmpdError: if the number is unknown
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
        """Whether the region's primary thread is in the region. A worker may keep its last region, and the library then
        still reports it. Only the primary thread shows that a region is over.
        """
        try:
            return any(region is self for region in self.thread(0).regions())
        except OmpdError:
            return True  # the region counts as live, because nothing shows that it is over

    def function(self) -> int | None:
        """Return the function of an implicit task. For gcc's code, libraries return the runtime's routine that calls
        the function; in that case the stacks of the region's threads show the function.

        :raises Unavailable: if neither source shows the function
        """
        fault: OmpdError | None = None
        for number in range(min(self.size(), _MAX_TASKS)):
            try:
                return self.implicit_task(number).function()
            except OmpdError as error:
                fault = fault or error
        with suppress(OmpdError):
            entry = stacks.entry_of_region(self)
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


class Regions(Identities[ParallelRef, Region]):
    """The regions to which the threads and tasks of a runtime belong."""

    def __init__(self, space: HostedSpace) -> None:
        super().__init__(space.hosted_library)
        self._space = space
        self.known: list[Region] = []
        self.around: dict[Region, Region | OmpdError | None] = {}
        """The enclosing region that the library reports, for each region that was queried."""
        self.names: dict[str, int] = {}
        """The number of times that each id has been given."""

    def compare(self, batch: Batch, one: ParallelRef, other: ParallelRef) -> Pending[int]:
        return batch.parallel_handle_compare(one, other)

    def new(self, ref: ParallelRef) -> Region:
        region = Region(self._space, ref)
        self.known.append(region)
        return region

    def of(self, refs: Sequence[ParallelRef]) -> list[Region]:
        try:
            icv = self._space.icv_of(LEVEL, Scope.PARALLEL)
        except OmpdError:
            return self.place(refs)
        # All handles of one region have the same level.
        batch = self._space.batch()
        levels = [batch.get_icv_from_scope(ref, Scope.PARALLEL, icv.number) for ref in refs]
        keys = [level.value().value if level.error() is None else None for level in levels]
        return self.place(refs, keys)

    @cached_property
    def most_threads(self) -> int:
        """A number of threads that no team can exceed."""
        return most_threads(self._space.process)
