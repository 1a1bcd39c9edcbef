"""What differs between processors: register numbers, calling convention, and how a core keeps registers.

The only tables in the package that name a processor. x86-64 is what the tests run on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ompd.contract.memory import ByteOrder
from ompd.debugger.formats.elf import EM_X86_64


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
    relocation (with addend) that asks the loader for a variable's distance from the thread pointer.
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

    @cached_property
    def prstatus_words(self) -> struct.Struct:
        """The registers of an ``NT_PRSTATUS`` note as :mod:`struct` reads them."""
        word = "Q" if self.pointer_size == 8 else "I"
        return struct.Struct(("<" if self.byte_order == "little" else ">") + word * len(self.registers))

    tls_variant: int
    tcb_size: int
    tpoff_relocation: int


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
    tls_variant=2,
    tcb_size=0,
    tpoff_relocation=18,  # R_X86_64_TPOFF64
)

ARCHITECTURES: Mapping[int, Architecture] = {X86_64.e_machine: X86_64}
"""Architectures by ``e_machine``."""
