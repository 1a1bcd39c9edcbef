"""Symbol tables of ELF files (gABI, "Symbol Table"): symbols by name, by prefix and by address.

A module has thousands of symbols. A command looks up a handful of them, and must be quick, so only these are decoded:
the name is searched as bytes in the string table, then its offset is searched among the ``st_name`` of all symbols,
which are read in bulk.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Protocol, cast

from ompd.binary.cursor import order_mark
from ompd.binary.elf.dynamic import dynamic_symbols
from ompd.binary.elf.elf import (
    SHN_UNDEF,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_SYMTAB,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    ElfFile,
    Section,
)
from ompd.errors import MalformedFile, OmpdError
from ompd.safety import limits

STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE, STT_COMMON, STT_TLS = range(7)
STT_GNU_IFUNC = 10

# Among symbols with one name, the symbol to which other modules would bind comes first.
_BIND_RANK = {STB_GLOBAL: 0, STB_GNU_UNIQUE: 0, STB_WEAK: 1, STB_LOCAL: 2}
# Among symbols that cover an address, code comes first.
_TYPE_RANK = {STT_FUNC: 0, STT_GNU_IFUNC: 0, STT_OBJECT: 1, STT_COMMON: 1}
_VARIABLES = frozenset((STT_OBJECT, STT_COMMON, STT_TLS))
_ADDRESSED = frozenset((STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_GNU_IFUNC))

# Elf32_Sym and Elf64_Sym. st_name comes first in both; the other members are in a different order.
_SYM = {32: "IIIBBH", 64: "IBBHQQ"}

_SHN_LORESERVE = 0xFF00  # from here on not a section: SHN_ABS means no address, SHN_COMMON no address yet

# Functions contain few labels, and glibc has some dozen names for one function. These bounds limit the time that a
# table of overlapping symbols costs.
_MAX_NESTED = 256
_MAX_ALIASES = 256
# Names that a string table lacks are remembered if the table has at least this size.
_MIN_STRINGS, _MAX_ABSENCES = 1 << 18, 128
_MIN_KEPT, _PROBES = 1 << 12, 64  # sorting a smaller table is as fast as reading it from the cache
_MAX_VARIABLES = 1 << 18
# A string table may have more strings than symbols: it also holds names of sections and files, and leftovers of dropped
# symbols.
_STRINGS_PER_SYMBOL, _FREE_STRINGS = 4, 1 << 12
_MAX_SYMBOLS = 1 << 23  # several times the largest programs
# C++ templates have names of some thousand bytes. Names may share their tails, so the names in a table of n bytes may
# have n * n bytes in all.
_MAX_NAME = 1 << 17


class Symbol(NamedTuple):
    """One defined symbol."""

    name: str
    address: int  # st_value: a link-time address, or an offset in the module's TLS block if type is STT_TLS
    size: int  # bytes; 0 if unknown
    type: int  # STT_*
    bind: int  # STB_*
    section: int  # st_shndx


class Kept(Protocol):
    """A cache of results derived from one file (:class:`ompd.debugger.files.cache.FileCache`)."""

    def get(self, what: str) -> bytes | None:
        """Return the entry *what*, None if there is none."""

    def put(self, what: str, payload: bytes) -> None:
        """Store *payload* as the entry *what*."""


class SymbolSection:
    """One SHT_SYMTAB or SHT_DYNSYM section with its strings.

    :param strings: the string table, for a file without section headers
    """

    def __init__(
        self, elf: ElfFile, section: Section, kept: Kept | None = None, *, strings: Section | None = None
    ) -> None:
        self._kept = kept
        self._elf = elf
        self._section = section
        self._struct = struct.Struct(order_mark(elf.byte_order) + _SYM[elf.ident_class])
        if section.sh_entsize != self._struct.size:
            raise MalformedFile(f"{elf.name}: {section.name} has entries of {section.sh_entsize} bytes")
        if strings is None and section.sh_link >= len(elf.sections):
            raise MalformedFile(f"{elf.name}: {section.name} names no string table")
        self._string_table = strings if strings is not None else elf.sections[section.sh_link]
        size = self._string_table.sh_size
        self._keeps_absences = kept is not None and size >= _MIN_STRINGS
        self._names_left = limits.Budget(limits.names(size), f"{elf.name}: names in {section.name} overlap")

    @cached_property
    def _strings(self) -> bytes:
        return self._elf.section_data(self._string_table)

    def mentions(self, name: str) -> bool:
        """Return whether *name* occurs in the string table, possibly inside a longer name."""
        return name.encode() in self._strings

    @cached_property
    def _entries(self) -> bytes:
        raw = self._elf.section_data(self._section)
        if len(raw) % self._struct.size or len(raw) // self._struct.size > _MAX_SYMBOLS:
            raise MalformedFile(f"{self._elf.name}: {self._section.name} of {len(raw)} bytes is not a symbol table")
        return raw

    @cached_property
    def _name_offsets(self) -> list[int]:
        # Returns st_name of every symbol. It is the first word of each symbol, so a strided view is enough, and faster
        # than iter_unpack.
        entries, size = self._entries, self._struct.size
        if self._elf.byte_order == sys.byteorder:
            return memoryview(entries).cast("I")[:: size // 4].tolist()
        mark = order_mark(self._elf.byte_order)
        return [offset for (offset,) in struct.iter_unpack(f"{mark}I{size - 4}x", entries)]

    @cached_property
    def _first_and_last(self) -> tuple[dict[int, int], dict[int, int]]:
        # The first and the last symbol with each st_name. They differ if symbols share a string, as static functions
        # do.
        offsets = self._name_offsets
        count = len(offsets)
        backwards = zip(reversed(offsets), range(count - 1, -1, -1), strict=True)
        return dict(backwards), dict(zip(offsets, range(count), strict=True))

    def _symbol(self, index: int, name: str) -> Symbol:
        fields = self._struct.unpack_from(self._entries, index * self._struct.size)
        if self._elf.ident_class == 64:
            _, info, _, section, address, size = fields
        else:
            _, address, size, info, _, section = fields
        return Symbol(name, address, size, info & 15, info >> 4, section)

    def _name_at(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset, offset + _MAX_NAME)
        if end < 0:
            raise MalformedFile(
                f"{self._elf.name}: {self._section.name} has a name outside of its strings, or without end",
                offset=offset,
            )
        if end - offset > limits.LONG_NAME:
            self._names_left.spend(end - offset)
        return self._strings[offset:end].decode("utf-8", "replace")

    @cached_property
    def _sharing(self) -> dict[int, list[int]]:
        # Indexes of symbols by st_name, for each st_name that several symbols share.
        firsts, lasts = self._first_and_last
        sharing: dict[int, list[int]] = {}
        for index, offset in enumerate(self._name_offsets):
            if firsts[offset] != lasts[offset]:
                sharing.setdefault(offset, []).append(index)
        return sharing

    def _indexes(self, offset: int) -> list[int]:
        # Indexes of the symbols with this st_name.
        firsts, lasts = self._first_and_last
        index = firsts.get(offset, -1)
        if index < 0:
            return []
        return [index] if index == lasts[offset] else self._sharing[offset]

    def find(self, name: str) -> list[Symbol]:
        # Linkers store a name as the tail of a longer one, so a match may begin inside a string.
        strings, key = self._strings, _key(name)
        symbols = []
        position = strings.find(key)
        while position >= 0:
            symbols += [self._symbol(index, name) for index in self._indexes(position)]
            position = strings.find(key, position + 1)
        return symbols

    def preferred(self, name: str) -> Symbol | None:
        # The best symbol called *name*. Absent names are cached, because every module is searched for the runtimes'
        # symbols, and few modules have them.
        if not self._keeps_absences:
            return preferred_of(self.find(name))
        if name in self._absences:
            return None
        best = preferred_of(self.find(name))
        is_plain = name.isascii() and name.isprintable()
        if best is None and is_plain and len(self._absences) < _MAX_ABSENCES and self._kept is not None:
            self._absences.add(name)
            self._kept.put(self._what_is_absent, "\n".join(sorted(self._absences)).encode())
        return best

    @property
    def _what_is_absent(self) -> str:
        return f"absent-{self._section.sh_offset:x}"

    @cached_property
    def _absences(self) -> set[str]:
        # Cached names without a symbol in this table.
        raw = self._kept.get(self._what_is_absent) if self._kept is not None else None
        return set(raw.decode("ascii", "replace").split("\n")) if raw else set()

    def find_many(self, names: set[str]) -> list[Symbol]:
        starts, strings = self._string_starts, self._strings
        spellings = {_key(name)[:-1]: name for name in names}
        longest = max(map(len, spellings), default=0) + 1
        symbols = []
        for index, offset in enumerate(self._name_offsets):
            raw = starts.get(offset)
            if raw is None:  # the name is the tail of a longer string
                end = strings.find(b"\0", offset, offset + longest)
                raw = strings[offset:end] if end >= 0 else None
            if raw is not None and raw in spellings:
                symbols.append(self._symbol(index, spellings[raw]))
        return symbols

    @cached_property
    def _string_starts(self) -> dict[int, bytes]:
        strings = self._strings
        if strings.count(b"\0") > _STRINGS_PER_SYMBOL * len(self._name_offsets) + _FREE_STRINGS:
            return {}  # no linker writes that many unused strings, so the table is suspicious
        pieces = strings.split(b"\0")
        offsets = accumulate((len(piece) + 1 for piece in pieces), initial=0)
        return dict(zip(offsets, pieces, strict=False))  # the last offset is the table's end

    def find_prefix(self, prefix: str) -> list[Symbol]:
        strings, key = self._strings, prefix.encode("utf-8", "replace")
        symbols = []
        budget = limits.Budget(
            limits.names(len(strings)), f"{self._elf.name}: too many names in {self._section.name} begin with {prefix}"
        )
        position = strings.find(key)
        while position >= 0:
            indexes = self._indexes(position)
            if indexes:
                name = self._name_at(position)
                budget.spend(len(name))
                symbols += [self._symbol(index, name) for index in indexes]
            position = strings.find(key, position + 1)
        return symbols

    def variables(self) -> Iterator[Symbol]:
        # Global variables, except thread-local ones.
        infos, sections, _ = self._columns()
        fault = f"{self._elf.name}: names of variables in {self._section.name} overlap"
        budget = limits.Budget(limits.names(len(self._strings)), fault)
        for index, (info, section) in enumerate(zip(infos, sections, strict=True)):
            if info & 15 in (STT_OBJECT, STT_COMMON) and section != SHN_UNDEF and info >> 4 != STB_LOCAL:
                name = self._name_at(self._name_offsets[index])
                budget.spend(len(name))
                yield self._symbol(index, name)

    def data_names(self) -> list[str]:
        infos, sections, _ = self._columns()
        rows = zip(self._name_offsets, infos, sections, strict=True)
        offsets = [position for position, info, section in rows if info & 15 in _VARIABLES and section != SHN_UNDEF]
        starts = self._string_starts
        strings = (starts.get(position) for position in dict.fromkeys(offsets[:_MAX_VARIABLES]))
        return [raw.decode("utf-8", "replace") for raw in strings if raw is not None and len(raw) < _MAX_NAME]

    def thread_local_at(self, offset: int) -> Symbol | None:
        rows = enumerate(zip(*self._columns(), strict=True))
        matches = (
            number
            for number, (info, section, value) in rows
            if info & 15 == STT_TLS and value == offset and section != SHN_UNDEF
        )
        index = next(matches, None)
        return self._symbol(index, self._name_at(self._name_offsets[index])) if index is not None else None

    @cached_property
    def _by_address(self) -> tuple[Sequence[int], Sequence[int]]:
        # Sorted start addresses, and the indexes of the symbols at these addresses.
        count = len(self._entries) // self._struct.size
        if self._kept is None or count < _MIN_KEPT or self._elf.ident_class != 64:
            return self._sorted()
        entry = f"symbols{self._section.name}"
        rows = self._read_sorted(self._kept.get(entry), count)
        if rows is None:
            starts, indexes = self._sorted()
            rows = array("Q", starts), array("I", indexes)
            self._kept.put(entry, b"".join((sys.byteorder.encode(), rows[0].tobytes(), rows[1].tobytes())))
        return rows

    def _read_sorted(self, raw: bytes | None, count: int) -> tuple[array[int], array[int]] | None:
        mark = sys.byteorder.encode()
        starts, indexes = array("Q"), array("I")
        size = starts.itemsize + indexes.itemsize
        if raw is None or not raw.startswith(mark) or (len(raw) - len(mark)) % size:
            return None
        half = len(mark) + (len(raw) - len(mark)) // size * starts.itemsize
        starts.frombytes(raw[len(mark) : half])
        indexes.frombytes(raw[half:])
        # Check samples: cached rows must match this table's symbols.
        if not 0 < len(starts) <= count or max(indexes) >= count:
            return None
        for row in range(0, len(starts), max(len(starts) // _PROBES, 1)):
            symbol = self._symbol(indexes[row], "")
            if symbol.address != starts[row] or not _has_address(symbol.type, symbol.section):
                return None
        return starts, indexes

    def _sorted(self) -> tuple[list[int], list[int]]:
        infos, sections, values = self._columns()
        symbols = zip(range(len(values)), infos, sections, strict=True)
        # _has_address, inlined for speed.
        indexes = [
            number for number, info, section in symbols if info & 15 in _ADDRESSED and 0 < section < _SHN_LORESERVE
        ]
        indexes.sort(key=values.__getitem__)
        return [values[index] for index in indexes], indexes

    def _columns(self) -> tuple[list[int], list[int], list[int]]:
        # st_info, st_shndx and st_value of every symbol, read like st_name in _name_offsets.
        entries = memoryview(self._entries)
        if self._elf.byte_order == sys.byteorder and self._elf.ident_class == 64:
            return entries[4::24].tolist(), entries.cast("H")[3::12].tolist(), entries.cast("Q")[1::3].tolist()
        if self._elf.byte_order == sys.byteorder:
            return entries[12::16].tolist(), entries.cast("H")[7::8].tolist(), entries.cast("I")[1::4].tolist()
        rows = list(self._struct.iter_unpack(entries))
        info, section, value = (1, 3, 4) if self._elf.ident_class == 64 else (3, 5, 1)
        return [row[info] for row in rows], [row[section] for row in rows], [row[value] for row in rows]

    @cached_property
    def _sizes(self) -> Sequence[int]:
        # st_size of every symbol: the third word of both layouts.
        if self._elf.byte_order == sys.byteorder:
            words = memoryview(self._entries).cast("Q" if self._elf.ident_class == 64 else "I")
            return cast("Sequence[int]", words[2::3] if self._elf.ident_class == 64 else words[2::4])
        field = 5 if self._elf.ident_class == 64 else 2
        return [row[field] for row in self._struct.iter_unpack(self._entries)]

    def covering(self, address: int) -> Symbol | None:
        # The nearest symbol before the address whose st_size covers the address. Smaller symbols that end before the
        # address may be nested in the covering symbol, so several candidates are tried.
        starts, indexes = self._by_address
        sizes = self._sizes
        position = bisect_right(starts, address)
        for last in range(position - 1, max(position - 1 - _MAX_NESTED, -1), -1):
            start = starts[last]
            if address < start + sizes[indexes[last]]:
                first = bisect_left(starts, start, 0, last)
                aliases = self._named(indexes[first : last + 1])
                return min((s for s in aliases if address < start + s.size), key=_preference, default=None)
        return None

    def preceding(self, address: int) -> Symbol | None:
        # Returns the nearest symbol at or before the address, but only if it has no size, and *address* is not behind
        # the end of the symbol's section.
        starts, indexes = self._by_address
        last = bisect_right(starts, address)
        if last == 0:
            return None
        first = bisect_left(starts, starts[last - 1], 0, last)
        symbol = min(self._named(indexes[first:last]), key=_preference, default=None)
        if symbol is None or symbol.size or symbol.section >= len(self._elf.sections):
            return None
        section = self._elf.sections[symbol.section]
        return symbol if address < section.sh_addr + section.sh_size else None

    def _named(self, indexes: Sequence[int]) -> list[Symbol]:
        # NOTYPE symbols "$x", "$d.3" … are mapping symbols (psABI of AArch64, Arm and RISC-V). They mark code and data
        # and are not names.
        symbols = [self._symbol(index, self._name_at(self._name_offsets[index])) for index in indexes[:_MAX_ALIASES]]
        return [s for s in symbols if s.name and not (s.type == STT_NOTYPE and s.name.startswith("$"))]


def _has_address(kind: int, section: int) -> bool:
    return kind in _ADDRESSED and 0 < section < _SHN_LORESERVE


def _key(name: str) -> bytes:
    return name.encode("utf-8", "replace") + b"\0"


def is_symbol(symbol: Symbol) -> bool:
    """Return whether *symbol* is defined and names code or data."""
    return symbol.section != SHN_UNDEF and symbol.type not in (STT_SECTION, STT_FILE)


def _preference(symbol: Symbol) -> tuple[int, int, bool, str]:
    # Names with underscores come last: glibc's clone3 is also called __clone3.
    return _TYPE_RANK.get(symbol.type, 2), _BIND_RANK.get(symbol.bind, 2), symbol.name.startswith("_"), symbol.name


def preferred_of(symbols: list[Symbol]) -> Symbol | None:
    """Return the preferred one of several symbols with one name, None if none is defined."""
    return min(filter(is_symbol, symbols), key=lambda symbol: _BIND_RANK.get(symbol.bind, 2), default=None)


_MOST_FOUND = 64  # number of cached lists of names; ompd's code has few
_MOST_NAMES = 1 << 12  # number of cached single names, because a hosted library may look up any number of names


class SymbolTable:
    """The defined symbols of one module: ``.dynsym``, ``.symtab`` and ``.symtab`` of its separate debug file, as one.

    Addresses are link-time addresses, which are the same in the module and in its debug file. Tables are read on first
    use, in this order; the first match ends a search. In a file without section headers, the dynamic section locates
    ``.dynsym``.

    :param debug_elf: the debug file, or a function that returns the debug file or None. The function is called once,
        when the module's own tables have no match
    :param kept: returns the cache of a file
    """

    def __init__(
        self,
        elf: ElfFile,
        debug_elf: ElfFile | Callable[[], ElfFile | None] | None = None,
        kept: Callable[[ElfFile], Kept | None] | None = None,
    ) -> None:
        self._elf = elf
        self._kept = kept
        self._debug_elf = debug_elf
        self._at: dict[int, Symbol | None] = {}
        self._found: dict[str, Symbol | None] = {}
        self._found_many: dict[frozenset[str], dict[str, Symbol]] = {}
        self._named: dict[str, bool] = {}

    @cached_property
    def _own_tables(self) -> list[SymbolSection]:
        return self._read_tables(self._elf, SHT_DYNSYM, SHT_SYMTAB)

    @cached_property
    def _debug_tables(self) -> list[SymbolSection]:
        elf = self._debug_elf() if callable(self._debug_elf) else self._debug_elf
        return self._read_tables(elf, SHT_SYMTAB) if elf is not None else []

    def _read_tables(self, elf: ElfFile, *kinds: int) -> list[SymbolSection]:
        sections = [
            section for kind in kinds for section in elf.sections if section.sh_type == kind and section.sh_size
        ]
        if len(sections) > limits.MAX_SYMBOL_TABLES:
            raise MalformedFile(f"{elf.name}: {len(sections)} tables of symbols")
        if not elf.sections and SHT_DYNSYM in kinds:
            # Loaders do not need section headers, and some tools strip them.
            table = dynamic_symbols(elf)
            return [self._table(elf, *table)] if table is not None else []
        return [self._table(elf, section) for section in sections]

    def _table(self, elf: ElfFile, section: Section, strings: Section | None = None) -> SymbolSection:
        return SymbolSection(elf, section, self._kept(elf) if self._kept is not None else None, strings=strings)

    def _tables(self) -> Iterator[SymbolSection]:
        yield from self._own_tables
        yield from self._debug_tables

    def find(self, name: str) -> Symbol | None:
        """Return the symbol called exactly *name*, or None. Global symbols take precedence over weak ones, weak over
        local.

        Undefined symbols, sections and file names do not count.

        :raises MalformedFile: if a table or its strings are malformed
        """
        if name in self._found:
            return self._found[name]
        symbol = next(filter(None, (t.preferred(name) for t in self._tables())), None)
        if len(self._found) < _MOST_NAMES:
            self._found[name] = symbol
        return symbol

    def find_many(self, names: Iterable[str]) -> dict[str, Symbol]:
        """Return the symbols called *names*, by name. Each is the symbol that :meth:`find` returns, but a table is read
        in one pass.

        :raises MalformedFile: if a table or its strings are malformed
        """
        key = frozenset(names)
        if key in self._found_many:
            return dict(self._found_many[key])
        missing = set(key)
        answer: dict[str, Symbol] = {}
        for table in self._tables():
            if not missing:
                break
            candidates: dict[str, list[Symbol]] = {}
            for symbol in table.find_many(missing):
                candidates.setdefault(symbol.name, []).append(symbol)
            for name, symbols in candidates.items():
                best = preferred_of(symbols)
                if best is not None:
                    answer[name] = best
                    missing.discard(name)
        if len(self._found_many) < _MOST_FOUND:
            self._found_many[key] = answer
        return dict(answer)

    def mentions(self, names: Iterable[str]) -> set[str]:
        """Return a superset of those *names* that the module's own tables hold, including undefined symbols.

        A name may be wrongly included if it is part of a longer one.

        :raises MalformedFile: if a table is malformed
        """
        return {name for name in names if any(table.mentions(name) for table in self._own_tables)}

    def names(self, wanted: Iterable[str]) -> set[str]:
        """Return those *wanted* names that are symbols of the module, defined or undefined.

        The dynamic symbols are searched, or ``.symtab`` if there are none. For a module that has neither, all *wanted*
        names are returned.

        :raises MalformedFile: if a table is malformed
        """
        for name in wanted:
            if name not in self._named and len(self._named) < _MOST_NAMES:
                self._named[name] = not self._own_tables or bool(self._own_tables[0].find(name))
        return {name for name in wanted if self._named.get(name, True)}

    def passed_on(self, wanted: Iterable[str]) -> set[str]:
        """Return those *wanted* functions of other modules whose address this module uses as a value.

        The undefined symbols of such functions have an address: that of the linkage table entry (psABI, "Function
        Addresses").

        :raises MalformedFile: if a table is malformed
        """
        tables = self._own_tables[:1]
        return {
            name
            for name in wanted
            for table in tables
            for symbol in table.find(name)
            if symbol.section == SHN_UNDEF and symbol.address
        }

    def data_names(self) -> list[str]:
        """Return the names of variables from the last table that has any, at most some hundred thousand.

        :raises MalformedFile: if a table or its strings are malformed
        """
        for table in reversed(list(self._tables())):
            names = table.data_names()
            if names:
                return names
        return []

    def variables(self) -> Iterator[Symbol]:
        """Yield the global variables, except thread-local ones.

        :raises MalformedFile: if a table or its strings are malformed
        """
        for table in self._tables():
            yield from table.variables()

    @cached_property
    def exported_variables(self) -> Mapping[str, Symbol]:
        """The variables in ``.dynsym``, by name. The loader binds references in other modules to these.

        :raises MalformedFile: if the table or its strings are malformed
        """
        tables = self._read_tables(self._elf, SHT_DYNSYM)
        return {symbol.name: symbol for table in tables for symbol in table.variables()}

    def thread_local_at(self, offset: int) -> Symbol | None:
        """Return the thread-local variable *offset* bytes from the start of the module's TLS block, or None.

        :raises MalformedFile: if a table or its strings are malformed
        """
        return next(filter(None, (table.thread_local_at(offset) for table in self._tables())), None)

    def find_prefix(self, prefix: str) -> list[Symbol]:
        """Return every symbol whose name begins with *prefix*, by name, then address, without duplicates.

        All tables are read.

        :raises MalformedFile: if a table or its strings are malformed
        """
        symbols: dict[tuple[str, int], Symbol] = {}
        for table in self._tables():
            for symbol in filter(is_symbol, table.find_prefix(prefix)):
                symbols.setdefault((symbol.name, symbol.address), symbol)
        return [symbols[key] for key in sorted(symbols)]

    def at(self, address: int) -> Symbol | None:
        """Return the function or object that covers the link-time *address*, or None.

        A symbol covers ``st_size`` bytes. A symbol of size 0 extends to the next symbol or to the end of its section.
        Of several symbols at one address, functions come before objects, then global symbols before weak and local
        ones. A version in the name (``name@@VERSION``) is cut off. TLS symbols have no address.

        :raises MalformedFile: if a table or its strings are malformed
        """
        if address not in self._at:
            symbol = next(filter(None, (table.covering(address) for table in self._tables())), None)
            if symbol is None:
                symbol = next(filter(None, (table.preceding(address) for table in self._tables())), None)
            self._at[address] = symbol and symbol._replace(name=symbol.name.partition("@")[0] or symbol.name)
        return self._at[address]


_MAX_MEMORY = 128 << 20


def open_minidebuginfo(elf: ElfFile) -> ElfFile | None:
    """Return the MiniDebugInfo of *elf*, None if there is none or if it is damaged.

    MiniDebugInfo is an ELF file in the section ``.gnu_debugdata``, compressed with xz, with function symbols that
    ``.dynsym`` lacks (GDB's manual, "Debugging information in a special section").
    """
    import lzma  # few modules have the section

    try:
        section = elf.section(".gnu_debugdata")
        if section is None or section.sh_type == SHT_NOBITS:
            return None
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
        packed = elf.section_data(section)
        raw = decoder.decompress(packed, limits.inflated(len(packed)))
        return ElfFile(raw, f"{elf.name}: .gnu_debugdata") if decoder.eof else None
    except (OmpdError, lzma.LZMAError):
        return None
