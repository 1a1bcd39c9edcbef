"""Instructions as decoders return them, and the calling convention of a processor.

Registers are given by their numbers in unwind tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FLAGS = -1
"""The number that stands for the flags, which hold the result of the last comparison."""


class Operand(NamedTuple):
    """An operand in memory, at the address ``base`` + ``displacement``. Without ``base``, ``displacement`` is the
    address.

    If ``is_indexed`` is True, the processor also adds the register ``also`` or a segment base, so the address is
    unknown here.
    """

    base: int | None
    is_indexed: bool
    displacement: int
    also: int | None = None


class Instruction(NamedTuple):
    """One instruction.

    ``flow`` is ``next``, ``jump``, ``branch`` (conditional), ``call``, ``return``, ``stop`` (no code follows), or
    ``computed`` (a jump with an unknown target). A jump, branch or call goes to ``target``, or to the address in the
    word at ``word``; with neither, the target is unknown. ``on_zero`` is True for a branch that is taken if the last
    comparison found equality, False for a branch that is taken if it did not, None for any other branch.

    ``does`` is the instruction's effect on the register ``to``, or on memory:

    - ``copy``: ``to`` = ``source``; ``constant``: ``to`` = ``value``; ``address``: ``to`` = the address of ``operand``;
    - ``load``, ``store``: ``width`` bytes between a register and ``operand``;
    - ``add``: ``to`` += ``value``; ``flip``: invert the lowest bit of ``to``, or, with the ``value`` -1, all bits;
    - ``push``, ``pop``; ``leave``: the stack pointer becomes the frame pointer, which is popped then;
    - ``compare``: ``source``, or ``operand``, with ``value``; ``bit``: the lowest bit of ``source`` with 0;
    - ``set``: ``to`` = 1 if the last comparison found equal, and ``value`` is 1, or found unequal, and ``value`` is 0;
    - empty for anything else.

    A call through a pointer takes the pointer from ``source``, or from memory at ``operand``. ``clobbers`` are
    registers whose values are unknown afterwards. If ``stores`` is True, memory at ``operand`` is unknown afterwards,
    or, without an operand, all memory. If ``keeps_flags`` is True, the result of the last comparison stays valid.
    ``compares`` are further registers that the instruction compares. ``reads`` are registers that it may read besides
    all these, including :data:`FLAGS` and vector registers. An instruction that reads vector registers may also write
    one of them.
    """

    address: int
    size: int
    flow: str = "next"
    target: int | None = None
    word: int | None = None
    on_zero: bool | None = None
    does: str = ""
    to: int | None = None
    source: int | None = None
    value: int = 0
    operand: Operand | None = None
    width: int = 0
    clobbers: tuple[int, ...] = ()
    stores: bool = False
    keeps_flags: bool = False
    compares: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The address after the instruction."""
        return self.address + self.size


class SignalActions(NamedTuple):
    """The system call that installs a signal handler, and the system calls that are harmless within a handler.

    ``rt_sigaction`` is the number of the system call, ``sa_flags`` the offset of that member in glibc's ``struct
    sigaction`` (``bits/sigaction.h``), and ``sa_restart`` the flag SA_RESTART. ``harmless`` are numbers of system calls
    that release no waiting thread: ``write``, ``getpid``, ``exit``, ``gettid``, ``tkill``, ``exit_group``, ``tgkill``.
    """

    rt_sigaction: int
    sa_flags: int
    sa_restart: int
    harmless: tuple[int, ...]


class Processor(NamedTuple):
    """The instructions and the calling convention of one processor, by its psABI.

    ``decode`` takes code, an index into the code, and the address of the byte at that index. It returns None if no
    instruction is there. ``arguments`` are the registers of the first arguments that are numbers or pointers,
    ``result`` is the register of such a result, and ``caller_saved`` are the registers that a call does not preserve.
    ``first_vector`` is the first vector register, which holds results that are not integers or pointers. At a
    function's entry, the CFA is ``entry_distance`` bytes above the stack pointer. ``calls`` is a regular expression
    with an empty match before each call and each far jump, with the groups ``through`` and ``distance`` as in
    :class:`ompd.isa.architecture.CallPatterns`. ``loads`` is the same for loads of words at a ``distance``. An
    instruction has at most ``max_size`` bytes; ``system_call`` is the instruction that calls the kernel.
    """

    decode: Callable[[bytes, int, int], Instruction | None]
    arguments: tuple[int, ...]
    result: int
    stack_pointer: int
    frame_pointer: int
    caller_saved: tuple[int, ...]
    first_vector: int
    entry_distance: int
    calls: bytes
    loads: bytes
    max_size: int
    system_call: bytes
    signals: SignalActions
