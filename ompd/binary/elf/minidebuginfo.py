"""MiniDebugInfo: the functions' symbols of a stripped module, in an ELF file that is a section of it,
``.gnu_debugdata``, compressed by xz.

Described in GDB's manual, "Debugging information in a special section". It adds to ``.dynsym`` and repeats none of it.
"""

from __future__ import annotations

import lzma

from ompd.binary.elf.elf import SHT_NOBITS, ElfFile
from ompd.errors import OmpdError
from ompd.safety import limits

_MAX_MEMORY = 128 << 20


def open_minidebuginfo(elf: ElfFile) -> ElfFile | None:
    """Return what the ``.gnu_debugdata`` of *elf* holds, None if there is none, or none that can be read."""
    try:
        section = elf.section(".gnu_debugdata")
        if section is None or section.sh_type == SHT_NOBITS:
            return None
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
        packed = elf.section_data(section)
        raw = decoder.decompress(packed, limits.inflated(len(packed)))
        return ElfFile(raw, f"{elf.name}: .gnu_debugdata") if decoder.eof else None
    except (OmpdError, lzma.LZMAError):
        return None  # damaged symbols name nothing
