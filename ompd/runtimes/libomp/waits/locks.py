"""The lock that a thread waits for, who holds it, and the user's variable that stands for it.

A thread that waits has the address of the lock in a register or on its stack, among words that are stale or data. None
is taken for the lock that does not prove to be it. A queuing lock holds its own address and has the thread in its
queue. A ticket or drdpa lock is one that the runtime has made, by its table, and more threads have drawn a ticket than
were served; how it is laid out only debug information tells. A test-and-set or futex lock is the user's variable
itself and names another thread as its holder. A variable has to lead to the lock through the runtime's table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ompd import naming
from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.stacks import words_on
from ompd.contract.memory import StructView, read_pointer, read_unsigned, read_words
from ompd.contract.process import Frame, Module
from ompd.contract.waits import LOCK_TYPES, LockState
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, MemoryFault, OmpdError, Unavailable
from ompd.runtimes.libomp.stacks.code import Code
from ompd.runtimes.libomp.teams.threads import Thread, Threads
from ompd.runtimes.libomp.waits.lock_table import COUNTING, LockTable

# The runtime's own number of the kind that locks have unless a hint asks for another; those up to 2 are direct.
_LOCK_KIND, _LOCK_KIND_TAS, _LOCK_KIND_FUTEX = "__kmp_user_lock_seq", 1, 2
# kmp_indirect_locktag_t of nestable locks, whatever their kind.
_NESTABLE = frozenset(range(5, 10))
# Routines that ask for a lock, and what their callers call it.
LOCK_ROUTINES = {
    "__kmpc_critical": "critical",
    "__kmpc_critical_with_hint": "critical",
    "__kmpc_reduce": "critical",
    "__kmpc_reduce_nowait": "critical",
    "GOMP_critical_start": "critical",
    "GOMP_critical_name_start": "critical",
    "GOMP_atomic_start": "atomic",
    "__kmpc_set_lock": "lock",
    "__kmpc_set_nest_lock": "lock",
    "omp_set_lock": "lock",
    "omp_set_nest_lock": "lock",
}
_UNNAMED = "GOMP_critical_start"
_NEST_ROUTINES = ("__kmpc_set_nest_lock", "omp_set_nest_lock")
# With this setting the runtime notes an owner of simple locks, too.
_CHECKS, _CHECK_SETTING = "__kmp_env_consistency_check", "KMP_CONSISTENCY_CHECK"
# By which the runtime acquires its own locks.
_BOOTSTRAP = ("__kmp_acquire_ticket_lock", "__kmp_acquire_bootstrap_lock")
# What it does between two attempts to get a direct one.
_BETWEEN = frozenset(("__kmp_spin_backoff", "__kmp_hardware_timestamp", "__kmp_yield"))
# kmp_lock.h: the low byte of a direct lock's word tells its kind, the rest its owner's gtid + 1; a futex lock's lowest
# bit of that says that somebody waits.
_DIRECT_TAS, _DIRECT_FUTEX = 3, 5
_DIRECT_TAGS = {_LOCK_KIND_TAS: _DIRECT_TAS, _LOCK_KIND_FUTEX: _DIRECT_FUTEX}


class Locks:
    """Finds the locks that the threads of one runtime wait for."""

    def __init__(self, runtime: Threads) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.details
        self._by_gtid = runtime.by_gtid
        self._queues: dict[int, tuple[int, ...] | CorruptState] = {}
        self._table = LockTable(runtime)

    def _native_of(self, thread: Thread) -> int | None:
        try:
            return thread.native_thread_id()
        except OmpdError:
            return None

    def lock(self, thread: Thread, code: Code) -> LockState | None:
        """See :meth:`ThreadHandle.lock`.

        :raises Unavailable: if it waits for one that was not found
        """
        frames = _innermost_frames(thread, code)
        routines = [code.routine_of(frame) for frame in reversed(frames[:-1])]
        asked = next((LOCK_ROUTINES[name] for name in routines if name in LOCK_ROUTINES), None)
        if asked is None:
            return self._internal(thread, frames, code)
        is_nestable = any(name in _NEST_ROUTINES for name in routines)
        lock = self._awaited(thread, frames, asked, is_nestable=is_nestable)
        # The runtime itself has the variable of gcc's section without a name, whose routine may jump to another one.
        called = naming.routine_name(self._process.routine_called(frames[-1].pc))
        return replace(lock, is_unnamed=True) if _UNNAMED in (called, *routines) else lock

    def _awaited(self, thread: Thread, frames: tuple[Frame, ...], asked: str, *, is_nestable: bool) -> LockState:
        # The lock that the thread waits for in a routine that asks for one.
        in_registers, on_stack = self._candidates(thread, frames)
        candidates = list(dict.fromkeys(in_registers + on_stack))
        address = next((address for address in candidates if thread.address in self._queue(address)), None)
        if address is not None:
            return self._named(thread, self._queuing(address), asked, candidates, is_nestable=is_nestable)
        passed = self._process.object_passed(frames[-1])
        if passed is not None:
            direct = self._passed_lock(thread, asked, frames, passed, is_nestable=is_nestable)
        else:
            direct = self._direct_lock(thread, asked, candidates)
        if direct is not None:
            return direct
        damaged = (known for known in map(self._queues.get, candidates) if isinstance(known, CorruptState))
        reason = Unavailable("none of the runtime's locks proves to be the one that the thread waits for")
        untold: OmpdError = next(damaged, None) or reason
        try:
            lock = self._lock_of(passed) if passed is not None else None
            if lock is not None and self._counts_waiting(lock):
                return self._named(thread, self._counting(lock), asked, candidates, is_nestable=is_nestable)
            # What was left on the stack by an earlier call may be another lock's; registers that the runtime's frames
            # hold are in use.
            for words in (in_registers, on_stack):
                counting = {word for word in words if self._counts_waiting(word)}
                if len(counting) == 1:
                    (address,) = counting
                    return self._named(thread, self._counting(address), asked, candidates, is_nestable=is_nestable)
                if counting:
                    break
        except OmpdError as error:
            untold = error
        if asked == "critical":
            held = {self._descriptor_of(variable): variable for variable in self._criticals}
            used = [lock for lock in held if lock is not None and lock in candidates]
            if len(used) == 1:
                return LockState(used[0], asked, None, (), held[used[0]])
        raise untold

    def _internal(self, thread: Thread, frames: tuple[Frame, ...], code: Code) -> LockState | None:
        # One of the runtime's own (kmp_bootstrap_lock_t, a ticket lock), by its symbol: the routine that acquires it
        # has its address in a register, and by its tickets somebody waits. It notes no owner.
        if not any(code.routine_of(frame) in _BOOTSTRAP for frame in frames):
            return None
        found: dict[int, str] = {}
        for address in self._candidates(thread, frames)[0]:
            place = self._process.locate(address)
            if place.symbol is None or place.symbol_address != address or not place.symbol.startswith("__kmp_"):
                continue
            if self._is_awaited(address):
                found[address] = place.symbol
        if len(found) != 1:
            return None
        ((address, name),) = found.items()
        return LockState(address, "internal", None, (), name=name)

    def _is_awaited(self, address: int) -> bool:
        # Without its layout only that it holds its own address.
        try:
            lock = self._structures.view("kmp_base_ticket_lock_t", address)
            bits = 8 * lock.layout.field("next_ticket").size
            is_lock = lock.pointer("self" if "self" in lock.layout.fields else "initialized") == address
            return is_lock and (lock.unsigned("next_ticket") - lock.unsigned("now_serving")) % (1 << bits) >= 2
        except LayoutUnavailable:
            return address in read_words(self._process, address, 2)
        except MemoryFault:
            return False

    def asks_for_one(self, thread: Thread, frames: tuple[Frame, ...]) -> bool:
        """Return whether *frames* hold the address of a lock that *thread* proves to wait for."""
        in_registers, on_stack = self._candidates(thread, frames)
        candidates = list(dict.fromkeys(in_registers + on_stack))
        return (
            any(thread.address in self._queue(address) for address in candidates)
            or any(self._counts_waiting(address) for address in candidates)
            or self._direct_lock(thread, "critical", candidates) is not None
        )

    def _direct_lock(self, thread: Thread, asked: str, candidates: list[int]) -> LockState | None:
        # The only one that the words of registers and stack lead to: the thread's own ones are as likely as others.
        direct = {self._direct(candidate) for candidate in candidates} - {None}
        if len(direct) != 1:
            return None
        ((address, gtid),) = filter(None, direct)
        if self._by_gtid.get(gtid) is thread:
            return None
        return self._direct_state(asked, address, gtid, self._variable(address, asked, candidates), is_searched=True)

    def _passed_lock(
        self, thread: Thread, asked: str, frames: tuple[Frame, ...], passed: int, *, is_nestable: bool
    ) -> LockState | None:
        # The one that the routine was given, which the thread itself may have.
        direct = self._direct(passed) or self._direct(self._lock_of(passed) or 0)
        if direct is None:
            return None
        is_own = self._by_gtid.get(direct[1]) is thread
        is_searched = is_own and not self._waits_inside(frames)
        found = self._direct_state(asked, *direct, passed, is_searched=is_searched)
        if not is_own or not is_nestable or is_searched:
            return found
        # The owner of a nestable lock sets it once more.
        fault = f"the lock's word is {found.owner_value:#x}, which names the thread that waits for it"
        return replace(found, owner=None, owner_fault=CorruptState(found.address, fault))

    def _direct_state(
        self, asked: str, address: int, gtid: int, variable: int | None, *, is_searched: bool
    ) -> LockState:
        # Nestable locks of these kinds are objects of the runtime's too.
        known = (variable or address) if asked == "lock" else address
        word = read_unsigned(self._process, address, 4)
        return self._owned(LockState(address, asked, None, (), known, is_searched=is_searched), gtid, address, word)

    def _waits_inside(self, frames: tuple[Frame, ...]) -> bool:
        # Whether it has just failed to get the lock: then it is in what it does between two attempts.
        if self._runtime.owners.of(frames[0]) != RUNTIME:
            return True
        names = {naming.routine_name(self._process.locate(frame.call_site).symbol) for frame in frames}
        return not names.isdisjoint(_BETWEEN)

    def _named(
        self, thread: Thread, lock: StructView, asked: str, candidates: list[int], *, is_nestable: bool
    ) -> LockState:
        # owner_id is a gtid + 1, kept by nestable locks and where the runtime was told to check what programs do.
        address, owner = lock.address, lock.signed("owner_id")
        found = LockState(address, asked, None, self._waiters(address), self._variable(address, asked, candidates))
        if owner <= 0:
            return found
        fault = self._fault_of_owner(thread, lock, owner - 1, is_nestable=is_nestable)
        if fault is not None:
            return replace(found, owner_fault=fault)
        return self._owned(found, owner - 1, lock.address_of("owner_id"), owner)

    def _fault_of_owner(self, thread: Thread, lock: StructView, gtid: int, *, is_nestable: bool) -> CorruptState | None:
        # Why the number in owner_id cannot be that of the lock's owner.
        owner = self._by_gtid.get(gtid)
        if owner is not None and owner.address == thread.address:
            # The owner of a nestable lock sets it once more; of another one the check ends the program.
            return CorruptState(
                lock.address, f"owner_id is {gtid + 1}, the number of the thread that waits for the lock"
            )
        if not is_nestable and not self._checks_programs:
            return CorruptState(
                lock.address, f"owner_id is {gtid + 1}, though the runtime does not set it for this lock"
            )
        return None

    @cached_property
    def _checks_programs(self) -> bool:
        # Whether the runtime checks what programs do, so that it notes the owners of all locks that are its own.
        address = self._process.symbol_in(self._runtime.module, _CHECKS)
        if address is not None:
            return read_unsigned(self._process, address, 4) != 0
        try:
            return self._process.environment().get(_CHECK_SETTING, "").lower() == "all"
        except OmpdError:
            return True  # then nothing is concluded from it

    def _owned(self, lock: LockState, gtid: int, address: int, value: int) -> LockState:
        # The same lock with its owner, by the runtime's number and the word that has it.
        native, gone = None, None
        try:
            thread = self._runtime.thread_by_gtid(gtid)
            if thread is None:
                gone = f"the thread that the runtime has numbered {gtid}, which it does not have any more"
            else:
                native = thread.native_thread_id()
        except CorruptState as fault:
            return replace(lock, owner_fault=fault)
        except BadInput:
            gone = f"the thread that the runtime has numbered {gtid}, which the process does not have any more"
        except OmpdError:
            pass  # it cannot be read
        return replace(lock, owner=native, owner_address=address, owner_value=value, owner_gone=gone)

    def _candidates(self, thread: Thread, frames: tuple[Frame, ...]) -> tuple[list[int], list[int]]:
        # The words that may be an address of what the routine was given: what OMPT noted, and those in the registers of
        # the runtime's frames; then the user's registers, and the words on the stack.
        noted = [thread.kept_state()[1]] if self._runtime.states_are_kept else []
        words = words_on(self._process, frames[0].sp, frames[-1].sp)
        inner = [frame for frame in frames if self._runtime.owners.of(frame) == RUNTIME]
        held = [value for frame in inner for value in frame.registers.values()]
        rest = [value for frame in frames for value in frame.registers.values()]
        return _addresses(noted + held), _addresses([*rest, *words])

    def _queuing(self, address: int) -> StructView:
        return self._structures.view("kmp_base_queuing_lock_t", address)

    def _waiters(self, address: int) -> tuple[int, ...]:
        natives = (self._native_of(self._runtime.thread_at(waiter)) for waiter in self._queue(address))
        return tuple(native for native in natives if native is not None)

    def _queue(self, address: int) -> tuple[int, ...]:
        # The threads (kmp_info_t) that wait for the queuing lock at *address*, first in line first; none if it is none,
        # or if its queue contradicts itself.
        if address not in self._queues:
            try:
                self._queues[address] = self._read_queue(address)
            except CorruptState as fault:
                self._queues[address] = fault
        found = self._queues[address]
        return found if not isinstance(found, CorruptState) else ()

    def _read_queue(self, address: int) -> tuple[int, ...]:
        try:
            lock = self._queuing(address)
            if lock.pointer("initialized") != address:
                return ()
            gtid, last = lock.signed("head_id") - 1, lock.signed("tail_id") - 1
            found: dict[int, None] = {}
            info = self._structures.layout("kmp_base_info_t")
            while gtid >= 0:
                thread = self._runtime.thread_by_gtid(gtid)
                if thread is None or thread.address in found:
                    return ()
                found[thread.address] = None
                if gtid == last:
                    return tuple(found)
                gtid = StructView(self._runtime.heap, info, thread.address).signed("th_next_waiting") - 1
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
            users = module is not None and not (module.is_system_library or naming.is_runtime_file(module.name))
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
            return self._table.numbered(word >> 1) if word % 2 == 0 else None
        except MemoryFault:
            return None

    def _counting(self, address: int) -> StructView:
        return self._structures.view(COUNTING[self._table.tags[address]], address)

    def _counts_waiting(self, address: int) -> bool:
        # Whether a ticket or drdpa lock is at *address* that somebody waits for: of the tickets drawn the one now
        # served is its holder's.
        tag = self._table.tags.get(address)
        if tag not in COUNTING or not self._table.proves(address, tag):
            return False
        lock = self._counting(address)
        bits = 8 * lock.layout.field("next_ticket").size
        drawn = (lock.unsigned("next_ticket") - lock.unsigned("now_serving")) % (1 << bits)
        return 2 <= drawn <= len(self._by_gtid) + 1  # whose ticket is served may have ended

    @cached_property
    def _criticals(self) -> list[int]:
        # Each library has a variable of its own for the same name.
        return [address for _, address in self._process.symbols_with_prefix(naming.CRITICAL_PREFIX)]

    def _descriptor_of(self, variable: int) -> int | None:
        try:
            descriptor = read_pointer(self._process, variable)
            return read_pointer(self._process, descriptor) if descriptor is not None else None
        except MemoryFault:
            return None

    @cached_property
    def _direct_tags(self) -> frozenset[int]:
        # What a direct lock's word may begin with, nothing where locks are not direct: then a word that looks like one
        # is chance.
        address = self._process.symbol_in(self._runtime.module, _LOCK_KIND)
        if address is None and self._runtime.stripped is not None:
            # Then all locks that the runtime made itself are of kinds that are direct unless they can be nested.
            own = set(self._table.tags.values()) - _NESTABLE
            return frozenset() if own else frozenset(_DIRECT_TAGS.values())
        kind = read_unsigned(self._process, address, 4) if address is not None else 0
        return frozenset({_DIRECT_TAGS[kind]} if kind in _DIRECT_TAGS else ())

    def _direct(self, candidate: int) -> tuple[int, int] | None:
        # (variable, owner's gtid) if *candidate* is a test-and-set or futex lock that a thread holds.
        try:
            module = self._process.module_at(candidate)
            if module is not None and (module == self._runtime.module or module.is_system_library):
                return None
            word = read_unsigned(self._process, candidate, 4)
        except MemoryFault:
            return None
        payload = word >> 8
        tag = word & 0xFF
        if tag not in self._direct_tags:
            return None
        gtid = (payload >> 1 if tag == _DIRECT_FUTEX else payload) - 1
        owner = self._by_gtid.get(gtid)
        if owner is None and gtid in self._runtime.contradicted_gtids:
            return candidate, gtid
        if owner is None:
            # It may have ended. Then what is there is chance, unless it is known to be a lock.
            is_number = 0 <= gtid < self._runtime.capacity
            return (candidate, gtid) if is_number and self._is_lock(candidate, module) else None
        return candidate, gtid

    def _is_lock(self, candidate: int, module: Module | None) -> bool:
        if module is not None:
            return any(known.address == candidate for known in self._process.variables_of_type(module, LOCK_TYPES))
        try:
            tag = self._table.tags.get(candidate)
            return tag is not None and self._table.proves(candidate, tag)
        except OmpdError:
            return False


def _addresses(words: list[int]) -> list[int]:
    return [word for word in dict.fromkeys(words) if word > 0xFFFF and word % 4 == 0]


def _innermost_frames(thread: Thread, code: Code) -> tuple[Frame, ...]:
    # From the innermost to the first that is the user's.
    frames = thread.runtime.process.stack(thread.native_thread_id()).frames
    for index, frame in enumerate(frames):
        if code.is_users(frame):
            return frames[: index + 1]
    return frames
