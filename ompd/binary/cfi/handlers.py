"""Exception landing pads of a function's calls: the call-site table in ``.gcc_except_table``.

The format is described by gcc's ``unwind-dw2-fde`` and by the Itanium C++ ABI (Exception Handling, level II,
"Language-Specific Data Area"). All addresses are link-time addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ompd.binary.cfi.program import PE_ABSOLUTE, PE_APPLICATION, PE_FORMAT, PE_OMIT, read_pointer
from ompd.binary.cfi.tables import Fde
from ompd.binary.cursor import ByteOrder, Cursor
from ompd.errors import MalformedFile, OmpdError

_HEADER = 40  # bytes: enough for three encodings, a pointer and two numbers
_MAX_TABLE = 1 << 20


class CallSite(NamedTuple):
    """The code from ``start`` up to ``end``, exclusive. ``pad`` is the landing pad of its calls, None without one."""

    start: int
    end: int
    pad: int | None


def read_call_sites(
    read: Callable[[int, int], bytes], fde: Fde, pointer_size: int, byte_order: ByteOrder
) -> tuple[CallSite, ...]:
    """Return the call sites of the function, or of the part of a function, that *fde* covers.

    :param read: returns the module's bytes, given an address and a size
    :raises MalformedFile: if the table is malformed or cannot be read
    """
    address = _table_address(fde, pointer_size, byte_order)
    function = fde.start
    if address is None:
        return ()
    mask = (1 << 8 * pointer_size) - 1
    cursor = Cursor(_read_header(read, address), byte_order, what="a table of exception handlers", base=address)
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
    call_sites: list[CallSite] = []
    while cursor.position < cursor.end:
        start, length, pad = (read_pointer(cursor, encoding & PE_FORMAT, pointer_size) for _ in range(3))
        cursor.uleb()
        first = function + start & mask
        call_sites.append(CallSite(first, first + length, base + pad & mask if pad else None))
    return tuple(call_sites)


def _table_address(fde: Fde, pointer_size: int, byte_order: ByteOrder) -> int | None:
    encoding = fde.cie.handlers_encoding
    if encoding == PE_OMIT or not fde.augmentation:
        return None
    cursor = Cursor(fde.augmentation, byte_order, what=".eh_frame", base=fde.augmentation_address)
    if not read_pointer(cursor, encoding & PE_FORMAT, pointer_size):
        return None
    cursor.position = 0
    return read_pointer(cursor, encoding, pointer_size)


def _read_header(read: Callable[[int, int], bytes], address: int) -> bytes:
    # The module may end right after a short table, so fewer bytes are tried too.
    fault: OmpdError | None = None
    for size in (_HEADER, 16, 8, 4):
        try:
            return read(address, size)
        except OmpdError as error:
            fault = error
    raise MalformedFile(f"a table of exception handlers: {fault}") from fault
