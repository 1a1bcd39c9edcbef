"""Instructions as decoders return them, and the calling convention of a processor.

Registers are the numbers of unwind tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FLAGS = -1
"""In place of a register: the flags, which hold the result of the last comparison."""


class Operand(NamedTuple):
    """An operand in memory, at ``base`` + ``displacement``; without ``base``, ``displacement`` is its address.

    If it ``is_indexed``, the register ``also``, or the base of a segment, is added: its address is not computed then.
    """

    base: int | None
    is_indexed: bool
    displacement: int
    also: int | None = None


class Instruction(NamedTuple):
    """One instruction.

    ``flow`` is ``next``, ``jump``, ``branch`` (conditional), ``call``, ``return``, ``stop`` (nothing comes behind), or
    ``computed`` (a jump with an unknown target). A jump, branch or call leads to ``target``, or to the address in the
    word at ``word``; with neither, the target is unknown. ``on_zero`` is True for a branch that is taken if the last
    comparison found equal, False for one that is taken if not, None for any other.

    ``does`` is its effect on the register ``to``, or on memory:

    - ``copy``: ``to`` = ``source``; ``constant``: ``to`` = ``value``; ``address``: ``to`` = the address of ``operand``;
    - ``load``, ``store``: ``width`` bytes between a register and ``operand``;
    - ``add``: ``to`` += ``value``; ``flip``: invert the lowest bit of ``to``, or, with the ``value`` -1, all bits;
    - ``push``, ``pop``; ``leave``: the stack pointer becomes the frame pointer, which is popped then;
    - ``compare``: ``source``, or ``operand``, with ``value``; ``bit``: the lowest bit of ``source`` with 0;
    - ``set``: ``to`` = 1 if the last comparison found equal, and ``value`` is 1, or found unequal, and ``value`` is 0;
    - empty for anything else.

    A call by a pointer has that in ``source``, or at ``operand``. ``clobbers`` are registers with unknown values behind
    it. If it ``stores``, memory at ``operand`` is unknown, or, without an operand, all memory. If it ``keeps_flags``,
    the result of the last comparison is kept. ``compares`` are further registers that it compares. ``reads`` are
    registers that it may read besides all these, with :data:`FLAGS` and those of vectors; an instruction that reads
    vectors may write one of them.
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
        """The address behind it."""
        return self.address + self.size


class SignalActions(NamedTuple):
    """How code installs handlers of signals, and may run in them.

    ``rt_sigaction`` is the number of the system call, ``sa_flags`` the offset of that member in glibc's ``struct
    sigaction`` (``bits/sigaction.h``), and ``sa_restart`` the flag SA_RESTART. ``harmless`` are numbers of system calls
    that set no thread free: ``write``, ``getpid``, ``exit``, ``gettid``, ``tkill``, ``exit_group``, ``tgkill``.
    """

    rt_sigaction: int
    sa_flags: int
    sa_restart: int
    harmless: tuple[int, ...]


class Processor(NamedTuple):
    """The instructions and the calling convention of one processor, by its psABI.

    ``decode`` takes code, an index into it and the address of that; it returns None if no instruction is there.
    ``arguments`` are the registers of the first arguments that are numbers or pointers, ``result`` is that of a result,
    and ``lost`` are those that a call does not keep. ``first_vector`` is the first register of vectors, which has
    results that are no numbers. At a function's entry its CFA is ``entry_distance`` bytes above the stack pointer.
    ``calls`` is a regular expression whose empty matches are before a call or a jump to far away, with the groups
    ``through`` and ``distance`` as in :class:`ompd.isa.architecture.CallPatterns`; ``loads`` is one for loads of words
    at a ``distance``. An instruction has at most ``max_size`` bytes; ``system_call`` is the one that calls the kernel.
    """

    decode: Callable[[bytes, int, int], Instruction | None]
    arguments: tuple[int, ...]
    result: int
    stack_pointer: int
    frame_pointer: int
    lost: tuple[int, ...]
    first_vector: int
    entry_distance: int
    calls: bytes
    loads: bytes
    max_size: int
    system_call: bytes
    signals: SignalActions
