"""LLVM's libomp and Intel's libiomp5: one code base, two builds.

What has symbols is read by name, whatever the release. For a stripped one :mod:`ompd.runtimes.libomp.layouts` has the
release's layouts, and its variables are found by what they lead to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import Common, Plain
from ompd.contract.helpers.pages import Heap
from ompd.contract.memory import Memory, StructLayout, StructView, read_pointer, read_signed, read_unsigned
from ompd.contract.ompd import DLL_LOCATIONS, ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, IcvDescription
from ompd.contract.process import Module, Process, Shape
from ompd.errors import (
    CorruptState,
    MemoryFault,
    NotInitialised,
    OmpdError,
    SymbolNotFound,
    Unavailable,
    Unsupported,
)
from ompd.runtimes.libomp import icvs, layouts
from ompd.runtimes.libomp.barriers import Counters
from ompd.runtimes.libomp.constructs import Hosted, Marks
from ompd.runtimes.libomp.heads import Heads
from ompd.runtimes.libomp.locks import Locks
from ompd.runtimes.libomp.queues import Queues
from ompd.runtimes.libomp.regions import Region, Team
from ompd.runtimes.libomp.stacks import WaitingTasks
from ompd.runtimes.libomp.structures import Structures
from ompd.runtimes.libomp.tasks import Task, Taskdata
from ompd.runtimes.libomp.threadprivate import Threadprivate
from ompd.runtimes.libomp.threads import Thread
from ompd.runtimes.libomp.unnamed import Unnamed
from ompd.runtimes.libomp.waiting import Waiting

# What is read of each structure, by the names of kmp.h and ompt-internal.h.
_WANTED: Mapping[str, Sequence[str]] = {
    "kmp_info_t": ("th",),
    "kmp_base_info_t": ("th_info", "th_team", "th_current_task", "ompt_thread_info"),
    "kmp_desc_t": ("ds",),
    "kmp_desc_base_t": ("ds_thread", "ds_tid"),
    "ompt_thread_info_t": ("state", "wait_id", "thread_data"),
    "kmp_team_p": ("t",),
    "kmp_base_team_t": (
        *("t_parent", "t_nproc", "t_threads", "t_level", "t_active_level", "t_pkfn", "t_implicit_task_taskdata"),
        *("ompt_team_info", "ompt_serialized_team_info"),
    ),
    "kmp_taskdata_t": ("td_flags", "td_icvs", "td_team", "td_parent", "ompt_task_info"),
    "kmp_tasking_flags_t": (
        *(":tiedness", ":final", ":tasktype", ":task_serial", ":tasking_ser", ":team_serial"),
        *(":started", ":executing", ":complete", ":freed", ":native"),
    ),
    "kmp_task_t": ("routine",),
    "kmp_internal_control_t": (
        *("dynamic", "nproc", "thread_limit", "max_active_levels", "sched", "proc_bind", "default_device"),
    ),
    "kmp_r_sched_t": ("r_sched_type", "chunk"),
    "kmp_nested_nthreads_t": ("used", "size", "nth"),
    "kmp_nested_proc_bind_t": ("used", "size", "bind_types"),
    "ompt_task_info_t": ("frame", "scheduling_parent", "task_data"),
    "ompt_team_info_t": ("parallel_data",),
    "ompt_frame_t": ("exit_frame", "enter_frame"),
    "ompt_lw_taskteam_t": ("parent", "ompt_team_info", "ompt_task_info"),
}

# The runtime makes room for as many threads as it has started, at most __kmp_sys_max_nth; Linux has no more than 4
# million ids.
_MAX_CAPACITY = 1 << 22
# OpenMP threads are threads of the process, but for those that have ended and the runtime still has.
_MAX_THREADS, _MAX_THREADS_EACH = 1 << 16, 8

_MAX_HEAD = 4096
_MAX_SOURCE = 4096
# Of a thread's own copy of a threadprivate variable so many bytes are worth keeping.
_MAX_COPY = 1 << 24

# States that are noted though none are kept, or that are that of memory never used.
_ALWAYS_NOTED = {State.WORK_SERIAL, State.WORK_PARALLEL, State.UNDEFINED}

_VERSION = re.compile(rb"version: ([0-9.]+)")


class LibompPlugin(Common):
    """Reads libomp and libiomp5."""

    kind = "libomp"
    ROUTINES = ("__kmpc_fork_call", "__kmp_invoke_microtask")  # clang's code calls the first

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        locations = process.symbol_in(module, DLL_LOCATIONS)
        # The runtime sets this pointer last when it initialises, so that all it publishes is valid (ompd_init).
        if locations is not None and read_pointer(process, locations) is None:
            raise NotInitialised(
                f"{module.name} is loaded, but no OpenMP construct or routine has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return Runtime(process, module)


class Runtime(Plain):
    """One copy of the runtime in one process; keeps what it has read of teams and threads."""

    def __init__(self, process: Process, module: Module) -> None:
        self.process = process
        self.heap = Heap(process)
        self.module = module
        known = layouts.load(process, module, _WANTED)
        self.layouts = known.layouts
        self.stripped = known.stripped  # what stands in for symbols; None in a runtime that has them
        self.structures = Structures(process, module, known, self.heap)
        base = self.layouts["kmp_base_info_t"]
        desc = self.layouts["kmp_desc_t"].embedding("ds", self.layouts["kmp_desc_base_t"])
        self.thread_layout: StructLayout = self.layouts["kmp_info_t"].embedding(
            "th", base.embedding("th_info", desc).embedding("ompt_thread_info", self.layouts["ompt_thread_info_t"])
        )
        self._team_layout: StructLayout = self.layouts["kmp_team_p"].embedding("t", self.layouts["kmp_base_team_t"])
        self.task_layout: StructLayout = self.layouts["kmp_taskdata_t"]
        self.task_flags: Mapping[str, int] = self.layouts["kmp_tasking_flags_t"].masks
        self.unnamed = Unnamed(self, known.stripped.table) if known.stripped is not None else None
        self._teams: dict[int, Team] = {}
        self._unasked: OmpdError | None = None  # why a thread's current task is not known
        self.heads = Heads(self, self.structures)
        self.flag_words: dict[int, int] = {}  # td_flags of tasks that are not among these
        self._taskdata: dict[int, Taskdata] = {}
        # constructs: where on the stack of each thread (by kmp_info_t) its regions are
        self.hosted: dict[int, Hosted] = {}
        # and of addresses of code: whose they are, the runtime's routines, calls that begin a region's code
        self.owners: dict[int, str] = {}
        self.routines: dict[int, str | None] = {}
        self.region_calls: dict[tuple[int, int], bool] = {}
        # and of stacks by their shape: what the code of their frames tells, and barriers: the routines that the code of
        # the region whose frame is at some index has called
        self.marks: dict[Shape, Marks] = {}
        self.called: dict[tuple[Shape, int], frozenset[str | None]] = {}
        # and states: the routines inside of the user's innermost frame, outermost first, and whether there is one
        self.inner_routines: dict[Shape, tuple[list[str], bool]] = {}

    @property
    def layout_source(self) -> str:
        """See :attr:`AddressSpace.layout_source`."""
        return self.thread_layout.source

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return {**{name: layout.source for name, layout in self.layouts.items()}, **self.structures.sources}

    @property
    def layout_proof(self) -> str | None:
        """See :attr:`AddressSpace.layout_proof`."""
        return self.stripped.how if self.stripped is not None else None

    def global_address(self, name: str) -> int:
        """Return where the runtime's global variable *name* lies.

        :raises SymbolNotFound: if it has none of that name
        :raises Unavailable: if it is stripped
        """
        address = self.process.symbol_in(self.module, name)
        if address is not None:
            return address
        if self.stripped is not None:
            raise Unavailable(f"the runtime has no symbols that would tell where {name} lies")
        raise SymbolNotFound(name, self.module.name)

    # What the runtime says of itself

    def omp_version(self) -> int:
        """Return ``__kmp_openmp_version``."""
        return read_signed(self.process, self.global_address("__kmp_openmp_version"), 4)

    def version(self) -> str | None:
        """Return the number in ``__kmp_version_lib_ver``, a text that every build carries."""
        address = self.process.symbol_in(self.module, "__kmp_version_lib_ver")
        if address is None:
            if self.stripped is not None:
                raise Unavailable("the runtime has no symbols that would tell where its version lies")
            return None
        # "\0@(#) LLVM OMP version: 5.0.20140926": the NUL keeps it from being printed, the mark is for what(1)
        text = self.process.read_string(address + 1, 256)
        match = _VERSION.search(text)
        return match[1].decode() if match else None

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
        """Whether the runtime is known to keep states, frames and tools' data; False where that cannot be told."""
        try:
            return self.keeps_states()
        except Unavailable:
            return False

    def keeps_states(self) -> bool:
        """See :meth:`AddressSpace.keeps_states`."""
        return self._states_kept

    def states(self) -> Mapping[int, str]:
        """Return all states of OMPT; the runtime uses some of them."""
        return {state.value: state.name.lower() for state in State}

    # Threads and teams

    @cached_property
    def _thread_addresses(self) -> tuple[int, ...]:
        # kmp_info_t **__kmp_threads, with gaps: LLVM keeps places 1 to 8 for hidden helpers
        if self.stripped is not None:
            array: int | None = self.stripped.threads.array
        else:
            array = read_pointer(self.process, self.global_address("__kmp_threads"))
        if array is None:
            raise NotInitialised(f"{self.module.name} has no threads: it is not initialised, or has shut down")
        found = tuple(dict.fromkeys(self._pointers(array, self.capacity)))
        if len(found) > self.most_threads:
            raise CorruptState(array, f"__kmp_threads has {len(found)} threads, the process {self._native_threads}")
        return found

    @cached_property
    def _native_threads(self) -> int:
        return len(self.process.threads())

    @property
    def most_threads(self) -> int:
        """More threads than the runtime, or one team, can have."""
        return _MAX_THREADS + _MAX_THREADS_EACH * self._native_threads

    def _pointers(self, address: int, count: int) -> list[int]:
        # The non-null pointers of an array.
        size = self.process.pointer_size
        raw = self.heap.read(address, count * size).rstrip(b"\0")
        raw += bytes(-len(raw) % size)  # most of it has never been used
        values = (int.from_bytes(raw[at : at + size], self.process.byte_order) for at in range(0, len(raw), size))
        return [value for value in values if value]

    @cached_property
    def capacity(self) -> int:
        """``__kmp_threads_capacity``, a bound for the number of threads of a team.

        :raises CorruptState: if it cannot be
        """
        if self.stripped is not None:
            return self.stripped.threads.capacity
        where = self.global_address("__kmp_threads_capacity")
        capacity = read_signed(self.process, where, 4)
        if not 0 < capacity <= _MAX_CAPACITY:
            raise CorruptState(where, f"__kmp_threads_capacity is {capacity}")
        return capacity

    @cached_property
    def _threads(self) -> dict[int, Thread]:
        return {address: Thread(self, address) for address in self._thread_addresses}

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""
        return tuple(self._threads.values())

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose ``kmp_info_t`` lies at *address*.

        :raises CorruptState: if ``__kmp_threads`` has none there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "a team's thread is not in __kmp_threads") from None

    @cached_property
    def _by_pthread(self) -> dict[int, Thread]:
        found: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                identifier = thread.native_id(ThreadIdKind.PTHREAD)
            except (MemoryFault, CorruptState):
                continue  # its row is lost; threads() still has it, to be complained about there
            if identifier:  # 0 while the thread is being created
                found.setdefault(identifier, thread)
        return found

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`. The runtime keeps ``pthread_self()``, in ``ds_thread``."""
        if kind == ThreadIdKind.LWP:
            identifier = self.process.thread_pointer(identifier)
        elif kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp has no thread identifiers of kind {kind!r}")
        return self._by_pthread.get(identifier)

    def team_at(self, address: int) -> Team:
        """Return the team whose ``kmp_team_t`` lies at *address*, read once."""
        team = self._teams.get(address)
        if team is None:
            team = self._teams[address] = Team(self, StructView(self.heap, self._team_layout, address))
        return team

    def task_at(self, address: int) -> Task:
        """Return the task whose ``kmp_taskdata_t`` lies at *address*: of those that share it the innermost."""
        task = Task(self, address)
        head = self.heads.of(address)
        if head.flags & self.heads.masks[0] if head is not None else task.flag("tasktype"):
            return task
        count = max(len(task.team().regions), 1)
        return Task(self, address, count, count)

    def taskdata(self, address: int) -> Memory:
        """Return what was read of the ``kmp_taskdata_t`` at *address*, and reads what else is asked for."""
        known = self._taskdata.get(address)
        if known is None:
            known = self._taskdata[address] = Taskdata(self.heap, address, self._task_head)
        return known

    @cached_property
    def thread_head(self) -> int:
        """So much of a ``kmp_info_t`` is read at once, as nearly all of what is asked for lies in."""
        whole = self.thread_layout.fields.get("th")
        return min(whole.size, _MAX_HEAD) if whole is not None else 0

    @cached_property
    def _task_head(self) -> int:
        # So much of it is read at once: up to where what tools keep begins, which tasks have of no use else.
        return self.task_layout.field("ompt_task_info").offset

    def is_executing(self, task: int) -> bool:
        """Tell whether a thread executes the task whose ``kmp_taskdata_t`` lies at *task*.

        :raises OmpdError: what keeps a thread from being asked, if no other does
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

    @cached_property
    def suspended_tasks(self) -> WaitingTasks:
        """The tasks that wait on threads for those that they generated."""
        return WaitingTasks(self)

    def live_teams(self) -> Sequence[Team]:
        """Return the teams whose regions are being executed, and those of initial threads."""
        found: dict[int, Team] = {}
        for thread in self._threads.values():
            for team in thread.team.chain if thread.team is not None else ():
                found[team.address] = team
        return tuple(found.values())

    # What it keeps beyond OMPD

    @cached_property
    def details(self) -> Structures:
        """The layouts of structures that OMPD does not publish.

        :raises LayoutUnavailable: if there are none
        """
        self.structures.layout("kmp_base_info_t")
        return self.structures

    @cached_property
    def counters(self) -> Counters:
        """What the runtime counts of barriers."""
        return Counters(self)

    @cached_property
    def waiting(self) -> Waiting:
        """The tasks that wait for a dependence or an event."""
        return Waiting(self, self.details)

    @cached_property
    def queues(self) -> Queues:
        """The task queues."""
        return Queues(self, self.details)

    @cached_property
    def locks(self) -> Locks:
        """The locks that threads wait for."""
        return Locks(self, self.details)

    @cached_property
    def by_gtid(self) -> Mapping[int, Thread]:
        """The threads by the runtime's number for them, ``ds_gtid``."""
        start = self.details.layout("kmp_base_info_t").field("th_info").offset
        return {
            self.structures.view("kmp_desc_base_t", thread.address + start).signed("ds_gtid"): thread
            for thread in self.threads()
        }

    def queued_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.queued_tasks`."""
        return self.queues.queued()

    def waiting_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.waiting_tasks`."""
        return self.waiting.tasks()

    def prioritized_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.prioritized_tasks`."""
        return self.queues.prioritized()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return none: each task counts its children, and is kept for them."""
        return {}

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`AddressSpace.threadprivate_copies`: the lists from ``th_pri_head`` over ``link``.

        Code that does not use thread-local storage has them (clang's ``-fnoopenmp-use-tls``).
        """
        # Where this is found and empty, nobody has a copy; without symbols the threads' own lists tell.
        caches = self.process.symbol_in(self.module, "__kmp_threadpriv_cache_list")
        if self.stripped is None and (caches is None or read_pointer(self.process, caches) is None):
            return ()
        copies = (copy for thread in self.threads() for copy in self.threadprivate.copies(thread))
        return tuple({copy.par_addr: copy.cmn_size for copy in copies if copy.cmn_size <= _MAX_COPY}.items())

    def construct_source(self, ident: int | None) -> str | None:
        """Return ``psource`` of the ``ident_t`` at *ident*, None if there is none."""
        text = self.structures.view("ident_t", ident).pointer("psource") if ident is not None else None
        return self.process.read_string(text, _MAX_SOURCE).decode("utf-8", "replace") if text is not None else None

    @cached_property
    def threadprivate(self) -> Threadprivate:
        """The copies of threadprivate variables that the runtime keeps."""
        return Threadprivate(self, self.structures)

    def innermost_region(self, team: Team) -> Region | None:
        """Return the innermost region that *team* executes: its own, or, for a league's, that of a team around it.

        None outside of all regions.
        """
        return next((around.regions[-1] for around in team.chain if around.regions), None)

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`."""
        return icvs.describe(self)

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        """See :meth:`AddressSpace.display_control_vars`."""
        return icvs.display_control_vars(self)
