"""Types for the variables of one frame."""

from __future__ import annotations

from collections.abc import Callable

from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.location import FrameContext, evaluate_type
from ompd.binary.types.layouts import TypeReader
from ompd.binary.types.types import TypeInfo
from ompd.errors import Unavailable

LAID = 1 << 80
"""The address that stands for a value outside of memory. It is larger than any address of a process."""


class FrameTypes(TypeReader):
    """Types with array bounds that depend on the frame, and values in registers.

    ``laid`` are the bytes of a value outside of memory. They are read as if they were at :data:`LAID`.
    """

    frame: FrameContext | None = None

    def __init__(self, info: TypeInfo, read: Callable[[int, int], bytes], bias: int) -> None:
        super().__init__(info, self._read_of, bias)
        self._of_target = read
        self.laid = b""

    def _read_of(self, address: int, size: int) -> bytes:
        if address < LAID:
            return self._of_target(address, size)
        start = address - LAID
        if start + size > len(self.laid):
            raise Unavailable("a part that is not in the registers that hold the variable")
        return self.laid[start : start + size]

    def evaluate(self, place: EntryRef, expression: bytes, address: int, initial: tuple[int, ...] = ()) -> int:
        if self.frame is None or initial:
            return super().evaluate(place, expression, address, initial)
        return evaluate_type(place.unit, expression, self.frame, address)
