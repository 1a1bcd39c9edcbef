"""Parts of variables: ``.member``, ``->member``, ``[3]``, ``*``, and Fortran's ``%member`` and ``(1,2)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.arrays import is_fortran
from ompd.binary.types.layouts import TypeReader
from ompd.binary.types.type_names import type_name
from ompd.errors import BadInput, MalformedFile, Unavailable

_MAX_DEPTH = 24
_MAX_PARTS = 1 << 16


class Part(NamedTuple):
    """A part of a variable: its type and address. For a bit field, ``first_bit`` (as in :class:`Member`) and ``bits``
    are set, and ``address`` is the address of the structure.
    """

    type: EntryRef
    address: int
    first_bit: int | None = None
    bits: int | None = None


class Field(NamedTuple):
    """A step from a value to its member called ``name``. With ``deref``, a pointer is followed first (``->``)."""

    name: str
    deref: bool = False


class Index(NamedTuple):
    """A step to an element of an array: an index for each dimension, in the source's order."""

    indexes: tuple[int, ...]


class Dereference(NamedTuple):
    """A step from a pointer to its target."""


Step = Field | Index | Dereference


_STEP = re.compile(
    r"\s*(?:(\.|->|%)\s*([^\W\d]\w*)|\[\s*(-?\d{1,18})\s*\]|\(\s*(-?\d{1,18}(?:\s*,\s*-?\d{1,18})*)\s*\))"
)


def parse_steps(text: str) -> tuple[Step, ...]:
    """Parse *text* into steps: ``.member``, ``->member``, ``%member``, ``[3]`` and Fortran's ``(1,2)``.

    Consecutive indexes in brackets are a single step into an array.

    :raises BadInput: if *text* has anything else
    """
    steps: list[Step] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise BadInput(
                f"{text[position:]!r} is not a member or index", hint="parts are .member ->member [3] %member (1,2)"
            )
        if match[2] is not None:
            steps.append(Field(match[2], match[1] == "->"))
        elif match[3] is not None:
            before = steps[-1] if steps else None
            if isinstance(before, Index):
                steps[-1] = Index((*before.indexes, int(match[3])))
            else:
                steps.append(Index((int(match[3]),)))
        else:
            steps.append(Index(tuple(int(word) for word in match[4].split(","))))
        position = match.end()
    return tuple(steps)


class PartFinder:
    """Finds parts of variables in memory, by the types of one file."""

    def __init__(self, types: TypeReader) -> None:
        self._types = types

    def select(self, place: EntryRef, address: int, steps: Sequence[Step]) -> Part:
        """Return the part to which *steps* lead from the variable of type *place* at *address*.

        :raises BadInput: if the type has no such part
        :raises OmpdError: as for :meth:`ValueFormatter.show`
        """
        part = Part(place, address)
        for step in steps:
            if part.bits is not None:
                raise BadInput("a bit field has no parts")
            type_, source = self._types.follow(part.type, part.address)
            part = Part(type_, source if isinstance(source, int) else part.address)
            if isinstance(step, Dereference) or (isinstance(step, Field) and step.deref):
                part = self._dereferenced(part)
            if isinstance(step, Field):
                part = self._field(part, step.name)
            elif isinstance(step, Index):
                part = self._element(part, step.indexes)
        return part

    # Parts

    def _dereferenced(self, part: Part) -> Part:
        pointer, tag, attributes, _ = self._types.resolve(part.type)
        if tag != dw.DW_TAG_POINTER_TYPE:
            raise BadInput(
                f"a value of type {type_name(self._types.info, part.type)} cannot be followed: it is not a pointer"
            )
        if dw.DW_AT_TYPE not in attributes:
            raise BadInput("what a pointer to void leads to has no type")
        raw = self._types.read(part.address, pointer.unit.address_size)
        address = int.from_bytes(raw, pointer.unit.sections.byte_order)
        if not address:
            raise Unavailable("the pointer is null")
        return Part(self._types.info.target(pointer.unit, attributes[dw.DW_AT_TYPE]), address)

    def _field(self, part: Part, name: str) -> Part:
        structure, tag, _, _ = self._types.resolve(part.type)
        if tag not in dw.STRUCTURES:
            raise BadInput(f"a value of type {type_name(self._types.info, part.type)} has no members")
        fold = is_fortran(structure.unit)
        spelling = name.lower() if fold else name
        names: list[str] = []
        level = [(structure, part.address)]
        # Search level by level, because a member hides members of base classes with the same name.
        for _ in range(_MAX_DEPTH):
            deeper: list[tuple[EntryRef, int]] = []
            for place, address in level:
                for member in self._types.members(place):
                    member_address = address + member.offset
                    if member.expression is not None:
                        member_address = self._types.evaluate(member.type, member.expression, address, (address,))
                    if member.name is not None and not member.is_base:
                        names.append(member.name)
                        if (member.name.lower() if fold else member.name) == spelling:
                            if member.bits is None:
                                return Part(member.type, member_address)
                            return Part(member.type, address, member.first_bit, member.bits)
                    else:
                        inner, inner_tag, _, _ = self._types.resolve(member.type)
                        if inner_tag in dw.STRUCTURES:
                            deeper.append((inner, member_address))
                if len(deeper) + len(names) > _MAX_PARTS:
                    raise MalformedFile("a structure with too much in it")
            if not deeper:
                break
            level = deeper
        raise BadInput(
            f"{type_name(self._types.info, part.type)} has no member {name!r}",
            hint=f"it has {', '.join(names[:20])}" if names else "it has none",
        )

    def _element(self, part: Part, indexes: Sequence[int]) -> Part:
        remaining = list(indexes)
        place, address = part.type, part.address
        while remaining:
            definition, tag, attributes, _ = self._types.resolve(place)
            if tag == dw.DW_TAG_POINTER_TYPE:
                pointed = self._dereferenced(Part(place, address))
                size = self._types.info.size_at(pointed.type)
                place, address = pointed.type, pointed.address + remaining.pop(0) * size
                continue
            if tag != dw.DW_TAG_ARRAY_TYPE or dw.DW_AT_TYPE not in attributes:
                raise BadInput(f"a value of type {type_name(self._types.info, place)} has no elements")
            missing = self._types.missing(definition, attributes, address)
            if missing is not None:
                raise Unavailable(f"the array is {missing.strip('<>')}")
            element = self._types.info.target(definition.unit, attributes[dw.DW_AT_TYPE])
            shape = self._types.dimensions(definition, attributes, element, address)
            if len(remaining) < len(shape):
                raise BadInput(f"the array has {len(shape)} dimensions: an index for each is needed")
            start = self._types.data_start(definition, attributes, address)
            address = start if start is not None else address
            order = list(reversed(shape)) if is_fortran(definition.unit) else shape
            for dimension in order:
                index = remaining.pop(0)
                last = dimension.lower + dimension.length - 1
                if not dimension.lower <= index <= last and dimension.length:
                    raise BadInput(f"the array's indexes are {dimension.lower} to {last}, not {index}")
                address += (index - dimension.lower) * dimension.stride
            place = element
        return Part(place, address)
