"""The variables in scope at an address: parameters, and variables of the blocks around it (DWARF 5, 3.3 to 3.5, 4.1).
No target is read. The number of entries and their depth are limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.lists import ranges_of
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import NestedEntry, iter_inside
from ompd.binary.types.layouts import key_of
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile

_VARIABLES = frozenset((dw.DW_TAG_FORMAL_PARAMETER, dw.DW_TAG_VARIABLE))
_BLOCKS = frozenset((dw.DW_TAG_LEXICAL_BLOCK, dw.DW_TAG_INLINED_SUBROUTINE))

_MAX_ENTRIES = 1 << 18
_MAX_VARIABLES = 1 << 12
_MAX_SCOPES = 256
_MAX_ORIGINS = 8

Key = tuple[str, int, int]
"""A key that identifies an entry in its module: section, unit, and offset in the unit."""


class LocalVariable(NamedTuple):
    """A parameter or variable of a function. ``name`` is ``""`` for an unnamed one.

    ``entries`` are the variable's own entry and, for an inlined copy, the entry in the source function. ``type`` is
    None if the file has none. ``location`` (in ``unit``) is None if the variable was optimized out or is a
    ``constant``. ``depth`` is the number of blocks around the variable, 0 for one in the function's outermost block.
    ``line`` is the line of the declaration. ``is_artificial`` marks variables that the compiler made.
    """

    name: str
    entries: tuple[Key, ...]
    type: EntryRef | None
    unit: Unit
    location: Value | None
    constant: Value | None
    depth: int
    line: int | None
    is_parameter: bool
    is_artificial: bool


@dataclass(slots=True)
class FunctionScope:
    """A function at an address, inlined or not. ``place`` is its entry, ``variables`` are the variables in scope,
    outermost first. ``frame_base`` is the ``DW_AT_frame_base`` of the function whose frame this function uses, None if
    that function has none.
    """

    place: EntryRef
    is_inlined: bool
    frame_base: Value | None
    variables: list[LocalVariable] = field(default_factory=list)


def find_scopes(info: TypeInfo, function: EntryRef, link_address: int) -> list[FunctionScope]:
    """Return the function whose entry is at *function*, and those inlined into it at *link_address*, innermost first.

    :raises MalformedFile: if the entries are malformed, or are too many
    """
    unit = function.unit

    def holds(tag: int, attributes: Mapping[int, Value]) -> bool:
        if tag == dw.DW_TAG_COMMON_BLOCK:
            return True
        return tag in _BLOCKS and any(start <= link_address < end for start, end in ranges_of(unit, attributes))

    scopes: list[FunctionScope] = []
    # For each enclosing entry: the function that its variables belong to, and how deep they are nested in blocks there.
    inside: list[tuple[FunctionScope, int]] = []
    origins: list[set[Key]] = []
    count = 0
    for number, entry in enumerate(iter_inside(unit, function.offset, holds)):
        if number > _MAX_ENTRIES or len(inside) > _MAX_SCOPES:
            raise MalformedFile(f"{unit.section}: a function has too many entries", offset=function.offset)
        del inside[entry.depth :]
        if entry.depth == 0 or (entry.tag == dw.DW_TAG_INLINED_SUBROUTINE and entry.enters):
            base = entry.attributes.get(dw.DW_AT_FRAME_BASE) if entry.depth == 0 else scopes[0].frame_base
            scopes.append(FunctionScope(EntryRef(unit, entry.offset), entry.depth > 0, base))
            origins.append(set())
            inside.append((scopes[-1], 0))
        elif entry.enters:
            scope, blocks = inside[-1]
            inside.append((scope, blocks + (entry.tag != dw.DW_TAG_COMMON_BLOCK)))
        elif entry.tag in _VARIABLES:
            scope, blocks = inside[-1]
            count += 1
            if count > _MAX_VARIABLES:
                raise MalformedFile(f"{unit.section}: a function has too many variables", offset=function.offset)
            _add(info, scope, blocks, unit, entry, origins[-1])
    for scope, origins_of_scope in zip(scopes, origins, strict=True):
        _add_dropped(info, scope, origins_of_scope)
    scopes.reverse()
    return scopes


def _add(info: TypeInfo, scope: FunctionScope, depth: int, unit: Unit, entry: NestedEntry, origins: set[Key]) -> None:
    merged: dict[int, tuple[Unit, Value]] = {}
    described, attributes = EntryRef(unit, entry.offset), entry.attributes
    entries = [key_of(described)]
    for _ in range(_MAX_ORIGINS):
        for attribute, value in attributes.items():
            merged.setdefault(attribute, (described.unit, value))
        origin = attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
        if origin is None:
            break
        described = info.target(described.unit, origin)
        entries.append(key_of(described))
        attributes = info.index.entry(described)[1]
    origins.update(entries[1:])
    if dw.DW_AT_DECLARATION in merged and dw.DW_AT_LOCATION not in merged:
        return  # the declaration of a variable of another function
    name, line = merged.get(dw.DW_AT_NAME), merged.get(dw.DW_AT_DECL_LINE)
    location = merged.get(dw.DW_AT_LOCATION)
    scope.variables.append(
        LocalVariable(
            name=(name[0].string(name[1]) if name is not None else None) or "",
            entries=tuple(entries),
            type=info.target(*merged[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in merged else None,
            unit=location[0] if location is not None else unit,
            location=location[1] if location is not None else None,
            constant=merged[dw.DW_AT_CONST_VALUE][1] if dw.DW_AT_CONST_VALUE in merged else None,
            depth=depth,
            line=line[0].number(line[1]) if line is not None else None,
            is_parameter=entry.tag == dw.DW_TAG_FORMAL_PARAMETER,
            is_artificial=dw.DW_AT_ARTIFICIAL in merged,
        )
    )


def _add_dropped(info: TypeInfo, scope: FunctionScope, described: set[Key]) -> None:
    # Variables of the source function that the inlined copy does not have.
    origin = info.index.entry(scope.place)[1].get(dw.DW_AT_ABSTRACT_ORIGIN)
    if origin is None:
        return
    place = info.target(scope.place.unit, origin)
    for number, entry in enumerate(iter_inside(place.unit, place.offset, lambda tag, attributes: False)):
        if number > _MAX_ENTRIES or len(scope.variables) > _MAX_VARIABLES:
            raise MalformedFile(f"{place.unit.section}: a function has too many entries", offset=place.offset)
        if entry.depth == 1 and entry.tag in _VARIABLES and key_of(EntryRef(place.unit, entry.offset)) not in described:
            _add(info, scope, 0, place.unit, entry, set())


def find_around(files: DebugFiles, function: EntryRef) -> list[EntryRef]:
    """Return the functions around the function at *function*, innermost first. gcc nests an outlined function in the
    function that contains the construct.

    :raises MalformedFile: if the unit is malformed
    """
    functions: list[EntryRef] = []
    offset = files.around(function.unit, function.offset)
    while offset is not None and len(functions) < _MAX_SCOPES:
        if function.unit.entry_at(offset)[0] == dw.DW_TAG_SUBPROGRAM:
            functions.append(EntryRef(function.unit, offset))
        offset = files.around(function.unit, offset)
    return functions


def declared_in(info: TypeInfo, function: EntryRef) -> set[tuple[str, int | None]]:
    """Return name and line of all variables that a function declares in its blocks, without those of nested functions.

    :raises MalformedFile: if the entries are malformed, or are too many
    """
    variables: list[LocalVariable] = []
    scope = FunctionScope(function, False, None, variables)
    entries = iter_inside(function.unit, function.offset, lambda tag, attributes: tag == dw.DW_TAG_LEXICAL_BLOCK)
    for number, entry in enumerate(entries):
        if number > _MAX_ENTRIES or len(variables) > _MAX_VARIABLES:
            raise MalformedFile(f"{function.unit.section}: a function has too many entries", offset=function.offset)
        if entry.tag in _VARIABLES:
            _add(info, scope, 0, function.unit, entry, set())
    return {(variable.name, variable.line) for variable in variables}
