"""Chooses the places of a breakpoint among those that a debugger finds for a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ompd import naming
from ompd.isa.architecture import Architecture
from ompd.isa.processors import references_of
from ompd.questions import walking


class Spot(NamedTuple):
    """A code location that a debugger finds for a line: address, and symbol of the function."""

    address: int
    function: str


class Code(Protocol):
    """The code of a program, as a debugger reads it."""

    @property
    def architecture(self) -> Architecture | None:
        """The program's architecture, None if it is not supported."""
        ...

    def symbol_at(self, address: int) -> tuple[str, int] | None:
        """Return the linker's name of the symbol around *address*, and the offset of *address* in it, in bytes.

        None if there is no symbol.
        """
        ...

    def read(self, start: int) -> bytes:
        """Return the first bytes of the function at *start*, and perhaps code after it. Empty if it is unreadable."""
        ...

    def behind_prologue(self, entry: int) -> int:
        """Return the address at which the debugger stops in the function at *entry*."""
        ...


def choose_spots(spots: Sequence[Spot]) -> list[Spot]:
    """Return the locations of a line for a breakpoint: one for each function if the line is in a construct's code.

    A construct's first line also has code in the enclosing function, and clang adds a wrapper around its body.
    """
    by_user = [spot for spot in spots if not naming.is_added(spot.function)]
    in_construct = [spot for spot in by_user if naming.is_construct_code(spot.function)]
    if not in_construct:
        return by_user or list(spots)
    bodies = [spot for spot in in_construct if naming.is_body(spot.function) or naming.is_by_gcc(spot.function)]
    first_of_function: dict[str, Spot] = {}
    for spot in sorted(bodies or in_construct):
        first_of_function.setdefault(spot.function, spot)
    return list(first_of_function.values())


def body_of(code: Code, spot: Spot) -> Spot:
    """Return the beginning of the user's code if clang's function at *spot* only calls it, otherwise *spot*."""
    symbol, architecture = code.symbol_at(spot.address), code.architecture
    may_call_body = naming.is_construct_code(spot.function) and not naming.is_by_gcc(spot.function)
    references = references_of(architecture.e_machine) if architecture is not None else None
    if symbol is None or references is None or not may_call_body:
        return spot
    start = spot.address - symbol[1]
    body = walking.body_called(references.calls(code.read(start), start), start, code.symbol_at)
    if body is None:
        return spot
    body_symbol = code.symbol_at(body)
    return Spot(code.behind_prologue(body), body_symbol[0] if body_symbol is not None else "")
