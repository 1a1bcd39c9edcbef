"""The description of a processor for the Unicorn emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class LoopRules(NamedTuple):
    """How the loops of a thread are emulated, from the thread's registers.

    ``registers`` are names of our registers with those of unicorn's constants: all that the comparison of two passes
    needs. ``flags`` is the name of the register of flags among ours, ``kept_flags`` the bits of it that a program may
    set. ``prepare`` does what :attr:`EmulatedMachine.prepare` does. It also forbids all instructions that use registers
    outside of ``registers``, such as those of vectors. ``system_call`` is unicorn's constant of the instruction that
    calls the kernel, and ``number`` the register of its number and result. ``yields`` are the numbers of calls that
    only let other threads run, and return 0. ``after_call`` are the registers that a call overwrites, with the
    register of which each gets the value. ``unsteady`` matches instructions whose results may differ from one time to
    the next, or on another processor.
    """

    registers: tuple[tuple[str, str], ...]
    flags: str
    kept_flags: int
    prepare: Callable[[Any, Any, int], None]
    system_call: str
    number: str
    yields: frozenset[int]
    after_call: tuple[tuple[str, str], ...]
    unsteady: re.Pattern[bytes]


class EmulatedMachine(NamedTuple):
    """A processor as unicorn emulates it.

    ``arch``, ``mode``, ``model`` and the registers are names of unicorn's constants. ``constants`` names the unicorn
    module with the processor's constants. Before a call the stack is aligned to 16 bytes; the call pushes a return
    address of ``return_size`` bytes. ``foreign`` are instructions, each with the reason to stop: unicorn would execute
    them although a program may not, or would answer for another processor. ``exceptions`` maps the numbers of
    exceptions to reasons.

    A new emulator runs in kernel mode. ``leave_kernel`` is code that enters user mode, where clocks, halts and the like
    are forbidden. ``prepare`` sets the registers for that code, given the address at which to continue. Values remain
    in the registers ``left``. ``loops`` is None if loops are not emulated on this processor.
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
    loops: LoopRules | None = None
