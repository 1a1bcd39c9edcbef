"""All members of a structure, those of embedded structures too, by DWARF. Bytes only, no target.

What follows references of the file has a bound: a structure that contains itself is malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.index import Place
from ompd.binary.types.types import DwarfType, TypeInfo
from ompd.errors import MalformedFile, TypeNotFound, Unsupported

# The largest structure of a runtime has a hundred, in five levels.
_MAX_DEPTH = 32
_MAX_MEMBERS = 1 << 13


class FlatMember(NamedTuple):
    """A member, of the structure itself or of one that is embedded in it, in bytes from the outermost one's start.

    ``path`` is its name, after those of what it is in and dots. Of a bit field ``offset`` is that of the byte in
    which it begins, ``size`` that of its declared type, ``first_bit`` where in that byte it begins, and ``bits`` its
    width; both are None for others.
    """

    path: str
    offset: int
    size: int
    first_bit: int | None = None
    bits: int | None = None


def flat_members(info: TypeInfo, found: DwarfType, is_wanted: Callable[[str], bool]) -> list[FlatMember]:
    """Return the members of a structure by their offsets, then names.

    Members of base classes, and of members without a name, count as the structure's own. An array is one member. What
    has no fixed place or size is left out.

    :param is_wanted: called with the path of each member; of one that is not wanted those inside of it are left out
    :raises MalformedFile: if the file contradicts itself, or the structure contains itself
    """
    walk = _Walk(info, is_wanted)
    walk.enter(found.place, "", 0, 0)
    return sorted(walk.found.values(), key=lambda member: (member.offset, member.path))


class _Walk:
    def __init__(self, info: TypeInfo, is_wanted: Callable[[str], bool]) -> None:
        self.found: dict[str, FlatMember] = {}
        self._info = info
        self._is_wanted = is_wanted
        self._rows = 0

    def enter(self, place: Place, prefix: str, base: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MalformedFile("a structure contains itself", offset=place.unit.offset + place.offset)
        embedded: list[tuple[Place, int]] = []
        for name, tag, attributes in self._info.rows(place):
            self._rows += 1
            if self._rows > _MAX_MEMBERS:
                raise MalformedFile("a structure with too many members", offset=place.unit.offset + place.offset)
            try:
                offset, first_bit, bits = self._info.location(place.unit, attributes)
                target = self._info.type_of(place.unit, attributes)
                inner = self._info.inner(target)
                size = self._info.size_at(inner)
            except (Unsupported, TypeNotFound):
                continue
            if tag == dw.DW_TAG_INHERITANCE or name is None:
                if bits is None:
                    embedded.append((inner, base + offset))
            elif bits is not None and first_bit is not None:
                start = base * 8 + first_bit
                self._add(FlatMember(prefix + _own_name(name), start // 8, size, start % 8, bits))
            elif self._add(FlatMember(prefix + _own_name(name), base + offset, size)) and self._has_members(inner):
                self.enter(inner, f"{prefix}{_own_name(name)}.", base + offset, depth + 1)
        # What is nearer hides what is in a base class.
        for inner, offset in embedded:
            if self._has_members(inner):
                self.enter(inner, prefix, offset, depth + 1)

    def _add(self, member: FlatMember) -> bool:
        if member.path in self.found or not self._is_wanted(member.path):
            return False
        self.found[member.path] = member
        return True

    def _has_members(self, place: Place) -> bool:
        return self._info.index.entry(place)[0] in dw.STRUCTURES


def _own_name(name: str) -> str:
    # Compilers call the pointer to the virtual table _vptr.Class and _vptr$Class.
    return name.partition(".")[0].partition("$")[0]
