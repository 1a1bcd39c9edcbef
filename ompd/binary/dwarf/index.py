"""Where DWARF defines the types of a name, without reading all of it.

A runtime's debug information has some hundred thousand entries, of which a handful is needed. So the name is
searched as bytes: in the strings, then its offset there in the units. That says which units may define it, and where.
Whether an entry really begins there is known by walking over one unit, entry by entry, which notes all of its named
types on the way; others are then mostly found in the same unit. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.files import INFO, TYPES, DebugFiles, OtherFiles
from ompd.binary.dwarf.sections import Sections
from ompd.binary.dwarf.units import (
    DW_AT_ABSTRACT_ORIGIN,
    DW_AT_NAME,
    DW_AT_SIGNATURE,
    DW_AT_SPECIFICATION,
    DW_FORM_IMPLICIT_CONST,
    DW_FORM_LINE_STRP,
    DW_FORM_REF_ADDR,
    DW_FORM_STRING,
    DW_FORM_STRP,
    STRING_INDEX_FORMS,
    SUPPLEMENTARY_REFERENCES,
    SUPPLEMENTARY_STRINGS,
    Abbreviation,
    Unit,
    Value,
)
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile

DW_TAG_CLASS_TYPE, DW_TAG_ENUMERATION_TYPE, DW_TAG_STRUCTURE_TYPE = 0x02, 0x04, 0x13
DW_TAG_TYPEDEF, DW_TAG_UNION_TYPE, DW_TAG_BASE_TYPE = 0x16, 0x17, 0x24
_DW_TAG_COMPILE_UNIT, _DW_TAG_MODULE, _DW_TAG_NAMESPACE = 0x11, 0x1E, 0x39
_DW_TAG_PARTIAL_UNIT, _DW_TAG_TYPE_UNIT = 0x3C, 0x41
_DW_AT_DECLARATION, _DW_AT_TYPE = 0x3C, 0x49

NAMED_TYPES = frozenset(
    (
        *(DW_TAG_CLASS_TYPE, DW_TAG_ENUMERATION_TYPE, DW_TAG_STRUCTURE_TYPE),
        *(DW_TAG_TYPEDEF, DW_TAG_UNION_TYPE, DW_TAG_BASE_TYPE),
    )
)
_UNITS = frozenset((_DW_TAG_COMPILE_UNIT, _DW_TAG_PARTIAL_UNIT, _DW_TAG_TYPE_UNIT))
_SCOPES = NAMED_TYPES | _UNITS | {_DW_TAG_MODULE, _DW_TAG_NAMESPACE}

_MAX_ABBREVIATIONS = 1 << 16
_MAX_ATTRIBUTES = 128
_MAX_DEPTH = 1 << 12
_MAX_STRINGS = 1 << 10
_MAX_PLACES = 1 << 20
_MAX_HITS = 64
_MAX_PASSED = 1 << 24
_MAX_SCOPES = 32
_REFERRING = (DW_AT_ABSTRACT_ORIGIN, DW_AT_SPECIFICATION, _DW_AT_TYPE)
_FAR_REFERENCES = frozenset((DW_FORM_REF_ADDR, *SUPPLEMENTARY_REFERENCES))
_OTHER_STRINGS = ".debug_str of the supplementary file"


class Place(NamedTuple):
    """Where an entry is: its unit, and how many bytes from the unit's start."""

    unit: Unit
    offset: int


class _Shape(NamedTuple):
    # What the walk has to know of an abbreviation.
    steps: int | tuple[int, ...]  # Unit.steps of all attributes
    has_children: bool
    is_scope: bool
    name: tuple[int, int, str] | None  # of a type's definition: distance and size of DW_AT_name, and its section
    slow_name: bool  # it is a type's definition, and where its name is differs from entry to entry


_Key = tuple[str, int | bytes]  # a section of strings and an offset or index in it; "" and the name itself
# Units, and where in the section's buffer bytes of a key were found, None for not looked for, or too often.
_Hits = dict[tuple[str, int], tuple[Unit, list[tuple[str, int | bytes, list[int] | None]]]]


class _Names:
    # Definitions of types in one unit by name, and the entry around each type and scope, 0 around the unit's own.

    __slots__ = ("places", "scopes")

    def __init__(self) -> None:
        self.places: dict[_Key, list[int]] = {}
        self.scopes: dict[int, int] = {}


class TypeIndex:
    """The named types that one module's DWARF defines. What a search needs is read at its time and kept.

    :param others: finds split and supplementary files, None: there are none
    :param files: the file's debug information, if others read it too
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None, files: DebugFiles | None = None) -> None:
        self.files = files if files is not None else DebugFiles(elf, others)
        self._all_open = False
        self._tables: dict[tuple[str, int], dict[int, Abbreviation]] = {}
        self._shapes: dict[tuple[str, int], dict[int, _Shape]] = {}
        self._names: dict[tuple[str, int], _Names] = {}
        self._definitions: dict[tuple[str, int], list[tuple[int, _Shape]]] = {}
        self._candidates: dict[tuple[str, bool], list[tuple[Unit, list[int]]]] = {}
        self._bases: dict[str, list[tuple[int, Unit]]] = {}
        self._left = _MAX_PASSED  # entries that are in each other can make many long walks

    # Units

    def _each_section(self) -> Iterator[tuple[Sections, str]]:
        # All that types may be in, of all files: any may define the one that is looked for.
        if not self._all_open:
            self.files.open_all()
            self._all_open = True
        for sections in self.files.files:
            yield from ((sections, INFO), (sections, TYPES))

    def _is_ours(self, unit: Unit) -> bool:
        # A package may have the units of other programs, too.
        return not unit.sections.split or not unit.has_code or unit.skeleton is not None

    @property
    def sections(self) -> Sections:
        """The sections of the module's own file, or its debug file."""
        return self.files.main

    def place_at(self, section_offset: int) -> Place:
        """Return the place *section_offset* bytes from the start of the module's own ``.debug_info``.

        :raises MalformedFile: if it is in no unit
        """
        return Place(*self.files.entry_at(self.files.main, section_offset))

    def target(self, unit: Unit, value: Value) -> Place:
        """Return the entry that a value of one in *unit* refers to.

        :raises MalformedFile: if it refers to none
        :raises Unsupported: if that is in a file that is not available
        """
        return Place(*self.files.target(unit, value))

    def abbreviations(self, unit: Unit) -> dict[int, Abbreviation]:
        """Return the unit's table of abbreviations, by code.

        :raises MalformedFile: if it is malformed
        """
        key = unit.sections.tag, unit.abbreviations_offset
        if key not in self._tables:
            self._tables[key] = _parse_abbreviations(unit.sections.cursor(".debug_abbrev", unit.abbreviations_offset))
        return self._tables[key]

    # Search

    def candidates(self, name: str, *, in_strings: bool = True) -> Sequence[tuple[Unit, list[int]]]:
        """Return units that may define a type called *name*, those first that were walked, and where in each.

        A place is one for sure only if :meth:`scope_of` says so.

        :param in_strings: the name is in a section of strings, as nearly all do, or else in the entry itself
        """
        key = name, in_strings
        if key not in self._candidates:
            raw = name.encode("utf-8", "replace")
            hits = self._hits_of_string(raw) if in_strings else self._hits_of_entry(raw)
            found = sorted(hits.values(), key=lambda hit: (_key(hit[0]) not in self._names, _key(hit[0])))
            self._candidates[key] = [
                (unit, sorted({at for hit in rows for at in self._likely(unit, hit)}))
                for unit, rows in found
                if self._is_ours(unit)
            ]
        return self._candidates[key]

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """Return the units of ``.debug_info`` that may hold one of *names*, or use what another unit has of them.

        :raises MalformedFile: if the file is malformed
        """
        places: _Hits = {}
        for name in names:
            raw = name.encode("utf-8", "replace")
            places |= self._hits_of_string(raw) | self._hits_of_entry(raw)
        units = (places[key][0] for key in sorted(places))
        found = [unit for unit in units if unit.has_code and self._is_ours(unit)]
        others = self._referring() if places else ()
        return found + [unit for unit in others if _key(unit) not in places]

    def _referring(self) -> Iterator[Unit]:
        # Units with references into others, as link-time optimisers and dwz make them.
        pairs = {(attribute, form) for attribute in _REFERRING for form in _FAR_REFERENCES}
        for sections in self.files.files:
            if not any(_find(sections, ".debug_abbrev", bytes((a,)) + _uleb(form)) for a, form in pairs):
                continue
            for unit in self.files.units(sections, INFO):
                given = {pair[:2] for row in self.abbreviations(unit).values() for pair in row.attributes}
                if unit.has_code and self._is_ours(unit) and given & pairs:
                    yield unit

    def _hits_of_entry(self, raw: bytes) -> _Hits:
        hits: _Hits = {}
        for sections, section in self._each_section():
            self._add_hits(hits, sections, section, raw + b"\0", ("", raw))
        return hits

    def _hits_of_string(self, raw: bytes) -> _Hits:
        hits: _Hits = {}
        elsewhere = self._string_offsets(self.files.supplementary, ".debug_str", raw)
        offsets: dict[str, list[_Key]] = {}
        for sections, section in self._each_section():
            if sections.tag not in offsets:
                kinds = (".debug_str", ".debug_line_str")
                keys: list[_Key] = [(kind, at) for kind in kinds for at in self._string_offsets(sections, kind, raw)]
                if sections is self.files.main:
                    keys += [(_OTHER_STRINGS, at) for at in elsewhere]
                offsets[sections.tag] = keys
            for size in self.files.offset_sizes(sections, section):
                for kind, offset in offsets[sections.tag]:
                    if isinstance(offset, int) and offset < 1 << 8 * size:
                        pattern = offset.to_bytes(size, sections.byte_order)
                        self._add_hits(hits, sections, section, pattern, (kind, offset))
        for sections in self.files.files:
            strings = [at for kind, at in offsets.get(sections.tag, ()) if kind == ".debug_str"]
            for unit, index in self._indexed(sections, strings):
                hits.setdefault(_key(unit), (unit, []))[1].append((".debug_str_offsets", index, None))
        return hits

    def _add_hits(self, hits: _Hits, sections: Sections, section: str, pattern: bytes, key: _Key) -> None:
        span = sections.span(section)
        starts = self.files.starts(sections, section)
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
            unit = self.files.unit(sections, starts[following - 1], section)
            hits.setdefault(_key(unit), (unit, []))[1].append((*key, found))
            if 0 <= position < limit:
                position = data.find(pattern, limit, end)

    def _string_offsets(self, sections: Sections | None, section: str, raw: bytes) -> list[int]:
        # Linkers let a name share the tail of a longer one, so each place where it ends a string counts.
        offsets = _find(sections, section, raw + b"\0") if sections is not None else []
        if len(offsets) > _MAX_STRINGS:
            raise MalformedFile(f"{section}: the same name too many times")
        return offsets

    def _indexed(self, sections: Sections, offsets: list[int | bytes]) -> Iterator[tuple[Unit, int]]:
        # 7.26: units that have one of these strings in their array of strings, and its index there.
        name = ".debug_str_offsets"
        if not offsets or not sections.size(name):
            return
        bases = self._string_bases(sections)
        starts = [base for base, _ in bases]
        for offset in offsets:
            if not isinstance(offset, int) or offset >= 1 << 32:
                continue
            for size in (4, 8):
                for position in _find(sections, name, offset.to_bytes(size, sections.byte_order)):
                    last = bisect_right(starts, position) - 1
                    base = starts[last] if last >= 0 else 0
                    while last >= 0 and starts[last] == base:
                        unit = bases[last][1]
                        if unit.offset_size == size and (position - base) % size == 0:
                            yield unit, (position - base) // size
                        last -= 1

    def _string_bases(self, sections: Sections) -> list[tuple[int, Unit]]:
        if sections.tag not in self._bases:
            every = (unit for section in (INFO, TYPES) for unit in self.files.units(sections, section))
            bases = [(unit.string_offsets_base, unit) for unit in every if unit.has_string_offsets]
            self._bases[sections.tag] = sorted(bases, key=lambda row: (row[0], row[1].section, row[1].offset))
        return self._bases[sections.tag]

    def _likely(self, unit: Unit, hit: tuple[str, int | bytes, list[int] | None]) -> Iterator[int]:
        # Where in the unit bytes are that read as an abbreviation of a type's definition with that name.
        kind, value, positions = hit
        walked = _key(unit) in self._names
        start, first, end = unit.bounds
        data = unit.span[0]
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
                fits = not size or value < 1 << 8 * size
                pattern = (value.to_bytes(size, unit.sections.byte_order) if size else _uleb(value)) if fits else b""
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
            # The definition of what is declared in a scope may be outside of it.
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

        Empty for what is in a function. A scope without a name is left out.

        :raises MalformedFile: if the unit is malformed
        """
        found: dict[int, tuple[str, ...]] = {}
        data = unit.span[0]
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
        # A declaration of a type that is in a type unit need not repeat its name.
        _, attributes = self.entry(place)
        signature = attributes.get(DW_AT_SIGNATURE)
        if DW_AT_NAME not in attributes and signature is not None and isinstance(signature.raw, int):
            found = self.files.unit_of_signature(place.unit.sections, signature.raw)
            place = Place(found, found.type_offset or 0) if found is not None else place
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

    def _definitions_of(self, unit: Unit) -> list[tuple[int, _Shape]]:
        # Codes and shapes of all definitions of types in the unit's table.
        key = _key(unit)
        if key not in self._definitions:
            codes = [code for code, abbreviation in self.abbreviations(unit).items() if abbreviation.tag in NAMED_TYPES]
            shapes = ((code, self._shape(unit, code)) for code in codes)
            self._definitions[key] = [(code, shape) for code, shape in shapes if shape.name or shape.slow_name]
        return self._definitions[key]

    def _shape(self, unit: Unit, code: int) -> _Shape:
        shapes = self._shapes.setdefault(_key(unit), {})
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
        key = _key(unit)
        if key not in self._names:
            self._names[key] = self._walk(unit)
        return self._names[key]

    def _walk(self, unit: Unit) -> _Names:
        # One long function, because this is where all the time of a search goes.
        names = _Names()
        places, scopes = names.places, names.scopes
        data = unit.span[0]
        start, position, end = unit.bounds
        shapes = self._shapes.setdefault(_key(unit), {})
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
            return int.from_bytes(data[position : position + size], unit.sections.byte_order)
        cursor = unit.cursor(position - unit.bounds[0])
        return cursor.uleb() if section else cursor.string()


def _key(unit: Unit) -> tuple[str, int]:
    return unit.section, unit.offset


def _find(sections: Sections, section: str, pattern: bytes) -> list[int]:
    span = sections.span(section)
    return [] if span is None else [at - span[1] for at in _positions(*span, pattern)]


def _string_section(form: int) -> str | None:
    # Where strings of a form are; "" for in the entry itself.
    if form == DW_FORM_STRP:
        return ".debug_str"
    if form == DW_FORM_LINE_STRP:
        return ".debug_line_str"
    if form in STRING_INDEX_FORMS:
        return ".debug_str_offsets"
    if form in SUPPLEMENTARY_STRINGS:
        return _OTHER_STRINGS
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
