"""How architectures make a system call: what tells the word that a sleeping thread waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SystemCalls(NamedTuple):
    """``instruction`` is what stands before the pc of a thread that is in a system call. ``first_argument`` is the
    DWARF number of the register with the first argument, which the kernel keeps.
    """

    instruction: bytes
    first_argument: int


# By the name of a register that the architecture alone has.
_BY_REGISTER = {
    "rdi": SystemCalls(b"\x0f\x05", 5),
    "x0": SystemCalls(b"\x01\x00\x00\xd4", 0),
}


def system_calls(registers: Mapping[str, int]) -> SystemCalls | None:
    """Return the convention of the architecture that has these *registers*, None if it is not known."""
    return next((calls for name, calls in _BY_REGISTER.items() if name in registers), None)
