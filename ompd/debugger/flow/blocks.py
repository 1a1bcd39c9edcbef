"""The basic blocks of a function: runs of instructions with jumps only to the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.debugger.flow.function_code import FunctionCode
from ompd.errors import Unavailable
from ompd.isa.instructions import Instruction


def find_blocks(
    code: FunctionCode, most: int, *, has_handlers: bool
) -> tuple[Mapping[int, Sequence[Instruction]], Mapping[int, int]]:
    """Return the blocks of a function by their addresses, and the address of each instruction's block.

    :param most: the largest number of instructions
    :param has_handlers: whether the ways to exception handlers are followed; they begin at calls that may throw
    :raises Unavailable: if the function has more instructions, or code that is not understood
    """
    instructions, leaders = _reachable(code, most, has_handlers=has_handlers)
    blocks: dict[int, list[Instruction]] = {}
    block_of: dict[int, int] = {}
    for leader in leaders:
        block = blocks[leader] = []
        address = leader
        while address in instructions:
            instruction = instructions[address]
            block.append(instruction)
            block_of[address] = leader
            address = instruction.end
            if address in leaders or instruction.flow not in ("next", "call") or not code.goes_on(instruction):
                break
    return {leader: block for leader, block in blocks.items() if block}, block_of


def _reachable(code: FunctionCode, most: int, *, has_handlers: bool) -> tuple[Mapping[int, Instruction], set[int]]:
    # The instructions that can be reached from the function's entry, by their addresses, and the first ones of blocks.
    instructions: dict[int, Instruction] = {}
    leaders = {code.entry}
    waiting = [code.entry]
    while waiting:
        address = waiting.pop()
        while address not in instructions:
            instruction = code.instruction(address)
            if instruction is None or len(instructions) > most:
                raise Unavailable(f"the code at {address:#x} is not understood")
            instructions[address] = instruction
            targets = code.jumps(instruction)
            if has_handlers and instruction.flow == "call":
                targets = (*targets, *code.pads(address))
            leaders.update(targets)
            waiting.extend(targets)
            if not code.goes_on(instruction):
                break
            if instruction.flow == "branch":
                leaders.add(instruction.end)
            address = instruction.end
    return instructions, leaders
