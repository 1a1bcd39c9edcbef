"""Addresses of the operands of instructions, computed from a frame of their function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ompd.contract.memory import read_pointer
from ompd.debugger.memory import TargetMemory
from ompd.errors import OmpdError
from ompd.isa.instructions import Instruction, Operand, Processor


class Blocks(Protocol):
    """The blocks of a function."""

    def block(self, address: int) -> Sequence[Instruction]:
        """Return the block of an instruction."""


class OperandAddresses:
    """The addresses of operands in one frame.

    Only loads, copies and addresses are understood. That is enough for the pointers through which compilers access a
    construct's variables.

    :param pointers: the stack pointer and, if it is in use, the frame pointer of the frame at its call, by their
        registers; None if unknown
    """

    def __init__(
        self, memory: TargetMemory, processor: Processor, blocks: Blocks, pointers: Mapping[int, int | None]
    ) -> None:
        self._memory, self._processor, self._blocks, self._pointers = memory, processor, blocks, pointers
        self._addresses: dict[int, int | None] = {}  # by the address of the instruction

    def address_of(self, instruction: int) -> int | None:
        """Return the address of the operand of the instruction at an address, None if it is unknown."""
        if instruction not in self._addresses:
            self._addresses.update(self._operands_in(self._blocks.block(instruction)))
        return self._addresses[instruction]

    def _operands_in(self, block: Sequence[Instruction]) -> Iterator[tuple[int, int | None]]:
        # The address of each instruction of a block, with the address of its operand.
        registers = dict(self._pointers)
        for instruction in block:
            address = _address(instruction.operand, registers)
            yield instruction.address, address
            self._carry_out(instruction, address, registers)
            registers.update(self._pointers)

    def _carry_out(self, instruction: Instruction, address: int | None, registers: dict[int, int | None]) -> None:
        is_call = instruction.flow == "call"
        for register in self._processor.caller_saved if is_call else instruction.clobbers:
            registers.pop(register, None)
        if instruction.to is None:
            return
        value, is_word = None, instruction.width == self._memory.pointer_size
        if instruction.does == "load" and is_word and address is not None:
            try:
                value = read_pointer(self._memory, address)
            except OmpdError:
                value = None
        elif instruction.does == "copy" and instruction.source is not None and is_word:
            value = registers.get(instruction.source)
        elif instruction.does == "address":
            value = address
        registers[instruction.to] = value


def _address(operand: Operand | None, registers: Mapping[int, int | None]) -> int | None:
    if operand is None or operand.is_indexed:
        return None
    if operand.base is None:
        return operand.displacement
    base = registers.get(operand.base)
    return base + operand.displacement if base is not None else None
