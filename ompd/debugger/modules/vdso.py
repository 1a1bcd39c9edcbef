"""The vDSO: code that the kernel maps into every process. It has no file; its image in memory is a whole ELF file."""

from __future__ import annotations

from functools import cached_property

from ompd.binary.cfi.program import CfaRule, Rule
from ompd.binary.cfi.tables import Row, UnwindTable
from ompd.binary.elf.elf import PT_LOAD, ElfFile, parse_header, parse_segments
from ompd.binary.elf.symbols import Symbol, SymbolTable
from ompd.contract.process import Module
from ompd.debugger.targets.base import Target
from ompd.errors import MalformedFile, MemoryFault

# The assumed size of the vDSO's mapping, which no target knows: today it has two pages. The most bytes of its image.
_SIZE = 0x4000
_MAX_SIZE = 0x10000


class Vdso:
    """The vDSO of one process.

    :param start: the start of the image (AT_SYSINFO_EHDR)
    :param entry: the address of the vDSO's code for system calls (AT_SYSINFO), None if system calls do not use the vDSO
    """

    def __init__(self, target: Target, start: int, entry: int | None = None) -> None:
        self._target = target
        self.start = start
        self._entry = entry

    @cached_property
    def _elf(self) -> ElfFile | None:
        # The image, None if the target does not hold it, or has other bytes there.
        try:
            header = parse_header(self._target.read(self.start, 64), "[vdso]")
            size = header.e_phnum * header.e_phentsize
            if max(size, header.e_phoff) > _MAX_SIZE:
                return None
            table = self._target.read(self.start + header.e_phoff, size)
            segments = parse_segments(header, table, header.e_phnum, "[vdso]")
            ends = [segment.p_offset + segment.p_filesz for segment in segments]
            end = max([*ends, header.e_shoff + header.e_shnum * header.e_shentsize])
            return ElfFile(self._target.read(self.start, end), "[vdso]") if end <= _MAX_SIZE else None
        except (MemoryFault, MalformedFile):
            return None

    @cached_property
    def bias(self) -> int:
        """The load bias: address in the target minus address in the image."""
        segments = self._elf.segments if self._elf is not None else ()
        return self.start - next((s.p_vaddr - s.p_offset for s in segments if s.p_type == PT_LOAD), 0)

    @cached_property
    def record(self) -> Module:
        """The contract's record of the vDSO."""
        return Module("[vdso]", self.bias, self.start, self.start + _SIZE, None, None, False)

    @cached_property
    def unwind_table(self) -> UnwindTable | None:
        """The unwind table in the image, None without the image."""
        return UnwindTable.from_elf(self._elf) if self._elf is not None else None

    def row(self, pc: int) -> Row | None:
        """Return the unwind row for *pc*, an address in the image; None if no row covers it.

        :raises MalformedFile: if the table is damaged
        """
        return self.unwind_table.row(pc) if self.unwind_table is not None else self._known_row(pc)

    def _known_row(self, pc: int) -> Row | None:
        # The row for a pc in the code for system calls, which is known even without the image; None for another pc. A
        # truncated core has lost the image, which is at the core's end, but stacks of sleeping threads need this row.
        architecture, entry = self._target.architecture, self._entry
        kernel_entry = architecture.kernel_entry
        if kernel_entry is None or entry is None or pc + self.bias != entry + kernel_entry.within:
            return None
        size, count = architecture.pointer_size, len(kernel_entry.saved)
        rules = {number: Rule("offset", size * (place - count)) for place, number in enumerate(kernel_entry.saved)}
        cfa = CfaRule(architecture.dwarf_registers[architecture.sp], size * count)
        start = entry - self.bias
        return Row(pc, pc + 1, cfa, rules, start, pc + 1, False, architecture.return_address)

    def is_known(self, address: int) -> bool:
        """Return whether it is known what code is at *address* of the vDSO.

        Without the image, code other than that for system calls is unknown if the processor has such code in the vDSO.
        Then returns from signal handlers are there, too: a frame that looks like a call may be a signal.
        """
        return self._elf is not None or self._entry is None or self._known_row(address - self.bias) is not None

    def symbol_at(self, address: int) -> Symbol | None:
        """Return the symbol of the function at *address*, with its address in the target; None if unknown."""
        try:
            symbol = SymbolTable(self._elf).at(address - self.bias) if self._elf is not None else None
        except MalformedFile:
            return None
        return symbol._replace(address=symbol.address + self.bias) if symbol is not None else None
