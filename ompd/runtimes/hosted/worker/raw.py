"""Memory of this very process, which C has addresses of, and what the library allocates of it."""

from __future__ import annotations

import ctypes
import os
import sys
from struct import Struct

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Callable

POINTER = Struct("=Q")
_MAX_BLOCK, _MAX_ALLOCATED = 1 << 30, 2 << 30
_PIECE = 4096
MAX_TEXT = 1 << 20
# Nothing is mapped below.
_LOWEST = 4096


class RawMemory:
    """All of it. ``view`` is indexed by address: who reads where nothing is ends the process."""

    def __init__(self) -> None:
        self.view = memoryview((ctypes.c_ubyte * min(1 << 56, sys.maxsize)).from_address(0)).cast("B")
        # Through it, what is not mapped is an error. Opened before the process is confined.
        self._file = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes | None:
        """Return bytes whose address the library has given, None if they are not there."""
        try:
            found = os.pread(self._file, size, address) if 0 <= address <= sys.maxsize else b""
        except OSError:
            return None
        return found if len(found) == size else None

    def text(self, address: int) -> bytes | None:
        """Return a text without the NUL that ends it, None if there is none."""
        found = b""
        while address >= _LOWEST and len(found) < MAX_TEXT:
            at = address + len(found)
            piece = self.read(at, _PIECE - at % _PIECE)
            if piece is None:
                return None
            end = piece.find(b"\0")
            if end >= 0:
                return found + piece[:end]
            found += piece
        return None

    def words(self, address: int, most: int) -> list[int] | None:
        """Return pointers up to a null pointer, at most *most*; None if there is no such vector."""
        found: list[int] = []
        while len(found) <= most:
            raw = self.read(address + len(found) * POINTER.size, POINTER.size)
            if raw is None:
                return None
            (word,) = POINTER.unpack(raw)
            if not word:
                return found
            found.append(word)
        return None


class Blocks:
    """What the library has allocated by its callbacks, and not freed: sizes by address."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._calloc: Callable[[int, int], int] = library.calloc
        library.calloc.restype, library.calloc.argtypes = ctypes.c_uint64, (ctypes.c_size_t, ctypes.c_size_t)
        self._free: Callable[[int], None] = library.free
        library.free.restype, library.free.argtypes = None, (ctypes.c_uint64,)
        self._sizes: dict[int, int] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def allocate(self, size: int) -> int:
        """Return the address of *size* bytes, all zero, or 0."""
        if size > _MAX_BLOCK or self.size + size > _MAX_ALLOCATED:
            return 0
        address = self._calloc(1, size or 1)
        if address:
            self._sizes[address] = size
            self.size += size
        return address

    def free(self, address: int) -> bool:
        """Free a block; return whether it was one."""
        size = self._sizes.pop(address, None)
        if size is None:
            return False
        self.size -= size
        self._free(address)
        return True
