"""Where a program returns from a handler of a signal, and the registers that the kernel saved for it."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ompd.binary.cursor import order_mark
from ompd.errors import MemoryFault
from ompd.isa.architecture import Architecture


class SignalFrames:
    """The kernel's frames below handlers, by code: not every C library has unwind data for it."""

    def __init__(self, read: Callable[[int, int], bytes], architecture: Architecture) -> None:
        self._read, self._architecture = read, architecture
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._word = struct.Struct(
            order_mark(architecture.byte_order) + ("Q" if architecture.pointer_size == 8 else "I")
        )
        self._returns: dict[int, int | None] = {}

    def context(self, pc: int, sp: int) -> dict[int, int] | None:
        """Return the interrupted registers, as the kernel saved them, where *pc* is that of a return from a handler,
        else None.
        """
        place = self._return(pc)
        if place is None:
            return None
        places = {number: place + offset for number, offset in self._architecture.signal_context.items()}
        low, high = min(places.values()), max(places.values())
        try:
            data = self._read((sp + low) & self._mask, high - low + self._architecture.pointer_size)
        except MemoryFault:
            return None
        word = self._word
        return {number: word.unpack_from(data, offset - low)[0] for number, offset in places.items()}

    def is_return(self, pc: int) -> bool:
        """Return whether at *pc* the program returns from a signal handler.

        By the code there: not every C library has unwind data for it.
        """
        return self._return(pc) is not None

    def _return(self, pc: int) -> int | None:
        # The distance from the stack pointer to what the kernel saved, None if pc is not at such a return.
        if pc not in self._returns:
            self._returns[pc] = self._find_return(pc)
        return self._returns[pc]

    def _find_return(self, pc: int) -> int | None:
        codes = self._architecture.signal_returns
        try:
            data = self._read(pc, max(len(code) for code, _, _ in codes))
        except MemoryFault:
            return None
        fitting = (
            context
            for code, within, context in codes
            if data.startswith(code[within:]) and self.ends_with(pc, code[:within])
        )
        return next(fitting, None)

    def ends_with(self, pc: int, code: bytes) -> bool:
        """Return whether *code* is before *pc*."""
        try:
            return not code or self._read((pc - len(code)) & self._mask, len(code)) == code
        except MemoryFault:
            return False
