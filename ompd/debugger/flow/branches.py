"""The branches at which two threads took different ways through a function, so that only one of them reached a call.

Ways are followed up to the next barrier only: threads of a team that parted have passed no barrier since then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.memory import read_pointer
from ompd.contract.process import Frame
from ompd.debugger.flow.blocks import find_blocks
from ompd.debugger.flow.conditions import Condition, Slice
from ompd.debugger.flow.function_code import FunctionCode
from ompd.debugger.flow.loops import Loop, loop_around
from ompd.errors import OmpdError, Unavailable
from ompd.isa.instructions import Instruction, Operand

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


class Branches:
    """The branches of the *functions* of one process."""

    def __init__(self, functions: Functions) -> None:
        self._functions, self._processor = functions, functions.processor
        self._graphs: dict[int, Ways | OmpdError] = {}

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
        graph = self._graph(frame)
        to, place = graph.instruction_of(frame), graph.instruction_of(other) if other is not None else None
        if place is not None or has_returned:
            found = tuple(graph.parting(to, place if place is not None else EXIT))
        else:
            found = tuple(graph.parting(to, STOP)) or tuple(graph.parting(to, None))
        if not found and graph.is_open:
            raise Unavailable("a jump of the function may lead anywhere")
        return found

    def leads_on(self, frame: Frame, other: Frame) -> bool:
        """Return whether the place of *other* in this function can be reached from the call of *frame*.

        :raises Unavailable: if the code cannot be followed
        """
        graph = self._graph(frame)
        place = graph.instruction_of(other)
        found = graph.reached_behind(graph.instruction_of(frame), place)
        return place in found or ANYWHERE in found

    def loop(self, frame: Frame) -> Loop | None:
        """Return the innermost loop around *frame*, None without a loop.

        :raises Unavailable: if the code cannot be followed
        """
        graph = self._graph(frame)
        return graph.loop(graph.instruction_of(frame))

    def read_by(
        self,
        frame: Frame,
        branch: Branch,
        is_wanted: Callable[[int], bool],
        is_earlier: Callable[[int], bool],
        parameters: Callable[[int], int | None],
    ) -> Condition:
        """Return the operands that a branch in the function of *frame* depends on, with their addresses in this frame.

        :param is_wanted: returns whether the instruction at an address belongs to the branch's statement
        :param is_earlier: returns whether the instruction belongs to an earlier statement
        :param parameters: returns how many parameters the function at an address has, None if that is unknown
        :raises Unavailable: if the code cannot be followed
        """
        graph, processor = self._graph(frame), self._processor
        assert processor is not None
        fixed = {processor.stack_pointer: frame.registers.get(processor.stack_pointer)}
        if self._has_frame_pointer(branch.address):
            fixed[processor.frame_pointer] = frame.registers.get(processor.frame_pointer)
        places: dict[int, int | None] = {}

        def address_of(at: int) -> int | None:
            if at not in places:
                places.update(self._places(graph.block(at), fixed))
            return places[at]

        found = Slice(graph.blocks, processor, address_of, self._functions.leads_to, parameters)
        return found.of(branch.block[0], graph.before, is_wanted, is_earlier)

    def _places(
        self, block: Sequence[Instruction], fixed: Mapping[int, int | None]
    ) -> Iterator[tuple[int, int | None]]:
        # The address of each instruction of a block with the address of its operand, None if that is unknown. The stack
        # and frame pointers in *fixed* are those of the frame at its call.
        known = dict(fixed)
        for found in block:
            address = _address(found.operand, known)
            yield found.address, address
            self._carry_out(found, address, known)
            known.update(fixed)

    def tested(self, frame: Frame, branch: Branch) -> str:
        """Return the name of the routine whose result a branch compares with 0, ``""`` for other comparisons.

        :raises Unavailable: if the code cannot be followed
        """
        graph, processor = self._graph(frame), self._processor
        assert processor is not None
        block = [graph.instructions[at] for at in branch.block]
        comparison = next((found for found in block[-2::-1] if not found.keeps_flags), None)
        if block[-1].on_zero is None or comparison is None or comparison.does != "compare":
            return ""
        if comparison.source != processor.result or comparison.value:
            return ""
        for found in block[block.index(comparison) - 1 :: -1] if block.index(comparison) else ():
            if found.flow == "call":
                return graph.code.called(found).name
            if processor.result in found.clobbers or found.to == processor.result:
                return ""
        return ""

    def _has_frame_pointer(self, address: int) -> bool:
        loaded, processor = self._functions.code.module_at(address), self._processor
        row = loaded.row(address - loaded.bias) if loaded is not None else None
        return row is not None and processor is not None and row.cfa.register == processor.frame_pointer

    def _carry_out(self, found: Instruction, address: int | None, known: dict[int, int | None]) -> None:
        # Only loads, copies and addresses are understood. That is enough for the pointers through which compilers
        # access a construct's variables.
        assert self._processor is not None
        lost = self._processor.lost if found.flow == "call" else found.clobbers
        for register in lost:
            known.pop(register, None)
        if found.to is None:
            return
        value = None
        if found.does == "load" and found.width == self._functions.memory.pointer_size and address is not None:
            try:
                value = read_pointer(self._functions.memory, address)
            except OmpdError:
                value = None
        elif found.does == "copy" and found.source is not None and found.width == self._functions.memory.pointer_size:
            value = known.get(found.source)
        elif found.does == "address":
            value = address
        known[found.to] = value

    def _graph(self, frame: Frame) -> Ways:
        entry = self._functions.code.entry(frame.call_site)
        if entry not in self._graphs:
            try:
                self._graphs[entry] = self._make(entry)
            except OmpdError as error:
                self._graphs[entry] = error
        found = self._graphs[entry]
        if isinstance(found, OmpdError):
            raise found
        return found

    def _make(self, entry: int) -> Ways:
        if self._processor is None:
            raise Unavailable("code of this processor is not followed")
        graph = Ways(FunctionCode(self._functions, entry, self._processor, is_alone=True))
        self._functions.spend(len(graph.instructions))
        return graph


class Ways:
    """The ways through the *code* of one function. ``blocks`` are its blocks by their addresses.

    :raises Unavailable: if the code is too large, or not understood
    """

    def __init__(self, code: FunctionCode) -> None:
        self.code = code
        self.blocks, self._block_of = find_blocks(code, _MAX_INSTRUCTIONS, has_handlers=False)
        self.instructions = {found.address: found for block in self.blocks.values() for found in block}
        self._next = {leader: tuple(self._successors(block)) for leader, block in self.blocks.items()}
        self._barriers: dict[int, list[int]] = {}
        for found in self.instructions.values():
            if found.flow == "call" and code.called(found).name in naming.BARRIERS:
                self._barriers.setdefault(self._block_of[found.address], []).append(found.address)

    def block(self, address: int) -> Sequence[Instruction]:
        """Return the block of an instruction."""
        return self.blocks[self._block_of[address]]

    @cached_property
    def before(self) -> Mapping[int, Sequence[int]]:
        """The predecessors of each block."""
        before: dict[int, list[int]] = {}
        for leader, following in self._next.items():
            for each in following:
                before.setdefault(each, []).append(leader)
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
                found = self.instructions.get(frame.pc - size)
                if found is not None and found.flow == "call" and found.end == frame.pc:
                    return frame.pc - size
        raise Unavailable("no way through its function is seen that leads to where it is")

    def loop(self, at: int) -> Loop | None:
        """Return the innermost loop around an instruction, None without a loop.

        :raises Unavailable: if a jump has unknown targets, because it may enter the middle of a loop
        """
        if any(ANYWHERE in each for each in self._next.values()):
            raise Unavailable("a jump of the function may lead anywhere")
        following = {leader: [each for each in self._next[leader] if each >= 0] for leader in self.blocks}
        found = loop_around(self._block_of[at], self.code.entry, following)
        if found is None:
            return None
        head, leaders = found[0], sorted(found[1])
        lasts = (self.blocks[leader][-1] for leader in leaders if head in following[leader])
        back = (last.address for last in lasts if last.flow in ("jump", "branch"))
        return Loop(tuple(each.address for leader in leaders for each in self.blocks[leader]), (head, *back))

    def parting(self, to: int, other: int | None) -> Iterator[Branch]:
        """Yield the branches of which one side reaches the call at *to*, and the other side reaches *other* instead.

        The other side must not reach another call of the same function, either. The nearest branch is first.

        :param other: an address, or :data:`EXIT` or :data:`STOP`; None for any
        """
        alike = self._alike(to)
        for leader in self._branches_before(to):
            block = self.blocks[leader]
            sides = [self._reached(side, (to, other), leader) for side in self._next[leader]]
            for one, another in zip(sides, (1, 0), strict=True):
                elsewhere = sides[another]
                if to not in one or {to, ANYWHERE} & elsewhere or not (other is None or other in elsewhere):
                    continue
                if not alike or not alike & self._reached(self._next[leader][another], (to, other, *alike), leader):
                    yield Branch(block[-1].address, tuple(found.address for found in block))

    def _alike(self, to: int) -> set[int]:
        # The other calls of the function that the call at *to* calls, and jumps to it. For a barrier there are none:
        # each barrier is a different one for the threads.
        called = self.instructions[to].target
        if to in self._barriers.get(self._block_of[to], ()):
            return set()
        return {
            found.address
            for found in self.instructions.values()
            if found.target is not None
            and found.target == called
            and found.address != to
            and (found.flow == "call" or (found.flow == "jump" and not self.code.is_own(found.target)))
        }

    def reached_behind(self, call: int, other: int) -> set[int]:
        """Return the places that are reached first after a call: *other*, barriers, and the negative constants."""
        leader = self._block_of[call]
        events = [at for at in self._events(leader, (other,)) if at > call]
        if events:
            return {events[0]}
        found: set[int] = set()
        for side in self._next[leader]:
            found |= self._reached(side, (other,), None)
        return found

    def _branches_before(self, to: int) -> list[int]:
        # The blocks that end with a branch, and from which the call at *to* can be reached, the nearest first.
        start = self._block_of[to]
        seen, found = {start}, []
        front = [start]
        for leader in front:
            for each in self.before.get(leader, ()):
                if each not in seen:
                    seen.add(each)
                    front.append(each)
                    if self.blocks[each][-1].flow == "branch" and len(set(self._next[each])) == 2:
                        found.append(each)
        last = self.blocks[start][-1]
        if last.flow == "branch" and start not in found and len(set(self._next[start])) == 2:
            found.append(start)  # behind the call, as at the end of a loop
        return found[:_MAX_BRANCHES]

    def _events(self, leader: int, goals: Sequence[int | None]) -> list[int]:
        inside = {at for at in goals if at is not None and at >= 0 and self._block_of.get(at) == leader}
        return sorted(inside.union(self._barriers.get(leader, ())))

    def _reached(self, start: int, goals: Sequence[int | None], stop: int | None) -> set[int]:
        # The first goals and barriers on each way from *start*, and the negative constants, as for the function's end.
        # No way is followed beyond the block *stop*.
        found: set[int] = set()
        seen = {start}
        waiting = [start]
        while waiting:
            leader = waiting.pop()
            if leader < 0:
                found.add(leader)
                continue
            events = self._events(leader, goals)
            if events:
                found.add(events[0])
                continue
            if leader == stop:
                continue
            for each in self._next.get(leader, ()):
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return found


def _address(operand: Operand | None, known: Mapping[int, int | None]) -> int | None:
    if operand is None or operand.is_indexed:
        return None
    if operand.base is None:
        return operand.displacement
    base = known.get(operand.base)
    return base + operand.displacement if base is not None else None
