"""The sections with DWARF in a file or a split file (``.dwo``), and the index of a package of split files (``.dwp``).
Section numbers in comments are those of DWARF 5.

Sections are read on first use. Offsets are checked before use; an offset that does not fit raises MalformedFile.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from sys import intern
from typing import NamedTuple, TypeVar, cast

from ompd.binary.cursor import Buffer, ByteOrder, Bytes, Cursor, order_mark
from ompd.binary.elf.elf import SHT_NOBITS, ElfFile
from ompd.errors import MalformedFile
from ompd.safety import limits

T = TypeVar("T")

# The columns of a package's index (7.3.5.3, table 7.1), by the numbers of GNU's extension of DWARF 4 (version 2) and of
# DWARF 5. The two differ from column 5 on.
_COLUMNS_OF_4 = {1: ".debug_info", 2: ".debug_types", 3: ".debug_abbrev", 4: ".debug_line", 5: ".debug_loc"}
_COLUMNS_OF_4 |= {6: ".debug_str_offsets", 7: ".debug_macinfo", 8: ".debug_macro"}
_COLUMNS_OF_5 = {1: ".debug_info", 3: ".debug_abbrev", 4: ".debug_line", 5: ".debug_loclists"}
_COLUMNS_OF_5 |= {6: ".debug_str_offsets", 7: ".debug_macro", 8: ".debug_rnglists"}

# A table is at most two thirds full, so only a crafted table needs a longer search.
_MAX_PROBES = 1 << 10
_SEVERAL = frozenset((".debug_info", ".debug_types"))
_MAX_COLUMNS = 16
_MAX_ROWS = 1 << 20
# Small sections are copied into memory. Larger sections are copied unit by unit, up to a limit for each unit and for
# all units of a file.
_SMALL, _MAX_COPIED, _MAX_ALL_COPIED = 1 << 20, 1 << 24, 1 << 26


# The offsets of one unit's parts in the sections of a package, by section name. Empty outside of packages.
Contribution = Mapping[str, int]
WHOLE: Contribution = {}


def order_struct(byte_order: ByteOrder, layout: str) -> struct.Struct:
    """Return the :class:`struct.Struct` of *layout* in a byte order, without padding."""
    return struct.Struct(order_mark(byte_order) + layout)


class Supplementary(NamedTuple):
    """A file's reference to its supplementary file (7.3.6, or dwz's older ``.gnu_debugaltlink``): the name, and the
    checksum or build-id that the supplementary file must have.
    """

    name: str
    proof: bytes
    is_build_id: bool


class Sections:
    """The ``.debug_*`` sections of one file, decompressed and cached.

    :param split: whether the file is a split file or a package, in which ``.debug_info`` is called ``.debug_info.dwo``
    :param tag: distinguishes this file's sections from those of the module's other files
    """

    def __init__(self, elf: ElfFile, *, split: bool = False, tag: str = "") -> None:
        self._elf = elf
        self._spans: dict[str, tuple[Bytes, int, int] | None] = {}
        self.byte_order = elf.byte_order
        self.split = split
        self.tag = tag
        self.supplementary: Callable[[], Sections | None] | None = None
        """Finds the supplementary file (dwz's) that this file refers to. None if it refers to none."""
        self._package: dict[str, PackageIndex | None] = {}
        self._read: dict[tuple[str, int, Callable[[Cursor], object]], object] = {}
        self._copied = 0

    def span(self, name: str) -> tuple[Bytes, int, int] | None:
        """Return a buffer with the section, and the section's start and end in the buffer. None if the file has no such
        section.
        """
        if name not in self._spans:
            section = self._elf.section(name + ".dwo" if self.split else name)
            if section is None:
                self._spans[name] = None
            else:
                buffer, start, end = self._elf.section_span(section)
                if self.split and name in _SEVERAL:
                    buffer, start, end = self._joined(section.name, buffer, start, end)
                is_small = not isinstance(buffer, bytes) and end - start <= _SMALL
                if is_small or isinstance(buffer, memoryview):
                    buffer, start, end = bytes(buffer[start:end]), 0, end - start
                self._spans[name] = buffer, start, end
        return self._spans[name]

    def _joined(self, name: str, buffer: Buffer, start: int, end: int) -> tuple[Buffer, int, int]:
        # No linker has joined the sections of a split file, so each type unit has its own section.
        sections = [section for section in self._elf.sections if section.name == name]
        if len(sections) < 2:
            return buffer, start, end
        joined = bytearray()
        for section in sections:
            data = self._elf.section_data(section)
            if len(joined) + len(data) > limits.inflated(self._elf.disk_size):
                raise MalformedFile(f"{self._elf.name}: too many sections called {name}")
            joined += data
        return bytes(joined), 0, len(joined)

    def copied(self, data: Bytes, start: int, size: int) -> bytes | None:
        """Return a copy of *size* bytes of a section, from position *start* of its buffer. None if they are too many,
        are in holes of the file, or are already in memory.

        :param data: the section's buffer
        """
        if isinstance(data, bytes) or size > _MAX_COPIED or self._copied + size > _MAX_ALL_COPIED:
            return None
        if not self._elf.is_held(start, size):
            return None
        self._copied += size
        return data[start : start + size]

    def size(self, name: str) -> int:
        """Return the section's size in bytes, 0 if the file has no such section."""
        span = self.span(name)
        return 0 if span is None else span[2] - span[1]

    def cursor(self, name: str, offset: int = 0, end: int | None = None) -> Cursor:
        """Return a cursor from *offset* of the section to *end* (None: the section's end).

        The cursor's positions count from the start of the buffer of :meth:`span`. To get an offset in the section,
        subtract the start that :meth:`span` returns.

        :raises MalformedFile: if there is no such offset in the section
        """
        span = self.span(name)
        if span is None or not 0 <= offset <= span[2] - span[1]:
            raise MalformedFile(f"{self._elf.name}: no offset {offset:#x} in {name}")
        buffer, start, limit = span
        if end is not None:
            limit = min(limit, start + end)
        description = intern(f"{self._elf.name}: {name}")  # every unit keeps this text
        return Cursor(buffer, self.byte_order, position=start + offset, end=limit, what=description, base=-start)

    def once(self, name: str, offset: int, read: Callable[[Cursor], T]) -> T:
        """Return the result of *read* for a cursor at *offset* of the section. The result is cached.

        :raises MalformedFile: if there is no such offset in the section
        """
        place = name, offset, read
        if place not in self._read:
            self._read[place] = read(self.cursor(name, offset))
        return cast(T, self._read[place])

    @cached_property
    def long_lists(self) -> limits.Budget:
        """The number of entries of long location lists that may still be read. Lists may share their bytes."""
        size = max(self.size(".debug_loc"), self.size(".debug_loclists"))
        return limits.Budget(limits.list_steps(size // 4), f"{self._elf.name}: lists of locations overlap")

    def string(self, name: str, offset: int) -> bytes:
        """Return the string at *offset* of a section of strings."""
        return self.cursor(name, offset).string()

    def package(self, name: str) -> PackageIndex | None:
        """Return the index *name* of a package, ``cu`` or ``tu``. None if the file has none, because it is not a
        package.

        :raises MalformedFile: if the index is malformed
        """
        if name not in self._package:
            section = self._elf.section(f".debug_{name}_index") if self.split else None
            has = section is not None and section.sh_type != SHT_NOBITS
            raw = self._elf.section_data(section) if has and section is not None else None
            self._package[name] = PackageIndex(raw, self.byte_order, self._elf.name) if raw is not None else None
        return self._package[name]


class PackageIndex:
    """``.debug_cu_index`` or ``.debug_tu_index`` of a package (7.3.5.3): the offsets of each unit's parts."""

    def __init__(self, raw: bytes, byte_order: ByteOrder, name: str) -> None:
        self._raw, self._what, self._byte_order = raw, f"{name}: index of a package", byte_order
        header = order_struct(byte_order, "IIII")
        if len(raw) < header.size:
            raise MalformedFile(f"{self._what} is cut off")
        version, self._columns, self._rows, self._slots = header.unpack_from(raw)
        if version != 2:
            version = order_struct(byte_order, "H").unpack_from(raw)[0]
        if version not in (2, 5):
            raise MalformedFile(f"{self._what} is of unknown version {version}")
        names = _COLUMNS_OF_4 if version == 2 else _COLUMNS_OF_5
        hashes = 12 * self._slots
        cells = 4 * self._columns * (2 * self._rows + 1)
        if self._columns > _MAX_COLUMNS or self._rows > _MAX_ROWS or header.size + hashes + cells > len(raw):
            raise MalformedFile(f"{self._what} does not fit")
        if self._slots & (self._slots - 1):
            raise MalformedFile(f"{self._what} has {self._slots} slots, which is not a power of two")
        self._row_numbers = header.size + 8 * self._slots
        self._row_struct = order_struct(byte_order, f"{self._columns}I")
        ids = self._row_struct.unpack_from(raw, header.size + hashes)
        self._names = [names.get(number, "") for number in ids]
        self._table = header.size + hashes + self._row_struct.size

    def find(self, signature: int) -> Contribution | None:
        """Return the offsets of the unit with *signature* (a ``dwo_id`` or a type's), None if the package has no such
        unit.

        :raises MalformedFile: if the search does not end
        """
        mask = self._slots - 1
        slot, step = signature & mask, (signature >> 32) & mask | 1
        key = signature.to_bytes(8, self._byte_order)
        for _ in range(min(self._slots, _MAX_PROBES)):
            position = 16 + 8 * slot
            row = self._number(self._row_numbers + 4 * slot)
            if row == 0:
                return None
            if self._raw[position : position + 8] == key:
                return self._contribution(row)
            slot = (slot + step) & mask
        if self._slots > _MAX_PROBES:
            raise MalformedFile(f"{self._what}: a search does not end")
        return None

    def _number(self, position: int) -> int:
        return int.from_bytes(self._raw[position : position + 4], self._byte_order)

    def _contribution(self, row: int) -> Contribution:
        if not 1 <= row <= self._rows:
            raise MalformedFile(f"{self._what}: no row {row}")
        offsets = self._row_struct.unpack_from(self._raw, self._table + (row - 1) * self._row_struct.size)
        return {name: offset for name, offset in zip(self._names, offsets, strict=True) if name}

    def by_offset(self, name: str) -> dict[int, Contribution]:
        """Return the rows of all units by the units' offsets in the section *name*."""
        rows = (self._contribution(row) for row in range(1, self._rows + 1))
        return {row[name]: row for row in rows if name in row}


def read_supplementary(elf: ElfFile) -> Supplementary | None:
    """Return the reference of *elf* to its supplementary file, None without one.

    :raises MalformedFile: if the section with the reference is malformed
    """
    section = elf.section(".gnu_debugaltlink")
    if section is not None and section.sh_type != SHT_NOBITS:
        name, mark, build_id = elf.section_data(section).partition(b"\0")
        if not mark or not name or not build_id:
            raise MalformedFile(f"{elf.name}: .gnu_debugaltlink names no file", offset=section.sh_offset)
        return Supplementary(name.decode("utf-8", "surrogateescape"), build_id, is_build_id=True)
    name_and_checksum = _read_debug_sup(elf)
    return (
        Supplementary(name_and_checksum[1], name_and_checksum[2], is_build_id=False)
        if name_and_checksum is not None and not name_and_checksum[0]
        else None
    )


def supplementary_checksum(elf: ElfFile) -> bytes | None:
    """Return the checksum by which other files refer to *elf*, None if *elf* is not a supplementary file.

    :raises MalformedFile: if ``.debug_sup`` is malformed
    """
    name_and_checksum = _read_debug_sup(elf)
    return name_and_checksum[2] if name_and_checksum is not None and name_and_checksum[0] else None


def _read_debug_sup(elf: ElfFile) -> tuple[bool, str, bytes] | None:
    # 7.3.6: whether this file is the supplementary file, then the supplementary file's name and checksum.
    section = elf.section(".debug_sup")
    if section is None or section.sh_type == SHT_NOBITS:
        return None
    cursor = Cursor(elf.section_data(section), elf.byte_order, what=f"{elf.name}: .debug_sup")
    if cursor.unsigned(2) < 2:
        cursor.fail("unknown version")
    is_supplementary = bool(cursor.byte())
    name = cursor.string().decode("utf-8", "surrogateescape")
    checksum = cursor.take(cursor.uleb())
    if not checksum or not (is_supplementary or name):
        cursor.fail("no name, or no checksum")
    return is_supplementary, name, checksum
