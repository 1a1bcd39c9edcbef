"""x86-64 as unicorn emulates it."""

from __future__ import annotations

import re
from typing import Any

from ompd.isa.emulator import EmulatedMachine, LoopRules

_EFER, _STAR = 0xC000_0080, 0xC000_0081
_EFER_SCE, _CR4_TSD, _CR0_TS = 1, 4, 8


def _prepare(uc: Any, constants: Any, until: int) -> None:
    # SYSRET continues at the address in RCX, with the flags in R11, one bit of which is always set. CR4.TSD forbids
    # programs to read the clock.
    uc.msr_write(_EFER, uc.msr_read(_EFER) | _EFER_SCE)
    uc.msr_write(_STAR, 0)
    uc.reg_write(constants.UC_X86_REG_CR4, uc.reg_read(constants.UC_X86_REG_CR4) | _CR4_TSD)
    uc.reg_write(constants.UC_X86_REG_RCX, until)
    uc.reg_write(constants.UC_X86_REG_R11, 0x202)


def _prepare_loop(uc: Any, constants: Any, until: int) -> None:
    # CR0.TS makes each instruction for floating-point numbers or vectors raise exception 7 (Intel SDM 3, 2.5).
    _prepare(uc, constants, until)
    uc.reg_write(constants.UC_X86_REG_CR0, uc.reg_read(constants.UC_X86_REG_CR0) | _CR0_TS)


_LOOPS = LoopRules(
    registers=tuple(
        (name, f"UC_X86_REG_{name.upper()}")
        for name in (
            *("rip", "rsp", "rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13"),
            *("r14", "r15", "eflags", "fs_base", "gs_base"),
        )
    ),
    flags="eflags",
    kept_flags=0xCD5,  # CF, PF, AF, ZF, SF, DF, OF
    prepare=_prepare_loop,
    system_call="UC_X86_INS_SYSCALL",
    number="UC_X86_REG_RAX",
    yields=frozenset((24,)),  # sched_yield, which returns 0 (Linux, kernel/sched/syscalls.c)
    # SYSCALL puts the next address into RCX and the flags into R11 (Intel SDM 2).
    after_call=(("UC_X86_REG_RCX", "UC_X86_REG_RIP"), ("UC_X86_REG_R11", "UC_X86_REG_EFLAGS")),
    # RDRAND, RDSEED and RDPID; XBEGIN and XABORT; XTEST, XEND, RDTSCP, MONITORX and MWAITX; RDTSC and RDPMC; UMONITOR,
    # UMWAIT and TPAUSE; XGETBV and RDPKRU; LSL, by which the vDSO finds the processor; SLDT, SGDT and others that tell
    # of the kernel.
    unsteady=re.compile(
        rb"(?s:[\x66\xf2\xf3\x40-\x4f]*(?:\x0f\xc7[\xf0-\xff]|[\xc6\xc7]\xf8|\x0f\x01[\xd0\xd5\xd6\xee\xf9-\xfb]"
        rb"|\x0f[\x31\x33\x03\x02\x00]|\x0f\x01[\x00-\xbf\xe0-\xe7])"
        rb"|[\x40-\x4f]*[\x66\xf2\xf3][\x66\xf2\xf3\x40-\x4f]*\x0f\xae[\xf0-\xf7])"
    ),
)

X86_64 = EmulatedMachine(
    arch="UC_ARCH_X86",
    mode="UC_MODE_64",
    constants="x86_const",
    # Older models execute LZCNT and TZCNT as other instructions, and unicorn does not know the instructions of newer
    # models.
    model="UC_CPU_X86_HASWELL",
    stack_pointer="UC_X86_REG_RSP",
    program_counter="UC_X86_REG_RIP",
    thread_pointer="UC_X86_REG_FS_BASE",
    result="UC_X86_REG_RAX",
    arguments=tuple(f"UC_X86_REG_{name}" for name in ("RDI", "RSI", "RDX", "RCX", "R8", "R9")),
    return_size=8,
    foreign=(
        ("UC_X86_INS_SYSCALL", "would call the kernel"),
        ("UC_X86_INS_SYSENTER", "would call the kernel"),
        ("UC_X86_INS_IN", "has an instruction that is not for programs"),
        ("UC_X86_INS_OUT", "has an instruction that is not for programs"),
        ("UC_X86_INS_CPUID", "asks for the processor that it runs on"),
    ),
    exceptions={
        0: "divides by zero",
        3: "has a breakpoint",
        6: "has an instruction that the emulator does not know",
        7: "uses registers of vectors or floating-point numbers",
        13: "has an instruction that is not for programs, or that reads a clock",
        0x80: "would call the kernel",
    },
    leave_kernel=bytes.fromhex("480f07"),  # SYSRET
    prepare=_prepare,
    left=("UC_X86_REG_RCX", "UC_X86_REG_R11"),
    loops=_LOOPS,
)
