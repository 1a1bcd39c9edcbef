"""Abbreviations: which attributes entries have, and in which form. DWARF 5, 7.5.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.constants import DW_FORM_IMPLICIT_CONST
from ompd.errors import MalformedFile

_MAX_ABBREVIATIONS = 1 << 16
_MAX_ATTRIBUTES = 128


class Abbreviation(NamedTuple):
    """What entries of one abbreviation code hold: ``(attribute, form, implicit constant)`` in order."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]


class Abbreviations:
    """The table of abbreviations at one offset of ``.debug_abbrev``, read as far as its codes are requested."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._is_whole = False
        self._known: dict[int, Abbreviation] = {}

    def get(self, code: int) -> Abbreviation:
        """Return the abbreviation of *code*.

        :raises MalformedFile: if there is none, or the table is malformed
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
        # Quick, since a large program has many: nearly all numbers are of one byte.
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
