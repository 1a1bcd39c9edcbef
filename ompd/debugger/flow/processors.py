"""The processors whose code is followed."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.binary.elf.elf import EM_X86_64
from ompd.debugger.flow.decode_x86_64 import X86_64
from ompd.debugger.flow.instructions import Processor

_TABLES: Mapping[int, Processor] = {EM_X86_64: X86_64}


def processor_of(e_machine: int) -> Processor | None:
    """Return the table of a processor, by the number that ELF has for it; None without one."""
    return _TABLES.get(e_machine)
