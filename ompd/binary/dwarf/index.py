"""Where DWARF defines the types of a name, without reading all of it.

A runtime's debug information has some hundred thousand entries, of which a handful is needed. So the name is
searched as bytes: in the strings, then its offset there in the units. That says which units may define it, and where.
Whether an entry really begins there is known by walking over one unit, entry by entry, which notes all of its named
types on the way; others are then mostly found in the same unit. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.abbreviations import Abbreviation
from ompd.binary.dwarf.files import DebugFiles, OtherFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.search import Hit, Key, NameSearch, find_all, key_of, string_section, uleb_bytes
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import Walk
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile

_UNITS = frozenset((dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT, dw.DW_TAG_TYPE_UNIT))
_SCOPES = dw.NAMED_TYPES | _UNITS | {dw.DW_TAG_MODULE, dw.DW_TAG_NAMESPACE}

_MAX_DEPTH = 1 << 12
_MAX_PASSED = 1 << 27
_MAX_SCOPES = 32


class Place(NamedTuple):
    """Where an entry is: its unit, and how many bytes from the unit's start."""

    unit: Unit
    offset: int


class _Noted(NamedTuple):
    # What is noted of the entries of an abbreviation: of types and scopes what is around them, of definitions the name.
    name: tuple[int, int, str] | None  # of a type's definition: distance and size of DW_AT_name, and its section
    slow_name: bool  # it is a type's definition, and where its name is differs from entry to entry


class _Names:
    # Definitions of types in one unit by name, and the entry around each type and scope, 0 around the unit's own.

    __slots__ = ("places", "scopes")

    def __init__(self) -> None:
        self.places: dict[Key, list[int]] = {}
        self.scopes: dict[int, int] = {}


class TypeIndex:
    """The named types that one module's DWARF defines. What a search needs is read at its time and kept.

    :param others: finds split and supplementary files, None: there are none
    :param files: the file's debug information, if others read it too
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None, files: DebugFiles | None = None) -> None:
        self.files = files if files is not None else DebugFiles(elf, others)
        self._search = NameSearch(self.files)
        self._names: dict[tuple[str, int], _Names] = {}
        self._definitions: dict[tuple[str, int], list[tuple[int, _Noted]]] = {}
        self._candidates: dict[tuple[str, bool], list[tuple[Unit, list[int]]]] = {}
        self._left = _MAX_PASSED  # bytes: entries that are in each other can make many long walks

    def target(self, unit: Unit, value: Value) -> Place:
        """Return the entry that a value of one in *unit* refers to.

        :raises MalformedFile: if it refers to none
        :raises Unsupported: if that is in a file that is not available
        """
        return Place(*self.files.target(unit, value))

    # Search

    def candidates(self, name: str, *, in_strings: bool = True) -> Sequence[tuple[Unit, list[int]]]:
        """Return units that may define a type called *name*, those first that were walked, and where in each.

        A place is one for sure only if :meth:`scope_of` says so.

        :param in_strings: the name is in a section of strings, as nearly all do, or else in the entry itself
        """
        key = name, in_strings
        if key not in self._candidates:
            raw = name.encode("utf-8", "replace")
            hits = self._search.hits_of_string(raw) if in_strings else self._search.hits_of_entry(raw)
            found = sorted(hits.values(), key=lambda hit: (key_of(hit[0]) not in self._names, key_of(hit[0])))
            self._candidates[key] = [
                (unit, sorted({at for hit in rows for at in self._likely(unit, hit)}))
                for unit, rows in found
                if self._search.is_ours(unit)
            ]
        return self._candidates[key]

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """See :meth:`NameSearch.units_with`."""
        return self._search.units_with(names)

    def _likely(self, unit: Unit, hit: Hit) -> Iterator[int]:
        # Where in the unit bytes are that read as an abbreviation of a type's definition with that name.
        kind, value, positions = hit
        walked = key_of(unit) in self._names
        start, first, end = unit.bounds
        data = unit.data
        ways: dict[int, list[tuple[int, bytes]]] = {}
        for code, noted in self._definitions_of(unit) if not walked else ():
            walked = walked or noted.slow_name
            if noted.name is not None and noted.name[2] == kind:
                ways.setdefault(noted.name[1], []).append((noted.name[0], uleb_bytes(code)))
        if positions is None and kind != ".debug_str_offsets" and ways:
            walked = True
        if walked:
            yield from self._names_of(unit).places.get((kind, value), ())
            return
        for size, codes in ways.items():
            if positions is None and isinstance(value, int):
                # An index of a string is a small number too, but preceded by few of the codes.
                if size and value >= 1 << 8 * size:
                    continue
                pattern = value.to_bytes(size, unit.sections.byte_order) if size else uleb_bytes(value)
                places = find_all(data, first, end, pattern)
            else:
                places = [start + offset for offset in positions or ()]
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
            declared = self.entry(Place(unit, offset))[1].get(dw.DW_AT_SPECIFICATION)
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

    def scopes_around(self, place: Place) -> tuple[str, ...]:
        """Return the names of the namespaces and types around the entry at *place*, from outside in.

        Empty for what is in a function. A scope without a name is left out.

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
            names.append(self._name_of(Place(unit, around)))
            offset = around
        return tuple(name for name in reversed(names) if name)

    def _name_of(self, place: Place) -> str:
        # A declaration of a type that is in a type unit need not repeat its name.
        _, attributes = self.entry(place)
        signature = attributes.get(dw.DW_AT_SIGNATURE)
        if dw.DW_AT_NAME not in attributes and signature is not None and isinstance(signature.raw, int):
            found = self.files.unit_of_signature(place.unit.sections, signature.raw)
            place = Place(found, found.type_offset or 0) if found is not None else place
            _, attributes = self.entry(place)
        return place.unit.string(attributes.get(dw.DW_AT_NAME)) or ""

    # Entries

    def entry(self, place: Place) -> tuple[int, dict[int, Value]]:
        """Return tag and attributes of the entry at *place*; the tag is 0 where a list of children ends.

        :raises MalformedFile: if there is none
        """
        return place.unit.entry_at(place.offset)

    def children(self, place: Place, tags: Collection[int]) -> Iterator[tuple[int, dict[int, Value]]]:
        """Yield tag and attributes of those entries right below the one at *place* that have one of *tags*.

        :raises MalformedFile: when it reaches an entry that is malformed
        """
        walk = Walk(
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
        # Codes of all definitions of types in the unit's table, and what is noted of them.
        key = key_of(unit)
        if key not in self._definitions:
            every = unit.abbreviations.all().items()
            rows = ((code, _noted(unit, row)) for code, row in every if row.tag in dw.NAMED_TYPES)
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
    given = [attribute for attribute, _, _ in attributes]
    if tag not in dw.NAMED_TYPES or dw.DW_AT_NAME not in given or dw.DW_AT_DECLARATION in given:
        return _Noted(None, False)
    index = given.index(dw.DW_AT_NAME)
    distance = unit.forms.steps(unit.cursor_at(unit.bounds[1]), attributes[:index])
    section = string_section(attributes[index][1])
    if not isinstance(distance, int) or section is None:
        return _Noted(None, True)
    return _Noted((distance, unit.forms.sizes.get(attributes[index][1], 0), section), False)


def _walk(unit: Unit) -> _Names:
    names = _Names()
    places, scopes = names.places, names.scopes
    data, byte_order = unit.data, unit.sections.byte_order
    walk = Walk(unit, lambda abbreviation: _noted(unit, abbreviation))
    for name, slow in walk:
        at = walk.offset
        scopes[at] = walk.around[-1] if walk.around else 0
        if name is not None:
            distance, size, section = name
            position = walk.position + distance
            found: int | bytes
            if size:
                found = int.from_bytes(data[position : position + size], byte_order)
            else:
                cursor = unit.cursor_at(position)
                found = cursor.uleb() if section else cursor.string()
            places.setdefault((section, found), []).append(at)
        elif slow:
            value = unit.entry_at(at)[1][dw.DW_AT_NAME]
            places.setdefault((string_section(value.form) or "?", value.raw), []).append(at)
    return names
