"""Reading a runtime's structures so that lost memory is not taken for zeros.

A core may have lost pages when it was written or copied (a full disk, an interrupted copy, a file with holes), and
reads as zeros there: a thread would be idle, a team would have no threads. But the structures of an initialised runtime
are side by side on the heap, and none of their pages is all zeros.
"""

from __future__ import annotations

from itertools import pairwise

from ompd.contract.memory import ByteOrder, Memory
from ompd.errors import CorruptState, MemoryFault

_PAGE = 4096


def has_lost_page(data: bytes, start: int) -> bool:
    """Return whether data that was read at *start* has only zeros on one of its pages."""
    edges = [0, *range(_PAGE - start % _PAGE, len(data), _PAGE), len(data)]
    return any(begin < end and data.count(0, begin, end) == end - begin for begin, end in pairwise(edges))


def read_by_page(memory: Memory, address: int, size: int) -> bytes:
    """Return *size* bytes, read page by page, so that :class:`Heap` notices if one page of them is lost."""
    edges = [address, *range(address - address % _PAGE + _PAGE, address + size, _PAGE), address + size]
    return b"".join(memory.read(start, end - start) for start, end in pairwise(edges))


class CachedMemory:
    """Memory with *data*, which was read before, at *start*. All other bytes are read from *memory*."""

    __slots__ = ("_data", "_memory", "_start", "byte_order", "pointer_size")

    def __init__(self, memory: Memory, start: int, data: bytes) -> None:
        self._memory = memory
        self._start = start
        self._data = data
        self.byte_order: ByteOrder = memory.byte_order
        self.pointer_size = memory.pointer_size

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*: cached ones if all of them are cached."""
        offset = address - self._start
        if offset >= 0 and offset + size <= len(self._data):
            return self._data[offset : offset + size]
        return self._memory.read(address, size)


class Heap:
    """The memory of *process*, for structures that cannot be in a page of zeros.

    :meth:`read` raises CorruptState for zeros in such a page.
    """

    def __init__(self, process: Memory) -> None:
        self._process = process
        self._is_lost: dict[int, bool] = {}
        self.byte_order: ByteOrder = process.byte_order
        self.pointer_size = process.pointer_size

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*.

        :raises CorruptState: if they are all zeros, and so is the whole page where they begin. Of bytes on two pages,
            less than a page in all, the part on either page counts
        """
        data = self._process.read(address, size)
        if data.count(0) == size:
            self._refuse_lost(address)
        elif address % _PAGE + size > _PAGE >= size:
            inside = _PAGE - address % _PAGE
            if data.count(0, 0, inside) == inside:
                self._refuse_lost(address)
            elif data.count(0, inside) == size - inside:
                self._refuse_lost(address + inside)
        return data

    def _refuse_lost(self, address: int) -> None:
        page = address - address % _PAGE
        if page not in self._is_lost:
            try:
                self._is_lost[page] = self._process.read(page, _PAGE).count(0) == _PAGE
            except MemoryFault:
                self._is_lost[page] = False  # the part that is requested is there
        if self._is_lost[page]:
            raise CorruptState(
                address, "nothing but zeros where a structure of the runtime should be: its page is lost"
            )
