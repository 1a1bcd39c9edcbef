"""ELF files and images: headers, segments, sections, notes. Nothing is read from a target.

Names and values follow the System V gABI (chapters 4 and 5). Both classes and both byte orders are read. Every count,
offset and size is checked before use, because core files may come from an untrusted source. A bad value raises
:class:`~ompd.errors.MalformedFile`. At first only the headers are read, because a core may be a sparse file of many
gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from ompd.binary.cursor import Buffer, ByteOrder, order_mark
from ompd.errors import MalformedFile
from ompd.safety import limits

NT_GNU_BUILD_ID = 3  # owner "GNU"
_NOTE = "III"


class NotePlace(NamedTuple):
    """The position of a note in a buffer: its descriptor has ``size`` bytes from ``start``, the next note begins at
    ``following``. A very long ``owner`` is cut off.
    """

    owner: str
    n_type: int
    start: int
    size: int
    following: int


def iter_note_places(data: Buffer, byte_order: ByteOrder, start: int, end: int, align: int = 4) -> Iterator[NotePlace]:
    """Yield the notes of a PT_NOTE segment or SHT_NOTE section, from *start* to *end* of *data*.

    Only their headers and owners' names are read.

    *align* is the segment's ``p_align``. Any value but 8 means 4: the gABI ("Note Section") requires 8 in 64-bit files,
    but Linux and GNU pad to 4, even in cores.

    :raises MalformedFile: at a note that does not end before *end*
    """
    layout = struct.Struct(order_mark(byte_order) + _NOTE)
    header_size, unpack = layout.size, layout.unpack
    padding = align - 1 if align in (4, 8) else 3
    offset, room = start, end - header_size
    while offset <= room:
        n_namesz, n_descsz, n_type = unpack(data[offset : offset + header_size])
        name_start = offset + header_size
        desc_start = name_start + n_namesz + (-(header_size + n_namesz) & padding)
        if n_descsz == 0:  # with an empty descriptor, the name's padding may be cut off
            desc_start = min(desc_start, max(end, name_start + n_namesz))
        desc_end = desc_start + n_descsz
        if desc_end > end:
            raise MalformedFile(f"a note of {n_namesz} + {n_descsz} bytes does not fit", offset=offset - start)
        owner = bytes(data[name_start : name_start + min(n_namesz, limits.MAX_NOTE_OWNER)]).split(b"\0", 1)[0]
        offset = desc_end + (-(desc_end - desc_start) & padding)
        yield NotePlace(owner.decode("utf-8", "replace"), n_type, desc_start, n_descsz, offset)
    if any(data[offset:end]):
        raise MalformedFile("a note's header is cut off", offset=offset - start)


def iter_notes(data: bytes, byte_order: ByteOrder, align: int = 4) -> Iterator[tuple[str, int, memoryview]]:
    """Yield owner, type and descriptor of each note in *data*; *align* as in :func:`iter_note_places`.

    Descriptors are views into *data*, not copies.

    :raises MalformedFile: at a note that does not end inside *data*
    """
    view = memoryview(data)
    for note in iter_note_places(view, byte_order, 0, len(view), align):
        yield note.owner, note.n_type, view[note.start : note.start + note.size]


def find_build_id(notes: bytes, byte_order: ByteOrder, align: int = 4) -> bytes | None:
    """Return the build-id (``NT_GNU_BUILD_ID`` of owner GNU) among *notes*, or None if there is none.

    :raises MalformedFile: if a note before the build-id is malformed
    """
    for owner, n_type, descriptor in iter_notes(notes, byte_order, align):
        if n_type == NT_GNU_BUILD_ID and owner == "GNU":
            return bytes(descriptor)
    return None


ELF_MAGIC = b"\x7fELF"
ELFCLASS32, ELFCLASS64 = 1, 2
ELFDATA2LSB, ELFDATA2MSB = 1, 2
EV_CURRENT = 1

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
EM_386, EM_PPC64, EM_S390, EM_ARM, EM_X86_64, EM_AARCH64, EM_RISCV = 3, 21, 22, 40, 62, 183, 243

PT_NULL, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_SHLIB, PT_PHDR, PT_TLS = range(8)
PT_GNU_EH_FRAME, PT_GNU_RELRO = 0x6474E550, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
PN_XNUM = 0xFFFF  # e_phnum does not hold the count; sh_info of section 0 does

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS = range(9)
SHT_REL, SHT_DYNSYM = 9, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_COMPRESSED = 0x1, 0x2, 0x4, 0x400, 0x800
SHN_UNDEF, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFFF1, 0xFFF2, 0xFFFF

DT_NULL, DT_NEEDED, DT_PLTGOT, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME = 0, 1, 3, 5, 6, 10, 14
DT_RPATH, DT_DEBUG, DT_RUNPATH = 15, 21, 29

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STB_GNU_UNIQUE = 10

_OLD_COMPRESSED = ".zdebug_"

# Linux allows some 65,000 mappings by default (vm.max_map_count). A file beyond these bounds is rejected, because even
# its empty headers would fill memory.
MAX_SEGMENTS = 1 << 20
MAX_SECTIONS = 1 << 17


class Header(NamedTuple):
    """``ElfN_Ehdr`` (gABI, "ELF Header"), and the class and byte order of ``e_ident``."""

    ident_class: int  # 32 or 64
    byte_order: ByteOrder
    e_type: int
    e_machine: int
    e_entry: int
    e_phoff: int
    e_shoff: int
    e_ehsize: int
    e_phentsize: int
    e_phnum: int  # PN_XNUM if the count did not fit
    e_shentsize: int
    e_shnum: int  # 0 if the count did not fit
    e_shstrndx: int  # SHN_XINDEX if the index did not fit


class Segment(NamedTuple):
    """``ElfN_Phdr`` (gABI, "Program Header") without ``p_paddr``. Offsets and sizes are in bytes, and not yet
    checked.
    """

    p_type: int
    p_flags: int
    p_offset: int
    p_vaddr: int
    p_filesz: int
    p_memsz: int
    p_align: int


class Section(NamedTuple):
    """``ElfN_Shdr`` (gABI, "Sections") with its name looked up. Offsets and sizes are in bytes, and not yet checked."""

    name: str
    sh_type: int
    sh_flags: int
    sh_addr: int
    sh_offset: int
    sh_size: int
    sh_link: int
    sh_info: int
    sh_entsize: int


# Layouts in the standard's order, without the byte order mark. `x` skips e_ident, e_version, e_flags, p_paddr and
# sh_addralign. Elf32_Phdr has p_flags near its end; parse_segments puts it where Elf64_Phdr has it.
_EHDR = {32: "16xHH4xIII4xHHHHHH", 64: "16xHH4xQQQ4xHHHHHH"}
_PHDR = {32: "III4xIIII", 64: "IIQQ8xQQQ"}
_SHDR = {32: "IIIIIIII4xI", 64: "IIQQQQII8xQ"}
_MAX_LINKED, _MAX_LINKED_NAME = 1 << 10, 1 << 12  # needed libraries; real files have some hundred
_DYN = {32: "iI", 64: "qQ"}
_CHDR = {32: "III", 64: "I4xQQ"}


def check_elf_magic(data: Buffer) -> bool:
    """Return whether *data* begins with the ELF magic number (``EI_MAG0`` … ``EI_MAG3``)."""
    return bytes(data[:4]) == ELF_MAGIC


def sizeof_header(data: Buffer) -> int:
    """Return the size in bytes of the ELF header at the start of *data*, by its ``EI_CLASS``."""
    return struct.calcsize("<" + _EHDR[32 if bytes(data[4:5]) == bytes([ELFCLASS32]) else 64])


def sizeof_segment(ident_class: int) -> int:
    """Return the size in bytes of a program header of class 32 or 64."""
    return struct.calcsize("<" + _PHDR[ident_class])


def parse_header(data: Buffer, name: str = "ELF image") -> Header:
    """Return the ELF header at the start of *data*: a file, or an image as it is in memory.

    :param name: name of the bytes in errors
    :raises MalformedFile: if it is not an ELF header of a known class, byte order and version
    """
    ident = bytes(data[:16])
    if ident[:4] != ELF_MAGIC or len(ident) < 16:
        raise MalformedFile(f"{name}: not an ELF file", offset=0)
    ident_class = {ELFCLASS32: 32, ELFCLASS64: 64}.get(ident[4])
    if ident_class is None:
        raise MalformedFile(f"{name}: unknown ELF class {ident[4]}", offset=4)
    if ident[5] not in (ELFDATA2LSB, ELFDATA2MSB):
        raise MalformedFile(f"{name}: unknown ELF byte order {ident[5]}", offset=5)
    if ident[6] != EV_CURRENT:
        raise MalformedFile(f"{name}: unknown ELF version {ident[6]}", offset=6)
    byte_order: ByteOrder = "little" if ident[5] == ELFDATA2LSB else "big"
    layout = struct.Struct(order_mark(byte_order) + _EHDR[ident_class])
    if len(data) < layout.size:
        raise MalformedFile(f"{name}: cut off inside the ELF header", offset=len(data))
    return Header(ident_class, byte_order, *layout.unpack(bytes(data[: layout.size])))


def parse_segments(header: Header, table: Buffer, count: int, name: str = "ELF image") -> tuple[Segment, ...]:
    """Return the first *count* program headers of *table*, which begins where ``e_phoff`` points.

    :raises MalformedFile: if *table* is too short for *count*, or ``e_phentsize`` is not the size of a program header
    """
    layout = struct.Struct(order_mark(header.byte_order) + _PHDR[header.ident_class])
    if count == 0:
        return ()
    if header.e_phentsize != layout.size:
        raise MalformedFile(f"{name}: program headers of {header.e_phentsize} bytes", offset=header.e_phoff)
    if count > MAX_SEGMENTS or count * layout.size > len(table):
        raise MalformedFile(f"{name}: {count} program headers do not fit", offset=header.e_phoff)
    rows = layout.iter_unpack(table[: count * layout.size])
    if header.ident_class == 64:
        return tuple(map(Segment._make, rows))
    return tuple(
        Segment(p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz, p_align)
        for p_type, p_offset, p_vaddr, p_filesz, p_memsz, p_flags, p_align in rows
    )


def _text(raw: bytes) -> str:
    # Names are UTF-8 in practice. Other bytes must neither raise an error here nor break a later print.
    return raw.decode("utf-8", "replace")


class ElfFile:
    """One ELF file: executable, shared object, separate debug file or core.

    :param data: the whole file, which must stay open (reading a closed file raises ValueError)
    :param name: name of the file in errors
    :param segment_count: the number of program headers, if section 0, which holds this number (PN_XNUM), was lost
    :raises MalformedFile: if the ELF header or the table of program headers is malformed
    """

    def __init__(self, data: Buffer, name: str, *, segment_count: int | None = None) -> None:
        self._segment_count = segment_count
        self.data = data
        self.name = name
        self.header = header = parse_header(data, name)
        self.ident_class = header.ident_class
        self.byte_order: ByteOrder = header.byte_order
        self.e_type = header.e_type
        self.e_machine = header.e_machine
        self.e_entry = header.e_entry
        self.e_phoff = header.e_phoff
        # Keyed by position, because many sections may claim the same compressed bytes.
        self._inflated: dict[tuple[int, int, int], bytes] = {}
        self.segments: tuple[Segment, ...] = self._read_segments()

    @property
    def pointer_size(self) -> int:
        """The size of an address in this file's class, in bytes."""
        return self.ident_class // 8

    # Program headers

    def _read_segments(self) -> tuple[Segment, ...]:
        header = self.header
        count = header.e_phnum if self._segment_count is None else self._segment_count
        if count == PN_XNUM and self._segment_count is None:
            count = self._section_header(0)[7]
        if count == 0:
            return ()
        if header.e_phoff > len(self.data):
            raise MalformedFile(f"{self.name}: program headers are beyond its end", offset=header.e_phoff)
        size = min(count, MAX_SEGMENTS) * header.e_phentsize
        size = min(size, len(self.data) - header.e_phoff)
        return parse_segments(header, self.copy(header.e_phoff, size, "the table of program headers"), count, self.name)

    def segment_data(self, segment: Segment) -> bytes:
        """Return a copy of the ``p_filesz`` bytes of *segment*.

        :raises MalformedFile: if they are not in the file, as in a truncated core
        """
        return self.copy(segment.p_offset, segment.p_filesz, "a segment")

    def file_offset(self, address: int, size: int) -> int | None:
        """Return the file offset of *size* bytes at the link-time *address*, None if no PT_LOAD holds them."""
        for segment in self.segments:
            if segment.p_type != PT_LOAD:
                continue
            if segment.p_vaddr <= address and address + size <= segment.p_vaddr + segment.p_filesz:
                return segment.p_offset + address - segment.p_vaddr
        return None

    # Sections

    def _section_header(self, index: int) -> tuple[int, ...]:
        layout = struct.Struct(order_mark(self.byte_order) + _SHDR[self.ident_class])
        offset = self.header.e_shoff + index * layout.size
        if self.header.e_shoff == 0 or self.header.e_shentsize != layout.size or offset + layout.size > len(self.data):
            raise MalformedFile(f"{self.name}: section header {index} is not in the file", offset=offset)
        return layout.unpack(bytes(self.data[offset : offset + layout.size]))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections in the file's order, including section 0 (SHN_UNDEF). Empty in a file without section headers.

        :raises MalformedFile: if the section headers or their names are not in the file
        """
        header = self.header
        if header.e_shoff == 0:
            return ()
        first = self._section_header(0)
        count = header.e_shnum or first[5]
        names_index = first[6] if header.e_shstrndx == SHN_XINDEX else header.e_shstrndx
        layout = struct.Struct(order_mark(self.byte_order) + _SHDR[self.ident_class])
        if count > MAX_SECTIONS:
            raise MalformedFile(f"{self.name}: {count} section headers", offset=header.e_shoff)
        rows = list(layout.iter_unpack(self.copy(header.e_shoff, count * layout.size, "the section header table")))
        if not rows:
            return ()
        names = b""
        if names_index != SHN_UNDEF:
            if names_index >= len(rows):
                raise MalformedFile(f"{self.name}: no section {names_index} for section names")
            names = self.copy(rows[names_index][4], rows[names_index][5], "the table of section names")
        last = names.rfind(b"\0")
        return tuple(Section(_section_name(names, row[0], last, self.name), *row[1:]) for row in rows)

    @cached_property
    def _sections_by_name(self) -> dict[str, Section]:
        return {section.name: section for section in reversed(self.sections)}

    def section(self, name: str) -> Section | None:
        """Return the first section called *name*, or None.

        ``.debug_info`` also finds ``.zdebug_info``, the name of a compressed section before SHF_COMPRESSED.

        :raises MalformedFile: if the section headers are malformed
        """
        section = self._sections_by_name.get(name)
        if section is None and name.startswith(".debug_"):
            section = self._sections_by_name.get(f".z{name[1:]}")
        return section

    def section_span(self, section: Section) -> tuple[Buffer, int, int]:
        """Return a buffer that holds *section*'s bytes, and their start and end in it.

        The buffer is the file's own, except for a compressed section: its inflated bytes are a copy, which is cached.

        For a section of type SHT_NOBITS the span is empty. A file that ``objcopy --only-keep-debug`` wrote has such
        sections.

        :raises MalformedFile: if it is not in the file, or its compressed form is damaged
        """
        if section.sh_type == SHT_NOBITS:
            return b"", 0, 0
        if _is_compressed(section):
            key = section.sh_offset, section.sh_size, section.sh_flags & SHF_COMPRESSED
            inflated = self._inflated.get(key)
            if inflated is None:
                held = sum(map(len, self._inflated.values()))
                inflated = self._inflate(section, limits.inflated(self.disk_size) - held)
                self._inflated[key] = inflated
            return inflated, 0, len(inflated)
        self._check(section.sh_offset, section.sh_size, f"section {section.name}")
        return self.data, section.sh_offset, section.sh_offset + section.sh_size

    def section_data(self, section: Section) -> bytes:
        """Return *section*'s bytes, inflated if they are compressed; ``b""`` for SHT_NOBITS.

        :raises MalformedFile: if it is not in the file, or its compressed form is damaged
        """
        buffer, start, end = self.section_span(section)
        if isinstance(buffer, bytes) and start == 0 and end == len(buffer):
            return buffer
        return self.copy(start, end - start, f"section {section.name}")

    def _inflate(self, section: Section, most: int) -> bytes:
        from ompd.binary.elf.compressed import inflate_section

        raw = self.copy(section.sh_offset, section.sh_size, f"section {section.name}")
        has_header = bool(section.sh_flags & SHF_COMPRESSED)
        layout = struct.Struct(order_mark(self.byte_order) + _CHDR[self.ident_class]) if has_header else None
        try:
            return inflate_section(raw, layout, most)
        except MalformedFile as error:
            raise MalformedFile(
                f"{self.name}: compressed section {section.name} {error}", offset=section.sh_offset
            ) from error

    # The file's identity and needs

    def debuglink(self) -> tuple[str, int] | None:
        """Return name and CRC-32 of the separate debug file (``.gnu_debuglink``), or None if the file names none.

        The name has no folder in it; the caller decides where to look. The checksum is :func:`zlib.crc32` of the whole
        debug file. Described in GDB's manual, "Debugging Information in Separate Files".

        :raises MalformedFile: if the section is malformed
        """
        section = self.section(".gnu_debuglink")
        if section is None or section.sh_type == SHT_NOBITS:
            return None
        raw = self.section_data(section)
        end = raw.find(b"\0")
        crc_offset = (end + 4) & ~3
        name = _text(raw[: max(end, 0)])
        if not name or "/" in name or crc_offset + 4 > len(raw):
            raise MalformedFile(f"{self.name}: .gnu_debuglink names no file", offset=section.sh_offset)
        return name, int.from_bytes(raw[crc_offset : crc_offset + 4], self.byte_order)

    def build_id(self) -> bytes | None:
        """Return the build-id (``NT_GNU_BUILD_ID``), or None if the file has none.

        Segments are searched first, because they remain if section headers are stripped. Sections are searched next,
        because a separate debug file does not hold the bytes of its segments.

        :raises MalformedFile: if no build-id was found and notes are malformed
        """
        fault: MalformedFile | None = None
        places = [(s.p_offset, s.p_filesz, s.p_align) for s in self.segments if s.p_type == PT_NOTE]
        try:
            places += [(s.sh_offset, s.sh_size, 4) for s in self.sections if s.sh_type == SHT_NOTE]
        except MalformedFile as error:
            fault = error
        budget = limits.Budget(limits.note_bytes(self.disk_size), f"{self.name}: its notes overlap")
        for offset, size, align in dict.fromkeys(places):
            try:
                budget.spend(size)
                self._check(offset, size, "a table of notes")
                for note in iter_note_places(self.data, self.byte_order, offset, offset + size, align):
                    if note.n_type == NT_GNU_BUILD_ID and note.owner == "GNU":
                        return self.copy(note.start, min(note.size, limits.MAX_NOTE), "a build-id")
                    if not note.owner and not self.is_held(offset, size):
                        break  # a hole
            except MalformedFile as error:
                fault = error
        if fault is not None:
            raise fault
        return None

    def dynamic(self) -> list[tuple[int, int]]:
        """Return ``d_tag`` and ``d_val`` of the dynamic section up to DT_NULL, empty without PT_DYNAMIC.

        :raises MalformedFile: if the segment is not in the file
        """
        segment = next((s for s in self.segments if s.p_type == PT_DYNAMIC), None)
        if segment is None:
            return []
        layout = struct.Struct(order_mark(self.byte_order) + _DYN[self.ident_class])
        raw = self.segment_data(segment)
        entries: list[tuple[int, int]] = []
        for d_tag, d_val in layout.iter_unpack(raw[: len(raw) - len(raw) % layout.size]):
            if d_tag == DT_NULL:
                break
            entries.append((d_tag, d_val))
        return entries

    def soname(self) -> str | None:
        """Return the shared object's DT_SONAME, or None.

        :raises MalformedFile: if the dynamic section or its strings are not in the file
        """
        return next(iter(self.dynamic_strings(DT_SONAME)), None)

    def needed(self) -> tuple[str, ...]:
        """Return the names of needed libraries (DT_NEEDED), in file order.

        :raises MalformedFile: if the dynamic section or its strings are not in the file
        """
        return self.dynamic_strings(DT_NEEDED)

    def dynamic_strings(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all dynamic entries *tag*, each offset once.

        :raises MalformedFile: if the dynamic section or its strings are not in the file
        """
        entries = self.dynamic()
        offsets = list(dict.fromkeys(d_val for d_tag, d_val in entries if d_tag == tag))[:_MAX_LINKED]
        if not offsets:
            return ()
        first_values = dict(reversed(entries))
        size = first_values.get(DT_STRSZ, 0)
        offset = self.file_offset(first_values.get(DT_STRTAB, 0), size)
        if offset is None:
            raise MalformedFile(f"{self.name}: the dynamic section's strings are not in the file")
        table = self.copy(offset, size, "the dynamic section's strings")
        return tuple(_linked_name(table, offset, self.name) for offset in offsets)

    # Bounds

    def _check(self, offset: int, size: int, what: str) -> None:
        if offset + size > len(self.data):
            raise MalformedFile(f"{self.name}: {what} of {size} bytes is not in the file", offset=offset)

    def copy(self, offset: int, size: int, what: str) -> bytes:
        """Return *size* bytes from *offset* on.

        :param what: name of the bytes in errors
        :raises MalformedFile: if the bytes are not in the file, or are almost entirely a hole
        """
        self._check(offset, size, what)
        if size > limits.FREE_BYTES and not self.is_held(offset, size):
            raise MalformedFile(f"{self.name}: {what} of {size} bytes is almost nothing but a hole", offset=offset)
        return bytes(self.data[offset : offset + size])

    def is_held(self, offset: int, size: int) -> bool:
        """Return whether enough of the *size* bytes at *offset* are on disk, and not in holes, to justify a copy."""
        held = getattr(self.data, "held", None)
        return held is None or limits.may_copy(size, held(offset, offset + size))

    @cached_property
    def disk_size(self) -> int:
        """The number of the file's bytes that are on disk. All others are in holes."""
        held = getattr(self.data, "held", None)
        return len(self.data) if held is None else int(held(0, len(self.data)))


def _is_compressed(section: Section) -> bool:
    return bool(section.sh_flags & SHF_COMPRESSED) or section.name.startswith(_OLD_COMPRESSED)


def _section_name(table: bytes, offset: int, last: int, name: str) -> str:
    # Sections may share a name of any length. Requested names are short, so a long name is cut off and marked.
    end = table.find(b"\0", offset, offset + limits.MAX_SECTION_NAME)
    if end < 0 and offset < last:
        return _text(table[offset : offset + limits.MAX_SECTION_NAME]) + "…"
    return _text(table[offset:end]) if end >= 0 else _string_at(table, offset, name)


def _linked_name(table: bytes, offset: int, name: str) -> str:
    end = table.find(b"\0", offset, offset + _MAX_LINKED_NAME)
    if end < 0:
        raise MalformedFile(f"{name}: no name at offset {offset:#x} of the dynamic section's strings")
    return _text(table[offset:end])


def _string_at(table: bytes, offset: int, name: str) -> str:
    if offset == 0 and not table:
        return ""
    end = table.find(b"\0", offset)
    if end < 0 or offset > len(table):
        raise MalformedFile(f"{name}: no string at offset {offset:#x} of a table of {len(table)} bytes")
    return _text(table[offset:end])
