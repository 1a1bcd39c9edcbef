"""What differs between processors: register numbers, calling convention, and how a core keeps registers.

The only tables in the package that name a processor. x86-64 is what the tests run on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ompd.contract.memory import ByteOrder
from ompd.debugger.formats.elf import EM_X86_64


class FrameRecord(NamedTuple):
    """Distances from the frame pointer: to the caller's frame pointer, to the return address, to the CFA."""

    frame_pointer: int
    return_address: int
    cfa: int


class CallPatterns(NamedTuple):
    """Regular expressions of machine code: ``address`` takes one of code as an argument, ``call`` calls, ``linkage`` is
    an entry of the linkage table, which jumps to where a word says.

    What they refer to is the group ``distance``, counted from the end, or the address itself, ``absolute``; both are
    little-endian. A call with the group ``through`` goes to where a word says.
    """

    address: bytes
    call: bytes
    linkage: bytes


class SystemCalls(NamedTuple):
    """How the kernel is called: ``instruction`` stands before the pc of a thread that sleeps in it; ``number`` is a
    regular expression for what says before it which call that is, the group of which is the little-endian number.
    ``first_argument`` and ``third_argument`` are the numbers of registers in unwind tables. ``futex`` and
    ``sched_yield`` are numbers of calls (Linux, ``unistd.h``).
    """

    instruction: bytes
    number: bytes
    first_argument: int
    third_argument: int
    futex: int
    sched_yield: int


@dataclass(frozen=True)
class Architecture:
    """One processor and ABI.

    ``registers`` are the names of ``elf_gregset_t`` in the kernel's order, each of ``pointer_size`` bytes, which begin
    at ``prstatus_registers`` in an ``NT_PRSTATUS`` note; ``prstatus_signal`` and ``prstatus_pid`` are where
    ``pr_cursig`` (2 bytes) and ``pr_pid`` (4 bytes) lie in it, ``prpsinfo_pid`` where ``pr_pid`` lies in
    ``NT_PRPSINFO`` (Linux ``include/uapi/linux/elfcore.h``). ``dwarf_registers`` maps register names to the numbers of
    unwind tables, ``callee_saved`` are the numbers whose value a call keeps (the processor's psABI). ``tls_variant`` is
    1 or 2, of U. Drepper's "ELF Handling For Thread-Local Storage", chapter 3: whether static TLS lies above the thread
    pointer, ``tcb_size`` bytes of control block between, or below it; ``tpoff_relocation`` is the number of the
    relocation (with addend) that asks the loader for a variable's distance from the thread pointer. ``x87`` says that
    ``long double`` is the x87's format of 80 bits.

    What machine code tells where no unwind data does: ``signal_returns`` are codes of the return from a signal handler,
    each with how far in them the pc may be; where it is there, ``signal_context`` tells at which distances from the
    stack pointer the interrupted registers lie, by the numbers of unwind tables. ``frame_record`` is what a function
    that keeps a frame pointer leaves where that points. ``call`` is a regular expression of all call instructions, of
    at most ``max_call_size`` bytes, the group ``distance`` of which is the little-endian distance from its end to the
    called code. ``edges`` are regular expressions for what lies before the pc and at it, where a function begins or
    ends, so that the return address is at a known distance from the stack pointer and nothing else has changed.
    ``calls`` find what a function is passed to, ``system_calls`` whether a thread sleeps; None where that is not known.
    """

    name: str
    e_machine: int
    elf_class: int
    pointer_size: int
    byte_order: ByteOrder
    prstatus_size: int
    prstatus_signal: int
    prstatus_pid: int
    prstatus_registers: int
    prpsinfo_pid: int
    registers: tuple[str, ...]
    dwarf_registers: Mapping[str, int]
    callee_saved: frozenset[int]
    pc: str
    sp: str
    fp: str
    thread_pointer: str
    return_address: int
    signal_returns: tuple[tuple[bytes, int], ...]
    signal_context: Mapping[int, int]
    frame_record: FrameRecord
    max_call_size: int
    call: bytes
    edges: tuple[tuple[bytes, bytes, int], ...]
    calls: CallPatterns | None

    @cached_property
    def prstatus_words(self) -> struct.Struct:
        """The registers of an ``NT_PRSTATUS`` note as :mod:`struct` reads them."""
        word = "Q" if self.pointer_size == 8 else "I"
        return struct.Struct(("<" if self.byte_order == "little" else ">") + word * len(self.registers))

    tls_variant: int
    tcb_size: int
    tpoff_relocation: int
    x87: bool = False
    system_calls: SystemCalls | None = None


# mov $15, %eax or %rax (rt_sigreturn); syscall
_SIGRETURN, _SIGRETURN_SHORT = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"

X86_64 = Architecture(
    name="x86_64",
    e_machine=EM_X86_64,
    elf_class=64,
    pointer_size=8,
    byte_order="little",
    prstatus_size=336,
    prstatus_signal=12,
    prstatus_pid=32,
    prstatus_registers=112,
    prpsinfo_pid=24,
    # struct user_regs_struct, arch/x86/include/uapi/asm/ptrace.h and <sys/user.h>
    registers=(
        *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
        *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
    ),
    # System V psABI for AMD64, figure 3.36; 16 is the column of the return address
    dwarf_registers={
        name: number
        for number, name in enumerate(
            (
                *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
                *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"),
            )
        )
    },
    callee_saved=frozenset((3, 6, 7, 12, 13, 14, 15)),
    pc="rip",
    sp="rsp",
    fp="rbp",
    thread_pointer="fs_base",
    return_address=16,
    signal_returns=((_SIGRETURN, 0), (_SIGRETURN, 7), (_SIGRETURN_SHORT, 0), (_SIGRETURN_SHORT, 5)),
    # struct ucontext, arch/x86/include/uapi/asm/sigcontext.h: r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip
    signal_context={
        number: 40 + 8 * index
        for index, number in enumerate((8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16))
    },
    frame_record=FrameRecord(0, 8, 16),
    max_call_size=7,
    # E8 with a distance, FF /2 with each form of operand (ModRM, SIB, displacement)
    call=rb"(?s:\xe8(?P<distance>....)"
    rb"|\xff(?:[\x10-\x13\x16\x17\xd0-\xd7]"
    rb"|\x14(?:[^\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d"
    rb"\x85\x8d\x95\x9d\xa5\xad\xb5\xbd\xc5\xcd\xd5\xdd\xe5\xed\xf5\xfd]|.....)"
    rb"|\x15....|[\x50-\x53\x55-\x57].|\x54..|[\x90-\x93\x95-\x97]....|\x94.....))\Z",
    edges=(
        # the linkage table's first entry: push of the module, jump to the loader; an index was pushed before
        (rb"\xff\x35(?s:....)\Z", rb"\xf2?\xff\x25", 16),
        (rb"", rb"\xff\x35(?s:....)\xf2?\xff\x25", 8),
        # its other entries: endbr64, jump through the table; push of an index, jump to the first entry
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?[\x3e\xf2]?\xff\x25", 0),
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?\x68(?s:....)\xf2?\xe9", 0),
        (rb"\x68(?s:....)\Z", rb"\xf2?\xe9", 8),
        # push %rbp; mov %rsp, %rbp
        (rb"", rb"(?:\xf3\x0f\x1e\xfa)?\x55\x48(?:\x89\xe5|\x8b\xec)", 0),
        (rb"\x55\Z", rb"\x48(?:\x89\xe5|\x8b\xec)", 8),
        # code on the stack that sets the static chain of a nested function: mov …, %r11; mov …, %r10; jmp *%r11
        (rb"", rb"(?s:\x49\xbb.{8}|\x41\xbb....)\x49\xba", 0),
        (rb"", rb"(?s:\x49\xba.{8})\x49\xff\xe3", 0),
        (rb"(?s:\x49\xba.{8})\Z", rb"\x49\xff\xe3", 0),
        # pop %rbp; ret
        (rb"", rb"[\xf2\xf3]?(?:\xc3|\xc2)", 0),
        (rb"", rb"\x5d[\xf2\xf3]?(?:\xc3|\xc2)", 8),
    ),
    calls=CallPatterns(
        # lea distance(%rip), any register; mov $address, %edi
        rb"(?s:[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?P<distance>....)|\xbf(?P<absolute>....))",
        rb"(?s:(?:\xe8|(?P<through>\xff\x15))(?P<distance>....))",
        rb"(?s:(?:\xf3\x0f\x1e\xfa)?[\x3e\xf2]?\xff\x25(?P<distance>....))",
    ),
    tls_variant=2,
    tcb_size=0,
    tpoff_relocation=18,  # R_X86_64_TPOFF64
    x87=True,
    system_calls=SystemCalls(b"\x0f\x05", rb"(?s:\xb8(..)\0\0)", 5, 1, 202, 24),  # mov $number, %eax
)

ARCHITECTURES: Mapping[int, Architecture] = {X86_64.e_machine: X86_64}
"""Architectures by ``e_machine``."""
