"""Locations of variables, read from invented and damaged bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.dwarf.lists import location_at
from ompd.binary.dwarf.location import (
    FrameContext,
    Piece,
    derefs_through,
    find_pieces,
    read_pieces,
)
from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.locals import declared_in, find_around, find_scopes
from ompd.binary.types.type_names import type_name
from ompd.binary.types.types import TypeInfo
from ompd.debugger.variables.frame_sizes import kept_frame_size
from ompd.errors import MalformedFile, MemoryFault, OmpdError, Unavailable
from ompd.safety import limits
from tests.support.local_variables import recipe
from tests.support.samples import mapped, survives
from tests.support.variables import build

FBREG, CFA, DEREF, PIECE, STACK_VALUE, REG3, BREG3, BREG6 = 0x91, 0x9C, 0x06, 0x93, 0x9F, 0x53, 0x73, 0x76


def memory(address: int, size: int) -> bytes:
    if not 0x1000 <= address < 0x9000:
        raise MemoryFault(address, size)
    return b"".join((at & 0xFF).to_bytes(1, "little") for at in range(address, address + size))


class Made:
    """A unit with only what locations need: location lists, and addresses by index."""

    def __init__(self, lists: bytes = b"", version: int = 5, *, split: bool = False) -> None:
        self.version, self.address_size, self.base_address = version, 8, 0x400
        self.sections: Any = self
        self.byte_order, self.split = "little", split
        self.long_lists = limits.Budget(1 << 20, "lists of locations overlap")
        self.contribution: dict[str, int] = {}
        self._lists = lists

    def number(self, value: Value) -> int:
        assert isinstance(value.raw, int)
        return value.raw

    def cursor(self, name: str, offset: int) -> Cursor:
        assert name == (".debug_loclists" if self.version >= 5 else ".debug_loc")
        return Cursor(self._lists, "little", position=offset)

    def indexed_address(self, index: int) -> int:
        if index > 3:
            raise MalformedFile("no such address")
        return 0x1000 * (index + 1)


def frame(registers: Mapping[int, int] | None = None, **other: Any) -> FrameContext:
    known = {"cfa": 0x6000, "frame_base": bytes((CFA,)), **other}
    return FrameContext(
        registers=registers if registers is not None else {3: 0x5000, 6: 0x7000},
        read=memory,
        bias=0x100,
        pointer_size=8,
        byte_order="little",
        thread_local=lambda offset: 0x8000 + offset,
        **known,
    )


def pieces(*expression: int, **other: Any) -> list[Piece]:
    return find_pieces(Made(), bytes(expression), frame(**other))  # type: ignore[arg-type]


def test_places() -> None:
    assert pieces(FBREG, 0x70) == [Piece(None, 0x6000 - 16, None)]
    assert pieces(FBREG, 0x70, frame_base=bytes((0x56,))) == [Piece(None, 0x7000 - 16, None)]
    assert pieces(BREG3, 8) == [Piece(None, 0x5008, None)]
    assert pieces(REG3) == [Piece(None, None, (0x5000).to_bytes(8, "little"))]
    assert pieces(BREG3, 8, STACK_VALUE) == [Piece(None, None, (0x5008).to_bytes(8, "little"))]
    assert pieces(0x03, 0, 0x20, 0, 0, 0, 0, 0, 0) == [Piece(None, 0x2100, None)]
    assert pieces(0xA1, 1) == [Piece(None, 0x2100, None)]
    assert pieces(0x08, 4, 0x9B) == [Piece(None, 0x8004, None)]
    assert pieces(0x9E, 2, 7, 8) == [Piece(None, None, b"\7\x08")]
    assert pieces() == [Piece(None, None, None)]
    parts = pieces(REG3, PIECE, 4, FBREG, 0, PIECE, 4, PIECE, 2)
    assert parts == [Piece(4, None, (0x5000).to_bytes(8, "little")), Piece(4, 0x6000, None), Piece(2, None, None)]
    assert read_pieces(parts[:2], 8, memory, "little") == b"\0\x50\0\0\0\1\2\3"
    with pytest.raises(Unavailable, match="parts of it are nowhere"):
        read_pieces(parts, 10, memory, "little")


@pytest.mark.parametrize(
    ("expression", "other", "reason"),
    [
        ((0x52,), {}, "register 2 is unknown"),
        ((FBREG, 0), {"cfa": None}, "canonical frame address"),
        ((FBREG, 0), {"frame_base": None}, "base of the frame"),
        ((FBREG, 0), {"frame_base": bytes((FBREG, 0))}, "base of the frame"),
        ((0xA3, 1, 0x55, STACK_VALUE), {}, "when the function began"),
        ((0xA0, 0, 0, 0, 0, 0), {}, "what it points to is optimized out"),
        ((0xA5, 17, 4), {}, "computation with types"),
        ((REG3, 0x9D, 3, 0), {}, "parts of bytes"),
    ],
)
def test_what_is_not_to_be_had_is_said(expression: tuple[int, ...], other: Any, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        pieces(*expression, **other)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ((0x2F, 0xFD, 0xFF), "does not end soon"),
        ((0x31, 0x28, 0xFC, 0xFF), "does not end soon"),
        ((0x30,) * 100, "stack grows"),
        ((PIECE, 1) * 300, "too many pieces"),
        ((0x9E, 0x7F, 1), "do not fit"),
        ((0xFF,), "unknown"),
        ((0xA1, 9), "no such address"),
        ((STACK_VALUE,), "more from its stack"),
    ],
)
def test_absurd_expressions_are_refused(expression: tuple[int, ...], reason: str) -> None:
    with pytest.raises(MalformedFile, match=reason):
        pieces(*expression)


def test_absurd_pieces_are_refused() -> None:
    with pytest.raises(MalformedFile):
        read_pieces(pieces(FBREG, 0, PIECE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F), 8, memory, "little")
    with pytest.raises(MalformedFile):
        read_pieces(pieces(REG3, PIECE, 4), 8, memory, "little")
    with pytest.raises(Unavailable, match="only 8 are known"):
        read_pieces(pieces(REG3), 16, memory, "little")


def at(lists: bytes, address: int, version: int = 5, *, split: bool = False) -> bytes | None:
    return location_at(Made(lists, version, split=split), Value(0x17, 0), address)  # type: ignore[arg-type]


def test_lists_of_locations() -> None:
    # 7.29: offset_pair, startx_endx, base_addressx, base_address, startx_length, start_end, start_length, default
    wide = (0x9000).to_bytes(8, "little")
    lists = b"\4\x00\x08\1A" + b"\2\0\1\1B" + b"\1\2\4\x00\x10\1C" + b"\3\3\x10\1D" + b"\6" + wide + b"\4\0\4\1E"
    lists += b"\7" + (0xA000).to_bytes(8, "little") + (0xA010).to_bytes(8, "little") + b"\1F"
    lists += b"\x08" + (0xB000).to_bytes(8, "little") + b"\x10\1G" + b"\5\1H" + b"\0"
    for address, expected in (
        *((0x400, b"A"), (0x407, b"A"), (0x408, b"H"), (0x1000, b"B"), (0x1FFF, b"B"), (0x3000, b"C"), (0x4000, b"D")),
        *((0x9003, b"E"), (0xA00F, b"F"), (0xB00F, b"G"), (0xB010, b"H")),
    ):
        assert at(lists, address) == expected, hex(address)
    assert at(b"\4\0\1\1A\0", 0x900) is None


def test_lists_of_locations_of_dwarf_4() -> None:
    def words(*numbers: int) -> bytes:
        return b"".join(number.to_bytes(8, "little") for number in numbers)

    lists = words(0, 8) + b"\1\0A" + words((1 << 64) - 1, 0x1000) + words(0, 8) + b"\1\0B" + words(0, 0)
    assert (at(lists, 0x404, 4), at(lists, 0x1004, 4), at(lists, 0x2000, 4)) == (b"A", b"B", None)
    split = b"\3\1\x10\0\0\0\1\0A" + b"\1\0\4\0\0\0\0\x08\0\0\0\1\0B" + b"\2\2\3\1\0C\0"
    assert [at(split, a, 4, split=True) for a in (0x200F, 0x1004, 0x3500, 0x1009)] == [b"A", b"B", b"C", None]


@pytest.mark.parametrize(("lists", "version"), [(b"\4\0\1\1A" * 9, 5), (b"\x63", 5), (b"\1" * 99, 4), (b"", 5)])
def test_lists_that_do_not_end_are_refused(lists: bytes, version: int) -> None:
    with pytest.raises(MalformedFile):
        at(lists, 0x9999, version)


def test_a_list_that_goes_on_and_on_is_refused() -> None:
    with pytest.raises(MalformedFile, match="does not end"):
        at(b"\4\0\1\1A" * (1 << 17), 0x9999)


def test_long_lists_that_many_share_are_paid_for_once() -> None:
    made = Made(b"\4\0\1\1A" * 1000 + b"\0")
    made.long_lists = limits.Budget(10_000, "lists of locations overlap")
    with pytest.raises(MalformedFile, match="overlap"):
        for _ in range(20):
            location_at(made, Value(0x17, 0), 0x9999)  # type: ignore[arg-type]
    # Short lists do not use up the budget.
    made = Made(b"\4\0\1\1A" * 100 + b"\0")
    made.long_lists = limits.Budget(0, "lists of locations overlap")
    assert location_at(made, Value(0x17, 0), 0x9999) is None  # type: ignore[arg-type]


def test_what_is_reached_through_a_parameter() -> None:
    memory_one, in_register, value = bytes((FBREG, 0x48)), bytes((REG3,)), bytes((BREG3, 4, STACK_VALUE))
    for parameter, expression, expected in (
        (memory_one, bytes((FBREG, 0x48, DEREF, 0x23, 0x24)), 0),
        (memory_one, bytes((FBREG, 0x48, DEREF, 0x23, 0x10, DEREF)), 1),
        (memory_one, bytes((FBREG, 0x48, DEREF, DEREF, DEREF)), 2),
        (memory_one, bytes((FBREG, 0x50, DEREF)), None),
        (memory_one, bytes((FBREG, 0x48)), None),
        (in_register, bytes((BREG3, 8)), 0),
        (in_register, bytes((BREG3, 0, 0x23, 8, DEREF)), 1),
        (in_register, bytes((BREG6, 0)), None),
        (in_register, bytes((BREG3, 0, DEREF, STACK_VALUE)), None),
        (value, bytes((BREG3, 12)), 0),
        (b"", bytes((BREG3, 12)), None),
        (in_register, b"", None),
    ):
        assert derefs_through(parameter, expression, "little") == expected, (parameter, expression)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([8, 16, 24, 32, 24, 16, 8], 32),  # pushes and pops
        ([8, 16, 64, 16, 8, 64], 64),  # an epilogue in the middle
        ([8, 16, 176, 184, 192, 200, 208, 176, 16, 8], 176),  # arguments are pushed at the first call
        ([8, 176, 192, 8], None),  # neither
        ([8, 16, 24, 176, 184, 192, 200, 24, 16, 8], None),  # they are removed together with the frame
        ([8, 16, 32, 40, 48, 16, 8], None),
        ([8, 32], 32),  # does not return
        ([8], 8),
        ([], None),
    ],
)
def test_the_frame_between_calls(offsets: list[int], expected: int | None) -> None:
    assert kept_frame_size(offsets) == expected


def read_everything(data: bytes) -> int:
    """Read all variables at some addresses of each function."""
    elf = ElfFile(data, "damaged")
    files = DebugFiles(elf)
    lines, info = LineInfo(elf, None, files), TypeInfo(elf, None, files)
    section = elf.section(".text")
    assert section is not None
    found = 0
    for address in range(section.sh_addr, section.sh_addr + min(section.sh_size, 1 << 13), 61):
        try:
            entry = lines.function_entry(address)
            if entry is None:
                continue
            find_around(files, EntryRef(*entry))
            declared_in(info, EntryRef(*entry))
            scopes = find_scopes(info, EntryRef(*entry), address)
        except OmpdError:
            continue
        for variable in (variable for scope in scopes for variable in scope.variables):
            assert len(type_name(info, variable.type)) < 1 << 12
            try:
                if variable.location is not None:
                    expression = location_at(variable.unit, variable.location, address)
                    find_pieces(variable.unit, expression or b"", frame())
                    found += 1
            except OmpdError:
                continue
    return found


@pytest.mark.parametrize("compilation", ["gcc", "gcc -O2", "clang -O2", "gcc -gdwarf-4 -O2"])
@pytest.mark.quick("gcc", "gcc -gdwarf-4 -O2")
def test_damaged_debug_information_is_refused_or_read(compilation: str) -> None:
    path = build(recipe(compilation))
    elf = mapped(path)
    assert read_everything(path.read_bytes()) > 20
    names = (".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_loc", ".debug_addr", ".debug_rnglists")
    regions = [(s.sh_offset, s.sh_offset + s.sh_size) for s in map(elf.section, names) if s is not None]
    survives(path.read_bytes(), read_everything, regions, examples=60)
