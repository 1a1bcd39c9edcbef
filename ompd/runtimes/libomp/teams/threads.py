"""Threads (``kmp_base_info_t``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import Unnumbered
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import CachedMemory
from ompd.contract.kept import OwnState
from ompd.contract.memory import StructView, read_unsigned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State, state_name
from ompd.contract.plugin import ConstructCode, SchedulingPoint, ThreadState
from ompd.contract.process import Module, Process
from ompd.contract.waits import GoneThread, LockState
from ompd.errors import BadInput, CorruptState, MemoryFault, OmpdError, Unavailable, Unsupported
from ompd.runtimes.libomp.teams.tasks import Task, Tasks
from ompd.runtimes.libomp.teams.teams import NOT_KEPT, Region, Team

# States that are noted though none are kept, or that are that of memory never used.
_ALWAYS_NOTED = {State.WORK_SERIAL, State.WORK_PARALLEL, State.UNDEFINED}


class Thread(Unnumbered):
    """One ``kmp_info_t``. Each field is read once, when first asked for."""

    def __init__(self, runtime: Threads, address: int) -> None:
        self.runtime = runtime
        self.address = address

    @property
    def memory(self) -> CachedMemory:
        """The target's memory, with the beginning of the structure read once.

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
            head = b""  # each member is read by itself, and fails by itself
        return CachedMemory(heap, self.address, head)

    @property
    def _view(self) -> StructView:
        return StructView(self.memory, self.runtime.thread_layout, self.address)

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``ds_thread``, 0 while the thread is being created. The runtime keeps no other kind than PTHREAD."""
        if kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp keeps no thread identifiers of kind {kind!r}")
        return self._ds_thread

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return native_thread_id(self.runtime.process, self._ds_thread)

    @cached_property
    def _ds_thread(self) -> int:
        return self._view.unsigned("ds_thread")

    @cached_property
    def th_team(self) -> Team | None:
        """The team it points at, which may be one whose region is over; None in the pool.

        Where its primary thread begins or ends a region, ``th_team``, ``th_current_task`` and the team's level are
        changed one after the other: the thread is in the outer team until all are those of the inner one, and again
        from the first change back on. The code of the region has not begun then, or is over.
        """
        address = self._view.pointer("th_team")
        if address is None:
            # Place 0 is an initial thread's, which always has a team; workers get others (kmp_runtime.cpp).
            if self.runtime.thread_places.get(self.address) == 0 and self._view.pointer("th_current_task") is not None:
                raise CorruptState(self.address, "the initial thread in __kmp_threads[0] has no th_team")
            return None
        team = self.runtime.team_at(address)
        try:
            outer = team.t_parent if self._task_team is team and not team.has_level else self._task_team
            return outer if outer is not None and self._leads(team, outer) else team
        except OmpdError:
            return team

    def _leads(self, inner: Team, outer: Team) -> bool:
        # Whether it is the thread of the outer team that forms the inner one, or gives it up.
        if inner is outer or self.address not in outer.t_threads:
            return False
        if inner.t_parent is outer:
            return True
        # A team that is given up loses its parent before the thread leaves it.
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
        """The team whose region it executes, None while it is idle.

        A worker goes on pointing at a team that is over. Where the runtime keeps spare threads, it does so at one that
        was made smaller.

        :raises CorruptState: if the team does not have the thread
        """
        team = self.th_team
        if team is None or not team.is_live:
            return None
        if team.t_parent is not None and not team.regions and team.t_threads[0] != self.address:
            team.t_active_level  # noqa: B018  raises if what is lost is the team's level
            return None  # kept ready for regions of a team of a league
        if self._place(team) is not None:
            return team
        if not self.runtime.may_keep_spare_threads:
            number, size = self._view.signed("ds_tid"), team.t_nproc
            raise CorruptState(
                team.address, f"the team of {size} lacks the thread at {self.address:#x}, its number {number}"
            )
        return None

    def _place(self, team: Team) -> int | None:
        # Its number in the team. While it leaves an inner region it has its number in the enclosing one already.
        number = self._view.signed("ds_tid")
        if 0 <= number < team.t_nproc and team.t_threads[number] == self.address:
            return number
        return team.t_threads.index(self.address) if self.address in team.t_threads else None

    @cached_property
    def _is_initial(self) -> bool:
        # The outermost team of an initial thread is its own, at level 0. A worker is number 0 only in teams it forms.
        if self.th_team is None:
            return False
        outermost = self.th_team.chain[-1]
        return outermost.t_level == 0 and outermost.t_threads[0] == self.address

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`."""
        return "initial" if self._is_initial else "worker"

    def thread_num(self) -> int | None:
        """Return its place in ``t_threads``, None while the thread is idle: a pooled one keeps its last ``ds_tid``."""
        return self._place(self.team) if self.team is not None else None

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.runtime.innermost_region(self.team) if self.team is not None else None

    def hosted_regions(self) -> tuple[Region, ...]:
        """Return the regions whose code is on this thread's own stack, innermost first.

        From the current one outwards as long as it is the primary thread, and the one in which it is a worker.
        """
        found: list[Region] = []
        for team in self.team.chain if self.team is not None else ():
            found += reversed(team.regions)
            if team.t_threads[0] != self.address:
                break
        return tuple(found)

    def icv_task(self) -> Task | None:
        """Return the task in whose descriptor the thread's variables are kept, None while the thread is idle."""
        if self.team is None:
            return None
        task, inner = self._th_current_task, self._task_team
        if inner is self.team:
            return self.runtime.task_at(task.address)
        outer = task.generating() if self._leads(inner, self.team) else None
        if outer is None or outer.team() is not self.team:
            raise CorruptState(task.address, "a thread's current task belongs to another team than the thread")
        return outer

    def current_task(self) -> Task | None:
        """Return ``th_current_task``, None while the thread is idle.

        :raises Unavailable: in a serialized region that an explicit task of a serialized region started
        """
        task = self.icv_task()
        if task is None or self.team is None:
            return None
        if len(self.team.regions) > 1 and task.kind() == "explicit" and not self.runtime.executes_explicit_task(self):
            # A serialized region that an explicit task of a serialized region starts has no descriptor of its own: the
            # runtime goes on pointing at the explicit task.
            raise Unavailable("the runtime does not tell the task of a serialized region inside of an explicit task")
        return task

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: here it stays in its team."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return self.runtime.state_of(self)

    def kept_state(self) -> tuple[int, int]:
        """Return ``ompt_thread_info``'s state and wait identifier as they stand, which only a runtime that keeps states
        sets.
        """
        return self._view.signed("state"), self._view.unsigned("wait_id")

    def ompt_state(self) -> OwnState:
        """Return ``ompt_thread_info.state``, an ``ompt_state_t`` of OpenMP 5."""
        if not self.runtime.states_are_kept:
            raise Unavailable(NOT_KEPT)
        number = self._view.signed("state")
        return OwnState(number, state_name(number))

    def kept_by_tool(self) -> bool:
        """Return whether ``ompt_thread_info.thread_data``, or the exit frame of its current task, is set."""
        task = self.icv_task()
        return bool(self._view.unsigned("thread_data") or (task is not None and task.exit_frame_as_kept()))

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`: not distinguished."""
        return False

    def tool_data(self) -> int:
        """Return ``ompt_thread_info.thread_data``."""
        if not self.runtime.states_are_kept:
            raise Unavailable(NOT_KEPT)
        return self._view.unsigned("thread_data")

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`.

        :raises Unavailable: if it waits for one that is not found
        """
        return self.runtime.lock_of(self)

    def wait_kind(self) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""
        return self.runtime.kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""
        return self.runtime.point_of(self)

    def barrier_source(self) -> str | None:
        """See :meth:`ThreadHandle.barrier_source`: ``th_ident``, which clang's barriers set when they begin."""
        return self.runtime.construct_source(self.th_ident) if self.runtime.calls_noted_barrier(self) else None

    def idle_frame(self) -> None:
        """See :meth:`ThreadHandle.idle_frame`: libomp does not record it."""

    @property
    def th_ident(self) -> int | None:
        """The address of the ``ident_t`` that the runtime last noted for the thread."""
        return self.runtime.details.view("kmp_base_info_t", self.address).pointer("th_ident")

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return self.runtime.construct_code_of(self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`: in the copies that the runtime itself keeps."""
        return self.runtime.threadprivate_of(self, address)


class Threads(Tasks):
    """The runtime with its threads."""

    def __init__(self, process: Process, module: Module) -> None:
        super().__init__(process, module)
        self._unasked: OmpdError | None = None  # why a thread's current task is not known

    @cached_property
    def _threads(self) -> dict[int, Thread]:
        return {address: Thread(self, address) for address in self.thread_places}

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""
        return tuple(self._threads.values())

    def gone_threads(self) -> Sequence[GoneThread]:
        """See :meth:`AddressSpace.gone_threads`: those in ``__kmp_threads`` of whose ``ds_thread`` there is none."""
        found = []
        for address, thread in self._threads.items():
            identifier = thread.native_id(ThreadIdKind.PTHREAD)
            if identifier and not self._is_there(thread):  # 0 while the thread is being created
                found.append(GoneThread(address, identifier, None))
        return tuple(found)

    def _is_there(self, thread: Thread) -> bool:
        try:
            thread.native_thread_id()
        except BadInput:
            return False
        return True

    def unfinished_tasks_of(self, region: Region) -> int:
        """See :meth:`Region.unfinished_tasks`."""
        numbers, place = range(region.size()), region.team.regions[-1].place
        implicit = (self.implicit_task(region.team, number, place) for number in numbers)
        known = {task.id: task for task in implicit}
        for number in numbers:
            task = self.thread_at(region.member(number)).current_task()
            while task is not None and task.id not in known and task.kind() == "explicit":
                known[task.id] = task
                task = task.generating()
        if region.size() == 1:
            # It executes most tasks where it meets them, which the runtime does not count.
            return sum(task.unfinished_children() for task in known.values())
        return sum(task.counted_children() for task in known.values())

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose ``kmp_info_t`` is at *address*.

        :raises CorruptState: if ``__kmp_threads`` has none there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "a team's thread is not in __kmp_threads") from None

    def team_of_thread(self, address: int) -> Team | None:
        """See :attr:`Thread.th_team`."""
        return self.thread_at(address).th_team

    @cached_property
    def _by_pthread(self) -> dict[int, Thread]:
        found: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                identifier = thread.native_id(ThreadIdKind.PTHREAD)
            except (MemoryFault, CorruptState):
                continue  # its row is lost; threads() still has it, and the row says why
            if identifier:  # 0 while the thread is being created
                found.setdefault(identifier, thread)
        return found

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`. The runtime keeps ``pthread_self()``, in ``ds_thread``."""
        if kind == ThreadIdKind.LWP:
            identifier = self.process.pthread_self(identifier)
        elif kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp has no thread identifiers of kind {kind!r}")
        return self._by_pthread.get(identifier)

    @cached_property
    def by_gtid(self) -> Mapping[int, Thread]:
        """The threads by the runtime's number for them: their place in ``__kmp_threads``, which ``ds_gtid`` repeats.
        Without those of :attr:`contradicted_gtids`.
        """
        places, wrong = self.thread_places, self.contradicted_gtids
        return {place: self._threads[address] for address, place in places.items() if place not in wrong}

    @cached_property
    def contradicted_gtids(self) -> Mapping[int, CorruptState]:
        """The numbers of which it is not known whose they are, and why.

        :raises LayoutUnavailable: if the place of ``ds_gtid`` is unknown
        """
        start = self.details.layout("kmp_base_info_t").field("th_info").offset
        found: dict[int, CorruptState] = {}
        for address, place in self.thread_places.items():
            number = self.structures.view("kmp_desc_base_t", address + start).signed("ds_gtid")
            # A thread that is being created has its place before its number.
            if number != place and self._threads[address].native_id(ThreadIdKind.PTHREAD):
                fault = CorruptState(address, f"ds_gtid of the thread in __kmp_threads[{place}] is {number}")
                found.update({place: fault, number: fault})
        return found

    @cached_property
    def may_keep_spare_threads(self) -> bool:
        """Whether a team that is made smaller may keep its other threads (KMP_HOT_TEAMS_MODE=1)."""
        address = self.process.symbol_in(self.module, "__kmp_hot_teams_mode")
        if address is not None:
            return read_unsigned(self.process, address, 4) != 0
        try:
            return self.process.environment().get("KMP_HOT_TEAMS_MODE", "0").strip() != "0"
        except OmpdError:
            return True

    def gtid_of(self, thread: Thread) -> int:
        """Return ``ds_gtid``.

        :raises LayoutUnavailable: if its place is unknown
        :raises CorruptState: if it is not the thread's place in ``__kmp_threads``
        """
        place = self.thread_places[thread.address]
        if place in self.contradicted_gtids:
            raise self.contradicted_gtids[place]
        return place

    def thread_by_gtid(self, gtid: int) -> Thread | None:
        """Return the thread of the runtime's number *gtid*, None if there is none.

        :raises CorruptState: if it is not known whose number it is
        """
        if gtid in self.contradicted_gtids:
            raise self.contradicted_gtids[gtid]
        return self.by_gtid.get(gtid)

    def is_executing(self, task: int) -> bool:
        """Return whether a thread executes the task whose ``kmp_taskdata_t`` is at *task*.

        :raises OmpdError: if a thread cannot be read, and no other executes it
        """
        if task not in self.current_tasks and self._unasked is not None:
            raise self._unasked
        return task in self.current_tasks

    @cached_property
    def current_tasks(self) -> Mapping[int, Thread]:
        """The threads that execute each task, by the task's ``kmp_taskdata_t``, as far as they can be read."""
        found: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                task = thread.current_task()
            except OmpdError as error:
                self._unasked = error
                continue  # that thread's own row complains
            if task is not None:
                found[task.address] = thread
        return found

    def thread_of(self, task: int) -> Thread | None:
        """Return the thread that executes the task at *task*, None if none is known to."""
        return self.current_tasks.get(task)

    def live_teams(self) -> Sequence[Team]:
        """Return the teams whose regions are being executed, and those of initial threads."""
        found: dict[int, Team] = {}
        for thread in self._threads.values():
            for team in thread.team.chain if thread.team is not None else ():
                found[team.address] = team
        return tuple(found.values())

    # Whether it keeps states

    @cached_property
    def _states_kept(self) -> bool:
        address = self.process.symbol_in(self.module, "ompt_enabled")
        if address is not None:
            # ompt_callbacks_active_t: bit 0 is "enabled", set by OMP_DEBUG=enabled and by a tool
            return bool(self.process.read(address, 1)[0] & 1)
        if self.stripped is not None:
            return self._states_seen()
        return read_unsigned(self.process, self.global_address("ompd_state"), 8) != 0

    def _states_seen(self) -> bool:
        # Frames of tasks and tools' data are only there if it keeps all of that. Then it has a state of every worker,
        # which is never work_serial, 0. Some it notes whatever it was told: work_parallel for a thread that forms
        # a team, undefined in reductions.
        states: dict[str, set[int]] = {"initial": set(), "worker": set()}
        for thread in self._threads.values():
            try:
                if thread.kept_by_tool():
                    return True
                states[thread.thread_type()].add(thread.kept_state()[0])
            except (MemoryFault, CorruptState):
                continue
        if State.WORK_SERIAL in states["worker"]:
            return False
        if (states["initial"] | states["worker"]) - _ALWAYS_NOTED:
            return True
        raise Unavailable("the runtime has no symbols that would tell whether it keeps states, and no state shows it")

    @cached_property
    def states_are_kept(self) -> bool:
        """Whether the runtime is known to keep states, frames and tools' data; False where that is unknown."""
        try:
            return self.keeps_states()
        except Unavailable:
            return False

    def keeps_states(self) -> bool:
        """See :meth:`AddressSpace.keeps_states`."""
        return self._states_kept

    # What stacks and waits tell

    @abstractmethod
    def state_of(self, thread: Thread) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""

    @abstractmethod
    def executes_explicit_task(self, thread: Thread) -> bool:
        """Return whether the innermost code of regions and tasks on a thread's stack is an explicit task's; False where
        that is unknown.
        """

    @abstractmethod
    def calls_noted_barrier(self, thread: Thread) -> bool:
        """Return whether a thread's innermost code has called a barrier that sets ``th_ident``."""

    @abstractmethod
    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""

    @abstractmethod
    def lock_of(self, thread: Thread) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""

    @abstractmethod
    def kind_of(self, thread: Thread) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""

    @abstractmethod
    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""

    @abstractmethod
    def threadprivate_of(self, thread: Thread, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`."""
