"""Variables of static storage by their names: where DWARF puts them, of which type, and what they are in.

A name is searched as bytes first, so that only units that have it are walked, each once for a name. Bytes only, no
target; everything has a bound. Section numbers are those of DWARF 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.index import Place
from ompd.binary.dwarf.units import (
    DW_AT_ABSTRACT_ORIGIN,
    DW_AT_LINKAGE_NAME,
    DW_AT_MIPS_LINKAGE_NAME,
    DW_AT_NAME,
    DW_AT_SPECIFICATION,
    DW_FORM_ADDRX,
    DW_TAG_SUBPROGRAM,
    UNIT_REFERENCES,
    Unit,
    Value,
)
from ompd.binary.types.arrays import is_fortran
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, TypeNotFound, Unsupported

_DW_TAG_VARIABLE, _DW_TAG_MEMBER, _DW_TAG_COMMON_BLOCK, _DW_TAG_CONSTANT = 0x34, 0x0D, 0x1A, 0x27
_DW_TAG_LEXICAL_BLOCK, _DW_TAG_ENTRY_POINT, _DW_TAG_INLINED_SUBROUTINE = 0x0B, 0x03, 0x1D
_DW_TAG_MODULE, _DW_TAG_NAMESPACE, _DW_TAG_COMPILE_UNIT, _DW_TAG_PARTIAL_UNIT = 0x1E, 0x39, 0x11, 0x3C
_TYPES = frozenset((0x02, 0x13, 0x17, 0x04))  # class, structure, union, enumeration
_FUNCTIONS = frozenset((DW_TAG_SUBPROGRAM, _DW_TAG_ENTRY_POINT, _DW_TAG_INLINED_SUBROUTINE))
_NAMED = frozenset((_DW_TAG_VARIABLE, _DW_TAG_COMMON_BLOCK, _DW_TAG_CONSTANT))
_DW_AT_LOCATION, _DW_AT_CONST_VALUE, _DW_AT_DECLARATION, _DW_AT_DECL_LINE = 0x02, 0x1C, 0x3C, 0x3B
_DW_AT_EXTERNAL, _DW_AT_TYPE, _DW_AT_EXPORT_SYMBOLS = 0x3F, 0x49, 0x89

_OP_ADDR, _OP_CONST8U, _OP_CONST4U, _OP_CONSTU, _OP_PLUS, _OP_PLUS_UCONST = 0x03, 0x0E, 0x0C, 0x10, 0x22, 0x23
_OP_ADDRX, _OP_CONSTX, _OP_GNU_ADDR_INDEX, _OP_GNU_CONST_INDEX = 0xA1, 0xA2, 0xFB, 0xFC
_OP_FORM_TLS_ADDRESS, _OP_GNU_PUSH_TLS_ADDRESS, _OP_STACK_VALUE, _OP_IMPLICIT_VALUE = 0x9B, 0xE0, 0x9F, 0x9E

_MAX_FOUND = 1 << 12
_MAX_ORIGINS = 8
_MAX_SCOPES = 32
_MAX_DEPTH = 1 << 12
_MAX_MEMBERS = 1 << 12
_MAX_STEPS = 8
_MAX_CONSTANT = 1 << 16


class Location(NamedTuple):
    """Where a variable is: ``kind`` is ``address`` (``number`` is a link-time address), ``tls`` (an offset in the
    module's TLS block), ``constant`` (``raw`` are its bytes, or ``number`` its value), ``none`` where the file has a
    definition without a place, ``declared`` where it has no definition.
    """

    kind: str
    number: int = 0
    raw: bytes = b""


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


class _Step(NamedTuple):
    # What the walk has to know of an abbreviation.
    steps: int | tuple[int, ...]
    has_children: bool
    tag: int
    name: int | None  # how many bytes from the code's end the name is, None if it has none or that differs
    name_form: int
    is_noted: bool  # whether it may be around something, or declare what is defined elsewhere


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
        self._steps: dict[int, _Step] = {}
        self._is_name: dict[tuple[int, int | bytes], bool] = {}
        self._around: dict[int, int] = {}  # of entries that have children, and of those found: the one around it

    def variables(self, name: str) -> Iterator[NamedVariable]:
        """Yield the variables called *name*."""
        for offset, tag in list(self._entries(name, _NAMED)):
            if tag == _DW_TAG_COMMON_BLOCK:
                continue
            try:
                variable = self._variable(offset, name)
            except (MalformedFile, Unsupported, TypeNotFound):
                continue
            if variable is not None:
                yield variable

    def blocks(self, name: str) -> Iterator[CommonBlock]:
        """Yield the COMMON blocks called *name*."""
        for offset, tag in list(self._entries(name, frozenset((_DW_TAG_COMMON_BLOCK,)))):
            if tag != _DW_TAG_COMMON_BLOCK:
                continue
            _, attributes = self._index.entry(Place(self._unit, offset))
            if self._unit.string(attributes.get(DW_AT_NAME)) != name:
                continue
            members: list[NamedVariable] = []
            for _, member in self._index.children(Place(self._unit, offset), (_DW_TAG_VARIABLE, _DW_TAG_MEMBER)):
                made = self._member(name, member)
                if made is not None and len(members) < _MAX_MEMBERS:
                    members.append(made)
            members.sort(key=lambda m: m.location.number)
            own = _location(self._unit, attributes)
            if own.kind not in ("address", "tls") and members:
                own = members[0].location
            if own.kind in ("address", "tls"):
                line = self._unit.number(attributes.get(_DW_AT_DECL_LINE))
                yield CommonBlock(name, self._file, line, own, tuple(members))

    @property
    def _file(self) -> str | None:
        return self._unit.string(self._unit.top.get(DW_AT_NAME))

    def _member(self, block: str, attributes: dict[int, Value]) -> NamedVariable | None:
        location = _location(self._unit, attributes)
        name = self._unit.string(attributes.get(DW_AT_NAME))
        if location.kind not in ("address", "tls") or name is None:
            return None
        type_ = self._info.target(self._unit, attributes[_DW_AT_TYPE]) if _DW_AT_TYPE in attributes else None
        line = self._unit.number(attributes.get(_DW_AT_DECL_LINE))
        return NamedVariable(name, (), block, self._file, line, None, True, True, location, type_)

    # The walk

    def _entries(self, name: str, tags: Collection[int]) -> Iterator[tuple[int, int]]:
        # One long function, because this is where all the time goes. Yields what is called *name*, and what has no name
        # of its own but refers to what may.
        unit = self._unit
        start, position, end = unit.bounds
        data, around, steps_of = unit.cursor(position - start).data, self._around, self._steps
        stack: list[int] = []
        parent = 0
        while position < end:
            at = position - start
            code = data[position]
            position += 1
            if code == 0:
                if stack:
                    parent = stack.pop()
                continue
            if code >= 0x80:
                cursor = unit.cursor(at)
                code, position = cursor.uleb(), cursor.position
            step = steps_of.get(code) or self._step(code)
            steps, has_children, tag, name_at, name_form, is_noted = step
            if is_noted:
                around[at] = parent
            if tag in tags and self._may_be(name, at, position, name_at, name_form):
                around[at] = parent
                yield at, tag
            position = position + steps if isinstance(steps, int) else unit.passed(position, steps)
            if has_children:
                if len(stack) > _MAX_DEPTH:
                    raise MalformedFile(f"{unit.section}: entries are too deep in each other")
                stack.append(parent)
                parent = at
        if position > end:
            raise MalformedFile(f"{unit.section}: an entry does not fit", offset=unit.offset)

    def _step(self, code: int) -> _Step:
        abbreviations = self._index.abbreviations(self._unit)
        if code not in abbreviations:
            raise MalformedFile(f".debug_abbrev: no abbreviation {code}")
        tag, has_children, attributes = abbreviations[code]
        name_at, name_form = None, 0
        given = [attribute for attribute, _, _ in attributes]
        if tag in _NAMED and DW_AT_NAME in given:
            index = given.index(DW_AT_NAME)
            distance, name_form = self._unit.steps(attributes[:index]), attributes[index][1]
            name_at = distance if isinstance(distance, int) else None
        is_noted = has_children or tag in _FUNCTIONS or (tag == _DW_TAG_MEMBER and _DW_AT_EXTERNAL in given)
        self._steps[code] = _Step(self._unit.steps(attributes), has_children, tag, name_at, name_form, is_noted)
        return self._steps[code]

    def _may_be(self, name: str, at: int, position: int, name_at: int | None, form: int) -> bool:
        unit = self._unit
        if name_at is None:
            if form == 0:
                return True  # it leaves its name to what it refers to, if to anything
            value = self._index.entry(Place(unit, at))[1][DW_AT_NAME]
        else:
            cursor = unit.cursor(position + name_at - unit.bounds[0])
            value = unit.read_form(cursor, form)
        if value not in self._is_name:
            self._is_name[value] = unit.string(value) == name
        return self._is_name[value]

    # What an entry gives

    def _variable(self, offset: int, name: str) -> NamedVariable | None:
        unit = self._unit
        here = Place(unit, offset)
        own = self._index.entry(here)[1]
        location = _location(unit, own)
        if location.kind == "frame" or (location.kind == "none" and DW_AT_ABSTRACT_ORIGIN in own):
            return None
        merged: dict[int, Value] = {}
        declared = here
        type_: Place | None = None
        attributes, origin = own, None
        for count in range(_MAX_ORIGINS):
            if count:
                attributes = self._index.entry(declared)[1]
            if type_ is None and _DW_AT_TYPE in attributes:
                type_ = self._info.target(declared.unit, attributes[_DW_AT_TYPE])
            for attribute, value in attributes.items():
                merged.setdefault(attribute, value)
            if count == 0 and DW_AT_NAME in attributes and unit.string(attributes[DW_AT_NAME]) != name:
                return None
            origin = attributes.get(DW_AT_SPECIFICATION) or attributes.get(DW_AT_ABSTRACT_ORIGIN)
            if origin is None:
                break
            declared = self._info.target(declared.unit, origin)
        last = attributes if origin is None else self._index.entry(declared)[1]
        if (declared.unit.string(last.get(DW_AT_NAME)) or "") != name and DW_AT_NAME not in own:
            return None
        if location.kind == "none" and _DW_AT_DECLARATION in own:
            location = Location("declared")
        scopes, block, in_function = self._walked(declared.unit, name)._scopes(declared)
        if location.kind == "none" and in_function and _DW_AT_LOCATION not in own and _DW_AT_EXTERNAL not in own:
            return None  # a local variable that was optimised away
        linkage = unit.string(merged.get(DW_AT_LINKAGE_NAME) or merged.get(DW_AT_MIPS_LINKAGE_NAME))
        return NamedVariable(
            name,
            scopes,
            block,
            self._file,
            declared.unit.number(merged.get(_DW_AT_DECL_LINE)),
            linkage,
            _DW_AT_EXTERNAL in merged,
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
        around = self._around_of(offset)
        own = unit.bounds[1] - unit.bounds[0]  # where the unit's own entry is
        while around and around != own and len(found) <= _MAX_SCOPES:
            tag, attributes = self._index.entry(Place(unit, around))
            if tag in (_DW_TAG_COMPILE_UNIT, _DW_TAG_PARTIAL_UNIT):
                break
            name, declared = self._name_of(Place(unit, around), attributes)
            if tag == _DW_TAG_COMMON_BLOCK:
                block = name
            elif tag in _FUNCTIONS:
                in_function = True
                # Fortran's main program is a function that nobody calls by a name.
                found.append(Scope("function", name))
            elif tag in _TYPES:
                found.append(Scope("type", name, not name))
            elif tag == _DW_TAG_NAMESPACE:
                found.append(Scope("namespace", name, not name or _DW_AT_EXPORT_SYMBOLS in attributes))
            elif tag == _DW_TAG_MODULE:
                found.append(Scope("module", name))
            around = self._around_of(declared if declared else around)
        return tuple(reversed(found)), block, in_function

    def _name_of(self, place: Place, attributes: dict[int, Value]) -> tuple[str, int]:
        # A function's name may stand in its declaration in a class, which is then what the scopes around are those of.
        unit, offset = place
        for _ in range(_MAX_ORIGINS):
            if DW_AT_NAME in attributes:
                return unit.string(attributes[DW_AT_NAME]) or "", offset
            origin = attributes.get(DW_AT_SPECIFICATION) or attributes.get(DW_AT_ABSTRACT_ORIGIN)
            if origin is None or origin.form not in UNIT_REFERENCES or not isinstance(origin.raw, int):
                break
            offset = origin.raw
            _, attributes = self._index.entry(Place(unit, offset))
        return "", offset

    def _around_of(self, offset: int) -> int:
        return self._around.get(offset, 0)

    def _walked(self, unit: Unit, name: str) -> _Walk:
        if unit is self._unit:
            return self
        # What a link-time optimiser keeps in one unit of what another declares.
        other = _Walk(self._info, unit)
        for _ in other._entries(name, _NAMED):
            pass
        return other


def _location(unit: Unit, attributes: dict[int, Value]) -> Location:
    value = attributes.get(_DW_AT_LOCATION)
    if value is None:
        constant = attributes.get(_DW_AT_CONST_VALUE)
        if constant is None:
            return Location("none")
        if isinstance(constant.raw, bytes):
            return Location("constant", raw=constant.raw[:_MAX_CONSTANT])
        return Location("constant", constant.raw)
    if not isinstance(value.raw, bytes):
        return Location("frame")  # a list of places, which differ with the program counter
    return parse_location(unit, value.raw)


def parse_location(unit: Unit, expression: bytes) -> Location:
    """Return what a location expression (2.6) of a variable in static storage says.

    The kind is ``frame`` for an expression that needs a frame or registers.
    """
    if not expression:
        return Location("none")
    cursor = Cursor(expression, unit.sections.byte_order, what="DWARF expression")
    number: int | None = None
    kind = "address"
    for _ in range(_MAX_STEPS):
        if cursor.at_end:
            break
        operation = cursor.byte()
        if operation == _OP_ADDR:
            number = cursor.unsigned(unit.address_size)
        elif operation in (_OP_ADDRX, _OP_CONSTX, _OP_GNU_ADDR_INDEX, _OP_GNU_CONST_INDEX):
            number = unit.address(Value(DW_FORM_ADDRX, cursor.uleb()))
        elif operation in (_OP_CONST8U, _OP_CONST4U):
            number = cursor.unsigned(8 if operation == _OP_CONST8U else 4)
        elif operation == _OP_CONSTU:
            number = cursor.uleb()
        elif operation == _OP_PLUS_UCONST and number is not None:
            number += cursor.uleb()
        elif operation in (_OP_FORM_TLS_ADDRESS, _OP_GNU_PUSH_TLS_ADDRESS) and number is not None:
            kind = "tls"
        elif operation == _OP_STACK_VALUE and number is not None and kind == "address":
            kind = "constant"
        elif operation == _OP_IMPLICIT_VALUE:
            return Location("constant", raw=cursor.take(cursor.uleb())[:_MAX_CONSTANT])
        else:
            return Location("frame")
    if number is None or not cursor.at_end:
        return Location("frame")
    if kind == "address" and not number:
        return Location("none")  # of a section that the linker dropped
    return Location(kind, number)
