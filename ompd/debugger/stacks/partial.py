"""Stacks of threads that sleep and were not stopped.

Their callee-saved registers are unknown, unless an inner frame has saved them. To follow most of these stacks, only the
frame pointer is needed. It can be computed from the stack pointer and the size of the frame, which the function's
instructions show. If the stack can then be followed to its end, the computed frame pointer counts as if it was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from ompd.debugger.flow.frame_sizes import frame_size
from ompd.debugger.memory import TargetMemory
from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.unwind import Unwinder
from ompd.debugger.targets.base import PartialRegisters
from ompd.errors import MemoryFault, OmpdError
from ompd.isa.architecture import Architecture
from ompd.isa.processors import processor_of

_MAX_CODE = 1 << 18  # bytes of one function


class FrameRegisters(dict[int, int]):
    """Registers of a frame, by DWARF number.

    :param values: the known registers
    :param unknown: the registers that would be known if the thread was stopped
    :param on_want: is called at each access to an unknown register
    """

    def __init__(self, values: Mapping[int, int], unknown: frozenset[int], on_want: Callable[[], None]) -> None:
        super().__init__(values)
        self._unknown, self._on_want = unknown, on_want

    def get(self, number: int, default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the value of a register, *default* if it is unknown."""
        if number in self._unknown:
            self._on_want()
        return super().get(number, default)

    def values(self) -> Iterator[int]:  # type: ignore[override]
        """Yield the known values. A search through the values counts as access to the unknown registers."""
        yield from super().values()
        if self._unknown:
            self._on_want()

    def __missing__(self, number: int) -> int:
        if number in self._unknown:
            self._on_want()
        raise KeyError(number)


class PartialStacks:
    """Follows stacks of threads some of whose registers are unknown."""

    def __init__(self, unwinder: Unwinder, memory: TargetMemory, architecture: Architecture) -> None:
        self._unwinder, self._memory, self._architecture = unwinder, memory, architecture
        self._processor = processor_of(architecture.e_machine)
        self._sizes: dict[int, int | None] = {}

    def follow(self, registers: PartialRegisters, *, guess: bool) -> tuple[tuple[Frame, ...], str | None]:
        """Return the frames of the thread with *registers*, and why its stack ends early, None if it is complete.

        Access to an unknown register of a frame is recorded by :meth:`PartialRegisters.want`.
        """
        walk = self._unwinder.unwind(registers, guess=guess)
        frames = tuple(walk)
        if walk.stopped is not None and not guess and frames:
            pointer = self.frame_pointer(registers, frames[-1])
            if pointer is not None:
                registers[self._architecture.fp] = pointer
                return self.follow(registers, guess=guess)
        frames = tuple(self._noting(frame, registers.want) for frame in frames)
        if walk.stopped is not None and frames and isinstance(frames[-1].registers, FrameRegisters):
            registers.want()
        return frames, walk.stopped

    def _noting(self, frame: Frame, on_want: Callable[[], None]) -> Frame:
        unknown = self._architecture.callee_saved.difference(frame.registers)
        return frame._replace(registers=FrameRegisters(frame.registers, unknown, on_want)) if unknown else frame

    def frame_pointer(self, registers: Mapping[str, int], last: Frame) -> int | None:
        """Return the frame pointer of a thread, None if the code and the words on its stack do not prove it.

        :param registers: the thread's known registers
        :param last: the frame whose caller could not be found
        """
        if last.cfa is not None or self._unwinder.fp in last.registers:
            return None
        value = self._computed_frame_pointer(last)
        if value is None:
            return None
        # No inner frame has saved the frame pointer, so it is still in the thread's own register.
        walk = self._unwinder.unwind({**registers, self._architecture.fp: value})
        for _ in walk:
            pass
        return value if walk.stopped is None else None

    def _computed_frame_pointer(self, frame: Frame) -> int | None:
        step = self._unwinder.steps.at(frame.call_site)
        if step is None or step.row.cfa.expression or step.cfa_register != self._unwinder.fp:
            return None
        size = self._size(frame, step.function_start, step.function_end, step.cfa_offset)
        if size is None:
            return None
        cfa = frame.sp + size
        pointer = cfa - step.cfa_offset
        try:
            saved = self._word(pointer)
            return_address = self._word(cfa - self._architecture.pointer_size)
        except MemoryFault:
            return None
        is_inside = frame.sp <= saved < cfa
        return pointer if not is_inside and self._calls(return_address, step.function_start) else None

    def _word(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, self._memory.pointer_size), self._memory.byte_order)

    def _size(self, frame: Frame, start: int, end: int, below_cfa: int) -> int | None:
        # The distance from the stack pointer to the CFA at the frame's pc, None if unknown. It is kept, because all
        # threads of a team are at the same few places.
        if frame.pc not in self._sizes:
            self._sizes[frame.pc] = self._size_by_code(frame.pc, start, end, below_cfa)
        return self._sizes[frame.pc]

    def _size_by_code(self, pc: int, start: int, end: int, below_cfa: int) -> int | None:
        # Only for a function's entry part: a cold part begins with the frame already set up, so its code does not show
        # the frame's size.
        processor, entry = self._processor, self._unwinder.steps.at(start)
        if processor is None or entry is None or end - start > _MAX_CODE:
            return None
        if (entry.cfa_register, entry.cfa_offset) != (self._unwinder.sp, processor.entry_distance):
            return None
        try:
            return frame_size(processor, self._memory.read_code(start, end - start), start, pc, below_cfa)
        except OmpdError:
            return None

    def _calls(self, address: int, function: int) -> bool:
        # Return whether *function* may return to *address*. The instruction before *address* must be a call of the
        # function, by a pointer or through a linkage table. Or *address* is where signal handlers return to.
        if self._unwinder.signals.is_return(address):
            return True
        architecture = self._architecture
        try:
            code = self._memory.read_code(address - architecture.max_call_size, architecture.max_call_size)
            call = architecture.call_pattern.search(code)
            target = architecture.call_target(call, address) if call is not None else None
            if target is None or target == function:
                return call is not None
            calls = architecture.calls
            return (
                calls is not None
                and re.match(calls.linkage, self._memory.read_code(target, calls.stub_size)) is not None
            )
        except OmpdError:
            return False
