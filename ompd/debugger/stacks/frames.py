"""Frames of a native stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

How = Literal["innermost", "cfi", "frame-pointer", "scan"]
"""How a frame was found: by the thread's own registers; by the inner frame's unwind data, or what the kernel saved for
it; by a guess with the inner frame's frame pointer; by a guess with a likely return address.
"""


class Frame(NamedTuple):
    """One frame of a native stack."""

    pc: int
    cfa: int | None  # canonical frame address; None if it is unknown
    sp: int
    registers: Mapping[int, int]  # by DWARF number; unknown registers are absent
    function_start: int | None  # the beginning of the function, or part of one, by unwind data; None without
    is_signal_frame: bool  # the kernel's frame below a signal handler
    how: How
    interrupted: bool  # the frame inside of this one is a signal frame, so the pc is not behind a call
    guessed: bool  # this frame, or one inside of it, was found by a guess
    call_site: int
    """The address to look up in symbols and line tables.

    For a caller it is one byte before the pc, and so inside of the call. The code behind a call that does not return
    may belong to another line or function. For the innermost frame, a signal frame and a frame that a signal
    interrupted, it is the pc.
    """
