"""Small ELF files."""

from __future__ import annotations

import struct

from ompd.binary.elf.elf import EM_X86_64, ET_DYN, ElfFile


def build_elf(
    ident_class: int = 64,
    byte_order: str = "little",
    *,
    segments: tuple[tuple[int, int, int, int, int, int, int], ...] = (),
    sections: tuple[tuple[str, int, int, bytes], ...] = (),
    e_type: int = ET_DYN,
    extended: bool = False,
) -> bytes:
    """Return an ELF file with *segments* (fields as in Segment) and *sections* (name, type, flags, content).

    *extended* puts the counts into section header 0, as for counts that do not fit the file header.
    """
    mark = "<" if byte_order == "little" else ">"
    wide = ident_class == 64
    ehdr_size, phdr_size, shdr_size = (64, 56, 64) if wide else (52, 32, 40)
    phdrs = bytearray()
    for p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz, p_align in segments:
        if wide:
            phdrs += struct.pack(mark + "IIQQQQQQ", p_type, p_flags, p_offset, p_vaddr, 0, p_filesz, p_memsz, p_align)
        else:
            phdrs += struct.pack(mark + "IIIIIIII", p_type, p_offset, p_vaddr, 0, p_filesz, p_memsz, p_flags, p_align)
    names, contents, rows = b"\0", bytearray(), []
    start = ehdr_size + len(phdrs)
    for name, sh_type, flags, content in (*sections, (".shstrtab", 3, 0, b"")):
        name_offset = len(names)
        names += name.encode() + b"\0"
        data = names if name == ".shstrtab" else content
        rows.append((name_offset, sh_type, flags, 0, start + len(contents), len(data), 0, 0, 1, 0))
        contents += data
    shnum, shstrndx = len(rows) + 1, len(rows)
    zero = (0, 0, 0, 0, 0, shnum, shstrndx, len(segments), 0, 0) if extended else (0,) * 10
    layout = mark + ("IIQQQQIIQQ" if wide else "IIIIIIIIII")
    shdrs = b"".join(struct.pack(layout, *row) for row in (zero, *rows))
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1 if byte_order == "little" else 2, 1)) + bytes(9)
    counts = (0xFFFF, shdr_size, 0, 0xFFFF) if extended else (len(segments), shdr_size, shnum, shstrndx)
    ehdr = ident + struct.pack(
        mark + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        *(e_type, EM_X86_64, 1, 0x1000, ehdr_size, start + len(contents), 0, ehdr_size, phdr_size),
        *counts,
    )
    return ehdr + bytes(phdrs) + bytes(contents) + shdrs


def without_sections(data: bytes) -> bytes:
    """Return a 64-bit file as tools that shrink files leave it: without section headers and without data outside of
    segments.
    """
    bare = bytearray(data)
    bare[0x28:0x30] = bytes(8)  # e_shoff
    bare[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    return bytes(bare[: max(segment.p_offset + segment.p_filesz for segment in ElfFile(data, "whole").segments)])
