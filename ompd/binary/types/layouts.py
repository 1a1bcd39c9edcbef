"""Types in the form that value formatting needs: typedefs followed, members, enumerators, dimensions. Results are
cached.

Only expressions over the address of an object read the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.expression import StackMachine
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.arrays import Dimension, dimensions, is_fortran
from ompd.binary.types.type_names import scoped_name
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, OmpdError, Unsupported

WHOLE = frozenset((dw.DW_ATE_ADDRESS, dw.DW_ATE_SIGNED, dw.DW_ATE_UNSIGNED))
CHARACTERS = frozenset((dw.DW_ATE_SIGNED_CHAR, dw.DW_ATE_UNSIGNED_CHAR, dw.DW_ATE_UTF, dw.DW_ATE_UCS, dw.DW_ATE_ASCII))
SIGNED = frozenset((dw.DW_ATE_SIGNED, dw.DW_ATE_SIGNED_CHAR))
REFERENCES = frozenset((dw.DW_TAG_REFERENCE_TYPE, dw.DW_TAG_RVALUE_REFERENCE_TYPE))
WIDE = {"wchar_t": "L", "char16_t": "u", "char32_t": "U"}
"""Character types wider than a byte, by their names in the source. In C these are typedefs of integers."""

_MAX_CHAIN = 64
_MAX_ENUMERATORS = 1 << 16
_MAX_SCALAR = 64

Read = Callable[[int, int], bytes]
"""Returns exactly the requested number of the target's bytes at an address, or raises MemoryFault."""


class Resolved(NamedTuple):
    """A type after typedefs and qualifiers have been followed: its definition, tag and attributes, and the names of the
    typedefs.
    """

    place: EntryRef
    tag: int
    attributes: dict[int, Value]
    names: tuple[str, ...]


class MemberRow(NamedTuple):
    """A member or base class: its name (None for an anonymous member), type and offset.

    ``first_bit`` and ``bits`` are set for a bit field, as in :class:`~ompd.binary.types.types.Member`. ``expression``
    computes the address of a virtual base class from the object's address.
    """

    name: str | None
    is_base: bool
    type: EntryRef
    offset: int
    first_bit: int | None
    bits: int | None
    expression: bytes | None


class Enumeration(NamedTuple):
    """An enumeration: its size in bytes, and the names of its enumerators by value, qualified as outside code spells
    them.

    ``flags`` are the enumerators if each is a separate bit, else None.
    """

    size: int
    names: dict[int, str]
    flags: tuple[tuple[int, str], ...] | None


class Scalar(NamedTuple):
    """A base type: ``DW_ATE_*``, size in bytes, name, the prefix of its character literals (``L``), and the byte order
    if it differs from the file's.
    """

    encoding: int
    size: int
    name: str
    prefix: str
    order: str | None


class _ObjectMachine(StackMachine):
    # Evaluates the expressions of types. They may use the address of the object.

    object_address = 0
    bias = 0

    def step(self, opcode: int) -> None:
        if opcode == dw.DW_OP_PUSH_OBJECT_ADDRESS:
            self.push(self.object_address)
            return
        super().step(opcode)
        if opcode == dw.DW_OP_ADDR:
            self.push(self.pop() + self.bias)


class BoundVariables(Protocol):
    """The variables that hold bounds of arrays."""

    def read(self, variable: EntryRef) -> int:
        """Return the value of the variable with this entry.

        :raises Unsupported: if it is not a variable of this frame
        """


class TypeReader:
    """Reads the types of one file. Without ``bound_variables``, arrays with bounds in variables are unsupported.

    :param read: reads the target, for descriptors and virtual tables
    :param bias: the difference between the target's addresses and the file's
    """

    bound_variables: BoundVariables | None = None

    def __init__(self, info: TypeInfo, read: Read, bias: int = 0) -> None:
        self.info = info
        self.read = read
        self._bias = bias
        self._types: dict[tuple[str, int, int], Resolved] = {}
        self._members: dict[tuple[str, int, int], tuple[MemberRow, ...]] = {}
        self._enumerations: dict[tuple[str, int, int], Enumeration] = {}
        self._scalars: dict[tuple[tuple[str, int, int], tuple[str, ...]], Scalar] = {}

    # Types

    def resolve(self, place: EntryRef) -> Resolved:
        """Return the type at *place* after following typedefs, qualifiers and declarations.

        :raises TypeNotFound: if the type is only declared
        :raises Unsupported: for void, and if the type is in another file
        """
        key = key_of(place)
        if key not in self._types:
            names: list[str] = []
            definition = place
            for _ in range(_MAX_CHAIN):
                tag, attributes = self.info.index.entry(definition)
                if (tag != dw.DW_TAG_TYPEDEF and tag not in dw.QUALIFIERS) or dw.DW_AT_TYPE not in attributes:
                    break
                name = definition.unit.string(attributes.get(dw.DW_AT_NAME))
                if tag == dw.DW_TAG_TYPEDEF and name is not None:
                    names.append(name)
                definition = self.info.target(definition.unit, attributes[dw.DW_AT_TYPE])
            definition = self.info.inner(definition)
            tag, attributes = self.info.index.entry(definition)
            self._types[key] = Resolved(definition, tag, attributes, tuple(names))
        return self._types[key]

    def scalar(self, place: EntryRef, attributes: dict[int, Value], names: Sequence[str]) -> Scalar:
        """Return the base type at *place*, a result of :meth:`resolve`."""
        key = key_of(place), tuple(names)
        if key not in self._scalars:
            self._scalars[key] = self._scalar(place, attributes, names)
        return self._scalars[key]

    def _scalar(self, place: EntryRef, attributes: dict[int, Value], names: Sequence[str]) -> Scalar:
        unit = place.unit
        encoding = unit.number(attributes.get(dw.DW_AT_ENCODING)) or 0
        size = self.info.size_at(place)
        if not 0 < size <= _MAX_SCALAR:
            raise Unsupported(f"a base type of {size} bytes")
        name = unit.string(attributes.get(dw.DW_AT_NAME)) or ""
        prefix = next((WIDE[alias] for alias in (*names, name) if alias in WIDE), "")
        marks = {1: "big", 2: "little"}
        order = marks.get(unit.number(attributes.get(dw.DW_AT_ENDIANITY)) or 0)
        return Scalar(encoding, size, name, prefix, order)

    def character(self, place: EntryRef | None) -> tuple[int, str, bool] | None:
        """Return width in bytes and prefix of a character type, and whether it is ``char`` itself.

        None for other types. In C, integers of one byte count as characters.
        """
        if place is None:
            return None
        try:
            definition, tag, attributes, names = self.resolve(place)
            if tag != dw.DW_TAG_BASE_TYPE:
                return None
            scalar = self.scalar(definition, attributes, names)
            if is_fortran(definition.unit):
                return (4, "4_", True) if scalar.name == "character(kind=4)" and scalar.size == 4 else None
        except OmpdError:
            return None
        if scalar.encoding == dw.DW_ATE_UTF:
            return scalar.size, {2: "u", 4: "U"}.get(scalar.size, ""), True
        if scalar.prefix and scalar.size in (2, 4):
            return scalar.size, scalar.prefix, True
        if scalar.size == 1 and scalar.encoding in CHARACTERS | WHOLE:
            return 1, "", scalar.name == "char"
        return None

    def members(self, place: EntryRef) -> tuple[MemberRow, ...]:
        """Return base classes and data members of the structure at *place*, in the file's order."""
        key = key_of(place)
        if key not in self._members:
            rows: list[MemberRow] = []
            unit = place.unit
            for name, tag, attributes in self.info.rows(place):
                type_ = self.info.type_of(unit, attributes)
                location = attributes.get(dw.DW_AT_DATA_MEMBER_LOCATION)
                expression = None
                try:
                    offset, first_bit, bits = self.info.location(unit, attributes)
                except Unsupported:
                    if location is None or not isinstance(location.raw, bytes):
                        raise
                    offset, first_bit, bits, expression = 0, None, None, location.raw
                if name is None and bits is not None:
                    continue  # padding
                rows.append(MemberRow(name, tag == dw.DW_TAG_INHERITANCE, type_, offset, first_bit, bits, expression))
            self._members[key] = tuple(rows)
        return self._members[key]

    def enumeration(self, place: EntryRef) -> Enumeration:
        """Return the enumeration at *place*."""
        key = key_of(place)
        if key not in self._enumerations:
            unit = place.unit
            _, own_attributes = self.info.index.entry(place)
            names: dict[int, str] = {}
            prefix = ""
            for _, attributes in self.info.index.children(place, (dw.DW_TAG_ENUMERATOR,)):
                value = attributes.get(dw.DW_AT_CONST_VALUE)
                name = unit.string(attributes.get(dw.DW_AT_NAME))
                if value is None or name is None:
                    continue
                if not names:
                    # An enumerator's name is in the scope around the enumeration, or in the enumeration itself.
                    scope = scoped_name(self.info, place, "").removesuffix("::")
                    is_class = dw.DW_AT_ENUM_CLASS in own_attributes
                    own_name = unit.string(own_attributes.get(dw.DW_AT_NAME)) if is_class else None
                    prefix = "::".join(part for part in (scope, own_name) if part)
                if isinstance(value.raw, int):
                    names.setdefault(value.raw, f"{prefix}::{name}" if prefix else name)
                if len(names) > _MAX_ENUMERATORS:
                    raise MalformedFile("an enumeration of too many values")
            size = self.info.size_at(place)
            if not 0 < size <= _MAX_SCALAR:
                raise Unsupported(f"an enumeration of {size} bytes")
            flags = tuple(names.items()) if all(v >= 0 and v & v - 1 == 0 for v in names) else None
            self._enumerations[key] = Enumeration(size, names, flags)
        return self._enumerations[key]

    def evaluate(self, place: EntryRef, expression: bytes, address: int, initial: tuple[int, ...] = ()) -> int:
        """Return the value of *expression*, which belongs to the type at *place*, for the object at *address*."""
        machine = _ObjectMachine(
            expression,
            {},
            self.read,
            initial=initial,
            pointer_size=place.unit.address_size,
            byte_order=place.unit.sections.byte_order,
        )
        machine.object_address, machine.bias = address, self._bias
        machine.run()
        return machine.pop()

    def missing(self, place: EntryRef, attributes: dict[int, Value], address: int | None) -> str | None:
        """Return in gdb's words why the descriptor at *address* has no array, None if it has one."""
        for attribute, text in ((dw.DW_AT_ALLOCATED, "<not allocated>"), (dw.DW_AT_ASSOCIATED, "<not associated>")):
            value = attributes.get(attribute)
            if value is None:
                continue
            if isinstance(value.raw, bytes):
                if address is None:
                    raise Unsupported("an array whose descriptor is not in memory")
                if not self.evaluate(place, value.raw, address):
                    return text
            elif not value.raw:
                return text
        return None

    def data_start(self, place: EntryRef, attributes: dict[int, Value], address: int | None) -> int | None:
        """Return the address of a descriptor's data, None if the type at *place* has no descriptor."""
        moved = attributes.get(dw.DW_AT_DATA_LOCATION)
        if moved is None or not isinstance(moved.raw, bytes):
            return None
        if address is None:
            raise Unsupported("an array whose descriptor is not in memory")
        return self.evaluate(place, moved.raw, address)

    def dimensions(
        self, place: EntryRef, attributes: dict[int, Value], element: EntryRef, address: int | None
    ) -> list[Dimension]:
        """Return the dimensions of the array at *place*, outermost first; see :func:`dimensions`."""
        bounds = _BoundsAt(self, place, address) if address is not None else None
        return dimensions(self.info, place, attributes, self.info.size_at(element), bounds)

    def follow(self, place: EntryRef, source: int | bytes) -> tuple[EntryRef, int | bytes]:
        """Return type and location of a value after following all references.

        Compilers pass shared variables of a region as references, and a shared pointer as a reference to a pointer.
        """
        for _ in range(_MAX_CHAIN):
            definition, tag, attributes, _ = self.resolve(place)
            if tag not in REFERENCES or dw.DW_AT_TYPE not in attributes:
                return place, source
            size = definition.unit.address_size
            raw = source[:size] if isinstance(source, bytes) else self.read(source, size)
            source = int.from_bytes(raw, definition.unit.sections.byte_order)
            place = self.info.target(definition.unit, attributes[dw.DW_AT_TYPE])
        raise MalformedFile("references to references without end")

    def size_of(self, place: EntryRef) -> int | None:
        """Return the size in bytes of the type at *place*, None if it is unknown."""
        try:
            return self.info.size_at(place)
        except OmpdError:
            return None


class _BoundsAt:
    # The bounds of the array at an address, whose type is at *place*.

    def __init__(self, types: TypeReader, place: EntryRef, address: int) -> None:
        self._types, self._place, self._address = types, place, address

    def read(self, value: Value) -> int:
        types = self._types
        if isinstance(value.raw, bytes):
            return types.evaluate(self._place, value.raw, self._address)
        if types.bound_variables is None:
            raise Unsupported("an array whose bounds are in another variable")
        return types.bound_variables.read(types.info.target(self._place.unit, value))


def key_of(place: EntryRef) -> tuple[str, int, int]:
    """Return a key for *place* that is unique in its file."""
    return place.unit.section, place.unit.offset, place.offset
