"""Dynamic linking: symbols by name and version, and the symbols to which linkage table entries are bound.

gABI, "Dynamic Linking" and "Hash Table"; versions follow Drepper's "ELF Symbol Versioning" and the LSB, "Symbol
Versioning"; ``DT_GNU_HASH`` follows binutils and glibc. Section headers are not needed. Only :func:`dynamic_symbols`
also reads 32-bit files.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from ompd.binary.cursor import order_mark
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.elf import ElfFile, Section
from ompd.errors import MalformedFile

DT_PLTRELSZ, DT_HASH, DT_SYMBOLIC, DT_PLTREL, DT_JMPREL, DT_FLAGS = 2, 4, 16, 20, 23, 30
DT_RELA, DT_RELASZ, DT_SYMENT = 7, 8, 11
DT_GNU_HASH, DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DF_SYMBOLIC = 2
VER_FLG_BASE = 1
VERSYM_HIDDEN, VERSYM_VERSION = 0x8000, 0x7FFF
_FIRST_VERSION = 2  # the number of a file's first version, after VER_NDX_LOCAL and VER_NDX_GLOBAL

# glibc defines some 40 versions, and one bucket holds a handful of symbols.
_MAX_VERSIONS = 1 << 12
_MAX_CHAIN = 1 << 14
_MAX_BUCKETS = 1 << 20  # linkers make fewer buckets than symbols
_MAX_NAME = 1 << 12


class Version(NamedTuple):
    """A symbol version. ``hidden`` marks a reference that must not bind to any other version."""

    name: str
    hidden: bool


class Wanted(NamedTuple):
    """The symbol that a linkage table entry refers to. ``version`` is None for an unversioned symbol.

    ``own`` is the symbol's link-time address in this file if no other module can preempt it, else None.
    """

    name: str
    version: Version | None
    own: int | None
    own_type: int


class Definition(NamedTuple):
    """A dynamic symbol that a file defines. ``address`` is its link-time address, ``type`` one of ``STT_*``."""

    address: int
    type: int


class DynamicLinking:
    """The dynamic section of one file, and the tables to which it points.

    :raises MalformedFile: here and in every method, if the section or a table is not in the file
    """

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._order = order_mark(elf.byte_order)
        if elf.ident_class != 64:
            raise MalformedFile(f"{elf.name}: not a 64-bit file")
        self._symbol = struct.Struct(self._order + "IBBHQQ")
        self._tags = dict(reversed(elf.dynamic()))

    @property
    def linkage_table(self) -> int | None:
        """The link-time address of the global offset table for calls (DT_PLTGOT), None without one."""
        return self._tags.get(gabi.DT_PLTGOT)

    @cached_property
    def soname(self) -> str | None:
        """The file's own name as a library (DT_SONAME)."""
        return self._elf.soname()

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The needed libraries (DT_NEEDED), in file order."""
        return self._elf.needed()

    @property
    def is_symbolic(self) -> bool:
        """Whether the file's references bind to its own symbols first (DT_SYMBOLIC)."""
        return DT_SYMBOLIC in self._tags or bool(self._tags.get(DT_FLAGS, 0) & DF_SYMBOLIC)

    def wanted(self, index: int, jump_slot: int) -> Wanted:
        """Return the symbol that entry *index* of the linkage table refers to.

        :param jump_slot: the relocation type of such entries
        """
        size = self._tags.get(DT_PLTRELSZ, 0)
        layout = struct.Struct(self._order + "QQq")
        if self._tags.get(DT_PLTREL) != DT_RELA or not 0 <= index < size // layout.size:
            raise MalformedFile(f"{self._elf.name}: its linkage table has no entry {index}")
        _, info, _ = layout.unpack(self._bytes(self._tags.get(DT_JMPREL, 0) + index * layout.size, layout.size))
        if info & 0xFFFFFFFF != jump_slot:
            raise MalformedFile(f"{self._elf.name}: entry {index} of its linkage table is of kind {info & 0xFFFFFFFF}")
        number = info >> 32
        name, st_info, other, section, value, _ = self._symbol_at(number)
        own_address = None
        if (other & 3 or st_info >> 4 == gabi.STB_LOCAL) and section != gabi.SHN_UNDEF:  # STV_DEFAULT is 0
            own_address = value
        version = self._versions.get(self._versym(number) & VERSYM_VERSION) if self._has_versions else None
        return Wanted(self._string(name), version, own_address, st_info & 15)

    def words(self, names: Collection[str]) -> Iterator[tuple[int, int, str]]:
        """Yield the words that a loader fills with the address of a symbol called one of *names*: the word's link-time
        address, the number of its relocation, and the name.
        """
        layout = struct.Struct(self._order + "QQ8x")
        is_named: dict[int, bool] = {}
        for table, table_size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
            address, size = self._tags.get(table, 0), self._tags.get(table_size, 0)
            for word, info in layout.iter_unpack(self._bytes(address, size - size % layout.size)) if size else ():
                number = info >> 32
                if number not in is_named:
                    is_named[number] = bool(number) and self._string(self._symbol_at(number)[0]) in names
                if is_named[number]:
                    yield word, info & 0xFFFFFFFF, self._string(self._symbol_at(number)[0])

    def find(self, wanted: Wanted) -> Definition | None:
        """Return the definition in this file to which a loader binds *wanted*, None if none matches."""
        unversioned: list[Definition] = []
        for number in self._named(wanted.name):
            _, info, _, section, value, _ = self._symbol_at(number)
            if section == gabi.SHN_UNDEF or info >> 4 == gabi.STB_LOCAL or not value:
                continue
            definition = Definition(value, info & 15)
            if not self._has_versions:
                return definition
            mark = self._versym(number)
            version = self._versions.get(mark & VERSYM_VERSION)
            if wanted.version is None:
                # An unversioned reference binds to the first version.
                if mark & VERSYM_VERSION <= _FIRST_VERSION:
                    return definition
                if not mark & VERSYM_HIDDEN:
                    unversioned.append(definition)
            elif _is_version(version, wanted.version, is_hidden=bool(mark & VERSYM_HIDDEN)):
                return definition
        return unversioned[0] if len(unversioned) == 1 else None

    # Tables

    def _bytes(self, address: int, size: int) -> bytes:
        offset = self._elf.file_offset(address, size)
        if offset is None or offset + size > len(self._elf.data):
            raise MalformedFile(f"{self._elf.name}: its dynamic section leads out of it, to {address:#x}")
        return self._elf.copy(offset, size, "what its dynamic section leads to")

    def _word(self, address: int, size: int = 4) -> int:
        return int.from_bytes(self._bytes(address, size), self._elf.byte_order)

    @cached_property
    def _strings(self) -> bytes:
        return self._bytes(self._tags.get(gabi.DT_STRTAB, 0), self._tags.get(gabi.DT_STRSZ, 0))

    def _string(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset, offset + _MAX_NAME)
        if offset < 0 or end < 0:
            raise MalformedFile(f"{self._elf.name}: no name at offset {offset:#x} of its dynamic strings")
        return self._strings[offset:end].decode("utf-8", "replace")

    def _symbol_at(self, number: int) -> tuple[int, int, int, int, int, int]:
        raw = self._bytes(self._tags.get(gabi.DT_SYMTAB, 0) + number * self._symbol.size, self._symbol.size)
        name, info, other, section, value, size = self._symbol.unpack(raw)
        return name, info, other, section, value, size

    def _named(self, name: str) -> Iterator[int]:
        # The numbers of the symbols called *name*.
        key = name.encode("utf-8", "replace") + b"\0"
        for number in self._hashed(key[:-1]):
            offset = self._symbol_at(number)[0]
            if self._strings[offset : offset + len(key)] == key:
                yield number

    def _hashed(self, name: bytes) -> Iterator[int]:
        table = self._tags.get(DT_GNU_HASH)
        if table is not None:
            yield from self._gnu_hashed(table, name)
        elif DT_HASH in self._tags:
            yield from self._sysv_hashed(self._tags[DT_HASH], name)

    def _gnu_hashed(self, table: int, name: bytes) -> Iterator[int]:
        # nbuckets, first hashed symbol, number of the filter's words, the filter's shift; then filter, buckets, chains
        buckets, first, filter_words, _ = struct.unpack(self._order + "IIII", self._bytes(table, 16))
        hash_value = 5381
        for byte in name:
            hash_value = (hash_value * 33 + byte) & 0xFFFFFFFF
        if not buckets:
            return
        heads = table + 16 + 8 * filter_words
        number = self._word(heads + 4 * (hash_value % buckets))
        if number < first:
            return
        for candidate in range(number, number + _MAX_CHAIN):
            code = self._word(heads + 4 * buckets + 4 * (candidate - first))
            if code | 1 == hash_value | 1:
                yield candidate
            if code & 1:
                return
        raise MalformedFile(f"{self._elf.name}: its hash table of symbols does not end")

    def _sysv_hashed(self, table: int, name: bytes) -> Iterator[int]:
        buckets, chains = struct.unpack(self._order + "II", self._bytes(table, 8))
        code = 0
        for byte in name:
            code = (code << 4) + byte
            code = (code ^ (code >> 24 & 0xF0)) & 0x0FFFFFFF
        if not buckets:
            return
        number = self._word(table + 8 + 4 * (code % buckets))
        for _ in range(min(chains, _MAX_CHAIN)):
            if not number:
                return
            yield number
            number = self._word(table + 8 + 4 * buckets + 4 * number)
        raise MalformedFile(f"{self._elf.name}: its hash table of symbols does not end")

    # Versions

    @property
    def _has_versions(self) -> bool:
        return DT_VERSYM in self._tags

    def _versym(self, number: int) -> int:
        return self._word(self._tags[DT_VERSYM] + 2 * number, 2)

    @cached_property
    def _versions(self) -> dict[int, Version]:
        # The versions that the file defines and those that it needs, by number.
        versions: dict[int, Version] = {}
        remaining = _MAX_VERSIONS
        entry = self._tags.get(DT_VERDEF, 0)
        for _ in range(min(self._tags.get(DT_VERDEFNUM, 0), _MAX_VERSIONS)):
            # Elf64_Verdef: vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next; vda_name
            _, flags, index, count, _, aux, following = struct.unpack(self._order + "HHHHIII", self._bytes(entry, 20))
            if not flags & VER_FLG_BASE and count:
                versions[index & VERSYM_VERSION] = Version(self._string(self._word(entry + aux)), False)
            if not following:
                break
            entry += following
        entry = self._tags.get(DT_VERNEED, 0)
        for _ in range(min(self._tags.get(DT_VERNEEDNUM, 0), _MAX_VERSIONS)):
            # Elf64_Verneed: vn_version, vn_cnt, vn_file, vn_aux, vn_next
            _, count, _, aux, following = struct.unpack(self._order + "HHIII", self._bytes(entry, 16))
            auxiliary = entry + aux
            for _ in range(min(count, remaining)):
                # Elf64_Vernaux: vna_hash, vna_flags, vna_other, vna_name, vna_next
                _, _, index, name, step = struct.unpack(self._order + "IHHII", self._bytes(auxiliary, 16))
                versions[index & VERSYM_VERSION] = Version(self._string(name), bool(index & VERSYM_HIDDEN))
                remaining -= 1
                if not step:
                    break
                auxiliary += step
            if not following:
                break
            entry += following
        return versions


def _is_version(version: Version | None, wanted: Version, *, is_hidden: bool) -> bool:
    # Whether a definition of *version* matches a reference to version *wanted*.
    if version is None:
        return not wanted.hidden and not is_hidden
    return version.name == wanted.name


def dynamic_symbols(elf: ElfFile) -> tuple[Section, Section] | None:
    """Return the dynamic symbol table and its string table as sections, for a file without section headers.

    The dynamic section locates both tables, and a hash table has the number of symbols. None if one of these is
    missing.

    :raises MalformedFile: if the dynamic section or a table is not in the file
    """
    tags = dict(reversed(elf.dynamic()))
    if gabi.DT_SYMTAB not in tags or not tags.keys() & {DT_GNU_HASH, DT_HASH}:
        return None
    count = _count_by_gnu_hash(elf, tags[DT_GNU_HASH]) if DT_GNU_HASH in tags else _words(elf, tags[DT_HASH], 2)[1]
    size = tags.get(DT_SYMENT, 0)
    table = _as_section(elf, ".dynsym", gabi.SHT_DYNSYM, tags[gabi.DT_SYMTAB], count * size, size)
    return table, _as_section(elf, ".dynstr", gabi.SHT_STRTAB, tags.get(gabi.DT_STRTAB, 0), tags.get(gabi.DT_STRSZ, 0))


def _as_section(elf: ElfFile, name: str, kind: int, address: int, size: int, entry_size: int = 0) -> Section:
    offset = elf.file_offset(address, size)
    if offset is None:
        raise MalformedFile(f"{elf.name}: its dynamic section leads out of it, to {address:#x}")
    return Section(name, kind, gabi.SHF_ALLOC, address, offset, size, 0, 0, entry_size)


def _words(elf: ElfFile, address: int, count: int) -> tuple[int, ...]:
    # *count* unsigned 32-bit words.
    offset = elf.file_offset(address, 4 * count)
    if offset is None:
        raise MalformedFile(f"{elf.name}: its dynamic section leads out of it, to {address:#x}")
    return struct.unpack(
        f"{order_mark(elf.byte_order)}{count}I", elf.copy(offset, 4 * count, "a hash table of symbols")
    )


def _count_by_gnu_hash(elf: ElfFile, table: int) -> int:
    # Hashed symbols are sorted by bucket, so the last symbol ends the last chain.
    buckets, first, filter_words, _ = _words(elf, table, 4)
    if buckets > _MAX_BUCKETS:
        raise MalformedFile(f"{elf.name}: a hash table with {buckets} buckets", offset=table)
    heads = table + 16 + elf.pointer_size * filter_words
    last = max(_words(elf, heads, buckets), default=0)
    if last < first:
        return first  # no symbol is hashed
    chain = heads + 4 * (buckets + last - first)
    offset = elf.file_offset(chain, 4)
    if offset is None:
        raise MalformedFile(f"{elf.name}: its dynamic section leads out of it, to {chain:#x}")
    for number in range(_MAX_CHAIN):
        raw = elf.copy(offset + 4 * number, 4, "a hash table of symbols")
        if int.from_bytes(raw, elf.byte_order) & 1:
            return last + number + 1
    raise MalformedFile(f"{elf.name}: its hash table of symbols does not end")
