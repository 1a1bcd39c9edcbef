"""Extracts of a module's file: symbols, unwind tables and debug information, without the loaded contents.

An extract is an ELF file with the module's program headers, so that addresses keep their meaning. Sections that readers
only need from process memory become SHT_NOBITS, as with ``objcopy --only-keep-debug``.
"""

from __future__ import annotations

import struct
import zlib

from ompd.binary.cursor import order_mark
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.compressed import ELFCOMPRESS_ZLIB
from ompd.binary.elf.elf import ElfFile, Section
from ompd.errors import MalformedFile, OmpdError
from ompd.safety import limits

_KEPT_TYPES = frozenset((gabi.SHT_SYMTAB, gabi.SHT_DYNSYM, gabi.SHT_STRTAB, gabi.SHT_NOTE))
_KEPT_NAMES = frozenset((".eh_frame", ".eh_frame_hdr", ".gnu_debugdata", ".gnu_debuglink", ".rela.dyn"))
_KEPT_NAMES |= {".gnu_debugaltlink", ".debug_sup"}
# The debug sections of lines, functions, variables and types. Macros and indexes are large and not used.
_KEPT_DEBUG = frozenset(
    f".debug_{name}"
    for name in (
        "abbrev",
        "addr",
        "aranges",
        "frame",
        "info",
        "line",
        "line_str",
        "loc",
        "loclists",
        "ranges",
        "rnglists",
        "str",
        "str_offsets",
        "types",
    )
)
_COMPRESSED_FROM = 1 << 12
_LEVEL = 1  # higher levels take three times as long and save only a tenth
_EHDR = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_PHDR = {32: "IIIIIIII", 64: "IIQQQQQQ"}
_SHDR = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
_CHDR = {32: "III", 64: "IIQQ"}


def _name(section: Section) -> str:
    # The older .zdebug_* sections get SHF_COMPRESSED and the name .debug_* in the extract.
    name = section.name
    return f".{name[2:]}" if name.startswith(".zdebug_") else name


def _is_kept(section: Section, debug: bool) -> bool:
    if section.sh_type in (gabi.SHT_NULL, gabi.SHT_NOBITS):
        return False
    if _name(section) in _KEPT_DEBUG:
        return debug
    return section.sh_type in _KEPT_TYPES or section.name in _KEPT_NAMES


def extract(elf: ElfFile, *, debug: bool = True) -> bytes:
    """Return the extract of *elf*, itself an ELF file.

    Sections that are damaged or not in the file are left out.

    :param debug: whether to include debug information
    :raises MalformedFile: if the section headers of *elf* are malformed
    """
    bits, mark = elf.ident_class, order_mark(elf.byte_order)
    header, program, sections = (struct.Struct(mark + kind[bits]) for kind in (_EHDR, _PHDR, _SHDR))
    if len(elf.segments) >= 0xFFFF or len(elf.sections) >= 0xFF00:
        raise MalformedFile(f"{elf.name}: more headers than an extract can have")
    out = bytearray(16 + header.size + len(elf.segments) * program.size)
    names = bytearray(b"\0")
    rows: list[bytes] = []
    moved: dict[tuple[int, int], int] = {}  # new offsets of unchanged contents, by old offset and size
    # Copies of overlapping sections could be much larger than the file.
    budget = limits.Budget(limits.ALWAYS_COPIED + 2 * elf.disk_size, f"{elf.name}: its sections overlap")
    for section in elf.sections:
        name_at = len(names)
        if section.name:
            names += _name(section).encode("utf-8", "replace") + b"\0"
        kind, flags, contents = section.sh_type, section.sh_flags, None
        if _is_kept(section, debug):
            contents, flags = _contents(elf, section, budget)
        if contents is None and kind != gabi.SHT_NULL:
            kind = gabi.SHT_NOBITS
        out += bytes(-len(out) % 8)
        offset, size = len(out), section.sh_size if contents is None else len(contents)
        if contents is not None:
            if not flags & gabi.SHF_COMPRESSED:
                moved[section.sh_offset, size] = offset
            out += contents
        where = (section.sh_addr, offset, size, section.sh_link, section.sh_info, 1, section.sh_entsize)
        rows.append(sections.pack(name_at if section.name else 0, kind, flags, *where))
    if rows:
        names_at = len(names)
        names += b".names\0"
        out += bytes(-len(out) % 8)
        rows.append(sections.pack(names_at, gabi.SHT_STRTAB, 0, 0, len(out), len(names), 0, 0, 1, 0))
        out += names
    out += bytes(-len(out) % 8)
    table = len(out) if rows else 0
    out += b"".join(rows)
    out[:16] = bytes(elf.data[:16])
    counts = (16 + header.size, program.size, len(elf.segments), sections.size, len(rows), max(len(rows) - 1, 0))
    e_flags, e_phoff = 0, 16 + header.size
    header.pack_into(out, 16, elf.e_type, elf.e_machine, 1, elf.e_entry, e_phoff, table, e_flags, *counts)
    for index, segment in enumerate(elf.segments):
        offset, size = segment.p_offset, segment.p_filesz
        if segment.p_type != gabi.PT_LOAD:
            # The contents of other segments are kept only if a kept section holds them.
            offset, size = (moved[offset, size], size) if (offset, size) in moved else (0, 0)
        if bits == 64:
            row: tuple[int, ...] = (segment.p_type, segment.p_flags, offset, segment.p_vaddr, segment.p_vaddr, size)
            row += (segment.p_memsz, segment.p_align)
        else:
            row = (segment.p_type, offset, segment.p_vaddr, segment.p_vaddr, size, segment.p_memsz, segment.p_flags)
            row += (segment.p_align,)
        program.pack_into(out, e_phoff + index * program.size, *row)
    return bytes(out)


def _contents(elf: ElfFile, section: Section, budget: limits.Budget) -> tuple[bytes | None, int]:
    # The bytes of a section for the extract, and its flags there.
    budget.spend(section.sh_size)
    try:
        data = elf.section_data(section)
    except OmpdError:
        return None, section.sh_flags
    flags = section.sh_flags & ~gabi.SHF_COMPRESSED
    if flags & gabi.SHF_ALLOC or _name(section) not in _KEPT_DEBUG or len(data) < _COMPRESSED_FROM:
        return data, flags
    layout = struct.Struct(order_mark(elf.byte_order) + _CHDR[elf.ident_class])
    fields = (ELFCOMPRESS_ZLIB, 0, len(data), 1) if elf.ident_class == 64 else (ELFCOMPRESS_ZLIB, len(data), 1)
    return layout.pack(*fields) + zlib.compress(data, _LEVEL), flags | gabi.SHF_COMPRESSED
