"""Debug information made to cost time or memory, or made with cycles."""

from __future__ import annotations

import struct

import pytest

from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.dwarf.sections import PackageIndex
from ompd.errors import MalformedFile, OmpdError
from tests.fuzz.formats import Itself
from tests.support.budget import within
from tests.support.made_lines import Made

_CODE = struct.pack("<QQ", 0x1000, 0x1000)


def unit_of(entries: bytes, abbreviations: bytes, language: int = 0x04) -> dict[str, bytes]:
    """Return sections with one C++ unit that has these entries. Abbreviation 1 is the unit itself, at offset 11."""
    top = b"\1" + bytes([language]) + _CODE
    header = struct.pack("<IHIB", 7 + len(top) + len(entries) + 1, 4, 0, 8)
    own = b"\1\x11\1\x13\x0b\x11\1\x12\7\0\0"
    return {"info": header + top + entries + b"\0", "abbrev": own + abbreviations + b"\0"}


FIRST = 11 + 18  # offset of the unit's first entry
# 2: a function with a name; 3: a function with an origin; 4: a namespace with a name; 5: a namespace with DW_AT_sibling
FUNCTION, ORIGIN, SCOPE, SIBLING = b"\2", b"\3", b"\4", b"\5"
ABBREVIATIONS = (
    b"\2\x2e\0\x03\x08\x11\1\x12\7\0\0\3\x2e\0\x31\x13\x11\1\x12\7\0\0\4\x39\1\x03\x08\0\0\5\x39\1\x01\x13\x03\x08\0\0"
)


def info_of(entries: bytes) -> LineInfo:
    return LineInfo(Made(**unit_of(entries, ABBREVIATIONS)))  # type: ignore[arg-type]


def soon(ask: LineInfo) -> list[str | None] | None:
    with within(10):
        try:
            return [function.name for function in ask.functions(0x1800)]
        except OmpdError:
            return None


def test_scopes_are_told() -> None:
    function = FUNCTION + b"f\0" + _CODE
    assert soon(info_of(function)) == ["f"]
    assert soon(info_of(SCOPE + b"outer\0" + SCOPE + b"\0" + function + b"\0\0")) == ["outer::(anonymous namespace)::f"]
    inner = SIBLING + struct.pack("<I", FIRST + 5 + 2 + len(function) + 1) + b"x\0" + function + b"\0"
    assert soon(info_of(inner)) == ["x::f"]


def test_origins_that_lead_in_circles_end() -> None:
    itself = ORIGIN + struct.pack("<I", FIRST) + _CODE
    assert soon(info_of(itself)) is None
    each_other = ORIGIN + struct.pack("<I", FIRST + 21) + _CODE + ORIGIN + struct.pack("<I", FIRST) + _CODE
    assert soon(info_of(each_other)) is None


def test_scopes_without_end_end() -> None:
    function = FUNCTION + b"f\0" + _CODE
    for depth in (33, 1000, 100_000):
        assert soon(info_of(SCOPE * 1 + b"s\0" + (SCOPE + b"s\0") * depth + function + b"\0" * (depth + 1))) is None


def test_ends_of_entries_that_contradict_each_other_take_no_time() -> None:
    # Each scope claims to reach to the end, and contains the next scope, which claims the same.
    count = 20_000
    function = FUNCTION + b"f\0" + _CODE
    end = FIRST + count * 7 + len(function)
    scopes = b"".join(SIBLING + struct.pack("<I", end - number % 3) + b"s\0" for number in range(count))
    soon(info_of(scopes + function + b"\0" * count))


def test_names_without_end_are_no_names() -> None:
    assert soon(info_of(FUNCTION + b"f" * 70_000 + b"\0" + _CODE)) == [None]
    assert soon(info_of(SCOPE + b"s" * 65_000 + b"\0" + FUNCTION + b"f" * 65_000 + b"\0" + _CODE + b"\0")) == [None]
    cut = unit_of(FUNCTION + b"f" * 1000, ABBREVIATIONS)
    cut["info"] = cut["info"][:-1]
    assert soon(LineInfo(Made(**cut))) is None  # type: ignore[arg-type]


def package(version: bytes, slots: list[int], rows: list[int], columns: bytes) -> bytes:
    count = len(columns) // 4
    data = version + struct.pack("<III", count, max(rows, default=0), len(slots))
    data += b"".join(struct.pack("<Q", slot) for slot in slots) + b"".join(struct.pack("<I", row) for row in rows)
    return data + columns + struct.pack("<I", 7) * (2 * count * max(rows, default=0))


@pytest.mark.parametrize("version", [struct.pack("<I", 2), struct.pack("<HH", 5, 0)], ids=["4", "5"])
def test_indexes_of_packages(version: bytes) -> None:
    columns = struct.pack("<II", 1, 3)
    found = PackageIndex(package(version, [0, 9, 0, 0], [0, 1, 0, 0], columns), "little", "made")
    assert found.find(9) == {".debug_info": 7, ".debug_abbrev": 7}
    assert found.find(8) is None and found.find(5) is None
    # In these tables all slots are taken. The search gives up before the end of the largest table.
    assert PackageIndex(package(version, [1] * 8, [1] * 8, columns), "little", "made").find(9) is None
    with pytest.raises(MalformedFile):
        PackageIndex(package(version, [1] * 65_536, [1] * 65_536, columns), "little", "made").find(9)
    for raw in (
        version,
        version + struct.pack("<III", 2, 1 << 31, 4) + bytes(100),
        version + struct.pack("<III", 1 << 31, 1, 4) + bytes(100),
        version + struct.pack("<III", 2, 1, 1 << 31) + bytes(100),
        package(version, [1] * 3, [1] * 3, columns),
        struct.pack("<IIII", 9, 0, 0, 0),
    ):
        with pytest.raises(MalformedFile):
            PackageIndex(raw, "little", "made")
    with pytest.raises(MalformedFile):
        wrong_row = package(version, [9], [1], columns).replace(struct.pack("<QI", 9, 1), struct.pack("<QI", 9, 2))
        PackageIndex(wrong_row, "little", "made").find(9)


def test_a_supplementary_file_that_refers_to_itself_ends() -> None:
    # The functions' origins are in the supplementary file, and this file is its own supplementary file.
    abbreviations = b"\2\x2e\0\x31\xa0\x3e\x11\1\x12\7\0\0"
    entry = b"\2" + struct.pack("<I", FIRST) + _CODE
    made = Made(**unit_of(entry, abbreviations))
    made.ident_class = 64  # type: ignore[attr-defined]
    link = b"self\0identifier"
    sections = {**made._sections, ".gnu_debugaltlink": link}
    made._sections = sections
    elf = _WithLink(made)
    info = LineInfo(elf, Itself(elf))  # type: ignore[arg-type]
    assert soon(info) == [None]
    assert DebugFiles(elf, Itself(elf)).supplementary is not None  # type: ignore[arg-type]


class _WithLink:
    # An invented file with the parts of ElfFile's interface that concern sections.
    name, byte_order, ident_class, disk_size = "made", "little", 64, 1 << 20

    def __init__(self, made: Made) -> None:
        self._made = made

    def section(self, name: str) -> _Section | None:
        return _Section(name) if self._made.section(name) is not None else None

    def section_span(self, section: _Section) -> tuple[bytes, int, int]:
        return self._made.section_span(section.name)

    def section_data(self, section: _Section) -> bytes:
        return self._made.section_span(section.name)[0]

    def build_id(self) -> bytes:
        return b"identifier"


class _Section:
    sh_type, sh_offset = 1, 0

    def __init__(self, name: str) -> None:
        self.name = name


def test_only_an_elf_file_of_the_same_machine_is_taken() -> None:
    elf = _WithLink(Made(**unit_of(FUNCTION + b"f\0" + _CODE, ABBREVIATIONS)))
    elf._made._sections[".gnu_debugaltlink"] = b"self\0identifier"
    other = _WithLink(elf._made)
    other.ident_class = 32
    files = DebugFiles(elf, Itself(other))  # type: ignore[arg-type]
    assert files.supplementary is None and not files.is_whole
