"""Read the target: the protocol for bytes, and the only functions that decode integers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from ompd.errors import CorruptState, FieldNotFound
from ompd.records import record

ByteOrder = Literal["little", "big"]


class Memory(Protocol):
    """Bytes of a stopped target."""

    @property
    def byte_order(self) -> ByteOrder:
        """Byte order of the target's integers."""

    @property
    def pointer_size(self) -> int:
        """Size of a pointer of the target, in bytes."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at the target's virtual *address*.

        :raises MemoryFault: if one of the bytes cannot be read
        """


# Sizes of a target's integers, in bytes. A damaged table may give another size, and reading that many bytes would
# include neighbouring members.
INTEGER_SIZES = frozenset({1, 2, 4, 8})


def read_unsigned(memory: Memory, address: int, size: int) -> int:
    """Return the unsigned integer of *size* bytes at *address*.

    :raises CorruptState: if no integer has that size
    """
    _check_integer(address, size)
    return int.from_bytes(memory.read(address, size), memory.byte_order)


def read_signed(memory: Memory, address: int, size: int) -> int:
    """Return the two's complement integer of *size* bytes at *address*.

    :raises CorruptState: if no integer has that size
    """
    _check_integer(address, size)
    return int.from_bytes(memory.read(address, size), memory.byte_order, signed=True)


def _check_integer(address: int, size: int) -> None:
    if size not in INTEGER_SIZES:
        raise CorruptState(address, f"an integer is said to have {size} bytes")


def check_aligned(memory: Memory, address: int, what: str) -> None:
    """Check the address of a structure that has pointers in it.

    :raises CorruptState: if *address* is not aligned for a pointer: no compiler or allocator puts such a structure
        there
    """
    if address % memory.pointer_size:
        raise CorruptState(address, f"{what} is at an address that is no multiple of {memory.pointer_size}")


def read_pointer(memory: Memory, address: int) -> int | None:
    """Return the pointer at *address*, None for a null pointer."""
    return read_unsigned(memory, address, memory.pointer_size) or None


def read_words(memory: Memory, address: int, count: int) -> Sequence[int]:
    """Return *count* consecutive unsigned integers of pointer size, starting at *address*."""
    raw = memory.read(address, count * memory.pointer_size)
    order = "<" if memory.byte_order == "little" else ">"
    return struct.unpack(f"{order}{count}{'Q' if memory.pointer_size == 8 else 'I'}", raw)


@record
class Field:
    """Place of a structure's member: ``offset`` and ``size`` in bytes from the structure's start."""

    offset: int
    size: int


@record
class StructLayout:
    """The layout of one structure of the target, and its source.

    ``size`` is in bytes, None if unknown. ``masks`` are the masks of bit fields, for the whole structure read as one
    integer. ``source`` is ``published``, ``dwarf`` or ``table``. An unknown member is absent; 0 is a valid offset.
    ``faults`` has the members whose place is impossible: for each the address at which the target claims the place, and
    the reason.
    """

    name: str
    size: int | None
    fields: Mapping[str, Field]
    source: str
    masks: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def field(self, name: str) -> Field:
        """Return the place of member *name*.

        :raises FieldNotFound: if this layout does not have the member
        :raises CorruptState: if the member's place is impossible
        """
        try:
            return self.fields[name]
        except KeyError:
            if name in self.faults:
                raise CorruptState(*self.faults[name]) from None
            raise FieldNotFound(self.name, name) from None

    def without(self, faults: Mapping[str, tuple[int, str]]) -> StructLayout:
        """Return this layout with more *faults*: members with an impossible place, the address of the claim, and the
        reason.
        """
        fields = {name: where for name, where in self.fields.items() if name not in faults}
        return StructLayout(self.name, self.size, fields, self.source, self.masks, {**self.faults, **faults})

    def embedding(self, member: str, inner: StructLayout) -> StructLayout:
        """Return this layout with more members: those of *inner*, the layout of the structure in *member*."""
        start = self.field(member).offset
        moved = {name: Field(start + where.offset, where.size) for name, where in inner.fields.items()}
        faults = {**inner.faults, **self.faults}
        return StructLayout(self.name, self.size, {**moved, **self.fields}, self.source, self.masks, faults)


@record
class StructView:
    """One structure in the target. Reads are exact and happen on access."""

    memory: Memory
    layout: StructLayout
    address: int

    def unsigned(self, name: str) -> int:
        """Return member *name* as an unsigned integer."""
        where = self.layout.field(name)
        return read_unsigned(self.memory, self.address + where.offset, where.size)

    def signed(self, name: str) -> int:
        """Return member *name* as a signed integer."""
        where = self.layout.field(name)
        return read_signed(self.memory, self.address + where.offset, where.size)

    def pointer(self, name: str) -> int | None:
        """Return the address held in member *name*, None for a null pointer.

        :raises CorruptState: if no pointer can be at the member's place
        """
        where, size = self.layout.field(name), self.memory.pointer_size
        if where.size != size or where.offset % size:
            place = f"{where.size} bytes at offset {where.offset}"
            raise CorruptState(self.address, f"the pointer {self.layout.name}.{name} is said to be {place}")
        return self.unsigned(name) or None

    def address_of(self, name: str) -> int:
        """Return the address of member *name* itself."""
        return self.address + self.layout.field(name).offset
