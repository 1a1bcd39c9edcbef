"""Call frame information: how to undo a function's prologue at any of its instructions.

``.eh_frame`` and ``.eh_frame_hdr`` as the Linux Standard Base describes them (Core, 10.6 "Exception Frames"; pointer
encodings in 10.5), with the instructions of DWARF 5, 6.4.2, and those that GNU added. All addresses are link-time
addresses. Only the entry that covers an address is decoded, found through the header's table.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from ompd.contract.memory import ByteOrder
from ompd.debugger.formats.cfi_program import (
    PE_ABSOLUTE,
    PE_ABSPTR,
    PE_APPLICATION,
    PE_DATAREL,
    PE_FORMAT,
    PE_OMIT,
    PE_POINTER,
    CfaRule,
    Cie,
    Program,
    Rule,
    fixed_format,
    read_pointer,
)
from ompd.debugger.formats.cursor import Cursor
from ompd.debugger.formats.elf import PT_GNU_EH_FRAME, PT_LOAD, SHT_NOBITS, Buffer, ElfFile, order_mark
from ompd.errors import MalformedFile

# More than the largest programs have.
_MAX_ENTRIES = 1 << 22


class Row(NamedTuple):
    """One row of the unwind table: what holds from ``start`` up to, not including, ``end``."""

    start: int
    end: int
    cfa: CfaRule
    registers: Mapping[int, Rule]  # by DWARF number; one that is absent has no rule of its own
    function_start: int
    function_end: int
    is_signal_frame: bool
    return_register: int  # the column that holds the return address


class Fde(NamedTuple):
    """A frame description entry: the function, or part of one, from ``start`` up to, not including, ``end``."""

    start: int
    end: int
    cie: Cie
    instructions: bytes
    instructions_address: int


class UnwindTable:
    """The unwind table of one module.

    :param eh_frame_hdr: the section, ``b""`` if there is none; its table may be missing too, entries are then read once
        from first to last
    :param hdr_address: its link-time address
    :param eh_frame: bytes that hold ``.eh_frame``
    :param eh_frame_address: the section's link-time address
    :param eh_frame_offset: where in *eh_frame* the section begins, and its size (None: all the rest), in bytes
    :raises MalformedFile: if the header is malformed
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
    ) -> None:
        available = len(eh_frame) - eh_frame_offset
        size = available if eh_frame_size is None else eh_frame_size
        if eh_frame_offset < 0 or size < 0 or size > available or pointer_size not in PE_POINTER:
            raise MalformedFile(".eh_frame does not lie in the file", offset=eh_frame_offset)
        self._data = eh_frame
        self._offset = eh_frame_offset
        self._size = size
        self._address = eh_frame_address
        self._pointer_size = pointer_size
        self._byte_order = byte_order
        self._mask = (1 << 8 * pointer_size) - 1
        self._cies: dict[int, Cie] = {}
        self._initial: dict[Cie, tuple[CfaRule, dict[int, Rule]]] = {}
        self._rows: dict[int, Row | None] = {}
        self._table = self._parse_header(eh_frame_hdr, hdr_address) if eh_frame_hdr else None

    @classmethod
    def from_elf(cls, elf: ElfFile) -> UnwindTable | None:
        """Return the unwind table that *elf* loads, None if it has none.

        Found by PT_GNU_EH_FRAME, so that an image without section headers will do, else by the section ``.eh_frame``.

        :raises MalformedFile: if what these point at is malformed or not in the file
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
            return None  # not one to search in; reading all entries serves as well
        row = struct.Struct(order_mark(self._byte_order) + 2 * letter)
        if count > _MAX_ENTRIES or count * row.size > cursor.end - cursor.position:
            cursor.fail(f"a table of {count} entries does not fit")
        base = address if application == PE_DATAREL else 0
        return _SearchTable(cursor.take(count * row.size), row, base, self._mask)

    def find_fde(self, pc: int) -> Fde | None:
        """Return the entry that covers the link-time address *pc*, or None.

        :raises MalformedFile: if the entry, or without a search table any entry, is malformed
        """
        if self._table is not None:
            address = self._table.find(pc)
            fde = None if address is None else self._fde_at((address - self._address) & self._mask)
        else:
            fdes = self._all_fdes
            index = bisect_right(fdes, pc, key=itemgetter(0)) - 1
            fde = fdes[index] if index >= 0 else None
        return fde if fde is not None and fde.start <= pc < fde.end else None

    @cached_property
    def _all_fdes(self) -> list[Fde]:
        return sorted(self.iter_fdes(), key=itemgetter(0))

    def iter_fdes(self) -> Iterator[Fde]:
        """Yield all entries in the section's order, without use of the search table.

        :raises MalformedFile: when it reaches an entry that is malformed
        """
        offset = 0
        while offset < self._size:
            entry = self._entry(offset)
            if entry is None:  # the terminator
                return
            cursor, is_cie, following = entry
            if not is_cie:
                yield self._parse_fde(cursor, offset)
            offset = following

    def _entry(self, offset: int) -> tuple[Cursor, bool, int] | None:
        # Cursor behind the length and on the CIE pointer, whether that is 0 (a CIE's id), and the next entry's offset.
        if not 0 <= offset <= self._size - 4:
            raise MalformedFile(".eh_frame: no entry there", offset=offset)
        start = self._offset + offset
        length, header = int.from_bytes(self._data[start : start + 4], self._byte_order), 4
        if length == 0:
            return None
        if length == 0xFFFFFFFF:
            length, header = int.from_bytes(self._data[start + 4 : start + 12], self._byte_order), 12
        if length < 4 or offset + header + length > self._size:
            raise MalformedFile(f".eh_frame: an entry of {length} bytes does not fit", offset=offset)
        raw = bytes(self._data[start + header : start + header + length])
        cursor = self._cursor(raw, self._address + offset + header, ".eh_frame")
        return cursor, raw[:4] == bytes(4), offset + header + length

    def _cursor(self, data: bytes, address: int, what: str) -> Cursor:
        # Positions are told, and pcrel pointers counted, by link-time address.
        return Cursor(data, self._byte_order, what=what, base=address)

    # Decoding an entry

    def _fde_at(self, offset: int) -> Fde:
        entry = self._entry(offset)
        if entry is None or entry[1]:
            raise MalformedFile(".eh_frame: no FDE there", offset=offset)
        return self._parse_fde(entry[0], offset)

    def _parse_fde(self, cursor: Cursor, offset: int) -> Fde:
        # The CIE pointer counts backwards from itself.
        cie = self._cie_at(cursor.base - self._address - cursor.unsigned(4))
        start = read_pointer(cursor, cie.pointer_encoding, self._pointer_size)
        size = read_pointer(cursor, cie.pointer_encoding & PE_FORMAT, self._pointer_size)
        if cie.has_augmentation_data:
            cursor.take(cursor.uleb())
        address = cursor.base + cursor.position
        return Fde(start, start + size, cie, cursor.take(cursor.end - cursor.position), address)

    def _cie_at(self, offset: int) -> Cie:
        if offset not in self._cies:
            entry = self._entry(offset)
            if entry is None or not entry[1]:
                raise MalformedFile(".eh_frame: no CIE there", offset=offset)
            self._cies[offset] = self._parse_cie(entry[0])
        return self._cies[offset]

    def _parse_cie(self, cursor: Cursor) -> Cie:
        cursor.take(4)
        version = cursor.byte()
        if version not in (1, 3, 4):
            cursor.fail(f"unknown CIE version {version}")
        augmentation = cursor.string()
        if version == 4 and (cursor.byte() != self._pointer_size or cursor.byte() != 0):
            cursor.fail("a CIE with addresses of another size, or with segments")
        code_alignment, data_alignment = cursor.uleb(), cursor.sleb()
        return_register = cursor.byte() if version == 1 else cursor.uleb()
        encoding, is_signal_frame = PE_ABSPTR, False
        has_data = augmentation.startswith(b"z")
        if has_data:
            after = cursor.uleb() + cursor.position
            for letter in augmentation[1:].decode("latin-1"):
                if letter == "R":
                    encoding = cursor.byte()
                elif letter == "L":
                    cursor.byte()
                elif letter == "P":
                    # The personality routine plays no part here. Its pointer may be indirect; skipping it needs no more
                    # than its format.
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
        return Cie(code_alignment, data_alignment, return_register, encoding, has_data, is_signal_frame, instructions)

    # Rows

    def row(self, pc: int) -> Row | None:
        """Return the row that holds at the link-time address *pc*, None if no entry covers it. Kept per address.

        :raises MalformedFile: if the entry is malformed
        """
        if pc not in self._rows:
            fde = self.find_fde(pc)
            self._rows[pc] = None if fde is None else self._row_of(fde, pc)
        return self._rows[pc]

    def _row_of(self, fde: Fde, pc: int) -> Row:
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


class _SearchTable:
    # The header's binary search table: pairs of a function's start and its FDE's address, sorted by the first.

    def __init__(self, rows: bytes, row: struct.Struct, base: int, mask: int) -> None:
        self._rows = rows
        self._row = row
        self._base = base
        self._mask = mask

    def _start(self, index: int) -> int:
        start: int = self._row.unpack_from(self._rows, index * self._row.size)[0]
        return (start + self._base) & self._mask

    def find(self, pc: int) -> int | None:
        # Address of the FDE of the last function that begins at or before pc.
        index = bisect_right(range(len(self._rows) // self._row.size), pc, key=self._start) - 1
        if index < 0:
            return None
        address: int = self._row.unpack_from(self._rows, index * self._row.size)[1]
        return (address + self._base) & self._mask


def eh_frame_address(hdr: bytes, hdr_address: int, pointer_size: int, byte_order: ByteOrder) -> int:
    """Return the link-time address of ``.eh_frame`` that ``.eh_frame_hdr`` tells.

    :raises MalformedFile: if the header is malformed or does not tell
    """
    cursor = Cursor(hdr, byte_order, what=".eh_frame_hdr", base=hdr_address)
    _version, encoding, _, _ = cursor.take(4)
    return read_pointer(cursor, encoding, pointer_size, hdr_address)
