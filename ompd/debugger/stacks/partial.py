"""Stacks of threads that sleep and were not stopped.

Their callee-saved registers are unknown, unless an inner frame has saved them. Most of these stacks need the frame
pointer only. The stack pointer and the size of the frame, computed from the function's instructions, give it as well.
The frame pointer counts as read if the stack can then be followed to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from ompd.debugger.flow.frame_sizes import frame_size
from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.unwind import Unwinder
from ompd.errors import MemoryFault, OmpdError
from ompd.isa.architecture import Architecture
from ompd.isa.processors import processor_of

_MAX_CODE = 1 << 18  # of one function


class FrameRegisters(dict[int, int]):
    """Registers of a frame, by DWARF number; asking for one that only a stop would tell calls *on_want*."""

    def __init__(self, values: Mapping[int, int], unknown: frozenset[int], on_want: Callable[[], None]) -> None:
        super().__init__(values)
        self._unknown, self._on_want = unknown, on_want

    def get(self, number: int, default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the value of a register, *default* if it is unknown."""
        if number in self._unknown:
            self._on_want()
        return super().get(number, default)

    def values(self) -> Iterator[int]:  # type: ignore[override]
        """Yield the known values; whoever looks at all of them asks for the unknown ones as well."""
        yield from super().values()
        if self._unknown:
            self._on_want()

    def __missing__(self, number: int) -> int:
        if number in self._unknown:
            self._on_want()
        raise KeyError(number)


class PartialStacks:
    """Follows stacks of threads some of whose registers are unknown.

    :param read_code: reads code, from files where possible
    """

    def __init__(
        self,
        unwinder: Unwinder,
        architecture: Architecture,
        read: Callable[[int, int], bytes],
        read_code: Callable[[int, int], bytes],
    ) -> None:
        self._unwinder, self._architecture = unwinder, architecture
        self._read, self._read_code = read, read_code
        self._processor = processor_of(architecture.e_machine)
        numbers = architecture.dwarf_registers
        self._sp, self._fp = numbers[architecture.sp], numbers[architecture.fp]
        self._sizes: dict[int, int | None] = {}

    def frame_pointer(self, registers: Mapping[str, int], last: Frame) -> int | None:
        """Return the frame pointer of a thread, None if its stack's code and words do not prove it.

        :param last: the frame at which its stack could not be followed further
        """
        if last.cfa is not None or self._fp in last.registers:
            return None
        value = self._found(last)
        if value is None:
            return None
        # No frame inside of that one has saved the register, so that the thread still has it.
        walk = self._unwinder.unwind({**registers, self._architecture.fp: value})
        for _ in walk:
            pass
        return value if walk.stopped is None else None

    def _found(self, frame: Frame) -> int | None:
        step = self._unwinder.step_at(frame.call_site)
        if step is None or step.row.cfa.expression or step.cfa_register != self._fp:
            return None
        size = self._size(frame, step.function_start, step.function_end, step.cfa_offset)
        if size is None:
            return None
        cfa, fp = frame.sp + size, frame.sp + size - step.cfa_offset
        try:
            word = self._architecture.pointer_size
            saved, caller = (
                int.from_bytes(self._read(at, word), self._architecture.byte_order) for at in (fp, cfa - word)
            )
        except MemoryFault:
            return None
        return fp if not frame.sp <= saved < cfa and self._calls(caller, step.function_start) else None

    def _size(self, frame: Frame, start: int, end: int, below_cfa: int) -> int | None:
        # The frame's size where it stands. All threads of a team stand at the same few places.
        if frame.pc not in self._sizes:
            self._sizes[frame.pc] = self._size_by_code(frame.pc, start, end, below_cfa)
        return self._sizes[frame.pc]

    def _size_by_code(self, pc: int, start: int, end: int, below_cfa: int) -> int | None:
        # A cold part of a function begins inside of its frame, so that its own code does not show the frame's size.
        processor, entry = self._processor, self._unwinder.step_at(start)
        if processor is None or entry is None or end - start > _MAX_CODE:
            return None
        if (entry.cfa_register, entry.cfa_offset) != (self._sp, processor.entry_distance):
            return None
        try:
            return frame_size(processor, self._read_code(start, end - start), start, pc, below_cfa)
        except OmpdError:
            return None

    def _calls(self, address: int, function: int) -> bool:
        # Return whether the instruction before *address* calls the function: directly, by a pointer, or through a
        # linkage table. The kernel calls handlers of signals.
        if self._unwinder.is_signal_return(address):
            return True
        architecture = self._architecture
        try:
            code = self._read_code(address - architecture.max_call_size, architecture.max_call_size)
            call = architecture.call_pattern.search(code)
            target = architecture.call_target(call, address) if call is not None else None
            if target is None or target == function:
                return call is not None
            calls = architecture.calls
            return calls is not None and re.match(calls.linkage, self._read_code(target, calls.stub_size)) is not None
        except OmpdError:
            return False
