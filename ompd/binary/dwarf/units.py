"""Units of DWARF 2 to 5: headers, single entries, and the meaning of attribute values.

All addresses are link-time addresses. Offsets are checked before use; an offset that does not fit raises MalformedFile.
Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import NamedTuple

from ompd.binary.cursor import Bytes, Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import (
    ADDRESS_INDEXES,
    STRING_INDEXES,
    SUPPLEMENTARY_STRINGS,
    UNIT_REFERENCES,
    Abbreviation,
    Abbreviations,
    Forms,
    Steps,
    Value,
    forms_of,
)
from ompd.binary.dwarf.sections import WHOLE, Contribution, Sections
from ompd.safety import limits

_UNIT_TYPES_WITH_ID = (dw.DW_UT_SKELETON, dw.DW_UT_SPLIT_COMPILE)  # their headers have eight more bytes
_UNIT_TYPES_OF_TYPES = (dw.DW_UT_TYPE, dw.DW_UT_SPLIT_TYPE)


class Shape(NamedTuple):
    """An abbreviation, and the steps that skip its attributes. ``sibling`` has the steps to ``DW_AT_sibling`` and its
    form, or is None.
    """

    abbreviation: Abbreviation
    steps: Steps
    sibling: tuple[Steps, int] | None


class Unit:
    """One unit of ``.debug_info``, or of DWARF 4's ``.debug_types`` (7.5.1).

    ``signature`` and ``type_offset`` (the offset of the type's entry) are set for a type unit, None for other units.
    ``section`` is unique among the module's files.

    :param skeleton: the skeleton unit of a split unit
    :param contribution: for a unit in a package, the offsets of its parts in other sections
    """

    # Slots save memory: a file may have a unit in every twenty bytes.
    __slots__ = (
        "_abbreviations",
        "_abbreviations_offset",
        "_cursor",
        "_dwo_id",
        "_end",
        "_first",
        "_is_loaded",
        "_section",
        "_shapes",
        "_start",
        "_top",
        "address_size",
        "contribution",
        "forms",
        "has_code",
        "offset",
        "offset_size",
        "ranges_left",
        "section",
        "sections",
        "signature",
        "skeleton",
        "type_offset",
        "version",
    )

    def __init__(
        self,
        sections: Sections,
        offset: int,
        section: str = ".debug_info",
        *,
        skeleton: Unit | None = None,
        contribution: Contribution = WHOLE,
    ) -> None:
        self.sections = sections
        self._section = section
        self.section = intern(section + sections.tag)
        self.offset = offset
        self.skeleton = skeleton
        self.contribution = contribution
        cursor = sections.cursor(section, offset)
        self.offset_size, length = read_length(cursor)
        self._start = cursor.position - (4 if self.offset_size == 4 else 12)
        if length > cursor.end - cursor.position:
            cursor.fail("a unit does not fit")
        self._end = cursor.end = cursor.position + length
        self.version = cursor.unsigned(2)
        if not 2 <= self.version <= 5:
            cursor.fail(f"a unit of unknown version {self.version}")
        unit_type = cursor.byte() if self.version >= 5 else 0
        if self.version >= 5:
            self.address_size = cursor.byte()
        self._abbreviations_offset = cursor.unsigned(self.offset_size) + contribution.get(".debug_abbrev", 0)
        if self.version < 5:
            self.address_size = cursor.byte()
        self._dwo_id = cursor.unsigned(8) if unit_type in _UNIT_TYPES_WITH_ID else None
        self.has_code = unit_type not in _UNIT_TYPES_OF_TYPES and section == ".debug_info"
        self.signature = None if self.has_code else cursor.unsigned(8)
        self.type_offset = None if self.has_code else cursor.unsigned(self.offset_size)
        if self.address_size not in (4, 8):
            cursor.fail(f"a unit with addresses of {self.address_size} bytes")
        self._cursor = cursor
        self._is_loaded = False
        self._first = cursor.position
        self._abbreviations: Abbreviations | None = None
        self._shapes: dict[int, Shape] = {}
        self.forms: Forms = forms_of(self.version, self.offset_size, self.address_size)
        self.ranges_left: limits.Budget | None = None
        """The budget for entries of range lists, created at the first list."""
        self._top: Mapping[int, Value] | None = None

    @property
    def dwo_id(self) -> int | None:
        """The id that a skeleton and its split unit share, None for other units."""
        return self._dwo_id if self.version >= 5 else self.number(self.top.get(dw.DW_AT_GNU_DWO_ID))

    @property
    def split_name(self) -> str | None:
        """The name of the split file with this skeleton's entries, None for other units."""
        if self.sections.split:
            return None
        return self.string(self.top.get(dw.DW_AT_DWO_NAME if self.version >= 5 else dw.DW_AT_GNU_DWO_NAME))

    @property
    def section_base(self) -> int:
        """The base of section offsets: 0, except in a package, where the sections of many units are merged."""
        return self.contribution.get(self._section, 0)

    @property
    def next_offset(self) -> int:
        """Offset of the next unit."""
        return self.offset + self._end - self._start

    # Entries

    @property
    def data(self) -> Bytes:
        """The buffer that holds the unit."""
        self._load()
        return self._cursor.data

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Positions of the unit, its first entry and its end in the buffer."""
        self._load()
        return self._start, self._first, self._end

    def _load(self) -> None:
        # Copy the unit before its first iteration, which reads nearly every byte.
        if self._is_loaded:
            return
        self._is_loaded = True
        cursor, start, size = self._cursor, self._start, self._end - self._start
        copy = self.sections.copied(cursor.data, start, size)
        if copy is not None:
            cursor.data = copy
            cursor.position, cursor.end, cursor.base = cursor.position - start, size, cursor.base + start
            self._start, self._first, self._end = 0, self._first - start, size

    def cursor(self, offset: int) -> Cursor:
        """Return a cursor that begins *offset* bytes after the unit's start and ends with the unit.

        :raises MalformedFile: if no entry can be there
        """
        start, first, end = self.bounds
        shared = self._cursor
        if not first <= start + offset <= end:
            shared.fail(f"no entry at {offset:#x} of a unit")
        return Cursor(
            shared.data, shared.byte_order, position=start + offset, end=end, what=shared.what, base=shared.base
        )

    def cursor_at(self, position: int) -> Cursor:
        """Return the unit's shared cursor, moved to *position* of the buffer."""
        self._cursor.position = position
        return self._cursor

    @property
    def abbreviations(self) -> Abbreviations:
        if self._abbreviations is None:
            self._abbreviations = self.sections.once(".debug_abbrev", self._abbreviations_offset, Abbreviations)
        return self._abbreviations

    @property
    def top(self) -> Mapping[int, Value]:
        """The attributes of the unit's own entry."""
        if self._top is None:
            self._top = self.entry_at(self._first - self._start)[1]
        return self._top

    def entry_at(self, offset: int) -> tuple[int, dict[int, Value]]:
        """Return tag and attributes of the entry *offset* bytes from the unit's start.

        At the end of a list of children the tag is 0.

        :raises MalformedFile: if there is none
        """
        cursor = self._cursor
        if not self._first <= self._start + offset < self._end:
            cursor.fail(f"no entry at {offset:#x} of a unit")
        cursor.position = self._start + offset
        code = cursor.uleb()
        if code == 0:
            return 0, {}
        abbreviation = self.abbreviations.get(code)
        return abbreviation.tag, self.attributes(cursor, abbreviation)

    def attributes(self, cursor: Cursor, abbreviation: Abbreviation) -> dict[int, Value]:
        """Return the attributes of an entry. Their values begin at *cursor*.

        :raises MalformedFile: if the values do not fit
        """
        read = self.forms.read
        return {attribute: read(cursor, form, implicit) for attribute, form, implicit in abbreviation.attributes}

    def shape(self, code: int) -> Shape:
        """Return the shape of entries with the abbreviation *code*.

        :raises MalformedFile: if there is no such abbreviation, or it is malformed
        """
        if code not in self._shapes:
            abbreviation = self.abbreviations.get(code)
            attributes = abbreviation.attributes
            sibling = None
            for index, (attribute, form, _) in enumerate(attributes if abbreviation.has_children else ()):
                if attribute == dw.DW_AT_SIBLING and form in UNIT_REFERENCES:
                    sibling = self.forms.steps(self._cursor, attributes[:index]), form
            self._shapes[code] = Shape(abbreviation, self.forms.steps(self._cursor, attributes), sibling)
        return self._shapes[code]

    def sibling(self, position: int, steps: Steps, form: int) -> int:
        """Return the buffer position of the next sibling of an entry, by its ``DW_AT_sibling``.

        :param position: the start of the entry's attributes
        :param steps: the steps from there to ``DW_AT_sibling``, which has the form *form*
        :raises MalformedFile: if the sibling is before the entry
        """
        cursor = self._cursor
        cursor.position = self.forms.passed(cursor, position, steps)
        raw = self.forms.read(cursor, form).raw
        following = self._start + raw if isinstance(raw, int) else 0
        if not cursor.position <= following <= self._end:
            cursor.fail("an entry is followed by one before it")
        return following

    # Values

    def number(self, value: Value | None) -> int | None:
        """Return the number that a value holds, None if it holds none."""
        return value.raw if value is not None and isinstance(value.raw, int) else None

    def string(self, value: Value | None) -> str | None:
        """Return the string of a value. None if the value holds no string, or if the string is in a supplementary file
        that is not available.
        """
        if value is None:
            return None
        form, raw = value
        if isinstance(raw, int):
            if form in STRING_INDEXES:
                offset = self.string_offsets_base + raw * self.offset_size
                raw = self.sections.cursor(".debug_str_offsets", offset).unsigned(self.offset_size)
                form = dw.DW_FORM_STRP
            if form == dw.DW_FORM_STRP:
                raw = self.sections.string(".debug_str", raw)
            elif form == dw.DW_FORM_LINE_STRP:
                raw = self.sections.string(".debug_line_str", raw)
            elif form in SUPPLEMENTARY_STRINGS and self.sections.supplementary is not None:
                other = self.sections.supplementary()
                if other is None:
                    return None
                raw = other.string(".debug_str", raw)
            else:
                return None
        return raw.decode("utf-8", "replace")

    @property
    def has_string_offsets(self) -> bool:
        """Whether the unit refers to strings by index."""
        return dw.DW_AT_STR_OFFSETS_BASE in self.top or (
            self.sections.split and self.sections.size(".debug_str_offsets") > 0
        )

    @property
    def string_offsets_base(self) -> int:
        """The offset of the unit's table in ``.debug_str_offsets``."""
        base = self.number(self.top.get(dw.DW_AT_STR_OFFSETS_BASE))
        if base is None and self.sections.split and self.version >= 5:
            base = 16 if self.offset_size == 8 else 8  # 7.3.2.2: a split file has one table, directly after its header
        return (base or 0) + self.contribution.get(".debug_str_offsets", 0)

    def address(self, value: Value | None) -> int | None:
        """Return the address that a value holds, None if it holds none."""
        if value is None or not isinstance(value.raw, int):
            return None
        return self.indexed_address(value.raw) if value.form in ADDRESS_INDEXES else value.raw

    def indexed_address(self, index: int) -> int:
        """Return the address at *index* of the unit's table of addresses.

        :raises MalformedFile: if there is none
        """
        # The address table of a split unit is in the module, because linkers do not process split files.
        home = self.skeleton or self
        attribute = dw.DW_AT_ADDR_BASE if home.version >= 5 else dw.DW_AT_GNU_ADDR_BASE
        base = self.number(home.top.get(attribute)) or 0
        return home.sections.cursor(".debug_addr", base + index * self.address_size).unsigned(self.address_size)

    @property
    def base_address(self) -> int:
        """The initial base address of the unit's lists."""
        home = self.skeleton or self
        return home.address(home.top.get(dw.DW_AT_LOW_PC)) or 0


def read_length(cursor: Cursor) -> tuple[int, int]:
    """Return offset size (4 or 8) and length from an initial length (7.4)."""
    length = cursor.unsigned(4)
    if length < 0xFFFFFFF0:
        return 4, length
    if length != 0xFFFFFFFF:
        cursor.fail(f"a length of {length:#x}")
    return 8, cursor.unsigned(8)
