"""Sizes of types and places of their members, by DWARF 2 to 5 (DWARF 5, chapter 5). No target is read.

Every walk along references or lists in the file is bounded. A file with an endless chain is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from ompd.binary.cursor import ByteOrder, Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import DebugFiles, OtherFiles
from ompd.binary.dwarf.forms import CONSTANTS, Value
from ompd.binary.dwarf.index import EntryRef, TypeIndex
from ompd.binary.dwarf.units import Unit
from ompd.binary.elf.elf import ElfFile
from ompd.errors import FieldNotFound, MalformedFile, TypeNotFound, Unsupported

_POINTERS = frozenset((dw.DW_TAG_POINTER_TYPE, dw.DW_TAG_REFERENCE_TYPE, dw.DW_TAG_RVALUE_REFERENCE_TYPE))
_COUNTED = frozenset((dw.DW_TAG_SUBRANGE_TYPE, dw.DW_TAG_ENUMERATION_TYPE))


# The tags that "struct X" and the like can find. A name without such a keyword means a typedef or a base type before a
# structure, a union or an enumeration of the same name.
_KEYWORDS = {
    "struct": (dw.DW_TAG_STRUCTURE_TYPE, dw.DW_TAG_CLASS_TYPE),
    "class": (dw.DW_TAG_CLASS_TYPE, dw.DW_TAG_STRUCTURE_TYPE),
    "union": (dw.DW_TAG_UNION_TYPE,),
    "enum": (dw.DW_TAG_ENUMERATION_TYPE,),
}
_ANY = (frozenset((dw.DW_TAG_TYPEDEF, dw.DW_TAG_BASE_TYPE)), dw.NAMED_TYPES - {dw.DW_TAG_TYPEDEF, dw.DW_TAG_BASE_TYPE})
_STEP = r"([^.\[\]]+)((?:\[\d{1,9}\])*)"

_MAX_CHAIN = 64
_MAX_SEARCHES = 8
_MAX_MEMBERS = 1 << 16
# The largest number of base classes and unnamed members in one structure, at all levels together. In a malformed
# structure that contains itself twice, their number doubles at each level.
_MAX_EMBEDDED = 1 << 11
_MAX_BYTES = 1 << 48


class Member(NamedTuple):
    """A member: ``offset`` from the outer structure's start and ``size``, in bytes.

    For a bit field, ``offset`` and ``size`` describe the bytes that contain it. ``first_bit`` counts from the
    structure's start; within a byte, it counts from the least significant bit if the target is little-endian, else from
    the most significant bit. ``bits`` is the width. ``first_bit`` and ``bits`` are None for other members.
    """

    offset: int
    size: int
    first_bit: int | None = None
    bits: int | None = None


class DwarfType:
    """A type, after typedefs and qualifiers have been followed.

    ``name`` is the requested name, ``place`` the entry of the type.
    """

    __slots__ = ("_info", "name", "place")

    def __init__(self, name: str, info: TypeInfo, place: EntryRef) -> None:
        self.name = name
        self.place = place
        self._info = info

    @property
    def size(self) -> int:
        """The type's size in bytes.

        :raises MalformedFile: if the file contradicts itself
        :raises Unsupported: if the size is computed at run time
        """
        return self._info.size_at(self.place)

    @property
    def byte_order(self) -> ByteOrder:
        """Byte order of the file with the type."""
        return self.place.unit.sections.byte_order

    def member(self, path: str) -> Member:
        """Return the member at *path*.

        :param path: a member's name; a dot precedes the name of a member of an embedded structure. ``name[2]`` is an
            element. Before a dot, an array without an index stands for its first element
        :raises FieldNotFound: if the type has no such member
        :raises MalformedFile: if the file contradicts itself
        :raises Unsupported: if the member's offset or size is computed at run time
        """
        return self._info.member_at(self.place, path, self.name)


class TypeInfo:
    """The types in the DWARF of one file (a module or its separate debug file) and of files that it refers to.

    :param others: finds split and supplementary files, None without any
    :param files: the file's debug information, if it is shared with other readers
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None, files: DebugFiles | None = None) -> None:
        self._name = elf.name
        self.index = TypeIndex(elf, others, files)
        self._found: dict[str, DwarfType | None] = {}
        self._searched: list[str] = []  # names of declarations whose definitions are currently searched
        self._members: dict[tuple[str, int, int], _Members] = {}
        self._sizes: dict[tuple[str, int, int], int] = {}

    def find(self, name: str) -> DwarfType | None:
        """Return the type called *name*, None if the file does not define it.

        The name may begin with ``struct``, ``class``, ``union`` or ``enum``, and may be qualified by scopes (``::``).
        An unqualified name is first searched outside of all scopes.

        :raises TypeNotFound: if several types of different sizes have that name
        :raises MalformedFile: if the entries are malformed
        """
        if name not in self._found:
            self._found[name] = self._find(" ".join(name.split()))
        return self._found[name]

    def _find(self, name: str) -> DwarfType | None:
        keyword, _, bare_name = name.partition(" ")
        tags = _KEYWORDS.get(keyword)
        if tags is not None and bare_name:
            return self._look_up(name, bare_name, (frozenset(tags),))
        return self._look_up(name, name, _ANY)

    def _look_up(self, name: str, qualified: str, choices: Sequence[frozenset[int]]) -> DwarfType | None:
        outer, last = _split(qualified)
        for in_strings in (True, False):
            candidates = self.index.candidates(last, in_strings=in_strings)
            places = [EntryRef(unit, offset) for unit, offsets in candidates for offset in offsets]
            for tags in choices:
                likely = [place for place in places if self._is(place, last, tags)]
                best = self._best(likely, outer)
                if best is not None:
                    self._check_sizes(name, best, likely, outer)
                    return DwarfType(name, self, self.inner(best))
        return None

    def _best(self, likely: Sequence[EntryRef], outer: tuple[str, ...]) -> EntryRef | None:
        # The first candidate that is an entry, preferably in exactly the scopes of *outer*.
        best = None
        for place in likely:
            scope = self.index.scope_of(place)
            if scope == outer:
                return place
            if best is None and _is_within(scope, outer):
                best = place
        return best

    def _check_sizes(self, name: str, best: EntryRef, likely: Sequence[EntryRef], outer: tuple[str, ...]) -> None:
        # Two C files may define different structures of the same name.
        size, is_same_scope = self._size_or_none(best), self.index.scope_of(best) == outer
        for place in likely:
            # The walk over the unit, which proves that *place* is an entry, comes last, because it is the most
            # expensive check.
            if self._size_or_none(place) in (None, size):
                continue
            scope = self.index.scope_of(place)
            if scope == outer if is_same_scope else _is_within(scope, outer):
                raise TypeNotFound(name, f"{self._name}, which has several of different sizes by that name")

    def _is(self, place: EntryRef, name: str, tags: frozenset[int]) -> bool:
        try:
            tag, attributes = self.index.entry(place)
            return (
                tag in tags
                and dw.DW_AT_DECLARATION not in attributes
                and place.unit.string(attributes.get(dw.DW_AT_NAME)) == name
            )
        except MalformedFile:
            return False  # the bytes match by chance

    def _size_or_none(self, place: EntryRef) -> int | None:
        try:
            return self.size_at(place)
        except (MalformedFile, Unsupported, TypeNotFound):
            return None

    # From type to type

    def target(self, unit: Unit, value: Value) -> EntryRef:
        """Return the entry that *value*, an attribute in *unit*, refers to."""
        return self.index.target(unit, value)

    def inner(self, place: EntryRef) -> EntryRef:
        """Return the type after following typedefs, qualifiers and declarations."""
        for _ in range(_MAX_CHAIN):
            tag, attributes = self.index.entry(place)
            if tag == dw.DW_TAG_TYPEDEF or tag in dw.QUALIFIERS:
                if dw.DW_AT_TYPE not in attributes:
                    raise Unsupported(f"{self._name}: void has neither size nor members")
                place = self.target(place.unit, attributes[dw.DW_AT_TYPE])
            elif dw.DW_AT_SIGNATURE in attributes:
                place = self.target(place.unit, attributes[dw.DW_AT_SIGNATURE])
            elif dw.DW_AT_DECLARATION in attributes and tag in dw.NAMED_TYPES:
                return self._defined_elsewhere(place, tag, attributes)
            else:
                return place
        raise MalformedFile(f"{self._name}: a chain of types does not end", offset=place.unit.offset + place.offset)

    def _defined_elsewhere(self, place: EntryRef, tag: int, attributes: dict[int, Value]) -> EntryRef:
        name = place.unit.string(attributes.get(dw.DW_AT_NAME)) or ""
        # No compiler writes a definition that refers back to a declaration.
        if name in self._searched or len(self._searched) > _MAX_SEARCHES:
            raise MalformedFile(f"{self._name}: declarations of {name!r} lead to each other")
        self._searched.append(name)
        try:
            definition = self._look_up(name, name, (frozenset((tag,)),)) if name else None
        finally:
            self._searched.pop()
        if definition is None:
            raise TypeNotFound(name, f"{self._name}, which only declares it")
        return definition.place

    # Sizes

    def size_at(self, place: EntryRef) -> int:
        """Return the size in bytes of the type at *place*, with errors as :attr:`DwarfType.size`."""
        key = place.unit.section, place.unit.offset, place.offset
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = self._size_at(place)
        return size

    def _size_at(self, place: EntryRef) -> int:
        total = 1
        for _ in range(_MAX_CHAIN):
            place = self.inner(place)
            tag, attributes = self.index.entry(place)
            size = place.unit.number(attributes.get(dw.DW_AT_BYTE_SIZE))
            if size is None and tag == dw.DW_TAG_ARRAY_TYPE and dw.DW_AT_TYPE in attributes:
                if dw.DW_AT_BYTE_STRIDE in attributes:
                    raise Unsupported(f"{self._name}: an array whose elements are apart")
                for count in self.counts(place):
                    total *= count
                place = self.target(place.unit, attributes[dw.DW_AT_TYPE])
                continue
            if size is None and tag in _POINTERS:
                size = place.unit.address_size
            if size is None and tag == dw.DW_TAG_ENUMERATION_TYPE and dw.DW_AT_TYPE in attributes:
                place = self.target(place.unit, attributes[dw.DW_AT_TYPE])
                continue
            if size is None:
                raise Unsupported(f"{self._name}: the size of a type (DWARF tag {tag:#x}) is unknown")
            if not 0 <= size * total < _MAX_BYTES:
                raise MalformedFile(f"{self._name}: a type of {size * total} bytes")
            return size * total
        raise MalformedFile(f"{self._name}: a chain of types does not end")

    def counts(self, place: EntryRef) -> list[int]:
        """Return the number of elements in each dimension of the array at *place*, outermost first. The number is 0
        without a bound, as in a flexible array.
        """
        unit = place.unit
        counts = []
        for _tag, attributes in self.index.children(place, _COUNTED):
            for attribute in (dw.DW_AT_COUNT, dw.DW_AT_LOWER_BOUND, dw.DW_AT_UPPER_BOUND):
                if attribute in attributes and not _is_constant(attributes[attribute]):
                    raise Unsupported(f"{self._name}: an array whose size is computed at run time")
            count = unit.number(attributes.get(dw.DW_AT_COUNT))
            upper = unit.number(attributes.get(dw.DW_AT_UPPER_BOUND))
            if count is None and upper is not None:
                lower = unit.number(attributes.get(dw.DW_AT_LOWER_BOUND))
                if lower is None:
                    lower = 1 if unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) in dw.FORTRAN_LANGUAGES else 0
                # Older releases of gcc write -1, in any size, as the last index of an empty array.
                count = 0 if upper in (-1, (1 << 32) - 1, (1 << 64) - 1) else upper - lower + 1
            counts.append(count or 0)
            if len(counts) > _MAX_CHAIN or counts[-1] < 0:
                raise MalformedFile(f"{self._name}: an array with absurd bounds")
        return counts

    # Members

    def member_at(self, place: EntryRef, path: str, name: str) -> Member:
        """Return the member at *path* of the structure at *place*, like :meth:`DwarfType.member`."""
        offset = 0
        steps = path.split(".")
        for number, step in enumerate(steps):
            parsed = re.fullmatch(_STEP, step)
            place = self._element_type(place)
            member = self._members_of(place).find(parsed[1]) if parsed is not None else None
            if parsed is None or member is None:
                raise FieldNotFound(name, ".".join(steps[: number + 1]))
            if member.bits is not None:
                if number + 1 < len(steps) or parsed[2]:
                    raise FieldNotFound(name, path)
                start, end = member.first_bit, member.first_bit + member.bits
                return Member(
                    offset + start // 8, -(-end // 8) - start // 8, offset * 8 + member.first_bit, member.bits
                )
            offset += member.offset
            place = member.type
            indexes = [int(text) for text in re.findall(r"\d+", parsed[2])]
            if indexes:
                size, shift = self._element(place, indexes, name, path)
                offset += shift
                if number + 1 == len(steps):
                    return Member(offset, size)
                place = self._element_type(place)
        return Member(offset, self.size_at(place))

    def _element_type(self, place: EntryRef) -> EntryRef:
        for _ in range(_MAX_CHAIN):
            place = self.inner(place)
            tag, attributes = self.index.entry(place)
            if tag != dw.DW_TAG_ARRAY_TYPE or dw.DW_AT_TYPE not in attributes:
                return place
            place = self.target(place.unit, attributes[dw.DW_AT_TYPE])
        raise MalformedFile(f"{self._name}: a chain of types does not end")

    def _element(self, place: EntryRef, indexes: list[int], name: str, path: str) -> tuple[int, int]:
        # Size and offset in the array of the element with these indexes, one for each dimension.
        place = self.inner(place)
        counts = self.counts(place) if self.index.entry(place)[0] == dw.DW_TAG_ARRAY_TYPE else []
        if len(counts) != len(indexes):
            raise FieldNotFound(name, path)
        position = 0
        for depth, (index, count) in enumerate(zip(indexes, counts, strict=True)):
            # If the outermost count is 0, the array is flexible: the type does not limit its size.
            if index >= count and (count or depth):
                raise FieldNotFound(name, path)
            position = position * count + index
        size = self.size_at(self.target(place.unit, self.index.entry(place)[1][dw.DW_AT_TYPE]))
        return size, position * size

    def _members_of(self, place: EntryRef) -> _Members:
        key = place.unit.section, place.unit.offset, place.offset
        if key not in self._members:
            tag = self.index.entry(place)[0]
            self._members[key] = _Members(self, place if tag in dw.STRUCTURES else None)
        return self._members[key]

    # Used by _Members

    def rows(self, place: EntryRef) -> Iterator[tuple[str | None, int, dict[int, Value]]]:
        """Yield name, tag and attributes of the data members and base classes of the structure at *place*."""
        for count, (tag, attributes) in enumerate(
            self.index.children(place, (dw.DW_TAG_MEMBER, dw.DW_TAG_INHERITANCE))
        ):
            if count > _MAX_MEMBERS:
                raise MalformedFile(f"{self._name}: a structure with too many members")
            # Before DWARF 5, static members of a C++ class have the tag of members, too.
            if dw.DW_AT_EXTERNAL not in attributes and dw.DW_AT_TYPE in attributes:
                yield place.unit.string(attributes.get(dw.DW_AT_NAME)), tag, attributes

    def type_of(self, unit: Unit, attributes: dict[int, Value]) -> EntryRef:
        """Return the type of a member."""
        return self.target(unit, attributes[dw.DW_AT_TYPE])

    def location(self, unit: Unit, attributes: dict[int, Value]) -> tuple[int, int | None, int | None]:
        """Return a member's offset in bytes and, for a bit field, the first bit from the structure's start and the
        width in bits, else None.
        """
        bits = unit.number(attributes.get(dw.DW_AT_BIT_SIZE))
        first_bit = unit.number(attributes.get(dw.DW_AT_DATA_BIT_OFFSET))
        offset = self._member_location(unit, attributes.get(dw.DW_AT_DATA_MEMBER_LOCATION))
        if bits is None:
            return (first_bit // 8 if first_bit is not None else offset), None, None
        if first_bit is None:
            # DWARF 3, 5.6.6: the bit field is in a storage unit, and bit_offset counts from its most significant bit.
            skipped = unit.number(attributes.get(dw.DW_AT_BIT_OFFSET)) or 0
            size = unit.number(attributes.get(dw.DW_AT_BYTE_SIZE))
            if size is None:
                size = self.size_at(self.type_of(unit, attributes))
            from_start = size * 8 - skipped - bits if unit.sections.byte_order == "little" else skipped
            first_bit = offset * 8 + from_start
        if not 0 < bits <= 1 << 16 or first_bit < 0:
            raise MalformedFile(f"{self._name}: a bit field of {bits} bits at {first_bit}")
        return 0, first_bit, bits

    def _member_location(self, unit: Unit, value: Value | None) -> int:
        if value is None:
            return 0
        if isinstance(value.raw, int):
            if _is_constant(value):
                offset = value.raw
            else:
                raise Unsupported(f"{self._name}: a member whose offset is computed at run time")
        else:
            cursor = Cursor(value.raw, unit.sections.byte_order, what=self._name)
            operation = cursor.byte()
            # The expression starts with the structure's address on the stack, and adds a constant to it.
            offset = cursor.uleb() if operation in (dw.DW_OP_PLUS_UCONST, dw.DW_OP_CONSTU) else -1
            remaining = value.raw[cursor.position :]
            if offset < 0 or remaining != (bytes((dw.DW_OP_PLUS,)) if operation == dw.DW_OP_CONSTU else b""):
                raise Unsupported(f"{self._name}: a member whose offset is computed at run time")
        if not 0 <= offset < _MAX_BYTES:
            raise MalformedFile(f"{self._name}: a member at offset {offset}")
        return offset


class _Found(NamedTuple):
    offset: int
    first_bit: int
    bits: int | None
    type: EntryRef


class _Members:
    # The members of one structure by name, including members of base classes and of unnamed members.

    def __init__(self, info: TypeInfo, place: EntryRef | None) -> None:
        self._info = info
        self._place = place

    def find(self, name: str) -> _Found | None:
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, _Found]:
        by_name: dict[str, _Found] = {}
        level = [] if self._place is None else [(self._place, 0)]
        visited: set[tuple[str, int, int, int]] = set()
        # By levels: a member hides members of base classes with the same name.
        while level:
            deeper: list[tuple[EntryRef, int]] = []
            for place, base in level:
                key = place.unit.section, place.unit.offset, place.offset, base
                if key in visited or len(visited) > _MAX_EMBEDDED:
                    raise MalformedFile("a structure contains itself", offset=place.unit.offset + place.offset)
                visited.add(key)
                for name, tag, attributes in self._info.rows(place):
                    embedded = tag == dw.DW_TAG_INHERITANCE or name is None
                    if name is not None and name in by_name:
                        continue
                    try:
                        offset, first_bit, bits = self._info.location(place.unit, attributes)
                        target = self._info.type_of(place.unit, attributes)
                        inner = self._info.inner(target) if embedded else target
                    except (Unsupported, TypeNotFound):
                        continue  # unknown: a virtual base class, or a type in another file
                    if embedded and bits is None:
                        deeper.append((inner, base + offset))
                    elif name is not None:
                        by_name[name] = _Found(base + offset, base * 8 + (first_bit or 0), bits, target)
            level = deeper
        return by_name


def _is_constant(value: Value) -> bool:
    # Whether a value is a constant, not a reference to a variable or, since DWARF 4, the offset of a location list.
    return isinstance(value.raw, int) and value.form in CONSTANTS


def _is_within(scope: tuple[str, ...] | None, outer: tuple[str, ...]) -> bool:
    return scope is not None and scope[len(scope) - len(outer) :] == outer


def _split(name: str) -> tuple[tuple[str, ...], str]:
    # The scopes and the name: "a::b<c::d>" is "b<c::d>" in scope "a".
    parts, depth, start = [], 0, 0
    for index, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if depth == 0 and name.startswith("::", index):
            parts.append(name[start:index])
            start = index + 2
    return tuple(part for part in parts if part), name[start:]


# The largest structure of a runtime has a hundred members, at five levels.
_MAX_STRUCTURES = 32
_MAX_FLAT_MEMBERS = 1 << 13


class FlatMember(NamedTuple):
    """A member of a structure or of an embedded structure, in bytes from the start of the outermost structure.

    ``path`` has the names of the enclosing members and the member's own, joined by dots. For a bit field, ``offset`` is
    the offset of its first byte, ``size`` the size of the declared type, ``first_bit`` the first bit in that byte, and
    ``bits`` the width. ``first_bit`` and ``bits`` are None for other members.
    """

    path: str
    offset: int
    size: int
    first_bit: int | None = None
    bits: int | None = None


def flat_members(info: TypeInfo, dwarf_type: DwarfType, is_wanted: Callable[[str], bool]) -> list[FlatMember]:
    """Return the members of a structure, ordered by offset, then by name.

    Members of base classes and unnamed members count as the structure's own. An array is one member. Members without a
    fixed offset or size are left out.

    :param is_wanted: called with the path of each member. If it returns False, this member and the members inside it
        are left out
    :raises MalformedFile: if the file contradicts itself, or the structure contains itself
    """
    walk = _MemberWalk(info, is_wanted)
    walk.enter(dwarf_type.place, "", 0, 0)
    return sorted(walk.found.values(), key=lambda member: (member.offset, member.path))


class _MemberWalk:
    def __init__(self, info: TypeInfo, is_wanted: Callable[[str], bool]) -> None:
        self.found: dict[str, FlatMember] = {}
        self._info = info
        self._is_wanted = is_wanted
        self._rows = 0

    def enter(self, place: EntryRef, prefix: str, base: int, depth: int) -> None:
        if depth > _MAX_STRUCTURES:
            raise MalformedFile("a structure contains itself", offset=place.unit.offset + place.offset)
        embedded: list[tuple[EntryRef, int]] = []
        for name, tag, attributes in self._info.rows(place):
            self._rows += 1
            if self._rows > _MAX_FLAT_MEMBERS:
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
        # A member hides members of base classes with the same name.
        for inner, offset in embedded:
            if self._has_members(inner):
                self.enter(inner, prefix, offset, depth + 1)

    def _add(self, member: FlatMember) -> bool:
        if member.path in self.found or not self._is_wanted(member.path):
            return False
        self.found[member.path] = member
        return True

    def _has_members(self, place: EntryRef) -> bool:
        return self._info.index.entry(place)[0] in dw.STRUCTURES


def _own_name(name: str) -> str:
    # Compilers call the pointer to the virtual table _vptr.Class and _vptr$Class.
    return name.partition(".")[0].partition("$")[0]
