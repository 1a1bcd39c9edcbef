"""A formatted value, the options of formatting, and the bytes of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Union

from ompd.binary.types.layouts import Read
from ompd.errors import MemoryFault, Unavailable
from ompd.records import record

WINDOW = 1 << 14
"""The number of bytes of a value that are read at once."""

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007  it names itself
"""A value for JSON. Integers beyond 2**53 are strings of decimal digits, and addresses are strings such as ``0x1234``.
Floating-point numbers that no double can hold are strings, and so are ``NaN``, ``Infinity`` and ``-Infinity``.
"""

Symbolize = Callable[[int], "str | None"]
"""Returns the name of an address, ``name`` or ``name+8``; None if nothing is known to be there."""


@record
class Options:
    """Options for showing values.

    ``letter`` is one of gdb's format letters, ``""`` for the type's own format. At most ``elements`` of an array or
    string are shown. An element that repeats more than ``repeats`` times is shown once. With ``x87``, ``long double``
    has 80 bits. With ``bare``, the type before a pointer is left out, like in ``info locals``.
    """

    letter: str = ""
    elements: int = 200
    repeats: int = 10
    x87: bool = True
    bare: bool = False


class Shown(NamedTuple):
    """A formatted value: ``text`` for users, ``value`` for JSON. ``truncated`` is True if the end of a string or array
    is left out.
    """

    text: str
    value: Json
    truncated: bool


class ValueBytes:
    """The bytes of a value: *raw*, or bytes at *address*, which are read in blocks on demand."""

    __slots__ = ("_read", "_window", "address", "raw", "size")

    def __init__(self, read: Read, address: int | None, raw: bytes = b"", size: int = 0) -> None:
        self._read = read
        self.address = address
        self.raw = raw
        self.size = size
        self._window: tuple[int, bytes] = (0, b"")

    def take(self, offset: int, size: int) -> bytes:
        """Return *size* bytes at *offset* of the value.

        :raises MemoryFault: if memory there cannot be read
        :raises Unavailable: if fewer bytes of the value are known
        """
        if self.address is None:
            if offset < 0 or offset + size > len(self.raw):
                raise Unavailable(f"{size} of the value's bytes at offset {offset} are unknown")
            return self.raw[offset : offset + size]
        start, data = self._window
        if not (start <= offset and offset + size <= start + len(data)):
            start, data = offset, self._more(offset, size)
            self._window = start, data
        return data[offset - start : offset - start + size]

    def _more(self, offset: int, size: int) -> bytes:
        address = self.address or 0
        window = min(max(size, WINDOW), self.size - offset)
        if window > size:
            try:
                return self._read(address + offset, window)
            except MemoryFault:
                pass
        return self._read(address + offset, size)

    def at(self, offset: int) -> int | None:
        """Return the address of *offset* in the value, None if the value is not in memory."""
        return self.address + offset if self.address is not None else None
