"""Follows all ways through one function, from its entry to each reachable place.

Only ways by calls, jumps and exception handlers are followed. A fact is doubtful at a place if it holds only on some of
the ways there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ompd.debugger.flow.blocks import find_blocks
from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.debugger.flow.leaks import Edge, Leak, Leaks
from ompd.debugger.flow.state import (
    CALLEE,
    ENTERED,
    JUMP,
    LEAVING,
    LOCAL,
    MASK,
    OTHER,
    PAUSED,
    POINTER,
    TWICE,
    Held,
    Released,
    State,
    Value,
    added,
    meets,
)
from ompd.errors import Unavailable
from ompd.isa.instructions import FLAGS, Instruction
from ompd.naming import Routine

# Functions that write only to the object to which their first argument points.
_WRITES_ITS_ARGUMENT = frozenset(("sigemptyset", "sigfillset", "sigaddset", "sigdelset"))
_MAX_STATES = 16  # states at one place, before conditional moves no longer double their number
_MAX_VISITS = 1 << 20  # instructions; an instruction counts again each time that the facts before it change


class Origin(NamedTuple):
    """The address that a value was loaded from: ``base`` + ``displacement``."""

    base: Value
    displacement: int


_ANYWHERE = Origin(Value("number", 0), 0)


class PlaceFacts(NamedTuple):
    """The facts at one place: a ``state``, and ``doubts`` by the addresses of the calls that began its ``held``.

    A doubt is why the construct or lock may have ended: a word of :mod:`ompd.debugger.flow.state`, or ``""``.
    """

    state: State
    doubts: Mapping[int, str]


class Function:
    """The ways through the *code* of one function.

    :raises Unavailable: if the code is too large, or not understood
    """

    def __init__(self, code: FunctionCode) -> None:
        self._code, self._processor = code, code.processor
        self._places: dict[int, PlaceFacts | None] = {}
        self._general = frozenset(range(self._processor.first_vector)) - {self._processor.stack_pointer}
        self.entry = code.entry
        self.origins: dict[int, Origin] = {}
        self.by_pointer: set[int | None] = set()
        """The targets of the function's calls by pointers, perhaps entries of the linkage table; None if unknown."""
        self.stored: set[int] = set()
        """Distances from pointers of unknown value at which the function writes."""
        self._before: dict[int, State] = {}
        self._computed: dict[int, State] = {}  # at jumps with unknown targets
        self._is_twice = False
        self.lets_go: frozenset[Released] = frozenset()
        self._blocks, self._block_of = find_blocks(code, _MAX_VISITS, has_handlers=True)
        self._settle()

    # States

    def _settle(self) -> None:
        processor = self._processor
        start = State({number: Value("made", -1 - number) for number in self._general})
        start.registers[processor.stack_pointer] = Value("frame", -processor.entry_distance)
        self._before[self.entry] = start
        waiting, left = [self.entry], _MAX_VISITS
        pending = {self.entry}
        while waiting:
            leader = heappop(waiting)
            pending.discard(leader)
            block = self._blocks[leader]
            left -= len(block)
            self._code.spend(len(block))
            if left < 0:
                raise Unavailable(f"the function at {self.entry:#x} has too many ways through its code")
            for to, state in self._through(block, self._before[leader].copy()):
                known = self._before.get(to)
                if known is None:
                    self._before[to] = state.copy()
                elif not known.join(state, to):
                    continue
                if to not in pending:
                    pending.add(to)
                    heappush(waiting, to)

    def _through(self, block: Sequence[Instruction], state: State) -> Iterable[tuple[int, State]]:
        # The successors of a block, each with the state in which the block leads there.
        for instruction in block:
            if instruction.flow == "call":
                for pad in self._code.pads(instruction.address):
                    at_pad = state.copy()
                    for number in self._processor.lost:
                        at_pad.registers.pop(number, None)
                    yield pad, at_pad
            elif instruction.flow == "computed":
                self._leave(state)
                self.by_pointer.add(None)
                if instruction.address in self._computed:
                    self._computed[instruction.address].join(state, instruction.address)
                else:
                    self._computed[instruction.address] = state.copy()
                return
            if instruction.flow in ("jump", "branch"):
                targets = self._code.jumps(instruction)
                if not targets and instruction.flow == "jump":
                    self._leave(state, instruction)
                for target in targets:
                    yield target, self._decided(state, instruction, instruction.on_zero)
                if not targets and instruction.flow == "branch":
                    self._leave(state, instruction)
                if instruction.flow == "branch" and self._code.goes_on(instruction):
                    decided = None if instruction.on_zero is None else not instruction.on_zero
                    yield instruction.end, self._decided(state, instruction, decided)
                return
            if instruction.flow == "return":
                self._leave(state)
                return
            if instruction.flow == "stop":
                return
            self._carry_out(instruction, state)
            if not self._code.goes_on(instruction):
                return
        yield block[-1].end, state

    def _leave(self, state: State, jump: Instruction | None = None) -> None:
        # Records the objects of other functions that this function has released before it returns, or releases by its
        # last *jump* to another function.
        self.lets_go |= state.released
        if jump is not None:
            there = self._code.called(jump)
            if there.routine is not None and not there.routine.begins and not there.routine.pauses:
                value = self.argument(there.routine, state)
                if not any(
                    held.routine.kind == there.routine.kind and not held.doubt and meets(held.value, value)
                    for held in state.held.values()
                ):
                    self.lets_go |= {(there.routine.kind, value)}
            elif there.routine is None and there.lets_go:
                self.lets_go |= there.lets_go

    def _decided(self, state: State, instruction: Instruction, is_equal: bool | None) -> State:
        # The state after a branch on the result of a routine that may have acquired an object.
        if state.flags is None or is_equal is None:
            return state.copy()
        site, means_nonzero = state.flags
        made = state.copy()
        held = made.held.get(site)
        if held is not None and held.doubt == ENTERED:
            if (means_nonzero == is_equal) == held.routine.on:
                made.held[site] = held._replace(doubt="")
            else:
                del made.held[site]
        return made

    def at(self, address: int) -> PlaceFacts | None:
        """Return the facts before the instruction at *address*, None if no followed way leads there."""
        if address not in self._places:
            self._places[address] = self._find_place(address)
        return self._places[address]

    def _find_place(self, address: int) -> PlaceFacts | None:
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return None
        state = self._before[leader].copy()
        for instruction in self._blocks[leader]:
            if instruction.address == address:
                return PlaceFacts(state, self._doubts(state, instruction))
            self._carry_out(instruction, state)
        return None

    def states_before(self, address: int) -> Sequence[State]:
        """Return the states before the instruction at *address*: one or more for each predecessor of its block."""
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return ()
        before = ((block, self._before[at]) for at, block in self._blocks.items() if at in self._before)
        states = [s.copy() for block, state in before for to, s in self._through(block, state.copy()) if to == leader]
        states = states if leader != self.entry else [*states, self._before[leader].copy()]
        for each in self._blocks[leader]:
            if each.address == address:
                break
            states = [
                made for state in states for made in self._either(each, state, is_alone=len(states) > _MAX_STATES)
            ]
        return states

    def _either(self, instruction: Instruction, state: State, *, is_alone: bool) -> Sequence[State]:
        # The states after an instruction: two after a conditional move, which may or may not have moved a value. With
        # is_alone only one state is returned, in which the moved register is unknown.
        chosen = (state.registers.get(register) for register in instruction.reads[:2])
        self._carry_out(instruction, state)
        if is_alone or not _is_conditional_move(instruction):
            return (state,)
        others = [state, state.copy()]
        for other, value in zip(others, chosen, strict=True):
            other.set(instruction.clobbers[0], value)
        return others

    def leaks(self) -> Iterator[Leak]:
        """Yield the ways on which the function returns with a lock that it set, and that it releases on other ways."""
        incoming: dict[int, list[Edge]] = {}
        returns: dict[int, State] = {}
        releases: dict[int, list[Released]] = {}
        # The code behind a jump with an unknown target may release the lock.
        for leader, block in self._blocks.items() if not self._computed else ():
            if leader not in self._before:
                continue
            for to, state in self._through(block, self._before[leader].copy()):
                incoming.setdefault(to, []).append(Edge(leader, state.copy()))
            place = self.at(block[-1].address)
            if place is not None and block[-1].flow == "return":
                returns[leader] = place.state
            elif place is not None and block[-1].flow == "jump" and not self._code.jumps(block[-1]):
                returns[leader] = self._after_tail_call(place.state.copy(), block[-1])
            releases[leader] = [*self._releases_in(block)]
        return Leaks(self._blocks, incoming, returns, releases).all()

    def _releases_in(self, block: Sequence[Instruction]) -> Iterator[Released]:
        # What the calls of a block release, at any place of it.
        for instruction in block:
            is_call = instruction.flow == "call" or (instruction.flow == "jump" and not self._code.jumps(instruction))
            routine = self._code.called(instruction).routine if is_call else None
            if routine is not None and not routine.begins:
                place = self.at(instruction.address)
                yield routine.kind, self.argument(routine, place.state) if place is not None else None

    def _after_tail_call(self, state: State, jump: Instruction) -> State:
        # The state after a jump to another function, without the objects that this one releases.
        routine = self._code.called(jump).routine
        if routine is not None and not routine.begins:
            value = self.argument(routine, state)
            for call, held in list(state.held.items()):
                if held.routine.kind == routine.kind and meets(held.value, value) is not False:
                    del state.held[call]
        return state

    def call_before(self, address: int) -> int | None:
        """Return the address of the call that ends at *address*, None if no followed way reaches such a call."""
        for size in range(1, self._processor.max_size + 1):
            instruction = self._code.instruction(address - size) if address - size in self._block_of else None
            if instruction is not None and instruction.flow == "call" and instruction.end == address:
                return instruction.address
        return None

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address, None if there is none."""
        return self._code.instruction(address)

    def _doubts(self, state: State, here: Instruction) -> Mapping[int, str]:
        # Whether each held construct or lock may have ended: on a way to the instruction *here*, or by a call there.
        doubts: dict[int, str] = {}
        there = self._code.called(self._resolved(here, state)) if here.flow == "call" else Called()
        for site, held in state.held.items():
            doubt = held.doubt
            if not doubt and self._is_twice:
                doubt = TWICE
            if not doubt and any(site not in other.held or other.held[site].doubt for other in self._computed.values()):
                doubt = JUMP
            routine = there.routine
            is_end = routine is not None and routine.kind == held.routine.kind and not routine.begins
            if not doubt and routine is not None and is_end:
                is_other = meets(held.value, self.argument(routine, state)) is False
                doubt = "" if is_other else PAUSED if routine.pauses else LEAVING
            doubts[site] = doubt
        return doubts

    # Instructions

    def _carry_out(self, instruction: Instruction, state: State) -> None:
        if instruction.flow == "call":
            self._call(instruction, state)
            return
        if instruction.does:
            self._do(instruction, state)
        elif instruction.stores:
            self._note_store(instruction, state)
            state.write(instruction.operand, instruction.width or 8, None)
        written = set(instruction.clobbers)
        if instruction.to is not None and instruction.to not in state.registers:
            written.add(instruction.to)
        if written:
            state.forget(instruction.address)
        for number in written:
            state.registers.pop(number, None)
            if number in self._general:
                state.keep(number, instruction.address)
        if not instruction.keeps_flags and instruction.does not in ("compare", "bit"):
            state.flags = None

    def _note_store(self, instruction: Instruction, state: State) -> None:
        operand = instruction.operand
        if operand is None or operand.is_indexed:
            return
        at = state.address_of(operand)
        if at is None or at.kind == "made":
            self.stored.add(operand.displacement if at is None else at.more)
            self.stored.add(operand.displacement)

    def _do(self, instruction: Instruction, state: State) -> None:
        does, to, pointer = instruction.does, instruction.to, self._processor.stack_pointer
        source = state.registers.get(instruction.source) if instruction.source is not None else None
        if does == "copy" and to is not None:
            if {to, instruction.source} != {pointer, self._processor.frame_pointer}:
                state.escape(source)
            state.set(to, _part(source, instruction.width))
        elif does == "constant" and to is not None:
            state.set(to, Value("number", instruction.value & MASK) if instruction.width >= 4 else None)
        elif does == "address" and to is not None and instruction.operand is not None:
            at = state.address_of(instruction.operand)
            base = state.registers.get(instruction.operand.base) if instruction.operand.base is not None else None
            if to != pointer:
                state.escape(at if at is not None else added(base, instruction.operand.displacement))
            state.set(to, at)
        elif does == "load" and to is not None and instruction.operand is not None:
            self._load(instruction, state, to)
        elif does == "store" and instruction.operand is not None:
            if instruction.source is None:
                source = Value("number", instruction.value & ((1 << 8 * instruction.width) - 1))
            state.escape(source)
            at = state.address_of(instruction.operand)
            if at is None or at.kind != "frame":
                self._give_away(source)
            self._note_store(instruction, state)
            state.write(instruction.operand, instruction.width, _part(source, instruction.width))
        elif does == "add" and to is not None:
            state.set(to, added(state.registers.get(to), instruction.value))
            if to != pointer:
                state.escape(state.registers.get(to))
        elif does == "flip" and to is not None:
            value = state.registers.get(to)
            if value is not None and value.kind in ("result", "bit"):
                value = value._replace(kind="bit" if instruction.value < 0 else value.kind, more=1 - value.more)
                state.set(to, value)
            else:
                state.set(to, None)
        elif does in ("push", "pop", "leave"):
            self._stack(instruction, state)
        elif does == "compare":
            self._compare(instruction, state, source)
        elif does == "bit":
            is_known = source is not None and source.kind in ("result", "bit")
            state.flags = (source.at, not source.more) if source is not None and is_known else None
        elif does == "set" and to is not None:
            flags = state.flags
            state.set(
                to, Value("result", flags[0], int(flags[1] == bool(instruction.value))) if flags is not None else None
            )

    def _stack(self, instruction: Instruction, state: State) -> None:
        pointer, frame = self._processor.stack_pointer, self._processor.frame_pointer
        size = self._processor.entry_distance
        if instruction.does == "push":
            at = added(state.registers.get(pointer), -size)
            state.set(pointer, at)
            if at is not None and at.kind == "frame":
                value = state.registers.get(instruction.source) if instruction.source is not None else None
                state.slots.pop(at.at, None)
                if value is not None:
                    state.slots[at.at] = value, size
            return
        to, at = instruction.to, state.registers.get(pointer)
        if instruction.does == "leave":
            to, at = frame, state.registers.get(frame)
        slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
        if to is not None:
            state.set(to, slot[0] if slot is not None and slot[1] == size else None)
        state.set(pointer, added(at, size))

    def _load(self, instruction: Instruction, state: State, to: int) -> None:
        operand = instruction.operand
        assert operand is not None
        at = state.address_of(operand)
        if at is not None and at.kind == "frame":
            slot = state.slots.get(at.at)
            part = _part(slot[0], instruction.width) if slot is not None and slot[1] >= instruction.width else None
            if part is not None:
                state.set(to, part)
                return
        value = (
            self._code.constant(at.at) if at is not None and at.kind == "number" and instruction.width == 8 else None
        )
        if value is not None:
            state.set(to, Value("number", value))
            return
        state.forget(instruction.address)
        if instruction.width != 8:
            state.set(to, None)
            return
        made = Value("made", instruction.address)
        if at is not None and at.kind == "frame":
            state.slots[at.at] = made, instruction.width
        origin = Origin(at._replace(more=0), at.more) if at is not None and at.kind == "made" else _ANYWHERE
        if self.origins.setdefault(instruction.address, origin) != origin:
            self.origins[instruction.address] = _ANYWHERE  # another way here loads from another address
        state.set(to, made)

    def _compare(self, instruction: Instruction, state: State, value: Value | None) -> None:
        if instruction.operand is not None:
            at = state.address_of(instruction.operand)
            slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
            value = slot[0] if slot is not None and slot[1] >= instruction.width else None
        state.flags = None
        if value is None or value.kind != "result":
            return
        held = state.held.get(value.at)
        # A routine that returns 0 for success may return any other value for failure.
        if instruction.value == 0 or (instruction.value == 1 and held is not None and held.routine.on):
            state.flags = value.at, bool(value.more) == bool(instruction.value)

    # Calls

    def called_at(self, address: int) -> int | None:
        """Return the target of the call at *address*, perhaps an entry of the linkage table; None if unknown."""
        instruction, place = self._code.instruction(address), self.at(address)
        if instruction is None or place is None or instruction.flow != "call":
            return None
        return self._resolved(instruction, place.state).target

    def _resolved(self, instruction: Instruction, state: State) -> Instruction:
        # The call instruction, with the target set if it calls by a known pointer. Compilers keep entries of the
        # linkage table in registers.
        if instruction.target is not None or instruction.word is not None:
            return instruction
        value = state.registers.get(instruction.source) if instruction.source is not None else None
        at = state.address_of(instruction.operand) if instruction.operand is not None else None
        if at is not None and at.kind == "frame" and at.at in state.slots:
            value = state.slots[at.at][0]
        return instruction._replace(target=value.at) if value is not None and value.kind == "number" else instruction

    def _give_away(self, value: Value | None) -> None:
        # A function that receives the address of a routine may call the routine.
        routine = self._code.routine_at(value.at) if value is not None and value.kind == "number" else None
        if routine is not None and not routine.begins:
            self.lets_go |= {(routine.kind, None)}

    def argument(self, routine: Routine, state: State) -> Value | None:
        """Return the object that *routine* receives if it is called in *state*, None if it has none, or if unknown."""
        registers, size = self._processor.arguments, self._processor.entry_distance
        if routine.argument is None:
            return None
        if routine.argument < len(registers):
            return state.registers.get(registers[routine.argument])
        at = added(state.registers.get(self._processor.stack_pointer), size * (routine.argument - len(registers)))
        slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
        return slot[0] if slot is not None and slot[1] == size else None

    def _call(self, instruction: Instruction, state: State) -> None:
        resolved = self._resolved(instruction, state)
        there = self._code.called(resolved)
        routine = there.routine
        if instruction.target is None and instruction.word is None:
            self.by_pointer.add(resolved.target)
        for argument in self._processor.arguments:
            self._give_away(state.registers.get(argument))
        self._is_twice |= there.is_twice
        value = self.argument(routine, state) if routine is not None else None
        first = state.registers.get(self._processor.arguments[0])
        state.forget(instruction.address)
        for number in self._processor.lost:
            state.registers.pop(number, None)
        if routine is not None and routine.pauses:
            pass
        elif routine is not None and routine.begins:
            state.held.pop(instruction.address, None)  # so that the new entry is the last one in the dictionary
            doubt = ENTERED if routine.on is not None else ""
            passed = value.at if value is not None and value.kind == "number" else None
            state.held[instruction.address] = Held(routine, there.name, value, doubt, passed)
        elif routine is not None:
            self._release(state, routine.kind, value, has_object=routine.argument is not None)
        elif there.lets_go is None:
            for site, held in state.held.items():
                if held.routine.argument is not None and not held.doubt and held.routine.kind != "critical":
                    state.held[site] = held._replace(doubt=POINTER)
        else:
            for kind, other in there.lets_go:
                self._doubt(state, kind, other)
        if there.name not in _WRITES_ITS_ARGUMENT or first is None or not state.write_from(first):
            state.write_escaped()
        result = Value("made", instruction.address)
        if routine is not None and routine.begins and routine.on is not None:
            result = Value("result", instruction.address, 1)
        state.registers[self._processor.result] = result
        state.flags = None

    def _doubt(self, state: State, kind: str, value: Value | None) -> None:
        state.released |= {(kind, value)}
        for site, held in state.held.items():
            if held.routine.kind == kind and not held.doubt and meets(held.value, value) is not False:
                state.held[site] = held._replace(doubt=CALLEE)

    def _release(self, state: State, kind: str, value: Value | None, *, has_object: bool) -> None:
        candidates = [site for site, held in state.held.items() if held.routine.kind == kind]
        same = [site for site in candidates if not has_object or meets(state.held[site].value, value)]
        if not same and kind == "critical" and candidates:
            same = candidates[-1:]  # critical sections are nested: the innermost one
        if same:
            if kind.startswith("nest_") and len(same) > 1:
                same = same[-1:]
            if all(state.held[site].doubt for site in same):
                state.released |= {(kind, value)}
            for site in same:
                del state.held[site]
            return
        state.released |= {(kind, value)}
        for site in candidates:
            held = state.held[site]
            if meets(held.value, value) is False:
                continue
            is_vague = all(each is None or each.kind in LOCAL for each in (held.value, value))
            if is_vague and None in (state.seen(held.value), state.seen(value)):
                del state.held[site]  # neither value can be read; that both are one object is likelier
                continue
            state.held[site] = held._replace(doubt=held.doubt or OTHER)


def _is_conditional_move(instruction: Instruction) -> bool:
    # A move between registers: it reads both and the flags, and keeps the flags.
    reads = instruction.reads[1:]
    return (
        not instruction.does
        and instruction.keeps_flags
        and instruction.operand is None
        and reads == (*instruction.clobbers, FLAGS)
    )


def _part(value: Value | None, width: int) -> Value | None:
    # The lowest *width* bytes of a value, None if unknown.
    if value is None or width == 8 or value.kind in ("result", "bit"):
        return value
    return value._replace(at=value.at & 0xFFFFFFFF) if value.kind == "number" and width == 4 else None
