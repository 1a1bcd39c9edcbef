"""The operands that a branch depends on: those of its comparison, and those of the instructions that compute them.

Only instructions of the branch's own statement count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class Slice:
    """The instructions on which a branch depends.

    :param blocks: the function's blocks by their addresses
    :param address_of: returns the address of an instruction's operand in memory, None if it is unknown
    :param leads_to: returns the called function, None if the code does not show it
    :param parameters: returns how many parameters the function at an address has, None if that is unknown
    """

    def __init__(
        self,
        blocks: Mapping[int, Sequence[Instruction]],
        processor: Processor,
        address_of: Callable[[int], int | None],
        leads_to: Callable[[Instruction], int | None],
        parameters: Callable[[int], int | None],
    ) -> None:
        self._blocks, self._processor = blocks, processor
        self._address_of, self._leads_to, self._parameters = address_of, leads_to, parameters
        self._reads: dict[int, Read] = {}
        self._calls: dict[int, int | None] = {}

    def of(
        self,
        leader: int,
        before: Mapping[int, Sequence[int]],
        is_wanted: Callable[[int], bool],
        is_earlier: Callable[[int], bool],
    ) -> Condition:
        """Return the operands that the branch at the end of the block *leader* depends on.

        :param before: the predecessors of each block
        :param is_wanted: returns whether the instruction at an address belongs to the branch's statement
        :param is_earlier: returns whether the instruction at an address belongs to an earlier statement; calls of
            earlier statements are ignored
        """
        # The registers and memory addresses whose values the branch depends on, at the end of each block.
        needed: dict[int, tuple[set[int], set[int]]] = {leader: ({FLAGS}, set())}
        order = [leader]
        for each in order:
            registers, addresses = needed[each]
            self._follow(self._blocks[each], registers, addresses, is_earlier)
            for other in before.get(each, ()):
                last = self._blocks[other][-1]
                if other in needed or len(order) == _MAX_BLOCKS or not is_wanted(last.address):
                    continue
                # A branch before this block is a part of the condition, as in a && b.
                flags = {FLAGS} if last.flow == "branch" else set()
                needed[other] = registers | flags, set(addresses)
                order.append(other)
        return Condition(
            tuple(self._reads[at] for at in sorted(self._reads)), tuple(self._calls[at] for at in sorted(self._calls))
        )

    def _follow(
        self,
        block: Sequence[Instruction],
        registers: set[int],
        addresses: set[int],
        is_earlier: Callable[[int], bool],
    ) -> None:
        # Goes backwards: updates registers and addresses to those needed at the beginning of the block.
        for number in range(len(block) - 1, -1, -1):
            instruction = block[number]
            if instruction.flow == "call":
                self._call(block, number, registers, is_earlier)
            elif instruction.flow == "next":
                self._next(instruction, registers, addresses)

    def _call(
        self, block: Sequence[Instruction], number: int, registers: set[int], is_earlier: Callable[[int], bool]
    ) -> None:
        processor, instruction = self._processor, block[number]
        is_needed = processor.result in registers or processor.first_vector in registers
        registers.difference_update(processor.lost)
        registers.difference_update({register for register in registers if register >= processor.first_vector})
        if not is_needed or is_earlier(instruction.address):
            return
        target = self._leads_to(instruction)
        self._calls[instruction.address] = target
        count = self._parameters(target) if target is not None else None
        passed = set(_written_since_call(block, number))
        arguments = processor.arguments[:count] if count is not None else processor.arguments
        # With debug information, the called function's parameters are known. A parameter's register that the block has
        # not set still holds the caller's own parameter.
        own = {register for register in arguments if register in passed or count is not None}
        registers.update(own)
        base = {instruction.source} if instruction.source is not None else set()
        self._note(instruction, set(), own | base)

    def _next(self, instruction: Instruction, registers: set[int], addresses: set[int]) -> None:
        written = {*instruction.clobbers, *((instruction.to,) if instruction.to is not None else ())}
        if not instruction.keeps_flags:
            written.add(FLAGS)
        address = self._address_of(instruction.address)
        vectors = {register for register in instruction.reads if register >= self._processor.first_vector}
        is_there = address is not None and address in addresses
        is_stored = is_there and (instruction.does == "store" or (instruction.stores and bool(vectors)))
        is_kept = is_there and instruction.stores
        # Vector arithmetic writes a register that it reads, unless it stores a vector or converts one to a number.
        is_of_vectors = bool(vectors & registers) and not instruction.stores and not instruction.clobbers
        if not (written & registers or is_kept or is_stored or is_of_vectors):
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
        if is_stored and address is not None:
            addresses.discard(address)
        registers.update(used)
        named: set[int] = set()
        if instruction.operand is not None and not is_stored:
            if address is not None:
                named.add(address)
                addresses.add(address)  # even if only the address is passed on, the value there counts as needed
            base = {
                register for register in (instruction.operand.base, instruction.operand.also) if register is not None
            }
            if address is not None:
                # Only a pointer that may differ between threads is of interest, not the stack and frame pointers.
                base -= {self._processor.stack_pointer, self._processor.frame_pointer}
            used |= base
            registers |= base
        self._note(instruction, named, used)

    def _note(self, instruction: Instruction, addresses: set[int], registers: set[int]) -> None:
        fixed = (self._processor.stack_pointer, FLAGS)
        kept = frozenset(registers.difference(fixed))
        old = self._reads.get(instruction.address, Read(instruction.address, frozenset(), frozenset()))
        self._reads[instruction.address] = Read(instruction.address, old.addresses | addresses, old.registers | kept)


def _written_since_call(block: Sequence[Instruction], number: int) -> Iterator[int]:
    for instruction in reversed(block[:number]):
        if instruction.flow == "call":
            return
        yield from instruction.clobbers
        if instruction.to is not None:
            yield instruction.to
