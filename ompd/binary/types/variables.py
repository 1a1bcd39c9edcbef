"""Variables of static storage by their types: where DWARF puts them, and how the source would name what is there.

Only units that hold the name of one of the types are read. A variable may be of such a type, or have some inside: in
arrays, and in structures. Bytes only, no target; what is followed and how much is made of it has a bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.index import Place
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import iter_entries
from ompd.binary.types.storage import parse_location
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, TypeNotFound, Unsupported

_MAX_ELEMENTS = 1 << 16
_MAX_EXPRESSIONS = 1 << 18
_MAX_TEXT = 512
_MAX_TYPES = 1 << 16
_MAX_DEPTH = 64
_MAX_ORIGINS = 8

_Key = tuple[str, int, int]


class _Part(NamedTuple):
    # What a type consists of: how that is named and where it is; of an array an element, and how many there are.
    label: str
    offset: int
    type: Place
    counts: tuple[int, ...] = ()


class _Found(NamedTuple):
    address: int
    name: str
    declared: Place
    inside: list[tuple[str, int]]


def find_variables(info: TypeInfo, names: Collection[str]) -> list[tuple[str, int]]:
    """Return expression and link-time address of all that is of one of the types called *names* and in static storage.

    ``lock``, ``locks[3]``, ``table.rows[2].lock``, ``space::lock``. What is malformed or too much is left out.

    :raises MalformedFile: if the file is malformed as a whole
    """
    return _Search(info, names).run()


class _Search:
    def __init__(self, info: TypeInfo, names: Collection[str]) -> None:
        self._info = info
        self._index = info.index
        self._names = frozenset(names)
        # Of each type: what of the types that are looked for is in it, and where.
        self._known: dict[_Key, list[tuple[str, int]]] = {}
        self._left = _MAX_EXPRESSIONS

    def run(self) -> list[tuple[str, int]]:
        variables: dict[int, _Found] = {}
        for unit in self._index.units_with(self._names):
            try:
                for variable in self._variables(unit):
                    variables.setdefault(variable.address, variable)
            except (MalformedFile, Unsupported):
                continue  # what was read of it before holds
        scopes = self._scopes(variables.values())
        found: dict[int, str] = {}
        for variable in variables.values():
            if len(variable.inside) > self._left:
                continue
            self._left -= len(variable.inside)
            name = "::".join((*scopes.get(_key(variable.declared), ()), variable.name))
            for label, offset in variable.inside:
                found.setdefault(variable.address + offset, name + label)
        return [(expression, address) for address, expression in found.items()]

    # Variables

    def _variables(self, unit: Unit) -> Iterator[_Found]:
        for entry in iter_entries(unit, dw.DW_TAG_VARIABLE, only=(dw.DW_AT_LOCATION,)):
            location = entry.attributes.get(dw.DW_AT_LOCATION)
            if location is None or not isinstance(location.raw, bytes):
                continue
            try:
                found = parse_location(unit, location.raw)
                if found.kind != "address":
                    continue
                place, name, type_ = self._declaration(Place(unit, entry.offset))
                inside = self._inside(type_) if type_ is not None else []
                if name and len(name) <= _MAX_TEXT and inside:
                    yield _Found(found.number, name, place, inside)
            except (MalformedFile, Unsupported, TypeNotFound):
                continue

    def _declaration(self, place: Place) -> tuple[Place, str | None, Place | None]:
        # A definition may leave name and type to what declares it: in a class, in the unit before linking.
        name = type_ = None
        for _ in range(_MAX_ORIGINS):
            unit = place.unit
            _, attributes = self._index.entry(place)
            name = name if name is not None else unit.string(attributes.get(dw.DW_AT_NAME))
            if type_ is None and dw.DW_AT_TYPE in attributes:
                type_ = self._info.target(unit, attributes[dw.DW_AT_TYPE])
            origin = attributes.get(dw.DW_AT_SPECIFICATION) or attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
            if origin is None:
                break
            place = self._info.target(unit, origin)
        return place, name, type_

    def _scopes(self, variables: Collection[_Found]) -> dict[_Key, tuple[str, ...]]:
        found: dict[_Key, tuple[str, ...]] = {}
        for variable in variables:
            unit = variable.declared.unit
            if unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) not in dw.C_LANGUAGES:
                with suppress(MalformedFile):
                    found[_key(variable.declared)] = self._index.scopes_around(variable.declared)
        return found

    # Types

    def _inside(self, outermost: Place) -> list[tuple[str, int]]:
        if _key(outermost) not in self._known:
            try:
                self._look_inside(outermost)
            except (MalformedFile, Unsupported, TypeNotFound):
                self._known[_key(outermost)] = []
        return self._known[_key(outermost)]

    def _look_inside(self, outermost: Place) -> None:
        # No recursion: what a type consists of is looked at first, then the type again.
        known = self._known
        stack: list[tuple[Place, int, list[_Part] | None]] = [(outermost, 0, None)]
        while stack:
            place, depth, parts = stack.pop()
            key = _key(place)
            if key in known:
                continue
            if parts is not None:
                known[key] = self._joined(parts)
                continue
            if depth > _MAX_DEPTH or len(stack) > _MAX_TYPES:
                raise MalformedFile("types are too deep in each other")
            if self._is_wanted(place):
                known[key] = [("", 0)]
                continue
            parts = list(self._parts(place))
            stack.append((place, depth, parts))
            stack += [(part.type, depth + 1, None) for part in parts]

    def _is_wanted(self, place: Place) -> bool:
        tag, attributes = self._index.entry(place)
        return tag in dw.NAMED_TYPES and place.unit.string(attributes.get(dw.DW_AT_NAME)) in self._names

    def _parts(self, place: Place) -> Iterator[_Part]:
        unit = place.unit
        tag, attributes = self._index.entry(place)
        if tag == dw.DW_TAG_TYPEDEF or tag in dw.QUALIFIERS:
            if dw.DW_AT_TYPE in attributes:
                yield _Part("", 0, self._info.target(unit, attributes[dw.DW_AT_TYPE]))
        elif tag == dw.DW_TAG_ARRAY_TYPE:
            if dw.DW_AT_TYPE in attributes and dw.DW_AT_BYTE_STRIDE not in attributes:
                counts = tuple(self._info.counts(place))
                if 0 < prod(counts) <= _MAX_ELEMENTS:
                    yield _Part("", 0, self._info.target(unit, attributes[dw.DW_AT_TYPE]), counts)
        elif tag in dw.STRUCTURES and (dw.DW_AT_DECLARATION in attributes or dw.DW_AT_SIGNATURE in attributes):
            try:
                yield _Part("", 0, self._info.inner(place))
            except (TypeNotFound, Unsupported):
                return  # nobody can have a variable of a type that is nowhere defined
        elif tag in dw.STRUCTURES:
            yield from self._members(place)

    def _members(self, place: Place) -> Iterator[_Part]:
        for name, tag, attributes in self._info.rows(place):
            try:
                offset, _, bits = self._info.location(place.unit, attributes)
                type_ = self._info.type_of(place.unit, attributes)
            except Unsupported:
                continue  # a virtual base class, a type of another file
            if bits is None:
                yield _Part("" if name is None or tag == dw.DW_TAG_INHERITANCE else f".{name}", offset, type_)

    def _joined(self, parts: Sequence[_Part]) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        for part in parts:
            inside = self._known[_key(part.type)]
            if not inside:
                continue
            count = prod(part.counts) * len(inside)
            longest = len(part.label) + max(len(label) for label, _ in inside)
            if len(rows) + count > _MAX_ELEMENTS or count > self._left or longest > _MAX_TEXT:
                raise MalformedFile("a type with too much in it")
            self._left -= count
            size = self._info.size_at(part.type) if part.counts else 0
            for number, indexes in enumerate(product(*map(range, part.counts))):
                start = part.offset + number * size
                element = part.label + "".join(f"[{index}]" for index in indexes)
                rows += [(element + label, start + offset) for label, offset in inside]
        return rows


def _key(place: Place) -> _Key:
    return place.unit.section, place.unit.offset, place.offset
