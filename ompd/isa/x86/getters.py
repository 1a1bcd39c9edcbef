"""Interpret x86-64 and 32-bit x86 routines that only load: moves, comparisons, jumps and a little arithmetic. All other
instructions are refused.

Opcodes follow the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2. 0x0Fxx is an opcode after
the byte 0F.
"""

from __future__ import annotations

from ompd.isa.getters import State, Undecoded
from ompd.isa.x86.encoding import CS, DS, FS, GS, MAX_SIZE, OPERAND_SIZE, REPEATS, SP, Encoded, Incomplete

_MOVES = frozenset(
    (0x89, 0x8B, 0x8D, 0xA1, *range(0xB8, 0xC0), 0xC7, *range(0x50, 0x60), 0x0FB6, 0x0FB7, 0x0FBE, 0x0FBF)
)
_MOVSXD = 0x63  # not in 32-bit code
_COMPUTES = frozenset((*(opcode for opcode in range(0x40) if opcode & 7 in (1, 3, 5)), 0x80, 0x81, 0x83, 0x84, 0x85))
_JUMPS = frozenset((*range(0x70, 0x80), *range(0x0F80, 0x0F90), 0xE8, 0xE9, 0xEB))
_CHOOSES = frozenset((*range(0x0F40, 0x0F50), *range(0x0F90, 0x0FA0)))
_RETURN, _NOP, _ENDBR, _LONG_NOP = 0xC3, 0x90, 0x0F1E, 0x0F1F
_OPCODES_32 = _MOVES | _COMPUTES | _JUMPS | _CHOOSES | {_RETURN, _NOP, _ENDBR, _LONG_NOP}
_OPCODES_64 = _OPCODES_32 | {_MOVSXD}
_PREFIXES = frozenset((OPERAND_SIZE, *REPEATS, CS, DS))  # compilers fill gaps with the last two
_REPEATED = (_ENDBR, _RETURN, _NOP)  # a repeat prefix makes these other harmless instructions, or changes nothing
# Operations, by the middle three bits of the opcodes 00 to 3F, and of ModRM after the opcodes 80 to 83.
_ADD, _OR, _AND, _SUB, _XOR, _CMP = 0, 1, 4, 5, 6, 7


class X86:
    """Interprets instructions one by one.

    :param pointer_size: 8 for x86-64, 4 for 32-bit x86
    """

    REGISTERS, STACK_POINTER, RESULT = 16, SP, 0
    """The number of registers of the state, and the numbers of the stack pointer and the result register in
    instructions.
    """

    def __init__(self, state: State, pointer_size: int) -> None:
        self._state, self._pointer_size = state, pointer_size
        self._is_64 = pointer_size == 8
        self._thread_segment = FS if self._is_64 else GS
        self._opcodes = _OPCODES_64 if self._is_64 else _OPCODES_32
        self._zero = self._sign = self._carry = self._overflow = False

    def step(self) -> bool:
        """Interpret the instruction at the program counter. Return whether the routine continues.

        :raises Undecoded: if the instruction is not supported
        """
        state = self._state
        encoded = self._read()
        state.advance(encoded.size)
        opcode = encoded.opcode
        if opcode == _RETURN:
            return state.returns()
        if opcode in _MOVES or opcode == _MOVSXD:
            self._move(encoded)
        elif opcode in _COMPUTES:
            self._compute(encoded)
        elif opcode in _JUMPS:
            self._jump(encoded)
        elif opcode in _CHOOSES:
            self._choose(encoded)
        return True

    def _read(self) -> Encoded:
        # Request no more code than the instruction needs: the next page may be one whose code must not be followed.
        state = self._state
        code = state.code(state.pc)
        while True:
            encoded = Encoded(code, 0, state.pc, is_64=self._is_64)
            try:
                encoded.read_opcode()
                self._check_opcode(encoded)
                encoded.read_operands()
            except Incomplete:
                if len(code) >= MAX_SIZE:
                    raise Undecoded("an instruction of too many bytes", state.pc) from None
                code += state.code(state.pc + len(code))
            else:
                return encoded

    def _check_opcode(self, encoded: Encoded) -> None:
        opcode, is_repeated = encoded.opcode, False
        for prefix in encoded.prefixes:
            if prefix not in _PREFIXES and prefix != self._thread_segment:
                opcode = prefix
                break
            is_repeated |= prefix in REPEATS
        if is_repeated and opcode not in _REPEATED:
            raise Undecoded(f"{opcode:#x} with a prefix of repetition", encoded.address)
        if opcode not in self._opcodes:
            raise Undecoded(f"opcode {opcode:#x}", encoded.address)

    # Moves

    def _move(self, e: Encoded) -> None:
        state, opcode, size = self._state, e.opcode, e.width
        if opcode == 0x8B:
            self._write(e, e.reg, self._operand(e, size), size)
        elif opcode == 0x89:
            self._write(e, self._target(e), self._register(e, e.reg, size), size)
        elif opcode in (0x0FB6, 0x0FB7, 0x0FBE, 0x0FBF):  # movzx, movsx
            narrow = 1 if not opcode & 1 else 2
            value = self._operand(e, narrow)
            self._write(e, e.reg, value if opcode < 0x0FBE else _signed(value, narrow), size)
        elif opcode == _MOVSXD:
            self._write(e, e.reg, _signed(self._operand(e, 4), 4), size)
        elif opcode == 0x8D:  # lea
            if e.mode == 3:
                raise Undecoded("an address of a register", e.operand_end)
            self._write(e, e.reg, self._address(e), size)
        elif opcode == 0xA1:  # mov from an address in the instruction
            self._write(e, 0, state.load(self._based(e, self._wrapped(e.constant)), size), size)
        elif 0xB8 <= opcode <= 0xBF:
            self._write(e, opcode - 0xB8 | (e.rex & 1) << 3, e.constant, size)
        elif opcode == 0xC7:
            to = self._target(e)
            if e.reg & 7:
                raise Undecoded(f"opcode 0xc7 of kind {e.reg & 7}", e.operand_end)
            self._write(e, to, e.constant, size)
        elif opcode < 0x58:
            state.push(self._register(e, opcode - 0x50 | (e.rex & 1) << 3, self._pointer_size))
        else:
            self._write(e, opcode - 0x58 | (e.rex & 1) << 3, state.pop(), self._pointer_size)

    # Arithmetic and comparisons

    def _compute(self, e: Encoded) -> None:
        opcode, size = e.opcode, e.width
        if opcode >= 0x84:  # test
            size = 1 if opcode == 0x84 else size
            self._set_logic(self._register(e, e.reg, size) & self._operand(e, size), size)
        elif opcode >= 0x80:
            size = 1 if opcode == 0x80 else size
            self._apply(e, e.reg & 7, self._operand(e, size), e.constant, e.rm if e.mode == 3 else None, size)
        elif opcode & 7 == 5:  # eax and a constant
            self._apply(e, opcode >> 3, self._register(e, 0, size), e.constant, 0, size)
        else:
            register, operand = self._register(e, e.reg, size), self._operand(e, size)
            if opcode & 2:
                self._apply(e, opcode >> 3, register, operand, e.reg, size)
            else:
                self._apply(e, opcode >> 3, operand, register, e.rm if e.mode == 3 else None, size)

    def _apply(self, e: Encoded, operation: int, left: int, right: int, to: int | None, size: int) -> None:
        mask = (1 << 8 * size) - 1
        right &= mask
        if operation in (_OR, _AND, _XOR):
            result = {_OR: left | right, _AND: left & right, _XOR: left ^ right}[operation]
            self._set_logic(result, size)
        elif operation in (_ADD, _SUB, _CMP):
            result = (left + right if operation == _ADD else left - right) & mask
            self._set_logic(result, size)
            self._carry = result < left if operation == _ADD else left < right
            same = (left ^ right) >> (8 * size - 1) == 0
            changed = (left ^ result) >> (8 * size - 1) == 1
            self._overflow = changed and same == (operation == _ADD)
        else:
            raise Undecoded(f"arithmetic of kind {operation}", self._state.pc)
        if operation != _CMP:
            if to is None:
                raise Undecoded("a write to memory", self._state.pc)
            self._write(e, to, result, size)

    def _set_logic(self, result: int, size: int) -> None:
        self._zero, self._sign = result == 0, bool(result >> (8 * size - 1) & 1)
        self._carry = self._overflow = False

    # Jumps, and conditional moves and sets

    def _jump(self, e: Encoded) -> None:
        state, opcode = self._state, e.opcode
        if opcode == 0xE8:
            state.push(state.pc)
        elif opcode not in (0xE9, 0xEB) and not self._holds(opcode & 15):
            return
        state.jump(state.pc + e.constant)

    def _choose(self, e: Encoded) -> None:
        size, condition = e.width, e.opcode & 15
        if e.opcode < 0x0F50:  # cmov reads its operand even if it does not move it
            value = self._operand(e, size)
            self._write(e, e.reg, value if self._holds(condition) else self._register(e, e.reg, size), size)
        else:
            to = self._target(e)
            self._write(e, to, int(self._holds(condition)), 1)

    def _holds(self, condition: int) -> bool:
        less = self._sign != self._overflow
        holds = (
            self._overflow,
            self._carry,
            self._zero,
            self._carry or self._zero,
            self._sign,
            None,  # parity is not tracked
            less,
            less or self._zero,
        )[condition >> 1]
        if holds is None:
            raise Undecoded("a condition of parity", self._state.pc)
        return holds != bool(condition & 1)

    # Operands

    def _operand(self, e: Encoded, size: int) -> int:
        if e.mode == 3:
            return self._register(e, e.rm, size)
        return self._state.load(self._based(e, self._address(e)), size)

    def _target(self, e: Encoded) -> int:
        if e.mode != 3:
            raise Undecoded("a write to memory", e.operand_end)
        return e.rm

    def _address(self, e: Encoded) -> int:
        base = self._state.registers[e.base] if e.base is not None else e.end if e.is_relative else 0
        index = self._state.registers[e.index] << e.scale if e.index is not None else 0
        return self._wrapped(base + index + e.displacement)

    def _wrapped(self, address: int) -> int:
        return address & ((1 << 8 * self._pointer_size) - 1)

    def _based(self, e: Encoded, address: int) -> int:
        return self._wrapped(address + self._state.thread_pointer) if e.is_based else address

    # Registers

    def _register(self, e: Encoded, number: int, size: int) -> int:
        if size == 1 and not e.rex and 4 <= number <= 7:  # ah, ch, dh, bh
            return self._state.registers[number - 4] >> 8 & 0xFF
        return self._state.registers[number] & ((1 << 8 * size) - 1)

    def _write(self, e: Encoded, number: int, value: int, size: int) -> None:
        registers = self._state.registers
        value &= (1 << 8 * size) - 1
        if size >= 4:  # writing 32 bits clears the upper bits
            registers[number] = value
        elif size == 1 and not e.rex and 4 <= number <= 7:
            registers[number - 4] = registers[number - 4] & ~0xFF00 | value << 8
        else:
            registers[number] = registers[number] & ~((1 << 8 * size) - 1) | value


def _signed(value: int, size: int) -> int:
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value
