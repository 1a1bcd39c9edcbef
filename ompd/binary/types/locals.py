"""The variables that a function has at an address: parameters and variables of the blocks that hold it (DWARF 5, 3.3 to
3.5 and 4.1). Bytes only, no target; how many entries are read, and how deep, has a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ompd.binary.dwarf.index import Place
from ompd.binary.dwarf.units import (
    DW_AT_ABSTRACT_ORIGIN,
    DW_AT_NAME,
    DW_TAG_INLINED_SUBROUTINE,
    DW_TAG_SUBPROGRAM,
    Inside,
    Unit,
    Value,
)
from ompd.binary.types.layouts import key_of
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile

_DW_TAG_FORMAL_PARAMETER, _DW_TAG_LEXICAL_BLOCK, _DW_TAG_COMMON_BLOCK, _DW_TAG_VARIABLE = 0x05, 0x0B, 0x1A, 0x34
_DW_AT_LOCATION, _DW_AT_CONST_VALUE, _DW_AT_ARTIFICIAL, _DW_AT_FRAME_BASE, _DW_AT_TYPE = 0x02, 0x1C, 0x34, 0x40, 0x49
_DW_AT_DECL_LINE, _DW_AT_DECLARATION = 0x3B, 0x3C
_VARIABLES = frozenset((_DW_TAG_FORMAL_PARAMETER, _DW_TAG_VARIABLE))
_BLOCKS = frozenset((_DW_TAG_LEXICAL_BLOCK, DW_TAG_INLINED_SUBROUTINE))

_MAX_ENTRIES = 1 << 18
_MAX_VARIABLES = 1 << 12
_MAX_SCOPES = 256
_MAX_ORIGINS = 8
_MAX_FUNCTIONS = 1 << 18

Key = tuple[str, int, int]
"""What distinguishes an entry from all others of its module: section, unit and offset in it."""


class LocalVariable(NamedTuple):
    """A parameter or variable of a function, ``name`` ``""`` without one.

    ``entries`` are its own, and those of the function in the source that it is a copy of. ``type`` is None where the
    file has none, ``location`` (of ``unit``) where the compiler did away with the
    variable, unless it has a ``constant``. ``depth`` counts the blocks that it is in, from 0 for the function's own.
    ``line`` is where it is declared. An ``is_artificial`` one is the compiler's, by its own word.
    """

    name: str
    entries: tuple[Key, ...]
    type: Place | None
    unit: Unit
    location: Value | None
    constant: Value | None
    depth: int
    line: int | None
    is_parameter: bool
    is_artificial: bool


@dataclass(slots=True)
class Scope:
    """A function at an address, inlined or not: ``place`` is its entry, ``variables`` what it has there, outermost
    first. ``frame_base`` is that of the function whose frame it uses, None where that has none.
    """

    place: Place
    is_inlined: bool
    frame_base: Value | None
    variables: list[LocalVariable] = field(default_factory=list)


def find_scopes(info: TypeInfo, function: Place, link_address: int) -> list[Scope]:
    """Return the function whose entry is at *function*, and those inlined into it at *link_address*, innermost first.

    :raises MalformedFile: if the entries are malformed, or are too many
    """
    unit = function.unit

    def holds(tag: int, attributes: Mapping[int, Value]) -> bool:
        if tag == _DW_TAG_COMMON_BLOCK:
            return True
        return tag in _BLOCKS and any(start <= link_address < end for start, end in unit.ranges(attributes))

    scopes: list[Scope] = []
    inside: list[tuple[Scope, int]] = []  # the function and number of its blocks that each entry around is in
    origins: list[set[Key]] = []
    count = 0
    for number, entry in enumerate(unit.iter_inside(function.offset, holds)):
        if number > _MAX_ENTRIES or len(inside) > _MAX_SCOPES:
            raise MalformedFile(f"{unit.section}: a function has too many entries", offset=function.offset)
        del inside[entry.depth :]
        if entry.depth == 0 or (entry.tag == DW_TAG_INLINED_SUBROUTINE and entry.enters):
            base = entry.attributes.get(_DW_AT_FRAME_BASE) if entry.depth == 0 else scopes[0].frame_base
            scopes.append(Scope(Place(unit, entry.offset), entry.depth > 0, base))
            origins.append(set())
            inside.append((scopes[-1], 0))
        elif entry.enters:
            scope, blocks = inside[-1]
            inside.append((scope, blocks + (entry.tag != _DW_TAG_COMMON_BLOCK)))
        elif entry.tag in _VARIABLES:
            scope, blocks = inside[-1]
            count += 1
            if count > _MAX_VARIABLES:
                raise MalformedFile(f"{unit.section}: a function has too many variables", offset=function.offset)
            _add(info, scope, blocks, unit, entry, origins[-1])
    for scope, known in zip(scopes, origins, strict=True):
        _add_dropped(info, scope, known)
    scopes.reverse()
    return scopes


def _add(info: TypeInfo, scope: Scope, depth: int, unit: Unit, entry: Inside, origins: set[Key]) -> None:
    known: dict[int, tuple[Unit, Value]] = {}
    here, found = Place(unit, entry.offset), entry.attributes
    entries = [key_of(here)]
    for _ in range(_MAX_ORIGINS):
        for attribute, value in found.items():
            known.setdefault(attribute, (here.unit, value))
        origin = found.get(DW_AT_ABSTRACT_ORIGIN)
        if origin is None:
            break
        here = info.target(here.unit, origin)
        entries.append(key_of(here))
        found = info.index.entry(here)[1]
    origins.update(entries[1:])
    if _DW_AT_DECLARATION in known and _DW_AT_LOCATION not in known:
        return  # a variable of elsewhere
    name, line = known.get(DW_AT_NAME), known.get(_DW_AT_DECL_LINE)
    location = known.get(_DW_AT_LOCATION)
    scope.variables.append(
        LocalVariable(
            name=(name[0].string(name[1]) if name is not None else None) or "",
            entries=tuple(entries),
            type=info.target(*known[_DW_AT_TYPE]) if _DW_AT_TYPE in known else None,
            unit=location[0] if location is not None else unit,
            location=location[1] if location is not None else None,
            constant=known[_DW_AT_CONST_VALUE][1] if _DW_AT_CONST_VALUE in known else None,
            depth=depth,
            line=line[0].number(line[1]) if line is not None else None,
            is_parameter=entry.tag == _DW_TAG_FORMAL_PARAMETER,
            is_artificial=_DW_AT_ARTIFICIAL in known,
        )
    )


def _add_dropped(info: TypeInfo, scope: Scope, known: set[Key]) -> None:
    # What the function has in the source, and this copy of it has not.
    origin = info.index.entry(scope.place)[1].get(DW_AT_ABSTRACT_ORIGIN)
    if origin is None:
        return
    place = info.target(scope.place.unit, origin)
    for number, entry in enumerate(place.unit.iter_inside(place.offset, lambda tag, attributes: False)):
        if number > _MAX_ENTRIES or len(scope.variables) > _MAX_VARIABLES:
            raise MalformedFile(f"{place.unit.section}: a function has too many entries", offset=place.offset)
        if entry.depth == 1 and entry.tag in _VARIABLES and key_of(Place(place.unit, entry.offset)) not in known:
            _add(info, scope, 0, place.unit, entry, set())


def find_around(function: Place) -> list[Place]:
    """Return the functions that the one at *function* is in, innermost first: gcc's code of constructs is in the
    function that has the construct.

    :raises MalformedFile: if the unit is malformed, or has too many functions
    """
    unit = function.unit
    around: list[tuple[int, int]] = []  # depth and offset
    for number, entry in enumerate(unit.iter_entries(DW_TAG_SUBPROGRAM)):
        if number > _MAX_FUNCTIONS:
            raise MalformedFile(f"{unit.section}: too many functions", offset=unit.offset)
        while around and around[-1][0] >= entry.shared:
            around.pop()
        if entry.offset == function.offset:
            return [Place(unit, offset) for _, offset in reversed(around[-_MAX_SCOPES:])]
        around.append((entry.depth, entry.offset))
    return []


def declared_in(info: TypeInfo, function: Place) -> set[tuple[str, int | None]]:
    """Return name and line of all that a function declares, in whatever block, but not of what functions in it do.

    :raises MalformedFile: if the entries are malformed, or are too many
    """
    found: list[LocalVariable] = []
    scope = Scope(function, False, None, found)
    entries = function.unit.iter_inside(function.offset, lambda tag, attributes: tag == _DW_TAG_LEXICAL_BLOCK)
    for number, entry in enumerate(entries):
        if number > _MAX_ENTRIES or len(found) > _MAX_VARIABLES:
            raise MalformedFile(f"{function.unit.section}: a function has too many entries", offset=function.offset)
        if entry.tag in _VARIABLES:
            _add(info, scope, 0, function.unit, entry, set())
    return {(variable.name, variable.line) for variable in found}
