"""Frames of a native stack, and what undoes one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ompd.binary.cfi.program import Rule
from ompd.binary.cfi.tables import Row

How = Literal["innermost", "cfi", "frame-pointer", "scan"]
"""How a frame was found: the thread's own registers; the inner frame's unwind data, or what the kernel saved for it; a
guess by the inner frame's frame pointer; a guess by what looks like a return address.
"""


class Frame(NamedTuple):
    """One frame of a native stack."""

    pc: int
    cfa: int | None  # canonical frame address; None where nothing tells it
    sp: int
    registers: Mapping[int, int]  # by DWARF number; only those whose value in this frame is known
    function_start: int | None  # where unwind data says the function, or this part of it, begins; None as for cfa
    is_signal_frame: bool  # the kernel's frame below a signal handler
    how: How
    interrupted: bool  # the frame inside of this one is a signal frame, so the pc is not behind a call
    guessed: bool  # this frame, or one inside of it, was found by a guess
    call_site: int
    """The address to look up in symbols and line tables.

    For a caller it lies inside of the call, one byte before the pc: behind a call that does not return another line, or
    another function, may begin. It is the pc for the innermost frame, a signal frame and one that a signal interrupted.
    """


class Step(NamedTuple):
    """A row, made ready for use: the words that most frames save side by side are taken in one go."""

    row: Row
    function_start: int
    function_end: int
    cfa_register: int
    cfa_offset: int
    span_offset: int  # from the CFA to the first saved word
    span: struct.Struct
    columns: tuple[int, ...]  # register of each word; NOTHING for one that is none
    clears: tuple[int, ...]  # what has no value in the caller, or none yet: NOTHING, the callee's own return address
    rest: tuple[tuple[int, Rule], ...]  # rules of any other kind
    ends: bool  # the return address is undefined: the outermost frame
    is_plain: bool  # a register tells the CFA, and the words that are taken in one go all else


NOTHING = -1
"""No register, among those of a :class:`Step`."""
