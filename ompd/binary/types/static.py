"""Variables in static storage, searched by name or by type, and their locations (DWARF 5, 2.6).

A name is searched as bytes first, so only units that contain it are read. No target is read, and all work is bounded.
Section numbers are those of DWARF 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import UNIT_REFERENCES, Abbreviation, Steps, Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import EntryWalk, iter_entries
from ompd.binary.types.arrays import is_fortran
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, TypeNotFound, Unsupported

_MAX_STEPS = 8
_MAX_CONSTANT = 1 << 16


class Location(NamedTuple):
    """The location of a variable, by ``kind``.

    ``address``: ``number`` is a link-time address. ``tls``: ``number`` is an offset in the module's TLS block.
    ``constant``: ``raw`` are the variable's bytes, or ``number`` is its value. ``none``: the definition gives no
    location. ``declared``: there is no definition. ``frame``: the location depends on a frame or on registers.
    """

    kind: str
    number: int = 0
    raw: bytes = b""


def location_of(unit: Unit, attributes: Mapping[int, Value]) -> Location:
    """Return the location of the variable with *attributes*.

    :raises MalformedFile: if the attributes are malformed
    """
    value = attributes.get(dw.DW_AT_LOCATION)
    if value is None:
        constant = attributes.get(dw.DW_AT_CONST_VALUE)
        if constant is None:
            return Location("none")
        if isinstance(constant.raw, bytes):
            return Location("constant", raw=constant.raw[:_MAX_CONSTANT])
        return Location("constant", constant.raw)
    if not isinstance(value.raw, bytes):
        return Location("frame")  # a location list, which depends on the program counter
    return parse_location(unit, value.raw)


def parse_location(unit: Unit, expression: bytes) -> Location:
    """Return the location that an expression (2.6) of a static variable describes."""
    if not expression:
        return Location("none")
    cursor = Cursor(expression, unit.sections.byte_order, what="DWARF expression")
    number: int | None = None
    kind = "address"
    for _ in range(_MAX_STEPS):
        if cursor.at_end:
            break
        operation = cursor.byte()
        if operation == dw.DW_OP_ADDR:
            number = cursor.unsigned(unit.address_size)
        elif operation in (dw.DW_OP_ADDRX, dw.DW_OP_CONSTX, dw.DW_OP_GNU_ADDR_INDEX, dw.DW_OP_GNU_CONST_INDEX):
            number = unit.address(Value(dw.DW_FORM_ADDRX, cursor.uleb()))
        elif operation in (dw.DW_OP_CONST8U, dw.DW_OP_CONST4U):
            number = cursor.unsigned(8 if operation == dw.DW_OP_CONST8U else 4)
        elif operation == dw.DW_OP_CONSTU:
            number = cursor.uleb()
        elif operation == dw.DW_OP_PLUS_UCONST and number is not None:
            number += cursor.uleb()
        elif operation in (dw.DW_OP_FORM_TLS_ADDRESS, dw.DW_OP_GNU_PUSH_TLS_ADDRESS) and number is not None:
            kind = "tls"
        elif operation == dw.DW_OP_STACK_VALUE and number is not None and kind == "address":
            kind = "constant"
        elif operation == dw.DW_OP_IMPLICIT_VALUE:
            return Location("constant", raw=cursor.take(cursor.uleb())[:_MAX_CONSTANT])
        else:
            return Location("frame")
    if number is None or not cursor.at_end:
        return Location("frame")
    if kind == "address" and not number:
        return Location("none")  # the linker dropped the variable's section
    return Location(kind, number)


_TYPES = dw.STRUCTURES | {dw.DW_TAG_ENUMERATION_TYPE}
_FUNCTIONS = frozenset((dw.DW_TAG_SUBPROGRAM, dw.DW_TAG_ENTRY_POINT, dw.DW_TAG_INLINED_SUBROUTINE))
_NAMED = frozenset((dw.DW_TAG_VARIABLE, dw.DW_TAG_COMMON_BLOCK, dw.DW_TAG_CONSTANT))


_MAX_FOUND = 1 << 12
_MAX_ORIGINS = 8
_MAX_SCOPES = 32
_MAX_MEMBERS = 1 << 12


class Scope(NamedTuple):
    """A scope around a variable: ``kind`` is ``namespace``, ``type``, ``function`` or ``module``.

    ``name`` may be empty. The source may leave out an ``optional`` scope.
    """

    kind: str
    name: str
    optional: bool = False


class NamedVariable(NamedTuple):
    """A variable with its scopes, outermost first. ``block`` is its COMMON block, None for other variables.

    ``file`` is the unit's source file as given to the compiler, ``line`` is the line of the declaration. ``linkage`` is
    the linkage name if it differs from ``name``. ``type`` is None if the file gives none.
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
    type: EntryRef | None


class CommonBlock(NamedTuple):
    """A COMMON block as one subprogram declares it, with its members ordered by address."""

    name: str
    file: str | None
    line: int | None
    location: Location
    members: tuple[NamedVariable, ...]


def find_named(info: TypeInfo, name: str) -> list[NamedVariable]:
    """Return the static variables and declared variables called *name*, each location once.

    Members of COMMON blocks are included. Variables in frames and registers are left out, unless their definition gives
    no location at all. Malformed variables are left out, too.

    :raises MalformedFile: if the file is malformed as a whole
    """
    variables: dict[object, NamedVariable] = {}
    for unit in info.index.units_with({name}):
        try:
            for variable in _NameSearch(info, unit).variables(name):
                place = variable.location
                key: object = place if place.kind in ("address", "tls") else (variable._replace(line=None, type=None))
                variables.setdefault(key, variable)
                if len(variables) > _MAX_FOUND:
                    raise MalformedFile(f"too many variables called {name!r}")
        except (MalformedFile, Unsupported):
            continue  # keep the results from before the error
    return list(variables.values())


def find_common(info: TypeInfo, name: str) -> list[CommonBlock]:
    """Return the COMMON blocks called *name*; of several at one location, only the one with the most members.

    :raises MalformedFile: if the file is malformed as a whole
    """
    blocks: dict[Location, CommonBlock] = {}
    for unit in info.index.units_with({name}):
        try:
            for block in _NameSearch(info, unit).blocks(name):
                earlier = blocks.get(block.location)
                if earlier is None or len(earlier.members) < len(block.members):
                    blocks[block.location] = block
        except (MalformedFile, Unsupported):
            continue
    return list(blocks.values())


class _NameSearch:
    """Searches one unit for variables and COMMON blocks by name."""

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
            _, attributes = self._index.entry(EntryRef(self._unit, offset))
            if self._unit.string(attributes.get(dw.DW_AT_NAME)) != name:
                continue
            members: list[NamedVariable] = []
            for _, member in self._index.children(EntryRef(self._unit, offset), (dw.DW_TAG_VARIABLE, dw.DW_TAG_MEMBER)):
                variable = self._member(name, member)
                if variable is not None and len(members) < _MAX_MEMBERS:
                    members.append(variable)
            members.sort(key=lambda m: m.location.number)
            location = location_of(self._unit, attributes)
            if location.kind not in ("address", "tls") and members:
                location = members[0].location
            if location.kind in ("address", "tls"):
                line = self._unit.number(attributes.get(dw.DW_AT_DECL_LINE))
                yield CommonBlock(name, self._file, line, location, tuple(members))

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
        # Yields offset and tag of entries called *name*, and of unnamed entries that refer to another entry.
        unit = self._unit
        cursor = unit.cursor(unit.bounds[1] - unit.bounds[0])

        def choose(abbreviation: Abbreviation) -> tuple[int, Steps, int] | None:
            # Returns the tag, the steps that skip to the name, and the name's form, which is 0 for entries without a
            # name.
            tag, _, attributes = abbreviation
            if tag not in tags:
                return None
            kinds = [attribute for attribute, _, _ in attributes]
            index = kinds.index(dw.DW_AT_NAME) if dw.DW_AT_NAME in kinds else 0
            form = attributes[index][1] if dw.DW_AT_NAME in kinds else 0
            return tag, unit.forms.steps(cursor, attributes[:index]), form

        walk = EntryWalk(unit, choose)
        for tag, steps, form in walk:
            if form:
                cursor.position = unit.forms.passed(cursor, walk.position, steps)
                value = unit.forms.read(cursor, form)
                if value not in self._is_name:
                    self._is_name[value] = unit.string(value) == name
                if not self._is_name[value]:
                    continue
            yield walk.offset, tag

    # Facts from an entry

    def _variable(self, offset: int, name: str) -> NamedVariable | None:
        unit = self._unit
        entry = EntryRef(unit, offset)
        own_attributes = self._index.entry(entry)[1]
        location = location_of(unit, own_attributes)
        if location.kind == "frame" or (location.kind == "none" and dw.DW_AT_ABSTRACT_ORIGIN in own_attributes):
            return None
        merged: dict[int, Value] = {}
        declared = entry
        type_: EntryRef | None = None
        attributes, origin = own_attributes, None
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
        if (declared.unit.string(last.get(dw.DW_AT_NAME)) or "") != name and dw.DW_AT_NAME not in own_attributes:
            return None
        if location.kind == "none" and dw.DW_AT_DECLARATION in own_attributes:
            location = Location("declared")
        scopes, block, in_function = self._scopes(declared)
        if (
            location.kind == "none"
            and in_function
            and dw.DW_AT_LOCATION not in own_attributes
            and dw.DW_AT_EXTERNAL not in own_attributes
        ):
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

    def _scopes(self, place: EntryRef) -> tuple[tuple[Scope, ...], str | None, bool]:
        # The scopes, outermost first, the COMMON block, and whether one of the scopes is a function.
        scopes: list[Scope] = []
        block: str | None = None
        in_function = False
        unit, offset = place
        around = self._index.files.around(unit, offset)
        while around is not None and len(scopes) <= _MAX_SCOPES:
            tag, attributes = self._index.entry(EntryRef(unit, around))
            if tag in (dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT):
                break
            name, declared = self._name_of(EntryRef(unit, around), attributes)
            if tag == dw.DW_TAG_COMMON_BLOCK:
                block = name
            elif tag in _FUNCTIONS:
                in_function = True
                # Fortran's main program is a function, too.
                scopes.append(Scope("function", name))
            elif tag in _TYPES:
                scopes.append(Scope("type", name, not name))
            elif tag == dw.DW_TAG_NAMESPACE:
                scopes.append(Scope("namespace", name, not name or dw.DW_AT_EXPORT_SYMBOLS in attributes))
            elif tag == dw.DW_TAG_MODULE:
                scopes.append(Scope("module", name))
            around = self._index.files.around(unit, declared)
        return tuple(reversed(scopes)), block, in_function

    def _name_of(self, place: EntryRef, attributes: dict[int, Value]) -> tuple[str, int]:
        # If a declaration in a class has the function's name, the scopes are those of the declaration.
        unit, offset = place
        for _ in range(_MAX_ORIGINS):
            if dw.DW_AT_NAME in attributes:
                return unit.string(attributes[dw.DW_AT_NAME]) or "", offset
            origin = attributes.get(dw.DW_AT_SPECIFICATION) or attributes.get(dw.DW_AT_ABSTRACT_ORIGIN)
            if origin is None or origin.form not in UNIT_REFERENCES or not isinstance(origin.raw, int):
                break
            offset = origin.raw
            _, attributes = self._index.entry(EntryRef(unit, offset))
        return "", offset


_MAX_ELEMENTS = 1 << 16
_MAX_EXPRESSIONS = 1 << 18
_MAX_TEXT = 512
_MAX_TYPES = 1 << 16
_MAX_DEPTH = 64

_Key = tuple[str, int, int]


class _TypePart(NamedTuple):
    # A member of a structure, or the element of an array with its number of elements in each dimension (``counts``).
    label: str
    offset: int
    type: EntryRef
    counts: tuple[int, ...] = ()


class _TypedVariable(NamedTuple):
    address: int
    name: str
    declared: EntryRef
    inside: list[tuple[str, int]]


def find_variables(info: TypeInfo, names: Collection[str]) -> list[tuple[str, int]]:
    """Return expression and link-time address of all static objects whose type is called one of *names*.

    Expressions are ``lock``, ``locks[3]``, ``table.rows[2].lock``, ``space::lock``. Malformed objects are left out.

    :raises MalformedFile: if the file is malformed as a whole
    """
    return _TypeSearch(info, names).run()


class _TypeSearch:
    def __init__(self, info: TypeInfo, names: Collection[str]) -> None:
        self._info = info
        self._index = info.index
        self._names = frozenset(names)
        # For each type, labels and offsets of the wanted types inside it.
        self._inside_types: dict[_Key, list[tuple[str, int]]] = {}
        self._left = _MAX_EXPRESSIONS

    def run(self) -> list[tuple[str, int]]:
        variables: dict[int, _TypedVariable] = {}
        for unit in self._index.units_with(self._names):
            try:
                for variable in self._variables(unit):
                    variables.setdefault(variable.address, variable)
            except (MalformedFile, Unsupported):
                continue  # keep the results from before the error
        scopes = self._scopes(variables.values())
        expressions: dict[int, str] = {}
        for variable in variables.values():
            if len(variable.inside) > self._left:
                continue
            self._left -= len(variable.inside)
            name = "::".join((*scopes.get(_key(variable.declared), ()), variable.name))
            for label, offset in variable.inside:
                expressions.setdefault(variable.address + offset, name + label)
        return [(expression, address) for address, expression in expressions.items()]

    # Variables

    def _variables(self, unit: Unit) -> Iterator[_TypedVariable]:
        for entry in iter_entries(unit, dw.DW_TAG_VARIABLE, only=(dw.DW_AT_LOCATION,)):
            location = entry.attributes.get(dw.DW_AT_LOCATION)
            if location is None or not isinstance(location.raw, bytes):
                continue
            try:
                location_value = parse_location(unit, location.raw)
                if location_value.kind != "address":
                    continue
                place, name, type_ = self._declaration(EntryRef(unit, entry.offset))
                inside = self._inside(type_) if type_ is not None else []
                if name and len(name) <= _MAX_TEXT and inside:
                    yield _TypedVariable(location_value.number, name, place, inside)
            except (MalformedFile, Unsupported, TypeNotFound):
                continue

    def _declaration(self, place: EntryRef) -> tuple[EntryRef, str | None, EntryRef | None]:
        # A definition may leave name and type to its declaration.
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

    def _scopes(self, variables: Collection[_TypedVariable]) -> dict[_Key, tuple[str, ...]]:
        scopes_by_key: dict[_Key, tuple[str, ...]] = {}
        for variable in variables:
            unit = variable.declared.unit
            if unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) not in dw.C_LANGUAGES:
                with suppress(MalformedFile):
                    scopes_by_key[_key(variable.declared)] = self._index.scopes_around(variable.declared)
        return scopes_by_key

    # Types

    def _inside(self, outermost: EntryRef) -> list[tuple[str, int]]:
        if _key(outermost) not in self._inside_types:
            try:
                self._look_inside(outermost)
            except (MalformedFile, Unsupported, TypeNotFound):
                self._inside_types[_key(outermost)] = []
        return self._inside_types[_key(outermost)]

    def _look_inside(self, outermost: EntryRef) -> None:
        # A stack replaces recursion. A type is pushed twice: before its parts are known, and with them, to be joined
        # last.
        inside_types = self._inside_types
        stack: list[tuple[EntryRef, int, list[_TypePart] | None]] = [(outermost, 0, None)]
        while stack:
            place, depth, parts = stack.pop()
            key = _key(place)
            if key in inside_types:
                continue
            if parts is not None:
                inside_types[key] = self._joined(parts)
                continue
            if depth > _MAX_DEPTH or len(stack) > _MAX_TYPES:
                raise MalformedFile("types are too deep in each other")
            if self._is_wanted(place):
                inside_types[key] = [("", 0)]
                continue
            parts = list(self._parts(place))
            stack.append((place, depth, parts))
            stack += [(part.type, depth + 1, None) for part in parts]

    def _is_wanted(self, place: EntryRef) -> bool:
        tag, attributes = self._index.entry(place)
        return tag in dw.NAMED_TYPES and place.unit.string(attributes.get(dw.DW_AT_NAME)) in self._names

    def _parts(self, place: EntryRef) -> Iterator[_TypePart]:
        unit = place.unit
        tag, attributes = self._index.entry(place)
        if tag == dw.DW_TAG_TYPEDEF or tag in dw.QUALIFIERS:
            if dw.DW_AT_TYPE in attributes:
                yield _TypePart("", 0, self._info.target(unit, attributes[dw.DW_AT_TYPE]))
        elif tag == dw.DW_TAG_ARRAY_TYPE:
            if dw.DW_AT_TYPE in attributes and dw.DW_AT_BYTE_STRIDE not in attributes:
                counts = tuple(self._info.counts(place))
                if 0 < prod(counts) <= _MAX_ELEMENTS:
                    yield _TypePart("", 0, self._info.target(unit, attributes[dw.DW_AT_TYPE]), counts)
        elif tag in dw.STRUCTURES and (dw.DW_AT_DECLARATION in attributes or dw.DW_AT_SIGNATURE in attributes):
            try:
                yield _TypePart("", 0, self._info.inner(place))
            except (TypeNotFound, Unsupported):
                return  # a type without a definition has no variables
        elif tag in dw.STRUCTURES:
            yield from self._members(place)

    def _members(self, place: EntryRef) -> Iterator[_TypePart]:
        for name, tag, attributes in self._info.rows(place):
            try:
                offset, _, bits = self._info.location(place.unit, attributes)
                type_ = self._info.type_of(place.unit, attributes)
            except Unsupported:
                continue  # a virtual base class, or a type in another file
            if bits is None:
                yield _TypePart("" if name is None or tag == dw.DW_TAG_INHERITANCE else f".{name}", offset, type_)

    def _joined(self, parts: Sequence[_TypePart]) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        for part in parts:
            inside = self._inside_types[_key(part.type)]
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


def _key(place: EntryRef) -> _Key:
    return place.unit.section, place.unit.offset, place.offset
