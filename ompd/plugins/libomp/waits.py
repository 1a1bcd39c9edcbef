"""What threads wait for: the lock, and who holds it; the barrier, and who has not arrived.

OMPD has nothing of this. Layouts beyond those it publishes are what Intel's runtime says of itself
(:mod:`ompd.plugins.layout.selfdescribed`). Nothing is taken for a lock that does not prove to be the one: a queuing
lock holds its own address and has the waiting thread in its queue; the user's variable has to lead to that lock through
the runtime's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ompd import outlined
from ompd.contract.code import is_runtime_file
from ompd.contract.memory import StructLayout, StructView, read_pointer, read_unsigned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import LOCK_TYPES, BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState, LayoutUnavailable, MemoryFault, OmpdError, TypeNotFound, Unavailable
from ompd.plugins.layout import dwarf, selfdescribed
from ompd.plugins.libomp import constructs
from ompd.plugins.libomp.tasks import Task

if TYPE_CHECKING:
    from ompd.contract.process import Frame, Module, Process
    from ompd.plugins.libomp.plugin import Runtime
    from ompd.plugins.libomp.threads import Thread

# Routines in which a thread has arrived at a barrier of its team. The last two are those of a region's end: a worker
# that has arrived there waits for the next region already.
_BARRIERS = frozenset(("__kmp_barrier", "__kmp_barrier_gomp_cancel", *constructs.CLOSING_BARRIERS))
# enum barrier_type of kmp.h: plain 0, fork and join 1, reduction 2. Only those are counted.
_BARRIER_KINDS, _COUNTED_BARRIERS = 3, (0, 2)
# The runtime's own number of the kind that locks have unless a hint asks for another; those up to 2 are direct.
_LOCK_KIND, _LOCK_KIND_TAS, _LOCK_KIND_FUTEX = "__kmp_user_lock_seq", 1, 2
# Routines that ask for a lock, and what their callers call it.
LOCK_ROUTINES = {
    "__kmpc_critical": "critical",
    "__kmpc_critical_with_hint": "critical",
    "GOMP_critical_start": "critical",
    "GOMP_critical_name_start": "critical",
    "GOMP_atomic_start": "atomic",
    "__kmpc_set_lock": "lock",
    "__kmpc_set_nest_lock": "lock",
    "omp_set_lock": "lock",
    "omp_set_nest_lock": "lock",
}
# kmp_lock.h: the low byte of a direct lock's word tells its kind, the rest its owner's gtid + 1; a futex lock's lowest
# bit of that says that somebody waits.
_DIRECT_TAS, _DIRECT_FUTEX = 3, 5
# An indirect lock's word is twice its number in __kmp_i_lock_table: pointers to rows of kmp_indirect_lock_t, each of
# two words, first the lock. A full table has one of twice the rows behind it. Before LLVM 14 the second field counted
# entries, not rows, so that its first value, 1024, shows the table to be another.
_LOCK_TABLE, _ROW, _FIRST_ROWS, _MAX_TABLES = "__kmp_i_lock_table", 1024, 8, 18
# A stack from a lock routine to user code is some hundred bytes.
_MAX_STACK = 1 << 16
_MAX_SOURCE = 4096
_MAX_QUEUED_TASKS = 1 << 20


# What is read of each structure, by the type's name in the sources.
_WANTED: Mapping[str, tuple[str, Sequence[str]]] = {
    "kmp_base_info_t": ("kmp_base_info", ("th_info", "th_ident", "th_next_waiting")),
    "kmp_desc_base_t": ("kmp_desc_base", ("ds_gtid",)),
    "kmp_base_team_t": ("kmp_base_team", ("t_ident", "t_task_team")),
    "ident_t": ("ident", ("psource", "flags")),
    "kmp_base_queuing_lock_t": ("kmp_base_queuing_lock", ("initialized", "tail_id", "head_id", "owner_id")),
    "kmp_base_task_team_t": ("kmp_base_task_team", ("tt_threads_data", "tt_nproc")),
    "kmp_taskdata_t": ("kmp_taskdata", ("td_ident", "td_taskwait_thread")),
    # The runtime pads this one to a multiple of a cache line, so that the array's elements are the union's size apart.
    "kmp_thread_data_t": ("kmp_base_thread_data", ("td_deque", "td_deque_size", "td_deque_head", "td_deque_ntasks")),
}
_THREAD_DATA = "kmp_thread_data"


def load_layouts(process: Process, module: Module) -> dict[str, StructLayout]:
    """Return the layouts beyond those that OMPD publishes: from the runtime itself, else from its debug information.

    :raises LayoutUnavailable: if neither has them
    """
    try:
        return selfdescribed.load(process, module)
    except LayoutUnavailable as error:
        try:
            layouts = dwarf.load(process, module, _WANTED)
            size = process.struct_layout(module, _THREAD_DATA, ()).size
        except (LayoutUnavailable, TypeNotFound):
            raise LayoutUnavailable(f"{error}, nor is there debug information of it") from error
        return {**layouts, "kmp_thread_data_t": replace(layouts["kmp_thread_data_t"], size=size)}


class Internals:
    """The optional protocol for one runtime; see :class:`ompd.contract.plugin.RuntimeInternals`.

    :raises LayoutUnavailable: if nothing tells the layouts it needs
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.structures
        self._layouts = load_layouts(runtime.process, runtime.module)
        wrong = selfdescribed.contradiction(runtime.layouts, self._layouts)
        if wrong is not None:
            raise CorruptState(0, f"the runtime says two things about {wrong}")
        self._queues: dict[int, tuple[int, ...]] = {}

    def _layout(self, name: str) -> StructLayout:
        return self._layouts[name]

    def ident_flags(self, thread: Thread) -> int:
        """Return the flags of the ``ident_t`` that the runtime last noted for *thread*, 0 where it has none."""
        info = StructView(self._structures, self._layout("kmp_base_info_t"), thread.address)
        ident = info.pointer("th_ident")
        return StructView(self._process, self._layout("ident_t"), ident).unsigned("flags") if ident is not None else 0

    def task_source(self, handle: TaskHandle) -> str | None:
        """See :meth:`RuntimeInternals.task_source`: ``td_ident``, which clang's code sets."""
        task = self._runtime.task_at(_structure(handle))
        view = StructView(self._structures, self._layout("kmp_taskdata_t"), task.address)
        return self._source(view.pointer("td_ident"))

    def region_source(self, handle: ParallelHandle) -> str | None:
        """See :meth:`RuntimeInternals.region_source`: ``t_ident``, set when a team of several threads forms."""
        if handle.size() == 1:
            return None
        address = _structure(handle)
        return self._source(StructView(self._structures, self._layout("kmp_base_team_t"), address).pointer("t_ident"))

    def _source(self, ident: int | None) -> str | None:
        if ident is None:
            return None
        text = StructView(self._process, self._layout("ident_t"), ident).pointer("psource")
        if text is None:
            return None
        return self._process.read_string(text, _MAX_SOURCE).decode("utf-8", "replace")

    # Locks

    @cached_property
    def _by_gtid(self) -> dict[int, Thread]:
        desc = self._layout("kmp_desc_base_t")
        start = self._layout("kmp_base_info_t").field("th_info").offset
        return {
            StructView(self._structures, desc, thread.address + start).signed("ds_gtid"): thread
            for thread in self._runtime.threads()
        }

    def _native(self, gtid: int) -> int | None:
        thread = self._by_gtid.get(gtid)
        if thread is None:
            return None
        return self._process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))

    def lock(self, handle: ThreadHandle) -> LockState | None:
        """See :meth:`RuntimeInternals.lock`.

        :raises Unavailable: if it waits for one that cannot be told
        """
        thread = self._runtime.thread_at(handle.address)
        frames = _innermost_frames(thread)
        routines = [constructs.routine_at(self._runtime, frame.call_site) for frame in reversed(frames[:-1])]
        asked = next((LOCK_ROUTINES[name] for name in routines if name in LOCK_ROUTINES), None)
        if asked is None:
            return None
        candidates = self._candidates(thread, frames)
        address = self._queuing_lock(thread, candidates)
        if address is not None:
            owner_id = self._lock_view(address).signed("owner_id")
            owner = self._native(owner_id - 1) if owner_id > 0 else None
            return LockState(address, asked, owner, self._waiters(address), self._variable(address, asked, candidates))
        direct = {self._direct(thread, candidate) for candidate in candidates} - {None}
        if len(direct) == 1:
            ((address, gtid),) = filter(None, direct)
            # Nestable locks of these kinds are objects of the runtime's too.
            variable = self._variable(address, asked, candidates) if asked == "lock" else None
            return LockState(address, asked, self._native(gtid), (), variable or address)
        if asked == "critical":
            held = {self._descriptor_of(variable): variable for variable in self._criticals}
            used = [lock for lock in held if lock is not None and lock in candidates]
            if len(used) == 1:
                return LockState(used[0], asked, None, (), held[used[0]])
        raise Unavailable("the lock is of a kind that does not name those who wait for it")

    def _candidates(self, thread: Thread, frames: tuple[Frame, ...]) -> list[int]:
        # Every word that may be an address of what the routine was given: what OMPT noted, registers and stack.
        noted = [thread.kept_state()[1]] if thread.runtime.keeps_states() else []
        size, order = self._process.pointer_size, self._process.byte_order
        start, end = frames[0].sp, frames[-1].sp
        words: list[int] = []
        if 0 < end - start <= _MAX_STACK:
            raw = self._process.read(start, end - start)
            words = [int.from_bytes(raw[at : at + size], order) for at in range(0, len(raw), size)]
        registers = [value for frame in frames for value in frame.registers.values()]
        return [word for word in dict.fromkeys(noted + registers + words) if word > 0xFFFF and word % 4 == 0]

    def _lock_view(self, address: int) -> StructView:
        return StructView(self._process, self._layout("kmp_base_queuing_lock_t"), address)

    def _queuing_lock(self, thread: Thread, candidates: list[int]) -> int | None:
        return next((address for address in candidates if thread.address in self._queue(address)), None)

    def _waiters(self, address: int) -> tuple[int, ...]:
        natives = (self._native_of(self._runtime.thread_at(waiter)) for waiter in self._queue(address))
        return tuple(native for native in natives if native is not None)

    def _native_of(self, thread: Thread) -> int | None:
        try:
            return self._process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
        except OmpdError:
            return None

    def _queue(self, address: int) -> tuple[int, ...]:
        # The threads (kmp_info_t) that wait for the queuing lock at *address*, first in line first; none if it is none.
        if address not in self._queues:
            self._queues[address] = self._read_queue(address)
        return self._queues[address]

    def _read_queue(self, address: int) -> tuple[int, ...]:
        try:
            lock = self._lock_view(address)
            if lock.pointer("initialized") != address:
                return ()
            gtid, last = lock.signed("head_id") - 1, lock.signed("tail_id") - 1
            found: dict[int, None] = {}
            info = self._layout("kmp_base_info_t")
            while gtid >= 0:
                thread = self._by_gtid.get(gtid)
                if thread is None or thread.address in found:
                    return ()
                found[thread.address] = None
                if gtid == last:
                    return tuple(found)
                gtid = StructView(self._structures, info, thread.address).signed("th_next_waiting") - 1
        except MemoryFault:
            pass
        return ()

    def _variable(self, lock: int, asked: str, candidates: list[int]) -> int | None:
        # The user's variable that leads to *lock*: a critical section's holds the address of the lock's descriptor.
        if asked == "critical":
            return next((variable for variable in self._criticals if self._descriptor_of(variable) == lock), None)
        # A lock's variable holds its number, of which 0 is also what a variable never set holds, and others remain in
        # one whose lock was destroyed or copied. So only one that the routine was given counts.
        leading: dict[int, Module] = {}
        for candidate in candidates:
            module = self._process.module_at(candidate)
            users = module is not None and not (module.is_system_library or is_runtime_file(module.name))
            if module is not None and users and self._lock_of(candidate) == lock:
                leading[candidate] = module
        found = [
            variable.address
            for module in set(leading.values())
            for variable in self._process.variables_of_type(module, LOCK_TYPES)
            if variable.address in leading
        ]
        return found[0] if len(found) == 1 else None

    def _lock_of(self, variable: int) -> int | None:
        # The lock of which *variable* holds the number, None if it holds none.
        try:
            word = read_unsigned(self._process, variable, 4)
            return self._numbered_lock(word >> 1) if word % 2 == 0 else None
        except MemoryFault:
            return None

    def _numbered_lock(self, number: int) -> int | None:
        size = self._process.pointer_size
        for table, rows, used in self._lock_tables:
            if number < used:
                row = read_pointer(self._process, table + number // _ROW * size)
                return read_pointer(self._process, row + number % _ROW * 2 * size) if row is not None else None
            number -= rows * _ROW
            if number < 0:
                break
        return None

    @cached_property
    def _lock_tables(self) -> list[tuple[int, int, int]]:
        # Where the pointers to rows lie, how many there are and how many locks are in use, of each table in the chain;
        # none if it is no such chain.
        size = self._process.pointer_size
        address = self._process.symbol_in(self._runtime.module, _LOCK_TABLE)
        found: list[tuple[int, int, int]] = []
        try:
            while address is not None and len(found) < _MAX_TABLES:
                table = read_pointer(self._process, address)
                rows, used = (read_unsigned(self._process, address + size + at, 4) for at in (0, 4))
                following = read_pointer(self._process, address + size + 8)
                full = used == rows * _ROW
                if table is None or rows != _FIRST_ROWS << len(found) or used > rows * _ROW or (following and not full):
                    return []
                found.append((table, rows, used))
                address = following
        except MemoryFault:
            return []
        return found

    @cached_property
    def _criticals(self) -> list[int]:
        return list(self._process.symbols_with_prefix(outlined.CRITICAL_PREFIX).values())

    def _descriptor_of(self, variable: int) -> int | None:
        try:
            descriptor = read_pointer(self._process, variable)
            return read_pointer(self._process, descriptor) if descriptor is not None else None
        except MemoryFault:
            return None

    @cached_property
    def _direct_tag(self) -> int | None:
        # What a direct lock's word begins with, None where locks are not direct: then a word that looks like one is
        # chance.
        address = self._process.symbol_in(self._runtime.module, _LOCK_KIND)
        kind = read_unsigned(self._process, address, 4) if address is not None else None
        return {_LOCK_KIND_TAS: _DIRECT_TAS, _LOCK_KIND_FUTEX: _DIRECT_FUTEX}.get(kind or 0)

    def _direct(self, thread: Thread, candidate: int) -> tuple[int, int] | None:
        # (variable, owner's gtid) if *candidate* is a test-and-set or futex lock that another thread holds.
        try:
            module = self._process.module_at(candidate)
            if module is not None and (module == self._runtime.module or module.is_system_library):
                return None
            word = read_unsigned(self._process, candidate, 4)
        except MemoryFault:
            return None
        payload = word >> 8
        tag = word & 0xFF
        if tag != self._direct_tag:
            return None
        gtid = (payload >> 1 if tag == _DIRECT_FUTEX else payload) - 1
        owner = self._by_gtid.get(gtid)
        return (candidate, gtid) if owner is not None and owner.address != thread.address else None

    # Barriers

    def barrier(self, region: ParallelHandle) -> BarrierState | None:
        """See :meth:`RuntimeInternals.barrier`: by the stacks of the team's threads."""
        missing: list[int] = []
        for number in range(region.size()):
            thread = self._runtime.thread_at(region.thread(number).address)
            if not self._has_arrived(thread, region):
                missing.append(
                    self._process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
                )
        if len(missing) == region.size():
            return None
        return BarrierState(region.size() - len(missing), region.size(), tuple(missing))

    def _has_arrived(self, thread: Thread, region: ParallelHandle) -> bool:
        stack = constructs.hosted(thread)
        places = {known.id: place for known, place in stack.places.items()}
        if region.id not in places:
            raise Unavailable("the region's frame is not to be told from others on a thread's stack")
        place = places[region.id]
        routines = [constructs.routine_at(self._runtime, frame.call_site) for frame in stack.frames[:place]]
        if place is None:
            return any(name in constructs.CLOSING_BARRIERS for name in routines)
        # The first routine that the region's code is in decides, whatever tasks the thread runs within it.
        entered = False
        for name in reversed(routines):
            if name in _BARRIERS:
                return self._is_counted(thread, region)
            if entered and name is None:
                return False
            entered = entered or name is not None
        return False

    def _is_counted(self, thread: Thread, region: ParallelHandle) -> bool:
        # A thread may still be on its way out of the barrier before. Intel's runtime counts, for explicit and
        # worksharing barriers and for reductions, how many its team has passed and each worker has reached.
        info, team = self._layout("kmp_base_info_t").fields, self._layout("kmp_base_team_t").fields
        needed = ("th_bar", "th_b_worker_arrived"), ("t_bar", "t_b_master_arrived", "t_b_team_arrived")
        if not all(name in info for name in needed[0]) or not all(name in team for name in needed[1]):
            return True
        primary = region.thread(0).address == thread.address
        start = _structure(region) + team["t_bar"].offset
        for kind in _COUNTED_BARRIERS:
            at = start + kind * (team["t_bar"].size // _BARRIER_KINDS)
            passed = read_unsigned(self._structures, at + team["t_b_team_arrived"].offset, 8)
            if primary:
                reached = read_unsigned(self._structures, at + team["t_b_master_arrived"].offset, 8)
            else:
                bar = info["th_bar"]
                own = thread.address + bar.offset + kind * (bar.size // _BARRIER_KINDS)
                reached = read_unsigned(self._structures, own + info["th_b_worker_arrived"].offset, 8)
            if reached > passed:
                return True
        return False

    # Tasks

    def waiting_thread(self, task: Task) -> Thread:
        """Return the thread on which *task* waits for its children: ``td_taskwait_thread``, its gtid + 1, is positive
        then.

        :raises Unavailable: if it waits for none
        """
        view = StructView(self._structures, self._layout("kmp_taskdata_t"), task.address)
        gtid = view.signed("td_taskwait_thread") - 1
        if gtid < 0:
            raise Unavailable("the runtime keeps on which thread it is only for tools, and while it waits for children")
        thread = self._by_gtid.get(gtid)
        if thread is None:
            raise CorruptState(task.address, f"task on thread {gtid}, which there is none of")
        return thread

    def queued_tasks(self) -> list[Task]:
        """Return the tasks in the queues (``td_deque``) of all threads of live teams, each in its order."""
        process = self._process
        team_layout, tt, td = (
            self._layout(name) for name in ("kmp_base_team_t", "kmp_base_task_team_t", "kmp_thread_data_t")
        )
        found: dict[int, Task] = {}
        seen: set[int] = set()
        for team in self._runtime.live_teams():
            field = team_layout.field("t_task_team")
            for at in range(field.offset, field.offset + field.size, process.pointer_size):
                address = read_pointer(self._structures, team.address + at)
                if address is None or address in seen:
                    continue
                seen.add(address)
                view = StructView(self._structures, tt, address)
                data = view.pointer("tt_threads_data")
                if data is None or not td.size:
                    continue
                for number in range(min(team.t_nproc, max(view.signed("tt_nproc"), 0))):
                    for task in self._deque(StructView(self._structures, td, data + number * td.size)):
                        found.setdefault(task, self._runtime.task_at(task))
        return list(found.values())

    def _deque(self, view: StructView) -> list[int]:
        array = view.pointer("td_deque")
        if array is None:
            return []
        size, head, count = (view.signed(name) for name in ("td_deque_size", "td_deque_head", "td_deque_ntasks"))
        if not (0 <= count <= size <= _MAX_QUEUED_TASKS and 0 <= head <= size):
            raise CorruptState(view.address, f"task queue of {count} tasks in {size} places")
        width, order = self._process.pointer_size, self._process.byte_order
        raw = self._structures.read(array, size * width) if count else b""
        places = [(head + i) % size for i in range(count)]
        found = [int.from_bytes(raw[at * width : at * width + width], order) for at in places]
        return [address for address in found if address]


def _structure(handle: TaskHandle | ParallelHandle) -> int:
    # Where the runtime's structure lies, which an id starts with; those that share it differ after the "/".
    return int(handle.id.partition("/")[0], 16)


def _innermost_frames(thread: Thread) -> tuple[Frame, ...]:
    # From the innermost to the first that is the user's.
    process = thread.runtime.process
    native = process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
    frames = process.stack(native).frames
    for index, frame in enumerate(frames):
        if constructs.is_users(thread.runtime, frame):
            return frames[: index + 1]
    return frames
