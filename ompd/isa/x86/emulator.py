"""x86-64 as unicorn emulates it."""

from __future__ import annotations

from typing import Any

from ompd.isa.emulator import EmulatedMachine

_EFER, _STAR = 0xC000_0080, 0xC000_0081
_EFER_SCE, _CR4_TSD = 1, 4


def _prepare(uc: Any, constants: Any, until: int) -> None:
    # SYSRET continues at the address in RCX, with the flags in R11, one bit of which is always set. CR4.TSD forbids
    # programs to read the clock.
    uc.msr_write(_EFER, uc.msr_read(_EFER) | _EFER_SCE)
    uc.msr_write(_STAR, 0)
    uc.reg_write(constants.UC_X86_REG_CR4, uc.reg_read(constants.UC_X86_REG_CR4) | _CR4_TSD)
    uc.reg_write(constants.UC_X86_REG_RCX, until)
    uc.reg_write(constants.UC_X86_REG_R11, 0x202)


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
        13: "has an instruction that is not for programs, or that reads a clock",
        0x80: "would call the kernel",
    },
    leave_kernel=bytes.fromhex("480f07"),  # SYSRET
    prepare=_prepare,
    left=("UC_X86_REG_RCX", "UC_X86_REG_R11"),
)
