"""DWARF expressions (DWARF 5, 2.5) with the operations that call frame information may use (6.4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ompd.binary.cursor import ByteOrder, Cursor
from ompd.binary.dwarf import constants as dw
from ompd.errors import Unavailable

# Expressions of real programs have some ten operations. These limits stop endless loops.
_MAX_STEPS = 1000
_MAX_STACK = 64


def evaluate(
    expression: bytes,
    registers: Mapping[int, int],
    read: Callable[[int, int], bytes],
    *,
    initial: tuple[int, ...] = (),
    pointer_size: int = 8,
    byte_order: ByteOrder = "little",
) -> int:
    """Return the value on top of the stack after a DWARF expression of call frame information.

    :param registers: the frame's registers by DWARF number
    :param read: returns the target's bytes, given an address and a size
    :param initial: the initial stack, which for register rules holds the CFA
    :raises MalformedFile: if the expression is malformed, does not end soon, or has an operation that 6.4.2 does not
        allow
    :raises Unavailable: if the expression uses a register that is not in *registers*
    :raises MemoryFault: as *read* does
    """
    machine = StackMachine(
        expression, registers, read, initial=initial, pointer_size=pointer_size, byte_order=byte_order
    )
    machine.run()
    return machine.pop()


class StackMachine:
    """A stack machine of address-sized words, with the operations that call frame information may use."""

    def __init__(
        self,
        expression: bytes,
        registers: Mapping[int, int],
        read: Callable[[int, int], bytes],
        *,
        initial: tuple[int, ...] = (),
        pointer_size: int = 8,
        byte_order: ByteOrder = "little",
    ) -> None:
        self.cursor = Cursor(expression, byte_order, what="DWARF expression")
        self._registers = registers
        self._read = read
        self._stack = list(initial)
        self.size = pointer_size
        self._bits = 8 * pointer_size
        self._byte_order = byte_order

    def run(self) -> None:
        """Execute all operations.

        :raises MalformedFile: if the operations do not end soon, or one is unknown or does not fit
        """
        cursor = self.cursor
        for _ in range(_MAX_STEPS):
            if cursor.at_end:
                return
            self.step(cursor.byte())
            if len(self._stack) > _MAX_STACK:
                cursor.fail("its stack grows too large")
        cursor.fail("does not end soon")

    def step(self, opcode: int) -> None:
        """Execute the operation *opcode*, whose operands are at the cursor."""
        cursor = self.cursor
        if dw.DW_OP_LIT0 <= opcode <= dw.DW_OP_LIT31:
            self.push(opcode - dw.DW_OP_LIT0)
        elif dw.DW_OP_BREG0 <= opcode <= dw.DW_OP_BREG31:
            self.push(self.register(opcode - dw.DW_OP_BREG0) + cursor.sleb())
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

    @property
    def is_empty(self) -> bool:
        """Whether the stack is empty."""
        return not self._stack

    def push(self, value: int) -> None:
        """Push a word. The high bits of a larger value are dropped."""
        self._stack.append(value & ((1 << self._bits) - 1))

    def pop(self, depth: int = 0) -> int:
        """Remove and return the word *depth* below the top of the stack."""
        if depth >= len(self._stack):
            self.cursor.fail("takes more from its stack than is there")
        return self._stack.pop(-1 - depth)

    def _signed(self, value: int) -> int:
        return value - (1 << self._bits) if value >> (self._bits - 1) else value

    def register(self, number: int) -> int:
        """Return the value of a register in this frame, by its DWARF number."""
        value = self._registers.get(number)
        if value is None:
            raise Unavailable(f"the value of register {number} is unknown in this frame")
        return value

    def _binary(self, opcode: int) -> None:
        right, left = self.pop(), self.pop()
        if opcode in (dw.DW_OP_DIV, dw.DW_OP_MOD) and right == 0:
            self.cursor.fail("divides by zero")
        if opcode in (dw.DW_OP_SHL, dw.DW_OP_SHR, dw.DW_OP_SHRA):
            right = min(right, self._bits)
        elif opcode not in _UNSIGNED:
            right = self._signed(right)
        if opcode not in _UNSIGNED:
            left = self._signed(left)
        self.push(_BINARY[opcode](left, right))

    def deref(self) -> None:
        self.push(int.from_bytes(self._read(self.pop(), self.size), self._byte_order))

    def deref_size(self) -> None:
        size = self.cursor.byte()
        if not 0 < size <= self.size:
            self.cursor.fail(f"reads a word of {size} bytes")
        self.push(int.from_bytes(self._read(self.pop(), size), self._byte_order))

    def pick(self, depth: int | None = None) -> None:
        depth = self.cursor.byte() if depth is None else depth
        value = self.pop(depth)
        self._stack.insert(len(self._stack) - depth, value)
        self.push(value)

    def rot(self) -> None:
        # The top goes below the other two.
        top, second, third = self.pop(), self.pop(), self.pop()
        self._stack += [top, third, second]

    def skip(self) -> None:
        distance = self.cursor.signed(2)
        target = self.cursor.position + distance
        if not 0 <= target <= self.cursor.end:
            self.cursor.fail("jumps out of itself")
        self.cursor.position = target

    def bra(self) -> None:
        if self.pop():
            self.skip()
        else:
            self.cursor.take(2)


_UNSIGNED = frozenset((dw.DW_OP_MOD, dw.DW_OP_SHL, dw.DW_OP_SHR))
_CONSTANTS = {
    dw.DW_OP_CONST1U: (1, False),
    dw.DW_OP_CONST1S: (1, True),
    dw.DW_OP_CONST2U: (2, False),
    dw.DW_OP_CONST2S: (2, True),
    dw.DW_OP_CONST4U: (4, False),
    dw.DW_OP_CONST4S: (4, True),
    dw.DW_OP_CONST8U: (8, False),
    dw.DW_OP_CONST8S: (8, True),
}
_UNARY: Mapping[int, Callable[[int], int]] = {dw.DW_OP_ABS: abs, dw.DW_OP_NEG: lambda a: -a, dw.DW_OP_NOT: lambda a: ~a}
_BINARY: Mapping[int, Callable[[int, int], int]] = {
    dw.DW_OP_AND: lambda a, b: a & b,
    dw.DW_OP_DIV: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),  # towards zero, unlike Python's
    dw.DW_OP_MINUS: lambda a, b: a - b,
    dw.DW_OP_MOD: lambda a, b: a % b,
    dw.DW_OP_MUL: lambda a, b: a * b,
    dw.DW_OP_OR: lambda a, b: a | b,
    dw.DW_OP_PLUS: lambda a, b: a + b,
    dw.DW_OP_SHL: lambda a, b: a << b,
    dw.DW_OP_SHR: lambda a, b: a >> b,
    dw.DW_OP_SHRA: lambda a, b: a >> b,
    dw.DW_OP_XOR: lambda a, b: a ^ b,
    dw.DW_OP_EQ: lambda a, b: a == b,
    dw.DW_OP_GE: lambda a, b: a >= b,
    dw.DW_OP_GT: lambda a, b: a > b,
    dw.DW_OP_LE: lambda a, b: a <= b,
    dw.DW_OP_LT: lambda a, b: a < b,
    dw.DW_OP_NE: lambda a, b: a != b,
}
_OTHERS: Mapping[int, Callable[[StackMachine], object]] = {
    dw.DW_OP_ADDR: lambda machine: machine.push(machine.cursor.unsigned(machine.size)),
    dw.DW_OP_DEREF: StackMachine.deref,
    dw.DW_OP_CONSTU: lambda machine: machine.push(machine.cursor.uleb()),
    dw.DW_OP_CONSTS: lambda machine: machine.push(machine.cursor.sleb()),
    dw.DW_OP_DUP: lambda machine: machine.pick(0),
    dw.DW_OP_DROP: StackMachine.pop,
    dw.DW_OP_OVER: lambda machine: machine.pick(1),
    dw.DW_OP_PICK: StackMachine.pick,
    dw.DW_OP_SWAP: lambda machine: machine.push(machine.pop(1)),
    dw.DW_OP_ROT: StackMachine.rot,
    dw.DW_OP_PLUS_UCONST: lambda machine: machine.push(machine.pop() + machine.cursor.uleb()),
    dw.DW_OP_BRA: StackMachine.bra,
    dw.DW_OP_SKIP: StackMachine.skip,
    dw.DW_OP_BREGX: lambda machine: machine.push(machine.register(machine.cursor.uleb()) + machine.cursor.sleb()),
    dw.DW_OP_DEREF_SIZE: StackMachine.deref_size,
    dw.DW_OP_NOP: lambda machine: None,
}
