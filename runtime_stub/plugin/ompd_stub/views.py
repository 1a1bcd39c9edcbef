"""Structures of the stub, each read once and whole."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ompd.contract.memory import ByteOrder, Memory, StructLayout, StructView
from ompd.errors import CorruptState, LayoutUnavailable, MemoryFault

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class _Copy:
    # The bytes of one structure, as memory.
    byte_order: ByteOrder
    pointer_size: int
    start: int
    data: bytes

    def read(self, address: int, size: int) -> bytes:
        at = address - self.start
        if at < 0 or at + size > len(self.data):
            raise MemoryFault(address, size)
        return self.data[at : at + size]


def read_whole(memory: Memory, layout: StructLayout, address: int) -> StructView:
    """Return the structure at *address*, read now.

    :raises CorruptState: if no structure can lie there
    :raises LayoutUnavailable: if its size is not known
    """
    if layout.size is None:
        raise LayoutUnavailable(f"the runtime does not publish the size of {layout.name}")
    if address % memory.pointer_size:
        raise CorruptState(address, f"a {layout.name} is said to lie at an odd address")
    # Each page's part by itself: of one that is lost the zeros would pass for what the structure holds there.
    end = address + layout.size
    starts = [address, *range(address - address % _PAGE + _PAGE, end, _PAGE), end]
    data = b"".join(memory.read(start, following - start) for start, following in pairwise(starts))
    return StructView(_Copy(memory.byte_order, memory.pointer_size, address, data), layout, address)
