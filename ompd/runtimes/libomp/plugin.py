"""LLVM's libomp and Intel's libiomp5, which are two builds of one code base.

A runtime with symbols is read by name, whatever its release. For a stripped runtime, the layouts come from a table
(:mod:`ompd.runtimes.libomp.layout.layouts`), and the variables are found by their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from ompd.contract.helpers.defaults import Common, Plain
from ompd.contract.helpers.pages import CachedMemory, Heap
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import most_threads
from ompd.contract.memory import check_aligned, read_pointer, read_signed, read_unsigned
from ompd.contract.ompd import DLL_LOCATIONS, ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, IcvDescription
from ompd.contract.process import Module, Process
from ompd.contract.waits import GoneThread
from ompd.errors import (
    BadInput,
    CorruptState,
    MemoryFault,
    NotInitialised,
    OmpdError,
    SymbolNotFound,
    Unavailable,
    Unsupported,
)
from ompd.runtimes.libomp import icvs
from ompd.runtimes.libomp.handles import Task, Thread
from ompd.runtimes.libomp.layout import layouts
from ompd.runtimes.libomp.layout.structures import Structures
from ompd.runtimes.libomp.stacks import states
from ompd.runtimes.libomp.stacks.code import Code
from ompd.runtimes.libomp.stacks.constructs import SuspendedTasks
from ompd.runtimes.libomp.stacks.stacks import Stacks
from ompd.runtimes.libomp.stacks.unnamed import Unnamed
from ompd.runtimes.libomp.task_heads import Heads
from ompd.runtimes.libomp.teams import Team
from ompd.runtimes.libomp.threadprivate import Threadprivate
from ompd.runtimes.libomp.waits.dependences import WaitingTasks
from ompd.runtimes.libomp.waits.lock_objects import LockObjects
from ompd.runtimes.libomp.waits.queues import Queues

# A bound for the places in __kmp_threads. This array grows with the number of started threads, up to __kmp_sys_max_nth.
# Linux has at most 4 million thread ids.
_MAX_CAPACITY = 1 << 22
_MAX_HEAD = 4096
_MAX_SOURCE = 4096
# Larger copies of threadprivate variables are not listed.
_MAX_COPY = 1 << 24

_VERSION = re.compile(rb"version: ([0-9.]+)")


class LibompPlugin(Common):
    """Reads libomp and libiomp5."""

    kind = "libomp"
    ROUTINES = ("__kmpc_fork_call", "__kmp_invoke_microtask")  # clang's code calls __kmpc_fork_call

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        locations = process.symbol_in(module, DLL_LOCATIONS)
        # During initialisation the runtime sets this pointer last, after everything that it publishes (ompd_init).
        if locations is not None and read_pointer(process, locations) is None:
            raise NotInitialised(
                f"{module.name} is loaded, but no OpenMP construct or routine has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return Runtime(process, module)


class Runtime(Plain):
    """One copy of the runtime in one process. It finds and keeps the runtime's threads, teams and tasks."""

    def __init__(self, process: Process, module: Module) -> None:
        self.process = process
        self.heap = Heap(process)
        self.module = module
        loaded = layouts.load(process, module)
        self.layouts = loaded.layouts
        self.stripped = loaded.stripped  # replaces the symbols of a stripped runtime, else None
        self.structures = Structures(process, module, loaded, self.heap)
        base = self.layouts["kmp_base_info_t"]
        desc = self.layouts["kmp_desc_t"].embedding("ds", self.layouts["kmp_desc_base_t"])
        self.thread_layout = self.layouts["kmp_info_t"].embedding(
            "th", base.embedding("th_info", desc).embedding("ompt_thread_info", self.layouts["ompt_thread_info_t"])
        )
        self.team_layout = self.layouts["kmp_team_p"].embedding("t", self.layouts["kmp_base_team_t"])
        self.task_layout = self.layouts["kmp_taskdata_t"]
        self.task_flags: Mapping[str, int] = self.layouts["kmp_tasking_flags_t"].masks
        self.owners = CodeOwners(process, module)
        self._teams: dict[int, Team] = {}
        self.heads = Heads(self)
        self.flags_by_address: dict[int, int] = {}  # td_flags of the tasks that are not in heads
        self._taskdata: dict[int, CachedMemory] = {}

    # Facts about the runtime itself

    @property
    def layout_source(self) -> str:
        """The source of the layout of threads."""
        return self.thread_layout.source

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """The source of each layout, by the structure's name."""
        return {**{name: layout.source for name, layout in self.layouts.items()}, **self.structures.sources}

    @property
    def layout_proof(self) -> str | None:
        """The proof that a stripped runtime's table of layouts fits, None for other runtimes."""
        return self.stripped.how if self.stripped is not None else None

    def omp_version(self) -> int:
        """Return ``__kmp_openmp_version``."""
        return read_signed(self.process, self.global_address("__kmp_openmp_version"), 4)

    def version(self) -> str | None:
        """Return the version number in ``__kmp_version_lib_ver``, a text in every build. None if the runtime has
        neither this symbol nor a number in the text.
        """
        address = self.process.symbol_in(self.module, "__kmp_version_lib_ver")
        if address is None:
            if self.stripped is not None:
                raise Unavailable("the runtime has no symbols that would tell where its version lies")
            return None
        # The text is "\0@(#) LLVM OMP version: 5.0.20140926". Skip the NUL, which prevents printing; "@(#)" is for
        # what(1).
        text = self.process.read_string(address + 1, 256)
        match = _VERSION.search(text)
        return match[1].decode() if match else None

    def states(self) -> Mapping[int, str]:
        """Return all states of OMPT. The runtime uses only some of them."""
        return {state.value: state.name.lower() for state in State}

    def keeps_states(self) -> bool:
        return self._keeps_states

    @cached_property
    def _keeps_states(self) -> bool:
        return states.are_kept(self)

    @cached_property
    def states_are_kept(self) -> bool:
        """Whether the runtime keeps states, frames and tools' data. False also if that is unknown."""
        try:
            return self.keeps_states()
        except Unavailable:
            return False

    # Variables and structures

    def global_address(self, name: str) -> int:
        """Return the address of the runtime's global variable *name*.

        :raises SymbolNotFound: if the runtime has no variable of this name
        :raises Unavailable: if the runtime is stripped
        """
        address = self.process.symbol_in(self.module, name)
        if address is not None:
            return address
        if self.stripped is not None:
            raise Unavailable(f"the runtime has no symbols that would tell where {name} lies")
        raise SymbolNotFound(name, self.module.name)

    @cached_property
    def details(self) -> Structures:
        """The layouts of structures that OMPD does not publish.

        :raises LayoutUnavailable: if no source has these layouts
        """
        self.structures.layout("kmp_base_info_t")
        return self.structures

    def construct_source(self, ident: int | None) -> str | None:
        """Return ``psource`` of the ``ident_t`` at *ident*, None if there is none."""
        text = self.structures.view("ident_t", ident).pointer("psource") if ident is not None else None
        return self.process.read_string(text, _MAX_SOURCE).decode("utf-8", "replace") if text is not None else None

    # Threads

    @cached_property
    def thread_places(self) -> Mapping[int, int]:
        """The gtid of each thread, by the address of its ``kmp_info_t``. The gtid is the thread's place in ``kmp_info_t
        **__kmp_threads``.
        """
        # Empty places are skipped, not counted as the end: LLVM keeps places 1 to 8 for hidden helpers.
        if self.stripped is not None:
            array: int | None = self.stripped.threads.array
        else:
            array = read_pointer(self.process, self.global_address("__kmp_threads"))
        if array is None:
            raise NotInitialised(f"{self.module.name} has no threads: it is not initialised, or has shut down")
        places: dict[int, int] = {}
        for place, address in self._pointers(array, self.capacity):
            places.setdefault(address, place)
        if len(places) > self.most_threads:
            in_process = len(self.process.threads())
            raise CorruptState(array, f"__kmp_threads has {len(places)} threads, the process {in_process}")
        return places

    @cached_property
    def most_threads(self) -> int:
        """A number of threads that the runtime, or one team, cannot exceed."""
        return most_threads(self.process)

    def _pointers(self, address: int, count: int) -> list[tuple[int, int]]:
        # The index and the value of each pointer in an array that is not null.
        size = self.process.pointer_size
        raw = self.heap.read(address, count * size).rstrip(b"\0")
        raw += bytes(-len(raw) % size)  # rstrip() may have cut off zero bytes of the last pointer
        values = (
            int.from_bytes(raw[start : start + size], self.process.byte_order) for start in range(0, len(raw), size)
        )
        return [(place, value) for place, value in enumerate(values) if value]

    @cached_property
    def capacity(self) -> int:
        """``__kmp_threads_capacity``, a bound for the number of threads of a team.

        :raises CorruptState: if it is out of range
        """
        if self.stripped is not None:
            return self.stripped.threads.capacity
        address = self.global_address("__kmp_threads_capacity")
        capacity = read_signed(self.process, address, 4)
        if not 0 < capacity <= _MAX_CAPACITY:
            raise CorruptState(address, f"__kmp_threads_capacity is {capacity}")
        return capacity

    @cached_property
    def thread_head(self) -> int:
        """The size of the part of a ``kmp_info_t`` that is read at once. Nearly all facts are in this part."""
        base_member = self.thread_layout.fields.get("th")
        return min(base_member.size, _MAX_HEAD) if base_member is not None else 0

    @cached_property
    def _threads(self) -> dict[int, Thread]:
        return {address: Thread(self, address) for address in self.thread_places}

    def threads(self) -> Sequence[Thread]:
        return tuple(self._threads.values())

    @cached_property
    def members(self) -> Mapping[int, Team]:
        """The team of each thread in a live team, by the thread's address. A team is live while its region is being
        executed.
        """
        live: dict[int, Team] = {}
        for thread in self._threads.values():
            with suppress(OmpdError):
                if thread.th_team is not None and thread.th_team.is_live:
                    live[thread.th_team.address] = thread.th_team
        members: dict[int, Team] = {}
        for team in live.values():
            with suppress(OmpdError):
                members.update((member, team) for member in team.t_threads[: team.t_nproc] if member is not None)
        return members

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose ``kmp_info_t`` is at *address*.

        :raises CorruptState: if ``__kmp_threads`` has no thread there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "a team's thread is not in __kmp_threads") from None

    @cached_property
    def _by_pthread(self) -> dict[int, Thread]:
        by_pthread: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                identifier = thread.native_id(ThreadIdKind.PTHREAD)
            except (MemoryFault, CorruptState):
                continue  # the row of the thread shows the error
            if identifier:  # 0 while the thread is being created
                by_pthread.setdefault(identifier, thread)
        return by_pthread

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """Return the thread with this identifier, None if the runtime does not have the thread. The runtime keeps
        ``pthread_self()`` in ``ds_thread``.
        """
        if kind == ThreadIdKind.LWP:
            identifier = self.process.pthread_self(identifier)
        elif kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp has no thread identifiers of kind {kind!r}")
        return self._by_pthread.get(identifier)

    def gone_threads(self) -> Sequence[GoneThread]:
        """Return the threads in ``__kmp_threads`` whose ``ds_thread`` does not belong to a thread of the process."""
        gone = []
        for address, thread in self._threads.items():
            identifier = thread.native_id(ThreadIdKind.PTHREAD)
            if identifier and not self._is_in_process(thread):  # 0 while the thread is being created
                gone.append(GoneThread(address, identifier, None))
        return tuple(gone)

    def _is_in_process(self, thread: Thread) -> bool:
        try:
            thread.native_thread_id()
        except BadInput:
            return False
        return True

    @cached_property
    def by_gtid(self) -> Mapping[int, Thread]:
        """The threads by gtid, which is their place in ``__kmp_threads`` and is repeated in ``ds_gtid``. Threads whose
        gtid is in :attr:`contradicted_gtids` are left out.
        """
        places, wrong = self.thread_places, self.contradicted_gtids
        return {place: self._threads[address] for address, place in places.items() if place not in wrong}

    @cached_property
    def contradicted_gtids(self) -> Mapping[int, CorruptState]:
        """The contradiction for each gtid that may belong to another thread, because a thread's ``ds_gtid`` is not its
        place in ``__kmp_threads``.

        :raises LayoutUnavailable: if the place of ``ds_gtid`` is unknown
        """
        start = self.details.layout("kmp_base_info_t").field("th_info").offset
        faults: dict[int, CorruptState] = {}
        for address, place in self.thread_places.items():
            number = self.structures.view("kmp_desc_base_t", address + start).signed("ds_gtid")
            # A thread that is being created gets its place before its gtid.
            if number != place and self._threads[address].native_id(ThreadIdKind.PTHREAD):
                fault = CorruptState(address, f"ds_gtid of the thread in __kmp_threads[{place}] is {number}")
                faults.update({place: fault, number: fault})
        return faults

    def gtid_of(self, thread: Thread) -> int:
        """Return the thread's gtid, which is its index in ``__kmp_threads`` and its ``ds_gtid``.

        :raises LayoutUnavailable: if the offset of the field is unknown
        :raises CorruptState: if ``ds_gtid`` is not the thread's index in ``__kmp_threads``
        """
        place = self.thread_places[thread.address]
        if place in self.contradicted_gtids:
            raise self.contradicted_gtids[place]
        return place

    def thread_by_gtid(self, gtid: int) -> Thread | None:
        """Return the thread with this *gtid*, None if there is none.

        :raises CorruptState: if the gtid may belong to another thread
        """
        if gtid in self.contradicted_gtids:
            raise self.contradicted_gtids[gtid]
        return self.by_gtid.get(gtid)

    @cached_property
    def may_keep_spare_threads(self) -> bool:
        """Whether a team that becomes smaller may keep the threads that it no longer needs (KMP_HOT_TEAMS_MODE=1). True
        if that is unknown.
        """
        address = self.process.symbol_in(self.module, "__kmp_hot_teams_mode")
        if address is not None:
            return read_unsigned(self.process, address, 4) != 0
        try:
            return self.process.environment().get("KMP_HOT_TEAMS_MODE", "0").strip() != "0"
        except OmpdError:
            return True

    @cached_property
    def constrains_task_stealing(self) -> bool:
        """Whether the runtime restricts the tasks that a waiting thread may execute (KMP_TASK_STEALING_CONSTRAINT).
        False if that is unknown, so that no task is wrongly excluded.
        """
        try:
            address = self.process.symbol_in(self.module, "__kmp_task_stealing_constraint")
            if address is not None:
                return read_unsigned(self.process, address, 4) != 0
            return self.process.environment().get("KMP_TASK_STEALING_CONSTRAINT", "1").strip() == "1"
        except OmpdError:
            return False

    # Teams

    def team_at(self, address: int) -> Team:
        """Return the team whose ``kmp_team_t`` is at *address*. The structure is read once."""
        team = self._teams.get(address)
        if team is None:
            check_aligned(self.heap, address, "a team")
            team = self._teams[address] = Team(self, address)
        return team

    def live_teams(self) -> Sequence[Team]:
        """Return the teams whose regions are being executed, and the teams of initial threads."""
        teams: dict[int, Team] = {}
        for thread in self._threads.values():
            for team in thread.team.chain if thread.team is not None else ():
                teams[team.address] = team
        return tuple(teams.values())

    # Tasks

    def task_at(self, address: int) -> Task:
        """Return the task whose ``kmp_taskdata_t`` is at *address*: the innermost of the tasks that share this
        descriptor.
        """
        task = Task(self, address)
        head = self.heads.of(address)
        if head.flags & self.heads.masks[0] if head is not None else task.flag("tasktype"):
            return task
        count = max(len(task.team().regions), 1)
        return Task(self, address, count, count)

    def implicit_task(self, team: Team, thread_num: int, place: int | None = None) -> Task:
        """Return a thread's implicit task in the *place*-th region of a team, by default in the team's innermost
        region.
        """
        count = max(len(team.regions), 1)
        return Task(self, team.implicit_task_at(thread_num), count if place is None else place, count)

    def taskdata(self, address: int) -> CachedMemory:
        """Return the target's memory, with a cached copy of the first part of the ``kmp_taskdata_t`` at *address*."""
        memory = self._taskdata.get(address)
        if memory is None:
            check_aligned(self.heap, address, "a task")
            data = self.heap.read(address, self._task_head)
            memory = self._taskdata[address] = CachedMemory(self.heap, address, data)
        return memory

    @cached_property
    def _task_head(self) -> int:
        # The size in bytes of the part of a kmp_taskdata_t before the data of tools.
        return self.task_layout.field("ompt_task_info").offset

    @cached_property
    def _current_tasks(self) -> tuple[Mapping[int, Thread], OmpdError | None]:
        # The thread that executes each task, by the address of the task's kmp_taskdata_t. Then the error of an
        # unreadable thread, None if all threads are readable.
        threads: dict[int, Thread] = {}
        fault: OmpdError | None = None
        for thread in self._threads.values():
            try:
                task = thread.current_task()
            except OmpdError as error:
                fault = error  # the row of that thread shows this error
                continue
            if task is not None:
                threads[task.address] = thread
        return threads, fault

    @property
    def current_tasks(self) -> Mapping[int, Thread]:
        """The thread that executes each task, by the task's ``kmp_taskdata_t``. Unreadable threads are left out."""
        return self._current_tasks[0]

    def is_executing(self, task: int) -> bool:
        """Return whether a thread executes the task whose ``kmp_taskdata_t`` is at *task*.

        :raises OmpdError: if no readable thread executes the task, and a thread is unreadable
        """
        threads, fault = self._current_tasks
        if task not in threads and fault is not None:
            raise fault
        return task in threads

    def queued_tasks(self) -> Sequence[Task]:
        return self.queues.queued()

    def waiting_tasks(self) -> Sequence[Task]:
        return self.waiting.tasks()

    def prioritized_tasks(self) -> Sequence[Task]:
        return self.queues.prioritized()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return none: each task counts its children, and the runtime keeps a task until its children are complete."""
        return {}

    # Parts of the runtime

    @cached_property
    def unnamed(self) -> Unnamed | None:
        """The names of a stripped runtime's routines, None for a runtime with symbols."""
        return Unnamed(self, self.stripped.table) if self.stripped is not None else None

    @cached_property
    def stacks(self) -> Stacks:
        """The stacks of the runtime's threads."""
        return Stacks(self, Code(self, self.unnamed))

    @cached_property
    def suspended(self) -> SuspendedTasks:
        """The explicit tasks that generated other tasks and are suspended on a thread."""
        return SuspendedTasks(self)

    @cached_property
    def lock_objects(self) -> LockObjects:
        """The runtime's locks.

        :raises LayoutUnavailable: if their layout is unknown
        """
        return LockObjects(self)

    @cached_property
    def queues(self) -> Queues:
        """The runtime's task queues."""
        return Queues(self)

    @cached_property
    def waiting(self) -> WaitingTasks:
        """The runtime's tasks that wait for a dependence or an event."""
        return WaitingTasks(self)

    @cached_property
    def threadprivate(self) -> Threadprivate:
        """The runtime's copies of threadprivate variables."""
        return Threadprivate(self)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return the copies of threadprivate variables in the lists of all threads, each as its address and its size in
        bytes.

        Only code that does not use thread-local storage has such copies (clang's ``-fnoopenmp-use-tls``).
        """
        # If this list of caches is missing or empty, no thread has a copy. A stripped runtime has no symbol for it, so
        # there the threads' own lists are read in any case.
        caches = self.process.symbol_in(self.module, "__kmp_threadpriv_cache_list")
        if self.stripped is None and (caches is None or read_pointer(self.process, caches) is None):
            return ()
        copies = (copy for thread in self.threads() for copy in self.threadprivate.copies(thread))
        return tuple({copy.par_addr: copy.cmn_size for copy in copies if copy.cmn_size <= _MAX_COPY}.items())

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        return icvs.describe(self)

    def icv(self, name: str, handle: object) -> int | str:
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        return icvs.display_control_vars(self)
