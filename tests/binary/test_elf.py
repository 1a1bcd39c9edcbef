"""ELF headers, sections and notes, compared with readelf, and damaged ones."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest

from ompd.binary.elf.elf import (
    EM_X86_64,
    ET_CORE,
    PT_LOAD,
    PT_NOTE,
    SHF_COMPRESSED,
    SHT_NOBITS,
    SHT_PROGBITS,
    ElfFile,
    check_elf_magic,
    find_build_id,
    iter_notes,
    parse_header,
)
from ompd.errors import MalformedFile
from tests.support import intel_runtime, require
from tests.support.compression import zstd_frame
from tests.support.made_elf import build_elf
from tests.support.samples import compiled, crashed, libc, mapped, run, survives


def number(text: str) -> int:
    return int(text, 16)


def note(owner: bytes, n_type: int, descriptor: bytes, mark: str = "<") -> bytes:
    def pad(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    return struct.pack(mark + "III", len(owner) + 1, len(descriptor), n_type) + pad(owner + b"\0") + pad(descriptor)


def check_against_readelf(path: Path, elf: ElfFile) -> None:
    text = run(require("readelf"), "-lSW", path)
    rows = re.findall(r"^  \w\S* +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+) [RWE ]{3} (\w+)$", text, re.M)
    ours = [(s.p_offset, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align) for s in elf.segments]
    assert ours == [tuple(map(number, row)) for row in rows]
    rows = re.findall(
        r"^  \[ *(\d+)\] (.{17,}?) +[A-Z]\w+ +(\w{8,}) (\w+) (\w+) (\w\w) .{3,4} +(\d+) +(\d+) +\d+$", text, re.M
    )
    listed = [
        (name.strip(), number(addr), number(offset), number(size), number(entry), int(link), int(info))
        for _, name, addr, offset, size, entry, link, info in rows
    ]
    assert [s[:1] + s[3:6] + (s.sh_entsize, s.sh_link, s.sh_info) for s in elf.sections] == listed


@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie")], ids=["pie", "no-pie"])
def test_headers_of_a_program_are_those_that_readelf_prints(flags: tuple[str, ...]) -> None:
    path = compiled("gcc", *flags)
    elf = mapped(path)
    check_against_readelf(path, elf)
    assert f"Entry point address:               {elf.e_entry:#x}" in run(require("readelf"), "-h", path)
    assert (elf.ident_class, elf.byte_order, elf.e_machine, elf.pointer_size) == (64, "little", EM_X86_64, 8)


def test_headers_of_the_runtime_and_its_debug_file_are_those_that_readelf_prints() -> None:
    for name in ("libiomp5.so", "libiomp5.dbg"):
        path = intel_runtime() / "lib" / name
        check_against_readelf(path, mapped(path))
    elf = mapped(intel_runtime() / "lib" / "libiomp5.so")
    assert elf.soname() == "libiomp5.so"
    debug_file = (intel_runtime() / "lib" / "libiomp5.dbg").read_bytes()
    assert elf.debuglink() == ("libiomp5.dbg", zlib.crc32(debug_file))
    assert elf.build_id() is None  # this wheel has no build-id


def test_build_id_and_dynamic_section_are_those_that_readelf_prints() -> None:
    elf = mapped(libc())
    build_id = elf.build_id()
    assert build_id is not None
    assert f"Build ID: {build_id.hex()}" in run(require("readelf"), "-n", libc())
    text = run(require("readelf"), "-dW", libc())
    listed = [number(tag) for tag in re.findall(r"^ 0x(\w+) \(", text, re.M)]
    assert [tag for tag, _ in elf.dynamic()] == listed[:-1]  # readelf lists DT_NULL too
    assert f"Library soname: [{elf.soname()}]" in text


def test_segments_and_notes_of_a_core_are_those_that_readelf_prints() -> None:
    path = crashed(compiled())
    elf = mapped(path)
    check_against_readelf(path, elf)
    assert elf.e_type == ET_CORE
    segment = next(s for s in elf.segments if s.p_type == PT_NOTE)
    ours = [(owner, len(data)) for owner, _, data in iter_notes(elf.segment_data(segment), elf.byte_order)]
    listed = re.findall(r"^  (CORE|LINUX) +0x(\w+)\t", run(require("readelf"), "-nW", path), re.M)
    assert ours == [(owner, number(size)) for owner, size in listed]


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("ident_class", [32, 64])
@pytest.mark.parametrize("extended", [False, True], ids=["plain", "extended"])
def test_both_classes_and_byte_orders(ident_class: int, byte_order: str, extended: bool, tmp_path: Path) -> None:
    mark = "<" if byte_order == "little" else ">"
    notes = note(b"CORE", 1, b"12345", mark) + note(b"GNU", 3, b"\xab\xcd\xef", mark)
    segments = ((PT_LOAD, 5, 0, 0x10000, 0x20, 0x40, 0x1000), (PT_NOTE, 4, 0x30, 0, 0, 0, 4))
    sections = ((".note.x", 7, 0, notes), (".data", SHT_PROGBITS, 3, b"abc"), (".bss", SHT_NOBITS, 3, b""))
    path = tmp_path / "file"
    path.write_bytes(build_elf(ident_class, byte_order, segments=segments, sections=sections, extended=extended))
    elf = ElfFile(path.read_bytes(), "file")
    assert elf.segments == segments
    check_against_readelf(path, elf)
    assert (elf.ident_class, elf.byte_order, elf.e_entry) == (ident_class, byte_order, 0x1000)
    assert elf.build_id() == b"\xab\xcd\xef"
    data = elf.section(".data")
    assert data is not None and elf.section_data(data) == b"abc"


def test_a_core_of_many_segments_is_read_quickly_and_whole() -> None:
    segments = tuple((PT_LOAD, 6, 0x1000 * i, 0x7F0000000000 + 0x2000 * i, 0x1000, 0x1000, 1) for i in range(70_000))
    elf = ElfFile(build_elf(e_type=ET_CORE, segments=segments, extended=True), "core")
    assert elf.segments == segments


def test_compressed_sections_are_inflated() -> None:
    text = b"void f(void);" * 1000

    def header(method: int, size: int, cut: int | None = None) -> bytes:
        compress = zlib.compress if method == 1 else zstd_frame
        return struct.pack("<IIQQ", method, 0, size, 1) + compress(text)[:cut]

    sections = tuple(
        (f".debug_{i}", SHT_PROGBITS, SHF_COMPRESSED, header(*values))
        for i, values in enumerate(
            [
                *((method, len(text)) for method in (1, 2)),
                *((method, size) for method in (1, 2) for size in (len(text) - 1, len(text) + 1, 1 << 62)),
                *((method, len(text), cut) for method in (1, 2) for cut in (0, 5)),
                (2, len(text), -5),
                (7, len(text)),
            ]
        )
    )
    elf = ElfFile(build_elf(sections=sections), "file")
    whole, damaged = elf.sections[1:3], elf.sections[3 : len(sections) + 1]
    assert (len(whole), len(damaged)) == (2, len(sections) - 2)
    for section in whole:
        assert elf.section_data(section) == text
    for section in damaged:
        with pytest.raises(MalformedFile):
            elf.section_data(section)


def test_a_name_with_a_folder_is_no_debug_link() -> None:
    sections = ((".gnu_debuglink", SHT_PROGBITS, 0, b"../../etc/x\0" + bytes(4)),)
    with pytest.raises(MalformedFile):
        ElfFile(build_elf(sections=sections), "file").debuglink()


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, b"\x7fELF\x07\x01\x01" + bytes(60), b"\x7fELF\x02\x03\x01" + bytes(60)],
    ids=["empty", "cut off", "script", "class", "byte order"],
)
def test_what_is_no_elf_file_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(MalformedFile, match="some file"):
        parse_header(data, "some file")
    assert check_elf_magic(data) == data.startswith(b"\x7fELF")


def test_counts_that_do_not_fit_the_file_are_refused() -> None:
    good = build_elf(segments=((PT_LOAD, 5, 0, 0, 1, 1, 1),), sections=((".x", 1, 0, b"1"),))
    for offset, value in ((56, 0x7000), (54, 1), (32, 1 << 63)):  # e_phnum, e_phentsize, e_phoff
        data = bytearray(good)
        data[offset : offset + (8 if offset == 32 else 2)] = value.to_bytes(8 if offset == 32 else 2, "little")
        with pytest.raises(MalformedFile):
            ElfFile(bytes(data), "file")
    for offset, value in ((60, 0x7000), (58, 3), (40, 1 << 63), (62, 9)):  # e_shnum, e_shentsize, e_shoff, e_shstrndx
        data = bytearray(good)
        data[offset : offset + (8 if offset == 40 else 2)] = value.to_bytes(8 if offset == 40 else 2, "little")
        elf = ElfFile(bytes(data), "file")
        with pytest.raises(MalformedFile):
            _ = elf.sections


def test_notes_that_do_not_end_in_their_segment_are_refused() -> None:
    good = note(b"GNU", 3, b"identity")
    assert find_build_id(good, "little") == b"identity"
    assert find_build_id(note(b"XEN", 3, b"12345678"), "little") is None
    assert list(iter_notes(b"", "little")) == []
    for data in (good[:-1], good + b"\1", struct.pack("<III", 0xFFFFFFFF, 4, 3) + bytes(40)):
        with pytest.raises(MalformedFile):
            list(iter_notes(data, "little"))


def everything(data: bytes) -> None:
    elf = ElfFile(data, "damaged")
    assert isinstance(elf.segments, tuple)
    for section in elf.sections[:200]:
        elf.section_data(section)
    elf.build_id()
    elf.dynamic()
    elf.soname()
    elf.debuglink()
    elf.file_offset(elf.e_entry, 8)


def test_damaged_files_are_read_or_refused() -> None:
    path = compiled("gcc", "-gz")
    elf, data = mapped(path), path.read_bytes()
    shoff = elf.header.e_shoff
    headers = [(0, 64), (64, 64 + 56 * len(elf.segments)), (shoff, shoff + 64 * len(elf.sections))]
    headers += [(s.sh_offset, s.sh_offset + s.sh_size) for s in elf.sections if s.name.startswith((".note", ".dyn"))]
    survives(data, everything, headers, examples=300)
