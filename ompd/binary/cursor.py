"""A cursor over bytes: reads integers, strings and LEB128 numbers with every bound checked."""

from __future__ import annotations

from typing import Any, Literal, NoReturn, Protocol, overload

from ompd.errors import MalformedFile

ByteOrder = Literal["little", "big"]


class Bytes(Protocol):
    """Bytes, or a file that can be sliced and searched like bytes."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any], /) -> bytes: ...
    def find(self, pattern: bytes, start: int, end: int, /) -> int:
        """Return the first offset of *pattern* between *start* and *end*, -1 if there is none."""


Buffer = Bytes | memoryview

# A 64-bit number takes 10 bytes. Some assemblers pad numbers that they fill in later.
_MAX_LEB128_BYTES = 16


def order_mark(byte_order: ByteOrder) -> str:
    """Return the :mod:`struct` prefix for *byte_order* without padding."""
    return "<" if byte_order == "little" else ">"


class Cursor:
    """Reads *data* from *position* up to *end*. Every reading method advances past the bytes that it returns.

    These methods raise MalformedFile if *data* ends too early. Only returned bytes are copied.

    :param what: name of *data* in errors
    :param base: added to positions in errors
    """

    __slots__ = ("base", "byte_order", "data", "end", "position", "what")

    def __init__(
        self,
        data: Bytes,
        byte_order: ByteOrder,
        *,
        position: int = 0,
        end: int | None = None,
        what: str = "",
        base: int = 0,
    ) -> None:
        self.data = data
        self.byte_order = byte_order
        self.position = position
        self.end = len(data) if end is None else min(end, len(data))
        self.what = what
        self.base = base

    def fail(self, fault: str) -> NoReturn:
        """Raise MalformedFile with *fault* and the current position."""
        raise MalformedFile(f"{self.what}: {fault}", offset=self.base + self.position)

    @property
    def at_end(self) -> bool:
        return self.position >= self.end

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes."""
        start = self.position
        if size < 0 or size > self.end - start:
            self.fail(f"{size} bytes do not fit")
        self.position = start + size
        return self.data[start : start + size]

    def unsigned(self, size: int) -> int:
        """Return an unsigned integer of *size* bytes."""
        return int.from_bytes(self.take(size), self.byte_order)

    def signed(self, size: int) -> int:
        """Return a two's complement integer of *size* bytes."""
        return int.from_bytes(self.take(size), self.byte_order, signed=True)

    def byte(self) -> int:
        """Return one unsigned byte."""
        position = self.position
        if position >= self.end:
            self.fail("ends too early")
        self.position = position + 1
        return self.data[position]

    def uleb(self) -> int:
        """Return an unsigned LEB128 number (DWARF 5, 7.6)."""
        value = shift = 0
        for _ in range(_MAX_LEB128_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        self.fail("a LEB128 number does not end")

    def sleb(self) -> int:
        """Return a signed LEB128 number (DWARF 5, 7.6)."""
        start = self.position
        value = self.uleb()
        if self.data[self.position - 1] & 0x40:
            value -= 1 << 7 * (self.position - start)
        return value

    def string(self) -> bytes:
        """Return the bytes up to a NUL, and skip the NUL."""
        end = self.data.find(b"\0", self.position, self.end)
        if end < 0:
            self.fail("a string does not end")
        start, self.position = self.position, end + 1
        return self.data[start:end]
