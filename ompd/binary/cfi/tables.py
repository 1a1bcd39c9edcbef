"""Unwind tables: the rules that restore a caller's registers at any instruction of a function.

The Linux Standard Base describes ``.eh_frame`` and ``.eh_frame_hdr`` (Core, 10.6 "Exception Frames"; pointer encodings
in 10.5). DWARF describes ``.debug_frame`` (DWARF 5, 6.4.1; 3 and 4 are the same) and the instructions (DWARF 5, 6.4.2),
to which GNU added some. All addresses are link-time addresses. Only the entry that covers an address is decoded. The
search table of ``.eh_frame_hdr`` locates the entry; without a usable search table, an index of all entries is built
once.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from operator import le, lt
from typing import NamedTuple

from ompd.binary.cfi.program import (
    PE_ABSOLUTE,
    PE_ABSPTR,
    PE_APPLICATION,
    PE_DATAREL,
    PE_FORMAT,
    PE_OMIT,
    PE_PCREL,
    PE_POINTER,
    CfaRule,
    Cie,
    Program,
    Rule,
    fixed_format,
    read_pointer,
)
from ompd.binary.cursor import Buffer, ByteOrder, Cursor, order_mark
from ompd.binary.elf.elf import PT_GNU_EH_FRAME, PT_LOAD, SHT_NOBITS, ElfFile
from ompd.errors import MalformedFile

# The largest programs stay below both bounds. .debug_frame has a CIE for each compiled file.
_MAX_ENTRIES, _MAX_CIES = 1 << 22, 1 << 18
_MAX_FAULTS = 1000  # with more malformed entries, the index is given up


class Row(NamedTuple):
    """One row of the unwind table: the rules from ``start`` up to ``end``, exclusive."""

    start: int
    end: int
    cfa: CfaRule
    registers: Mapping[int, Rule]  # by DWARF number; registers not listed have no rule
    function_start: int
    function_end: int
    is_signal_frame: bool
    return_register: int  # the column that holds the return address


class Fde(NamedTuple):
    """A frame description entry. It covers a function, or a part of one, from ``start`` up to ``end``, exclusive."""

    start: int
    end: int
    cie: Cie
    instructions: bytes
    instructions_address: int
    augmentation: bytes
    augmentation_address: int


class UnwindTable:
    """The unwind table of one module: its ``.eh_frame``, or its ``.debug_frame``.

    :param eh_frame_hdr: the section, ``b""`` if there is none. Without a usable search table in it, an index of all
        entries is built on first use
    :param hdr_address: the link-time address of that section
    :param eh_frame: a buffer that contains ``.eh_frame`` or ``.debug_frame``
    :param eh_frame_address: the section's link-time address; 0 for ``.debug_frame``, which has none
    :param eh_frame_offset: the section's offset in *eh_frame*, in bytes
    :param eh_frame_size: the section's size in bytes, None for the rest of the buffer
    :param is_debug_frame: whether the section is ``.debug_frame``
    :raises MalformedFile: if the section is not in *eh_frame*
    """

    def __init__(
        self,
        eh_frame_hdr: bytes,
        hdr_address: int,
        eh_frame: Buffer,
        eh_frame_address: int,
        *,
        eh_frame_offset: int = 0,
        eh_frame_size: int | None = None,
        pointer_size: int = 8,
        byte_order: ByteOrder = "little",
        is_debug_frame: bool = False,
    ) -> None:
        self._name = ".debug_frame" if is_debug_frame else ".eh_frame"
        available = len(eh_frame) - eh_frame_offset
        size = available if eh_frame_size is None else eh_frame_size
        if eh_frame_offset < 0 or size < 0 or size > available or pointer_size not in PE_POINTER:
            raise MalformedFile(f"{self._name} is not in the file", offset=eh_frame_offset)
        self._data = eh_frame
        self._offset = eh_frame_offset
        self._size = size
        self._address = eh_frame_address
        self._pointer_size = pointer_size
        self._byte_order = byte_order
        self._is_debug_frame = is_debug_frame
        self._mask = (1 << 8 * pointer_size) - 1
        self._cies: dict[int, Cie] = {}
        self._initial: dict[Cie, tuple[CfaRule, dict[int, Rule]]] = {}
        self._rows: dict[int, Row | None] = {}
        self._table: _SearchTable | None = None
        if eh_frame_hdr:
            with suppress(MalformedFile):  # the index of entries replaces the search table
                self._table = self._parse_header(eh_frame_hdr, hdr_address)

    @classmethod
    def from_elf(cls, elf: ElfFile) -> UnwindTable | None:
        """Return the ``.eh_frame`` table of *elf*, None if it has none.

        The section header locates the table; in an image without section headers, PT_GNU_EH_FRAME does.

        :raises MalformedFile: if the table is malformed or not in the file
        """
        section = elf.section(".eh_frame")
        if section is not None and section.sh_type == SHT_NOBITS:
            section = None
        segment = next((s for s in elf.segments if s.p_type == PT_GNU_EH_FRAME and s.p_filesz), None)
        hdr, hdr_address = (elf.segment_data(segment), segment.p_vaddr) if segment is not None else (b"", 0)
        if section is not None:
            data, start, end = elf.section_span(section)
            address = section.sh_addr
        elif hdr:
            address = eh_frame_address(hdr, hdr_address, elf.pointer_size, elf.byte_order)
            loads = (s for s in elf.segments if s.p_type == PT_LOAD)
            load = next((s for s in loads if s.p_vaddr <= address < s.p_vaddr + s.p_filesz), None)
            if load is None:
                raise MalformedFile(f"{elf.name}: .eh_frame_hdr points outside of the file, at {address:#x}")
            data = elf.data
            start = load.p_offset + address - load.p_vaddr
            end = min(load.p_offset + load.p_filesz, len(data))
        else:
            return None
        return cls(
            hdr,
            hdr_address,
            data,
            address,
            eh_frame_offset=start,
            eh_frame_size=end - start,
            pointer_size=elf.pointer_size,
            byte_order=elf.byte_order,
        )

    @classmethod
    def from_debug_frame(cls, elf: ElfFile) -> UnwindTable | None:
        """Return the ``.debug_frame`` table of *elf*, a module or its debug file; None if it has none.

        :raises MalformedFile: if the table is malformed or not in the file
        """
        section = elf.section(".debug_frame")
        if section is None or section.sh_type == SHT_NOBITS or not section.sh_size:
            return None
        data, start, end = elf.section_span(section)
        return cls(
            b"",
            0,
            data,
            0,
            eh_frame_offset=start,
            eh_frame_size=end - start,
            pointer_size=elf.pointer_size,
            byte_order=elf.byte_order,
            is_debug_frame=True,
        )

    # Finding an entry

    def _parse_header(self, hdr: bytes, address: int) -> _SearchTable | None:
        cursor = self._cursor(hdr, address, ".eh_frame_hdr")
        version, pointer_encoding, count_encoding, table_encoding = cursor.take(4)
        if version != 1:
            cursor.fail(f"unknown version {version}")
        if pointer_encoding != PE_OMIT:
            read_pointer(cursor, pointer_encoding, self._pointer_size, address)
        if PE_OMIT in (count_encoding, table_encoding):
            return None
        count = read_pointer(cursor, count_encoding, self._pointer_size, address)
        letter = fixed_format(table_encoding, self._pointer_size)
        application = table_encoding & PE_APPLICATION
        if letter is None or application not in (PE_ABSOLUTE, PE_DATAREL):
            return None  # the table does not allow a binary search
        row = struct.Struct(order_mark(self._byte_order) + 2 * letter)
        if not 0 < count <= _MAX_ENTRIES or count * row.size > cursor.end - cursor.position:
            return None
        base = address if application == PE_DATAREL else 0
        return _SearchTable(cursor.take(count * row.size), row, base, self._mask)

    def find_fde(self, pc: int) -> Fde | None:
        """Return the entry that covers the link-time address *pc*, or None.

        :raises MalformedFile: if the entry is malformed, or if no entry covers *pc* and some entries are malformed
        """
        if self._table is not None:
            try:
                fde, is_sound = self._find_by_table(self._table, pc)
            except MalformedFile:
                fde, is_sound = None, False
            if fde is not None or is_sound:
                return fde
            self._table = None
        index = self._index
        number = bisect_right(index.starts, pc) - 1
        fde = self._fde_at(index.offsets[number]) if number >= 0 else None
        if fde is not None and fde.start <= pc < fde.end:
            return fde
        if index.fault is not None:
            raise index.fault
        return None

    def _find_by_table(self, table: _SearchTable, pc: int) -> tuple[Fde | None, bool]:
        # The entry that covers pc, None if no entry does, and whether the table is reliable in that case.
        row = table.find(pc)
        if row is None:
            return None, table.is_sorted
        start, address = row
        fde = self._fde_at((address - self._address) & self._mask)
        if fde.start <= pc < fde.end:
            return fde, True
        return None, fde.start == start and table.is_sorted

    @cached_property
    def _index(self) -> _Index:
        # The starts of all entries, from their headers.
        starts, offsets = array("Q"), array("Q")
        fault: MalformedFile | None = None
        faults = 0
        readers: dict[int, _Reader] = {}
        try:
            for offset, head in self._heads():
                if head.cie is None:
                    continue
                try:
                    reader = readers.get(head.cie)
                    if reader is None:
                        if len(readers) == _MAX_CIES:
                            raise MalformedFile(f"{self._name}: more than {_MAX_CIES} CIEs", offset=offset)
                        reader = readers[head.cie] = self._reader(head.cie)
                    start, size = self._extent(reader, head)
                except MalformedFile as error:
                    fault = fault or error
                    faults += 1
                    if faults > _MAX_FAULTS:
                        break
                    continue
                # .debug_frame may keep entries of code that the linker dropped, at address 0.
                if size and (start or not self._is_debug_frame):
                    starts.append(start)
                    offsets.append(offset)
        except MalformedFile as error:
            fault = fault or error
        if not all(map(le, starts, islice(starts, 1, None))):
            order = sorted(range(len(starts)), key=starts.__getitem__)
            starts, offsets = (array("Q", map(column.__getitem__, order)) for column in (starts, offsets))
        return _Index(starts, offsets, fault)

    def _reader(self, cie_offset: int) -> _Reader:
        # The layout of start and size in the FDEs of a CIE.
        encoding = self._cie_at(cie_offset).pointer_encoding
        letter = fixed_format(encoding, self._pointer_size)
        application = encoding & PE_APPLICATION
        if letter is None or application not in (PE_ABSOLUTE, PE_PCREL):
            return _Reader(None, False)
        return _Reader(struct.Struct(order_mark(self._byte_order) + 2 * letter), application == PE_PCREL)

    def _extent(self, reader: _Reader, head: _Head) -> tuple[int, int]:
        layout = reader.layout
        if layout is None:
            fde = self._parse_fde(head)
            return fde.start, fde.end - fde.start
        if head.begin + layout.size > head.end:
            raise MalformedFile(f"{self._name}: an entry is too short", offset=head.begin)
        position = self._offset + head.begin
        start, size = layout.unpack(self._data[position : position + layout.size])
        if reader.is_relative:
            start += self._address + head.begin
        return start & self._mask, size & self._mask

    def _heads(self) -> Iterator[tuple[int, _Head]]:
        # All entries with their offsets, up to a malformed one.
        offset = 0
        for _ in range(_MAX_ENTRIES):
            if offset >= self._size:
                return
            head = self._head(offset)
            if head is not None:
                yield offset, head
                offset = head.end
            elif self._is_debug_frame:
                offset += 4  # padding
            else:
                return
        raise MalformedFile(f"{self._name}: more than {_MAX_ENTRIES} entries", offset=offset)

    def _head(self, offset: int) -> _Head | None:
        # The header of the entry at *offset*, None for a terminator.
        data, order = self._data, self._byte_order
        if not 0 <= offset <= self._size - 4:
            raise MalformedFile(f"{self._name}: no entry there", offset=offset)
        position = self._offset + offset
        length, header, id_size = int.from_bytes(data[position : position + 4], order), 4, 4
        if length == 0:
            return None
        if length == 0xFFFFFFFF:
            length, header = int.from_bytes(data[position + 4 : position + 12], order), 12
            id_size = 8 if self._is_debug_frame else 4
        begin, end = offset + header + id_size, offset + header + length
        if length < id_size or end > self._size:
            raise MalformedFile(f"{self._name}: an entry of {length} bytes does not fit", offset=offset)
        number = int.from_bytes(data[position + header : position + header + id_size], order)
        if self._is_debug_frame:
            # The CIE's offset in the section; all ones mark a CIE.
            return _Head(begin, end, number if number != (1 << 8 * id_size) - 1 else None)
        return _Head(begin, end, offset + header - number if number else None)  # number is the distance to the CIE

    def _cursor(self, data: bytes, address: int, what: str) -> Cursor:
        # With this base, positions in errors are link-time addresses, and pcrel pointers yield link-time addresses.
        return Cursor(data, self._byte_order, what=what, base=address)

    def _cursor_over(self, head: _Head) -> Cursor:
        raw = bytes(self._data[self._offset + head.begin : self._offset + head.end])
        return self._cursor(raw, self._address + head.begin, self._name)

    # Decoding an entry

    def _fde_at(self, offset: int) -> Fde:
        head = self._head(offset)
        if head is None or head.cie is None:
            raise MalformedFile(f"{self._name}: no FDE there", offset=offset)
        return self._parse_fde(head)

    def _parse_fde(self, head: _Head) -> Fde:
        if head.cie is None:
            raise MalformedFile(f"{self._name}: no FDE there", offset=head.begin)
        cie, cursor = self._cie_at(head.cie), self._cursor_over(head)
        start = read_pointer(cursor, cie.pointer_encoding, self._pointer_size)
        size = read_pointer(cursor, cie.pointer_encoding & PE_FORMAT, self._pointer_size)
        data_address, data = cursor.base + cursor.position, b""
        if cie.has_augmentation_data:
            data_size = cursor.uleb()
            data_address, data = cursor.base + cursor.position, cursor.take(data_size)
        address = cursor.base + cursor.position
        instructions = cursor.take(cursor.end - cursor.position)
        return Fde(start, start + size, cie, instructions, address, data, data_address)

    def _cie_at(self, offset: int) -> Cie:
        if offset not in self._cies:
            head = self._head(offset)
            if head is None or head.cie is not None:
                raise MalformedFile(f"{self._name}: no CIE there", offset=offset)
            self._cies[offset] = self._parse_cie(self._cursor_over(head))
        return self._cies[offset]

    def _parse_cie(self, cursor: Cursor) -> Cie:
        version = cursor.byte()
        if version not in (1, 3, 4):
            cursor.fail(f"unknown CIE version {version}")
        augmentation = cursor.string()
        if version == 4 and (cursor.byte() != self._pointer_size or cursor.byte() != 0):
            cursor.fail("a CIE with addresses of another size, or with segments")
        code_alignment, data_alignment = cursor.uleb(), cursor.sleb()
        return_register = cursor.byte() if version == 1 else cursor.uleb()
        encoding, handlers_encoding, is_signal_frame = PE_ABSPTR, PE_OMIT, False
        has_data = augmentation.startswith(b"z")
        if has_data:
            after = cursor.uleb() + cursor.position
            for letter in augmentation[1:].decode("latin-1"):
                if letter == "R":
                    encoding = cursor.byte()
                elif letter == "L":
                    handlers_encoding = cursor.byte()
                elif letter == "P":
                    # Skip the pointer to the personality routine, which may be indirect.
                    read_pointer(cursor, cursor.byte() & PE_FORMAT, self._pointer_size)
                elif letter == "S":
                    is_signal_frame = True
                elif letter not in "BG":  # AArch64: return addresses signed with key B; tagged stack frames
                    cursor.fail(f"unknown augmentation {letter!r}")
            if cursor.position > after:
                cursor.fail("augmentation data is longer than it says")
            cursor.take(after - cursor.position)
        elif augmentation:
            cursor.fail(f"unknown augmentation {augmentation!r}")
        instructions = cursor.take(cursor.end - cursor.position)
        return Cie(
            code_alignment,
            data_alignment,
            return_register,
            encoding,
            has_data,
            is_signal_frame,
            instructions,
            handlers_encoding,
        )

    # Rows

    def row(self, pc: int) -> Row | None:
        """Return the row at the link-time address *pc*, None if no entry covers it. Rows are cached.

        :raises MalformedFile: if the entry is malformed
        """
        if pc not in self._rows:
            fde = self.find_fde(pc)
            self._rows[pc] = None if fde is None else self._run_to(fde, pc)
        return self._rows[pc]

    def _run_to(self, fde: Fde, pc: int) -> Row:
        cie = fde.cie
        if cie not in self._initial:
            program = Program(cie, fde.start, CfaRule(0, 0), {}, self._pointer_size)
            program.run(self._instructions(cie.instructions, self._address), self._mask + 1)
            self._initial[cie] = program.cfa, program.registers
        program = Program(cie, fde.start, *self._initial[cie], self._pointer_size)
        end = program.run(self._instructions(fde.instructions, fde.instructions_address), pc)
        return Row(
            program.location,
            fde.end if end is None else min(end, fde.end),
            program.cfa,
            program.registers,
            fde.start,
            fde.end,
            cie.is_signal_frame,
            cie.return_register,
        )

    def _instructions(self, data: bytes, address: int) -> Cursor:
        return self._cursor(data, address, "call frame instructions")


class _Head(NamedTuple):
    # An entry's header: begin and end of the rest of the entry, and the offset of its CIE, None if it is a CIE.
    begin: int
    end: int
    cie: int | None


class _Reader(NamedTuple):
    # The layout of start and size of an FDE, None if they have no fixed size.
    layout: struct.Struct | None
    is_relative: bool


class _Index(NamedTuple):
    # Sorted start addresses of entries, their offsets in the section, and the first error.
    starts: Sequence[int]
    offsets: Sequence[int]
    fault: MalformedFile | None


class _SearchTable:
    # The search table of .eh_frame_hdr: sorted pairs of a function's start and its FDE's address.

    def __init__(self, rows: bytes, row: struct.Struct, base: int, mask: int) -> None:
        self._rows = rows
        self._row = row
        self._base = base
        self._mask = mask

    def _start(self, index: int) -> int:
        start: int = self._row.unpack_from(self._rows, index * self._row.size)[0]
        return (start + self._base) & self._mask

    @cached_property
    def is_sorted(self) -> bool:
        # A binary search in an unsorted table would miss entries.
        starts = [(start + self._base) & self._mask for start, _ in self._row.iter_unpack(self._rows)]
        return all(map(lt, starts, islice(starts, 1, None)))

    def find(self, pc: int) -> tuple[int, int] | None:
        # Start and FDE address of the last function at or before pc.
        index = bisect_right(range(len(self._rows) // self._row.size), pc, key=self._start) - 1
        if index < 0:
            return None
        start, address = self._row.unpack_from(self._rows, index * self._row.size)
        return (start + self._base) & self._mask, (address + self._base) & self._mask


def eh_frame_address(hdr: bytes, hdr_address: int, pointer_size: int, byte_order: ByteOrder) -> int:
    """Return the link-time address of ``.eh_frame`` from ``.eh_frame_hdr``.

    :raises MalformedFile: if the header is malformed or omits the address
    """
    cursor = Cursor(hdr, byte_order, what=".eh_frame_hdr", base=hdr_address)
    _version, encoding, _, _ = cursor.take(4)
    return read_pointer(cursor, encoding, pointer_size, hdr_address)
