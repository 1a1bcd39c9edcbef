"""Numbers for the values of a followed function, read from a frame of the function."""

from __future__ import annotations

from collections.abc import Callable

from ompd import naming
from ompd.contract.memory import read_pointer
from ompd.contract.process import Frame, Location
from ompd.debugger.flow.follow import Function
from ompd.debugger.flow.state import LOCAL, State, Value, has_same_base, number_of
from ompd.debugger.memory import TargetMemory
from ompd.errors import OmpdError
from ompd.isa.instructions import Processor


class FrameValues:
    """Reads values from the registers and the stack of a frame.

    :param locate: returns the symbol and module of an address
    """

    def __init__(self, memory: TargetMemory, processor: Processor | None, locate: Callable[[int], Location]) -> None:
        self._memory, self._processor, self._locate = memory, processor, locate

    def read(self, value: Value | None, frame: Frame, function: Function, state: State) -> int | None:
        """Return the number of *value*, None if neither a register nor memory has it any more, or not as a whole word.

        :param state: the state of *function* at the frame's place
        """
        if value is None or value.kind in ("result", "bit") or value.size < self._memory.pointer_size:
            return None
        if value.kind == "number":
            return number_of(value)
        if value.kind == "frame":
            return frame.cfa + value.offset if frame.cfa is not None else None
        number = self._read_kept(value, frame, state)
        return number if number is not None else self._load_again(value, frame, function, state)

    def _read_kept(self, value: Value, frame: Frame, state: State) -> int | None:
        # From a register or slot that still has the value, or has it with another offset.
        for register, kept in state.registers.items():
            number = frame.registers.get(register) if has_same_base(kept, value) else None
            if number is not None:
                return number - kept.offset + value.offset
        for distance, slot in state.slots.items():
            if not has_same_base(slot.value, value) or slot.width != self._memory.pointer_size or frame.cfa is None:
                continue
            if value.kind in LOCAL and state.escaped is not None and distance + slot.width > state.escaped:
                continue  # the called function may have written there
            try:
                word = read_pointer(self._memory, frame.cfa + distance)
            except OmpdError:
                return None
            return word - slot.value.offset + value.offset if word is not None else None
        return None

    def _load_again(self, value: Value, frame: Frame, function: Function, state: State) -> int | None:
        address = self.copy_of(value, frame, function, state)
        try:
            word = read_pointer(self._memory, address) if address is not None else None
        except OmpdError:
            return None
        return word + value.offset if word is not None else None

    def copy_of(self, value: Value, frame: Frame, function: Function, state: State) -> int | None:
        """Return where a construct's function has loaded *value*, apart from the value's offset; None if unknown.

        The value is still there: it is in the structure that the compiler made of the construct's variables, to which
        the function's first argument points, and the function does not write to it.
        """
        origin = function.summary.origins.get(value.site) if value.kind == "made" else None
        if origin is None or self._processor is None or origin.base.kind != "made":
            return None
        structure = self._read_kept(origin.base, frame, state)
        is_first_argument = origin.base.site == -1 - self._processor.arguments[0]
        if structure is None or origin.displacement in function.summary.stored or not is_first_argument:
            return None
        try:
            is_construct = naming.is_by_gcc(self._locate(function.entry).symbol or "")
        except OmpdError:
            return None
        return structure + origin.displacement if is_construct else None
