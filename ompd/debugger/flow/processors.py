"""The processors whose code is followed, and those whose references to other code are found."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.binary.elf.elf import EM_386, EM_X86_64
from ompd.debugger.flow.decode_x86_64 import X86_64
from ompd.debugger.flow.instructions import Processor
from ompd.debugger.flow.references_x86 import X86References

_TABLES: Mapping[int, Processor] = {EM_X86_64: X86_64}
_REFERENCES: Mapping[int, X86References] = dict.fromkeys((EM_X86_64, EM_386), X86References())


def processor_of(e_machine: int) -> Processor | None:
    """Return the table of a processor, by the number that ELF has for it; None without one."""
    return _TABLES.get(e_machine)


def references_of(e_machine: int) -> X86References | None:
    """Return how the code of a processor refers to other code, by the number that ELF has for it; None if unknown."""
    return _REFERENCES.get(e_machine)
