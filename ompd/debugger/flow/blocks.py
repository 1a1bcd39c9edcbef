"""The basic blocks of a function: runs of instructions with jumps only to the first one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ompd.errors import Unavailable
from ompd.isa.instructions import Instruction


def find_blocks(
    entry: int,
    code: Callable[[int], Instruction | None],
    ways: Callable[[Instruction], Sequence[int]],
    goes_on: Callable[[Instruction], bool],
    most: int,
) -> tuple[Mapping[int, Sequence[Instruction]], Mapping[int, int]]:
    """Return the blocks by their addresses, and the address of each instruction's block.

    :param code: returns the instruction at an address, None if there is none
    :param ways: returns the targets of an instruction, except for the next instruction
    :param goes_on: returns whether execution may go on with the next instruction
    :param most: the largest number of instructions
    :raises Unavailable: if there are more instructions, or code that is not understood
    """
    instructions: dict[int, Instruction] = {}
    leaders = {entry}
    waiting = [entry]
    while waiting:
        at = waiting.pop()
        while at not in instructions:
            instruction = code(at)
            if instruction is None or len(instructions) > most:
                raise Unavailable(f"the code at {at:#x} is not understood")
            instructions[at] = instruction
            others = ways(instruction)
            leaders.update(others)
            waiting.extend(others)
            if not goes_on(instruction):
                break
            if instruction.flow == "branch":
                leaders.add(instruction.end)
            at = instruction.end
    blocks: dict[int, list[Instruction]] = {}
    block_of: dict[int, int] = {}
    for leader in leaders:
        block = blocks[leader] = []
        at = leader
        while at in instructions:
            instruction = instructions[at]
            block.append(instruction)
            block_of[at] = leader
            at = instruction.end
            if at in leaders or instruction.flow not in ("next", "call") or not goes_on(instruction):
                break
    return {leader: block for leader, block in blocks.items() if block}, block_of
