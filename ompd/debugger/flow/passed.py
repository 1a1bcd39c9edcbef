"""The numbers that functions on a stack have passed to routines: in their present calls, and in the calls before these.

A called routine overwrites the registers of its arguments. A number is known only if the code loads a constant, or if a
preserved register or a word of the frame still has the number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.memory import read_unsigned
from ompd.contract.process import Frame
from ompd.debugger.flow.follow import Function
from ompd.debugger.flow.state import State, Value
from ompd.debugger.flow.values import FrameValues
from ompd.errors import Unavailable

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Functions

_MAX_CALLERS = 8  # functions that hand a number on to the next one
_SIZEOF_INT = 4
_MASK = (1 << 8 * _SIZEOF_INT) - 1
LOST = "no register or word of the stack has kept the number that was passed"
_NO_WAY = "no way through the function leads to the call"


class PresentCall(NamedTuple):
    """The present call of the first of ``frames``, which is followed by the frames outside of it.

    If ``jumps`` are given, functions that this call has entered have ended by these jumps, in this order, and have no
    frames. The present call is then the last jump.
    """

    frames: Sequence[Frame]
    jumps: tuple[int, ...] = ()


class EarlierCall(NamedTuple):
    """The ``address`` of a call that a function has made before its present call.

    ``between`` are the addresses of the instructions that may have been executed since then.
    """

    address: int
    between: frozenset[int]


class Passed:
    """The 32-bit numbers that *functions* have passed in registers. Arguments are counted from 0."""

    def __init__(self, functions: Functions, values: FrameValues) -> None:
        self._functions, self._values = functions, values

    def call(self, frames: Sequence[Frame], jumps: Sequence[int] = ()) -> PresentCall:
        """Return the present call of the first of *frames*, or the last of *jumps*, as in :class:`PresentCall`."""
        return PresentCall(tuple(frames[:_MAX_CALLERS]), tuple(jumps))

    def number(self, present: PresentCall, argument: int) -> int:
        """Return the number that a call passes.

        :raises Unavailable: if the number is not known
        """
        function, state = self._followed(present)
        return self._read(self._in_register(state, argument), present, function, state, frozenset())

    def number_before(self, present: PresentCall, earlier: EarlierCall, argument: int) -> int:
        """Return the number that the function of a call has passed in an *earlier* call.

        :raises Unavailable: if the number is not known
        """
        function, state = self._followed(present)
        value = self._in_register(_state_before(function, earlier.address), argument)
        return self._read(value, present, function, state, earlier.between)

    def last_call(self, present: PresentCall, names: Collection[str], ends: Collection[str]) -> EarlierCall | None:
        """Return the last call of a routine in *names* that the function of a call has made before it.

        :returns: None without such a call, and if the last call of a routine in *ends* comes after it
        :raises Unavailable: if that depends on the way to the call
        """
        calls, between = self._functions.branches.last_calls(self._address(present), {*names, *ends})
        last = {call[0] if call is not None and call[1] in names else None for call in calls}
        if len(last) > 1:
            raise Unavailable("the calls before it depend on the way through its function")
        address = last.pop() if last else None
        return EarlierCall(address, between) if address is not None else None

    # Places

    def _address(self, present: PresentCall) -> int:
        # The address of the call or jump.
        if present.jumps:
            return present.jumps[-1]
        frame = present.frames[0] if present.frames else None
        if frame is None or frame.guessed or frame.call_site == frame.pc:
            raise Unavailable("the frame that made the call is not known for certain")
        call = self._function(frame.call_site).call_before(frame.pc)
        if call is None:
            raise Unavailable(_NO_WAY)
        return call

    def _function(self, address: int) -> Function:
        return self._functions.by_itself(self._functions.code.entry(address))

    def _followed(self, present: PresentCall) -> tuple[Function, State]:
        # The function that makes a call, and the state before the call.
        address = self._address(present)
        function = self._function(address)
        return function, _state_before(function, address)

    # Values

    def _in_register(self, state: State, argument: int) -> Value | None:
        processor = self._functions.processor
        registers = processor.arguments if processor is not None else ()
        return state.registers.get(registers[argument]) if argument < len(registers) else None

    def _read(
        self, value: Value | None, present: PresentCall, function: Function, state: State, between: frozenset[int]
    ) -> int:
        # *state* is the one before the present call. *between* are instructions since the value was passed: what one of
        # them has computed again is another value.
        if value is not None and value.kind == "number":
            return value.offset & _MASK
        if value is None or value.kind in ("frame", "result", "bit") or value.site in between:
            raise Unavailable(LOST)
        number = None
        if not present.jumps:
            number = self._read_kept(value, present.frames[0], state)
            if number is None:
                # The code of a construct has copied it from a variable.
                copy = self._values.copy_of(value, present.frames[0], function, state)
                number = read_unsigned(self._functions.memory, copy, _SIZEOF_INT) if copy is not None else None
        if number is None:
            number = self._passed_by_caller(value, present, function)
        return number + value.offset & _MASK

    def _read_kept(self, value: Value, frame: Frame, state: State) -> int | None:
        # The value without its offset, from a preserved register, or from a word that no other code can have written
        # to. Its lowest bytes are enough.
        for register, kept in state.registers.items():
            number = frame.registers.get(register) if _has_same_low_bytes(kept, value) else None
            if number is not None:
                return number - kept.offset
        for distance, slot in state.slots.items():
            is_own = state.escaped is None or distance + slot.width <= state.escaped
            has_number = slot.width >= _SIZEOF_INT and _has_same_low_bytes(slot.value, value)
            if is_own and has_number and frame.cfa is not None:
                return read_unsigned(self._functions.memory, frame.cfa + distance, _SIZEOF_INT) - slot.value.offset
        return None

    def _passed_by_caller(self, value: Value, present: PresentCall, function: Function) -> int:
        # The value of a parameter without its offset, by the call of the function.
        if len(present.jumps) > 1:
            outer, is_caller = PresentCall(present.frames, present.jumps[:-1]), True
        else:
            outer = PresentCall(present.frames if present.jumps else present.frames[1:])
            is_caller = bool(outer.frames) and self._called_by(outer.frames[0]) == function.entry
        argument = self._parameter(value)
        if argument is None or not is_caller:
            raise Unavailable(LOST)
        return self.number(outer, argument)

    def _parameter(self, value: Value) -> int | None:
        # The index of the function's parameter that has a value, None for other values.
        processor = self._functions.processor
        if processor is None or value.kind != "made" or -1 - value.site not in processor.arguments:
            return None
        return processor.arguments.index(-1 - value.site)

    def _called_by(self, frame: Frame) -> int | None:
        # The function that the present call of a frame is certain to enter, by its code.
        function = self._function(frame.call_site)
        call = function.call_before(frame.pc)
        instruction = function.instruction(call) if call is not None else None
        return self._functions.targets.target(instruction) if instruction is not None else None


def _state_before(function: Function, address: int) -> State:
    facts = function.facts_before(address)
    if facts is None:
        raise Unavailable(_NO_WAY)
    return facts.state


def _has_same_low_bytes(value: Value, other: Value) -> bool:
    # Whether the lowest bytes of two values are the same but for their offsets.
    return value._replace(offset=0, size=0) == other._replace(offset=0, size=0)
