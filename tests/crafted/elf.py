"""ELF files from parts that may be wrong: modules, and cores of processes that have loaded them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

EHDR, PHDR, SHDR = (struct.Struct(layout) for layout in ("<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IIQQQQIIQQ"))
IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
ET_EXEC, ET_DYN, ET_CORE = 2, 3, 4
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS, PT_EH_FRAME = 1, 2, 4, 7, 0x6474E550
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 3, 7, 8, 11
SHF_ALLOC, SHF_COMPRESSED = 2, 0x800
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_SIGINFO = 1, 3, 6, 0x46494C45, 0x53494749

BASE = 0x5555_5555_0000
"""The address at which the module of a core is mapped."""
TEXT = 0x1000
"""The offset of its code, in the file and in memory. The code follows the first page; a core holds only that page."""
STACK = 0x7FFF_0000_0000
STACK_SIZE = 1 << 14
# struct user_regs_struct of x86-64
_REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)


class Segment(NamedTuple):
    """A program header."""

    p_type: int
    p_offset: int
    p_filesz: int
    p_vaddr: int = 0
    p_memsz: int | None = None
    p_flags: int = 6
    p_align: int = 4096

    def packed(self) -> bytes:
        """Return the bytes of the header."""
        memory = self.p_filesz if self.p_memsz is None else self.p_memsz
        fields = (self.p_offset, self.p_vaddr, self.p_vaddr, self.p_filesz, memory, self.p_align)
        return PHDR.pack(self.p_type, self.p_flags, *(field & (1 << 64) - 1 for field in fields))


@dataclass(frozen=True)
class Section:
    """A section with its bytes. With *span*, its bytes are elsewhere in the file, or nowhere."""

    name: bytes
    data: bytes = b""
    sh_type: int = SHT_PROGBITS
    flags: int = 0
    link: bytes = b""
    entry: int = 0
    span: tuple[int, int] | None = None
    loaded: bool = False


def padded(raw: bytes, align: int = 4) -> bytes:
    """Return *raw* with zeros added up to a multiple of *align*."""
    return raw + bytes(-len(raw) % align)


def note(owner: bytes, kind: int, desc: bytes, size: int | None = None) -> bytes:
    """Return a note that claims *size* bytes."""
    name = owner + b"\0"
    return struct.pack("<III", len(name), len(desc) if size is None else size, kind) + padded(name) + padded(desc)


def symbols(rows: Iterable[tuple[int, int, int]], info: int = 0x12) -> bytes:
    """Return a symbol table of (name's offset, value, size)."""
    pack = struct.Struct("<IBBHQQ").pack
    return bytes(24) + b"".join(pack(name, info, 0, 1, value, size) for name, value, size in rows)


def module(
    sections: Sequence[Section] = (),
    *,
    text: bytes = b"\x90" * 256 + b"\xc3",
    build_id: bytes = b"crafted crafted crafted",
    segments: Callable[[Mapping[bytes, tuple[int, int]]], Sequence[Segment]] = lambda spans: (),
    e_type: int = ET_DYN,
    patch: Callable[[bytearray], None] = lambda data: None,
    header_count: int | None = None,
) -> bytes:
    """Return a program or library whose bytes have the same offsets in memory and in the file.

    :param segments: returns further segments; its argument has the spans of the sections
    """
    most = 8
    notes = note(b"GNU", 3, build_id) if build_id else b""
    notes_at = EHDR.size + most * PHDR.size
    body = bytearray((bytes(notes_at) + notes).ljust(TEXT, b"\0") + text)
    spans: dict[bytes, tuple[int, int]] = {}
    names = b"\0"
    placed: list[tuple[Section, int, int, int]] = []
    own = [] if any(section.name == b".shstrtab" for section in sections) else [Section(b".shstrtab", b"", SHT_STRTAB)]
    whole = [Section(b".text", span=(TEXT, len(text)), flags=6), *sections, *own]
    for section in whole:
        at = len(names)
        names += section.name + b"\0"
        if section.name == b".shstrtab" and not section.data:
            section = replace(section, data=names)
        if section.span is not None:
            start, size = section.span
        else:
            body += bytes(-len(body) % 16)
            start, size = len(body), len(section.data)
            body += section.data
        spans[section.name] = start, size
        placed.append((section, at, start, size))
    index = {section.name: number for number, section in enumerate(whole, 1)}
    headers = bytearray(SHDR.size)
    for section, at, start, size in placed:
        address = start if section.loaded or section.flags & SHF_ALLOC else 0
        link = index.get(section.link, 0)
        headers += SHDR.pack(at, section.sh_type, section.flags, address, start, size, link, 0, 1, section.entry)
    body += bytes(-len(body) % 8)
    load = Segment(PT_LOAD, 0, len(body), p_flags=5)
    rows = [load, *([Segment(PT_NOTE, notes_at, len(notes), notes_at, p_align=4)] if notes else []), *segments(spans)]
    assert len(rows) <= most
    header = EHDR.pack(
        IDENT, e_type, 62, 1, TEXT, 64, len(body), 0, 64, 56, len(rows), 64,
        len(whole) + 1 if header_count is None else header_count, index[b".shstrtab"],
    )  # fmt: skip
    body[: EHDR.size] = header
    table = b"".join(row.packed() for row in rows)
    body[EHDR.size : EHDR.size + len(table)] = table
    body += headers
    patch(body)
    return bytes(body)


def section_headers(data: bytes) -> tuple[int, int]:
    """Return the offset of a file's section headers, and their number."""
    fields = EHDR.unpack_from(data)
    return fields[6], fields[12]


def prstatus(thread: int, **registers: int) -> bytes:
    """Return the note of a thread. By default the thread is in the module's code and uses the stack."""
    usual = {"rip": BASE + TEXT + 16, "rsp": STACK + 256, "rbp": STACK + 512, "cs": 0x33, "fs_base": STACK + 0x3000}
    words = {**usual, **registers}
    regs = b"".join(struct.pack("<Q", words.get(name, 0)) for name in _REGISTERS)
    desc = struct.pack("<IIIHHQQIIII", 11, 0, 0, 11, 0, 0, 0, thread, 1, thread, thread) + bytes(64) + regs + bytes(8)
    assert len(desc) == 336
    return note(b"CORE", NT_PRSTATUS, desc)


def prpsinfo(command: bytes = b"./crafted", process: int = 1000) -> bytes:
    """Return the note that names the process."""
    desc = struct.pack("<BBBBIQIIIIII", 0, 82, 0, 0, 0, 0, 0, 0, process, 1, process, process)
    return note(b"CORE", NT_PRPSINFO, desc[:40] + b"crafted".ljust(16, b"\0") + command.ljust(80, b"\0")[:80])


def auxv(**values: int) -> bytes:
    """Return the auxiliary vector; the names give the kinds: ``a3=...``."""
    rows = [(int(name[1:]), value) for name, value in values.items()]
    return note(b"CORE", NT_AUXV, b"".join(struct.pack("<QQ", *row) for row in [*rows, (0, 0)]))


def files(mappings: Sequence[tuple[int, int, int, bytes]], *, count: int | None = None, page: int = 4096) -> bytes:
    """Return the note of mapped files, which claims *count* of them: start, end, page of the file, name."""
    rows = b"".join(struct.pack("<QQQ", *mapping[:3]) for mapping in mappings)
    head = struct.pack("<QQ", len(mappings) if count is None else count, page)
    return note(b"CORE", NT_FILE, head + rows + b"".join(mapping[3] + b"\0" for mapping in mappings))


def core(
    notes: bytes,
    loads: Sequence[tuple[int, bytes]] = (),
    *,
    more: Callable[[int], Sequence[Segment]] = lambda end: (),
    patch: Callable[[bytearray], None] = lambda data: None,
    tail: bytes = b"",
) -> bytes:
    """Return a core: its notes, then memory, then *tail*.

    :param more: returns further segments; its argument is the offset of *tail*
    """
    count = 1 + len(loads) + len(more(0))
    start = EHDR.size + count * PHDR.size
    rows = [Segment(PT_NOTE, start, len(notes), p_align=4)]
    body = bytearray(notes)
    for address, data in loads:
        body += bytes(-(start + len(body)) % 16)
        rows.append(Segment(PT_LOAD, start + len(body), len(data), address))
        body += data
    rows += more(start + len(body))
    header = EHDR.pack(IDENT, ET_CORE, 62, 1, 0, 64, 0, 0, 64, 56, min(count, 0xFFFF), 0, 0, 0)
    whole = bytearray(header + b"".join(row.packed() for row in rows) + body + tail)
    patch(whole)
    return bytes(whole)


def stack_of(*words: int) -> bytes:
    """Return a stack that holds *words* from the thread's stack pointer on."""
    return (bytes(256) + b"".join(struct.pack("<Q", word & (1 << 64) - 1) for word in words)).ljust(STACK_SIZE, b"\0")


def mapping_of(path: Path, size: int, base: int = BASE) -> tuple[int, int, int, bytes]:
    """Return a row for :func:`files` that maps the file from its start."""
    return base, base + -(-size // 4096) * 4096, 0, bytes(path)


def process(
    program: Path,
    raw: bytes,
    *,
    threads: int = 1,
    stack: bytes | None = None,
    notes: bytes = b"",
    loads: Sequence[tuple[int, bytes]] = (),
    others: Sequence[tuple[Path, bytes]] = (),
    vector: Mapping[str, int] | None = None,
    registers: Mapping[str, int] | None = None,
) -> bytes:
    """Return the core of a process that runs *program*, whose bytes are *raw*, and that has loaded *others*."""
    mappings = [mapping_of(program, len(raw))]
    memory = [(BASE, raw[:4096]), (STACK, stack if stack is not None else stack_of(BASE + TEXT + 20))]
    for number, (path, other) in enumerate(others, 1):
        base = 0x7F00_0000_0000 + number * 0x1000_0000
        mappings.append(mapping_of(path, len(other), base))
        memory.append((base, other[:4096]))
    places = {"a3": BASE + 64, "a4": 56, "a5": EHDR.unpack_from(raw)[10], "a9": BASE + TEXT, **(vector or {})}
    whole = prpsinfo(bytes(program)) + auxv(**places) + files(mappings) + notes
    whole += b"".join(prstatus(1000 + number, **(registers or {})) for number in range(threads))
    return core(whole, [*memory, *loads])
