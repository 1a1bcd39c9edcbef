"""The kernel's frames below signal handlers, recognised by the code that returns from a handler."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ompd.binary.cursor import order_mark
from ompd.errors import MemoryFault
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.debugger.memory import TargetMemory


class SignalFrames:
    """Finds the signal frames that the kernel has pushed in one process: some C libraries lack unwind data for them."""

    def __init__(self, memory: TargetMemory, architecture: Architecture) -> None:
        self._memory, self._architecture = memory, architecture
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._word = struct.Struct(
            order_mark(architecture.byte_order) + ("Q" if architecture.pointer_size == 8 else "I")
        )
        self._distances: dict[int, int | None] = {}

    def interrupted_registers(self, pc: int, sp: int) -> dict[int, int] | None:
        """Return the registers that the kernel saved before the handler ran, by DWARF number.

        :returns: None if the code at *pc* does not return from a handler, or if the stack cannot be read
        """
        distance = self._distance(pc)
        if distance is None:
            return None
        offsets = {number: distance + offset for number, offset in self._architecture.signal_context.items()}
        low, high = min(offsets.values()), max(offsets.values())
        try:
            data = self._memory.read((sp + low) & self._mask, high - low + self._architecture.pointer_size)
        except MemoryFault:
            return None
        word = self._word
        return {number: word.unpack_from(data, offset - low)[0] for number, offset in offsets.items()}

    def is_return(self, pc: int) -> bool:
        """Return whether the code at *pc* returns from a signal handler."""
        return self._distance(pc) is not None

    def _distance(self, pc: int) -> int | None:
        # The distance from the stack pointer to the registers that the kernel saved; None if the code at pc does not
        # return from a handler.
        if pc not in self._distances:
            self._distances[pc] = self._find_distance(pc)
        return self._distances[pc]

    def _find_distance(self, pc: int) -> int | None:
        returns = self._architecture.signal_returns
        try:
            data = self._memory.read(pc, max(len(code) for code, _, _ in returns))
        except MemoryFault:
            return None
        for code, within, distance in returns:
            if data.startswith(code[within:]) and self.ends_with(pc, code[:within]):
                return distance
        return None

    def ends_with(self, pc: int, code: bytes) -> bool:
        """Return whether *code* is right before *pc*."""
        try:
            return not code or self._memory.read((pc - len(code)) & self._mask, len(code)) == code
        except MemoryFault:
            return False
