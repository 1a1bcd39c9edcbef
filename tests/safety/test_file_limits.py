"""Limits on work and memory: both in proportion to a file's bytes on disk that were read (ompd/safety/limits.py)."""

from __future__ import annotations

import gzip
import os
import random
import struct
import tracemalloc
import zlib
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ompd.binary.core import notes
from ompd.binary.core.extract import extract
from ompd.binary.core.notes import AT_RANDOM, NT_PRSTATUS
from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import files as dwarf_files
from ompd.binary.dwarf import line_table as dwarf_table
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.elf.elf import (
    EM_X86_64,
    ET_CORE,
    ET_DYN,
    PT_LOAD,
    PT_NOTE,
    SHF_COMPRESSED,
    SHT_DYNSYM,
    SHT_PROGBITS,
    SHT_STRTAB,
    ElfFile,
)
from ompd.binary.elf.symbols import SymbolSection, SymbolTable
from ompd.debugger import snapshot
from ompd.debugger.files import compressed
from ompd.debugger.files.compressed import SparseFile, unpack
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.base import MemoryRegion
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadFile, MalformedFile
from ompd.questions import threads
from ompd.runtimes.layout import table
from ompd.safety import limits, reading
from ompd.safety.reading import open_paged
from ompd.session import Session
from tests.support import stopped
from tests.support.compression import zstd_frame

MB = 1 << 20
EHDR, PHDR, SHDR, SYM = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IIQQQQIIQQ", "<IBBHQQ"
IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@contextmanager
def held_below(most: int) -> Iterator[None]:
    """Check that Python's objects take fewer than *most* bytes in the context."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak >> 20} MB"


def elf(
    e_type: int,
    *,
    segments: Sequence[tuple[int, ...]] = (),
    sections: Sequence[tuple[int, ...]] = (),
    body: bytes = b"",
) -> bytes:
    """Return an ELF file of headers, then *body* at :func:`body_at`; the last section holds the names of sections."""
    at = 64 + 56 * len(segments)
    header = (IDENT, e_type, EM_X86_64, 1, 0, 64, at if sections else 0, 0, 64, 56, len(segments), 64, len(sections))
    out = struct.pack(EHDR, *header, max(len(sections) - 1, 0))
    out += b"".join(struct.pack(PHDR, *row) for row in segments)
    return out + b"".join(struct.pack(SHDR, *row) for row in sections) + body


def body_at(segments: int = 0, sections: int = 0) -> int:
    return 64 + 56 * segments + 64 * sections


def note(owner: bytes, kind: int, size: int) -> bytes:
    """Return the start of a note, up to its descriptor."""
    return struct.pack("<III", len(owner) + 1, size, kind) + (owner + b"\0").ljust(-(-(len(owner) + 1) // 4) * 4, b"\0")


def sparse(path: Path, size: int, pieces: dict[int, bytes]) -> str:
    with path.open("wb") as file:
        for at, piece in pieces.items():
            file.seek(at)
            file.write(piece)
        file.truncate(size)
    return str(path)


# Names


def with_names(count: int, offset_of: Callable[[int], int], names: bytes) -> ElfFile:
    """Return a file with many sections, whose names start at given offsets of a table."""
    at = body_at(0, count)
    rows = [(offset_of(n), SHT_PROGBITS, 0, 0, 0, 0, 0, 0, 1, 0) for n in range(count - 1)]
    return ElfFile(elf(ET_DYN, sections=[*rows, (0, SHT_STRTAB, 0, 0, at, len(names), 0, 0, 1, 0)], body=names), "made")


@pytest.mark.parametrize("step", [0, 1])
def test_sections_that_share_a_long_name_take_little(step: int) -> None:
    made = with_names(20_000, lambda number: number * step, b"n" * MB + b"\0.text\0")
    with held_below(64 * MB):
        assert made.section("n" * MB) is None and len(made.sections) == 20_000
        assert {section.name for section in made.sections} == {"n" * limits.MAX_SECTION_NAME + "…"}


def test_a_section_is_known_by_the_end_of_a_longer_name() -> None:
    names = b"\0.rela.text\0"
    made = with_names(3, lambda number: (6, 1)[number], names)
    assert [section.name for section in made.sections] == [".text", ".rela.text", ""]
    with pytest.raises(MalformedFile, match="no string"):
        with_names(2, lambda _: len(names), names).sections  # noqa: B018


def test_names_of_files_end_where_no_file_can_be_opened() -> None:
    count, size = 300, MB
    head = struct.pack("<QQ", count, 4096) + b"".join(struct.pack("<QQQ", n, n + 1, 0) for n in range(count))
    data = head + (b"/" + b"x" * (size - 2) + b"\0") * (count - 1) + b"/short"
    with held_below(8 * MB):
        found = notes.parse_files(data, 8, "little")
    assert len(found) == count and found[-1].name == "/short"
    assert {len(each.name) for each in found[:-1]} == {limits.MAX_PATH + 1}
    with pytest.raises(MalformedFile, match="only 300 files"):
        notes.parse_files(struct.pack("<Q", count + 1) + data[8:16] + bytes(24) + data[16:], 8, "little")


class Counted(bytes):
    """Bytes that count the bytes copied from them."""

    copied = 0

    def __getitem__(self, key: object) -> bytes:  # type: ignore[override]
        found = super().__getitem__(key)  # type: ignore[index]
        Counted.copied += len(found) if isinstance(found, bytes) else 0
        return found


def with_symbols(count: int, strings: bytes) -> ElfFile:
    """Return a file with many exported variables, whose names start at offsets 1, 2, 3 …"""
    at = body_at(0, 3)
    symbols = b"".join(struct.pack(SYM, n + 1, 0x11, 0, 1, n, 1) for n in range(count))
    rows = [
        (0, SHT_PROGBITS, 0, 0, 0, 0, 0, 0, 1, 0),
        (0, SHT_DYNSYM, 0, 0, at, len(symbols), 2, 0, 1, 24),
        (0, SHT_STRTAB, 0, 0, at + len(symbols), len(strings), 0, 0, 1, 0),
    ]
    return ElfFile(elf(ET_DYN, sections=rows, body=symbols + strings), "made")


def test_a_name_is_looked_for_without_copying_longer_ones() -> None:
    made = with_symbols(20_000, b"\0" + b"s" * 100_000 + b"\0")
    symbols = SymbolTable(made)
    single: SymbolSection = symbols._own_tables[0]
    single.__dict__["_strings"] = Counted(single._strings)
    Counted.copied = 0
    assert symbols.find_many(["wanted", "s" * 10]) == {} and Counted.copied < 20_000 * 32
    with held_below(128 * MB), pytest.raises(MalformedFile, match="overlap"):
        symbols.exported_variables  # noqa: B018


def test_strings_that_nothing_names_are_not_split() -> None:
    symbols = SymbolTable(with_symbols(10, b"\0" + b"a\0" * 10 + bytes(16 * MB)))
    with held_below(24 * MB):
        assert set(symbols.find_many(["a", "b"])) == {"a"}


def test_a_module_has_few_tables_of_symbols() -> None:
    at = body_at(0, 101)
    rows = [(0, SHT_DYNSYM, 0, 0, at, 24, 100, 0, 1, 24)] * 100
    made = ElfFile(elf(ET_DYN, sections=[*rows, (0, SHT_STRTAB, 0, 0, at, 24, 0, 0, 1, 0)], body=bytes(24)), "made")
    with pytest.raises(MalformedFile, match="100 tables of symbols"):
        SymbolTable(made).find("a")


# Notes


@pytest.mark.parametrize(
    ("kind", "words"), [(0x12345, "names no threads"), (NT_PRSTATUS, "a note of type 0x1 has"), (0x46494C45, "a hole")]
)
def test_a_note_over_a_hole_is_not_read(tmp_path: Path, kind: int, words: str) -> None:
    size = 2 << 30
    body = note(b"CORE", kind, size - 20)
    path = sparse(
        tmp_path / "core",
        body_at(1) + size + 4096,
        {0: elf(ET_CORE, segments=[(PT_NOTE, 4, body_at(1), 0, 0, size, 0, 4)], body=body)},
    )
    with held_below(8 * MB), pytest.raises(BadFile, match=words):
        CoreTarget(path)


def test_the_notes_behind_a_hole_are_found(tmp_path: Path) -> None:
    core = stopped("hang").core
    with Session.open_core(core) as session:
        threads_there = session.target.thread_ids()
    raw = core.read_bytes()
    whole = ElfFile(raw, "core")
    segment = next(s for s in whole.segments if s.p_type == PT_NOTE)
    # The same notes behind a hole of a gigabyte.
    hole, at = 1 << 30, len(raw) + 4096
    row = whole.segments.index(segment)
    pieces = {0: raw, at + hole: whole.segment_data(segment)}
    pieces[64 + 56 * row] = struct.pack(PHDR, PT_NOTE, 0, at, 0, 0, hole + segment.p_filesz, 0, 4)
    path = sparse(tmp_path / "core", at + hole + segment.p_filesz, pieces)
    with held_below(32 * MB):
        target = CoreTarget(path)
    assert tuple(target.thread_ids()) == tuple(threads_there)
    assert target.loss is not None and "are lost" in target.loss.what
    target.close()


def overlapping(e_type: int, count: int) -> bytes:
    """Return a file whose segments of notes each start four bytes after the one before."""
    body = bytes(MB + 4 * count)
    rows = [(PT_NOTE, 4, body_at(count) + 4 * n, 0, 0, MB, 0, 4) for n in range(count)]
    return elf(e_type, segments=rows, body=body)


def test_notes_that_lie_in_one_another_are_paid_for_once(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(overlapping(ET_CORE, 1000))
    with pytest.raises(BadFile, match="its notes overlap"):
        CoreTarget(str(path))
    with pytest.raises(MalformedFile, match="its notes overlap"):
        ElfFile(overlapping(ET_DYN, 1000), "made").build_id()


# Copies


def test_holes_are_not_copied(tmp_path: Path) -> None:
    size = 1 << 30
    rows = [(0, SHT_PROGBITS, 0, 0, 4096, size, 0, 0, 1, 0), (0, SHT_STRTAB, 0, 0, 4096, 1, 0, 0, 1, 0)]
    path = sparse(tmp_path / "file", 4096 + size, {0: elf(ET_DYN, sections=rows)})
    made = ElfFile(open_paged(path), path)
    assert made.disk_size <= 64 << 10
    with held_below(MB), pytest.raises(MalformedFile, match="almost nothing but a hole"):
        made.section_data(made.sections[0])
    # Only the data in a hole counts, wherever it is.
    with (tmp_path / "file").open("r+b") as file:
        file.seek(4096 + size // 2)
        file.write(bytes(MB))
    again = open_paged(path)
    assert again.held(4096, 4096 + size) >= MB and again.held(4096 + size // 2, 4096 + size // 2 + MB) == MB
    assert again.held(1 << 29, (1 << 29) + 4096 - 4096) == 0


def test_what_is_inflated_is_justified_by_what_is_there() -> None:
    packed = struct.pack("<IIQQ", 1, 0, 32 * MB, 1) + zlib.compress(bytes(32 * MB), 9)
    at = body_at(0, 2)
    rows = [(0, SHT_PROGBITS, SHF_COMPRESSED, 0, at, len(packed), 0, 0, 1, 0)]
    rows.append((0, SHT_STRTAB, 0, 0, at + len(packed), 1, 0, 0, 1, 0))
    made = ElfFile(elf(ET_DYN, sections=rows, body=packed + b"\0"), "made")
    with held_below(8 * MB), pytest.raises(MalformedFile, match="claims 33554432 bytes"):
        made.section_data(made.sections[0])


def test_sections_that_share_bytes_are_not_written_again_and_again() -> None:
    count = 500
    at = body_at(0, count)
    rows = [(0, SHT_STRTAB, 0, 0, at + n, MB, 0, 0, 1, 0) for n in range(count)]
    made = ElfFile(elf(ET_DYN, sections=rows, body=bytes(MB + count)), "made")
    with held_below(64 * MB), pytest.raises(MalformedFile, match="its sections overlap"):
        extract(made)


# Line tables


class Made:
    """A file that has only sections, in place of an ElfFile."""

    name, byte_order, disk_size = "made", "little", MB

    def __init__(self, **sections: bytes) -> None:
        self._sections = {f".debug_{name}": data for name, data in sections.items()}

    def section(self, name: str) -> str | None:
        return name if name in self._sections else None

    def section_span(self, name: str) -> tuple[bytes, int, int]:
        data = self._sections[name]
        return data, 0, len(data)


def lines_of(program: bytes) -> LineInfo:
    """Return the lines of one unit with this line program, whose special opcodes have line_base 1 and line_range 10."""
    header = bytes((1, 1, 0, 1, 10, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)) + b"\0a.c\0\0\0\0\0"
    line = struct.pack("<HI", 4, len(header)) + header + program
    abbrev = bytes((1, 0x11, 0, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 0))
    entry = bytes((1,)) + struct.pack("<IQQ", 0, 0x1000, 1 << 40)
    unit = struct.pack("<HIB", 4, 0, 8) + entry
    return LineInfo(
        Made(  # type: ignore[arg-type]
            info=struct.pack("<I", len(unit)) + unit, abbrev=abbrev, line=struct.pack("<I", len(line)) + line
        )
    )


def at_address(address: int) -> bytes:
    return b"\0\x09\x02" + struct.pack("<Q", address)


END = b"\0\x01\x01"


def test_a_line_table_with_rows_without_number_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINE_BYTES", 1 << 16)
    lines = lines_of(at_address(0x1000) + bytes((33,)) * (4 * MB) + END)
    with held_below(64 * MB), pytest.raises(MalformedFile, match="more rows than its file justifies"):
        lines.locate(0x1800)
    with pytest.raises(MalformedFile, match="more rows than its file justifies"):
        lines.locate(0x1801)


def test_rows_are_looked_through_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dwarf_table, "_MAX_KEPT", 1 << 12)
    lines = lines_of(at_address(0x1000) + bytes((23,)) * 200_000 + END)
    with held_below(4 * MB):
        assert lines.locate(0x1000 + 150_000) == ("a.c", 150_001)
        assert lines.locate(0x1000 + 600) == ("a.c", 601)


def test_a_line_table_of_very_many_sequences_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SEQUENCES", 1000)
    monkeypatch.setattr(dwarf_table, "_MAX_KEPT", 1 << 12)
    runs = [at_address(0x1000 + 16 * number) + bytes((13, 2, 8)) + END for number in range(1001)]
    with held_below(MB):
        lines = lines_of(b"".join(runs[:1000]))
        assert lines.locate(0x1000 + 16 * 500) == ("a.c", 2)
        assert len(lines._rows._kept) <= 1 << 8  # a chunk costs more than its one row
    with pytest.raises(MalformedFile, match="more than 1000 sequences"):
        lines_of(b"".join(runs)).locate(0x1000)


def test_a_line_table_of_very_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LINE_FILES", 1000)
    code = at_address(0x1000) + bytes((13, 2, 8)) + END
    defined = b"\0\x06\x03a\0\0\0\0"
    assert lines_of(998 * defined + code).locate(0x1000) == ("a.c", 2)
    with pytest.raises(MalformedFile, match="more than 1000 files"):
        lines_of(1000 * defined + code).locate(0x1000)


def some_program(chance: random.Random) -> tuple[bytes, list[tuple[int, int, bool]]]:
    """Return a line program with one sequence, and its rows: address, line, is_stmt."""
    program, rows = bytearray(at_address(0x1000)), []
    address, line, is_stmt = 0x1000, 1, False
    for _ in range(3000):
        kind = chance.random()
        if kind < 0.1:
            program.append(6)  # DW_LNS_negate_stmt
            is_stmt = not is_stmt
        elif kind < 0.2:
            program += bytes((1,))  # DW_LNS_copy
            rows.append((address, line, is_stmt))
        else:
            opcode = chance.choice((13, 14, 15, 23, 24, 33, 53))
            address += (opcode - 13) // 10
            line += 1 + (opcode - 13) % 10
            program.append(opcode)
            rows.append((address, line, is_stmt))
    return bytes(program + bytes((2, 1)) + END), rows


@pytest.mark.parametrize("kept", [1, 1 << 18])
def test_rows_are_found_whether_they_were_kept_or_not(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(dwarf_table, "_MAX_KEPT", kept)
    chance = random.Random(15)
    program, rows = some_program(chance)
    lines = lines_of(program)
    last = rows[-1][0]
    for address in [chance.randrange(0x1000, last + 1) for _ in range(300)]:
        nearest = max(row[0] for row in rows if row[0] <= address)
        same = [row for row in rows if row[0] == nearest]
        usual = next((row for row in reversed(same) if row[2]), same[-1])
        first = next((row for row in same if row[2]), same[0])
        assert lines.locate(address) == ("a.c", usual[1])
        assert lines.locate(address, entry=True) == ("a.c", first[1])
    (only,) = lines._tables.values()
    for index in (0, 500, 511, 512, 1300, len(rows) - 3):
        begin = next(n for n, row in enumerate(rows) if row[0] == rows[index][0])
        begin = next((n for n in range(begin, len(rows)) if rows[n][0] == rows[index][0] and rows[n][2]), begin)
        assert [row[1:] for row in only.first_rows(rows[index][0], 8)] == [row[1:] for row in rows[begin : begin + 8]]
    assert kept == 1 or only._kept._count <= kept


def test_rows_that_are_not_in_order_are_put_in_order() -> None:
    chance = random.Random(16)
    places = [0x1000 + 4 * n for n in range(1500)]
    chance.shuffle(places)
    # Each row has its address, and then the next line.
    program = b"".join(at_address(place) + bytes((13,)) for place in places)
    lines = lines_of(program + at_address(0x1000 + 4 * 1500) + END)
    for number in chance.sample(range(1500), 100):
        assert lines.locate(places[number] + 1) == ("a.c", number + 2)


# Units and lists


def test_units_without_bytes_are_counted_against_their_section(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = LineInfo(Made(info=bytes(4 * MB), abbrev=b"\0", line=b""))  # type: ignore[arg-type]
    walked = 0
    usual = dwarf_files.read_length

    def counted(cursor: Cursor) -> tuple[int, int]:
        nonlocal walked
        walked += 1
        return usual(cursor)

    monkeypatch.setattr(dwarf_files, "read_length", counted)
    for _ in range(3):
        with pytest.raises(MalformedFile, match="too many units"):
            lines.locate(0x1000)
    assert walked <= limits.FREE_UNITS + 4 * MB // limits.UNIT_HEADER


def test_ranges_that_are_shared_are_paid_for_once() -> None:
    count, functions = 2000, 2000
    ranges = b"".join(struct.pack("<QQ", 0x2000 + n, 0x2001 + n) for n in range(count)) + bytes(16)
    # A unit with the range of its code, and functions that share one list of ranges.
    abbrev = bytes((1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, 2, 0x2E, 0, 0x55, 0x17, 0, 0, 0))
    entries = bytes((1,)) + struct.pack("<QQ", 0x1000, 1 << 20) + (bytes((2,)) + bytes(4)) * functions + b"\0"
    unit = struct.pack("<HIB", 4, 0, 8) + entries
    made = Made(info=struct.pack("<I", len(unit)) + unit, abbrev=abbrev, ranges=ranges)
    lines = LineInfo(made)  # type: ignore[arg-type]
    with held_below(32 * MB), pytest.raises(MalformedFile, match="ranges of a unit's entries are too many"):
        lines.functions(0x1500)


# Snapshots


def test_memory_that_a_core_only_claims_is_not_made(tmp_path: Path) -> None:
    raw = bytearray(stopped("hang").core.read_bytes())
    rows = [n for n, s in enumerate(ElfFile(bytes(raw), "core").segments) if s.p_type == PT_LOAD]
    for row in rows:
        struct.pack_into("<Q", raw, 64 + 56 * row + 40, (1 << 64) - 1)
    path = tmp_path / "core"
    path.write_bytes(raw)
    target = CoreTarget(str(path))
    regions = target.regions()
    assert all(one.end <= other.start for one, other in pairwise(regions))
    assert regions[-1].end <= 1 << 64
    target.close()


def test_zeros_over_strings_are_no_bytes() -> None:
    process = SimpleNamespace(target=SimpleNamespace(auxiliary_vector=lambda: {AT_RANDOM: 0x1000}))
    found = snapshot._without_strings(process, [MemoryRegion(0, 1 << 63, 6)])  # type: ignore[arg-type]
    assert found == {0x1010: (1 << 63) - 0x1010}


# Compression


def members(kind: str, count: int) -> bytes:
    if kind == "gzip":
        return gzip.compress(b"") * count
    if kind == "zstd":
        return zstd_frame(b"") * count
    if kind == "skippable":
        return (b"\x50\x2a\x4d\x18" + bytes(4)) * count
    # One frame of raw blocks without content (RFC 8878, 3.1.1.2).
    return b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * count + b"\x01\0\0"


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_members_that_hold_nothing_are_not_read_on_and_on(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "core"
    path.write_bytes(members(kind, 50_000))
    with pytest.raises(BadFile, match="pieces that hold 0 bytes"):
        unpack(str(path), "core", MB)


def test_blocks_that_hold_nothing_are_passed_over_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def counted(source: Any, name: str) -> Iterator[bytes]:
        nonlocal calls
        for piece in member(source, name):
            calls += 1
            yield piece

    member = compressed._member
    monkeypatch.setattr(compressed, "_member", counted)
    path = tmp_path / "core"
    path.write_bytes(members("blocks", MB) + zstd_frame(b"core"))
    found = unpack(str(path), "core", MB)
    assert found.fault is None and found.data[:] == b"core"
    assert calls < 60  # the data is 3 MB
    found.data.close()


def test_frames_to_be_skipped_are_counted_too(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(members("zstd", 1) + members("skippable", 50_000))
    with pytest.raises(BadFile, match="pieces that hold 0 bytes"):
        unpack(str(path), "core", MB)


def test_many_members_that_hold_something_are_read(tmp_path: Path) -> None:
    # Many small members, as `bgzip` and `pzstd` write them.
    path = tmp_path / "core"
    piece = random.Random(3).randbytes(4096)
    path.write_bytes(gzip.compress(piece) * 6000)
    found = unpack(str(path), "core", 64 * MB)
    assert found.fault is None and found.note is None and len(found.data) == 6000 * 4096
    found.data.close()


def test_little_does_not_become_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 4 * MB)
    path = tmp_path / "core"
    path.write_bytes(zstd_frame(b"x" * (16 * MB)))
    with pytest.raises(BadFile, match="becomes more than its size justifies") as told:
        unpack(str(path), "core", 1 << 30)
    assert "give the core itself" in told.value.hint
    # Zeros need no memory.
    path.write_bytes(zstd_frame(bytes(64 * MB) + b"x"))
    found = unpack(str(path), "core", 1 << 30)
    assert len(found.data) == 64 * MB + 1
    found.data.close()


def test_what_is_promised_to_stay_free_stays_free(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = 300 * MB
    system = namedtuple("system", ("f_bavail", "f_frsize"))
    out = SparseFile("core", 1 << 40)
    monkeypatch.setattr(compressed.os, "fstatvfs", lambda _: system((disk - out.size) // 4096, 4096))
    with pytest.raises(BadFile, match="does not fit"):
        for _ in range(400):
            out.write(b"x" * MB)
    assert disk - out.size >= limits.KEPT_FREE
    assert disk - out.size < limits.KEPT_FREE + 8 * MB
    out.close()


# Separate debug files


def test_a_debug_file_of_holes_is_told_of(tmp_path: Path) -> None:
    link = b"made.debug\0\0" + struct.pack("<I", 1)
    names = b"\0.gnu_debuglink\0"
    at = body_at(0, 2)
    rows = [
        (1, SHT_PROGBITS, 0, 0, at, len(link), 0, 0, 1, 0),
        (0, SHT_STRTAB, 0, 0, at + len(link), len(names), 0, 0, 1, 0),
    ]
    (tmp_path / "made").write_bytes(elf(ET_DYN, sections=rows, body=link + names))
    path = str(tmp_path / "made")
    debug = sparse(tmp_path / "made.debug", 60 << 30, {0: elf(ET_DYN)})
    finder = FileFinder()
    assert finder.debug_file(ElfFile(open_paged(path), path), path, path) is None
    assert list(finder.passed_by) == [debug]
    with Session.open_core(stopped("hang").core) as session:
        session.process.finder.passed_by.update(finder.passed_by)
        answer = threads.ask(session)
    assert answer.complete and any(debug in text and "almost nothing but holes" in text for text in answer.warnings)


def test_links_of_another_root_stay_in_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "lib/deep").mkdir(parents=True)
    (root / "lib/real").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "absolute").symlink_to("/lib")
    (root / "lib/up").symlink_to("../../../secret")
    (root / "lib/deep/link").symlink_to("/absolute/real")
    (root / "ring").symlink_to("/ring")
    (root / "secret").write_bytes(b"inside")
    for name in ("absolute/real", "lib/deep/link", "lib/up", "../../secret", "absolute/./../secret"):
        found = reading._locate_inside(str(root), name)
        assert Path(f"/proc/self/fd/{found}").read_bytes() == b"inside", name
        os.close(found)
    for name in ("ring", f"{tmp_path}/secret", "lib/none", "lib/real/x"):
        with pytest.raises(OSError):
            reading._locate_inside(str(root), name)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BadFile):
        open_paged(f"/proc/{os.getpid()}/root{tmp_path}/none")
    with open_paged(f"/proc/{os.getpid()}/root{tmp_path}/secret") as mapped:
        assert mapped[:] == b"outside"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_root
def test_tables_of_layouts_that_others_could_have_written_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "ompd/layouts"
    folder.mkdir(parents=True)
    shipped = sorted(table.FOLDER.glob("libgomp-*.json"))
    for name, path in zip(("own", "given"), shipped, strict=False):
        (folder / f"{name}.json").write_bytes(path.read_bytes())
    os.chown(folder / "given.json", STRANGER, STRANGER)
    found, faults = table.user_tables()
    assert [each.name for each in found] == ["own"]
    assert len(faults) == 1 and "given.json belongs to user 54321" in str(faults[0])
    (folder / "given.json").unlink()
    folder.chmod(0o777)
    found, faults = table.user_tables()
    assert not found and "others may write to" in str(faults[0])
