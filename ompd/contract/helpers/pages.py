"""Read a runtime's structures without taking lost pages for zeros.

A core may lose pages when it is written or copied (a full disk, an interrupted copy, a file with holes). Lost pages
read as zeros: a thread would appear idle, and a team would have no threads. But the structures of an initialised
runtime lie side by side on the heap, and none of their pages is all zeros.
"""

from __future__ import annotations

from itertools import pairwise

from ompd.contract.memory import ByteOrder, Memory
from ompd.errors import CorruptState, MemoryFault

_PAGE = 4096


def has_lost_page(data: bytes, start: int) -> bool:
    """Return whether *data*, which was read at *start*, is all zeros on one of its pages."""
    edges = [0, *range(_PAGE - start % _PAGE, len(data), _PAGE), len(data)]
    return any(begin < end and data.count(0, begin, end) == end - begin for begin, end in pairwise(edges))


def read_by_page(memory: Memory, address: int, size: int) -> bytes:
    """Return *size* bytes, read page by page, so that :class:`Heap` notices a single lost page."""
    edges = [address, *range(address - address % _PAGE + _PAGE, address + size, _PAGE), address + size]
    return b"".join(memory.read(start, end - start) for start, end in pairwise(edges))


class CachedMemory:
    """Memory that serves *data*, which was already read at *start*, from a cache. All other bytes are read from
    *memory*.
    """

    __slots__ = ("_data", "_memory", "_start", "byte_order", "pointer_size")

    def __init__(self, memory: Memory, start: int, data: bytes) -> None:
        self._memory = memory
        self._start = start
        self._data = data
        self.byte_order: ByteOrder = memory.byte_order
        self.pointer_size = memory.pointer_size

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*, from the cache if it has all of them."""
        offset = address - self._start
        if offset >= 0 and offset + size <= len(self._data):
            return self._data[offset : offset + size]
        return self._memory.read(address, size)


class Heap:
    """The memory of *process*, for structures that cannot be in a page of zeros.

    :meth:`read` raises CorruptState for zeros on a page that is all zeros.
    """

    def __init__(self, process: Memory) -> None:
        self._process = process
        self._is_lost: dict[int, bool] = {}
        self.byte_order: ByteOrder = process.byte_order
        self.pointer_size = process.pointer_size

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*.

        :raises CorruptState: if the bytes are all zeros, and so is the whole page on which they begin. If *size* is at
            most a page, and the bytes are on two pages, each page is checked like that
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
                self._is_lost[page] = False  # the page was not lost: only a part of it is readable
        if self._is_lost[page]:
            raise CorruptState(
                address, "nothing but zeros where a structure of the runtime should be: its page is lost"
            )
