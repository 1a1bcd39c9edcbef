"""The effects of instructions on the facts about a function: those at one place, and those of the whole function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.debugger.flow.state import (
    CALLEE,
    ENTERED,
    LOCAL,
    MASK,
    OTHER,
    POINTER,
    Held,
    Released,
    Slot,
    State,
    Value,
    added,
    frame_distance,
    meets,
    number_of,
)
from ompd.isa.instructions import FLAGS, Instruction
from ompd.naming import Routine

# Functions that write only to the object to which their first argument points.
_WRITES_ITS_ARGUMENT = frozenset(("sigemptyset", "sigfillset", "sigaddset", "sigdelset"))


class Origin(NamedTuple):
    """The address that a value was loaded from: ``base`` + ``displacement``."""

    base: Value
    displacement: int


_ANYWHERE = Origin(Value("number"), 0)


@dataclass
class Summary:
    """The facts about a whole function, on all of its ways.

    ``origins`` are the addresses that values were loaded from, by the instruction that loaded them. ``stored`` are the
    distances from pointers of unknown value at which the function writes. ``called_by_pointer`` are the targets of its
    calls by pointers, perhaps entries of the linkage table; None if unknown. ``released`` are constructs and locks that
    it ends without having begun them. ``may_return_twice`` is whether it makes a call that does.
    """

    origins: dict[int, Origin] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    called_by_pointer: set[int | None] = field(default_factory=set)
    released: frozenset[Released] = frozenset()
    may_return_twice: bool = False


class Interpreter:
    """Changes states as the instructions of one function do, and notes facts about the function in its ``summary``."""

    def __init__(self, code: FunctionCode) -> None:
        self._code, self._processor = code, code.processor
        self._general = frozenset(range(self._processor.first_vector)) - {self._processor.stack_pointer}
        self.summary = Summary()

    def state_at_entry(self) -> State:
        """Return the state at the function's entry."""
        state = State({number: Value("made", -1 - number) for number in self._general})
        state.registers[self._processor.stack_pointer] = Value("frame", offset=-self._processor.entry_distance)
        return state

    def state_at_pad(self, state: State) -> State:
        """Return the state at the landing pad of a call that throws, by the state before the call."""
        at_pad = state.copy()
        self._forget_call_registers(at_pad)
        return at_pad

    def state_after_branch(self, state: State, *, is_equal: bool | None) -> State:
        """Return the state after a branch on the result of a routine that may have acquired an object.

        :param is_equal: whether "equal" holds on this side of the branch, None if the branch tests something else
        """
        decided = state.copy()
        if state.flags is None or is_equal is None:
            return decided
        call, means_nonzero = state.flags
        held = decided.held.get(call)
        if held is not None and held.doubt == ENTERED:
            if (means_nonzero == is_equal) == held.routine.on:
                decided.held[call] = held._replace(doubt="")
            else:
                del decided.held[call]
        return decided

    def leave(self, state: State) -> None:
        """Note the objects that a function which ends in *state* has released without having acquired them."""
        self.summary.released |= state.released

    def leave_by_jump(self, state: State, jump: Instruction) -> None:
        """Do the same for a function that ends with a *jump* to another one, which may release objects, too."""
        self.leave(state)
        called = self._code.called(jump)
        routine = called.routine
        if routine is None:
            self.summary.released |= called.released or frozenset()
        elif not routine.begins and not routine.pauses:
            value = self.argument(routine, state)
            if not any(
                held.routine.kind == routine.kind and not held.doubt and meets(held.value, value)
                for held in state.held.values()
            ):
                self.summary.released |= {(routine.kind, value)}

    def carry_out_either(self, instruction: Instruction, state: State) -> Sequence[State]:
        """Return the states after an instruction: two after a conditional move, which may or may not move a value."""
        choices = [state.registers.get(register) for register in instruction.reads[:2]]
        self.carry_out(instruction, state)
        if not _is_conditional_move(instruction):
            return (state,)
        states = [state, state.copy()]
        for after, value in zip(states, choices, strict=True):
            after.set(instruction.clobbers[0], value)
        return states

    def carry_out(self, instruction: Instruction, state: State) -> None:
        """Change *state*, which is the one before an instruction, to the state after it."""
        if instruction.flow == "call":
            self._call(instruction, state)
            return
        if instruction.does:
            self._operate(instruction, state)
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
                state.set_computed(number, instruction.address)
        if not instruction.keeps_flags and instruction.does not in ("compare", "bit"):
            state.flags = None

    # Instructions that are understood

    def _operate(self, instruction: Instruction, state: State) -> None:
        to, stack_pointer = instruction.to, self._processor.stack_pointer
        source = state.registers.get(instruction.source) if instruction.source is not None else None
        match instruction.does:
            case "copy" if to is not None:
                if {to, instruction.source} != {stack_pointer, self._processor.frame_pointer}:
                    state.escape(source)
                state.set(to, _low_bytes(source, instruction.width))
            case "constant" if to is not None:
                number = Value("number", offset=instruction.value & MASK)
                state.set(to, number if instruction.width >= 4 else None)
            case "add" if to is not None:
                state.set(to, added(state.registers.get(to), instruction.value))
                if to != stack_pointer:
                    state.escape(state.registers.get(to))
            case "flip" if to is not None:
                state.set(to, _flipped(state.registers.get(to), is_bit=instruction.value < 0))
            case "address" if to is not None:
                self._take_address(instruction, state, to)
            case "load" if to is not None:
                self._load(instruction, state, to)
            case "store":
                self._store(instruction, state, source)
            case "push":
                self._push(state, source)
            case "pop":
                self._pop(state, state.registers.get(stack_pointer), to)
            case "leave":
                frame_pointer = self._processor.frame_pointer
                self._pop(state, state.registers.get(frame_pointer), frame_pointer)
            case "compare":
                self._compare(instruction, state, source)
            case "bit":
                is_truth = source is not None and source.kind in ("result", "bit")
                state.flags = (source.site, not source.offset) if source is not None and is_truth else None
            case "set" if to is not None:
                truth = None
                if state.flags is not None:
                    call, means_nonzero = state.flags
                    truth = Value("result", call, int(means_nonzero == bool(instruction.value)))
                state.set(to, truth)

    def _take_address(self, instruction: Instruction, state: State, to: int) -> None:
        operand = instruction.operand
        if operand is None:
            return
        address = state.address_of(operand)
        if to != self._processor.stack_pointer:
            base = state.registers.get(operand.base) if operand.base is not None else None
            state.escape(address if address is not None else added(base, operand.displacement))
        state.set(to, address)

    def _load(self, instruction: Instruction, state: State, to: int) -> None:
        operand = instruction.operand
        if operand is None:
            return
        address, width = state.address_of(operand), instruction.width
        slot = state.slot_at(address)
        value = _low_bytes(slot.value, width) if slot is not None and slot.width >= width else None
        if value is not None:
            state.set(to, value)
            return
        pointer = number_of(address)
        constant = self._code.constant(pointer) if pointer is not None and width == 8 else None
        if constant is not None:
            state.set(to, Value("number", offset=constant))
            return
        state.forget(instruction.address)
        if width not in (4, 8):
            state.set(to, None)
            return
        loaded = Value("made", instruction.address, size=width)
        distance = frame_distance(address)
        if distance is not None and (slot is None or width == 8):
            state.slots[distance] = Slot(loaded, width)
        self._note_origin(instruction.address, address)
        state.set(to, loaded)

    def _note_origin(self, load: int, address: Value | None) -> None:
        origin = _ANYWHERE
        if address is not None and address.kind == "made":
            origin = Origin(address._replace(offset=0), address.offset)
        if self.summary.origins.setdefault(load, origin) != origin:
            self.summary.origins[load] = _ANYWHERE  # another way here loads from another address

    def _store(self, instruction: Instruction, state: State, value: Value | None) -> None:
        if instruction.operand is None:
            return
        if instruction.source is None:
            value = Value("number", offset=instruction.value & ((1 << 8 * instruction.width) - 1))
        state.escape(value)
        if frame_distance(state.address_of(instruction.operand)) is None:
            self._give_away(value)
        self._note_store(instruction, state)
        state.write(instruction.operand, instruction.width, _low_bytes(value, instruction.width))

    def _note_store(self, instruction: Instruction, state: State) -> None:
        operand = instruction.operand
        if operand is None or operand.is_indexed:
            return
        address = state.address_of(operand)
        if address is None:
            self.summary.stored.add(operand.displacement)
        elif address.kind == "made":
            self.summary.stored.update((address.offset, operand.displacement))

    def _push(self, state: State, value: Value | None) -> None:
        pointer, size = self._processor.stack_pointer, self._processor.entry_distance
        address = added(state.registers.get(pointer), -size)
        state.set(pointer, address)
        distance = frame_distance(address)
        if distance is not None:
            state.slots.pop(distance, None)
            if value is not None:
                state.slots[distance] = Slot(value, size)

    def _pop(self, state: State, address: Value | None, to: int | None) -> None:
        # Loads the word at an address of the stack into the register *to*, and sets the stack pointer behind the word.
        size = self._processor.entry_distance
        slot = state.slot_at(address)
        if to is not None:
            state.set(to, slot.value if slot is not None and slot.width == size else None)
        state.set(self._processor.stack_pointer, added(address, size))

    def _compare(self, instruction: Instruction, state: State, value: Value | None) -> None:
        if instruction.operand is not None:
            slot = state.slot_at(state.address_of(instruction.operand))
            value = slot.value if slot is not None and slot.width >= instruction.width else None
        state.flags = None
        if value is None or value.kind != "result":
            return
        held = state.held.get(value.site)
        # A routine that returns 0 for success may return any other value for failure.
        if instruction.value == 0 or (instruction.value == 1 and held is not None and held.routine.on):
            state.flags = value.site, bool(value.offset) == bool(instruction.value)

    # Calls

    def called(self, call: Instruction, state: State) -> Called:
        """Return the effects of a call in *state*."""
        return self._code.called(self.resolved(call, state))

    def resolved(self, call: Instruction, state: State) -> Instruction:
        """Return a call instruction, with the target set if it calls by a pointer that is known in *state*.

        Compilers keep entries of the linkage table in registers.
        """
        if call.target is not None or call.word is not None:
            return call
        value = state.registers.get(call.source) if call.source is not None else None
        slot = state.slot_at(state.address_of(call.operand)) if call.operand is not None else None
        target = number_of(slot.value if slot is not None else value)
        return call._replace(target=target) if target is not None else call

    def argument(self, routine: Routine, state: State) -> Value | None:
        """Return the object that *routine* receives if it is called in *state*, None if it has none, or if unknown."""
        registers, size = self._processor.arguments, self._processor.entry_distance
        if routine.argument is None:
            return None
        if routine.argument < len(registers):
            return state.registers.get(registers[routine.argument])
        pointer = state.registers.get(self._processor.stack_pointer)
        slot = state.slot_at(added(pointer, size * (routine.argument - len(registers))))
        return slot.value if slot is not None and slot.width == size else None

    def _call(self, instruction: Instruction, state: State) -> None:
        resolved = self.resolved(instruction, state)
        called = self._code.called(resolved)
        routine = called.routine
        if instruction.target is None and instruction.word is None:
            self.summary.called_by_pointer.add(resolved.target)
        for register in self._processor.arguments:
            self._give_away(state.registers.get(register))
        self.summary.may_return_twice |= called.returns_twice
        passed = self.argument(routine, state) if routine is not None else None
        first = state.registers.get(self._processor.arguments[0])
        state.forget(instruction.address)
        self._forget_call_registers(state)
        if routine is None:
            self._call_function(called, state)
        elif not routine.pauses and routine.begins:
            self._begin(instruction.address, called.name, routine, passed, state)
        elif not routine.pauses:
            _end(routine, passed, state)
        if called.name not in _WRITES_ITS_ARGUMENT or first is None or not state.write_from(first):
            state.write_escaped()
        result = Value("made", instruction.address)
        if routine is not None and routine.begins and routine.on is not None:
            result = Value("result", instruction.address, 1)
        state.registers[self._processor.result] = result
        state.flags = None

    def _forget_call_registers(self, state: State) -> None:
        for number in self._processor.caller_saved:
            state.registers.pop(number, None)

    def _begin(self, call: int, name: str, routine: Routine, value: Value | None, state: State) -> None:
        state.held.pop(call, None)  # so that the new entry is the last one in the dictionary
        doubt = ENTERED if routine.on is not None else ""
        state.held[call] = Held(routine, name, value, doubt, number_of(value))

    def _call_function(self, called: Called, state: State) -> None:
        # A call of a function that is no routine may release what this function holds.
        if called.released is None:
            for call, held in state.held.items():
                if held.routine.argument is not None and not held.doubt and held.routine.kind != "critical":
                    state.held[call] = held._replace(doubt=POINTER)
            return
        for kind, value in called.released:
            state.released |= {(kind, value)}
            for call, held in state.held.items():
                if held.routine.kind == kind and not held.doubt and meets(held.value, value) is not False:
                    state.held[call] = held._replace(doubt=CALLEE)

    def _give_away(self, value: Value | None) -> None:
        # A function that receives the address of a routine may call the routine.
        address = number_of(value)
        routine = self._code.routine_at(address) if address is not None else None
        if routine is not None and not routine.begins:
            self.summary.released |= {(routine.kind, None)}


def _end(routine: Routine, value: Value | None, state: State) -> None:
    # The effect of a call of a routine that ends a construct or releases a lock, whose object is *value*.
    kind = routine.kind
    candidates = [call for call, held in state.held.items() if held.routine.kind == kind]
    ended = [call for call in candidates if routine.argument is None or meets(state.held[call].value, value)]
    if not ended and kind == "critical" and candidates:
        ended = candidates[-1:]  # critical sections are nested: the innermost one
    if kind.startswith("nest_"):
        ended = ended[-1:]
    if all(state.held[call].doubt for call in ended):  # also if there is none
        state.released |= {(kind, value)}
    if ended:
        for call in ended:
            del state.held[call]
        return
    for call in candidates:
        held = state.held[call]
        if meets(held.value, value) is False:
            continue
        is_vague = all(known is None or known.kind in LOCAL for known in (held.value, value))
        if is_vague and None in (state.readable(held.value), state.readable(value)):
            del state.held[call]  # neither value can be read; that both are one object is likelier
        else:
            state.held[call] = held._replace(doubt=held.doubt or OTHER)


def _is_conditional_move(instruction: Instruction) -> bool:
    # A move between registers: it reads both and the flags, and keeps the flags.
    reads = instruction.reads[1:]
    return (
        not instruction.does
        and instruction.keeps_flags
        and instruction.operand is None
        and reads == (*instruction.clobbers, FLAGS)
    )


def _flipped(value: Value | None, *, is_bit: bool) -> Value | None:
    # The opposite of a truth value, None for other values. If *is_bit*, only the lowest bit is flipped to it.
    if value is None or value.kind not in ("result", "bit"):
        return None
    return value._replace(kind="bit" if is_bit else value.kind, offset=1 - value.offset)


def _low_bytes(value: Value | None, width: int) -> Value | None:
    # The lowest *width* bytes of a value, None if unknown.
    if value is None or width == 8 or value.kind in ("result", "bit"):
        return value
    if width != 4 or value.kind == "frame":
        return None
    return value._replace(offset=value.offset & 0xFFFFFFFF) if value.kind == "number" else value._replace(size=4)
