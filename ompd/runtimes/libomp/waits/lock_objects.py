"""The runtime's locks, independent of the threads that wait for them.

The runtime's table of locks (``__kmp_i_lock_table``) maps lock variables to the locks that they stand for. A lock
variable that is not itself the lock holds twice the lock's number, which is an index into rows of
``kmp_indirect_lock_t``. Such an entry has two words: the lock and its ``kmp_indirect_locktag_t``. Since LLVM 14, a full
table is followed by a table with twice as many rows. In earlier releases a larger table replaced a full one, and the
table's second member counts entries, not rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.memory import StructView, read_pointer, read_unsigned, read_words
from ompd.contract.waits import LOCK_TYPES
from ompd.errors import CorruptState, LayoutUnavailable, MemoryFault, OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Module
    from ompd.runtimes.libomp.handles import Thread
    from ompd.runtimes.libomp.plugin import Runtime

_SYMBOL, _TABLE = "__kmp_i_lock_table", "kmp_indirect_lock_table"
_ROW, _FIRST_ROWS, _MAX_TABLES = 1024, 8, 18
# A damaged table may have billions of locks.
_MAX_LOCKS = 1 << 20
_TAG_SIZE = 4
# Structures of locks that count tickets, plain and nestable, by their kmp_indirect_locktag_t.
_COUNTING = {
    0: "kmp_base_ticket_lock_t",
    7: "kmp_base_ticket_lock_t",
    3: "kmp_base_drdpa_lock_t",
    9: "kmp_base_drdpa_lock_t",
}
_QUEUING, _MOST_TAGS = (1, 8), 10
# kmp_indirect_locktag_t of all nestable locks.
_NESTABLE = frozenset(range(5, 10))
# kmp_indirect_locktag_t of nestable test-and-set and futex locks. _POLLED has the low byte of the lock's word for each
# tag.
_POLLED_TAS, _POLLED_FUTEX = 5, 6
_POLLED = {_POLLED_TAS: 3, _POLLED_FUTEX: 5}

# The runtime's variable with the number of the default kind of locks, which a hint can override. Locks of kinds 1 and 2
# are direct.
_LOCK_KIND, _LOCK_KIND_TAS, _LOCK_KIND_FUTEX = "__kmp_user_lock_seq", 1, 2
# kmp_lock.h: the low byte of a direct lock's word is the lock's kind, the other bytes are the owner's gtid + 1. For a
# futex lock the lowest bit of the other bytes is set while a thread waits.
_DIRECT_TAS, _DIRECT_FUTEX = 3, 5
_DIRECT_TAGS = {_LOCK_KIND_TAS: _DIRECT_TAS, _LOCK_KIND_FUTEX: _DIRECT_FUTEX}
# The runtime's variable, and the environment variable, with which the runtime also records the owners of simple locks.
_CHECKS, _CHECK_SETTING = "__kmp_env_consistency_check", "KMP_CONSISTENCY_CHECK"


class LockObjects:
    """The locks of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.details
        self._by_gtid = runtime.by_gtid
        self._queues: dict[int, tuple[int, ...] | CorruptState] = {}
        self._table = LockTable(runtime)

    # Queuing locks

    def queuing(self, address: int) -> StructView:
        """Return a view of the memory at *address* as a queuing lock."""
        return self._structures.view("kmp_base_queuing_lock_t", address)

    def queue(self, address: int) -> tuple[int, ...]:
        """Return the addresses of the threads (``kmp_info_t``) that wait for the queuing lock at *address*, in the
        order of the queue.

        Empty if there is no such lock, or if the lock's queue contradicts itself (:meth:`queue_fault`).
        """
        if address not in self._queues:
            try:
                self._queues[address] = self._read_queue(address)
            except CorruptState as fault:
                self._queues[address] = fault
        queue = self._queues[address]
        return queue if not isinstance(queue, CorruptState) else ()

    def queue_fault(self, address: int) -> CorruptState | None:
        """Return the contradiction in the queue at *address* that :meth:`queue` has found, None if there is none."""
        queue = self._queues.get(address)
        return queue if isinstance(queue, CorruptState) else None

    def _read_queue(self, address: int) -> tuple[int, ...]:
        try:
            lock = self.queuing(address)
            if lock.pointer("initialized") != address:
                return ()
            gtid, last = lock.signed("head_id") - 1, lock.signed("tail_id") - 1
            waiters: dict[int, None] = {}
            info = self._structures.layout("kmp_base_info_t")
            while gtid >= 0:
                thread = self._runtime.thread_by_gtid(gtid)
                if thread is None or thread.address in waiters:
                    return ()
                waiters[thread.address] = None
                if gtid == last:
                    return tuple(waiters)
                gtid = StructView(self._runtime.heap, info, thread.address).signed("th_next_waiting") - 1
        except MemoryFault:
            pass
        return ()

    # Locks that count tickets

    def counting(self, address: int) -> StructView:
        """Return the ticket or drdpa lock at *address*, which must be in the table of locks."""
        return self._structures.view(_COUNTING[self._table.tags[address]], address)

    def counts_waiting(self, address: int) -> bool:
        """Return whether there is a ticket or drdpa lock at *address* with waiting threads. Its holder has the ticket
        that is being served, and other threads have drawn later tickets.
        """
        tag = self._table.tags.get(address)
        if tag not in _COUNTING or not self._table.proves(address, tag):
            return False
        lock = self.counting(address)
        bits = 8 * lock.layout.field("next_ticket").size
        drawn = (lock.unsigned("next_ticket") - lock.unsigned("now_serving")) % (1 << bits)
        return 2 <= drawn <= len(self._by_gtid) + 1  # the holder may have ended

    def is_awaited_internal(self, address: int) -> bool:
        """Return whether one of the runtime's own ticket locks is at *address* and has waiting threads. If the layout
        of ticket locks is unknown, return whether the word at *address* or the next word holds *address*, as in every
        ticket lock.
        """
        try:
            lock = self._structures.view("kmp_base_ticket_lock_t", address)
            bits = 8 * lock.layout.field("next_ticket").size
            is_lock = lock.pointer("self" if "self" in lock.layout.fields else "initialized") == address
            return is_lock and (lock.unsigned("next_ticket") - lock.unsigned("now_serving")) % (1 << bits) >= 2
        except LayoutUnavailable:
            return address in read_words(self._process, address, 2)
        except MemoryFault:
            return False

    # Direct locks: the user's variable is the lock

    @cached_property
    def _direct_tags(self) -> frozenset[int]:
        # The possible low bytes of direct locks' words. Empty if the default kind of locks is not direct, because a
        # similar word is then a coincidence.
        address = self._process.symbol_in(self._runtime.module, _LOCK_KIND)
        if address is None and self._runtime.stripped is not None:
            # The stripped runtime has no symbol for the default kind. Direct locks are not in the table of locks, so a
            # plain lock in the table shows that the default kind is not direct.
            tags = set(self._table.tags.values()) - _NESTABLE
            return frozenset() if tags else frozenset(_DIRECT_TAGS.values())
        kind = read_unsigned(self._process, address, 4) if address is not None else 0
        return frozenset({_DIRECT_TAGS[kind]} if kind in _DIRECT_TAGS else ())

    def direct(self, address: int) -> tuple[int, int] | None:
        """Return *address* and the owner's gtid if a held test-and-set or futex lock is at *address*, else None."""
        try:
            module = self._process.module_at(address)
            if module is not None and (module == self._runtime.module or module.is_system_library):
                return None
            word = read_unsigned(self._process, address, 4)
        except MemoryFault:
            return None
        payload = word >> 8
        tag = word & 0xFF
        if tag not in self._direct_tags:
            return None
        gtid = (payload >> 1 if tag == _DIRECT_FUTEX else payload) - 1
        owner = self._by_gtid.get(gtid)
        if owner is None and gtid in self._runtime.contradicted_gtids:
            return address, gtid
        if owner is None:
            # No thread has the gtid. Either the owner has ended, or the word is no lock's, so other evidence of a lock
            # is needed.
            is_number = 0 <= gtid < self._runtime.capacity
            return (address, gtid) if is_number and self._is_lock(address, module) else None
        return address, gtid

    def _is_lock(self, address: int, module: Module | None) -> bool:
        if module is not None:
            return any(variable.address == address for variable in self._process.variables_of_type(module, LOCK_TYPES))
        try:
            tag = self._table.tags.get(address)
            return tag is not None and self._table.proves(address, tag)
        except OmpdError:
            return False

    def is_held_by(self, gtid: int, thread: Thread) -> bool:
        """Return whether *gtid*, the number of a lock's owner, belongs to *thread*."""
        return self._by_gtid.get(gtid) is thread

    @cached_property
    def notes_all_owners(self) -> bool:
        """Whether the runtime records the owners of all its locks, because it checks programs. True if that is unknown,
        so that a recorded owner is not rejected.
        """
        address = self._process.symbol_in(self._runtime.module, _CHECKS)
        if address is not None:
            return read_unsigned(self._process, address, 4) != 0
        try:
            return self._process.environment().get(_CHECK_SETTING, "").lower() == "all"
        except OmpdError:
            return True

    # The user's variables

    def lock_of(self, variable: int) -> int | None:
        """Return the lock whose number *variable* holds, None if it holds no lock's number."""
        try:
            word = read_unsigned(self._process, variable, 4)
            return self._table.numbered(word >> 1) if word % 2 == 0 else None
        except MemoryFault:
            return None

    @cached_property
    def criticals(self) -> list[int]:
        """The addresses of critical sections' variables. For the same name, each library has its own variable."""
        return [address for _, address in self._process.symbols_with_prefix(naming.CRITICAL_PREFIX)]

    def critical_lock(self, variable: int) -> int | None:
        """Return the lock of a critical section, None if there is none. *variable* holds the address of the lock's
        descriptor.
        """
        try:
            descriptor = read_pointer(self._process, variable)
            return read_pointer(self._process, descriptor) if descriptor is not None else None
        except MemoryFault:
            return None

    def variable(self, lock: int, kind: str, candidates: list[int]) -> int | None:
        """Return the user's variable that stands for *lock*, None if no variable was found.

        :param candidates: words that may be the address of the variable
        """
        if kind == "critical":
            return next((variable for variable in self.criticals if self.critical_lock(variable) == lock), None)
        # A lock variable holds the lock's number. This does not suffice to find the variable: an uninitialised variable
        # holds 0, which is a lock's number, too, and a variable whose lock was destroyed or copied still holds a
        # number. So the variable's address must be among the words of the waiting thread.
        modules: dict[int, Module] = {}
        for candidate in candidates:
            module = self._process.module_at(candidate)
            is_users = module is not None and not (module.is_system_library or naming.is_runtime_file(module.name))
            if module is not None and is_users and self.lock_of(candidate) == lock:
                modules[candidate] = module
        variables = [
            variable.address
            for module in set(modules.values())
            for variable in self._process.variables_of_type(module, LOCK_TYPES)
            if variable.address in modules
        ]
        return variables[0] if len(variables) == 1 else None


class _Table(NamedTuple):
    # One table of locks: the address of its array of pointers to rows, the number of rows, and the number of locks in
    # use.
    rows_at: int
    rows: int
    used: int


class LockTable:
    """The locks that one runtime has made."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.details

    def numbered(self, number: int) -> int | None:
        """Return the lock for which a variable with the value 2 * *number* stands, None if there is none."""
        size = self._process.pointer_size
        for table in self._tables:
            if number < table.used:
                row = read_pointer(self._process, table.rows_at + number // _ROW * size)
                return read_pointer(self._process, row + number % _ROW * 2 * size) if row is not None else None
            number -= table.rows * _ROW
            if number < 0:
                break
        return None

    @cached_property
    def tags(self) -> Mapping[int, int]:
        """The ``kmp_indirect_locktag_t`` of every lock in use, by the lock's address."""
        return self._tags_of(self._tables)

    def proves(self, lock: int, tag: int) -> bool:
        """Return whether the memory at *lock* holds a lock with this *tag*. Most locks are recognised because they hold
        their own address.
        """
        if tag in _COUNTING:
            view = self._structures.view(_COUNTING[tag], lock)
            # The first member of LLVM's ticket locks is a truth value, and the next member is the lock's own address.
            return view.pointer("self" if "self" in view.layout.fields else "initialized") == lock
        if tag in _QUEUING:
            return self._structures.view("kmp_base_queuing_lock_t", lock).pointer("initialized") == lock
        if tag in _POLLED:
            # The lock's first word has its kind and its owner. The next word counts how many times the owner has set
            # the lock.
            word, depth = (read_unsigned(self._process, lock + offset, 4) for offset in (0, 4))
            owner = word >> (8 if tag == _POLLED_TAS else 9)
            return word & 0xFF == _POLLED[tag] and owner <= self._runtime.capacity and (depth > 0) == (owner > 0)
        return False

    @cached_property
    def _tables(self) -> list[_Table]:
        # The tables in the order of their locks' numbers. Empty if the tables contradict themselves.
        address = self._process.symbol_in(self._runtime.module, _SYMBOL)
        if address is not None:
            return self._chain(address)
        return self._searched() if self._runtime.stripped is not None else []

    def _chain(self, address: int | None) -> list[_Table]:
        size = self._process.pointer_size
        tables: list[_Table] = []
        try:
            while address is not None and len(tables) < _MAX_TABLES:
                table = read_pointer(self._process, address)
                rows, used = (read_unsigned(self._process, address + size + offset, 4) for offset in (0, 4))
                if self._counts_entries:
                    if table is None or not rows or rows % _ROW or used > rows:
                        return []
                    return [_Table(table, rows // _ROW, used)]
                following = read_pointer(self._process, address + size + 8)
                is_full = used == rows * _ROW
                is_sound = rows == _FIRST_ROWS << len(tables) and used <= rows * _ROW and (is_full or not following)
                if table is None or not is_sound:
                    return []
                tables.append(_Table(table, rows, used))
                address = following
        except MemoryFault:
            return []
        return tables

    @cached_property
    def _counts_entries(self) -> bool:
        # Whether a stripped runtime's table of locks counts entries, as before LLVM 14. For a runtime with symbols this
        # is False, and its numbers then contradict the new layout.
        stripped = self._runtime.stripped
        return stripped is not None and "next_table" not in stripped.table.layout(_TABLE).fields

    def _searched(self) -> list[_Table]:
        # The runtime has no symbols, so search its variables for a chain of tables that has at least one lock. Empty
        # unless there is exactly one.
        stripped = self._runtime.stripped
        chains: list[list[_Table]] = []
        for address in stripped.variables.pointers() if stripped is not None else ():
            chain = self._chain(address)
            if chain and self._has_locks(chain):
                chains.append(chain)
        return chains[0] if len(chains) == 1 else []

    def _has_locks(self, chain: list[_Table]) -> bool:
        try:
            tags = self._tags_of(chain)
            return all(tag < _MOST_TAGS for tag in tags.values()) and any(
                self.proves(lock, tag) for lock, tag in tags.items()
            )
        except (MemoryFault, Unavailable):
            return False

    def _tags_of(self, tables: list[_Table]) -> Mapping[int, int]:
        size, order = self._process.pointer_size, self._process.byte_order
        tags: dict[int, int] = {}
        for table in tables:
            if table.used + len(tags) > _MAX_LOCKS:
                raise Unavailable(f"there are more than {_MAX_LOCKS} locks")
            for first in range(0, table.used, _ROW):
                row = read_pointer(self._process, table.rows_at + first // _ROW * size)
                if row is None:
                    continue
                raw = self._process.read(row, min(_ROW, table.used - first) * 2 * size)
                for start in range(0, len(raw), 2 * size):
                    lock = int.from_bytes(raw[start : start + size], order)
                    tags[lock] = int.from_bytes(raw[start + size : start + size + _TAG_SIZE], order)
        return tags
