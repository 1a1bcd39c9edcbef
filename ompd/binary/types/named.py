"""Variables of static storage by their names: where DWARF puts them, of which type, and what they are in.

A name is searched as bytes first, so that only units that have it are walked, each once for a name. Bytes only, no
target; everything has a bound. Section numbers are those of DWARF 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.abbreviations import Abbreviation
from ompd.binary.dwarf.forms import UNIT_REFERENCES, Steps, Value
from ompd.binary.dwarf.index import Place
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import Walk
from ompd.binary.types.arrays import is_fortran
from ompd.binary.types.storage import Location, location_of
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, TypeNotFound, Unsupported

_TYPES = dw.STRUCTURES | {dw.DW_TAG_ENUMERATION_TYPE}
_FUNCTIONS = frozenset((dw.DW_TAG_SUBPROGRAM, dw.DW_TAG_ENTRY_POINT, dw.DW_TAG_INLINED_SUBROUTINE))
_NAMED = frozenset((dw.DW_TAG_VARIABLE, dw.DW_TAG_COMMON_BLOCK, dw.DW_TAG_CONSTANT))


_MAX_FOUND = 1 << 12
_MAX_ORIGINS = 8
_MAX_SCOPES = 32
_MAX_MEMBERS = 1 << 12


class Scope(NamedTuple):
    """What a variable is in: ``kind`` is ``namespace``, ``type``, ``function`` or ``module``; ``name`` is empty for
    what has none, and ``optional`` what the source may leave out.
    """

    kind: str
    name: str
    optional: bool = False


class NamedVariable(NamedTuple):
    """A variable: its name, what it is in from outside in, the COMMON block it is a member of (None of others).

    ``file`` is the unit's, as the compiler was given it, ``line`` where it is declared. ``linkage`` is what the linker
    calls it, where that is another name. ``type`` is None where the file has none.
    """

    name: str
    scopes: tuple[Scope, ...]
    block: str | None
    file: str | None
    line: int | None
    linkage: str | None
    is_external: bool
    is_fortran: bool
    location: Location
    type: Place | None


class CommonBlock(NamedTuple):
    """A COMMON block as one subprogram declares it: its name, where it is, its members by address."""

    name: str
    file: str | None
    line: int | None
    location: Location
    members: tuple[NamedVariable, ...]


def find_named(info: TypeInfo, name: str) -> list[NamedVariable]:
    """Return the variables called *name* that are in static storage or declared, those that are in one place once.

    Variables that live in frames and registers are left out, unless their definition gives no place at all. Members of
    COMMON blocks are among them. What is malformed is left out.

    :raises MalformedFile: if the file is malformed as a whole
    """
    found: dict[object, NamedVariable] = {}
    for unit in info.index.units_with({name}):
        try:
            for variable in _Walk(info, unit).variables(name):
                place = variable.location
                key: object = place if place.kind in ("address", "tls") else (variable._replace(line=None, type=None))
                found.setdefault(key, variable)
                if len(found) > _MAX_FOUND:
                    raise MalformedFile(f"too many variables called {name!r}")
        except (MalformedFile, Unsupported):
            continue  # what was read of it before holds
    return list(found.values())


def find_common(info: TypeInfo, name: str) -> list[CommonBlock]:
    """Return the COMMON blocks called *name*: of those at one place the one that has most members.

    :raises MalformedFile: if the file is malformed as a whole
    """
    found: dict[Location, CommonBlock] = {}
    for unit in info.index.units_with({name}):
        try:
            for block in _Walk(info, unit).blocks(name):
                known = found.get(block.location)
                if known is None or len(known.members) < len(block.members):
                    found[block.location] = block
        except (MalformedFile, Unsupported):
            continue
    return list(found.values())


class _Walk:
    """One walk over a unit for one name."""

    def __init__(self, info: TypeInfo, unit: Unit) -> None:
        self._info = info
        self._index = info.index
        self._unit = unit
        self._is_name: dict[tuple[int, int | bytes], bool] = {}

    def variables(self, name: str) -> Iterator[NamedVariable]:
        """Yield the variables called *name*."""
        for offset, tag in list(self._entries(name, _NAMED)):
            if tag == dw.DW_TAG_COMMON_BLOCK:
                continue
            try:
                variable = self._variable(offset, name)
            except (MalformedFile, Unsupported, TypeNotFound):
                continue
            if variable is not None:
                yield variable

    def blocks(self, name: str) -> Iterator[CommonBlock]:
        """Yield the COMMON blocks called *name*."""
        for offset, tag in list(self._entries(name, frozenset((dw.DW_TAG_COMMON_BLOCK,)))):
            if tag != dw.DW_TAG_COMMON_BLOCK:
                continue
            _, attributes = self._index.entry(Place(self._unit, offset))
            if self._unit.string(attributes.get(dw.DW_AT_NAME)) != name:
                continue
            members: list[NamedVariable] = []
            for _, member in self._index.children(Place(self._unit, offset), (dw.DW_TAG_VARIABLE, dw.DW_TAG_MEMBER)):
                made = self._member(name, member)
                if made is not None and len(members) < _MAX_MEMBERS:
                    members.append(made)
            members.sort(key=lambda m: m.location.number)
            own = location_of(self._unit, attributes)
            if own.kind not in ("address", "tls") and members:
                own = members[0].location
            if own.kind in ("address", "tls"):
                line = self._unit.number(attributes.get(dw.DW_AT_DECL_LINE))
                yield CommonBlock(name, self._file, line, own, tuple(members))

    @property
    def _file(self) -> str | None:
        return self._unit.string(self._unit.top.get(dw.DW_AT_NAME))

    def _member(self, block: str, attributes: dict[int, Value]) -> NamedVariable | None:
        location = location_of(self._unit, attributes)
        name = self._unit.string(attributes.get(dw.DW_AT_NAME))
        if location.kind not in ("address", "tls") or name is None:
            return None
        type_ = self._info.target(self._unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None
        line = self._unit.number(attributes.get(dw.DW_AT_DECL_LINE))
        return NamedVariable(name, (), block, self._file, line, None, True, True, location, type_)

    # The walk

    def _entries(self, name: str, tags: Collection[int]) -> Iterator[tuple[int, int]]:
        # Yields offset and tag of what is called *name*, and of what has no name of its own but refers to what may.
        unit = self._unit
        cursor = unit.cursor(unit.bounds[1] - unit.bounds[0])

        def choose(abbreviation: Abbreviation) -> tuple[int, Steps, int] | None:
            # The tag, the steps to the name and its form, 0 of what has none
            tag, _, attributes = abbreviation
            if tag not in tags:
                return None
            given = [attribute for attribute, _, _ in attributes]
            index = given.index(dw.DW_AT_NAME) if dw.DW_AT_NAME in given else 0
            form = attributes[index][1] if dw.DW_AT_NAME in given else 0
            return tag, unit.forms.steps(cursor, attributes[:index]), form

        walk = Walk(unit, choose)
        for tag, steps, form in walk:
            if form:
                cursor.position = unit.forms.passed(cursor, walk.position, steps)
                value = unit.forms.read(cursor, form)
                if value not in self._is_name:
                    self._is_name[value] = unit.string(value) == name
                if not self._is_name[value]:
                    continue
            yield walk.offset, tag

    # What an entry gives

    def _variable(self, offset: int, name: str) -> NamedVariable | None:
        unit = self._unit
        here = Place(unit, offset)
        own = self._index.entry(here)[1]
        location = location_of(unit, own)
        if location.kind == "frame" or (location.kind == "none" and dw.DW_AT_ABSTRACT_ORIGIN in own):
            return None
        merged: dict[int, Value] = {}
        declared = here
        type_: Place | None = None
        attributes, origin = own, None
        for count in range(_MAX_ORIGINS):
            if count:
                attributes = self._index.entry(declared)[1]
            if type_ is None and dw.DW_AT_TYPE in attributes:
                type_ = self._info.target(declared.unit, attributes[dw.DW_AT_TYPE])
            for attribute, value in attributes.items():
                merged.setdefault(attribute, value)
            if count == 0 and dw.DW_AT_NAME in attributes and unit.string(attributes[dw.DW_AT_NAME]) != name:
                return None
            origin = attributes.get(dw.DW_AT_SPECIFICATION) or attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
            if origin is None:
                break
            declared = self._info.target(declared.unit, origin)
        last = attributes if origin is None else self._index.entry(declared)[1]
        if (declared.unit.string(last.get(dw.DW_AT_NAME)) or "") != name and dw.DW_AT_NAME not in own:
            return None
        if location.kind == "none" and dw.DW_AT_DECLARATION in own:
            location = Location("declared")
        scopes, block, in_function = self._scopes(declared)
        if location.kind == "none" and in_function and dw.DW_AT_LOCATION not in own and dw.DW_AT_EXTERNAL not in own:
            return None  # a local variable that was optimised away
        linkage = unit.string(merged.get(dw.DW_AT_LINKAGE_NAME) or merged.get(dw.DW_AT_MIPS_LINKAGE_NAME))
        return NamedVariable(
            name,
            scopes,
            block,
            self._file,
            declared.unit.number(merged.get(dw.DW_AT_DECL_LINE)),
            linkage,
            dw.DW_AT_EXTERNAL in merged,
            is_fortran(unit),
            location,
            type_,
        )

    def _scopes(self, place: Place) -> tuple[tuple[Scope, ...], str | None, bool]:
        # From outside in; the COMMON block; whether a function is among them.
        found: list[Scope] = []
        block: str | None = None
        in_function = False
        unit, offset = place
        around = self._index.files.around(unit, offset)
        while around is not None and len(found) <= _MAX_SCOPES:
            tag, attributes = self._index.entry(Place(unit, around))
            if tag in (dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT):
                break
            name, declared = self._name_of(Place(unit, around), attributes)
            if tag == dw.DW_TAG_COMMON_BLOCK:
                block = name
            elif tag in _FUNCTIONS:
                in_function = True
                # Fortran's main program is a function that nobody calls by a name.
                found.append(Scope("function", name))
            elif tag in _TYPES:
                found.append(Scope("type", name, not name))
            elif tag == dw.DW_TAG_NAMESPACE:
                found.append(Scope("namespace", name, not name or dw.DW_AT_EXPORT_SYMBOLS in attributes))
            elif tag == dw.DW_TAG_MODULE:
                found.append(Scope("module", name))
            around = self._index.files.around(unit, declared)
        return tuple(reversed(found)), block, in_function

    def _name_of(self, place: Place, attributes: dict[int, Value]) -> tuple[str, int]:
        # A function's name may stand in its declaration in a class, which is then what the scopes around are those of.
        unit, offset = place
        for _ in range(_MAX_ORIGINS):
            if dw.DW_AT_NAME in attributes:
                return unit.string(attributes[dw.DW_AT_NAME]) or "", offset
            origin = attributes.get(dw.DW_AT_SPECIFICATION) or attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
            if origin is None or origin.form not in UNIT_REFERENCES or not isinstance(origin.raw, int):
                break
            offset = origin.raw
            _, attributes = self._index.entry(Place(unit, offset))
        return "", offset
