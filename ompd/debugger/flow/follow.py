"""Follows all ways through one function, from its entry to each reachable place.

Only ways by calls, jumps and exception handlers are followed. A fact is doubtful at a place if it holds only on some of
the ways there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ompd.debugger.flow.blocks import find_blocks
from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.debugger.flow.interpret import Interpreter
from ompd.debugger.flow.leaks import Edge, Leak, Leaks
from ompd.debugger.flow.state import JUMP, LEAVING, PAUSED, TWICE, Held, Released, State, Value, meets
from ompd.errors import Unavailable
from ompd.isa.instructions import Instruction
from ompd.naming import Routine

_MAX_STATES = 16  # states at one place, before conditional moves no longer double their number
_MAX_VISITS = 1 << 20  # instructions; an instruction counts again each time that the facts before it change


class PlaceFacts(NamedTuple):
    """The facts at one place: a ``state``, and ``doubts`` by the addresses of the calls that began its ``held``.

    A doubt is why the construct or lock may have ended: a word of :mod:`ompd.debugger.flow.state`, or ``""``.
    """

    state: State
    doubts: Mapping[int, str]


class Function:
    """The ways through the *code* of one function. ``summary`` has the facts about the whole function.

    :raises Unavailable: if the code is too large, or not understood
    """

    def __init__(self, code: FunctionCode) -> None:
        self._code, self._interpreter = code, Interpreter(code)
        self.entry, self.summary = code.entry, self._interpreter.summary
        self._blocks, self._block_of = find_blocks(code, _MAX_VISITS, has_handlers=True)
        self._before: dict[int, State] = {}  # at the beginning of each block that is reached
        self._computed: dict[int, State] = {}  # at jumps with unknown targets
        self._places: dict[int, PlaceFacts | None] = {}
        self._settle()

    # States

    def _settle(self) -> None:
        # Follows blocks until the states at their beginnings no longer change.
        self._before[self.entry] = self._interpreter.state_at_entry()
        queue, queued, visits_left = [self.entry], {self.entry}, _MAX_VISITS
        while queue:
            leader = heappop(queue)
            queued.discard(leader)
            block = self._blocks[leader]
            visits_left -= len(block)
            self._code.spend(len(block))
            if visits_left < 0:
                raise Unavailable(f"the function at {self.entry:#x} has too many ways through its code")
            for successor, state in self._successors(block, self._before[leader].copy()):
                before = self._before.get(successor)
                if before is None:
                    self._before[successor] = state.copy()
                elif not before.join(state, successor):
                    continue
                if successor not in queued:
                    queued.add(successor)
                    heappush(queue, successor)

    def _successors(self, block: Sequence[Instruction], state: State) -> Iterator[tuple[int, State]]:
        # The successors of a block, each with the state on the way there. *state*, the one before the block, changes.
        for instruction in block:
            if instruction.flow == "call":
                for pad in self._code.pads(instruction.address):
                    yield pad, self._interpreter.state_at_pad(state)
            elif instruction.flow in ("jump", "branch"):
                yield from self._successors_of_jump(instruction, state)
                return
            elif instruction.flow == "computed":
                self._interpreter.leave(state)
                self._note_computed(instruction.address, state)
                return
            elif instruction.flow == "return":
                self._interpreter.leave(state)
                return
            elif instruction.flow == "stop":
                return
            self._interpreter.carry_out(instruction, state)
            if not self._code.goes_on(instruction):
                return
        yield block[-1].end, state

    def _successors_of_jump(self, jump: Instruction, state: State) -> Iterator[tuple[int, State]]:
        targets, is_equal = self._code.jumps(jump), jump.on_zero
        for target in targets:
            yield target, self._interpreter.state_after_branch(state, is_equal=is_equal)
        if not targets:
            self._interpreter.leave_by_jump(state, jump)
        if jump.flow == "branch" and self._code.goes_on(jump):
            is_other = None if is_equal is None else not is_equal
            yield jump.end, self._interpreter.state_after_branch(state, is_equal=is_other)

    def _note_computed(self, jump: int, state: State) -> None:
        self.summary.called_by_pointer.add(None)
        if jump in self._computed:
            self._computed[jump].join(state, jump)
        else:
            self._computed[jump] = state.copy()

    def facts_before(self, address: int) -> PlaceFacts | None:
        """Return the facts before the instruction at *address*, None if no followed way leads there."""
        if address not in self._places:
            self._places[address] = self._find_facts(address)
        return self._places[address]

    def _find_facts(self, address: int) -> PlaceFacts | None:
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return None
        state = self._before[leader].copy()
        for instruction in self._blocks[leader]:
            if instruction.address == address:
                return PlaceFacts(state, self._doubts(instruction, state))
            self._interpreter.carry_out(instruction, state)
        return None

    def _doubts(self, instruction: Instruction, state: State) -> Mapping[int, str]:
        # Whether each held construct or lock may have ended: on a way to the instruction, or by a call there.
        called = self._interpreter.called(instruction, state) if instruction.flow == "call" else Called()
        return {call: held.doubt or self._doubt(call, held, called, state) for call, held in state.held.items()}

    def _doubt(self, call: int, held: Held, called: Called, state: State) -> str:
        if self.summary.may_return_twice:
            return TWICE
        if any(call not in other.held or other.held[call].doubt for other in self._computed.values()):
            return JUMP
        routine = called.routine
        if routine is None or routine.begins or routine.kind != held.routine.kind:
            return ""
        if meets(held.value, self._interpreter.argument(routine, state)) is False:
            return ""
        return PAUSED if routine.pauses else LEAVING

    def states_before(self, address: int) -> Sequence[State]:
        """Return the states before the instruction at *address*: one or more for each predecessor of its block."""
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return ()
        states = [self._before[leader].copy()] if leader == self.entry else []
        for start, before in self._before.items():
            successors = self._successors(self._blocks[start], before.copy())
            states.extend(state.copy() for successor, state in successors if successor == leader)
        for instruction in self._blocks[leader]:
            if instruction.address == address:
                break
            if len(states) > _MAX_STATES:
                for state in states:
                    self._interpreter.carry_out(instruction, state)
            else:
                states = [after for state in states for after in self._interpreter.carry_out_either(instruction, state)]
        return states

    # Locks that the function does not release on all ways

    def leaks(self) -> Iterator[Leak]:
        """Yield the ways on which the function returns with a lock that it set, and that it releases on other ways."""
        if self._computed:
            return  # the code behind a jump with an unknown target may release the lock
        incoming: dict[int, list[Edge]] = {}
        returns: dict[int, State] = {}
        releases: dict[int, list[Released]] = {}
        for leader, block in self._blocks.items():
            if leader not in self._before:
                continue
            for successor, state in self._successors(block, self._before[leader].copy()):
                incoming.setdefault(successor, []).append(Edge(leader, state.copy()))
            facts = self.facts_before(block[-1].address)
            if facts is not None and block[-1].flow == "return":
                returns[leader] = facts.state
            elif facts is not None and self._is_tail_call(block[-1]):
                returns[leader] = self._after_tail_call(facts.state.copy(), block[-1])
            releases[leader] = [*self._releases_in(block)]
        yield from Leaks(self._blocks, incoming, returns, releases).all()

    def _is_tail_call(self, instruction: Instruction) -> bool:
        return instruction.flow == "jump" and not self._code.jumps(instruction)

    def _releases_in(self, block: Sequence[Instruction]) -> Iterator[Released]:
        # The releases by calls in a block.
        for instruction in block:
            is_call = instruction.flow == "call" or self._is_tail_call(instruction)
            routine = self._code.called(instruction).routine if is_call else None
            if routine is not None and not routine.begins:
                facts = self.facts_before(instruction.address)
                yield routine.kind, self.argument(routine, facts.state) if facts is not None else None

    def _after_tail_call(self, state: State, jump: Instruction) -> State:
        # The state after a jump to another function, without the objects that this one releases.
        routine = self._code.called(jump).routine
        if routine is not None and not routine.begins:
            value = self.argument(routine, state)
            for call, held in list(state.held.items()):
                if held.routine.kind == routine.kind and meets(held.value, value) is not False:
                    del state.held[call]
        return state

    # Calls

    def call_before(self, address: int) -> int | None:
        """Return the address of the call that ends at *address*, None if no followed way reaches such a call."""
        for size in range(1, self._code.processor.max_size + 1):
            instruction = self._code.instruction(address - size) if address - size in self._block_of else None
            if instruction is not None and instruction.flow == "call" and instruction.end == address:
                return instruction.address
        return None

    def called_at(self, address: int) -> int | None:
        """Return the target of the call at *address*, perhaps an entry of the linkage table; None if unknown."""
        instruction, facts = self.instruction(address), self.facts_before(address)
        if instruction is None or facts is None or instruction.flow != "call":
            return None
        return self._interpreter.resolved(instruction, facts.state).target

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address, None if there is none."""
        return self._code.instruction(address)

    def argument(self, routine: Routine, state: State) -> Value | None:
        """Return the object that *routine* receives if it is called in *state*, None if it has none, or if unknown."""
        return self._interpreter.argument(routine, state)
