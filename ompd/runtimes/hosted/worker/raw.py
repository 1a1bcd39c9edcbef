"""Memory of this process, by C's addresses, and the blocks that the library allocates."""

from __future__ import annotations

import ctypes
import os
import sys
from struct import Struct

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable

POINTER = Struct("=Q")
_MAX_BLOCK, _MAX_ALLOCATED = 1 << 30, 2 << 30
_PIECE = 4096
MAX_TEXT = 1 << 20
# No memory is mapped below this address.
_LOWEST = 4096


class RawMemory:
    """All memory of this process. ``view`` is indexed by address; reading an unmapped address there ends the
    process.
    """

    def __init__(self) -> None:
        self.view = memoryview((ctypes.c_ubyte * min(1 << 56, sys.maxsize)).from_address(0)).cast("B")
        # Reading an unmapped address through this file is an error, not a fault. It is opened before the process is
        # confined.
        self._file = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes | None:
        """Return the bytes at an address that the library passed, None if they are not mapped."""
        try:
            data = os.pread(self._file, size, address) if 0 <= address <= sys.maxsize else b""
        except OSError:
            return None
        return data if len(data) == size else None

    def text(self, address: int) -> bytes | None:
        """Return the text at an address without its final NUL, None if there is no text."""
        text = b""
        while address >= _LOWEST and len(text) < MAX_TEXT:
            end_so_far = address + len(text)
            piece = self.read(end_so_far, _PIECE - end_so_far % _PIECE)
            if piece is None:
                return None
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return None

    def words(self, address: int, most: int) -> list[int] | None:
        """Return the pointers at an address up to a null pointer, at most *most*. None if there is no such vector."""
        pointers: list[int] = []
        while len(pointers) <= most:
            raw = self.read(address + len(pointers) * POINTER.size, POINTER.size)
            if raw is None:
                return None
            (word,) = POINTER.unpack(raw)
            if not word:
                return pointers
            pointers.append(word)
        return None


class Blocks:
    """The blocks that the library has allocated through callbacks and not freed: sizes by address."""

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
        """Allocate *size* zeroed bytes and return their address, or 0."""
        if size > _MAX_BLOCK or self.size + size > _MAX_ALLOCATED:
            return 0
        address = self._calloc(1, size or 1)
        if address:
            self._sizes[address] = size
            self.size += size
        return address

    def free(self, address: int) -> bool:
        """Free the block at *address*. Return whether there was such a block."""
        size = self._sizes.pop(address, None)
        if size is None:
            return False
        self.size -= size
        self._free(address)
        return True
