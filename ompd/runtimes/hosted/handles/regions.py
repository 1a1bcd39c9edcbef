"""Parallel regions, as a library reports them.

An initial thread that is in no region has a handle of one all the same in LLVM's libraries: OpenMP's implicit parallel
region, at level 0. It is no region of the contract, but has a team of one, and is where chains end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import MAX_NESTING, most_threads
from ompd.contract.ompd import Scope
from ompd.contract.plugin import TaskHandle, ThreadHandle
from ompd.contract.process import Frame, Module, Process
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.runtimes.hosted.api import Batch, ParallelRef, SpaceRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.handles.asking import Asked, Asking, given, known
from ompd.runtimes.hosted.handles.identities import Identities

if TYPE_CHECKING:
    from ompd.contract.waits import BarrierState

TEAM_SIZE = ("team-size-var", "ompd-team-size-var")
LEVEL, ACTIVE_LEVEL = ("levels-var",), ("active-levels-var",)

# How many threads' tasks are queried for a region's function: all of a team have the same.
_MAX_TASKS = 8


class Region(Asked):
    """See :class:`ompd.contract.plugin.ParallelHandle`."""

    ref: ParallelRef

    def __init__(self, space: Regions, ref: ParallelRef) -> None:
        super().__init__(ref)
        self.space = space
        self._id: str | None = None
        self._members: list[ThreadHandle | OmpdError] | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def id(self) -> str:
        """The native id of its primary thread, and how many regions are around it, itself included."""
        if self._id is None:
            self._id = self.space.name_region(self)
        return self._id

    def _number(self, names: Sequence[str]) -> int:
        return self.space.number_of(self, self.space.known_regions, names, Scope.PARALLEL)

    def enclosing(self) -> Region | None:
        """See :meth:`ParallelHandle.enclosing`."""
        outer = self.around()
        return outer if outer is not None and not outer.is_outside else None

    def around(self) -> Region | None:
        """Return the library's enclosing region, which may be the implicit one at level 0."""
        return self.space.region_around(self)

    @property
    def is_outside(self) -> bool:
        """Whether it is the implicit region around the code that is in no region."""
        try:
            return self.level() == 0
        except Unavailable:
            # A task without a generating task belongs to a region that no construct began.
            return self.around() is None and known(lambda: self.implicit_task(0).generating() is None, False)

    def size(self) -> int:
        """See :meth:`ParallelHandle.size`: team-size-var."""
        size = self._number(TEAM_SIZE)
        if not 0 < size <= self.space.most_threads:
            raise CorruptState(0, f"{self.space.client.name} says that a team has {size} threads")
        return size

    def level(self) -> int:
        """See :meth:`ParallelHandle.level`: levels-var."""
        return self._number(LEVEL)

    def active_level(self) -> int:
        """See :meth:`ParallelHandle.active_level`: active-levels-var."""
        return self._number(ACTIVE_LEVEL)

    def members(self) -> Sequence[ThreadHandle | OmpdError]:
        """Return the threads of the team by their numbers, and what went wrong with others.

        :raises OmpdError: if it is unknown how many there are
        """
        if self._members is None:
            self._members = self.space.members_of(self)
        return self._members

    def number_of(self, thread: ThreadHandle) -> int | None:
        """Return a thread's number in the team, None if the team does not have it.

        :raises OmpdError: if that is unknown
        """
        members = self.members()
        for number, member in enumerate(members):
            if member is thread:
                return number
        fault = next((member for member in members if isinstance(member, OmpdError)), None)
        if fault is not None:
            raise fault
        return None

    def thread(self, thread_num: int) -> ThreadHandle:
        """See :meth:`ParallelHandle.thread`."""
        members = self.members()
        if not 0 <= thread_num < len(members):
            raise BadInput(f"the team of {self.id} has {len(members)} threads, and no number {thread_num}")
        found = members[thread_num]
        if isinstance(found, OmpdError):
            raise found
        return found

    def implicit_task(self, thread_num: int) -> TaskHandle:
        """See :meth:`ParallelHandle.implicit_task`."""
        return self.space.implicit_task_of(self, thread_num)

    @cached_property
    def is_live(self) -> bool:
        """Whether its primary thread is in it. A worker may keep the region that it was in last, and the library says
        so; the primary thread knows when a region is over.
        """
        primary = known(partial(self.thread, 0), None)
        if primary is None:
            return True  # nothing shows the contrary
        return known(lambda: any(region is self for region in self.space.regions_of(primary)), True)

    def function(self) -> int | None:
        """See :meth:`ParallelHandle.function`: that of an implicit task. For gcc's code libraries name the runtime's
        routine that calls it; then the one on the stacks of its threads.

        :raises Unavailable: if neither is known
        """
        fault: OmpdError | None = None
        for number in range(min(self.size(), _MAX_TASKS)):
            try:
                return self.implicit_task(number).function()
            except OmpdError as error:
                fault = fault or error
        entry = known(partial(self.space.entry_on_stacks, self), None)
        if entry is not None:
            return entry
        raise fault or Unavailable("the region has no implicit task")

    def encountering_frames(self) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return self.space.encountering_frames_of(self)

    def tool_data(self) -> int:
        """See :meth:`ParallelHandle.tool_data`."""
        return self.space.tool_data_of(self, self.space.known_regions, Scope.PARALLEL)

    def ompt_id(self) -> int:
        """See :meth:`Numbered.ompt_id`.

        :raises Unavailable: always
        """
        self.space.no_call("the identifiers that a runtime gives")

    def source(self) -> NoReturn:
        """See :meth:`ParallelHandle.source`.

        :raises Unavailable: always
        """
        self.space.no_call("a compiler's note of a construct")

    def barriers(self) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`.

        :raises Unavailable: always
        """
        self.space.no_call("who has arrived at a barrier")

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`.

        :raises Unavailable: always
        """
        self.space.no_call("how many tasks are not complete")


class Regions(Asking):
    """The regions of an address space that threads and tasks have led to.

    :param is_whole: see :class:`~ompd.contract.helpers.stacks.CodeOwners`
    """

    def __init__(
        self, process: Process, module: Module, library: HostedLibrary, ref: SpaceRef, *, is_whole: bool = False
    ) -> None:
        super().__init__(process, module, library, ref)
        self.owners = CodeOwners(process, module, is_whole=is_whole)
        self.known_regions: list[Region] = []
        self._regions: Identities[ParallelRef, Region] = Identities(
            library, Batch.parallel_handle_compare, self._new_region
        )
        self._around: dict[Region, Region | OmpdError | None] = {}
        self._names: dict[str, int] = {}

    def _new_region(self, ref: ParallelRef) -> Region:
        region = Region(self, ref)
        self.known_regions.append(region)
        return region

    def regions_at(self, refs: Sequence[ParallelRef]) -> list[Region]:
        """Return the regions that handles stand for."""
        icv = known(lambda: self.icv_of(LEVEL, Scope.PARALLEL), None)
        if icv is None:
            return self._regions.place(refs)
        # Handles of one region have one level.
        batch = self.batch()
        levels = [batch.get_icv_from_scope(ref, Scope.PARALLEL, icv.number) for ref in refs]
        keys = [one.value().value if one.error() is None else None for one in levels]
        return self._regions.place(refs, keys)

    def region_around(self, region: Region) -> Region | None:
        """Return the library's enclosing region of a region, None if there is none."""
        if region not in self._around:
            unasked = [one for one in self.known_regions if one not in self._around]
            batch = self.batch()
            pending = [batch.get_enclosing_parallel_handle(one.ref) for one in unasked]
            self._around.update(zip(unasked, self.placed(pending, self.regions_at), strict=True))
        return given(self._around[region])

    def chain(self, region: Region | None) -> Iterator[Region]:
        """Yield a region, and those around it as the library has them, innermost first.

        :raises CorruptState: if they do not end
        """
        seen: set[Region] = set()
        while region is not None:
            if region in seen or len(seen) >= MAX_NESTING:
                raise CorruptState(0, f"{self.client.name}: the chain of enclosing regions does not end")
            seen.add(region)
            yield region
            region = region.around()

    def name_region(self, region: Region) -> str:
        """Return an id for a region, that no other one has."""
        depth = known(lambda: sum(not one.is_outside for one in self.chain(region)), 0)
        primary = known(partial(region.thread, 0), None)
        native = known(primary.native_thread_id, None) if primary is not None else None
        name = f"{'?' if native is None else native}.{depth}"
        # A region that is over and the one that its primary thread is in now may agree in both.
        same = self._names[name] = self._names.get(name, 0) + 1
        return name if same == 1 else f"{name}#{same}"

    @cached_property
    def most_threads(self) -> int:
        """More threads than a team can have."""
        return most_threads(self.process)

    @abstractmethod
    def members_of(self, region: Region) -> list[ThreadHandle | OmpdError]:
        """See :meth:`Region.members`."""

    @abstractmethod
    def regions_of(self, thread: ThreadHandle) -> Sequence[Region]:
        """Return the region that the library says a thread is in, and those around it, innermost first.

        :raises OmpdError: if that is unknown
        """

    @abstractmethod
    def implicit_task_of(self, region: Region, thread_num: int) -> TaskHandle:
        """See :meth:`Region.implicit_task`."""

    @abstractmethod
    def entry_on_stacks(self, region: Region) -> int:
        """Return the entry of a region's function by the code on the stacks of its threads.

        :raises OmpdError: if that is unknown
        """

    @abstractmethod
    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`Region.encountering_frames`."""
