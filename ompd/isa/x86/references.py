"""Addresses that x86-64 and i386 code loads, calls or jumps to.

As with :mod:`ompd.isa.x86.patterns`, bytes that look like an instruction may be part of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# lea relative to the next instruction, then loads of an address itself. Matches may overlap.
_RELATIVE = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(....))", re.DOTALL)
_ABSOLUTE = re.compile(
    rb"(?:[\xb8-\xbf\x68]|\xc7\x04\x24|\xc7\x44\x24.|[\x48\x49]\xc7[\xc0-\xc7])(?=(....))", re.DOTALL
)
_WIDE = re.compile(rb"[\x48\x49][\xb8-\xbf](?=(.{8}))", re.DOTALL)
# lea of a distance from the module's global offset table. Position-independent 32-bit code keeps the table's address in
# a register.
_FROM_TABLE = re.compile(rb"\x8d[\x80-\xbf](?=(....))", re.DOTALL)
_CALL = re.compile(rb"[\xe8\xe9](?=(....))", re.DOTALL)
_MASK = (1 << 64) - 1


class Call(NamedTuple):
    """A call or jump at ``place``, the address of the instruction ``behind`` it, and its ``target``."""

    place: int
    behind: int
    target: int


class X86References:
    """Finds references in x86-64 and i386 code."""

    def loaded(self, code: bytes, start: int, table: int | None) -> Iterator[tuple[int, int]]:
        """Yield each place at which *code* may load an address, with that address.

        :param start: the address of the code
        :param table: the address of the module's ``_GLOBAL_OFFSET_TABLE_``, None for 64-bit code, which needs no table
        """
        for match in _RELATIVE.finditer(code):
            yield start + match.start(), start + match.end(1) + _number(match[1], signed=True)
        for pattern in (_ABSOLUTE, _WIDE):
            for match in pattern.finditer(code):
                yield start + match.start(), _number(match[1])
        for match in _FROM_TABLE.finditer(code) if table is not None else ():
            yield start + match.start(), (table or 0) + _number(match[1], signed=True)

    def calls(self, code: bytes, start: int, first: int = 0) -> Iterator[Call]:
        """Yield the direct calls and jumps that may be in *code* from index *first* on. *start* is the address of
        *code*.
        """
        for match in _CALL.finditer(code, first):
            behind = start + match.end(1)
            yield Call(start + match.start(), behind, (behind + _number(match[1], signed=True)) & _MASK)


def _number(data: bytes, *, signed: bool = False) -> int:
    return int.from_bytes(data, "little", signed=signed)
