"""Unwind tables, compared with readelf's interpretation, and damaged or invented ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ompd.binary.cfi.program import CfaRule, Cie, Rule
from ompd.binary.cfi.tables import Fde, Row, UnwindTable
from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.expression import evaluate
from ompd.binary.elf.elf import PT_GNU_EH_FRAME, ElfFile
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from tests.support import intel_runtime, require
from tests.support.made_unwinding import cie, entry, uleb
from tests.support.samples import compiled, libc, mapped, run, survives

# System V psABI for AMD64, figure 3.36
NAMES = (
    *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{i}" for i in range(8, 16)), "ra"),
    *(f"xmm{i}" for i in range(16)),
)


def fdes_of(table: UnwindTable) -> list[Fde]:
    """Return all entries in the section's order, without the search table."""
    return [table._parse_fde(head) for _, head in table._heads() if head.cie is not None]


def own_program() -> Path:
    return compiled()


def runtime() -> Path:
    return intel_runtime() / "lib" / "libiomp5.so"


def listed_by_readelf(path: Path, wanted: str = ".eh_frame") -> Iterator[tuple[int, int, int, str, dict[str, str]]]:
    """Yield each row of ``readelf --debug-dump=frames-interp``: the function's start and end, the row's address, CFA
    and registers.
    """
    start = end = 0
    columns: list[str] = []
    section = ""
    for line in run(require("readelf"), "--debug-dump=frames-interp", path).splitlines():
        named = re.match(r"Contents of the (\S+) section", line)
        if named:
            section = named[1]
        if section != wanted:
            continue
        header = re.search(r" FDE .*pc=(\w+)\.\.(\w+)", line)
        if header:
            start, end, columns = int(header[1], 16), int(header[2], 16), []
        elif " CIE " in line:
            start = end = 0
        elif line.startswith("   LOC"):
            columns = line.split()[2:]
        elif end and columns and re.match(r"[0-9a-f]{16} ", line):
            # A register's name may be two words: "r9 (r9)".
            words = re.sub(r" \(\w+\)", "", line).split()
            yield start, end, int(words[0], 16), words[1], dict(zip(columns, words[2:], strict=True))


def told(row: Row) -> tuple[str, dict[str, str]]:
    """Return a row's CFA and registers in readelf's notation."""
    cfa = "exp" if row.cfa.expression else f"{NAMES[row.cfa.register]}{row.cfa.offset:+d}"
    words = {
        "offset": lambda rule: f"c{rule.value:+d}",
        "val_offset": lambda rule: f"v{rule.value:+d}",
        "register": lambda rule: f"r{rule.value}",
        "expression": lambda rule: "exp",
        "val_expression": lambda rule: "vexp",
        "undefined": lambda rule: "u",
        "same_value": lambda rule: "s",
    }
    return cfa, {NAMES[number]: words[rule.kind](rule) for number, rule in row.registers.items()}


def check_against_readelf(path: Path, table: UnwindTable, section: str = ".eh_frame") -> int:
    rows = list(listed_by_readelf(path, section))
    # If two rows have the same address, the last one holds.
    last = {
        (start, address): (end, cfa, registers)
        for start, end, address, cfa, registers in rows
        if start <= address < end
    }
    for (start, address), (end, cfa, registers) in last.items():
        row = table.row(address)
        assert row is not None, hex(address)
        assert (row.function_start, row.function_end, row.start) == (start, end, address)
        ours_cfa, ours = told(row)
        assert ours_cfa == cfa, hex(address)
        assert {n: ours.get(n, "u") for n in registers} == registers, hex(address)
        assert ours.keys() <= registers.keys()
        inside = table.row(row.end - 1)
        assert inside is not None and inside[1:] == row[1:]
    return len(last)


@pytest.mark.parametrize("file", [own_program, runtime, libc])
@pytest.mark.quick("own_program")
def test_every_row_is_the_one_that_readelf_interprets(file: Callable[[], Path]) -> None:
    table = UnwindTable.from_elf(mapped(file()))
    assert table is not None
    assert check_against_readelf(file(), table) > 20


def test_the_table_is_found_without_section_headers() -> None:
    data = bytearray(compiled().read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    table = UnwindTable.from_elf(ElfFile(bytes(data), "stripped"))
    assert table is not None
    assert check_against_readelf(compiled(), table) > 20


def test_without_a_search_table_all_entries_are_read() -> None:
    elf = mapped(compiled())
    section = elf.section(".eh_frame")
    assert section is not None
    linear = UnwindTable(b"", 0, elf.section_data(section), section.sh_addr)
    assert check_against_readelf(compiled(), linear) > 20
    hdr = elf.segment_data(next(s for s in elf.segments if s.p_type == PT_GNU_EH_FRAME))
    tableless = UnwindTable(hdr[:2] + b"\xff\xff" + hdr[4:8], 0, elf.section_data(section), section.sh_addr)
    assert [f.start for f in fdes_of(tableless)] == [f.start for f in fdes_of(linear)]
    assert tableless.row(elf.e_entry) == linear.row(elf.e_entry)


def with_table(change: Callable[[bytes], bytes]) -> UnwindTable:
    """Return the unwind table of a program, with a changed ``.eh_frame_hdr``."""
    elf = mapped(compiled())
    segment = next(s for s in elf.segments if s.p_type == PT_GNU_EH_FRAME)
    section = elf.section(".eh_frame")
    assert section is not None
    hdr = elf.segment_data(segment)
    return UnwindTable(change(hdr), segment.p_vaddr, elf.section_data(section), section.sh_addr)


def exchanged(hdr: bytes) -> bytes:
    """Return the header with the two halves of its table exchanged, so that the table is not sorted."""
    middle = 12 + (len(hdr) - 12) // 16 * 8
    return hdr[:12] + hdr[middle:] + hdr[12:middle]


@pytest.mark.parametrize(
    "change",
    [
        lambda hdr: b"\x02" + hdr[1:],
        lambda hdr: hdr[:7],
        lambda hdr: hdr[:8] + struct.pack("<I", 1 << 31) + hdr[12:],
        lambda hdr: hdr[:8] + bytes(4) + hdr[12:],
        lambda hdr: hdr[:3] + b"\x1b" + hdr[4:],
        lambda hdr: hdr[:12] + bytes(len(hdr) - 12),
        lambda hdr: hdr[:12] + b"".join(hdr[i : i + 4] + bytes(4) for i in range(12, len(hdr) - 7, 8)),
        exchanged,
    ],
    ids=["version", "cut off", "too long", "empty", "relative", "zeros", "no entries", "unsorted"],
)
def test_a_search_table_of_no_use_is_done_without(change: Callable[[bytes], bytes]) -> None:
    assert check_against_readelf(compiled(), with_table(change)) > 20


def test_addresses_that_no_entry_covers_have_no_row() -> None:
    table = UnwindTable.from_elf(mapped(compiled()))
    assert table is not None
    assert [table.row(pc) for pc in (0, 1, 0x7FFFFFFFFFFF, (1 << 64) - 1)] == [None] * 4
    assert table.find_fde(0) is None


def test_a_file_without_unwind_data_has_no_table() -> None:
    debug_file = intel_runtime() / "lib" / "libiomp5.dbg"
    assert UnwindTable.from_elf(mapped(debug_file)) is None


def test_the_signal_frame_is_told_and_finds_all_registers() -> None:
    path = libc()
    table = UnwindTable.from_elf(mapped(path))
    assert table is not None
    fde = next(fde for fde in fdes_of(table) if fde.cie.is_signal_frame)
    row = table.row(fde.start)
    assert row is not None and row.is_signal_frame and row.cfa.expression
    assert set(row.registers) >= set(range(17))


# Invented entries


def table_of(
    instructions: bytes, size: int = 0x100, *, first: bytes | None = None, augmented: bool = True
) -> UnwindTable:
    head = cie() if first is None else first
    body = struct.pack("<IQQ", len(head) + 4, 0x1000, size) + (b"\0" if augmented else b"") + instructions
    return UnwindTable(b"", 0, head + entry(body) + bytes(4), 0x8000)


def row_of(instructions: bytes, pc: int = 0x1000) -> Row:
    row = table_of(instructions).row(pc)
    assert row is not None
    return row


def test_each_instruction_has_its_effect() -> None:
    cases: dict[bytes, dict[int, Rule]] = {
        b"\x83\x02": {3: Rule("offset", -16)},
        b"\x05\x03\x02": {3: Rule("offset", -16)},
        b"\x11\x03\x7e": {3: Rule("offset", 16)},
        b"\x2f\x03\x02": {3: Rule("offset", 16)},
        b"\x14\x03\x02": {3: Rule("val_offset", -16)},
        b"\x15\x03\x7e": {3: Rule("val_offset", 16)},
        b"\x09\x03\x05": {3: Rule("register", 5)},
        b"\x10\x03\x01\x96": {3: Rule("expression", 0, b"\x96")},
        b"\x16\x03\x01\x96": {3: Rule("val_expression", 0, b"\x96")},
        b"\x07\x10": {16: Rule("undefined")},
        b"\x08\x03": {3: Rule("same_value")},
        b"\x83\x02\xc3": {},
        b"\x83\x02\x06\x03": {},
        b"\x90\x03\xd0": {16: Rule("offset", -8)},  # restored to the CIE's rule
        b"\x0a\x83\x02\x0b": {},
        b"\x00\x2e\x10": {},
    }
    for instructions, changes in cases.items():
        assert row_of(instructions).registers == {16: Rule("offset", -8), **changes}, instructions
    cfas = {
        b"\x0c\x06\x10": CfaRule(6, 16),
        b"\x12\x06\x7e": CfaRule(6, 16),
        b"\x0d\x06": CfaRule(6, 8),
        b"\x0e\x20": CfaRule(7, 32),
        b"\x13\x7c": CfaRule(7, 32),
        b"\x0f\x02\x77\x08": CfaRule(0, 0, b"\x77\x08"),
        b"\x0a\x0e\x20\x0b": CfaRule(7, 8),
    }
    for instructions, cfa in cfas.items():
        assert row_of(instructions).cfa == cfa, instructions


def test_rows_begin_and_end_where_the_location_advances() -> None:
    instructions = (
        b"\x41\x0e\x10" + b"\x02\x04\x0e\x18" + b"\x03\x10\0\x0e\x20" + b"\x04\x20\0\0\0\x0e\x28"
        + b"\x01" + struct.pack("<Q", 0x1080) + b"\x0e\x30"
    )  # fmt: skip
    table = table_of(instructions)
    rows = [table.row(pc) for pc in (0x1000, 0x1001, 0x1004, 0x1005, 0x1015, 0x1035, 0x1080, 0x10FF)]
    assert [(r.start, r.end, r.cfa.offset) for r in rows if r] == [
        (0x1000, 0x1001, 8),
        (0x1001, 0x1005, 16),
        (0x1001, 0x1005, 16),
        (0x1005, 0x1015, 24),
        (0x1015, 0x1035, 32),
        (0x1035, 0x1080, 40),
        (0x1080, 0x1100, 48),
        (0x1080, 0x1100, 48),
    ]
    assert table.row(0x1100) is None


def test_augmentations_are_told_apart() -> None:
    signal_frame = table_of(b"", first=cie(b"zRS", b"\0")).row(0x1000)
    assert signal_frame is not None and signal_frame.is_signal_frame
    personality = table_of(b"", first=cie(b"zPLR", b"\x9b\1\2\3\4\x1b\0")).row(0x1000)
    assert personality is not None and not personality.is_signal_frame
    assert table_of(b"", first=cie(b"zRB", b"\0")).row(0x1000) is not None
    assert table_of(b"", first=cie(b""), augmented=False).row(0x1000) is not None
    for augmentation in (b"eh", b"zQ", b"armcc+"):
        with pytest.raises(MalformedFile):
            table_of(b"", first=cie(augmentation, b"\0")).row(0x1000)
    with pytest.raises(MalformedFile):  # the function's address is indirect
        table_of(b"", first=cie(b"zR", b"\x80")).row(0x1000)


@pytest.mark.parametrize(
    "instructions",
    [
        b"\x05" + b"\x80" * 40,  # LEB128 without end
        b"\x05\x03",  # no operand
        b"\x0b",  # nothing to restore
        b"\x0a" * 1000,
        b"\x3f",  # unknown
        b"\x0f\xff\xff\xff\x7f\0",  # an expression longer than the entry
        b"".join(b"\x08" + uleb(i) for i in range(2000)),
    ],
    ids=["leb128", "cut off", "restore", "remember", "unknown", "expression", "registers"],
)
def test_instructions_that_make_no_sense_are_refused(instructions: bytes) -> None:
    with pytest.raises(MalformedFile):
        table_of(instructions).row(0x1000)


def test_entries_that_do_not_fit_are_refused() -> None:
    for data in (
        struct.pack("<I", 100) + bytes(8),
        struct.pack("<IQ", 0xFFFFFFFF, 1 << 63) + bytes(8),
        entry(struct.pack("<I", 4) + bytes(16)),  # would be its own CIE
        entry(struct.pack("<I", 0x7FFFFFFF) + bytes(16)),
        cie()[:-1],
        b"\1\2",
    ):
        with pytest.raises(MalformedFile):
            UnwindTable(b"", 0, data, 0x8000).row(0x1000)


def test_an_entry_that_makes_no_sense_hides_no_other() -> None:
    head = cie()
    lost = entry(struct.pack("<I", 0x7FFF) + bytes(17))  # its CIE would lie before the section
    good = entry(struct.pack("<IQQ", len(head + lost) + 4, 0x1000, 0x100) + b"\0")
    other = entry(struct.pack("<IQQ", len(head + lost + good) + 4, 0x3000, 0x10) + b"\0\x0e\x20")
    table = UnwindTable(b"", 0, head + lost + good + other + b"\xff\xff", 0x8000)
    rows = [table.row(pc) for pc in (0x1000, 0x3000)]
    assert [row.cfa.offset for row in rows if row is not None] == [8, 32]
    with pytest.raises(MalformedFile):
        table.row(0x2000)


# .debug_frame


SOURCE = """\
int g(int);
int f(int x) { int a[x]; a[0] = x; return g(a[x / 2]) + x; }
int g(int x) { return x ? f(x - 1) * 3 : 7; }
int main(int count, char **arguments) { (void)arguments; return f(count); }
"""


@pytest.mark.parametrize(
    ("compiler", "flags", "versions"),
    [
        ("gcc", ("-gdwarf-3",), {1}),
        ("gcc", ("-gdwarf-4", "-Wa,--gdwarf-cie-version=3"), {3}),
        ("gcc", ("-gdwarf-5", "-Wa,--gdwarf-cie-version=4", "-gz"), {4}),
        ("clang", ("-gdwarf-5",), {4}),
        ("clang", ("-gdwarf-5", "-gdwarf64"), {4}),
    ],
    ids=["2", "3", "4, compressed", "4 of clang", "64-bit"],
)
def test_rows_of_debug_frame_are_those_that_readelf_interprets(
    compiler: str, flags: tuple[str, ...], versions: set[int]
) -> None:
    path = compiled(compiler, *flags, "-fno-asynchronous-unwind-tables", text=SOURCE)
    table = UnwindTable.from_debug_frame(mapped(path))
    assert table is not None
    assert check_against_readelf(path, table, ".debug_frame") > 6
    printed = run(require("readelf"), "--debug-dump=frames", path).partition(".debug_frame")[2]
    assert {int(number) for number in re.findall(r"Version: +(\d)", printed)} == versions
    assert (" ffffffffffffffff CIE" in printed) == ("-gdwarf64" in flags)
    loaded = UnwindTable.from_elf(mapped(path))
    assert loaded is not None
    assert {fde.start for fde in fdes_of(table)}.isdisjoint(fde.start for fde in fdes_of(loaded))


def test_a_file_without_debug_frame_has_no_such_table() -> None:
    assert UnwindTable.from_debug_frame(mapped(libc())) is None


def debug_cie(
    version: int = 4, *, wide: bool = False, pointer: int = 8, segment: int = 0, augmentation: bytes = b"\0"
) -> bytes:
    body = (b"\xff" * (8 if wide else 4)) + bytes((version,)) + augmentation
    body += (bytes((pointer, segment)) if version == 4 else b"") + b"\x01\x78\x10" + b"\x0c\x07\x08\x90\x01"
    return entry(body) if not wide else struct.pack("<IQ", 0xFFFFFFFF, len(body)) + body


def debug_fde(
    start: int, size: int, cie_at: int = 0, instructions: bytes = b"\x0e\x10", *, wide: bool = False
) -> bytes:
    body = struct.pack("<QQQ" if wide else "<IQQ", cie_at, start, size) + instructions
    return entry(body) if not wide else struct.pack("<IQ", 0xFFFFFFFF, len(body)) + body


def debug_table(data: bytes, pointer_size: int = 8) -> UnwindTable:
    return UnwindTable(b"", 0, data, 0, is_debug_frame=True, pointer_size=pointer_size)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("version", [1, 3, 4])
def test_debug_frame_counts_cies_from_its_beginning(version: int, wide: bool) -> None:
    head = debug_cie(version, wide=wide)
    second = debug_fde(0x1000, 0x20, wide=wide) + head
    data = head + second + debug_fde(0x3000, 0x20, len(head + second) - len(head), b"\x0e\x28", wide=wide)
    rows = [debug_table(data).row(pc) for pc in (0x101F, 0x3000)]
    assert [(row.start, row.end, row.cfa) for row in rows if row is not None] == [
        (0x1000, 0x1020, CfaRule(7, 16)),
        (0x3000, 0x3020, CfaRule(7, 40)),
    ]
    assert debug_table(data).row(0x2000) is None


def test_debug_frame_of_code_that_the_linker_dropped_covers_nothing() -> None:
    head = debug_cie()
    dropped = debug_fde(0, 0x10000) + debug_fde((1 << 64) - 1, 0x10000) + debug_fde(0x1000, 0)
    table = debug_table(head + dropped + debug_fde(0x1000, 0x20) + bytes(12) + debug_fde(0x5000, 0x20))
    assert [table.row(pc) is not None for pc in (0, 8, 0x800, 0x1000, 0x1040, 0x5000)] == [
        *(False, False, False, True, False, True)
    ]


def test_debug_frame_with_short_addresses() -> None:
    body = b"\xff\xff\xff\xff\x04\0\x04\0\x01\x7c\x08" + b"\x0c\x04\x04\x88\x01"
    data = entry(body) + entry(struct.pack("<III", 0, 0x1000, 0x20) + b"\x0e\x08")
    row = debug_table(data, 4).row(0x1010)
    assert row is not None and row.cfa == CfaRule(4, 8) and row.registers == {8: Rule("offset", -4)}


@pytest.mark.parametrize(
    "data",
    [
        debug_cie(segment=2) + debug_fde(0x1000, 0x20),
        debug_cie(pointer=4) + debug_fde(0x1000, 0x20),
        debug_cie(version=9) + debug_fde(0x1000, 0x20),
        debug_fde(0x1000, 0x20),  # would be its own CIE
        debug_fde(0x1000, 0x20, 24) + debug_fde(0x2000, 0x20, 0),  # each would be the other's CIE
        debug_cie() + debug_fde(0x1000, 0x20, 0x7FFFFFFF),
        debug_cie() + debug_fde(0x1000, 0x20, 1),
        debug_cie() + struct.pack("<I", 0xFFFFFFF0) + bytes(40),
        debug_cie() + struct.pack("<IQ", 0xFFFFFFFF, 1 << 63) + bytes(40),
        debug_cie() + struct.pack("<I", 2) + bytes(40),
        debug_cie() + entry(bytes(8)),
    ],
    ids=[
        *("segments", "address size", "version", "itself", "each other", "outside", "inside of another"),
        *("reserved length", "absurd length", "no room for a CIE", "no room for an address"),
    ],
)
def test_debug_frame_that_makes_no_sense_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedFile):
        debug_table(data).row(0x1000)


def test_a_debug_frame_of_nothing_but_entries_that_make_no_sense_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    original = UnwindTable._parse_cie

    def counted(self: UnwindTable, cursor: Cursor) -> Cie:
        nonlocal parsed
        parsed += 1
        return original(self, cursor)

    monkeypatch.setattr(UnwindTable, "_parse_cie", counted)
    with pytest.raises(MalformedFile):
        debug_table(debug_cie(version=9) + debug_fde(0x1000, 0x20) * 50_000).row(0x1000)
    assert 0 < parsed <= 1001


def test_damaged_debug_frames_are_read_or_refused() -> None:
    head = debug_cie()
    data = head + debug_fde(0x1000, 0x20) + debug_cie(wide=True) + debug_fde(0x1100, 0x20, wide=True)

    def use(damaged: bytes) -> None:
        table = debug_table(damaged)
        for pc in (0, 0x1000, 0x1008, 0x1100, 0x2000):
            with suppress(MalformedFile):
                table.row(pc)

    survives(data, use, examples=300)


# Expressions


def value_of(expression: bytes, registers: dict[int, int] | None = None, *initial: int) -> int:
    memory = {0x100: b"\x88\x77\x66\x55\x44\x33\x22\x11"}

    def read(address: int, size: int) -> bytes:
        if address not in memory:
            raise MemoryFault(address, size)
        return memory[address][:size]

    return evaluate(expression, registers or {}, read, initial=initial)


TOP = (1 << 64) - 1


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("03 1000000000000000", 0x10),
        ("08ff", 0xFF),
        ("09ff", TOP),
        ("0a0080", 0x8000),
        ("0b0080", TOP - 0x7FFF),
        ("0cffffffff", 0xFFFFFFFF),
        ("0dffffffff", TOP),
        ("0e0100000000000080", (1 << 63) + 1),
        ("10 8001", 128),
        ("11 7f", TOP),
        ("4f", 31),
        ("35 12 22", 10),  # lit5 dup plus
        ("35 36 13", 5),
        ("35 36 14 1c", 1),  # 5 6 5: 6 - 5
        ("35 36 37 1502", 5),
        ("35 36 16 1c", 1),
        ("35 36 37 17 1c", TOP),  # rot: 7 5 6, 5 - 6
        ("09ff 19", 1),
        ("35 1f", TOP - 4),
        ("30 20", TOP),
        ("09f9 32 1b", TOP - 2),  # -7 / 2 is -3
        ("37 32 1d", 1),
        ("35 36 1e", 30),
        ("3f 3c 1a", 12),
        ("31 32 21", 3),
        ("33 31 27", 2),
        ("31 34 24", 16),
        ("09ff 08ff 24", 0),
        ("09ff 10 ffffffffffffffffff01 25", 0),
        ("09f0 32 26", TOP - 3),
        ("35 2303", 8),
        ("35 35 29", 1),
        ("09ff 31 2d", 1),  # signed
        ("35 36 2b", 0),
        ("35 2f0100 36", 5),
        ("31 280100 35 36", 6),
        ("08 01 280100 36 37", 7),
        ("0a0001 06", 0x1122334455667788),
        ("0a0001 9402", 0x7788),
        ("96 35", 5),
        ("77 08", 0x1008),
        ("92 07 78", 0xFF8),
    ],
)
def test_an_expression_has_the_value_that_the_standard_gives_it(expression: str, value: int) -> None:
    assert value_of(bytes.fromhex(expression), {7: 0x1000}) == value


def test_the_linkage_table_expression_of_x86_64() -> None:
    # rsp + 8, and 8 more if the pc is past the push in a slot of 16 bytes (GNU ld's .eh_frame for .plt).
    expression = bytes.fromhex("7708 8000 3f 1a 3b 2a 33 24 22")
    assert value_of(expression, {7: 0x1000, 16: 0x200B}) == 0x1010
    assert value_of(expression, {7: 0x1000, 16: 0x200A}) == 0x1008


def test_an_expression_begins_with_what_it_is_given() -> None:
    assert value_of(b"\x23\x08", None, 0x1000) == 0x1008


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "22",
        "3531 2200 16",
        "2f fdff",
        "2f ff7f",
        "2f 0080",
        "30 30 1b",
        "50",
        "9408",
        "35 1505",
        "0800 9400",
        "03 01",
        "30" * 100,
        "10" + "80" * 30,
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(expression: str) -> None:
    with pytest.raises(MalformedFile):
        value_of(bytes.fromhex(expression))


def test_an_expression_says_what_it_lacks() -> None:
    with pytest.raises(Unavailable, match="register 9"):
        value_of(b"\x79\x00")
    with pytest.raises(MemoryFault):
        value_of(b"\x35\x06")


def everything(data: bytes) -> None:
    table = UnwindTable.from_elf(ElfFile(data, "damaged"))
    if table is None:
        return
    for pc in range(0x1000, 0x1400, 7):
        row = table.row(pc)
        if row is not None and row.cfa.expression:
            with suppress(Unavailable):
                evaluate(row.cfa.expression, dict.fromkeys(range(17), 64), lambda _, size: bytes(size))


def test_damaged_tables_are_read_or_refused() -> None:
    path = compiled()
    elf = mapped(path)
    regions = [(s.sh_offset, s.sh_offset + s.sh_size) for s in elf.sections if s.name in (".eh_frame", ".eh_frame_hdr")]
    survives(path.read_bytes(), everything, regions, examples=300)
