"""Where exceptions lead that are thrown in the calls of a function: the table of call sites in ``.gcc_except_table``.

As gcc's ``unwind-dw2-fde`` and the Itanium C++ ABI's exception handling describe it (level II, "Language-Specific Data
Area"). All addresses are link-time addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ompd.binary.cfi.program import PE_ABSOLUTE, PE_APPLICATION, PE_FORMAT, PE_OMIT, read_pointer
from ompd.binary.cfi.tables import Fde
from ompd.binary.cursor import ByteOrder, Cursor
from ompd.errors import MalformedFile, OmpdError

_HEADER = 40  # more than three encodings, a pointer and two numbers take
_MAX_TABLE = 1 << 20


class CallSite(NamedTuple):
    """Code from ``start`` up to, not including, ``end``: exceptions of its calls lead to ``pad``, None if nowhere."""

    start: int
    end: int
    pad: int | None


def read_call_sites(
    read: Callable[[int, int], bytes], fde: Fde, pointer_size: int, byte_order: ByteOrder
) -> tuple[CallSite, ...]:
    """Return the call sites of the function, or part of one, that an entry of the unwind table describes.

    :param read: returns bytes of the module
    :raises MalformedFile: if the table is malformed, or *read* fails
    """
    address, function = _table_of(fde, pointer_size, byte_order), fde.start
    if address is None:
        return ()
    mask = (1 << 8 * pointer_size) - 1
    cursor = Cursor(_read_some(read, address), byte_order, what="a table of exception handlers", base=address)
    encoding = cursor.byte()
    base = read_pointer(cursor, encoding, pointer_size) if encoding != PE_OMIT else function
    if cursor.byte() != PE_OMIT:
        cursor.uleb()
    encoding, size = cursor.byte(), cursor.uleb()
    begin = address + cursor.position
    if size > _MAX_TABLE or encoding & PE_APPLICATION != PE_ABSOLUTE:
        cursor.fail("a table of exception handlers that makes no sense")
    try:
        raw = read(begin, size) if size else b""
    except OmpdError as error:
        raise MalformedFile(f"a table of exception handlers: {error}") from error
    cursor = Cursor(raw, byte_order, what="a table of exception handlers", base=begin)
    found: list[CallSite] = []
    while cursor.position < cursor.end:
        start, length, pad = (read_pointer(cursor, encoding & PE_FORMAT, pointer_size) for _ in range(3))
        cursor.uleb()
        begins = function + start & mask
        found.append(CallSite(begins, begins + length, base + pad & mask if pad else None))
    return tuple(found)


def _table_of(fde: Fde, pointer_size: int, byte_order: ByteOrder) -> int | None:
    encoding = fde.cie.handlers_encoding
    if encoding == PE_OMIT or not fde.augmentation:
        return None
    cursor = Cursor(fde.augmentation, byte_order, what=".eh_frame", base=fde.augmentation_address)
    if not read_pointer(cursor, encoding & PE_FORMAT, pointer_size):
        return None
    cursor.position = 0
    return read_pointer(cursor, encoding, pointer_size)


def _read_some(read: Callable[[int, int], bytes], address: int) -> bytes:
    # What follows a table's header may be the end of the module.
    fault: OmpdError | None = None
    for size in (_HEADER, 16, 8, 4):
        try:
            return read(address, size)
        except OmpdError as error:
            fault = error
    raise MalformedFile(f"a table of exception handlers: {fault}") from fault
