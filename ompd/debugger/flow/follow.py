"""Follows all ways through one function, from its beginning to each place that its code comes to.

A way that no call, jump or exception handler shows is not followed. Where a place is reached in several ways, what is
true on some of them alone is doubtful there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ompd.debugger.flow.blocks import find_blocks
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
from ompd.isa.instructions import FLAGS, Instruction, Processor
from ompd.naming import Routine

# These write to the object that is their first argument, and nowhere else.
_WRITES_ITS_ARGUMENT = frozenset(("sigemptyset", "sigfillset", "sigaddset", "sigdelset"))
_MAX_STATES = 16  # of one place, by the ways to it
_MAX_VISITS = 1 << 20  # instructions, each as often as something new was found out


class Called(NamedTuple):
    """What a call leads to: a routine of the table; functions that return to nobody or twice; or what code of the
    user's may let go of, None if that is unknown.
    """

    name: str = ""
    routine: Routine | None = None
    ends: bool = False
    is_twice: bool = False
    lets_go: frozenset[Released] | None = frozenset()


class Origin(NamedTuple):
    """Where a value was loaded from: a place that is *displacement* bytes from another value."""

    base: Value
    displacement: int


_ANYWHERE = Origin(Value("number", 0), 0)


class Place(NamedTuple):
    """What is known at one place: a ``state``, and for each call in it why it is doubtful that it is not undone."""

    state: State
    doubts: Mapping[int, str]


class Function:
    """The ways through one function.

    :param entry: where it begins
    :param code: returns the instruction at an address, None if none is there
    :param is_own: says whether a jump's target is still the same function
    :param called: what a call does
    :param pads: for each call in which an exception may be thrown, where its handlers begin
    :param constant: returns what a word has at an address that nobody writes to, None for another
    :param routine_at: returns what the routine does that begins at an address, None for any other address
    :param spend: is called with a number of instructions before these are followed, and may refuse by Unavailable
    :raises Unavailable: if there is more code than may be followed, or some that is not understood
    """

    def __init__(
        self,
        entry: int,
        code: Callable[[int], Instruction | None],
        processor: Processor,
        is_own: Callable[[int], bool],
        called: Callable[[Instruction], Called],
        pads: Callable[[int], Sequence[int]],
        constant: Callable[[int], int | None],
        routine_at: Callable[[int], Routine | None],
        spend: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._routine_at, self._spend = routine_at, spend
        self._places: dict[int, Place | None] = {}
        self._code, self._processor, self._is_own = code, processor, is_own
        self._called, self._pads, self._constant = called, pads, constant
        self._general = frozenset(range(processor.first_vector)) - {processor.stack_pointer}
        self.entry = entry
        self.origins: dict[int, Origin] = {}
        self.by_pointer: set[int | None] = set()
        """What it calls by pointers, or entries of the linkage table; None for what is not seen."""
        self.stored: set[int] = set()
        """Distances from other values at which something is written."""
        self._before: dict[int, State] = {}
        self._computed: dict[int, State] = {}  # at jumps that go anywhere
        self._is_twice = False
        self.lets_go: frozenset[Released] = frozenset()
        self._blocks, self._block_of = find_blocks(entry, code, self._ways, self._goes_on, _MAX_VISITS)
        self._settle()

    def _jumps(self, found: Instruction) -> Sequence[int]:
        if found.flow in ("jump", "branch") and found.target is not None and self._is_own(found.target):
            return (found.target,)
        return ()

    def _ways(self, found: Instruction) -> Sequence[int]:
        # Where it may lead besides what comes behind it.
        return [*self._jumps(found), *(self._pads(found.address) if found.flow == "call" else ())]

    def _goes_on(self, found: Instruction) -> bool:
        if found.flow == "call":
            return not self._called(found).ends
        return found.flow in ("next", "branch") and self._is_own(found.end)

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
            self._spend(len(block))
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
        # The states with which a block is left, and for where.
        for found in block:
            if found.flow == "call":
                for pad in self._pads(found.address):
                    at_pad = state.copy()
                    for number in self._processor.lost:
                        at_pad.registers.pop(number, None)
                    yield pad, at_pad
            elif found.flow == "computed":
                self._leave(state)
                self.by_pointer.add(None)
                if found.address in self._computed:
                    self._computed[found.address].join(state, found.address)
                else:
                    self._computed[found.address] = state.copy()
                return
            if found.flow in ("jump", "branch"):
                targets = self._jumps(found)
                if not targets and found.flow == "jump":
                    self._leave(state, found)
                for target in targets:
                    yield target, self._decided(state, found, found.on_zero)
                if not targets and found.flow == "branch":
                    self._leave(state, found)
                if found.flow == "branch" and self._goes_on(found):
                    decided = None if found.on_zero is None else not found.on_zero
                    yield found.end, self._decided(state, found, decided)
                return
            if found.flow == "return":
                self._leave(state)
                return
            if found.flow == "stop":
                return
            self._carry_out(found, state)
            if not self._goes_on(found):
                return
        yield block[-1].end, state

    def _leave(self, state: State, jump: Instruction | None = None) -> None:
        # What the function lets go of that somebody else took.
        self.lets_go |= state.released
        if jump is not None:
            there = self._called(jump)
            if there.routine is not None and not there.routine.begins and not there.routine.pauses:
                value = self.argument(there.routine, state)
                if not any(
                    held.routine.kind == there.routine.kind and not held.doubt and meets(held.value, value)
                    for held in state.held.values()
                ):
                    self.lets_go |= {(there.routine.kind, value)}
            elif there.routine is None and there.lets_go:
                self.lets_go |= there.lets_go

    def _decided(self, state: State, found: Instruction, is_equal: bool | None) -> State:
        # The state behind a branch, where a routine's result said whether it took something.
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

    def at(self, address: int) -> Place | None:
        """Return what is known before the instruction at *address*, None if no way that is followed leads there."""
        if address not in self._places:
            self._places[address] = self._find_place(address)
        return self._places[address]

    def _find_place(self, address: int) -> Place | None:
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return None
        state = self._before[leader].copy()
        for found in self._blocks[leader]:
            if found.address == address:
                return Place(state, self._doubts(state, found))
            self._carry_out(found, state)
        return None

    def states_before(self, address: int) -> Sequence[State]:
        """Return what is known before the instruction at *address*, for each block that may come before its own."""
        leader = self._block_of.get(address)
        if leader is None or leader not in self._before:
            return ()
        known = ((block, self._before[at]) for at, block in self._blocks.items() if at in self._before)
        found = [s.copy() for block, state in known for to, s in self._through(block, state.copy()) if to == leader]
        found = found if leader != self.entry else [*found, self._before[leader].copy()]
        for each in self._blocks[leader]:
            if each.address == address:
                break
            found = [made for state in found for made in self._either(each, state, is_alone=len(found) > _MAX_STATES)]
        return found

    def _either(self, found: Instruction, state: State, *, is_alone: bool) -> Sequence[State]:
        # What is known behind an instruction: of a conditional move, where it has moved something and where it has not.
        chosen = (state.registers.get(register) for register in found.reads[:2])
        self._carry_out(found, state)
        if is_alone or not _is_conditional_move(found):
            return (state,)
        others = [state, state.copy()]
        for other, value in zip(others, chosen, strict=True):
            other.set(found.clobbers[0], value)
        return others

    def call_before(self, address: int) -> int | None:
        """Return where the call begins that ends at *address*, None if no way that is followed leads to one."""
        for size in range(1, self._processor.max_size + 1):
            found = self._code(address - size) if address - size in self._block_of else None
            if found is not None and found.flow == "call" and found.end == address:
                return found.address
        return None

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address."""
        return self._code(address)

    def _doubts(self, state: State, here: Instruction) -> Mapping[int, str]:
        # What makes doubtful at this place what is not so by the ways that lead there.
        doubts: dict[int, str] = {}
        there = self._called(self._resolved(here, state)) if here.flow == "call" else Called()
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

    def _carry_out(self, found: Instruction, state: State) -> None:
        if found.flow == "call":
            self._call(found, state)
            return
        if found.does:
            self._do(found, state)
        elif found.stores:
            self._note_store(found, state)
            state.write(found.operand, found.width or 8, None)
        written = set(found.clobbers)
        if found.to is not None and found.to not in state.registers:
            written.add(found.to)
        if written:
            state.forget(found.address)
        for number in written:
            state.registers.pop(number, None)
            if number in self._general:
                state.keep(number, found.address)
        if not found.keeps_flags and found.does not in ("compare", "bit"):
            state.flags = None

    def _note_store(self, found: Instruction, state: State) -> None:
        operand = found.operand
        if operand is None or operand.is_indexed:
            return
        at = state.address_of(operand)
        if at is None or at.kind == "made":
            self.stored.add(operand.displacement if at is None else at.more)
            self.stored.add(operand.displacement)

    def _do(self, found: Instruction, state: State) -> None:
        does, to, pointer = found.does, found.to, self._processor.stack_pointer
        source = state.registers.get(found.source) if found.source is not None else None
        if does == "copy" and to is not None:
            if {to, found.source} != {pointer, self._processor.frame_pointer}:
                state.escape(source)
            state.set(to, _part(source, found.width))
        elif does == "constant" and to is not None:
            state.set(to, Value("number", found.value & MASK) if found.width >= 4 else None)
        elif does == "address" and to is not None and found.operand is not None:
            at = state.address_of(found.operand)
            base = state.registers.get(found.operand.base) if found.operand.base is not None else None
            if to != pointer:
                state.escape(at if at is not None else added(base, found.operand.displacement))
            state.set(to, at)
        elif does == "load" and to is not None and found.operand is not None:
            self._load(found, state, to)
        elif does == "store" and found.operand is not None:
            if found.source is None:
                source = Value("number", found.value & ((1 << 8 * found.width) - 1))
            state.escape(source)
            at = state.address_of(found.operand)
            if at is None or at.kind != "frame":
                self._give_away(source)
            self._note_store(found, state)
            state.write(found.operand, found.width, _part(source, found.width))
        elif does == "add" and to is not None:
            state.set(to, added(state.registers.get(to), found.value))
            if to != pointer:
                state.escape(state.registers.get(to))
        elif does == "flip" and to is not None:
            value = state.registers.get(to)
            if value is not None and value.kind in ("result", "bit"):
                value = value._replace(kind="bit" if found.value < 0 else value.kind, more=1 - value.more)
                state.set(to, value)
            else:
                state.set(to, None)
        elif does in ("push", "pop", "leave"):
            self._stack(found, state)
        elif does == "compare":
            self._compare(found, state, source)
        elif does == "bit":
            is_known = source is not None and source.kind in ("result", "bit")
            state.flags = (source.at, not source.more) if source is not None and is_known else None
        elif does == "set" and to is not None:
            flags = state.flags
            state.set(to, Value("result", flags[0], int(flags[1] == bool(found.value))) if flags is not None else None)

    def _stack(self, found: Instruction, state: State) -> None:
        pointer, frame = self._processor.stack_pointer, self._processor.frame_pointer
        size = self._processor.entry_distance
        if found.does == "push":
            at = added(state.registers.get(pointer), -size)
            state.set(pointer, at)
            if at is not None and at.kind == "frame":
                value = state.registers.get(found.source) if found.source is not None else None
                state.slots.pop(at.at, None)
                if value is not None:
                    state.slots[at.at] = value, size
            return
        to, at = found.to, state.registers.get(pointer)
        if found.does == "leave":
            to, at = frame, state.registers.get(frame)
        slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
        if to is not None:
            state.set(to, slot[0] if slot is not None and slot[1] == size else None)
        state.set(pointer, added(at, size))

    def _load(self, found: Instruction, state: State, to: int) -> None:
        operand = found.operand
        assert operand is not None
        at = state.address_of(operand)
        if at is not None and at.kind == "frame":
            slot = state.slots.get(at.at)
            part = _part(slot[0], found.width) if slot is not None and slot[1] >= found.width else None
            if part is not None:
                state.set(to, part)
                return
        value = self._constant(at.at) if at is not None and at.kind == "number" and found.width == 8 else None
        if value is not None:
            state.set(to, Value("number", value))
            return
        state.forget(found.address)
        if found.width != 8:
            state.set(to, None)
            return
        made = Value("made", found.address)
        if at is not None and at.kind == "frame":
            state.slots[at.at] = made, found.width
        origin = Origin(at._replace(more=0), at.more) if at is not None and at.kind == "made" else _ANYWHERE
        if self.origins.setdefault(found.address, origin) != origin:
            self.origins[found.address] = _ANYWHERE  # not the same one each time
        state.set(to, made)

    def _compare(self, found: Instruction, state: State, value: Value | None) -> None:
        if found.operand is not None:
            at = state.address_of(found.operand)
            slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
            value = slot[0] if slot is not None and slot[1] >= found.width else None
        state.flags = None
        if value is None or value.kind != "result":
            return
        held = state.held.get(value.at)
        # Of those that return 0 for success, what is not 0 need not be 1.
        if found.value == 0 or (found.value == 1 and held is not None and held.routine.on):
            state.flags = value.at, bool(value.more) == bool(found.value)

    # Calls

    def called_at(self, address: int) -> int | None:
        """Return where the call at *address* leads, or an entry of the linkage table, None if that is not seen."""
        found, place = self._code(address), self.at(address)
        if found is None or place is None or found.flow != "call":
            return None
        return self._resolved(found, place.state).target

    def _resolved(self, found: Instruction, state: State) -> Instruction:
        # Calls by a pointer of which it is known what it is: so compilers save an entry of the linkage table.
        if found.target is not None or found.word is not None:
            return found
        value = state.registers.get(found.source) if found.source is not None else None
        at = state.address_of(found.operand) if found.operand is not None else None
        if at is not None and at.kind == "frame" and at.at in state.slots:
            value = state.slots[at.at][0]
        return found._replace(target=value.at) if value is not None and value.kind == "number" else found

    def _give_away(self, value: Value | None) -> None:
        # Whoever gets the address of a routine may call it.
        routine = self._routine_at(value.at) if value is not None and value.kind == "number" else None
        if routine is not None and not routine.begins:
            self.lets_go |= {(routine.kind, None)}

    def argument(self, routine: Routine, state: State) -> Value | None:
        """Return the object that a routine gets if it is called in a state, None if that is unknown."""
        registers, size = self._processor.arguments, self._processor.entry_distance
        if routine.argument is None:
            return None
        if routine.argument < len(registers):
            return state.registers.get(registers[routine.argument])
        at = added(state.registers.get(self._processor.stack_pointer), size * (routine.argument - len(registers)))
        slot = state.slots.get(at.at) if at is not None and at.kind == "frame" else None
        return slot[0] if slot is not None and slot[1] == size else None

    def _call(self, found: Instruction, state: State) -> None:
        resolved = self._resolved(found, state)
        there = self._called(resolved)
        routine = there.routine
        if found.target is None and found.word is None:
            self.by_pointer.add(resolved.target)
        for argument in self._processor.arguments:
            self._give_away(state.registers.get(argument))
        self._is_twice |= there.is_twice
        value = self.argument(routine, state) if routine is not None else None
        first = state.registers.get(self._processor.arguments[0])
        state.forget(found.address)
        for number in self._processor.lost:
            state.registers.pop(number, None)
        if routine is not None and routine.pauses:
            pass
        elif routine is not None and routine.begins:
            state.held.pop(found.address, None)  # it is the last one now
            doubt = ENTERED if routine.on is not None else ""
            passed = value.at if value is not None and value.kind == "number" else None
            state.held[found.address] = Held(routine, there.name, value, doubt, passed)
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
        result = Value("made", found.address)
        if routine is not None and routine.begins and routine.on is not None:
            result = Value("result", found.address, 1)
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
            same = candidates[-1:]  # such sections are nested, so that it is the innermost
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
                del state.held[site]  # which ones they are cannot be seen: more likely the same than two
                continue
            state.held[site] = held._replace(doubt=held.doubt or OTHER)


def _is_conditional_move(found: Instruction) -> bool:
    # Of one register into another: it reads both, and what was compared last, which it keeps.
    reads = found.reads[1:]
    return not found.does and found.keeps_flags and found.operand is None and reads == (*found.clobbers, FLAGS)


def _part(value: Value | None, width: int) -> Value | None:
    # What is left of a value in its lowest bytes.
    if value is None or width == 8 or value.kind in ("result", "bit"):
        return value
    return value._replace(at=value.at & 0xFFFFFFFF) if value.kind == "number" and width == 4 else None
