"""The calls in a function according to debug information: their addresses and the called functions.

DWARF 5, 3.4 Call Site Entries; before DWARF 5, GNU's extension has the same entries under other numbers. A tail call is
a jump to another function at the end of a function. No target is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.lists import ranges_of
from ompd.binary.dwarf.names import Names, text_of
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import iter_entries
from ompd.errors import MalformedFile, Unsupported

_ATTRIBUTES = frozenset(
    (
        *(dw.DW_AT_ABSTRACT_ORIGIN, dw.DW_AT_LOW_PC, dw.DW_AT_GNU_TAIL_CALL),
        *(dw.DW_AT_CALL_RETURN_PC, dw.DW_AT_CALL_ORIGIN, dw.DW_AT_CALL_PC, dw.DW_AT_CALL_TAIL_CALL),
    )
)
_VALUES = (dw.DW_AT_CALL_VALUE, dw.DW_AT_GNU_CALL_SITE_VALUE)
_MAX_CALLS = 1 << 14
_MAX_ARGUMENTS = 64


class Call(NamedTuple):
    """A call in a function. ``inside`` is an address in the instruction; ``behind`` is the address after the
    instruction, None if only the instruction's own address is known. ``start`` is the start of the called function and
    ``name`` its symbol; a call has one of the two, a call through a pointer has neither. All addresses are link-time
    addresses. ``entry`` is the offset of the call site entry in the unit.
    """

    inside: int
    behind: int | None
    is_tail: bool
    start: int | None
    name: str | None
    entry: int


def read_calls(files: DebugFiles, names: Names, unit: Unit, offset: int) -> list[Call]:
    """Return the calls in the function whose entry is at *offset* of *unit*, including calls in functions inlined into
    it.

    :raises MalformedFile: if the entries are malformed or too many
    """
    code = ranges_of(unit, unit.entry_at(offset)[1])
    calls = []
    for call_offset, attributes in _call_sites(unit, offset):
        call = _call(files, names, unit, call_offset, attributes)
        # Leave out the calls in an outlined function, whose entry gcc nests in the entry of the original function.
        if call is not None and any(start <= call.inside < end for start, end in code):
            calls.append(call)
    return calls


def read_passed(unit: Unit, call: Call) -> list[int]:
    """Return the link-time addresses of functions and variables that *call* passes as arguments.

    :raises MalformedFile: if the entries are malformed
    """
    passed = []
    for tag in (dw.DW_TAG_CALL_SITE_PARAMETER, dw.DW_TAG_GNU_CALL_SITE_PARAMETER):
        for entry in islice(iter_entries(unit, tag, below=call.entry, only=_VALUES), _MAX_ARGUMENTS):
            value = entry.attributes.get(dw.DW_AT_CALL_VALUE) or entry.attributes.get(dw.DW_AT_GNU_CALL_SITE_VALUE)
            expression = value.raw if value is not None else None
            if not isinstance(expression, bytes) or not expression:
                continue
            if expression[0] == dw.DW_OP_ADDR and len(expression) == 1 + unit.address_size:
                passed.append(int.from_bytes(expression[1:], unit.sections.byte_order))
    return passed


def _call_sites(unit: Unit, offset: int) -> Iterator[tuple[int, Mapping[int, Value]]]:
    for tag in (dw.DW_TAG_CALL_SITE, dw.DW_TAG_GNU_CALL_SITE):
        for count, entry in enumerate(iter_entries(unit, tag, below=offset, only=_ATTRIBUTES)):
            if count >= _MAX_CALLS:
                raise MalformedFile(".debug_info: a function has too many calls", offset=offset)
            yield entry.offset, entry.attributes


def _call(files: DebugFiles, names: Names, unit: Unit, offset: int, attributes: Mapping[int, Value]) -> Call | None:
    pc = unit.address(attributes.get(dw.DW_AT_CALL_PC))
    behind = unit.address(attributes.get(dw.DW_AT_CALL_RETURN_PC) or attributes.get(dw.DW_AT_LOW_PC))
    inside = pc if pc is not None else behind - 1 if behind else None
    if inside is None:
        return None
    tail = attributes.get(dw.DW_AT_CALL_TAIL_CALL) or attributes.get(dw.DW_AT_GNU_TAIL_CALL)
    is_tail = tail is not None and (tail.form == dw.DW_FORM_FLAG_PRESENT or bool(unit.number(tail)))
    origin = attributes.get(dw.DW_AT_CALL_ORIGIN) or attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
    start, name = _called(files, names, unit, origin) if origin is not None else (None, None)
    return Call(inside, behind, is_tail, start, name, offset)


def _called(files: DebugFiles, names: Names, unit: Unit, origin: Value) -> tuple[int | None, str | None]:
    try:
        unit, offset = files.target(unit, origin)
        ranges: Sequence[tuple[int, int]] = ranges_of(unit, unit.entry_at(offset)[1])
        if ranges:
            return ranges[0][0], None
        described, _, _ = names.described(unit, offset)
    except Unsupported:
        return None, None  # the entry is in a file that is not available
    linkage = text_of(described, dw.DW_AT_LINKAGE_NAME) or text_of(described, dw.DW_AT_MIPS_LINKAGE_NAME)
    return None, linkage or text_of(described, dw.DW_AT_NAME)
