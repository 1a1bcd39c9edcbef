"""Dimensions of arrays (DWARF 5, 5.5 and 5.18). Their bounds are in the file or in the target.

Bounds of Fortran's allocatable and pointer arrays are expressions over the address of the array's descriptor.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import CONSTANTS, Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.units import Unit
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, Unsupported

_DIMENSIONS = frozenset((dw.DW_TAG_SUBRANGE_TYPE, dw.DW_TAG_GENERIC_SUBRANGE, dw.DW_TAG_ENUMERATION_TYPE))

_MAX_DIMENSIONS = 64
_MAX_BOUND = 1 << 63
_MAX_STRIDE = 1 << 48


class Bounds(Protocol):
    """The bounds of one array that are not constants."""

    def read(self, value: Value) -> int:
        """Return a bound by the *value* of its attribute: an expression, or a reference to a variable."""


class Dimension(NamedTuple):
    """A dimension: its first index, its number of elements, and the distance between elements in bytes."""

    lower: int
    length: int
    stride: int


def language_of(unit: Unit) -> int:
    """Return the unit's language, a ``DW_LANG_*``, 0 if it is unknown."""
    return unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) or 0


def is_fortran(unit: Unit) -> bool:
    """Return whether the unit's language is Fortran. Its arrays begin at 1, and their first index varies fastest."""
    return language_of(unit) in dw.FORTRAN_LANGUAGES


def constant_bounds(info: TypeInfo, place: EntryRef) -> list[tuple[int | None, int | None]]:
    """Return first index and count of each dimension of the array at *place*, in the file's order. Both are None for a
    dimension whose bounds the file does not have, as when the target computes them.
    """
    bounds: list[tuple[int | None, int | None]] = []
    for attributes in _rows(info, place):
        try:
            lower, count = _bounds(place.unit, attributes, None)
        except Unsupported:
            lower, count = None, None
        bounds.append((lower, count))
    return bounds


def dimensions(
    info: TypeInfo, place: EntryRef, attributes: dict[int, Value], element_size: int, bounds: Bounds | None
) -> list[Dimension]:
    """Return the dimensions of the array at *place*, outermost first. In Fortran the outermost dimension is the last.

    A dimension without an upper bound, as in a flexible array, has a count of 0.

    :param bounds: the bounds that are computed at run time, None if the array has no address
    :raises Unsupported: if bounds are unknown, or the distance between elements is not a whole number of bytes
    :raises MalformedFile: if bounds are absurd
    """
    unit = place.unit
    if dw.DW_AT_BIT_STRIDE in attributes:
        raise Unsupported("an array whose elements are bits apart")
    element = unit.number(attributes.get(dw.DW_AT_BYTE_STRIDE)) or element_size
    rows = list(_rows(info, place))
    column_major = is_fortran(unit) or unit.number(attributes.get(dw.DW_AT_ORDERING)) == 1
    if not column_major:
        rows.reverse()
    result: list[Dimension] = []
    for row in rows:  # the fastest varying dimension first
        lower, count = _bounds(unit, row, bounds)
        stride = element
        if dw.DW_AT_BYTE_STRIDE in row:
            stride = _number(unit, row[dw.DW_AT_BYTE_STRIDE], bounds)
        if count is None:
            count = 0
        if not -_MAX_STRIDE < stride < _MAX_STRIDE or not 0 <= count < _MAX_BOUND:
            raise MalformedFile(f"an array with {count} elements {stride} bytes apart")
        result.append(Dimension(lower if lower is not None else 0, count, stride))
        element = min(stride * count, _MAX_STRIDE - 1) if count else stride
    result.reverse()
    return result


def _rows(info: TypeInfo, place: EntryRef) -> list[dict[int, Value]]:
    rows = []
    for tag, attributes in info.index.children(place, _DIMENSIONS):
        if tag == dw.DW_TAG_GENERIC_SUBRANGE:
            raise Unsupported("an array of a rank that is known at run time only")
        rows.append(attributes)
        if len(rows) > _MAX_DIMENSIONS:
            raise MalformedFile("an array of too many dimensions")
    return rows


def _bounds(unit: Unit, attributes: dict[int, Value], bounds: Bounds | None) -> tuple[int | None, int | None]:
    lower: int | None = 1 if is_fortran(unit) else 0
    if dw.DW_AT_LOWER_BOUND in attributes:
        lower = _number(unit, attributes[dw.DW_AT_LOWER_BOUND], bounds)
    if dw.DW_AT_COUNT in attributes:
        count = _number(unit, attributes[dw.DW_AT_COUNT], bounds)
        return lower, count
    if dw.DW_AT_UPPER_BOUND not in attributes:
        return lower, None
    value = attributes[dw.DW_AT_UPPER_BOUND]
    upper = _number(unit, value, bounds)
    if isinstance(value.raw, int) and upper in ((1 << 32) - 1, (1 << 64) - 1):
        return lower, 0  # older releases of gcc write -1 as the last index of an empty array
    return lower, max(upper - (lower or 0) + 1, 0)


def _number(unit: Unit, value: Value, bounds: Bounds | None) -> int:
    if isinstance(value.raw, int) and value.form in CONSTANTS:
        return value.raw
    if bounds is None:
        raise Unsupported("an array whose bounds are computed at run time")
    number = bounds.read(value)
    bits = 8 * unit.address_size
    return number - (1 << bits) if number >> bits - 1 else number
