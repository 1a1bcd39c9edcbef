"""The instructions of x86-64 and 32-bit x86 of which a routine that only loads consists: moves, comparisons, jumps and
a little arithmetic.

Opcodes, and how operands are written, are those of the *Intel 64 and IA-32 Architectures Software Developer's Manual*,
volume 2. What is not in the table below is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from ompd.isa.getters import State, Undecoded

_SP, _BP = 4, 5
_REX = range(0x40, 0x50)
_OPERAND_SIZE, _ADDRESS_SIZE = 0x66, 0x67
_CS, _DS, _ES, _SS, _FS, _GS = 0x2E, 0x3E, 0x26, 0x36, 0x64, 0x65
_REPEAT = (0xF2, 0xF3)
# Operations in the middle three bits of the opcodes 00 to 3F, and of ModRM after 80 to 83.
_ADD, _OR, _AND, _SUB, _XOR, _CMP = 0, 1, 4, 5, 6, 7


class X86:
    """Carries out one instruction after the other.

    :param pointer_size: 8 for x86-64, 4 for 32-bit x86
    """

    REGISTERS, STACK_POINTER, RESULT = 16, _SP, 0
    """How many registers the state has, and the numbers of two of them, as instructions have them."""

    def __init__(self, state: State, pointer_size: int) -> None:
        self._state = state
        self._is_64 = pointer_size == 8
        self._pointer_size = pointer_size
        self._segment = _FS if self._is_64 else _GS
        self._zero = self._sign = self._carry = self._overflow = False
        self._thread_local = False
        self._rex = 0
        self._size = 4

    def step(self) -> bool:
        """Carry out the instruction at the program counter; say whether the routine goes on after it.

        :raises Undecoded: if it is none of those that are known here
        """
        state = self._state
        start = state.pc
        self._rex, self._thread_local, self._size = 0, False, 4
        opcode, repeat = state.byte(), False
        while True:
            if opcode == self._segment:
                self._thread_local = True
            elif opcode == _OPERAND_SIZE:
                self._size = 2
            elif opcode in _REPEAT:
                repeat = True
            elif opcode not in (_CS, _DS):  # which compilers fill gaps with
                break
            opcode = state.byte()
        if self._is_64 and opcode in _REX:
            self._rex = opcode
            self._size = 8 if opcode & 8 else self._size
            opcode = state.byte()
        if opcode == 0x0F:
            opcode = 0x0F00 | state.byte()
        if repeat and opcode not in (0x0F1E, 0xC3, 0x90):
            raise Undecoded(f"{opcode:#x} with a prefix of repetition", start)
        if opcode == 0xC3:
            return state.returns()
        if not self._moves(opcode) and not self._computes(opcode) and not self._jumps(opcode):
            raise Undecoded(f"opcode {opcode:#x}", start)
        return True

    # Moves: how many bytes of them are read is all that a caller wants to know

    def _moves(self, opcode: int) -> bool:
        state, size = self._state, self._size
        if opcode == 0x8B:
            register, operand = self._operands(size)
            self._write(register, operand(), size)
        elif opcode == 0x89:
            register, _ = self._operands(size, writes=True)
            self._write(self._target, self._read(register, size), size)
        elif opcode in (0x0FB6, 0x0FB7, 0x0FBE, 0x0FBF):  # movzx, movsx
            narrow = 1 if not opcode & 1 else 2
            register, operand = self._operands(narrow)
            value = operand()
            self._write(register, value if opcode < 0x0FBE else _signed(value, narrow), size)
        elif opcode == 0x63 and self._is_64:  # movslq
            register, operand = self._operands(4)
            self._write(register, _signed(operand(), 4), size)
        elif opcode == 0x8D:  # lea
            register, _ = self._operands(size, reads=False)
            self._write(register, self._address, size)
        elif opcode == 0xA1:  # mov from an address that the instruction holds
            address = state.immediate(self._pointer_size)
            self._write(0, state.load(self._based(address), size), size)
        elif 0xB8 <= opcode <= 0xBF:
            self._write(opcode - 0xB8 | (self._rex & 1) << 3, state.immediate(size), size)
        elif opcode == 0xC7:
            operation, _ = self._operands(size, writes=True, follows=min(size, 4))
            if operation & 7:
                raise Undecoded(f"opcode 0xc7 of kind {operation & 7}", state.pc)
            self._write(self._target, _signed(state.immediate(min(size, 4)), min(size, 4)), size)
        elif 0x50 <= opcode <= 0x57:
            state.push(self._read(opcode - 0x50 | (self._rex & 1) << 3, self._pointer_size))
        elif 0x58 <= opcode <= 0x5F:
            self._write(opcode - 0x58 | (self._rex & 1) << 3, state.pop(), self._pointer_size)
        else:
            return False
        return True

    # Arithmetic and comparisons

    def _computes(self, opcode: int) -> bool:
        state, size = self._state, self._size
        if opcode < 0x40 and opcode & 7 in (1, 3):  # with a register and a register or memory
            register, operand = self._operands(size, reads=True)
            right, left = self._read(register, size), operand()
            to = self._target
            if opcode & 2:
                right, left, to = left, right, register
            self._apply(opcode >> 3, left, right, to, size)
        elif opcode < 0x40 and opcode & 7 == 5:  # eax and a constant
            right = _signed(state.immediate(min(size, 4)), min(size, 4))
            self._apply(opcode >> 3, self._read(0, size), right, 0, size)
        elif opcode in (0x80, 0x81, 0x83):
            size = 1 if opcode == 0x80 else size
            length = min(size, 4) if opcode == 0x81 else 1
            operation, operand = self._operands(size, follows=length)
            left = operand()
            self._apply(operation & 7, left, _signed(state.immediate(length), length), self._target, size)
        elif opcode in (0x84, 0x85):  # test
            size = 1 if opcode == 0x84 else size
            register, operand = self._operands(size)
            self._set_logic(self._read(register, size) & operand(), size)
        else:
            return False
        return True

    def _apply(self, operation: int, left: int, right: int, to: int | None, size: int) -> None:
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
            self._write(to, result, size)

    def _set_logic(self, result: int, size: int) -> None:
        self._zero, self._sign = result == 0, bool(result >> (8 * size - 1) & 1)
        self._carry = self._overflow = False

    # Jumps, and what depends on a comparison

    def _jumps(self, opcode: int) -> bool:
        state, size = self._state, self._size
        if 0x70 <= opcode <= 0x7F or 0x0F80 <= opcode <= 0x0F8F:
            length = 1 if opcode < 0x0F00 else 4
            distance = _signed(state.immediate(length), length)
            if self._holds(opcode & 15):
                state.jump(state.pc + distance)
        elif opcode in (0xEB, 0xE9):
            length = 1 if opcode == 0xEB else 4
            distance = _signed(state.immediate(length), length)
            state.jump(state.pc + distance)
        elif opcode == 0xE8:
            distance = _signed(state.immediate(4), 4)
            state.push(state.pc)
            state.jump(state.pc + distance)
        elif 0x0F40 <= opcode <= 0x0F4F:  # cmov reads its operand whether it moves it or not
            register, operand = self._operands(size)
            value = operand()
            self._write(register, value if self._holds(opcode & 15) else self._read(register, size), size)
        elif 0x0F90 <= opcode <= 0x0F9F:
            self._operands(1, writes=True)
            self._write(self._target, int(self._holds(opcode & 15)), 1)
        elif opcode in (0x0F1E, 0x0F1F):  # endbr64 and nop with an operand, which is not read
            self._operands(size, reads=False, any_form=True)
        elif opcode != 0x90:
            return False
        return True

    def _holds(self, condition: int) -> bool:
        less = self._sign != self._overflow
        found = (
            self._overflow,
            self._carry,
            self._zero,
            self._carry or self._zero,
            self._sign,
            None,  # parity is not kept
            less,
            less or self._zero,
        )[condition >> 1]
        if found is None:
            raise Undecoded("a condition of parity", self._state.pc)
        return found != bool(condition & 1)

    # Operands

    def _operands(
        self, size: int, *, reads: bool = True, writes: bool = False, any_form: bool = False, follows: int = 0
    ) -> tuple[int, Callable[[], int]]:
        # The register, and how to read the other operand: the register _target or memory at _address. *follows* bytes
        # of a constant stand behind it.
        state = self._state
        form = state.byte()
        mode, register, other = form >> 6, form >> 3 & 7 | (self._rex & 4) << 1, form & 7
        if mode == 3:
            number = other | (self._rex & 1) << 3
            self._target: int | None = number
            if not reads and not any_form:
                raise Undecoded("an address of a register", state.pc)
            return register, lambda: self._read(number, size)
        self._target = None
        self._address = address = self._address_of(mode, other, follows)
        if writes:
            raise Undecoded("a write to memory", state.pc)
        return register, lambda: state.load(self._based(address), size)

    def _address_of(self, mode: int, other: int, follows: int) -> int:
        state, size = self._state, self._pointer_size
        index, is_indexed = 0, other == 4
        if is_indexed:
            form = state.byte()
            number = form >> 3 & 7 | (self._rex & 2) << 2
            index = self._read(number, size) << (form >> 6) if number != _SP else 0
            other = form & 7
        if mode == 0 and other == _BP:  # no register: a distance from the program counter, or an address
            distance = _signed(state.immediate(4), 4)
            is_relative = self._is_64 and not is_indexed
            return self._wrapped((state.pc + follows if is_relative else index) + distance)
        length = (0, 1, 4)[mode]
        distance = _signed(state.immediate(length), length)
        return self._wrapped(self._read(other | (self._rex & 1) << 3, size) + index + distance)

    def _wrapped(self, address: int) -> int:
        return address & ((1 << 8 * self._pointer_size) - 1)

    def _based(self, address: int) -> int:
        return self._wrapped(address + self._state.thread_pointer) if self._thread_local else address

    # Registers

    def _read(self, number: int, size: int) -> int:
        if size == 1 and not self._rex and 4 <= number <= 7:  # ah, ch, dh, bh
            return self._state.registers[number - 4] >> 8 & 0xFF
        return self._state.registers[number] & ((1 << 8 * size) - 1)

    def _write(self, number: int | None, value: int, size: int) -> None:
        registers = self._state.registers
        if number is None:
            raise Undecoded("a write to memory", self._state.pc)
        value &= (1 << 8 * size) - 1
        if size >= 4:  # 32 bits clear those above
            registers[number] = value
        elif size == 1 and not self._rex and 4 <= number <= 7:
            registers[number - 4] = registers[number - 4] & ~0xFF00 | value << 8
        else:
            registers[number] = registers[number] & ~((1 << 8 * size) - 1) | value


def _signed(value: int, size: int) -> int:
    bits = 8 * size
    return value - (1 << bits) if bits and value >> (bits - 1) & 1 else value
