"""The description of a processor for the Unicorn emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class EmulatedMachine(NamedTuple):
    """A processor as unicorn emulates it.

    ``arch``, ``mode``, ``model`` and the registers are names of unicorn's constants. ``constants`` names the unicorn
    module with the processor's constants. Before a call the stack is aligned to 16 bytes; the call pushes a return
    address of ``return_size`` bytes. ``foreign`` are instructions, each with the reason to stop: unicorn would execute
    them although a program may not, or would answer for another processor. ``exceptions`` maps the numbers of
    exceptions to reasons.

    A new emulator runs in kernel mode. ``leave_kernel`` is code that enters user mode, where clocks, halts and the like
    are forbidden. ``prepare`` sets the registers for that code, given the address at which to continue. Values remain
    in the registers ``left``.
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
