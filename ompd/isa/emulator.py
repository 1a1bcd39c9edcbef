"""The description of a processor for the emulator unicorn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class EmulatedMachine(NamedTuple):
    """A processor as unicorn emulates it.

    ``arch``, ``mode``, ``model`` and the registers are names of unicorn's constants, and ``constants`` is its module
    that has those of the processor. A call leaves a return address of ``return_size`` bytes on a stack that was aligned
    to 16 bytes before. ``foreign`` are instructions, each with the reason, that unicorn would carry out although no
    program may, or would answer for another processor. ``exceptions`` are reasons by the number of an exception.

    A new emulator runs as a kernel does. ``leave_kernel`` is code that goes on as a program, to which clocks, halts and
    the like are forbidden. ``prepare`` makes that ready, given where to go on; it leaves values in the registers
    ``left``.
    """

    arch: str
    mode: str
    constants: str
    model: str
    stack_pointer: str
    program_counter: str
    thread_pointer: str
    result: str
    arguments: tuple[str, ...]
    return_size: int
    foreign: tuple[tuple[str, str], ...]
    exceptions: Mapping[int, str]
    leave_kernel: bytes
    prepare: Callable[[Any, Any, int], None]
    left: tuple[str, ...]
