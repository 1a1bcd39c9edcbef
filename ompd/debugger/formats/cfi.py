"""Call frame information: how to undo a function's prologue at any of its instructions.

``.eh_frame`` and ``.eh_frame_hdr`` as the Linux Standard Base describes them (Core, 10.6 "Exception Frames"; pointer
encodings in 10.5), with the instructions of DWARF 5, 6.4.2, and those that GNU added. All addresses are link-time
addresses. Only the entry that covers an address is decoded, found through the header's table.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Literal, NamedTuple

from ompd.contract.memory import ByteOrder
from ompd.debugger.formats.cursor import Cursor
from ompd.debugger.formats.elf import PT_GNU_EH_FRAME, PT_LOAD, SHT_NOBITS, Buffer, ElfFile, order_mark
from ompd.errors import MalformedFile, Unavailable

# DW_EH_PE: low half the format, then what it counts from, then whether it is the address of the pointer
_PE_OMIT = 0xFF
_PE_FORMAT, _PE_APPLICATION, _PE_INDIRECT = 0x0F, 0x70, 0x80
_PE_ABSOLUTE, _PE_PCREL, _PE_DATAREL = 0x00, 0x10, 0x30
_PE_ABSPTR, _PE_ULEB128, _PE_SLEB128 = 0x00, 0x01, 0x09
_PE_FIXED = {0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
_PE_POINTER = {4: "I", 8: "Q"}

# What the widest tables of real programs stay far below. Beyond them an entry is taken to lie: it would cost time only.
_MAX_ENTRIES = 1 << 22
_MAX_INSTRUCTIONS = 1 << 18
_MAX_REGISTERS = 512
_MAX_SAVED_STATES = 256
_MAX_EXPRESSION_STEPS = 1000
_MAX_EXPRESSION_STACK = 64


class Rule(NamedTuple):
    """How to find a register of the caller (DWARF 5, 6.4.1), less "architectural".

    ``offset``: saved at CFA + value. ``val_offset``: is CFA + value. ``register``: is in register number value.
    ``expression``: saved where the DWARF expression says. ``val_expression``: is what it says. ``undefined``: was not
    kept. ``same_value``: was not touched.
    """

    kind: Literal["offset", "val_offset", "register", "expression", "val_expression", "undefined", "same_value"]
    value: int = 0
    expression: bytes = b""


class CfaRule(NamedTuple):
    """How to find the canonical frame address: a register and what to add, or an expression where that is not empty."""

    register: int
    offset: int
    expression: bytes = b""


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


class Cie(NamedTuple):
    """A common information entry, decoded."""

    code_alignment: int
    data_alignment: int
    return_register: int
    pointer_encoding: int  # DW_EH_PE_* of its FDEs' addresses
    has_augmentation_data: bool
    is_signal_frame: bool
    instructions: bytes


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
        if eh_frame_offset < 0 or size < 0 or size > available or pointer_size not in _PE_POINTER:
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
        if pointer_encoding != _PE_OMIT:
            _pointer(cursor, pointer_encoding, self._pointer_size, address)
        if _PE_OMIT in (count_encoding, table_encoding):
            return None
        count = _pointer(cursor, count_encoding, self._pointer_size, address)
        letter = _fixed_format(table_encoding, self._pointer_size)
        application = table_encoding & _PE_APPLICATION
        if letter is None or application not in (_PE_ABSOLUTE, _PE_DATAREL):
            return None  # not one to search in; reading all entries serves as well
        row = struct.Struct(order_mark(self._byte_order) + 2 * letter)
        if count > _MAX_ENTRIES or count * row.size > cursor.end - cursor.position:
            cursor.fail(f"a table of {count} entries does not fit")
        base = address if application == _PE_DATAREL else 0
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
        start = self._pointer(cursor, cie.pointer_encoding)
        size = self._pointer(cursor, cie.pointer_encoding & _PE_FORMAT)
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
        encoding, is_signal_frame = _PE_ABSPTR, False
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
                    self._pointer(cursor, cursor.byte() & _PE_FORMAT)
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

    def _pointer(self, cursor: Cursor, encoding: int) -> int:
        return _pointer(cursor, encoding, self._pointer_size)

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
            program = _Program(self, cie, fde.start, CfaRule(0, 0), {})
            program.run(cie.instructions, self._address, self._mask + 1)
            self._initial[cie] = program.cfa, program.registers
        program = _Program(self, cie, fde.start, *self._initial[cie])
        end = program.run(fde.instructions, fde.instructions_address, pc)
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


class _Program:
    # The state of one run over call frame instructions (DWARF 5, 6.4.2).

    def __init__(
        self, table: UnwindTable, cie: Cie, location: int, cfa: CfaRule, registers: Mapping[int, Rule]
    ) -> None:
        self._table = table
        self._cie = cie
        self._initial = registers
        self._saved: list[tuple[CfaRule, dict[int, Rule]]] = []
        self.location = location
        self.cfa = cfa
        self.registers = dict(registers)

    def run(self, instructions: bytes, address: int, pc: int) -> int | None:
        # Runs up to the row that holds at pc; returns where the next row begins, None if there is none.
        cursor = self._table._cursor(instructions, address, "call frame instructions")
        for _ in range(_MAX_INSTRUCTIONS):
            if cursor.at_end:
                return None
            byte = cursor.byte()
            opcode, operand = (byte & 0xC0, byte & 0x3F) if byte & 0xC0 else (byte, 0)
            if opcode in _ADVANCES:
                size = _ADVANCES[opcode]
                location = self._advance(cursor, opcode, cursor.unsigned(size) if size else operand)
                if location > pc:
                    return location
                self.location = location
            else:
                effect = _EFFECTS.get(opcode)
                if effect is None:
                    cursor.fail(f"unknown call frame instruction {byte:#x}")
                effect(self, cursor, operand)
        cursor.fail("too many call frame instructions")

    def _advance(self, cursor: Cursor, opcode: int, delta: int) -> int:
        if opcode == _SET_LOC:
            return self._table._pointer(cursor, self._cie.pointer_encoding)
        return self.location + delta * self._cie.code_alignment

    def _set(self, cursor: Cursor, register: int, rule: Rule) -> None:
        if len(self.registers) >= _MAX_REGISTERS and register not in self.registers:
            cursor.fail("rules for too many registers")
        self.registers[register] = rule

    def nop(self, cursor: Cursor, operand: int) -> None:
        pass

    def skip_uleb(self, cursor: Cursor, operand: int) -> None:
        cursor.uleb()  # DW_CFA_GNU_args_size: what the callee pops, for throwing only

    def offset(self, cursor: Cursor, register: int) -> None:
        self._set(cursor, register, Rule("offset", cursor.uleb() * self._cie.data_alignment))

    def offset_extended(self, cursor: Cursor, operand: int) -> None:
        self.offset(cursor, cursor.uleb())

    def offset_extended_sf(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("offset", cursor.sleb() * self._cie.data_alignment))

    def negative_offset_extended(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("offset", -cursor.uleb() * self._cie.data_alignment))

    def val_offset(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("val_offset", cursor.uleb() * self._cie.data_alignment))

    def val_offset_sf(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("val_offset", cursor.sleb() * self._cie.data_alignment))

    def register(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("register", cursor.uleb()))

    def expression(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("expression", expression=cursor.take(cursor.uleb())))

    def val_expression(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("val_expression", expression=cursor.take(cursor.uleb())))

    def undefined(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("undefined"))

    def same_value(self, cursor: Cursor, operand: int) -> None:
        self._set(cursor, cursor.uleb(), Rule("same_value"))

    def restore(self, cursor: Cursor, register: int) -> None:
        if register in self._initial:
            self._set(cursor, register, self._initial[register])
        else:
            self.registers.pop(register, None)

    def restore_extended(self, cursor: Cursor, operand: int) -> None:
        self.restore(cursor, cursor.uleb())

    def remember_state(self, cursor: Cursor, operand: int) -> None:
        if len(self._saved) >= _MAX_SAVED_STATES:
            cursor.fail("too many states to remember")
        self._saved.append((self.cfa, dict(self.registers)))

    def restore_state(self, cursor: Cursor, operand: int) -> None:
        if not self._saved:
            cursor.fail("no state to restore")
        self.cfa, self.registers = self._saved.pop()

    def def_cfa(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(cursor.uleb(), cursor.uleb())

    def def_cfa_sf(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(cursor.uleb(), cursor.sleb() * self._cie.data_alignment)

    def def_cfa_register(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(cursor.uleb(), self.cfa.offset)

    def def_cfa_offset(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(self.cfa.register, cursor.uleb())

    def def_cfa_offset_sf(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(self.cfa.register, cursor.sleb() * self._cie.data_alignment)

    def def_cfa_expression(self, cursor: Cursor, operand: int) -> None:
        self.cfa = CfaRule(0, 0, cursor.take(cursor.uleb()))


_SET_LOC = 0x01
# Instructions that begin a new row, and the size of their operand in bytes
_ADVANCES = {0x40: 0, _SET_LOC: 0, 0x02: 1, 0x03: 2, 0x04: 4}
# DW_CFA_*; the upper two bits alone mark those whose first operand is in the lower six
_EFFECTS: Mapping[int, Callable[[_Program, Cursor, int], None]] = {
    0x80: _Program.offset,
    0xC0: _Program.restore,
    0x00: _Program.nop,
    0x05: _Program.offset_extended,
    0x06: _Program.restore_extended,
    0x07: _Program.undefined,
    0x08: _Program.same_value,
    0x09: _Program.register,
    0x0A: _Program.remember_state,
    0x0B: _Program.restore_state,
    0x0C: _Program.def_cfa,
    0x0D: _Program.def_cfa_register,
    0x0E: _Program.def_cfa_offset,
    0x0F: _Program.def_cfa_expression,
    0x10: _Program.expression,
    0x11: _Program.offset_extended_sf,
    0x12: _Program.def_cfa_sf,
    0x13: _Program.def_cfa_offset_sf,
    0x14: _Program.val_offset,
    0x15: _Program.val_offset_sf,
    0x16: _Program.val_expression,
    0x2E: _Program.skip_uleb,
    0x2F: _Program.negative_offset_extended,
}


def eh_frame_address(hdr: bytes, hdr_address: int, pointer_size: int, byte_order: ByteOrder) -> int:
    """Return the link-time address of ``.eh_frame`` that ``.eh_frame_hdr`` tells.

    :raises MalformedFile: if the header is malformed or does not tell
    """
    cursor = Cursor(hdr, byte_order, what=".eh_frame_hdr", base=hdr_address)
    _version, encoding, _, _ = cursor.take(4)
    return _pointer(cursor, encoding, pointer_size, hdr_address)


def _fixed_format(encoding: int, pointer_size: int) -> str | None:
    # The struct letter of an encoding whose values have a fixed size.
    if encoding & _PE_INDIRECT:
        return None
    if encoding & _PE_FORMAT == _PE_ABSPTR:
        return _PE_POINTER[pointer_size]
    return _PE_FIXED.get(encoding & _PE_FORMAT)


def _pointer(cursor: Cursor, encoding: int, pointer_size: int, data_base: int | None = None) -> int:
    # An encoded pointer (LSB Core, 10.5). An indirect one would have to be read from the target: none of ours need be.
    address = cursor.base + cursor.position
    letter = _fixed_format(encoding, pointer_size)
    if letter is not None:
        raw = cursor.take(struct.calcsize("=" + letter))
        value = int.from_bytes(raw, cursor.byte_order, signed=letter.islower())
    elif encoding & (_PE_INDIRECT | _PE_FORMAT) == _PE_ULEB128:
        value = cursor.uleb()
    elif encoding & (_PE_INDIRECT | _PE_FORMAT) == _PE_SLEB128:
        value = cursor.sleb()
    else:
        cursor.fail(f"unknown pointer encoding {encoding:#x}")
    application = encoding & _PE_APPLICATION
    if application == _PE_PCREL:
        value += address
    elif application == _PE_DATAREL and data_base is not None:
        value += data_base
    elif application != _PE_ABSOLUTE:
        cursor.fail(f"unknown pointer encoding {encoding:#x}")
    return value & (1 << 8 * pointer_size) - 1


# DWARF expressions


def evaluate(
    expression: bytes,
    registers: Mapping[int, int],
    read: Callable[[int, int], bytes],
    *,
    initial: tuple[int, ...] = (),
    pointer_size: int = 8,
    byte_order: ByteOrder = "little",
) -> int:
    """Return what a DWARF expression (DWARF 5, 2.5) of call frame information leaves on top of its stack.

    :param registers: the frame's registers by DWARF number
    :param read: gives the target's bytes at an address
    :param initial: what lies on the stack at first: the CFA, for rules of registers
    :raises MalformedFile: if it is malformed, does not end soon, or holds what 6.4.2 does not allow
    :raises Unavailable: if it uses a register that is not among *registers*
    :raises MemoryFault: as *read* does
    """
    machine = _Machine(expression, registers, read, list(initial), pointer_size, byte_order)
    machine.run()
    return machine.pop()


class _Machine:
    # A stack machine of address-sized words.

    def __init__(
        self,
        expression: bytes,
        registers: Mapping[int, int],
        read: Callable[[int, int], bytes],
        stack: list[int],
        pointer_size: int,
        byte_order: ByteOrder,
    ) -> None:
        self._cursor = Cursor(expression, byte_order, what="DWARF expression")
        self._registers = registers
        self._read = read
        self._stack = stack
        self._size = pointer_size
        self._bits = 8 * pointer_size
        self._byte_order = byte_order

    def run(self) -> None:
        cursor = self._cursor
        for _ in range(_MAX_EXPRESSION_STEPS):
            if cursor.at_end:
                return
            self._step(cursor.byte())
            if len(self._stack) > _MAX_EXPRESSION_STACK:
                cursor.fail("its stack grows too large")
        cursor.fail("does not end soon")

    def _step(self, opcode: int) -> None:
        cursor = self._cursor
        if 0x30 <= opcode <= 0x4F:  # DW_OP_lit0 …
            self.push(opcode - 0x30)
        elif 0x70 <= opcode <= 0x8F:  # DW_OP_breg0 …
            self.push(self._register(opcode - 0x70) + cursor.sleb())
        elif opcode in _CONSTANTS:
            size, signed = _CONSTANTS[opcode]
            self.push(cursor.signed(size) if signed else cursor.unsigned(size))
        elif opcode in _UNARY:
            self.push(_UNARY[opcode](self._signed(self.pop())))
        elif opcode in _BINARY:
            self._binary(opcode)
        elif opcode in _OTHERS:
            _OTHERS[opcode](self)
        else:
            cursor.fail(f"operation {opcode:#x} is unknown or not allowed here")

    def push(self, value: int) -> None:
        self._stack.append(value & ((1 << self._bits) - 1))

    def pop(self, depth: int = 0) -> int:
        if depth >= len(self._stack):
            self._cursor.fail("takes more from its stack than lies there")
        return self._stack.pop(-1 - depth)

    def _signed(self, value: int) -> int:
        return value - (1 << self._bits) if value >> (self._bits - 1) else value

    def _register(self, number: int) -> int:
        value = self._registers.get(number)
        if value is None:
            raise Unavailable(f"the value of register {number} is not known in this frame")
        return value

    def _binary(self, opcode: int) -> None:
        right, left = self.pop(), self.pop()
        if opcode in (_OP_DIV, _OP_MOD) and right == 0:
            self._cursor.fail("divides by zero")
        if opcode in (_OP_SHL, _OP_SHR, _OP_SHRA):
            right = min(right, self._bits)
        elif opcode not in _UNSIGNED:
            right = self._signed(right)
        if opcode not in _UNSIGNED:
            left = self._signed(left)
        self.push(_BINARY[opcode](left, right))

    def address(self) -> None:
        self.push(self._cursor.unsigned(self._size))

    def constu(self) -> None:
        self.push(self._cursor.uleb())

    def consts(self) -> None:
        self.push(self._cursor.sleb())

    def bregx(self) -> None:
        self.push(self._register(self._cursor.uleb()) + self._cursor.sleb())

    def deref(self) -> None:
        self.push(int.from_bytes(self._read(self.pop(), self._size), self._byte_order))

    def deref_size(self) -> None:
        size = self._cursor.byte()
        if not 0 < size <= self._size:
            self._cursor.fail(f"reads a word of {size} bytes")
        self.push(int.from_bytes(self._read(self.pop(), size), self._byte_order))

    def plus_uconst(self) -> None:
        self.push(self.pop() + self._cursor.uleb())

    def drop(self) -> None:
        self.pop()

    def pick(self, depth: int | None = None) -> None:
        depth = self._cursor.byte() if depth is None else depth
        value = self.pop(depth)
        self._stack.insert(len(self._stack) - depth, value)
        self.push(value)

    def dup(self) -> None:
        self.pick(0)

    def over(self) -> None:
        self.pick(1)

    def swap(self) -> None:
        self.push(self.pop(1))

    def rot(self) -> None:
        # The top goes below the other two.
        top, second, third = self.pop(), self.pop(), self.pop()
        self._stack += [top, third, second]

    def skip(self) -> None:
        distance = self._cursor.signed(2)
        target = self._cursor.position + distance
        if not 0 <= target <= self._cursor.end:
            self._cursor.fail("jumps out of itself")
        self._cursor.position = target

    def bra(self) -> None:
        if self.pop():
            self.skip()
        else:
            self._cursor.take(2)

    def nop(self) -> None:
        pass


_OP_DIV, _OP_MOD, _OP_SHL, _OP_SHR, _OP_SHRA = 0x1B, 0x1D, 0x24, 0x25, 0x26
_UNSIGNED = frozenset((_OP_MOD, _OP_SHL, _OP_SHR))
_CONSTANTS = {
    0x08: (1, False),
    0x09: (1, True),
    0x0A: (2, False),
    0x0B: (2, True),
    0x0C: (4, False),
    0x0D: (4, True),
    0x0E: (8, False),
    0x0F: (8, True),
}
_UNARY: Mapping[int, Callable[[int], int]] = {0x19: abs, 0x1F: lambda a: -a, 0x20: lambda a: ~a}
_BINARY: Mapping[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b,
    _OP_DIV: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),  # towards zero, unlike Python's
    0x1C: lambda a, b: a - b,
    _OP_MOD: lambda a, b: a % b,
    0x1E: lambda a, b: a * b,
    0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b,
    _OP_SHL: lambda a, b: a << b,
    _OP_SHR: lambda a, b: a >> b,
    _OP_SHRA: lambda a, b: a >> b,
    0x27: lambda a, b: a ^ b,
    0x29: lambda a, b: a == b,
    0x2A: lambda a, b: a >= b,
    0x2B: lambda a, b: a > b,
    0x2C: lambda a, b: a <= b,
    0x2D: lambda a, b: a < b,
    0x2E: lambda a, b: a != b,
}
_OTHERS: Mapping[int, Callable[[_Machine], None]] = {
    0x03: _Machine.address,
    0x06: _Machine.deref,
    0x10: _Machine.constu,
    0x11: _Machine.consts,
    0x12: _Machine.dup,
    0x13: _Machine.drop,
    0x14: _Machine.over,
    0x15: _Machine.pick,
    0x16: _Machine.swap,
    0x17: _Machine.rot,
    0x23: _Machine.plus_uconst,
    0x28: _Machine.bra,
    0x2F: _Machine.skip,
    0x92: _Machine.bregx,
    0x94: _Machine.deref_size,
    0x96: _Machine.nop,
}
