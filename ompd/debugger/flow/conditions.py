"""What a branch depends on: from its comparison backwards, through the instructions of the same statement that have
made what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ompd.isa.instructions import FLAGS, Instruction, Processor

_MAX_BLOCKS = 16


class Read(NamedTuple):
    """What the instruction at ``at`` names: ``addresses`` of memory, and ``registers`` by their numbers in unwind
    tables, as they are before it.
    """

    at: int
    addresses: frozenset[int]
    registers: frozenset[int]


class Condition(NamedTuple):
    """What a branch depends on. ``calls`` are the functions whose results are compared, in order, None for one that is
    called by a pointer.
    """

    reads: tuple[Read, ...]
    calls: tuple[int | None, ...]


class Slice:
    """The instructions on which a branch depends.

    :param blocks: the function's blocks by where they begin
    :param address_of: returns where the operand in memory of an instruction is, None if that is unknown
    :param leads_to: returns the function that a call leads to, None if the code does not say
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
        """Return what the branch at the end of the block *leader* depends on.

        :param before: the blocks from which each block is reached
        :param is_wanted: says by its address whether an instruction is of the branch's statement
        :param is_earlier: says whether one is of a statement before that, whose calls are not looked at
        """
        # What is needed at the end of each block: registers, and addresses of memory.
        needed: dict[int, tuple[set[int], set[int]]] = {leader: ({FLAGS}, set())}
        order = [leader]
        for each in order:
            registers, addresses = needed[each]
            self._follow(self._blocks[each], registers, addresses, is_earlier)
            for other in before.get(each, ()):
                last = self._blocks[other][-1]
                if other in needed or len(order) == _MAX_BLOCKS or not is_wanted(last.address):
                    continue
                # Which way leads here is a part of the condition, as in a && b.
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
        # Backwards; what is needed becomes what is needed where the block begins.
        for number in range(len(block) - 1, -1, -1):
            found = block[number]
            if found.flow == "call":
                self._call(block, number, registers, is_earlier)
            elif found.flow == "next":
                self._next(found, registers, addresses)

    def _call(
        self, block: Sequence[Instruction], number: int, registers: set[int], is_earlier: Callable[[int], bool]
    ) -> None:
        processor, found = self._processor, block[number]
        is_needed = processor.result in registers or processor.first_vector in registers
        registers.difference_update(processor.lost)
        registers.difference_update({register for register in registers if register >= processor.first_vector})
        if not is_needed or is_earlier(found.address):
            return
        target = self._leads_to(found)
        self._calls[found.address] = target
        count = self._parameters(target) if target is not None else None
        passed = set(_written_since_call(block, number))
        arguments = processor.arguments[:count] if count is not None else processor.arguments
        # Those that the block has not set are its function's own: debug information of the called one vouches for them.
        own = {register for register in arguments if register in passed or count is not None}
        registers.update(own)
        base = {found.source} if found.source is not None else set()
        self._note(found, set(), own | base)

    def _next(self, found: Instruction, registers: set[int], addresses: set[int]) -> None:
        written = {*found.clobbers, *((found.to,) if found.to is not None else ())}
        if not found.keeps_flags:
            written.add(FLAGS)
        address = self._address_of(found.address)
        vectors = {register for register in found.reads if register >= self._processor.first_vector}
        is_there = address is not None and address in addresses
        is_stored = is_there and (found.does == "store" or (found.stores and bool(vectors)))
        is_kept = is_there and found.stores
        # What computes with vectors writes one of those that it reads, but where it stores one or makes a number of it.
        is_of_vectors = bool(vectors & registers) and not found.stores and not found.clobbers
        if not (written & registers or is_kept or is_stored or is_of_vectors):
            return
        used = {*found.reads, *found.compares, *((found.source,) if found.source is not None else ())}
        if found.does in ("add", "flip") and found.to is not None:
            used.add(found.to)
        if found.does == "set":
            used.add(FLAGS)
        registers.difference_update(written)
        if is_stored and address is not None:
            addresses.discard(address)
        registers.update(used)
        named: set[int] = set()
        if found.operand is not None and not is_stored:
            if address is not None:
                named.add(address)
                addresses.add(address)  # what is there, also where its address is passed on
            base = {register for register in (found.operand.base, found.operand.also) if register is not None}
            if address is not None:
                # Where the frame is, all know; any other pointer may be another one in each thread.
                base -= {self._processor.stack_pointer, self._processor.frame_pointer}
            used |= base
            registers |= base
        self._note(found, named, used)

    def _note(self, found: Instruction, addresses: set[int], registers: set[int]) -> None:
        fixed = (self._processor.stack_pointer, FLAGS)
        kept = frozenset(registers.difference(fixed))
        old = self._reads.get(found.address, Read(found.address, frozenset(), frozenset()))
        self._reads[found.address] = Read(found.address, old.addresses | addresses, old.registers | kept)


def _written_since_call(block: Sequence[Instruction], number: int) -> Iterator[int]:
    for found in reversed(block[:number]):
        if found.flow == "call":
            return
        yield from found.clobbers
        if found.to is not None:
            yield found.to
