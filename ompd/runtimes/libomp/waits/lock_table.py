"""The runtime's table of locks (``__kmp_i_lock_table``), by which lock variables name the locks that they stand for.

A lock variable that is not itself the lock holds twice the number of one: an index into rows of
``kmp_indirect_lock_t``, each of two words, the lock and its ``kmp_indirect_locktag_t``. Since LLVM 14 a full table has
one of twice the rows behind it; before it was replaced by a larger one, and its second field counts entries, not rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ompd.contract.memory import read_pointer, read_unsigned
from ompd.errors import MemoryFault, Unavailable
from ompd.runtimes.libomp.teams.reading import Reading

_SYMBOL, _TABLE = "__kmp_i_lock_table", "kmp_indirect_lock_table"
_ROW, _FIRST_ROWS, _MAX_TABLES = 1024, 8, 18
# Locks whose kinds are looked up; a damaged table may say that there are billions.
_MAX_LOCKS = 1 << 20
_TAG_SIZE = 4
# Locks that count tickets, by their tags, plain and nestable.
COUNTING = {
    0: "kmp_base_ticket_lock_t",
    7: "kmp_base_ticket_lock_t",
    3: "kmp_base_drdpa_lock_t",
    9: "kmp_base_drdpa_lock_t",
}
_QUEUING, _MOST_TAGS = (1, 8), 10
# Nestable test-and-set and futex locks: the low byte of their words.
_POLLED_TAS, _POLLED_FUTEX = 5, 6
_POLLED = {_POLLED_TAS: 3, _POLLED_FUTEX: 5}


class _Table(NamedTuple):
    # Where the pointers to rows lie, how many there are and how many locks are in use.
    rows_at: int
    rows: int
    used: int


class LockTable:
    """The locks that one runtime has made."""

    def __init__(self, runtime: Reading) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.details

    def numbered(self, number: int) -> int | None:
        """Return the lock that a variable of value 2 * *number* stands for, None if there is none."""
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
        """Return whether what is at *lock* is one of the kind *tag* in use: most hold their own address."""
        if tag in COUNTING:
            view = self._structures.view(COUNTING[tag], lock)
            # LLVM's ticket locks have a truth value as their first member, and their address in the next one.
            return view.pointer("self" if "self" in view.layout.fields else "initialized") == lock
        if tag in _QUEUING:
            return self._structures.view("kmp_base_queuing_lock_t", lock).pointer("initialized") == lock
        if tag in _POLLED:
            # The word of a test-and-set or futex lock, then how often its owner has set it.
            word, depth = (read_unsigned(self._process, lock + at, 4) for at in (0, 4))
            owner = word >> (8 if tag == _POLLED_TAS else 9)
            return word & 0xFF == _POLLED[tag] and owner <= self._runtime.capacity and (depth > 0) == (owner > 0)
        return False

    @cached_property
    def _tables(self) -> list[_Table]:
        # Each table in the chain; none if it is no such chain.
        address = self._process.symbol_in(self._runtime.module, _SYMBOL)
        if address is not None:
            return self._chain(address)
        return self._searched() if self._runtime.stripped is not None else []

    def _chain(self, address: int | None) -> list[_Table]:
        size = self._process.pointer_size
        found: list[_Table] = []
        try:
            while address is not None and len(found) < _MAX_TABLES:
                table = read_pointer(self._process, address)
                rows, used = (read_unsigned(self._process, address + size + at, 4) for at in (0, 4))
                if self._counts_entries:
                    if table is None or not rows or rows % _ROW or used > rows:
                        return []
                    return [_Table(table, rows // _ROW, used)]
                following = read_pointer(self._process, address + size + 8)
                full = used == rows * _ROW
                if table is None or rows != _FIRST_ROWS << len(found) or used > rows * _ROW or (following and not full):
                    return []
                found.append(_Table(table, rows, used))
                address = following
        except MemoryFault:
            return []
        return found

    @cached_property
    def _counts_entries(self) -> bool:
        # Only the layout of a stripped runtime's table is known; other old ones show by their numbers to be another.
        stripped = self._runtime.stripped
        return stripped is not None and "next_table" not in stripped.table.layout(_TABLE).fields

    def _searched(self) -> list[_Table]:
        # Of all that the variables of a stripped runtime lead to, the one that is such a table, with a lock in it.
        stripped = self._runtime.stripped
        found: dict[int, list[_Table]] = {}
        for address in stripped.variables.pointers() if stripped is not None else ():
            chain = self._chain(address)
            if chain and self._has_locks(chain):
                found[address] = chain
        return next(iter(found.values())) if len(found) == 1 else []

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
        found: dict[int, int] = {}
        for table in tables:
            if table.used + len(found) > _MAX_LOCKS:
                raise Unavailable(f"there are more than {_MAX_LOCKS} locks")
            for first in range(0, table.used, _ROW):
                row = read_pointer(self._process, table.rows_at + first // _ROW * size)
                if row is None:
                    continue
                raw = self._process.read(row, min(_ROW, table.used - first) * 2 * size)
                for at in range(0, len(raw), 2 * size):
                    lock = int.from_bytes(raw[at : at + size], order)
                    found[lock] = int.from_bytes(raw[at + size : at + size + _TAG_SIZE], order)
        return found
