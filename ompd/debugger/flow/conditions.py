"""The operands that a branch depends on: those of its comparison, and those of the instructions that compute them.

Only instructions of the branch's own statement count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ompd.debugger.flow.call_targets import CallTargets
from ompd.debugger.flow.operands import OperandAddresses
from ompd.isa.instructions import FLAGS, Instruction, Processor

_MAX_BLOCKS = 16


class Read(NamedTuple):
    """The operands of the instruction at ``at``: ``addresses`` in memory, and the numbers of ``registers``.

    The numbers are those of unwind tables. The instruction reads the values that the registers have before it.
    """

    at: int
    addresses: frozenset[int]
    registers: frozenset[int]


class Condition(NamedTuple):
    """The operands that a branch depends on. ``calls`` are the functions whose results are compared, in order; None
    stands for a call by a pointer.
    """

    reads: tuple[Read, ...]
    calls: tuple[int | None, ...]


class Statement(Protocol):
    """The statement of a branch, by the lines of the source."""

    def contains(self, address: int) -> bool:
        """Return whether the instruction at an address belongs to this statement."""

    def follows(self, address: int) -> bool:
        """Return whether the instruction at an address belongs to an earlier statement."""

    def parameters(self, function: int) -> int | None:
        """Return the number of parameters of the function at an address, None if it is unknown."""


class Slice:
    """The instructions of a *statement* on which its branch depends.

    :param blocks: the function's blocks by their addresses
    :param operands: the addresses of operands in memory
    :param targets: the targets of calls
    """

    def __init__(
        self,
        blocks: Mapping[int, Sequence[Instruction]],
        processor: Processor,
        operands: OperandAddresses,
        targets: CallTargets,
        statement: Statement,
    ) -> None:
        self._blocks, self._processor = blocks, processor
        self._operands, self._targets, self._statement = operands, targets, statement
        self._reads: dict[int, Read] = {}
        self._calls: dict[int, int | None] = {}

    def condition(self, leader: int, before: Mapping[int, Sequence[int]]) -> Condition:
        """Return the operands that the branch at the end of the block *leader* depends on.

        Calls of earlier statements are ignored.

        :param before: the predecessors of each block
        """
        # The registers and memory addresses whose values the branch depends on, at the end of each block.
        needed: dict[int, tuple[set[int], set[int]]] = {leader: ({FLAGS}, set())}
        order = [leader]
        for block in order:
            registers, addresses = needed[block]
            self._follow(self._blocks[block], registers, addresses)
            for predecessor in before.get(block, ()):
                last = self._blocks[predecessor][-1]
                if predecessor in needed or len(order) == _MAX_BLOCKS or not self._statement.contains(last.address):
                    continue
                # A branch before this block is a part of the condition, as in a && b.
                flags = {FLAGS} if last.flow == "branch" else set()
                needed[predecessor] = registers | flags, set(addresses)
                order.append(predecessor)
        reads = tuple(self._reads[address] for address in sorted(self._reads))
        return Condition(reads, tuple(self._calls[address] for address in sorted(self._calls)))

    def _follow(self, block: Sequence[Instruction], registers: set[int], addresses: set[int]) -> None:
        # Goes backwards: updates registers and addresses to those needed at the beginning of the block.
        for number in range(len(block) - 1, -1, -1):
            instruction = block[number]
            if instruction.flow == "call":
                self._call(block, number, registers)
            elif instruction.flow == "next":
                self._next(instruction, registers, addresses)

    def _call(self, block: Sequence[Instruction], number: int, registers: set[int]) -> None:
        processor, instruction = self._processor, block[number]
        is_needed = processor.result in registers or processor.first_vector in registers
        registers.difference_update(processor.caller_saved)
        registers.difference_update({register for register in registers if register >= processor.first_vector})
        if not is_needed or self._statement.follows(instruction.address):
            return
        target = self._targets.target(instruction)
        self._calls[instruction.address] = target
        count = self._statement.parameters(target) if target is not None else None
        arguments = set(processor.arguments[:count] if count is not None else processor.arguments)
        # With debug information, the called function's parameters are known. A parameter's register that the block has
        # not set still holds the caller's own parameter.
        if count is None:
            arguments &= set(_written_since_call(block, number))
        registers.update(arguments)
        pointer = {instruction.source} if instruction.source is not None else set()
        self._note(instruction, set(), arguments | pointer)

    def _next(self, instruction: Instruction, registers: set[int], addresses: set[int]) -> None:
        written = {*instruction.clobbers, *((instruction.to,) if instruction.to is not None else ())}
        if not instruction.keeps_flags:
            written.add(FLAGS)
        address = self._operands.address_of(instruction.address)
        vectors = {register for register in instruction.reads if register >= self._processor.first_vector}
        is_needed = address is not None and address in addresses
        is_overwritten = is_needed and (instruction.does == "store" or (instruction.stores and bool(vectors)))
        is_changed = is_needed and instruction.stores
        # Vector arithmetic writes a register that it reads, unless it stores a vector or converts one to a number.
        is_vector_result = bool(vectors & registers) and not instruction.stores and not instruction.clobbers
        if not (written & registers or is_changed or is_overwritten or is_vector_result):
            return
        used = {
            *instruction.reads,
            *instruction.compares,
            *((instruction.source,) if instruction.source is not None else ()),
        }
        if instruction.does in ("add", "flip") and instruction.to is not None:
            used.add(instruction.to)
        if instruction.does == "set":
            used.add(FLAGS)
        registers.difference_update(written)
        if is_overwritten and address is not None:
            addresses.discard(address)
        registers.update(used)
        read: set[int] = set()
        if instruction.operand is not None and not is_overwritten:
            if address is not None:
                read.add(address)
                addresses.add(address)  # even if only the address is passed on, the value there counts as needed
            base = {
                register for register in (instruction.operand.base, instruction.operand.also) if register is not None
            }
            if address is not None:
                # Only a pointer that may differ between threads is of interest, not the stack and frame pointers.
                base -= {self._processor.stack_pointer, self._processor.frame_pointer}
            used |= base
            registers |= base
        self._note(instruction, read, used)

    def _note(self, instruction: Instruction, addresses: set[int], registers: set[int]) -> None:
        registers = registers.difference((self._processor.stack_pointer, FLAGS))
        earlier = self._reads.get(instruction.address, Read(instruction.address, frozenset(), frozenset()))
        self._reads[instruction.address] = Read(
            instruction.address, earlier.addresses | addresses, earlier.registers | registers
        )


def _written_since_call(block: Sequence[Instruction], number: int) -> Iterator[int]:
    for instruction in reversed(block[:number]):
        if instruction.flow == "call":
            return
        yield from instruction.clobbers
        if instruction.to is not None:
            yield instruction.to
