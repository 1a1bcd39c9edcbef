"""Abbreviations and attribute values (DWARF 5, 7.5.3 and 7.5.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.constants import DW_FORM_IMPLICIT_CONST
from ompd.errors import MalformedFile

_SIZES = {
    **{dw.DW_FORM_DATA1: 1, dw.DW_FORM_DATA2: 2, dw.DW_FORM_DATA4: 4, dw.DW_FORM_DATA8: 8, dw.DW_FORM_DATA16: 16},
    **{dw.DW_FORM_REF1: 1, dw.DW_FORM_REF2: 2, dw.DW_FORM_REF4: 4, dw.DW_FORM_REF8: 8},
    **{dw.DW_FORM_REF_SIG8: 8, dw.DW_FORM_REF_SUP4: 4, dw.DW_FORM_REF_SUP8: 8},
    **{dw.DW_FORM_STRX1: 1, dw.DW_FORM_STRX2: 2, dw.DW_FORM_STRX3: 3, dw.DW_FORM_STRX4: 4},
    **{dw.DW_FORM_ADDRX1: 1, dw.DW_FORM_ADDRX2: 2, dw.DW_FORM_ADDRX3: 3, dw.DW_FORM_ADDRX4: 4},
    **{dw.DW_FORM_FLAG: 1, dw.DW_FORM_FLAG_PRESENT: 0, dw.DW_FORM_IMPLICIT_CONST: 0},
}
_ULEB128 = frozenset(
    (
        *(dw.DW_FORM_UDATA, dw.DW_FORM_REF_UDATA, dw.DW_FORM_STRX, dw.DW_FORM_ADDRX),
        *(dw.DW_FORM_LOCLISTX, dw.DW_FORM_RNGLISTX, dw.DW_FORM_GNU_ADDR_INDEX, dw.DW_FORM_GNU_STR_INDEX),
    )
)
_READERS: dict[int, Callable[[Cursor], int | bytes]] = {
    **dict.fromkeys(_ULEB128, Cursor.uleb),
    dw.DW_FORM_SDATA: Cursor.sleb,
    dw.DW_FORM_STRING: Cursor.string,
    **dict.fromkeys((dw.DW_FORM_BLOCK, dw.DW_FORM_EXPRLOC), lambda cursor: cursor.take(cursor.uleb())),
    dw.DW_FORM_BLOCK1: lambda cursor: cursor.take(cursor.byte()),
    dw.DW_FORM_BLOCK2: lambda cursor: cursor.take(cursor.unsigned(2)),
    dw.DW_FORM_BLOCK4: lambda cursor: cursor.take(cursor.unsigned(4)),
}

SUPPLEMENTARY_STRINGS = frozenset((dw.DW_FORM_STRP_SUP, dw.DW_FORM_GNU_STRP_ALT))
"""Forms of strings in the supplementary file (dwz's)."""
SUPPLEMENTARY_REFERENCES = frozenset((dw.DW_FORM_REF_SUP4, dw.DW_FORM_REF_SUP8, dw.DW_FORM_GNU_REF_ALT))
UNIT_REFERENCES = frozenset((dw.DW_FORM_REF1, dw.DW_FORM_REF2, dw.DW_FORM_REF4, dw.DW_FORM_REF8, dw.DW_FORM_REF_UDATA))
"""Forms of references relative to the unit's start."""
STRING_INDEXES = frozenset(
    (
        *(dw.DW_FORM_STRX, dw.DW_FORM_STRX1, dw.DW_FORM_STRX2, dw.DW_FORM_STRX3, dw.DW_FORM_STRX4),
        dw.DW_FORM_GNU_STR_INDEX,
    )
)
ADDRESS_INDEXES = frozenset(
    (
        *(dw.DW_FORM_ADDRX, dw.DW_FORM_ADDRX1, dw.DW_FORM_ADDRX2, dw.DW_FORM_ADDRX3, dw.DW_FORM_ADDRX4),
        dw.DW_FORM_GNU_ADDR_INDEX,
    )
)
CONSTANTS = frozenset(
    (
        *(dw.DW_FORM_DATA1, dw.DW_FORM_DATA2, dw.DW_FORM_DATA4, dw.DW_FORM_DATA8, dw.DW_FORM_DATA16),
        *(dw.DW_FORM_SDATA, dw.DW_FORM_UDATA, dw.DW_FORM_IMPLICIT_CONST),
    )
)
"""Forms of constants."""
_OFFSETS = frozenset((dw.DW_FORM_STRP, dw.DW_FORM_LINE_STRP, dw.DW_FORM_SEC_OFFSET, dw.DW_FORM_GNU_REF_ALT))

Steps = int | tuple[int, ...]
"""Instructions for skipping values: a number of bytes, or several steps. A negative step stands for a form of variable
size.
"""


class Value(NamedTuple):
    """A raw attribute value: a number, or the bytes of a string or block."""

    form: int
    raw: int | bytes


class Forms:
    """Reads and skips values in units of one version, offset size and address size."""

    __slots__ = ("sizes",)

    def __init__(self, version: int, offset_size: int, address_size: int) -> None:
        self.sizes = dict.fromkeys(_OFFSETS | SUPPLEMENTARY_STRINGS, offset_size) | _SIZES
        """The size in bytes of each form that has a fixed size."""
        self.sizes[dw.DW_FORM_ADDR] = address_size
        self.sizes[dw.DW_FORM_REF_ADDR] = address_size if version == 2 else offset_size

    def read(self, cursor: Cursor, form: int, implicit: int = 0) -> Value:
        """Return the value of *form* at *cursor*.

        :param implicit: the abbreviation's value for ``DW_FORM_implicit_const``
        :raises MalformedFile: if the form is unknown, or its value does not fit
        """
        if form == dw.DW_FORM_INDIRECT:
            form = cursor.uleb()
        size = self.sizes.get(form)
        if size is not None:
            return Value(form, cursor.unsigned(size) if size else implicit)
        read = _READERS.get(form)
        if read is None:
            cursor.fail(f"unknown form {form:#x}")
        return Value(form, read(cursor))

    def steps(self, cursor: Cursor, attributes: Sequence[tuple[int, int, int]]) -> Steps:
        """Return the steps that skip the values of *attributes*.

        :raises MalformedFile: if a form is unknown
        """
        steps = [0]
        for _, form, _ in attributes:
            size = self.sizes.get(form)
            if size is None and form not in _READERS and form != dw.DW_FORM_INDIRECT:
                cursor.fail(f"unknown form {form:#x}")
            if size is None:
                steps.append(-1 if form in _ULEB128 or form == dw.DW_FORM_SDATA else -form)
            elif steps[-1] >= 0:
                steps[-1] += size
            else:
                steps.append(size)
        return steps[0] if len(steps) == 1 else tuple(steps)

    def passed(self, cursor: Cursor, position: int, steps: Steps) -> int:
        """Return the position after the values at *position* that *steps* skip.

        :raises MalformedFile: if the values do not fit
        """
        if isinstance(steps, int):
            return position + steps
        data, end = cursor.data, cursor.end
        for step in steps:
            if step >= 0:
                position += step
            elif position < end and data[position] < 0x80 and step in _SHORT:
                position += 1 if step == -1 else 1 + data[position]
            else:
                cursor.position = position
                if step == -1:
                    cursor.uleb()
                else:
                    self.read(cursor, -step)
                position = cursor.position
        return position


# Steps over values whose first byte, if it is below 0x80, is the whole LEB128 number: a number itself (-1), and blocks
# with such a number as length
_SHORT = (-1, -dw.DW_FORM_BLOCK, -dw.DW_FORM_EXPRLOC)


@cache
def forms_of(version: int, offset_size: int, address_size: int) -> Forms:
    """Return the reader of values in units with this version, offset size (4 or 8) and address size."""
    return Forms(version, offset_size, address_size)


_MAX_ABBREVIATIONS = 1 << 16
_MAX_ATTRIBUTES = 128


class Abbreviation(NamedTuple):
    """The tag and attributes of one abbreviation code; attributes are ``(attribute, form, implicit constant)``."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]


class Abbreviations:
    """The table of abbreviations at one offset of ``.debug_abbrev``. The table is read only up to the requested
    code.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._is_whole = False
        self._known: dict[int, Abbreviation] = {}

    def get(self, code: int) -> Abbreviation:
        """Return the abbreviation of *code*.

        :raises MalformedFile: if there is no such code, or the table is malformed
        """
        while code not in self._known:
            if self._is_whole:
                raise MalformedFile(f".debug_abbrev: no abbreviation {code}")
            self._read_one()
        return self._known[code]

    def all(self) -> Mapping[int, Abbreviation]:
        """Return all abbreviations of the table, by code.

        :raises MalformedFile: if the table is malformed
        """
        while not self._is_whole:
            self._read_one()
        return self._known

    def _read_one(self) -> None:
        # LEB128 decoding is inlined for speed: a large program has many abbreviations, and nearly all numbers have one
        # byte.
        cursor = self._cursor
        code = cursor.uleb()
        if code == 0:
            self._is_whole = True
            return
        if len(self._known) >= _MAX_ABBREVIATIONS:
            cursor.fail("too many abbreviations")
        tag, has_children = cursor.uleb(), cursor.byte()
        attributes: list[tuple[int, int, int]] = []
        data, last, position = cursor.data, cursor.end - 1, cursor.position
        while True:
            if position < last and data[position] < 0x80 and data[position + 1] < 0x80:
                attribute, form = data[position], data[position + 1]
                position += 2
            else:
                cursor.position = position
                attribute, form = cursor.uleb(), cursor.uleb()
                position = cursor.position
            if attribute == form == 0:
                break
            constant = 0
            if form == DW_FORM_IMPLICIT_CONST:
                cursor.position = position
                constant = cursor.sleb()
                position = cursor.position
            attributes.append((attribute, form, constant))
            if len(attributes) > _MAX_ATTRIBUTES:
                cursor.fail("an abbreviation has too many attributes")
        cursor.position = position
        self._known.setdefault(code, Abbreviation(tag, bool(has_children), tuple(attributes)))
