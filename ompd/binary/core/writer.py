"""Write an ELF core file: notes first, then memory, like the Linux kernel (``fs/binfmt_elf.c``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import IO

from ompd.binary.core.notes import FileMapping
from ompd.binary.cursor import ByteOrder, order_mark
from ompd.binary.elf import elf as gabi
from ompd.records import record

PAGE = 4096
_EHDR = {32: "16sHHIIIIIHHHHHH", 64: "16sHHIQQQIHHHHHH"}
_PHDR = {32: "IIIIIIII", 64: "IIQQQQQQ"}
_SHDR = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}


@record
class Note:
    """One note: its owner, its type as the owner defines it, and its bytes."""

    owner: str
    type: int
    desc: bytes


@record
class MappedPart:
    """Mapped memory of ``size`` bytes at ``address``. ``data`` is its beginning; the rest is left out of the core."""

    address: int
    data: bytes
    size: int
    flags: int


def format_notes(notes: Iterable[Note], byte_order: ByteOrder) -> bytes:
    """Return *notes* as the contents of a PT_NOTE segment."""
    layout = struct.Struct(order_mark(byte_order) + "III")
    out = bytearray()
    for note in notes:
        name = note.owner.encode() + b"\0"
        out += layout.pack(len(name), len(note.desc), note.type)
        out += name + bytes(-len(name) % 4) + note.desc + bytes(-len(note.desc) % 4)
    return bytes(out)


def format_files(mappings: Sequence[FileMapping], pointer_size: int, byte_order: ByteOrder) -> bytes:
    """Return the ``NT_FILE`` note of *mappings*."""
    words = [len(mappings), PAGE]
    for mapping in mappings:
        words += [mapping.start, mapping.end, mapping.offset // PAGE]
    names = b"".join(mapping.name.encode("utf-8", "surrogateescape") + b"\0" for mapping in mappings)
    return b"".join(word.to_bytes(pointer_size, byte_order) for word in words) + names


def format_auxv(vector: Iterable[tuple[int, int]], pointer_size: int, byte_order: ByteOrder) -> bytes:
    """Return the ``NT_AUXV`` note of an auxiliary vector, including the final ``AT_NULL``."""
    words = [word for pair in (*vector, (0, 0)) for word in pair]
    return b"".join(word.to_bytes(pointer_size, byte_order) for word in words)


def write_core(
    stream: IO[bytes],
    notes: Sequence[Note],
    pieces: Sequence[MappedPart],
    *,
    e_machine: int,
    elf_class: int,
    byte_order: ByteOrder,
) -> None:
    """Write a core file to *stream*, without seeking.

    :param pieces: sorted by address, aligned to pages, without overlap
    """
    mark = order_mark(byte_order)
    header, program, section = (struct.Struct(mark + kind[elf_class]) for kind in (_EHDR, _PHDR, _SHDR))
    count = 1 + len(pieces)
    many = count >= gabi.PN_XNUM  # the count is then in the only section header
    raw = format_notes(notes, byte_order)
    table = header.size + (section.size if many else 0)
    notes_at = table + count * program.size
    data_at = -(-(notes_at + len(raw)) // PAGE) * PAGE
    data_order = gabi.ELFDATA2LSB if byte_order == "little" else gabi.ELFDATA2MSB
    ident = b"\x7fELF" + bytes((1 if elf_class == 32 else 2, data_order, gabi.EV_CURRENT)) + bytes(9)
    sections = (header.size, 0, header.size, program.size, gabi.PN_XNUM if many else count, section.size, int(many), 0)
    e_shoff, e_flags, *counts = sections
    out = [
        header.pack(ident, gabi.ET_CORE, e_machine, gabi.EV_CURRENT, 0, table, e_shoff if many else 0, e_flags, *counts)
    ]
    if many:
        out.append(section.pack(0, gabi.SHT_NULL, 0, 0, 0, 0, 0, count, 0, 0))
    rows = [(gabi.PT_NOTE, 0, notes_at, 0, len(raw), 0, 4)]
    offset = data_at
    for piece in pieces:
        rows.append((gabi.PT_LOAD, piece.flags, offset, piece.address, len(piece.data), piece.size, PAGE))
        offset += -(-len(piece.data) // PAGE) * PAGE
    for kind, flags, file_offset, address, filesz, memsz, align in rows:
        if elf_class == 64:
            out.append(program.pack(kind, flags, file_offset, address, 0, filesz, memsz, align))
        else:
            out.append(program.pack(kind, file_offset, address, 0, filesz, memsz, flags, align))
    out += [raw, bytes(data_at - notes_at - len(raw))]
    stream.write(b"".join(out))
    for piece in pieces:
        stream.write(piece.data)
        stream.write(bytes(-len(piece.data) % PAGE))
