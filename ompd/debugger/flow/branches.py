"""The branches at which two threads took different ways through a function, so that only one of them reached a call.

Ways are followed up to the next barrier only: threads of a team that parted have passed no barrier since then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.process import Frame
from ompd.debugger.flow.blocks import find_blocks
from ompd.debugger.flow.conditions import Condition, Slice, Statement
from ompd.debugger.flow.function_code import FunctionCode
from ompd.debugger.flow.loops import Loop, loop_around
from ompd.debugger.flow.operands import OperandAddresses
from ompd.errors import OmpdError, Unavailable
from ompd.isa.instructions import Instruction

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Functions

_MAX_INSTRUCTIONS = 1 << 15
_MAX_BRANCHES = 32
EXIT, ANYWHERE, STOP = -1, -2, -3
"""Negative numbers in place of addresses: the function's end, an unknown place, and a call that never returns."""


class Branch(NamedTuple):
    """The branch at ``address``. ``block`` are the addresses of the instructions of its basic block, in order."""

    address: int
    block: tuple[int, ...]


class LastCalls(NamedTuple):
    """The last calls before a place, by the ways there.

    ``calls`` are their addresses and the names of the called routines, with None if a way has no such call. ``between``
    are the addresses of the instructions that may have been executed since then.
    """

    calls: frozenset[tuple[int, str] | None]
    between: frozenset[int]


class Branches:
    """The branches of the *functions* of one process."""

    def __init__(self, functions: Functions) -> None:
        self._functions, self._processor = functions, functions.processor
        self._by_entry: dict[int, Ways | OmpdError] = {}

    def entry(self, frame: Frame) -> int:
        """Return the entry of the function of a frame.

        :raises Unavailable: if that is unknown
        """
        return self._functions.code.entry(frame.call_site)

    def parting(self, frame: Frame, other: Frame | None, *, has_returned: bool = False) -> tuple[Branch, ...]:
        """Return the branches at which *frame*'s thread and another one parted, the nearest one first.

        One side of each branch reaches the call of *frame*. The other side reaches the place of the other thread, but
        not that call.

        :param other: the frame of the other thread in this function, None if it has none
        :param has_returned: whether the other thread has left this function; if it has neither left it nor a frame in
            it, it has ended
        :raises Unavailable: if the code cannot be followed
        """
        ways = self._ways(frame)
        call, place = ways.instruction_of(frame), ways.instruction_of(other) if other is not None else None
        if place is not None or has_returned:
            branches = tuple(ways.parting(call, place if place is not None else EXIT))
        else:
            branches = tuple(ways.parting(call, STOP)) or tuple(ways.parting(call, None))
        if not branches and ways.is_open:
            raise Unavailable("a jump of the function may lead anywhere")
        return branches

    def leads_on(self, frame: Frame, other: Frame) -> bool:
        """Return whether the place of *other* in this function can be reached from the call of *frame*.

        :raises Unavailable: if the code cannot be followed
        """
        ways = self._ways(frame)
        place = ways.instruction_of(other)
        reached = ways.reached_behind(ways.instruction_of(frame), place)
        return place in reached or ANYWHERE in reached

    def loop(self, frame: Frame) -> Loop | None:
        """Return the innermost loop around *frame*, None without a loop.

        :raises Unavailable: if the code cannot be followed
        """
        ways = self._ways(frame)
        return ways.loop(ways.instruction_of(frame))

    def last_calls(self, address: int, names: Collection[str]) -> LastCalls:
        """Return the last calls of routines in *names* before the instruction at *address*.

        :raises Unavailable: if the code cannot be followed
        """
        return self._ways_from(self._functions.code.entry(address)).last_calls(address, names)

    def condition(self, frame: Frame, branch: Branch, statement: Statement) -> Condition:
        """Return the operands that a branch in the function of *frame* depends on, with their addresses in this frame.

        :param statement: the statement of the branch
        :raises Unavailable: if the code cannot be followed
        """
        ways, processor = self._ways(frame), self._processor
        assert processor is not None
        pointers = {processor.stack_pointer: frame.registers.get(processor.stack_pointer)}
        if self._has_frame_pointer(branch.address):
            pointers[processor.frame_pointer] = frame.registers.get(processor.frame_pointer)
        operands = OperandAddresses(self._functions.memory, processor, ways, pointers)
        instructions = Slice(ways.blocks, processor, operands, self._functions.targets, statement)
        return instructions.condition(branch.block[0], ways.before)

    def tested(self, frame: Frame, branch: Branch) -> str:
        """Return the name of the routine whose result a branch compares with 0, ``""`` for other comparisons.

        :raises Unavailable: if the code cannot be followed
        """
        ways, processor = self._ways(frame), self._processor
        assert processor is not None
        block = [ways.instructions[address] for address in branch.block]
        comparisons = [number for number, instruction in enumerate(block[:-1]) if not instruction.keeps_flags]
        if block[-1].on_zero is None or not comparisons:
            return ""
        comparison = block[comparisons[-1]]
        if comparison.does != "compare" or comparison.source != processor.result or comparison.value:
            return ""
        for instruction in reversed(block[: comparisons[-1]]):
            if instruction.flow == "call":
                return ways.code.called(instruction).name
            if processor.result in instruction.clobbers or instruction.to == processor.result:
                return ""
        return ""

    def _has_frame_pointer(self, address: int) -> bool:
        loaded, processor = self._functions.code.module_at(address), self._processor
        row = loaded.row(address - loaded.bias) if loaded is not None else None
        return row is not None and processor is not None and row.cfa.register == processor.frame_pointer

    def _ways(self, frame: Frame) -> Ways:
        return self._ways_from(self.entry(frame))

    def _ways_from(self, entry: int) -> Ways:
        if entry not in self._by_entry:
            try:
                self._by_entry[entry] = self._follow(entry)
            except OmpdError as error:
                self._by_entry[entry] = error
        ways = self._by_entry[entry]
        if isinstance(ways, OmpdError):
            raise ways
        return ways

    def _follow(self, entry: int) -> Ways:
        if self._processor is None:
            raise Unavailable("code of this processor is not followed")
        ways = Ways(FunctionCode(self._functions, entry, self._processor, with_callees=False))
        self._functions.spend(len(ways.instructions))
        return ways


class Ways:
    """The ways through the *code* of one function. ``blocks`` are its blocks by their addresses.

    :raises Unavailable: if the code is too large, or not understood
    """

    def __init__(self, code: FunctionCode) -> None:
        self.code = code
        self.blocks, self._block_of = find_blocks(code, _MAX_INSTRUCTIONS, has_handlers=False)
        self.instructions = {
            instruction.address: instruction for block in self.blocks.values() for instruction in block
        }
        self._next = {leader: tuple(self._successors(block)) for leader, block in self.blocks.items()}
        self._barriers: dict[int, list[int]] = {}
        for address, instruction in self.instructions.items():
            if instruction.flow == "call" and code.called(instruction).name in naming.BARRIERS:
                self._barriers.setdefault(self._block_of[address], []).append(address)

    def block(self, address: int) -> Sequence[Instruction]:
        """Return the block of an instruction."""
        return self.blocks[self._block_of[address]]

    @cached_property
    def before(self) -> Mapping[int, Sequence[int]]:
        """The predecessors of each block."""
        before: dict[int, list[int]] = {}
        for leader, following in self._next.items():
            for successor in following:
                before.setdefault(successor, []).append(leader)
        return before

    @property
    def is_open(self) -> bool:
        """Whether an unknown place can be reached from the function's entry."""
        return ANYWHERE in self._reached(self.code.entry, (), None)

    def _successors(self, block: Sequence[Instruction]) -> Iterator[int]:
        last = block[-1]
        if last.flow == "computed":
            yield ANYWHERE
        elif last.flow == "return":
            yield EXIT
        elif last.flow in ("jump", "branch"):
            yield next(iter(self.code.jumps(last)), EXIT)
        elif not self.code.goes_on(last):
            yield STOP
        if self.code.goes_on(last):
            yield last.end

    def instruction_of(self, frame: Frame) -> int:
        """Return the address of the call that a frame is in, or of the instruction at which it runs or has jumped.

        :raises Unavailable: if no followed way leads there
        """
        if frame.call_site == frame.pc:
            # If the function ended by a jump, the pc may be at any byte of the jump.
            for size in range(self.code.processor.max_size + 1):
                inside = self.instructions.get(frame.pc - size)
                if inside is not None and inside.end > frame.pc:
                    return inside.address
        else:
            for size in range(1, self.code.processor.max_size + 1):
                call = self.instructions.get(frame.pc - size)
                if call is not None and call.flow == "call" and call.end == frame.pc:
                    return call.address
        raise Unavailable("no way through its function is seen that leads to where it is")

    def last_calls(self, address: int, names: Collection[str]) -> LastCalls:
        """Return the last calls of routines in *names* before the instruction at *address*.

        :raises Unavailable: if no way leads there, or if a jump has unknown targets, because it may lead there, too
        """
        if any(ANYWHERE in successors for successors in self._next.values()):
            raise Unavailable("a jump of the function may lead anywhere")
        if address not in self._block_of:
            raise Unavailable("no way through the function leads to the call")
        calls: set[tuple[int, str] | None] = set()
        between: set[int] = set()
        start = self._block_of[address]
        queue = [(start, [instruction for instruction in self.blocks[start] if instruction.address < address])]
        queued: set[int] = set()  # without the start: a loop may lead to its end
        while queue:
            leader, instructions = queue.pop()
            for instruction in reversed(instructions):
                name = self.code.called(instruction).name if instruction.flow == "call" else ""
                if name in names:
                    calls.add((instruction.address, name))
                    break
                between.add(instruction.address)
            else:
                if leader == self.code.entry:
                    calls.add(None)
                blocks = set(self.before.get(leader, ())) - queued
                queued |= blocks
                queue.extend((block, list(self.blocks[block])) for block in blocks)
        return LastCalls(frozenset(calls), frozenset(between))

    def loop(self, address: int) -> Loop | None:
        """Return the innermost loop around the instruction at *address*, None without a loop.

        :raises Unavailable: if a jump has unknown targets, because it may enter the middle of a loop
        """
        if any(ANYWHERE in successors for successors in self._next.values()):
            raise Unavailable("a jump of the function may lead anywhere")
        following = {leader: [block for block in self._next[leader] if block >= 0] for leader in self.blocks}
        head_and_blocks = loop_around(self._block_of[address], self.code.entry, following)
        if head_and_blocks is None:
            return None
        head, leaders = head_and_blocks[0], sorted(head_and_blocks[1])
        lasts = (self.blocks[leader][-1] for leader in leaders if head in following[leader])
        jumps_back = (last.address for last in lasts if last.flow in ("jump", "branch"))
        code = tuple(instruction.address for leader in leaders for instruction in self.blocks[leader])
        return Loop(code, (head, *jumps_back))

    def parting(self, call: int, other: int | None) -> Iterator[Branch]:
        """Yield the branches with one side that reaches the call at *call*, and one that reaches *other* instead.

        The other side must not reach another call of the same function, either. The nearest branch is first.

        :param other: an address, or :data:`EXIT` or :data:`STOP`; None for any
        """
        alike = self._calls_alike(call)
        for leader in self._branches_before(call):
            block = self.blocks[leader]
            sides = [(side, self._reached(side, (call, other), leader)) for side in self._next[leader]]
            for (_, reached), (opposite, reached_there) in (sides, sides[::-1]):
                if call not in reached or call in reached_there or ANYWHERE in reached_there:
                    continue
                if other is not None and other not in reached_there:
                    continue
                if not alike or not alike & self._reached(opposite, (call, other, *alike), leader):
                    yield Branch(block[-1].address, tuple(instruction.address for instruction in block))

    def _calls_alike(self, call: int) -> set[int]:
        # The other calls of the function that *call* calls, and jumps to it. For a barrier there are none: each barrier
        # is a different one for the threads.
        called = self.instructions[call].target
        if call in self._barriers.get(self._block_of[call], ()):
            return set()
        return {
            instruction.address
            for instruction in self.instructions.values()
            if instruction.target is not None
            and instruction.target == called
            and instruction.address != call
            and (
                instruction.flow == "call" or (instruction.flow == "jump" and not self.code.is_own(instruction.target))
            )
        }

    def reached_behind(self, call: int, other: int) -> set[int]:
        """Return the places that are reached first after a call: *other*, barriers, and the negative constants."""
        leader = self._block_of[call]
        stops = [address for address in self._stops(leader, (other,)) if address > call]
        if stops:
            return {stops[0]}
        reached: set[int] = set()
        for side in self._next[leader]:
            reached |= self._reached(side, (other,), None)
        return reached

    def _branches_before(self, call: int) -> list[int]:
        # The blocks that end with a branch, and from which the call can be reached, the nearest first.
        start = self._block_of[call]
        queue, queued = [start], {start}
        branches = []
        for leader in queue:
            for block in self.before.get(leader, ()):
                if block not in queued:
                    queued.add(block)
                    queue.append(block)
                    if self._has_two_sides(block):
                        branches.append(block)
        if start not in branches and self._has_two_sides(start):
            branches.append(start)  # behind the call, as at the end of a loop
        return branches[:_MAX_BRANCHES]

    def _has_two_sides(self, leader: int) -> bool:
        return self.blocks[leader][-1].flow == "branch" and len(set(self._next[leader])) == 2

    def _stops(self, leader: int, goals: Sequence[int | None]) -> list[int]:
        # The addresses of goals and barriers in the block at *leader*, in order.
        inside = {goal for goal in goals if goal is not None and goal >= 0 and self._block_of.get(goal) == leader}
        return sorted(inside.union(self._barriers.get(leader, ())))

    def _reached(self, start: int, goals: Sequence[int | None], last: int | None) -> set[int]:
        # The first goals and barriers on each way from *start*, and the negative constants, as for the function's end.
        # No way is followed beyond the block *last*.
        reached: set[int] = set()
        queue, queued = [start], {start}
        while queue:
            leader = queue.pop()
            stops = self._stops(leader, goals) if leader >= 0 else [leader]
            if stops:
                reached.add(stops[0])
            elif leader != last:
                following = set(self._next.get(leader, ())) - queued
                queued |= following
                queue.extend(following)
        return reached
