"""Teams (``kmp_base_team_t``), and the regions that each team executes.

Nested serialized regions of one thread share one team, which counts the regions in ``t_level``. For example, three
serialized regions inside a region at level 1 are one team at level 4. This plugin reports each of the three as a
region. LLVM's OMPD library counts the nodes of ``ompt_serialized_team_info`` instead, so that library reports one
region too few, and none at all without OMP_DEBUG.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.code_owners import USER
from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView, read_pointer
from ompd.errors import CorruptState, LayoutUnavailable, Unavailable
from ompd.runtimes.libomp.handles import Parallel

if TYPE_CHECKING:
    from ompd.runtimes.libomp.handles import Thread
    from ompd.runtimes.libomp.plugin import Runtime

# libomp's omp_get_supported_active_levels() is INT_MAX, but a stack overflows long before this level.
MAX_NESTING = 100_000


class Team:
    """One ``kmp_team_t``. Each member is read once, on first use."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address
        self._view = StructView(runtime.heap, runtime.team_layout, address)

    @cached_property
    def t_nproc(self) -> int:
        """Number of threads.

        :raises CorruptState: if ``t_nproc`` is below 1 or above the possible number of threads
        """
        count = self._view.signed("t_nproc")
        room = min(self.runtime.capacity, self.runtime.most_threads)
        if not 1 <= count <= room:
            raise CorruptState(self.address, f"team of {count} threads, room is for {room}")
        return count

    @cached_property
    def t_level(self) -> int:
        """Level of the innermost region that the team executes."""
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
        """The team of the thread that formed this team, None for the team of an initial thread."""
        address = self._view.pointer("t_parent")
        return self.runtime.team_at(address) if address is not None else None

    @cached_property
    def t_pkfn(self) -> int | None:
        """The address of the microtask. None for a team that never forked, whose ``t_pkfn`` is 0 (LLVM) or all ones
        (Intel).
        """
        address = self._view.unsigned("t_pkfn")
        ones = (1 << 8 * self.runtime.process.pointer_size) - 1
        return None if address in (0, ones) else address

    def wrapped_function(self) -> int | None:
        """Return the function of gcc's code that the wrapper in ``t_pkfn`` calls, which is the first argument in
        ``t_argv``. None if the place of the arguments is unknown, or if the argument is not a user's function.
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
        """Addresses of the team's threads (``kmp_info_t *``) by number, None for a thread that is still missing while
        the team forms.

        :raises CorruptState: if there are no threads, or if a thread has two numbers
        """
        array = self._view.pointer("t_threads")
        if array is None:
            raise CorruptState(self.address, "team without t_threads")
        size = self.runtime.process.pointer_size
        raw = self.runtime.heap.read(array, self.t_nproc * size)
        order = self.runtime.process.byte_order
        members = tuple(int.from_bytes(raw[start : start + size], order) or None for start in range(0, len(raw), size))
        if len(set(members)) < len(members) - max(members.count(None) - 1, 0):
            raise CorruptState(self.address, "a team has a thread twice")
        return members

    def implicit_task_at(self, thread_num: int) -> int:
        """Return the address of a thread's implicit task in ``t_implicit_task_taskdata``, an array of
        ``kmp_taskdata_t``.
        """
        array = self._view.pointer("t_implicit_task_taskdata")
        size = self.runtime.task_layout.size
        if array is None or not size:
            raise Unavailable("the runtime does not tell where implicit tasks lie")
        return array + thread_num * size

    def has_implicit_task_at(self, address: int) -> bool:
        """Return whether *address* is inside the array of the team's implicit tasks."""
        array, size = self._view.pointer("t_implicit_task_taskdata"), self.runtime.task_layout.size
        return array is not None and size is not None and array <= address < array + self.t_nproc * size

    def thread_of_implicit_task(self, address: int) -> Thread:
        """Return the thread whose implicit task is at *address*.

        :raises CorruptState: if no thread of this team has its implicit task there
        """
        array = self._view.pointer("t_implicit_task_taskdata")
        size = self.runtime.task_layout.size
        number, remainder = divmod(address - (array or 0), size or 1)
        if array is None or not size or remainder or not 0 <= number < self.t_nproc:
            raise CorruptState(address, "an implicit task does not lie among those of its team")
        thread = self.t_threads[number]
        if thread is None:
            raise Unavailable(f"thread {number} has not joined its team yet")
        return self.runtime.thread_at(thread)

    @cached_property
    def _displaced(self) -> tuple[StructView, ...]:
        # The nodes (ompt_lw_taskteam_t) with OMPT's data for all serialized regions of this team except the innermost.
        layout = self.runtime.layouts["ompt_lw_taskteam_t"]

        def node(address: int) -> StructView:
            return StructView(self.runtime.heap, layout, address)

        first = self._view.pointer("ompt_serialized_team_info")
        description = "the chain of ompt_lw_taskteam_t"
        return tuple(map(node, chain(first, lambda address: node(address).pointer("parent"), MAX_NESTING, description)))

    def displaced(self, depth: int) -> StructView:
        """Return the node with OMPT's data for a serialized region that encloses another region of this team. *depth*
        is the node's number from the innermost, 0.

        :raises Unavailable: if the runtime entered the region before OMPT was enabled
        """
        if depth >= len(self._displaced):
            raise Unavailable("the runtime keeps nothing of this serialized region")
        return self._displaced[depth]

    @property
    def ompt_team_info(self) -> int:
        """The address of the ``ompt_team_info_t`` of the team's innermost region."""
        return self._view.address_of("ompt_team_info")

    @cached_property
    def chain(self) -> tuple[Team, ...]:
        """This team and its ancestors, innermost first.

        :raises CorruptState: if the chain of ``t_parent`` does not end
        """
        return tuple(chain(self, lambda team: team.t_parent, MAX_NESTING, "the chain of t_parent"))

    @cached_property
    def has_level(self) -> bool:
        """Whether ``t_level`` already has the team's own level. The runtime sets the level last, when the primary
        thread already has its implicit task.
        """
        parent = self.t_parent
        if parent is None or self.t_level > parent.t_level:
            return True
        if self.t_level == parent.t_level:
            return not self.t_level and self.t_pkfn is not None  # the team of a league, which does not count as a level
        # A serialized team gets both levels at once. If only one of them is wrong, the team is damaged.
        return self.t_nproc > 1 or self.t_active_level == parent.t_active_level

    @cached_property
    def is_live(self) -> bool:
        """Whether the team's region is being executed.

        The runtime keeps a team after its region, and the workers still point to the team. Only the primary thread
        returns to the enclosing team. So a team is live if it is its primary thread's current team, or an ancestor of
        that team.
        """
        primary = self.t_threads[0]
        if primary is None:
            raise CorruptState(self.address, "team without its primary thread")
        team = self.runtime.thread_at(primary).th_team
        return team is not None and any(ancestor.address == self.address for ancestor in team.chain)

    @cached_property
    def regions(self) -> tuple[Parallel, ...]:
        """The regions of this team, outermost first. There are several if serialized regions are nested.

        Empty for the team of an initial thread, and for the teams of a ``teams`` construct, which do not count as a
        level.
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
        return tuple(Parallel(self, place, count) for place in range(1, count + 1))

    @property
    def innermost_region(self) -> Parallel | None:
        """The innermost region that the team executes. The team of a league has no region of its own, so this is a
        region of an ancestor. None outside of all regions.
        """
        return next((team.regions[-1] for team in self.chain if team.regions), None)
