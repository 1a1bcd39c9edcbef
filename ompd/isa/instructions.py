"""Instructions as the tables of processors decode them, and what is the same for all code of a processor.

Registers are the numbers of unwind tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FLAGS = -1
"""In place of a register: the result of the last comparison."""


class Operand(NamedTuple):
    """A place in memory: ``base`` + ``also`` times a scale + ``displacement``. Without registers it is an address.

    ``is_indexed`` says that another register is added, ``also``, or a segment's base: where it is is not known then.
    """

    base: int | None
    is_indexed: bool
    displacement: int
    also: int | None = None


class Instruction(NamedTuple):
    """One instruction.

    ``flow`` is ``next``, ``jump``, ``branch`` (a jump or none), ``call``, ``return``, ``stop`` (nothing comes behind)
    or ``computed`` (a jump that code alone does not tell). A jump, branch or call leads to ``target``, or to where the
    word at ``word`` says, or, with neither, anywhere. ``on_zero`` is True for a branch that is taken where the last
    comparison found 0, False for one taken elsewhere, None for any other.

    ``does`` says what it does with registers: ``copy`` (``to`` becomes ``source``), ``constant`` (``value``),
    ``address`` (where ``operand`` is), ``load`` and ``store`` (of ``width`` bytes), ``add`` (``value``), ``flip`` (the
    lowest bit, or with the ``value`` -1 all), ``push``, ``pop``, ``leave`` (the stack pointer becomes the frame
    pointer, which is taken from there), ``compare`` (``source``, or what is at ``operand``, with ``value``), ``bit``
    (the lowest one of ``source`` with 0), ``set`` (whether the last comparison found ``value``: 1 for equal); ``""`` is
    anything else. A call by a pointer has that in ``source``, or at ``operand``. ``clobbers`` are the registers whose
    values are unknown then; ``stores`` says that memory at ``operand`` is, or that anywhere without one.
    ``keeps_flags`` says that the result of the last comparison is still there. ``compares`` are further registers that
    it compares; what else it does with memory is at ``operand``, too. ``reads`` are registers that it may read besides
    all these, :data:`FLAGS` among them, and those of vectors, which are written by what reads them.
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
    """What all code of one processor has in common, by its psABI.

    ``decode`` takes code, an index into it and the address of that; it returns None for what is no instruction.
    ``arguments`` are the registers of the first arguments that are numbers or pointers, ``result`` that of a result,
    ``lost`` those that a call does not keep; ``first_vector`` is the first register of vectors, which has results that
    are no numbers. Where a function begins, its CFA is ``entry_distance`` bytes above the stack pointer. ``calls`` is a
    regular expression that matches nothing but the place before a call or a jump to far away, with the groups
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
