"""The supported processors by ``e_machine``. A new one is a row in each table.

Decoders are imported on first use, because few commands decode machine code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ompd.binary.elf.elf import EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64
from ompd.isa.architecture import Architecture
from ompd.isa.x86.architectures import I386, X86_64

if TYPE_CHECKING:
    from ompd.isa.emulator import EmulatedMachine
    from ompd.isa.instructions import Processor
    from ompd.isa.x86.getters import X86
    from ompd.isa.x86.references import X86References

ARCHITECTURES: Mapping[int, Architecture] = {each.e_machine: each for each in (X86_64, I386)}
"""The architectures whose processes can be read."""

MACHINE_NAMES: Mapping[int, str] = {
    EM_386: "i386",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_X86_64: "x86-64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv",
    258: "loongarch",
}
"""Names of processors in messages, including unsupported ones."""

LAYOUT_MACHINES: Mapping[int, str] = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64"}
"""The processors for which the layouts of a runtime can be written to a table, with their psABI's names."""

NARROW: Mapping[int, int] = {EM_X86_64: EM_386}
"""The processors that also run 32-bit programs for which a worker exists, with the ``e_machine`` of those programs."""

KCMP: Mapping[str, int] = {"x86_64": 312, "aarch64": 272, "i686": 349}
"""The number of the system call ``kcmp``, by the processor's name in ``uname`` (Linux, ``unistd.h``)."""


def architecture_by_triple(machine: str, pointer_size: int) -> Architecture | None:
    """Return the architecture for the first word of an LLVM target triple, None if it is not supported."""
    for architecture in ARCHITECTURES.values():
        if machine in architecture.machines and architecture.pointer_size == pointer_size:
            return architecture
    return None


def architecture_by_gdb_name(name: str) -> Architecture | None:
    """Return the architecture for gdb's name, None if it is not supported."""
    return next((each for each in ARCHITECTURES.values() if each.gdb_name == name), None)


def processor_of(e_machine: int) -> Processor | None:
    """Return the instructions and calling convention of a processor, None if ``ompd`` cannot decode its code."""
    if e_machine == EM_X86_64:
        from ompd.isa.x86.decoder import X86_64

        return X86_64
    return None


def references_of(e_machine: int) -> X86References | None:
    """Return the finder of addresses in a processor's code, None if the processor is not supported."""
    if e_machine in (EM_X86_64, EM_386):
        from ompd.isa.x86.references import X86References

        return X86References()
    return None


def getters_of(e_machine: int) -> type[X86] | None:
    """Return the interpreter for routines that only load, None if there is none for the processor."""
    if e_machine in (EM_X86_64, EM_386):
        from ompd.isa.x86.getters import X86

        return X86
    return None


def emulated_machine(e_machine: int) -> EmulatedMachine | None:
    """Return the description of a processor for the emulator, None if it cannot be emulated."""
    if e_machine == EM_X86_64:
        from ompd.isa.x86.emulator import X86_64

        return X86_64
    return None
