"""A formatted value, the options of formatting, and the bytes of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Union

from ompd.binary.types.layouts import Read
from ompd.errors import MemoryFault, Unavailable
from ompd.records import record

WINDOW = 1 << 14
"""How many bytes of a value are read at once."""

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007  it names itself
"""What JSON can hold. Whole numbers beyond 2**53 are strings of decimal digits, addresses strings as ``0x1234``; a
floating-point number that no double holds is a string, as are ``NaN``, ``Infinity`` and ``-Infinity``."""

Symbolize = Callable[[int], "str | None"]
"""Names what is at an address, ``name`` or ``name+8``; None if nothing is known to."""


@record
class Options:
    """How values are shown.

    ``letter`` is a format of gdb's, ``""`` for the type's own. At most ``elements`` of an array or string are shown. An
    element that repeats more than ``repeats`` times is shown once. ``x87``: ``long double`` has 80 bits. ``bare``
    leaves out the type before a pointer, like ``info locals``.
    """

    letter: str = ""
    elements: int = 200
    repeats: int = 10
    x87: bool = True
    bare: bool = False


class Shown(NamedTuple):
    """A value: ``text`` for people, ``value`` for JSON, ``truncated`` if the end of a string or array is left out."""

    text: str
    value: Json
    truncated: bool


class ValueBytes:
    """The bytes of a value: *raw*, or at an address, from which they are read in blocks when needed."""

    __slots__ = ("_read", "_window", "address", "raw", "size")

    def __init__(self, read: Read, address: int | None, raw: bytes = b"", size: int = 0) -> None:
        self._read = read
        self.address = address
        self.raw = raw
        self.size = size
        self._window: tuple[int, bytes] = (0, b"")

    def take(self, offset: int, size: int) -> bytes:
        """Return *size* bytes at *offset* of the value.

        :raises MemoryFault: if they cannot be read
        :raises Unavailable: if they are unknown
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
        wanted = min(max(size, WINDOW), self.size - offset)
        if wanted > size:
            try:
                return self._read(address + offset, wanted)
            except MemoryFault:
                pass
        return self._read(address + offset, size)

    def at(self, offset: int) -> int | None:
        """Return the address of *offset* in the value, None if the value is not in memory."""
        return self.address + offset if self.address is not None else None
