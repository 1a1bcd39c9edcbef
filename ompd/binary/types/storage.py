"""Where variables of static storage are, and the values of those that are constant. DWARF 5, 2.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.units import Unit

_MAX_STEPS = 8
_MAX_CONSTANT = 1 << 16


class Location(NamedTuple):
    """Where a variable is: ``kind`` is ``address`` (``number`` is a link-time address), ``tls`` (an offset in the
    module's TLS block), ``constant`` (``raw`` are its bytes, or ``number`` its value), ``none`` where the file has a
    definition without a place, ``declared`` where it has no definition.
    """

    kind: str
    number: int = 0
    raw: bytes = b""


def location_of(unit: Unit, attributes: Mapping[int, Value]) -> Location:
    """Return where the variable with *attributes* is.

    :raises MalformedFile: if they are malformed
    """
    value = attributes.get(dw.DW_AT_LOCATION)
    if value is None:
        constant = attributes.get(dw.DW_AT_CONST_VALUE)
        if constant is None:
            return Location("none")
        if isinstance(constant.raw, bytes):
            return Location("constant", raw=constant.raw[:_MAX_CONSTANT])
        return Location("constant", constant.raw)
    if not isinstance(value.raw, bytes):
        return Location("frame")  # a list of places, which differ with the program counter
    return parse_location(unit, value.raw)


def parse_location(unit: Unit, expression: bytes) -> Location:
    """Return what a location expression (2.6) of a variable in static storage says.

    The kind is ``frame`` for an expression that needs a frame or registers.
    """
    if not expression:
        return Location("none")
    cursor = Cursor(expression, unit.sections.byte_order, what="DWARF expression")
    number: int | None = None
    kind = "address"
    for _ in range(_MAX_STEPS):
        if cursor.at_end:
            break
        operation = cursor.byte()
        if operation == dw.DW_OP_ADDR:
            number = cursor.unsigned(unit.address_size)
        elif operation in (dw.DW_OP_ADDRX, dw.DW_OP_CONSTX, dw.DW_OP_GNU_ADDR_INDEX, dw.DW_OP_GNU_CONST_INDEX):
            number = unit.address(Value(dw.DW_FORM_ADDRX, cursor.uleb()))
        elif operation in (dw.DW_OP_CONST8U, dw.DW_OP_CONST4U):
            number = cursor.unsigned(8 if operation == dw.DW_OP_CONST8U else 4)
        elif operation == dw.DW_OP_CONSTU:
            number = cursor.uleb()
        elif operation == dw.DW_OP_PLUS_UCONST and number is not None:
            number += cursor.uleb()
        elif operation in (dw.DW_OP_FORM_TLS_ADDRESS, dw.DW_OP_GNU_PUSH_TLS_ADDRESS) and number is not None:
            kind = "tls"
        elif operation == dw.DW_OP_STACK_VALUE and number is not None and kind == "address":
            kind = "constant"
        elif operation == dw.DW_OP_IMPLICIT_VALUE:
            return Location("constant", raw=cursor.take(cursor.uleb())[:_MAX_CONSTANT])
        else:
            return Location("frame")
    if number is None or not cursor.at_end:
        return Location("frame")
    if kind == "address" and not number:
        return Location("none")  # of a section that the linker dropped
    return Location(kind, number)
