"""The contract's handles: threads (``kmp_base_info_t``), parallel regions, and tasks (``kmp_taskdata_t``).

Nested serialized regions of one thread share one team. Their implicit tasks also share one descriptor, whose contents
belong to the innermost region's task. If OMPT is enabled, the runtime moves OMPT's data about the other implicit tasks
into a chain of ``ompt_lw_taskteam_t``, innermost first. Each of these implicit tasks has its own handle, which the
place of its region identifies.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.defaults import Unnumbered
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import CachedMemory
from ompd.contract.kept import OwnState
from ompd.contract.memory import StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import state_name
from ompd.contract.plugin import ConstructCode, FrameAddress, SchedulingPoint, TaskWait, TeamSizing, ThreadState
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, MemoryFault, OmpdError, Unavailable, Unsupported
from ompd.records import record
from ompd.runtimes.libomp.stacks import constructs, states
from ompd.runtimes.libomp.waits import barriers, locks, points

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.contract.waits import BarrierState, LockState
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.teams import Team

_NOT_KEPT = "the runtime keeps this only if OMP_DEBUG=enabled or a tool asked for it at the start"
# Barriers that clang's code calls. They set th_ident at their beginning.
_BARRIERS_WITH_IDENT = ("__kmpc_barrier", "__kmpc_cancel_barrier")
# ompt_frame_t is public: two words, then two int32 flags, for which no constant is published.
_FRAME_SIZE = 24
_EXIT_FLAGS, _ENTER_FLAGS, _FLAGS_SIZE = 16, 20, 4


class Thread(Unnumbered):
    """One ``kmp_info_t``. Each member is read once, on first use."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address

    @property
    def memory(self) -> CachedMemory:
        """The target's memory, with a cached copy of the first part of the structure.

        :raises OmpdError: if the process has run since it stopped
        """
        self.runtime.process.check_current()
        return self._memory

    @cached_property
    def _memory(self) -> CachedMemory:
        heap = self.runtime.heap
        try:
            head = heap.read(self.address, self.runtime.thread_head)
        except (MemoryFault, CorruptState):
            head = b""  # each member is then read separately, and may fail separately
        return CachedMemory(heap, self.address, head)

    @property
    def _view(self) -> StructView:
        return StructView(self.memory, self.runtime.thread_layout, self.address)

    # The thread's identity

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``ds_thread``, 0 while the thread is being created."""
        if kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp keeps no thread identifiers of kind {kind!r}")
        return self._ds_thread

    def native_thread_id(self) -> int:
        return native_thread_id(self.runtime.process, self._ds_thread)

    @cached_property
    def _ds_thread(self) -> int:
        return self._view.unsigned("ds_thread")

    def thread_type(self) -> str:
        return "initial" if self._is_initial else "worker"

    @cached_property
    def _is_initial(self) -> bool:
        # The outermost team of an initial thread is at level 0, and the thread has number 0 there. A worker has number
        # 0 only in teams that it forms, which are further inside.
        if self.th_team is None:
            return False
        outermost = self.th_team.chain[-1]
        return outermost.t_level == 0 and outermost.t_threads[0] == self.address

    # The thread's team

    @cached_property
    def th_team(self) -> Team | None:
        """The team to which ``th_team`` points, possibly one whose region is over. None in the pool.

        When a primary thread begins or ends a region, the runtime changes ``th_team``, ``th_current_task`` and the
        team's level one after the other. Until all three belong to the inner team, this property is the outer team,
        because the code of the inner region has not begun or is over.
        """
        address = self._view.pointer("th_team")
        if address is None:
            # The initial thread has place 0 and always has a team. Workers get other places (kmp_runtime.cpp).
            if self.runtime.thread_places.get(self.address) == 0 and self._view.pointer("th_current_task") is not None:
                raise CorruptState(self.address, "the initial thread in __kmp_threads[0] has no th_team")
            return None
        team = self.runtime.team_at(address)
        try:
            is_of_other = self._task_team is not team and team.has_implicit_task_at(self._th_current_task.address)
            outer = team.t_parent if self._task_team is team and not team.has_level else self._task_team
            actual = outer if outer is not None and self._forms(team, outer) else team
        except OmpdError:
            return team
        if is_of_other:
            task = self._th_current_task.address
            raise CorruptState(task, f"an implicit task of the team at {address:#x} names another one")
        return actual

    def _forms(self, inner: Team, outer: Team) -> bool:
        # Whether this thread of the outer team is creating or dissolving the inner team.
        if inner is outer or self.address not in outer.t_threads:
            return False
        if inner.t_parent is outer:
            return True
        # A team that is being dissolved loses its parent before the thread leaves the team.
        return inner.t_parent is None and outer.t_parent not in (None, inner) and inner.t_threads[0] == self.address

    @cached_property
    def _th_current_task(self) -> Task:
        address = self._view.pointer("th_current_task")
        if address is None:
            raise CorruptState(self.address, "a thread of a team has no th_current_task")
        return Task(self.runtime, address)

    @cached_property
    def _task_team(self) -> Team:
        return self._th_current_task.team()

    @cached_property
    def team(self) -> Team | None:
        """The team whose region the thread executes, None while the thread is idle.

        The ``th_team`` of an idle worker still points to a team whose region is over. If the runtime keeps spare
        threads, it may also point to a team that has become smaller.

        :raises CorruptState: if the team does not have the thread, or if a team has the thread but the thread has no
            team
        """
        team = self.th_team
        if team is None and self.address in self.runtime.members:
            having = self.runtime.members[self.address]
            raise CorruptState(self.address, f"a member of the team at {having.address:#x} has no th_team")
        if team is None or not team.is_live:
            return None
        if team.t_parent is not None and not team.regions and team.t_threads[0] != self.address:
            team.t_active_level  # noqa: B018  raises if the team's level was lost
            return None  # the thread is kept ready for the regions of a league's team
        if self._number_in(team) is not None:
            return team
        if not self.runtime.may_keep_spare_threads:
            number, size = self._view.signed("ds_tid"), team.t_nproc
            raise CorruptState(
                team.address, f"the team of {size} lacks the thread at {self.address:#x}, its number {number}"
            )
        return None

    def _number_in(self, team: Team) -> int | None:
        # Look for the thread in t_threads if ds_tid does not fit: while the thread leaves an inner region, ds_tid
        # already is its number in the enclosing region.
        number = self._view.signed("ds_tid")
        if 0 <= number < team.t_nproc and team.t_threads[number] == self.address:
            return number
        return team.t_threads.index(self.address) if self.address in team.t_threads else None

    def thread_num(self) -> int | None:
        """Return the thread's place in ``t_threads``, None while the thread is idle, although a thread in the pool
        keeps its last ``ds_tid``.
        """
        return self._number_in(self.team) if self.team is not None else None

    def current_parallel(self) -> Parallel | None:
        return self.team.innermost_region if self.team is not None else None

    def hosted_regions(self) -> tuple[Parallel, ...]:
        """Return the regions whose code is on this thread's own stack, innermost first.

        The innermost one is the current region. The outermost one is the region in which the thread is a worker, if
        any.
        """
        regions: list[Parallel] = []
        for team in self.team.chain if self.team is not None else ():
            regions += reversed(team.regions)
            if team.t_threads[0] != self.address:
                break
        return tuple(regions)

    def outside_of_target(self) -> None:
        """Return None: a thread that executes a target region stays in its team."""

    # The thread's task

    def icv_task(self) -> Task | None:
        """Return the task whose descriptor contains the thread's ICVs, None while the thread is idle."""
        if self.team is None:
            return None
        task, inner = self._th_current_task, self._task_team
        if inner is self.team:
            return self.runtime.task_at(task.address)
        outer = task.generating() if self._forms(inner, self.team) else None
        if outer is None or outer.team() is not self.team:
            raise CorruptState(task.address, "a thread's current task belongs to another team than the thread")
        return outer

    def current_task(self) -> Task | None:
        """Return ``th_current_task``, None while the thread is idle.

        :raises Unavailable: if the thread is in a serialized region inside of an explicit task, and this task belongs
            to a serialized region, too
        """
        task = self.icv_task()
        if task is None or self.team is None:
            return None
        if (
            len(self.team.regions) > 1
            and task.kind() == "explicit"
            and not self.runtime.stacks.executes_explicit_task(self)
        ):
            # The innermost region then has no task descriptor, and th_current_task still points to the explicit task.
            raise Unavailable("the runtime does not tell the task of a serialized region inside of an explicit task")
        return task

    # The thread's activity

    def state(self) -> ThreadState:
        return states.thread_state(self)

    def kept_state(self) -> tuple[int, int]:
        """Return ``state`` and ``wait_id`` of ``ompt_thread_info`` unchanged. They are meaningful only if the runtime
        keeps states.
        """
        return self._view.signed("state"), self._view.unsigned("wait_id")

    def ompt_state(self) -> OwnState:
        """Return ``ompt_thread_info.state``, which is an ``ompt_state_t`` of OpenMP 5."""
        self._require_kept()
        number = self._view.signed("state")
        return OwnState(number, state_name(number))

    def has_data_of_ompt(self) -> bool:
        """Return whether ``ompt_thread_info.thread_data`` or the exit frame of the thread's current task is set."""
        task = self.icv_task()
        return bool(self._view.unsigned("thread_data") or (task is not None and task.stored_exit_frame()))

    def is_about_to_begin(self) -> bool:
        """Return False: libomp has no such state."""
        return False

    def tool_data(self) -> int:
        """Return ``ompt_thread_info.thread_data``."""
        self._require_kept()
        return self._view.unsigned("thread_data")

    def _require_kept(self) -> None:
        if not self.runtime.states_are_kept:
            raise Unavailable(_NOT_KEPT)

    def lock(self) -> LockState | None:
        return locks.lock_of(self)

    def wait_kind(self) -> str | None:
        return points.kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        return points.point_of(self)

    def barrier_source(self) -> str | None:
        """Return ``psource`` of the ``ident_t`` to which ``th_ident`` points, None unless the thread is at a barrier of
        clang's code. These barriers set ``th_ident`` at their beginning.
        """
        if states.entry_inside(self) not in _BARRIERS_WITH_IDENT:
            return None
        return self.runtime.construct_source(self.th_ident)

    @property
    def th_ident(self) -> int | None:
        """The address of the ``ident_t`` that the runtime last recorded for the thread."""
        return self.runtime.details.view("kmp_base_info_t", self.address).pointer("th_ident")

    def idle_frame(self) -> None:
        """Return None: libomp does not record the idle loop's frame."""

    def construct_code(self) -> Sequence[ConstructCode]:
        return constructs.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        return self.runtime.threadprivate.address(self, address)


@record
class Parallel(Unnumbered):
    """A parallel region. ``count`` is the number of regions that ``team`` executes, and ``place`` is this region's
    number among them. The outermost region has number 1.
    """

    team: Team
    place: int
    count: int

    @property
    def id(self) -> str:
        """The address of the region's team. For regions that share a team, the region's place is added."""
        address = f"{self.team.address:#x}"
        return address if self.count == 1 else f"{address}/{self.place}"

    def enclosing(self) -> Parallel | None:
        if self.place > 1:
            return self.team.regions[self.place - 2]
        parent = self.team.t_parent
        return parent.innermost_region if parent is not None else None

    def size(self) -> int:
        """Return ``t_nproc``, which is 1 for a serialized region."""
        return self.team.t_nproc

    def sizing(self) -> TeamSizing:
        import ompd.runtimes.libomp.icvs as icvs

        return icvs.sizing(self)

    def level(self) -> int:
        """Return the level of this region. ``t_level`` is the level of the innermost region of the team."""
        return self.team.t_level - (self.count - self.place)

    def active_level(self) -> int:
        """Return ``t_active_level``. Regions that share a team are all inactive."""
        return self.team.t_active_level

    def thread(self, thread_num: int) -> Thread:
        return self.team.runtime.thread_at(self.member(thread_num))

    def member(self, thread_num: int) -> int:
        """Return the address of the thread with number *thread_num*.

        :raises BadInput: if no thread has that number
        """
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")
        address = self.team.t_threads[thread_num]
        if address is None:
            raise Unavailable(f"thread {thread_num} has not joined its team yet")
        return address

    def implicit_task(self, thread_num: int) -> Task:
        self.member(thread_num)
        if self.count > 1:
            self.thread(0).current_task()  # raises Unavailable if one of the regions has no task descriptor
        return self.team.runtime.implicit_task(self.team, thread_num, self.place)

    def function(self) -> int:
        """Return the entry of the function that the compiler made from the region.

        In a team of several threads this is ``t_pkfn``, unless that is the wrapper through which gcc's code runs on
        libomp. Otherwise the stack of a thread of the team shows the function. If all threads have left the function,
        the arguments of the wrapper show it.

        :raises Unavailable: if none of these sources shows the function
        """
        runtime, entry = self.team.runtime, self.team.t_pkfn
        if self.size() == 1 or entry is None:
            return runtime.stacks.region_entry(self)
        if runtime.owners.at(entry) != RUNTIME:
            return entry
        try:
            return runtime.stacks.region_entry(self)
        except Unavailable:
            wrapped = self.team.wrapped_function()
            if wrapped is None:
                raise
            return wrapped

    def encountering_frames(self) -> Sequence[Frame]:
        return self.team.runtime.stacks.encountering_frames(self)

    def tool_data(self) -> int:
        """Return ``ompt_team_info.parallel_data``."""
        runtime = self.team.runtime
        if not runtime.states_are_kept:
            raise Unavailable(_NOT_KEPT)
        depth = self.count - self.place
        address = (
            self.team.ompt_team_info if depth == 0 else self.team.displaced(depth - 1).address_of("ompt_team_info")
        )
        return StructView(runtime.heap, runtime.layouts["ompt_team_info_t"], address).unsigned("parallel_data")

    def source(self) -> str | None:
        """Return ``psource`` of the ``ident_t`` to which ``t_ident`` points, None for a team of one thread. The runtime
        sets ``t_ident`` only when it forms a team of several threads.
        """
        if self.size() == 1:
            return None
        runtime = self.team.runtime
        return runtime.construct_source(runtime.details.view("kmp_base_team_t", self.team.address).pointer("t_ident"))

    def barriers(self) -> Sequence[BarrierState]:
        return barriers.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """Return the number of unfinished children (``td_incomplete_child_tasks``) of the team's implicit tasks, of the
        explicit tasks that its threads execute, and of these tasks' explicit ancestors.

        :raises Unavailable: if the place of the count is unknown
        """
        runtime, numbers = self.team.runtime, range(self.size())
        innermost = self.team.regions[-1].place
        implicit = (runtime.implicit_task(self.team, number, innermost) for number in numbers)
        tasks = {task.id: task for task in implicit}
        for number in numbers:
            task = self.thread(number).current_task()
            while task is not None and task.id not in tasks and task.kind() == "explicit":
                tasks[task.id] = task
                task = task.generating()
        if self.size() == 1:
            # The runtime does not count most tasks of a serialized region, because it executes them immediately.
            return sum(task.unfinished_children() for task in tasks.values())
        return sum(task.counted_children() for task in tasks.values())


@record
class Task(Unnumbered):
    """The task whose ``kmp_taskdata_t`` is at ``address``. If ``count`` implicit tasks share this descriptor, the task
    is number ``place`` of them.
    """

    runtime: Runtime
    address: int
    place: int = 1
    count: int = 1

    @property
    def id(self) -> str:
        """The address of the task's descriptor. For implicit tasks that share a descriptor, the task's place among them
        is added.
        """
        return f"{self.address:#x}" if self.count == 1 else f"{self.address:#x}/{self.place}"

    @property
    def view(self) -> StructView:
        """The task's ``kmp_taskdata_t``. The part before the data of tools is read once; that data is seldom needed."""
        return StructView(self.runtime.taskdata(self.address), self.runtime.task_layout, self.address)

    def flag(self, name: str) -> bool:
        """Return a flag of ``td_flags`` by its name in ``kmp_tasking_flags_t``.

        :raises Unavailable: if the runtime publishes no mask for it
        """
        mask = self.runtime.task_flags.get(name)
        if mask is None:
            raise Unavailable(f"the runtime does not publish the task flag {name!r}")
        return bool(self.flags & mask)

    @property
    def flags(self) -> int:
        """``td_flags``, read once.

        :raises CorruptState: if the flags are those of an explicit task, but the task is in the team's array of
            implicit tasks
        """
        head = self.runtime.heads.of(self.address)
        if head is not None:
            return head.flags
        flags_by_address = self.runtime.flags_by_address
        if self.address not in flags_by_address:
            flags = self.view.unsigned("td_flags")
            if flags & self.runtime.task_flags.get("tasktype", 0) and self._is_in_array:
                raise CorruptState(self.address, f"an implicit task has the td_flags {flags:#x}, of an explicit one")
            flags_by_address[self.address] = flags
        return flags_by_address[self.address]

    @property
    def _is_in_array(self) -> bool:
        try:
            return self.team().has_implicit_task_at(self.address)
        except OmpdError:
            return False  # the task's team is unknown

    def team(self) -> Team:
        """Return the team to which the task belongs.

        :raises CorruptState: if the task has no team
        """
        address = self.view.pointer("td_team")
        if address is None:
            raise CorruptState(self.address, "task without td_team")
        return self.runtime.team_at(address)

    def likeness(self) -> Hashable | None:
        return self.runtime.heads.likeness(self.address)

    def kind(self) -> str:
        """Return ``explicit`` if ``tasktype`` is set, else ``initial`` at level 0 and ``implicit`` in a region."""
        if self.flag("tasktype"):
            return "explicit"
        return "implicit" if self.team().regions else "initial"

    def status(self) -> str:
        if self.kind() == "explicit":
            if not self.flag("started"):
                return "waiting" if self._dependence() is not None else "queued"
            if self.flag("complete"):
                return "complete"
            if self._is_detached():
                return "detached"
        if self.place < self.count:
            return "suspended"
        return "executing" if self.runtime.is_executing(self.address) else "suspended"

    def _dependence(self) -> TaskWait | None:
        try:
            return self.runtime.waiting.before(self)
        except LayoutUnavailable:
            return None  # without a layout, the task counts as queued

    def _is_detached(self) -> bool:
        try:
            return self.is_proxy()
        except LayoutUnavailable:
            return False

    def is_proxy(self) -> bool:
        """Return whether the task has become a proxy for its event, because its code has ended before the event is
        fulfilled.

        :raises LayoutUnavailable: if the places of the proxy flags are unknown
        """
        masks = self.runtime.details.layout("kmp_tasking_flags_t.proxy").masks
        proxy_flags = masks.get("proxy", 0) | masks.get("detachable", 0)
        return self.flags & proxy_flags == proxy_flags != 0

    def _event(self) -> int:
        view = self.runtime.details.view("kmp_taskdata_t.td_depnode", self.address)
        return view.address_of("td_allow_completion_event")

    def waits_for(self) -> TaskWait | None:
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self._event())
        return self._dependence() if status == "waiting" else None

    def unfinished_children(self) -> int:
        """Return ``td_incomplete_child_tasks``, or the number of children that were found if that is larger.

        :raises Unavailable: if the place of the count is unknown
        """
        try:
            return self.runtime.waiting.unfinished_children(self)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def counted_children(self) -> int:
        """Return the runtime's count of unfinished children, which includes all in a team of several threads. No tasks
        are searched for.

        :raises Unavailable: if the place of the count is unknown
        """
        try:
            return self.runtime.waiting.counted_children(self)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def thread(self) -> Thread | None:
        """Return the thread that executes the task, or on which the task is suspended. None for an explicit task that
        has not begun, is detached or is complete. The place of an implicit task in its team's array is the thread's
        number.

        :raises Unavailable: for a suspended explicit task that does not wait for its children
        """
        if self.kind() != "explicit":
            return self.team().thread_of_implicit_task(self.address)
        if self.status() in ("queued", "waiting", "detached", "complete"):
            return None
        return self.runtime.current_tasks.get(self.address) or self.waiting_thread()

    def waiting_thread(self) -> Thread:
        """Return the thread on which the task waits for its children. While the task waits, its ``td_taskwait_thread``
        is this thread's gtid + 1.

        :raises Unavailable: if the task does not wait for its children
        """
        gtid = self.runtime.details.view("kmp_taskdata_t", self.address).signed("td_taskwait_thread") - 1
        if gtid < 0:
            raise Unavailable("the runtime keeps on which thread it is only for tools, and while it waits for children")
        thread = self.runtime.thread_by_gtid(gtid)
        if thread is None:
            raise CorruptState(self.address, f"task on thread {gtid}, which there is none of")
        return thread

    def thread_or_none(self) -> Thread | None:
        """Return the task's thread, None if there is none or if it is unknown."""
        try:
            return self.thread()
        except OmpdError:
            return None

    def is_final(self) -> bool:
        return self.flag("final")

    def is_tied(self) -> bool:
        """Return ``td_flags.tiedness``, True for implicit tasks. At scheduling points in the code of an untied task,
        the runtime may queue the task again.

        :raises Unavailable: if the runtime publishes no mask for it
        """
        return self.kind() != "explicit" or self.flag("tiedness")

    def generating(self) -> Task | None:
        """Return ``td_parent``, which for an implicit task is the task that encountered the region.

        :raises CorruptState: if ``td_parent`` is the task itself
        """
        if self.place > 1:
            return Task(self.runtime, self.address, self.place - 1, self.count)
        address = self.view.pointer("td_parent")
        if address == self.address:
            raise CorruptState(address, "a task is said to have generated itself")
        return self.runtime.task_at(address) if address is not None else None

    def scheduling(self) -> Task | None:
        """Return ``scheduling_parent``, None for an implicit task and for an explicit task that has not begun."""
        if self.kind() != "explicit" or not self.flag("started"):
            return None
        self._require_kept()
        address = self._info.pointer("scheduling_parent")
        return self.runtime.task_at(address) if address is not None else None

    def parallel(self) -> Parallel | None:
        regions = self.team().regions
        if not regions:
            return None
        return regions[self.place - 1] if self.count > 1 and self.count == len(regions) else regions[-1]

    def function(self) -> int | None:
        """Return the entry of the task's function. For an explicit task this is ``routine`` of the ``kmp_task_t`` that
        follows the descriptor. For an implicit task it is the function of the task's region, None outside of all
        regions.
        """
        if self.kind() == "explicit":
            size = self.runtime.task_layout.size
            if not size:
                raise Unavailable("the runtime does not publish the size of kmp_taskdata_t")
            layout = self.runtime.layouts["kmp_task_t"]
            return StructView(self.runtime.heap, layout, self.address + size).pointer("routine")
        region = self.parallel()
        return region.function() if region is not None else None

    def _require_kept(self) -> None:
        if not self.runtime.states_are_kept:
            raise Unavailable(_NOT_KEPT)

    @property
    def _info(self) -> StructView:
        # The task's ompt_task_info_t. It is in the task's descriptor, or in a node of the team's chain of
        # ompt_lw_taskteam_t.
        layout = self.runtime.layouts["ompt_task_info_t"]
        depth = self.count - self.place
        if depth == 0:
            return StructView(self.runtime.heap, layout, self.view.address_of("ompt_task_info"))
        node = self.team().displaced(depth - 1)
        return StructView(self.runtime.heap, layout, node.address_of("ompt_task_info"))

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Return the exit frame and the enter frame in ``ompt_task_info.frame``, each with its flags. None in place of
        a frame that is not set.
        """
        self._require_kept()
        info = self._info
        if info.layout.field("frame").size != _FRAME_SIZE:
            raise Unavailable("the runtime's ompt_frame_t is not the one of the specification")
        view = StructView(self.runtime.heap, self.runtime.layouts["ompt_frame_t"], info.address_of("frame"))
        raw = self.runtime.process.read(view.address, _FRAME_SIZE)
        order = self.runtime.process.byte_order
        exit_flags = int.from_bytes(raw[_EXIT_FLAGS : _EXIT_FLAGS + _FLAGS_SIZE], order, signed=True)
        enter_flags = int.from_bytes(raw[_ENTER_FLAGS : _ENTER_FLAGS + _FLAGS_SIZE], order, signed=True)
        exit_frame, enter_frame = view.pointer("exit_frame"), view.pointer("enter_frame")
        return (
            FrameAddress(exit_frame, exit_flags) if exit_frame is not None else None,
            FrameAddress(enter_frame, enter_flags) if enter_frame is not None else None,
        )

    def stored_exit_frame(self) -> int:
        """Return the address in ``exit_frame`` of the task's descriptor, 0 if none is set. Only a runtime that keeps
        states sets it.
        """
        info = self.runtime.layouts["ompt_task_info_t"]
        start = self.view.address_of("ompt_task_info") + info.field("frame").offset
        return StructView(self.runtime.heap, self.runtime.layouts["ompt_frame_t"], start).unsigned("exit_frame")

    def ompt_type(self) -> str:
        """Return the task's kind, which ``ompt_get_task_info`` derives from ``td_flags``. The runtime marks no target
        tasks.
        """
        return self.kind()

    def tool_data(self) -> int:
        """Return ``ompt_task_info.task_data``."""
        self._require_kept()
        return self._info.unsigned("task_data")

    def source(self) -> str | None:
        """Return ``psource`` of the ``ident_t`` to which ``td_ident`` points, which clang's code sets."""
        view = self.runtime.details.view("kmp_taskdata_t", self.address)
        return self.runtime.construct_source(view.pointer("td_ident"))
