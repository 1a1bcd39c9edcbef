"""Where DWARF defines the types of a name, without reading all of it.

A runtime's debug information has some hundred thousand entries, of which a handful is asked for. So the name is
searched as bytes: in the strings, then its offset there in the units. That tells which units may define it, and where.
Whether an entry really begins there is told by walking over one unit, entry by entry, which notes all of its named
types on the way; others are then mostly found in the same unit. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from ompd.debugger.formats.cursor import Cursor
from ompd.debugger.formats.dwarf_units import (
    DW_AT_ABSTRACT_ORIGIN,
    DW_AT_NAME,
    DW_AT_SPECIFICATION,
    DW_AT_STR_OFFSETS_BASE,
    DW_FORM_IMPLICIT_CONST,
    DW_FORM_LINE_STRP,
    DW_FORM_REF_ADDR,
    DW_FORM_STRING,
    DW_FORM_STRP,
    STRING_INDEX_FORMS,
    Abbreviation,
    Sections,
    Unit,
    Value,
    read_length,
)
from ompd.debugger.formats.elf import ElfFile
from ompd.errors import MalformedFile

DW_TAG_CLASS_TYPE, DW_TAG_ENUMERATION_TYPE, DW_TAG_STRUCTURE_TYPE = 0x02, 0x04, 0x13
DW_TAG_TYPEDEF, DW_TAG_UNION_TYPE, DW_TAG_BASE_TYPE = 0x16, 0x17, 0x24
_DW_TAG_COMPILE_UNIT, _DW_TAG_MODULE, _DW_TAG_NAMESPACE = 0x11, 0x1E, 0x39
_DW_TAG_PARTIAL_UNIT, _DW_TAG_TYPE_UNIT = 0x3C, 0x41
_DW_AT_DECLARATION, _DW_AT_TYPE, _DW_AT_SIGNATURE = 0x3C, 0x49, 0x69

NAMED_TYPES = frozenset(
    (
        *(DW_TAG_CLASS_TYPE, DW_TAG_ENUMERATION_TYPE, DW_TAG_STRUCTURE_TYPE),
        *(DW_TAG_TYPEDEF, DW_TAG_UNION_TYPE, DW_TAG_BASE_TYPE),
    )
)
_UNITS = frozenset((_DW_TAG_COMPILE_UNIT, _DW_TAG_PARTIAL_UNIT, _DW_TAG_TYPE_UNIT))
_SCOPES = NAMED_TYPES | _UNITS | {_DW_TAG_MODULE, _DW_TAG_NAMESPACE}

_MAX_UNITS = 1 << 20
_MAX_ABBREVIATIONS = 1 << 16
_MAX_ATTRIBUTES = 128
_MAX_DEPTH = 1 << 12
_MAX_STRINGS = 1 << 10
_MAX_PLACES = 1 << 20
_MAX_HITS = 64
_MAX_PASSED = 1 << 24
_MAX_SCOPES = 32
_REFERRING = (DW_AT_ABSTRACT_ORIGIN, DW_AT_SPECIFICATION, _DW_AT_TYPE)


class Place(NamedTuple):
    """Where an entry lies: its unit, and how many bytes from the unit's start."""

    unit: Unit
    offset: int


class _Shape(NamedTuple):
    # What the walk has to know of an abbreviation.
    steps: int | tuple[int, ...]  # Unit.steps of all attributes
    has_children: bool
    is_scope: bool
    name: tuple[int, int, str] | None  # of a type's definition: distance and size of DW_AT_name, and its section
    slow_name: bool  # it is a type's definition, and where its name lies differs from entry to entry


_Key = tuple[str, int | bytes]  # a section of strings and an offset or index in it; "" and the name itself
# Units, and where in the section's buffer bytes of a key were found, None for not looked for, or too often.
_Hits = dict[tuple[str, int], list[tuple[str, int | bytes, list[int] | None]]]


class _Names:
    # Definitions of types in one unit by name, and the entry around each type and scope, 0 around the unit's own.

    __slots__ = ("places", "scopes")

    def __init__(self) -> None:
        self.places: dict[_Key, list[int]] = {}
        self.scopes: dict[int, int] = {}


class TypeIndex:
    """The named types that one file's DWARF defines. What a search needs is read at its time and kept."""

    def __init__(self, elf: ElfFile) -> None:
        self.sections = Sections(elf)
        self._units: dict[tuple[str, int], Unit] = {}
        self._wide: set[str] = set()  # sections with units of the 64-bit format
        self._tables: dict[int, dict[int, Abbreviation]] = {}
        self._shapes: dict[tuple[str, int], dict[int, _Shape]] = {}
        self._names: dict[tuple[str, int], _Names] = {}
        self._definitions: dict[tuple[str, int], list[tuple[int, _Shape]]] = {}
        self._candidates: dict[tuple[str, bool], list[tuple[Unit, list[int]]]] = {}
        self._left = _MAX_PASSED  # entries that lie in each other can make many long walks

    # Units

    @cached_property
    def _starts(self) -> dict[str, list[int]]:
        # Offsets of all units, by section. Only lengths are read.
        return {name: self._unit_starts(name) for name in (".debug_info", ".debug_types")}

    def _unit_starts(self, section: str) -> list[int]:
        starts: list[int] = []
        offset, size = 0, self.sections.size(section)
        while offset < size:
            if len(starts) >= _MAX_UNITS:
                raise MalformedFile(f"{section}: too many units")
            starts.append(offset)
            cursor = self.sections.cursor(section, offset)
            before = cursor.position
            offset_size, length = read_length(cursor)
            if offset_size == 8:
                self._wide.add(section)
            offset += cursor.position - before + length
        return starts

    def _unit(self, section: str, offset: int) -> Unit:
        key = section, offset
        if key not in self._units:
            self._units[key] = Unit(self.sections, offset, section)
        return self._units[key]

    def _every_unit(self) -> Iterator[Unit]:
        for section, starts in self._starts.items():
            for start in starts:
                yield self._unit(section, start)

    def place_at(self, section_offset: int) -> Place:
        """Return the place *section_offset* bytes from the start of ``.debug_info``.

        :raises MalformedFile: if it lies in no unit
        """
        starts = self._starts[".debug_info"]
        index = bisect_right(starts, section_offset) - 1
        if index < 0:
            raise MalformedFile(f".debug_info: no unit at {section_offset:#x}")
        return Place(self._unit(".debug_info", starts[index]), section_offset - starts[index])

    def place_of_signature(self, signature: int) -> Place | None:
        """Return the type that has *signature*, None if no type unit of this file holds it."""
        return self._signatures.get(signature)

    @cached_property
    def _signatures(self) -> dict[int, Place]:
        return {
            unit.signature: Place(unit, unit.type_offset or 0)
            for unit in self._every_unit()
            if unit.signature is not None
        }

    def abbreviations(self, unit: Unit) -> dict[int, Abbreviation]:
        """Return the unit's table of abbreviations, by code.

        :raises MalformedFile: if it is malformed
        """
        offset = unit.abbreviations_offset
        if offset not in self._tables:
            self._tables[offset] = _parse_abbreviations(self.sections.cursor(".debug_abbrev", offset))
        return self._tables[offset]

    # Search

    def candidates(self, name: str, *, in_strings: bool = True) -> Sequence[tuple[Unit, list[int]]]:
        """Return units that may define a type called *name*, those first that were walked, and where in each.

        A place is one for sure only if :meth:`scope_of` says so.

        :param in_strings: the name lies in a section of strings, as nearly all do, or else in the entry itself
        """
        key = name, in_strings
        if key not in self._candidates:
            raw = name.encode("utf-8", "replace")
            hits = self._hits_of_string(raw) if in_strings else self._hits_of_entry(raw)
            places = sorted(hits, key=lambda place: (place not in self._names, place))
            self._candidates[key] = [
                (unit, sorted({at for hit in hits[place] for at in self._likely(unit, hit)}))
                for place, unit in ((place, self._unit(*place)) for place in places)
            ]
        return self._candidates[key]

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """Return the units of ``.debug_info`` that may hold one of *names*, or use what another unit has of them.

        :raises MalformedFile: if the file is malformed
        """
        places: set[tuple[str, int]] = set()
        for name in names:
            raw = name.encode("utf-8", "replace")
            places |= self._hits_of_string(raw).keys() | self._hits_of_entry(raw).keys()
        found = [self._unit(*place) for place in sorted(places) if place[0] == ".debug_info"]
        others = self._referring() if found else ()
        return found + [unit for unit in others if (unit.section, unit.offset) not in places]

    def _referring(self) -> Iterator[Unit]:
        # Units with references into others, as link-time optimisers and dwz make them.
        if not any(self._find(".debug_abbrev", bytes((attribute, DW_FORM_REF_ADDR))) for attribute in _REFERRING):
            return
        for offset in self._starts[".debug_info"]:
            unit = self._unit(".debug_info", offset)
            attributes = {pair[:2] for row in self.abbreviations(unit).values() for pair in row.attributes}
            if any((attribute, DW_FORM_REF_ADDR) in attributes for attribute in _REFERRING):
                yield unit

    def _hits_of_entry(self, raw: bytes) -> _Hits:
        hits: _Hits = {}
        for section in self._starts:
            self._add_hits(hits, section, raw + b"\0", ("", raw))
        return hits

    def _hits_of_string(self, raw: bytes) -> _Hits:
        keys = {kind: self._string_offsets(kind, raw) for kind in (".debug_str", ".debug_line_str")}
        hits: _Hits = {}
        for section in self._starts:
            for size in (4, 8) if section in self._wide else (4,):
                for kind, offset in ((kind, offset) for kind, offsets in keys.items() for offset in offsets):
                    self._add_hits(hits, section, self._bytes(offset, size), (kind, offset))
        for unit, index in self._indexed(keys[".debug_str"]):
            hits.setdefault((unit.section, unit.offset), []).append((".debug_str_offsets", index, None))
        return hits

    def _add_hits(self, hits: _Hits, section: str, pattern: bytes, key: _Key) -> None:
        span = self.sections.span(section)
        starts = self._starts[section]
        if span is None or not starts:
            return
        data, base, end = span
        position = data.find(pattern, base, end)
        while position >= 0:
            following = bisect_right(starts, position - base)
            limit = base + starts[following] if following < len(starts) else end
            found: list[int] | None = []
            while 0 <= position < limit and found is not None:
                found.append(position)
                position = data.find(pattern, position + 1, end)
                if len(found) > _MAX_HITS:
                    found = None  # bytes as those of small numbers, which are everywhere: the unit is walked instead
            hits.setdefault((section, starts[following - 1]), []).append((*key, found))
            if 0 <= position < limit:
                position = data.find(pattern, limit, end)

    def _bytes(self, value: int, size: int) -> bytes:
        return value.to_bytes(size, self.sections.byte_order)

    def _string_offsets(self, section: str, raw: bytes) -> list[int]:
        # Linkers let a name share the tail of a longer one, so each place where it ends a string counts.
        offsets = self._find(section, raw + b"\0")
        if len(offsets) > _MAX_STRINGS:
            raise MalformedFile(f"{section}: the same name too many times")
        return offsets

    def _find(self, section: str, pattern: bytes) -> list[int]:
        span = self.sections.span(section)
        return [] if span is None else [at - span[1] for at in _positions(*span, pattern)]

    def _indexed(self, offsets: list[int]) -> Iterator[tuple[Unit, int]]:
        # 7.26: units that have one of these strings in their array of strings, and its index there.
        name = ".debug_str_offsets"
        if not self.sections.size(name):
            return
        bases = self._string_bases
        starts = [base for base, _ in bases]
        for offset in offsets:
            for size in (4, 8):
                for position in self._find(name, self._bytes(offset, size)):
                    last = bisect_right(starts, position) - 1
                    base = starts[last] if last >= 0 else 0
                    while last >= 0 and starts[last] == base:
                        unit = bases[last][1]
                        if unit.offset_size == size and (position - base) % size == 0:
                            yield unit, (position - base) // size
                        last -= 1

    @cached_property
    def _string_bases(self) -> list[tuple[int, Unit]]:
        bases = [
            (unit.number(unit.top[DW_AT_STR_OFFSETS_BASE]) or 0, unit)
            for unit in self._every_unit()
            if DW_AT_STR_OFFSETS_BASE in unit.top
        ]
        return sorted(bases, key=lambda row: (row[0], row[1].section, row[1].offset))

    def _likely(self, unit: Unit, hit: tuple[str, int | bytes, list[int] | None]) -> Iterator[int]:
        # Where in the unit bytes lie that read as an abbreviation of a type's definition with that name.
        kind, value, positions = hit
        walked = (unit.section, unit.offset) in self._names
        start, first, end = unit.bounds
        data = self._span(unit)[0]
        ways: dict[int, list[tuple[int, bytes]]] = {}
        for code, shape in self._definitions_of(unit) if not walked else ():
            walked = walked or shape.slow_name
            if shape.name is not None and shape.name[2] == kind:
                ways.setdefault(shape.name[1], []).append((shape.name[0], _uleb(code)))
        if positions is None and kind != ".debug_str_offsets" and ways:
            walked = True
        if walked:
            yield from self._names_of(unit).places.get((kind, value), ())
            return
        for size, codes in ways.items():
            if positions is None and isinstance(value, int):
                # An index of a string is a small number too, but preceded by few of the codes.
                pattern = _uleb(value) if not size else self._bytes(value, size) if value < 1 << 8 * size else b""
                places = _positions(data, first, end, pattern) if pattern else []
            else:
                places = positions or []
            for position in places:
                for distance, code_bytes in codes:
                    at = position - distance - len(code_bytes)
                    if at >= first and data[at : at + len(code_bytes)] == code_bytes:
                        yield at - start

    def scope_of(self, place: Place) -> tuple[str, ...] | None:
        """Return the names of what is around the type at *place*, from outside in; None if no type is there.

        Empty for a type of the unit itself. What has no name is called ``""``, a function ``"()"``.

        :raises MalformedFile: if the unit is malformed
        """
        unit, offset = place
        scopes = self._names_of(unit).scopes
        if offset not in scopes:
            return None
        scope: list[str] = []
        while len(scope) < _MAX_DEPTH:
            # The definition of what is declared in a scope may lie outside of it.
            declared = self.entry(Place(unit, offset))[1].get(DW_AT_SPECIFICATION)
            if declared is not None and isinstance(declared.raw, int) and declared.raw < offset:
                offset = declared.raw
            parent = scopes.get(offset, -1)
            if parent not in scopes:
                scope.append("()")
                break
            if scopes[parent] == 0:
                break
            scope.append(self._name_of(Place(unit, parent)))
            offset = parent
        return tuple(reversed(scope))

    def scopes_around(self, unit: Unit, offsets: Collection[int]) -> dict[int, tuple[str, ...]]:
        """Return the names of the namespaces and types around the entries at *offsets* of *unit*, from outside in.

        Empty for what lies in a function. A scope without a name is left out.

        :raises MalformedFile: if the unit is malformed
        """
        found: dict[int, tuple[str, ...]] = {}
        data = self._span(unit)[0]
        start, position, end = unit.bounds
        stack: list[tuple[int, bool]] = []  # the entries around, and whether each is a scope
        while position < end and len(found) < len(offsets):
            at = position - start
            if at in offsets:
                inside = stack[1 : _MAX_SCOPES + 1]
                names = [self._name_of(Place(unit, offset)) for offset, _ in inside]
                found[at] = tuple(name for name in names if name) if all(scope for _, scope in inside) else ()
            code = data[position]
            position += 1
            if code == 0:
                if stack:
                    stack.pop()
                continue
            if code >= 0x80:
                cursor = unit.cursor(at)
                code, position = cursor.uleb(), cursor.position
            steps, has_children, is_scope, _, _ = self._shape(unit, code)
            position = position + steps if isinstance(steps, int) else unit.passed(position, steps)
            if has_children:
                if len(stack) > _MAX_DEPTH:
                    raise MalformedFile(f"{unit.section}: entries are too deep in each other")
                stack.append((at, is_scope))
        return found

    def _name_of(self, place: Place) -> str:
        # A declaration of a type that lies in a type unit need not repeat its name.
        _, attributes = self.entry(place)
        signature = attributes.get(_DW_AT_SIGNATURE)
        if DW_AT_NAME not in attributes and signature is not None and isinstance(signature.raw, int):
            place = self.place_of_signature(signature.raw) or place
            _, attributes = self.entry(place)
        return place.unit.string(attributes.get(DW_AT_NAME)) or ""

    # Entries

    def entry(self, place: Place) -> tuple[int, dict[int, Value]]:
        """Return tag and attributes of the entry at *place*; the tag is 0 where a list of children ends.

        :raises MalformedFile: if there is none
        """
        cursor = place.unit.cursor(place.offset)
        code = cursor.uleb()
        return (0, {}) if code == 0 else self._read(place.unit, cursor, self._abbreviation(place.unit, code))

    def _read(self, unit: Unit, cursor: Cursor, abbreviation: Abbreviation) -> tuple[int, dict[int, Value]]:
        return abbreviation.tag, {
            attribute: unit.read_form(cursor, form, implicit) for attribute, form, implicit in abbreviation.attributes
        }

    def _abbreviation(self, unit: Unit, code: int) -> Abbreviation:
        try:
            return self.abbreviations(unit)[code]
        except KeyError:
            raise MalformedFile(f".debug_abbrev: no abbreviation {code}") from None

    def children(self, place: Place, tags: Collection[int]) -> Iterator[tuple[int, dict[int, Value]]]:
        """Yield tag and attributes of those entries right below the one at *place* that have one of *tags*.

        :raises MalformedFile: when it reaches an entry that is malformed
        """
        unit = place.unit
        cursor = unit.cursor(place.offset)
        abbreviation = self._abbreviation(unit, cursor.uleb())
        if not abbreviation.has_children:
            return
        self._read(unit, cursor, abbreviation)
        depth = 1
        while depth and not cursor.at_end:
            code = cursor.uleb()
            if code == 0:
                depth -= 1
                continue
            abbreviation = self._abbreviation(unit, code)
            self._left -= 1
            if self._left < 0:
                raise MalformedFile(f"{unit.section}: too many entries to pass over")
            if depth == 1 and abbreviation.tag in tags:
                yield self._read(unit, cursor, abbreviation)
            else:
                steps = self._shape(unit, code).steps
                cursor.position = (
                    cursor.position + steps if isinstance(steps, int) else unit.passed(cursor.position, steps)
                )
            depth += abbreviation.has_children

    # The walk over a unit

    def _span(self, unit: Unit) -> tuple[bytes | mmap.mmap, int, int]:
        span = self.sections.span(unit.section)
        if span is None:
            raise MalformedFile(f"no {unit.section}")  # not for a unit that was read from it
        return span

    def _definitions_of(self, unit: Unit) -> list[tuple[int, _Shape]]:
        # Codes and shapes of all definitions of types in the unit's table.
        key = unit.section, unit.offset
        if key not in self._definitions:
            codes = [code for code, abbreviation in self.abbreviations(unit).items() if abbreviation.tag in NAMED_TYPES]
            shapes = ((code, self._shape(unit, code)) for code in codes)
            self._definitions[key] = [(code, shape) for code, shape in shapes if shape.name or shape.slow_name]
        return self._definitions[key]

    def _shape(self, unit: Unit, code: int) -> _Shape:
        shapes = self._shapes.setdefault((unit.section, unit.offset), {})
        if code not in shapes:
            shapes[code] = self._make_shape(unit, self._abbreviation(unit, code))
        return shapes[code]

    def _make_shape(self, unit: Unit, abbreviation: Abbreviation) -> _Shape:
        tag, has_children, attributes = abbreviation
        steps = unit.steps(attributes)
        given = [attribute for attribute, _, _ in attributes]
        name = None
        slow = False
        if tag in NAMED_TYPES and DW_AT_NAME in given and _DW_AT_DECLARATION not in given:
            index = given.index(DW_AT_NAME)
            distance, form = unit.steps(attributes[:index]), attributes[index][1]
            section = _string_section(form)
            slow = not isinstance(distance, int) or section is None
            if isinstance(distance, int) and section is not None:
                name = distance, unit.size_of(form) or 0, section
        return _Shape(steps, has_children, tag in _SCOPES, name, slow)

    def _names_of(self, unit: Unit) -> _Names:
        key = unit.section, unit.offset
        if key not in self._names:
            self._names[key] = self._walk(unit)
        return self._names[key]

    def _walk(self, unit: Unit) -> _Names:
        # One long function, because this is where all the time of a search goes.
        names = _Names()
        places, scopes = names.places, names.scopes
        data = self._span(unit)[0]
        start, position, end = unit.bounds
        shapes = self._shapes.setdefault((unit.section, unit.offset), {})
        stack: list[int] = []
        parent = 0
        while position < end:
            at = position
            code = data[position]
            position += 1
            if code == 0:
                if stack:
                    parent = stack.pop()
                continue
            if code >= 0x80:
                cursor = unit.cursor(at - start)
                code, position = cursor.uleb(), cursor.position
            shape = shapes.get(code) or self._shape(unit, code)
            steps, has_children, is_scope, name, slow = shape
            if is_scope:
                scopes[at - start] = parent
            if name is not None:
                distance, size, section = name
                found = self._name_at(unit, data, position + distance, size, section)
                places.setdefault((section, found), []).append(at - start)
            elif slow:
                value = self.entry(Place(unit, at - start))[1][DW_AT_NAME]
                places.setdefault((_string_section(value.form) or "?", value.raw), []).append(at - start)
            position = position + steps if isinstance(steps, int) else unit.passed(position, steps)
            if has_children:
                if len(stack) > _MAX_DEPTH:
                    raise MalformedFile(f"{unit.section}: entries are too deep in each other")
                stack.append(parent)
                parent = at - start
        if position > end:
            raise MalformedFile(f"{unit.section}: an entry does not fit", offset=unit.offset)
        return names

    def _name_at(self, unit: Unit, data: bytes | mmap.mmap, position: int, size: int, section: str) -> int | bytes:
        if size:
            return int.from_bytes(data[position : position + size], self.sections.byte_order)
        cursor = unit.cursor(position - unit.bounds[0])
        return cursor.uleb() if section else cursor.string()


def _string_section(form: int) -> str | None:
    # Where strings of a form lie; "" for in the entry itself, None for in another file (dwz's).
    if form == DW_FORM_STRP:
        return ".debug_str"
    if form == DW_FORM_LINE_STRP:
        return ".debug_line_str"
    if form in STRING_INDEX_FORMS:
        return ".debug_str_offsets"
    return "" if form == DW_FORM_STRING else None


def _positions(data: bytes | mmap.mmap, start: int, end: int, pattern: bytes) -> list[int]:
    found: list[int] = []
    position = data.find(pattern, start, end)
    while position >= 0:
        found.append(position)
        if len(found) > _MAX_PLACES:
            raise MalformedFile("the same bytes too many times")
        position = data.find(pattern, position + 1, end)
    return found


def _uleb(value: int) -> bytes:
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


def _parse_abbreviations(cursor: Cursor) -> dict[int, Abbreviation]:
    # As Abbreviations, but all at once, and quick: nearly all numbers in it are of one byte.
    table: dict[int, Abbreviation] = {}
    data, end = cursor.data, cursor.end
    while len(table) < _MAX_ABBREVIATIONS:
        code = cursor.uleb()
        if code == 0:
            return table
        tag, has_children = cursor.uleb(), cursor.byte()
        attributes: list[tuple[int, int, int]] = []
        position = cursor.position
        while True:
            if position + 1 < end and data[position] < 0x80 and data[position + 1] < 0x80:
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
        table.setdefault(code, Abbreviation(tag, bool(has_children), tuple(attributes)))
    cursor.fail("too many abbreviations")
