"""Call frame instructions: the rules that hold at an address (DWARF 5, 6.4, and GNU's extensions)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw

# DW_EH_PE encodings: format (low four bits), base (three bits), indirection (one bit)
PE_OMIT = 0xFF
PE_FORMAT, PE_APPLICATION, PE_INDIRECT = 0x0F, 0x70, 0x80
PE_ABSOLUTE, PE_PCREL, PE_DATAREL = 0x00, 0x10, 0x30
PE_ABSPTR, PE_ULEB128, PE_SLEB128 = 0x00, 0x01, 0x09
PE_FIXED = {0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
PE_POINTER = {4: "I", 8: "Q"}

# Bounds far above the needs of real programs. An entry that exceeds a bound is rejected, because executing it would
# only cost time.
_MAX_INSTRUCTIONS = 1 << 16
_MAX_REGISTERS = 512
_MAX_SAVED_STATES = 256


class Rule(NamedTuple):
    """A register rule (DWARF 5, 6.4.1): how to find a register of the caller.

    ``offset``: saved at CFA + value. ``val_offset``: the value is CFA + value. ``register``: saved in register number
    value. ``expression``: saved at the address that the expression yields. ``val_expression``: the expression yields
    the value. ``undefined``: not saved. ``same_value``: unchanged.
    """

    kind: Literal["offset", "val_offset", "register", "expression", "val_expression", "undefined", "same_value"]
    value: int = 0
    expression: bytes = b""


class CfaRule(NamedTuple):
    """The rule of the canonical frame address: the expression if it is not empty, else register plus offset."""

    register: int
    offset: int
    expression: bytes = b""


class Cie(NamedTuple):
    """A common information entry, decoded."""

    code_alignment: int
    data_alignment: int
    return_register: int
    pointer_encoding: int  # DW_EH_PE_* of its FDEs' addresses
    has_augmentation_data: bool
    is_signal_frame: bool
    instructions: bytes
    handlers_encoding: int = PE_OMIT  # DW_EH_PE_* of its FDEs' pointers to exception tables


class Program:
    """An interpreter of call frame instructions (DWARF 5, 6.4.2).

    :param location: the address of the first row
    :param registers: the initial rules, which ``DW_CFA_restore`` restores
    """

    def __init__(self, cie: Cie, location: int, cfa: CfaRule, registers: Mapping[int, Rule], pointer_size: int) -> None:
        self._pointer_size = pointer_size
        self._cie = cie
        self._initial = registers
        self._saved: list[tuple[CfaRule, dict[int, Rule]]] = []
        self.location = location
        self.cfa = cfa
        self.registers = dict(registers)

    def run(self, cursor: Cursor, pc: int) -> int | None:
        """Run to the row that covers *pc*, and return the start of the next row, None if there is none.

        :raises MalformedFile: if an instruction is unknown or invalid
        """
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
            elif opcode in _RULES:
                register = operand if opcode == dw.DW_CFA_OFFSET else cursor.uleb()
                self._set(cursor, register, _RULES[opcode](cursor, self._cie.data_alignment))
            elif opcode in _CFA_RULES:
                self.cfa = _CFA_RULES[opcode](cursor, self.cfa, self._cie.data_alignment)
            elif opcode in _STATES:
                _STATES[opcode](self, cursor)
            elif opcode in (dw.DW_CFA_RESTORE, dw.DW_CFA_RESTORE_EXTENDED):
                self._restore(cursor, operand if opcode == dw.DW_CFA_RESTORE else cursor.uleb())
            elif opcode == dw.DW_CFA_GNU_ARGS_SIZE:
                cursor.uleb()  # the size of pushed arguments, which only exceptions need
            elif opcode != dw.DW_CFA_NOP:
                cursor.fail(f"unknown call frame instruction {byte:#x}")
        cursor.fail("too many call frame instructions")

    def _advance(self, cursor: Cursor, opcode: int, delta: int) -> int:
        if opcode == dw.DW_CFA_SET_LOC:
            return read_pointer(cursor, self._cie.pointer_encoding, self._pointer_size)
        return self.location + delta * self._cie.code_alignment

    def _set(self, cursor: Cursor, register: int, rule: Rule) -> None:
        if len(self.registers) >= _MAX_REGISTERS and register not in self.registers:
            cursor.fail("rules for too many registers")
        self.registers[register] = rule

    def _restore(self, cursor: Cursor, register: int) -> None:
        if register in self._initial:
            self._set(cursor, register, self._initial[register])
        else:
            self.registers.pop(register, None)

    def remember_state(self, cursor: Cursor) -> None:
        if len(self._saved) >= _MAX_SAVED_STATES:
            cursor.fail("too many states to remember")
        self._saved.append((self.cfa, dict(self.registers)))

    def restore_state(self, cursor: Cursor) -> None:
        if not self._saved:
            cursor.fail("no state to restore")
        self.cfa, self.registers = self._saved.pop()


# Instructions that begin a new row, with the size of their operand in bytes
_ADVANCES = {
    dw.DW_CFA_ADVANCE_LOC: 0,
    dw.DW_CFA_SET_LOC: 0,
    dw.DW_CFA_ADVANCE_LOC1: 1,
    dw.DW_CFA_ADVANCE_LOC2: 2,
    dw.DW_CFA_ADVANCE_LOC4: 4,
}
# The register rule that each instruction sets. The register's number was already read.
_RULES: Mapping[int, Callable[[Cursor, int], Rule]] = {
    dw.DW_CFA_OFFSET: lambda cursor, factor: Rule("offset", cursor.uleb() * factor),
    dw.DW_CFA_OFFSET_EXTENDED: lambda cursor, factor: Rule("offset", cursor.uleb() * factor),
    dw.DW_CFA_OFFSET_EXTENDED_SF: lambda cursor, factor: Rule("offset", cursor.sleb() * factor),
    dw.DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED: lambda cursor, factor: Rule("offset", -cursor.uleb() * factor),
    dw.DW_CFA_VAL_OFFSET: lambda cursor, factor: Rule("val_offset", cursor.uleb() * factor),
    dw.DW_CFA_VAL_OFFSET_SF: lambda cursor, factor: Rule("val_offset", cursor.sleb() * factor),
    dw.DW_CFA_REGISTER: lambda cursor, _: Rule("register", cursor.uleb()),
    dw.DW_CFA_EXPRESSION: lambda cursor, _: Rule("expression", expression=cursor.take(cursor.uleb())),
    dw.DW_CFA_VAL_EXPRESSION: lambda cursor, _: Rule("val_expression", expression=cursor.take(cursor.uleb())),
    dw.DW_CFA_UNDEFINED: lambda cursor, _: Rule("undefined"),
    dw.DW_CFA_SAME_VALUE: lambda cursor, _: Rule("same_value"),
}
_CFA_RULES: Mapping[int, Callable[[Cursor, CfaRule, int], CfaRule]] = {
    dw.DW_CFA_DEF_CFA: lambda cursor, cfa, _: CfaRule(cursor.uleb(), cursor.uleb()),
    dw.DW_CFA_DEF_CFA_SF: lambda cursor, cfa, factor: CfaRule(cursor.uleb(), cursor.sleb() * factor),
    dw.DW_CFA_DEF_CFA_REGISTER: lambda cursor, cfa, _: CfaRule(cursor.uleb(), cfa.offset),
    dw.DW_CFA_DEF_CFA_OFFSET: lambda cursor, cfa, _: CfaRule(cfa.register, cursor.uleb()),
    dw.DW_CFA_DEF_CFA_OFFSET_SF: lambda cursor, cfa, factor: CfaRule(cfa.register, cursor.sleb() * factor),
    dw.DW_CFA_DEF_CFA_EXPRESSION: lambda cursor, cfa, _: CfaRule(0, 0, cursor.take(cursor.uleb())),
}
_STATES: Mapping[int, Callable[[Program, Cursor], None]] = {
    dw.DW_CFA_REMEMBER_STATE: Program.remember_state,
    dw.DW_CFA_RESTORE_STATE: Program.restore_state,
}


def fixed_format(encoding: int, pointer_size: int) -> str | None:
    """Return the :mod:`struct` letter of a ``DW_EH_PE_*`` encoding, None if its values have no fixed size."""
    if encoding & PE_INDIRECT:
        return None
    if encoding & PE_FORMAT == PE_ABSPTR:
        return PE_POINTER[pointer_size]
    return PE_FIXED.get(encoding & PE_FORMAT)


def read_pointer(cursor: Cursor, encoding: int, pointer_size: int, data_base: int | None = None) -> int:
    """Return the encoded pointer at *cursor* (LSB Core, 10.5). The cursor's base must be an address.

    :param data_base: the base of ``DW_EH_PE_datarel``, None if that encoding is not allowed
    :raises MalformedFile: if the pointer does not fit, or its encoding is unknown or indirect (code addresses are never
        indirect)
    """
    address = cursor.base + cursor.position
    letter = fixed_format(encoding, pointer_size)
    if letter is not None:
        raw = cursor.take(struct.calcsize("=" + letter))
        value = int.from_bytes(raw, cursor.byte_order, signed=letter.islower())
    elif encoding & (PE_INDIRECT | PE_FORMAT) == PE_ULEB128:
        value = cursor.uleb()
    elif encoding & (PE_INDIRECT | PE_FORMAT) == PE_SLEB128:
        value = cursor.sleb()
    else:
        cursor.fail(f"unknown pointer encoding {encoding:#x}")
    application = encoding & PE_APPLICATION
    if application == PE_PCREL:
        value += address
    elif application == PE_DATAREL and data_base is not None:
        value += data_base
    elif application != PE_ABSOLUTE:
        cursor.fail(f"unknown pointer encoding {encoding:#x}")
    return value & (1 << 8 * pointer_size) - 1
