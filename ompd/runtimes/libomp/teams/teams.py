"""Teams and the regions they execute (``kmp_base_team_t``).

Nested serialized regions of one thread share one team, which counts them in ``t_level``: three in a row below level 1
are one team at level 4. Each is a region of its own here. LLVM's library, which goes by the nodes of
``ompt_serialized_team_info`` instead, shows one too few and needs OMP_DEBUG for any.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

from ompd.contract.code_owners import RUNTIME, USER
from ompd.contract.helpers.defaults import Unnumbered
from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView, check_aligned, read_pointer
from ompd.contract.plugin import TaskHandle, ThreadHandle
from ompd.contract.process import Frame, Module, Process
from ompd.contract.waits import BarrierState
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, Unavailable
from ompd.records import record
from ompd.runtimes.libomp.teams.reading import Reading

# omp_get_supported_active_levels() of libomp is INT_MAX; a stack ends long before this.
MAX_NESTING = 100_000

NOT_KEPT = "the runtime keeps this only if OMP_DEBUG=enabled or a tool asked for it at the start"


class Team:
    """One ``kmp_team_t``. Each field is read once, when first asked for."""

    def __init__(self, runtime: Teams, view: StructView) -> None:
        self.runtime = runtime
        self.address = view.address
        self._view = view

    @cached_property
    def t_nproc(self) -> int:
        """Number of threads.

        :raises CorruptState: if it is not between 1 and the number of threads that there are
        """
        count = self._view.signed("t_nproc")
        room = min(self.runtime.capacity, self.runtime.most_threads)
        if not 1 <= count <= room:
            raise CorruptState(self.address, f"team of {count} threads, room is for {room}")
        return count

    @cached_property
    def t_level(self) -> int:
        """Level of the innermost region it executes."""
        level = self._view.signed("t_level")
        if not 0 <= level <= MAX_NESTING:
            raise CorruptState(self.address, f"team at level {level}")
        return level

    @cached_property
    def t_active_level(self) -> int:
        """Number of active regions among those up to ``t_level``."""
        level = self._view.signed("t_active_level")
        if not 0 <= level <= self.t_level:
            raise CorruptState(self.address, f"team at active level {level}, level {self.t_level}")
        return level

    @cached_property
    def t_parent(self) -> Team | None:
        """The team whose thread formed this one, None for that of an initial thread."""
        address = self._view.pointer("t_parent")
        return self.runtime.team_at(address) if address is not None else None

    @cached_property
    def t_pkfn(self) -> int | None:
        """The microtask, None where there is none: 0 (LLVM) or all ones (Intel) in a team that never forked."""
        address = self._view.unsigned("t_pkfn")
        ones = (1 << 8 * self.runtime.process.pointer_size) - 1
        return None if address in (0, ones) else address

    def wrapped_function(self) -> int | None:
        """Return the function of gcc's code that the wrapper in ``t_pkfn`` calls: the first of its arguments
        (``t_argv``). None where nothing tells where these are.
        """
        try:
            view = self.runtime.structures.view("kmp_base_team_t.t_argv", self.address)
        except LayoutUnavailable:
            return None
        arguments = view.pointer("t_argv")
        if arguments is None or view.signed("t_argc") < 1:
            return None
        function = read_pointer(self.runtime.process, arguments)
        return function if function is not None and self.runtime.owners.at(function) == USER else None

    @cached_property
    def t_threads(self) -> tuple[int | None, ...]:
        """Addresses of its threads (``kmp_info_t *``) by number, None for one that is missing while the team forms.

        :raises CorruptState: if there are none, or one has two numbers
        """
        array = self._view.pointer("t_threads")
        if array is None:
            raise CorruptState(self.address, "team without t_threads")
        size = self.runtime.process.pointer_size
        raw = self.runtime.heap.read(array, self.t_nproc * size)
        order = self.runtime.process.byte_order
        found = tuple(int.from_bytes(raw[at : at + size], order) or None for at in range(0, len(raw), size))
        if len(set(found)) < len(found) - max(found.count(None) - 1, 0):
            raise CorruptState(self.address, "a team has a thread twice")
        return found

    def implicit_task_at(self, thread_num: int) -> int:
        """Return the address of a thread's implicit task: ``t_implicit_task_taskdata`` is an array of
        ``kmp_taskdata_t``.
        """
        array = self._view.pointer("t_implicit_task_taskdata")
        size = self.runtime.task_layout.size
        if array is None or not size:
            raise Unavailable("the runtime does not tell where implicit tasks lie")
        return array + thread_num * size

    def has_implicit_task_at(self, address: int) -> bool:
        """Return whether *address* is inside of the array of its implicit tasks."""
        array, size = self._view.pointer("t_implicit_task_taskdata"), self.runtime.task_layout.size
        return array is not None and size is not None and array <= address < array + self.t_nproc * size

    def thread_of_implicit_task(self, address: int) -> ThreadHandle:
        """Return the thread whose implicit task is at *address*.

        :raises CorruptState: if none of this team's does
        """
        array = self._view.pointer("t_implicit_task_taskdata")
        size = self.runtime.task_layout.size
        number, rest = divmod(address - (array or 0), size or 1)
        if array is None or not size or rest or not 0 <= number < self.t_nproc:
            raise CorruptState(address, "an implicit task does not lie among those of its team")
        thread = self.t_threads[number]
        if thread is None:
            raise Unavailable(f"thread {number} has not joined its team yet")
        return self.runtime.thread_at(thread)

    @cached_property
    def _displaced(self) -> tuple[StructView, ...]:
        # ompt_lw_taskteam_t nodes, innermost first: what OMPT keeps of all but the innermost serialized region of this
        # team.
        layout = self.runtime.layouts["ompt_lw_taskteam_t"]

        def node(address: int) -> StructView:
            return StructView(self.runtime.heap, layout, address)

        first = self._view.pointer("ompt_serialized_team_info")
        what = "the chain of ompt_lw_taskteam_t"
        return tuple(map(node, chain(first, lambda at: node(at).pointer("parent"), MAX_NESTING, what)))

    def displaced(self, depth: int) -> StructView:
        """Return the *depth*-th node, from the innermost, of what OMPT keeps of enclosing serialized regions.

        :raises Unavailable: if there is none: the region was entered before OMPT was on
        """
        if depth >= len(self._displaced):
            raise Unavailable("the runtime keeps nothing of this serialized region")
        return self._displaced[depth]

    @property
    def ompt_team_info(self) -> int:
        """The address of its ``ompt_team_info_t``, that of its innermost region."""
        return self._view.address_of("ompt_team_info")

    @cached_property
    def chain(self) -> tuple[Team, ...]:
        """This team and its ancestors, innermost first.

        :raises CorruptState: if ``t_parent`` does not end
        """
        return tuple(chain(self, lambda team: team.t_parent, MAX_NESTING, "the chain of t_parent"))

    @cached_property
    def has_level(self) -> bool:
        """Whether it has been given its level, which is done last, when its primary thread has its implicit task."""
        parent = self.t_parent
        if parent is None or self.t_level > parent.t_level:
            return True
        if self.t_level == parent.t_level:
            return not self.t_level and self.t_pkfn is not None  # one of a league, which is no level
        # A serialized one is given both of its levels at once; where one of them alone is wrong it is damage.
        return self.t_nproc > 1 or self.t_active_level == parent.t_active_level

    @cached_property
    def is_live(self) -> bool:
        """Whether its region is being executed.

        A team is kept when its region is over, and its workers go on pointing at it. Its primary thread does not: that
        one has gone back to the enclosing team. So a team is live while it is in the chain of its primary thread's
        team.
        """
        primary = self.t_threads[0]
        if primary is None:
            raise CorruptState(self.address, "team without its primary thread")
        team = self.runtime.team_of_thread(primary)
        return team is not None and any(ancestor.address == self.address for ancestor in team.chain)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions that it stands for, outermost first: several where serialized regions nest.

        None for the team of an initial thread, and for those of a ``teams`` construct, which do not count as a level.
        """
        parent = self.t_parent
        if parent is None:
            if self.t_level:
                raise CorruptState(self.address, f"team at level {self.t_level} without t_parent")
            return ()
        count = self.t_level - parent.t_level
        if count < 0 or (self.t_nproc > 1 and count > 1):
            raise CorruptState(
                self.address, f"team of {self.t_nproc} at level {self.t_level}, its parent at {parent.t_level}"
            )
        return tuple(Region(self, place, count) for place in range(1, count + 1))


@record
class Region(Unnumbered):
    """A parallel region: the *place*-th of the *count* regions that *team* stands for, counted from the outermost."""

    team: Team
    place: int
    count: int

    @property
    def id(self) -> str:
        """See :attr:`ParallelHandle.id`."""
        address = f"{self.team.address:#x}"
        return address if self.count == 1 else f"{address}/{self.place}"

    def enclosing(self) -> Region | None:
        """See :meth:`ParallelHandle.enclosing`."""
        if self.place > 1:
            return self.team.regions[self.place - 2]
        parent = self.team.t_parent
        return parent.runtime.innermost_region(parent) if parent is not None else None

    def size(self) -> int:
        """Return ``t_nproc``: 1 for a serialized region."""
        return self.team.t_nproc

    def level(self) -> int:
        """Return the region's own level, not the ``t_level`` of the innermost one that shares its team."""
        return self.team.t_level - (self.count - self.place)

    def active_level(self) -> int:
        """Return ``t_active_level``: regions that share a team are all inactive."""
        return self.team.t_active_level

    def thread(self, thread_num: int) -> ThreadHandle:
        """See :meth:`ParallelHandle.thread`."""
        return self.team.runtime.thread_at(self.member(thread_num))

    def member(self, thread_num: int) -> int:
        """Return the address of one of its threads.

        :raises BadInput: if it has none of that number
        """
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")
        address = self.team.t_threads[thread_num]
        if address is None:
            raise Unavailable(f"thread {thread_num} has not joined its team yet")
        return address

    def implicit_task(self, thread_num: int) -> TaskHandle:
        """See :meth:`ParallelHandle.implicit_task`."""
        self.member(thread_num)
        if self.count > 1:
            self.thread(0).current_task()  # which says so if the regions' descriptors cannot be distinguished
        return self.team.runtime.implicit_task(self.team, thread_num, self.place)

    def function(self) -> int:
        """Return the entry of the function the compiler made of the region.

        That is ``t_pkfn`` in a team of several threads, unless it is the wrapper by which gcc's code runs on libomp.
        All else is read from the stack of a thread of the team, or, when they have all left the function, from the
        wrapper's arguments.

        :raises Unavailable: if neither tells
        """
        entry, on_stacks = self.team.t_pkfn, self.team.runtime.entry_on_stacks
        if self.size() == 1 or entry is None:
            return on_stacks(self)
        if self.team.runtime.owners.at(entry) != RUNTIME:
            return entry
        try:
            return on_stacks(self)
        except Unavailable:
            wrapped = self.team.wrapped_function()
            if wrapped is None:
                raise
            return wrapped

    def encountering_frames(self) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return self.team.runtime.encountering_frames_of(self)

    def tool_data(self) -> int:
        """Return ``ompt_team_info.parallel_data``."""
        runtime = self.team.runtime
        if not runtime.states_are_kept:
            raise Unavailable(NOT_KEPT)
        depth = self.count - self.place
        address = (
            self.team.ompt_team_info if depth == 0 else self.team.displaced(depth - 1).address_of("ompt_team_info")
        )
        return StructView(runtime.heap, runtime.layouts["ompt_team_info_t"], address).unsigned("parallel_data")

    def source(self) -> str | None:
        """See :meth:`ParallelHandle.source`: ``t_ident``, set when a team of several threads forms."""
        if self.size() == 1:
            return None
        runtime = self.team.runtime
        return runtime.construct_source(runtime.details.view("kmp_base_team_t", self.team.address).pointer("t_ident"))

    def barriers(self) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`: by the stacks of the team's threads and by what the runtime counts."""
        return self.team.runtime.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`: what the implicit tasks of the team have generated, those that
        its threads execute, and those that these come from (``td_incomplete_child_tasks``).

        :raises Unavailable: if nothing tells where that is
        """
        return self.team.runtime.unfinished_tasks_of(self)


class Teams(Reading):
    """The runtime with its teams."""

    def __init__(self, process: Process, module: Module) -> None:
        super().__init__(process, module)
        self._teams: dict[int, Team] = {}

    def team_at(self, address: int) -> Team:
        """Return the team whose ``kmp_team_t`` is at *address*, read once."""
        team = self._teams.get(address)
        if team is None:
            check_aligned(self.heap, address, "a team")
            team = self._teams[address] = Team(self, StructView(self.heap, self.team_layout, address))
        return team

    def innermost_region(self, team: Team) -> Region | None:
        """Return the innermost region that *team* executes: its own, or, for a league's, that of a team around it.

        None outside of all regions.
        """
        return next((around.regions[-1] for around in team.chain if around.regions), None)

    @abstractmethod
    def thread_at(self, address: int) -> ThreadHandle:
        """Return the thread whose ``kmp_info_t`` is at *address*.

        :raises CorruptState: if the runtime has none there
        """

    @abstractmethod
    def team_of_thread(self, address: int) -> Team | None:
        """Return the team that the thread at *address* points at."""

    @abstractmethod
    def implicit_task(self, team: Team, thread_num: int, place: int) -> TaskHandle:
        """Return a thread's implicit task in the *place*-th of the regions that a team stands for."""

    @abstractmethod
    def entry_on_stacks(self, region: Region) -> int:
        """Return the entry of a region's function from the stacks of its threads.

        :raises Unavailable: if no thread of the team has it on its stack
        """

    @abstractmethod
    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""

    @abstractmethod
    def unfinished_tasks_of(self, region: Region) -> int:
        """See :meth:`Region.unfinished_tasks`."""

    @abstractmethod
    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""
