"""Frames of a native stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

How = Literal["innermost", "cfi", "frame-pointer", "scan"]
"""How a frame was found.

- ``innermost``: by the thread's own registers;
- ``cfi``: by the inner frame's unwind data, or by the registers that the kernel saved in a signal frame;
- ``frame-pointer``: by a guess with the inner frame's frame pointer;
- ``scan``: by a guess with a likely return address on the stack.
"""


class Frame(NamedTuple):
    """One frame of a native stack."""

    pc: int
    cfa: int | None  # canonical frame address; None if it is unknown
    sp: int
    registers: Mapping[int, int]  # by DWARF number; unknown registers are absent
    function_start: int | None  # the beginning of the function, or part of one; None if no unwind data has it
    is_signal_frame: bool  # whether this is the kernel's frame below a signal handler
    how: How
    interrupted: bool  # whether the next inner frame is a signal frame, so that the pc is not behind a call
    guessed: bool  # whether this frame, or one further inside, was found by a guess
    call_site: int
    """The address to look up in symbols and line tables.

    For a caller it is one byte before the pc, and so inside of the call. The pc itself would be wrong: the code behind
    a call that does not return may belong to another line or function. For the innermost frame, a signal frame and a
    frame that a signal interrupted, this address is the pc.
    """
