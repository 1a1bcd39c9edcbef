"""Blocks of a function: instructions of which each comes behind the one before, and only the first is jumped to."""

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
    """Return the blocks by where they begin, and where the block of each instruction begins.

    :param ways: returns where an instruction may lead besides what comes behind it
    :param goes_on: says whether what comes behind an instruction may be next
    :param most: how many instructions there may be
    :raises Unavailable: if there are more, or code that is not understood
    """
    instructions: dict[int, Instruction] = {}
    leaders = {entry}
    waiting = [entry]
    while waiting:
        at = waiting.pop()
        while at not in instructions:
            found = code(at)
            if found is None or len(instructions) > most:
                raise Unavailable(f"the code at {at:#x} is not understood")
            instructions[at] = found
            others = ways(found)
            leaders.update(others)
            waiting.extend(others)
            if not goes_on(found):
                break
            if found.flow == "branch":
                leaders.add(found.end)
            at = found.end
    blocks: dict[int, list[Instruction]] = {}
    block_of: dict[int, int] = {}
    for leader in leaders:
        block = blocks[leader] = []
        at = leader
        while at in instructions:
            found = instructions[at]
            block.append(found)
            block_of[at] = leader
            at = found.end
            if at in leaders or found.flow not in ("next", "call") or not goes_on(found):
                break
    return {leader: block for leader, block in blocks.items() if block}, block_of
