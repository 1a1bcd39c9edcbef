"""The index of named types in DWARF, without reading all of it.

Debug information has up to millions of entries, and only a handful is needed. So a name is searched as bytes in the
string sections, then the string's offset is searched as bytes in the units. The matches are candidate entries.
Iterating over one unit confirms where entries really begin, and records all named types of the unit, because the next
requested types are usually in the same unit. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence, Set
from typing import NamedTuple

from ompd.binary.cursor import Bytes
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import INFO, TYPES, DebugFiles, OtherFiles
from ompd.binary.dwarf.forms import STRING_INDEXES, SUPPLEMENTARY_REFERENCES, SUPPLEMENTARY_STRINGS, Abbreviation, Value
from ompd.binary.dwarf.sections import Sections
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import EntryWalk
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile

_MAX_STRINGS = 1 << 10
_MAX_PLACES = 1 << 20
_MAX_HITS = 64
_PIECE = 1 << 20
_FEW = 64  # up to this number, strings are searched one by one; more are searched in one pass
_REFERRING = (dw.DW_AT_ABSTRACT_ORIGIN, dw.DW_AT_SPECIFICATION, dw.DW_AT_TYPE)
_FAR_REFERENCES = frozenset((dw.DW_FORM_REF_ADDR, *SUPPLEMENTARY_REFERENCES))
_OTHER_STRINGS = ".debug_str of the supplementary file"

Key = tuple[str, int | bytes]
"""A section of strings, and an offset or index in it; or ``""`` and the name itself."""
Hit = tuple[str, int | bytes, list[int] | None]
"""A key, and the offsets from the unit's start at which its bytes occur; None if these were not searched or are too
many.
"""
Hits = dict[tuple[str, int], tuple[Unit, list[Hit]]]


class NameSearch:
    """The search for names in the debug information of one module."""

    def __init__(self, files: DebugFiles) -> None:
        self.files = files
        self._all_open = False
        self._bases: dict[str, list[tuple[int, Unit]]] = {}

    def _each_section(self) -> Iterator[tuple[Sections, str]]:
        # The sections of all files that may define types.
        if not self._all_open:
            self.files.open_all()
            self._all_open = True
        for sections in self.files.files:
            yield from ((sections, INFO), (sections, TYPES))

    def is_ours(self, unit: Unit) -> bool:
        """Return whether *unit* belongs to this program. A package may also have units of other programs."""
        return not unit.sections.split or not unit.has_code or unit.skeleton is not None

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """Return the units of ``.debug_info`` that may contain one of *names*, or refer to units that do.

        :raises MalformedFile: if the file is malformed
        """
        places: Hits = {}
        for name in names:
            raw = name.encode("utf-8", "replace")
            places |= self.hits_of_string(raw) | self.hits_of_entry(raw)
        units = (places[key][0] for key in sorted(places))
        candidates = [unit for unit in units if unit.has_code and self.is_ours(unit)]
        referring = self._referring() if places else ()
        return candidates + [unit for unit in referring if key_of(unit) not in places]

    def _referring(self) -> Iterator[Unit]:
        # Units with references into other units, as link-time optimisers and dwz write them.
        pairs = {(attribute, form) for attribute in _REFERRING for form in _FAR_REFERENCES}
        for sections in self.files.files:
            if not any(_find(sections, ".debug_abbrev", bytes((a,)) + uleb_bytes(form)) for a, form in pairs):
                continue
            for unit in self.files.units(sections, INFO):
                attributes = {pair[:2] for row in unit.abbreviations.all().values() for pair in row.attributes}
                if unit.has_code and self.is_ours(unit) and attributes & pairs:
                    yield unit

    def hits_of_entry(self, raw: bytes) -> Hits:
        """Return the units that may contain the name *raw* inside an entry.

        :raises MalformedFile: if the file is malformed
        """
        hits: Hits = {}
        for sections, section in self._each_section():
            self._add_hits(hits, sections, section, raw + b"\0", ("", raw))
        return hits

    def hits_of_string(self, raw: bytes) -> Hits:
        """Return the units that may refer to the name *raw* in a string section, directly or by an index.

        :raises MalformedFile: if the file is malformed, or has the name too many times
        """
        hits: Hits = {}
        elsewhere = self._string_offsets(self.files.supplementary, ".debug_str", raw)
        offsets: dict[str, list[Key]] = {}
        for sections, section in self._each_section():
            if sections.tag not in offsets:
                kinds = (".debug_str", ".debug_line_str")
                keys: list[Key] = [
                    (kind, position) for kind in kinds for position in self._string_offsets(sections, kind, raw)
                ]
                if sections is self.files.main:
                    keys += [(_OTHER_STRINGS, position) for position in elsewhere]
                offsets[sections.tag] = keys
            for size in self.files.offset_sizes(sections, section):
                values = {offset for _, offset in offsets[sections.tag] if isinstance(offset, int)}
                present = _numbers_in(sections, section, size, values) if len(values) > _FEW else values
                for kind, offset in offsets[sections.tag]:
                    if isinstance(offset, int) and offset in present and offset < 1 << 8 * size:
                        pattern = offset.to_bytes(size, sections.byte_order)
                        self._add_hits(hits, sections, section, pattern, (kind, offset))
        for sections in self.files.files:
            strings = [position for kind, position in offsets.get(sections.tag, ()) if kind == ".debug_str"]
            for unit, index in self._indexed(sections, strings):
                hits.setdefault(key_of(unit), (unit, []))[1].append((".debug_str_offsets", index, None))
        return hits

    def _add_hits(self, hits: Hits, sections: Sections, section: str, pattern: bytes, key: Key) -> None:
        span = sections.span(section)
        starts = self.files.starts(sections, section)
        if span is None or not starts:
            return
        data, base, end = span
        position = data.find(pattern, base, end)
        while position >= 0:
            following = bisect_right(starts, position - base)
            start = base + starts[following - 1]
            limit = base + starts[following] if following < len(starts) else end
            positions: list[int] | None = []
            while 0 <= position < limit and positions is not None:
                positions.append(position - start)
                position = data.find(pattern, position + 1, end)
                if len(positions) > _MAX_HITS:
                    positions = None  # the bytes are as common as a small number: iterate over the unit instead
            unit = self.files.unit(sections, starts[following - 1], section)
            hits.setdefault(key_of(unit), (unit, []))[1].append((*key, positions))
            if 0 <= position < limit:
                position = data.find(pattern, limit, end)

    def _string_offsets(self, sections: Sections | None, section: str, raw: bytes) -> list[int]:
        # Linkers store a name as the tail of a longer one, so every string that ends with the name counts.
        offsets = _find(sections, section, raw + b"\0") if sections is not None else []
        if len(offsets) > _MAX_STRINGS:
            raise MalformedFile(f"{section}: the same name too many times")
        return offsets

    def _indexed(self, sections: Sections, offsets: list[int | bytes]) -> Iterator[tuple[Unit, int]]:
        # 7.26: units whose table of string offsets has one of these strings, and the string's index there.
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
            units = (unit for section in (INFO, TYPES) for unit in self.files.units(sections, section))
            bases = [(unit.string_offsets_base, unit) for unit in units if unit.has_string_offsets]
            self._bases[sections.tag] = sorted(bases, key=lambda row: (row[0], row[1].section, row[1].offset))
        return self._bases[sections.tag]


def key_of(unit: Unit) -> tuple[str, int]:
    """Return the key of a unit in its module: section and offset."""
    return unit.section, unit.offset


def _find(sections: Sections, section: str, pattern: bytes) -> list[int]:
    span = sections.span(section)
    return [] if span is None else [position - span[1] for position in find_all(*span, pattern)]


def _numbers_in(sections: Sections, section: str, size: int, numbers: Set[int]) -> set[int]:
    """Return those of the *numbers* that occur in *section* as *size* bytes, aligned or not.

    A short name is the tail of hundreds of strings, most of them unused. One pass per string would take seconds.
    """
    span = sections.span(section)
    if span is None:
        return set()
    data, start, end = span
    raw = {number.to_bytes(size, sections.byte_order): number for number in numbers if number < 1 << 8 * size}
    ours = {int.from_bytes(pattern, sys.byteorder): number for pattern, number in raw.items()}
    keys = set(ours)
    present: set[int] = set()
    for position in range(start, end, _PIECE):
        view = memoryview(data[position : min(position + _PIECE + size - 1, end)])
        for first in range(min(size, len(view))):
            last = len(view) - (len(view) - first) % size
            present |= keys.intersection(view[first:last].cast("I" if size == 4 else "Q"))
    return {ours[number] for number in present}


def find_all(data: Bytes, start: int, end: int, pattern: bytes) -> list[int]:
    """Return all positions of *pattern* from *start* to *end* of *data*.

    :raises MalformedFile: if *pattern* occurs too many times
    """
    positions: list[int] = []
    position = data.find(pattern, start, end)
    while position >= 0:
        positions.append(position)
        if len(positions) > _MAX_PLACES:
            raise MalformedFile("the same bytes too many times")
        position = data.find(pattern, position + 1, end)
    return positions


def string_section(form: int) -> str | None:
    """Return the section that has the strings of a form, ``""`` if the entry itself has them, None if the form is not a
    string.
    """
    if form == dw.DW_FORM_STRP:
        return ".debug_str"
    if form == dw.DW_FORM_LINE_STRP:
        return ".debug_line_str"
    if form in STRING_INDEXES:
        return ".debug_str_offsets"
    if form in SUPPLEMENTARY_STRINGS:
        return _OTHER_STRINGS
    return "" if form == dw.DW_FORM_STRING else None


def uleb_bytes(value: int) -> bytes:
    """Return *value* as an unsigned LEB128 number of minimal length."""
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


_UNITS = frozenset((dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT, dw.DW_TAG_TYPE_UNIT))
_SCOPES = dw.NAMED_TYPES | _UNITS | {dw.DW_TAG_MODULE, dw.DW_TAG_NAMESPACE}

_MAX_DEPTH = 1 << 12
_MAX_PASSED = 1 << 27
_MAX_SCOPES = 32


class EntryRef(NamedTuple):
    """A reference to an entry: its unit, and its offset in bytes from the unit's start."""

    unit: Unit
    offset: int


class _Noted(NamedTuple):
    # Instructions for indexing the entries of an abbreviation that is a type or a scope.
    name: tuple[int, int, str] | None  # for a type definition, offset and size of DW_AT_name, and its string section
    slow_name: bool  # a type definition whose name has no fixed offset


class _Names:
    # For one unit: the offsets of type definitions by name (``places``), and the parent of each type and scope
    # (``scopes``). A parent of 0 is the unit's own entry.

    __slots__ = ("places", "scopes")

    def __init__(self) -> None:
        self.places: dict[Key, list[int]] = {}
        self.scopes: dict[int, int] = {}


class TypeIndex:
    """The named types in one module's DWARF, read on demand and cached.

    :param others: finds split and supplementary files, None without any
    :param files: the file's debug information, if it is shared with other readers
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None, files: DebugFiles | None = None) -> None:
        self.files = files if files is not None else DebugFiles(elf, others)
        self._search = NameSearch(self.files)
        self._names: dict[tuple[str, int], _Names] = {}
        self._definitions: dict[tuple[str, int], list[tuple[int, _Noted]]] = {}
        self._candidates: dict[tuple[str, bool], list[tuple[Unit, list[int]]]] = {}
        self._left = _MAX_PASSED  # bytes that may still be read, because overlapping entries could be read many times

    def target(self, unit: Unit, value: Value) -> EntryRef:
        """Return the entry that *value*, a reference in *unit*, refers to.

        :raises MalformedFile: if the reference is to no entry
        :raises Unsupported: if the entry is in a file that is not available
        """
        return EntryRef(*self.files.target(unit, value))

    # Search

    def candidates(self, name: str, *, in_strings: bool = True) -> Sequence[tuple[Unit, list[int]]]:
        """Return the units that may define a type called *name*, indexed ones first, and the candidate offsets in each.

        A candidate is confirmed by :meth:`scope_of`.

        :param in_strings: whether to search string sections, which hold nearly all names; otherwise search names inside
            entries
        """
        key = name, in_strings
        if key not in self._candidates:
            raw = name.encode("utf-8", "replace")
            hits = self._search.hits_of_string(raw) if in_strings else self._search.hits_of_entry(raw)
            units = sorted(hits.values(), key=lambda hit: (key_of(hit[0]) not in self._names, key_of(hit[0])))
            self._candidates[key] = [
                (unit, sorted({offset for hit in rows for offset in self._likely(unit, hit)}))
                for unit, rows in units
                if self._search.is_ours(unit)
            ]
        return self._candidates[key]

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """Return the units that may contain or use one of *names* (:meth:`NameSearch.units_with`)."""
        return self._search.units_with(names)

    def _likely(self, unit: Unit, hit: Hit) -> Iterator[int]:
        # Offsets in the unit at which the bytes match a type definition with this name.
        kind, value, positions = hit
        walked = key_of(unit) in self._names
        start, first, end = unit.bounds
        data = unit.data
        codes_by_size: dict[int, list[tuple[int, bytes]]] = {}
        for code, noted in self._definitions_of(unit) if not walked else ():
            walked = walked or noted.slow_name
            if noted.name is not None and noted.name[2] == kind:
                codes_by_size.setdefault(noted.name[1], []).append((noted.name[0], uleb_bytes(code)))
        if positions is None and kind != ".debug_str_offsets" and codes_by_size:
            walked = True
        if walked:
            yield from self._names_of(unit).places.get((kind, value), ())
            return
        for size, codes in codes_by_size.items():
            if positions is None and isinstance(value, int):
                # The bytes of a string index, a small number, are common, but few of them follow a suitable
                # abbreviation code.
                if size and value >= 1 << 8 * size:
                    continue
                pattern = value.to_bytes(size, unit.sections.byte_order) if size else uleb_bytes(value)
                places = find_all(data, first, end, pattern)
            else:
                places = [start + offset for offset in positions or ()]
            for position in places:
                for distance, code_bytes in codes:
                    entry = position - distance - len(code_bytes)
                    if entry >= first and data[entry : entry + len(code_bytes)] == code_bytes:
                        yield entry - start

    def scope_of(self, place: EntryRef) -> tuple[str, ...] | None:
        """Return the names of the scopes around the type at *place*, outermost first; None if no type is there.

        The result is empty for a type at the unit's top level. An unnamed scope is ``""``, a function ``"()"``.

        :raises MalformedFile: if the unit is malformed
        """
        unit, offset = place
        scopes = self._names_of(unit).scopes
        if offset not in scopes:
            return None
        scope: list[str] = []
        while len(scope) < _MAX_DEPTH:
            # The scopes of a type are those around its declaration; its definition may be outside of them.
            declared = self.entry(EntryRef(unit, offset))[1].get(dw.DW_AT_SPECIFICATION)
            if declared is not None and isinstance(declared.raw, int) and declared.raw < offset:
                offset = declared.raw
            parent = scopes.get(offset, -1)
            if parent not in scopes:
                scope.append("()")
                break
            if scopes[parent] == 0:
                break
            scope.append(self._name_of(EntryRef(unit, parent)))
            offset = parent
        return tuple(reversed(scope))

    def scopes_around(self, place: EntryRef) -> tuple[str, ...]:
        """Return the names of the namespaces and types around the entry at *place*, outermost first.

        Empty inside a function. Unnamed scopes are left out.

        :raises MalformedFile: if the unit is malformed
        """
        unit, offset = place
        names: list[str] = []
        for _ in range(_MAX_SCOPES):
            around = self.files.around(unit, offset)
            if around is None or unit.entry_at(around)[0] in _UNITS:
                break
            if unit.entry_at(around)[0] not in _SCOPES:
                return ()
            names.append(self._name_of(EntryRef(unit, around)))
            offset = around
        return tuple(name for name in reversed(names) if name)

    def _name_of(self, place: EntryRef) -> str:
        # The declaration of a type that a type unit defines may lack the name.
        _, attributes = self.entry(place)
        signature = attributes.get(dw.DW_AT_SIGNATURE)
        if dw.DW_AT_NAME not in attributes and signature is not None and isinstance(signature.raw, int):
            type_unit = self.files.unit_of_signature(place.unit.sections, signature.raw)
            place = EntryRef(type_unit, type_unit.type_offset or 0) if type_unit is not None else place
            _, attributes = self.entry(place)
        return place.unit.string(attributes.get(dw.DW_AT_NAME)) or ""

    # Entries

    def entry(self, place: EntryRef) -> tuple[int, dict[int, Value]]:
        """Return tag and attributes of the entry at *place*. At the end of a list of children the tag is 0.

        :raises MalformedFile: if there is none
        """
        return place.unit.entry_at(place.offset)

    def children(self, place: EntryRef, tags: Collection[int]) -> Iterator[tuple[int, dict[int, Value]]]:
        """Yield tag and attributes of the children of the entry at *place* that have one of *tags*.

        :raises MalformedFile: at a malformed entry
        """
        walk = EntryWalk(
            place.unit,
            lambda abbreviation: abbreviation if abbreviation.tag in tags else None,
            begin=place.offset,
            leaps=lambda _: True,
        )
        before = place.unit.bounds[0] + place.offset
        for abbreviation in walk:
            self._spend(walk.position - before)
            before = walk.position
            if len(walk.around) == 1:
                yield abbreviation.tag, walk.attributes(abbreviation)
        self._spend(walk.position - before)

    def _spend(self, passed: int) -> None:
        self._left -= passed
        if self._left < 0:
            raise MalformedFile("too many entries to pass over")

    # The walk over a unit

    def _definitions_of(self, unit: Unit) -> list[tuple[int, _Noted]]:
        # The abbreviation codes of type definitions in the unit, each with instructions for indexing its entries.
        key = key_of(unit)
        if key not in self._definitions:
            abbreviations = unit.abbreviations.all().items()
            rows = ((code, _noted(unit, row)) for code, row in abbreviations if row.tag in dw.NAMED_TYPES)
            self._definitions[key] = [(code, row) for code, row in rows if row and (row.name or row.slow_name)]
        return self._definitions[key]

    def _names_of(self, unit: Unit) -> _Names:
        key = key_of(unit)
        if key not in self._names:
            self._names[key] = _walk(unit)
        return self._names[key]


def _noted(unit: Unit, abbreviation: Abbreviation) -> _Noted | None:
    tag, _, attributes = abbreviation
    if tag not in _SCOPES:
        return None
    kinds = [attribute for attribute, _, _ in attributes]
    if tag not in dw.NAMED_TYPES or dw.DW_AT_NAME not in kinds or dw.DW_AT_DECLARATION in kinds:
        return _Noted(None, False)
    index = kinds.index(dw.DW_AT_NAME)
    distance = unit.forms.steps(unit.cursor_at(unit.bounds[1]), attributes[:index])
    section = string_section(attributes[index][1])
    if not isinstance(distance, int) or section is None:
        return _Noted(None, True)
    return _Noted((distance, unit.forms.sizes.get(attributes[index][1], 0), section), False)


def _walk(unit: Unit) -> _Names:
    names = _Names()
    places, scopes = names.places, names.scopes
    data, byte_order = unit.data, unit.sections.byte_order
    walk = EntryWalk(unit, lambda abbreviation: _noted(unit, abbreviation))
    for name, slow in walk:
        offset = walk.offset
        scopes[offset] = walk.around[-1] if walk.around else 0
        if name is not None:
            distance, size, section = name
            position = walk.position + distance
            name_value: int | bytes
            if size:
                name_value = int.from_bytes(data[position : position + size], byte_order)
            else:
                cursor = unit.cursor_at(position)
                name_value = cursor.uleb() if section else cursor.string()
            places.setdefault((section, name_value), []).append(offset)
        elif slow:
            value = unit.entry_at(offset)[1][dw.DW_AT_NAME]
            places.setdefault((string_section(value.form) or "?", value.raw), []).append(offset)
    return names
