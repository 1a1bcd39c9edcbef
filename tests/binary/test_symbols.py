"""Symbol tables, compared with readelf, and damaged ones."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ompd.binary.elf.elf import PT_DYNAMIC, SHT_STRTAB, SHT_SYMTAB, ElfFile
from ompd.binary.elf.symbols import STT_FUNC, STT_TLS, Symbol, SymbolTable
from ompd.errors import MalformedFile
from tests.support import intel_runtime, require
from tests.support.made_elf import build_elf, without_sections
from tests.support.samples import compiled, libc, mapped, run, survives

RANKS = {"GLOBAL": 0, "UNIQUE": 0, "WEAK": 1, "LOCAL": 2}
PLACES = {"UND": 0, "ABS": 0xFFF1}


class Listed(NamedTuple):
    """A defined symbol as readelf prints it."""

    name: str
    address: int
    size: int
    kind: str
    bind: str


def listed_by_readelf(path: Path, tables: str = "--syms") -> list[Listed]:
    rows = []
    for line in run(require("readelf"), tables, "-W", path).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit() or {"UND", "SECTION", "FILE"} & {words[3], words[6]}:
            continue
        name = words[7].split("@")[0]  # in .dynsym readelf appends the version, which is not part of the name there
        rows.append(Listed(name, int(words[1], 16), int(words[2], 0), words[3], words[4]))
    return rows


def own_program() -> Path:
    return compiled()


def runtime() -> Path:
    return intel_runtime() / "lib" / "libiomp5.so"


files = pytest.mark.parametrize("file", [own_program, runtime, libc])


def plain(name: str) -> str:
    return name.partition("@")[0] or name


def test_names_that_are_not_there_are_kept_in_a_bounded_number() -> None:
    table = SymbolTable(mapped(own_program()))
    assert table.find("main") is not None
    for number in range(10_000):
        assert table.find(f"no_such_{number}") is None
    assert table.find("main") is not None and len(table._found) < 5_000


@files
def test_every_name_that_readelf_prints_is_found(file: Callable[[], Path]) -> None:
    table = SymbolTable(mapped(file()))
    by_name: dict[str, list[Listed]] = defaultdict(list)
    for row in listed_by_readelf(file()):
        by_name[row.name].append(row)
    assert len(by_name) > 20
    many = table.find_many(by_name)
    for name, rows in by_name.items():
        found = table.find(name)
        assert found is not None and found == many[name], name
        best = min(RANKS[row.bind] for row in rows)
        assert (found.address, found.size) in {(r.address, r.size) for r in rows if RANKS[r.bind] == best}, name


@files
def test_names_that_are_not_there_are_not_found(file: Callable[[], Path]) -> None:
    table = SymbolTable(mapped(file()))
    absent = [
        "",
        "no_such_symbol",
        "sample.c",
        "abort" if file is own_program else "no_such_symbol_2",
    ]  # abort: undefined in the program
    assert [table.find(name) for name in absent] == [None] * 4
    assert table.find_many([*absent, "\udcff"]) == {}


@files
def test_a_prefix_gives_what_readelf_lists_under_it(file: Callable[[], Path]) -> None:
    rows = listed_by_readelf(file())
    table = SymbolTable(mapped(file()))
    for prefix in ("ompd_", "__kmp_get_", "rec", "pthread_", "no_such_prefix"):
        ours = {(plain(s.name), s.address) for s in table.find_prefix(prefix)}
        assert ours == {(r.name, r.address) for r in rows if r.name.startswith(prefix)}
    if file is runtime:
        assert len(table.find_prefix("ompd_access__")) > 50


@files
@pytest.mark.quick("own_program", "libc")
def test_every_address_belongs_to_a_symbol_that_covers_it(file: Callable[[], Path]) -> None:
    rows = [r for r in listed_by_readelf(file()) if r.kind in ("FUNC", "OBJECT", "IFUNC") and r.size]
    covering: dict[int, set[str]] = defaultdict(set)
    beginning: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        beginning[row.address].add(row.name)
        for address in (row.address, row.address + row.size // 2, row.address + row.size - 1):
            covering[address].add(row.name)
    table = SymbolTable(mapped(file()))
    for address in covering:
        found = table.at(address)
        assert found is not None and found.address <= address < found.address + found.size
        assert found.name in beginning[found.address]
        assert "@" not in found.name


def test_a_function_comes_before_an_object_and_a_global_name_before_its_alias() -> None:
    table = SymbolTable(mapped(compiled()))
    recurse, alias = table.find("recurse"), table.find("weak_recurse")
    assert recurse is not None and alias is not None and recurse.address == alias.address
    assert table.at(recurse.address) == recurse and recurse.type == STT_FUNC
    local = table.find("compare")
    assert local is not None and local.bind == 0 and table.at(local.address) == local


def test_thread_local_symbols_have_no_address() -> None:
    table = SymbolTable(mapped(compiled()))
    found = table.find("per_thread")
    assert found is not None and found.type == STT_TLS
    assert table.at(found.address) is None


def test_symbols_of_the_debug_file_join_when_the_module_has_none() -> None:
    runtime_file, debug_file = runtime(), intel_runtime() / "lib" / "libiomp5.dbg"
    asked = []

    def debug_elf() -> ElfFile:
        asked.append(debug_file)
        return mapped(debug_file)

    table = SymbolTable(mapped(runtime_file), debug_elf)
    assert table.find("__kmp_threads") is not None and asked == []
    assert table.find("no_such_symbol") is None and asked == [debug_file]
    assert SymbolTable(mapped(debug_file)).find("__kmp_threads") == table.find("__kmp_threads")
    assert SymbolTable(mapped(runtime_file), lambda: None).find("no_such_symbol") is None


SYMBOLS = [
    # name, value, size, info (bind and type), section
    ("", 0, 0, 0, 0),
    ("tail_of_name", 0x2000, 8, 0x11, 1),
    ("of_name", 0x1000, 0x10, 0x12, 1),  # shares the tail of the string
    ("undefined", 0, 0, 0x12, 0),
    ("twice", 0x1020, 4, 0x02, 1),
    ("twice", 0x1030, 4, 0x12, 1),
    ("label", 0x1040, 0, 0x10, 1),
    ("$x", 0x1044, 0, 0x00, 1),
    ("file.c", 0, 0, 0x04, 0xFFF1),
    ("version@@VERSION", 0x1060, 4, 0x12, 1),
    ("outer", 0x1100, 0x100, 0x12, 1),
    ("inner", 0x1110, 8, 0x02, 1),
]


def symbol_file(ident_class: int = 64, byte_order: str = "little") -> bytes:
    mark = "<" if byte_order == "little" else ">"
    strings, entries = b"\0", b""
    for name, value, size, info, section in SYMBOLS:
        key = name.encode() + b"\0"
        offset = strings.find(key)
        if offset < 0:
            offset, strings = len(strings), strings + key
        if ident_class == 64:
            entries += struct.pack(mark + "IBBHQQ", offset, info, 0, section, value, size)
        else:
            entries += struct.pack(mark + "IIIBBH", offset, value, size, info, 0, section)
    sections = ((".text", 1, 6, b""), (".symtab", SHT_SYMTAB, 0, entries), (".strtab", SHT_STRTAB, 0, strings))
    data = bytearray(build_elf(ident_class, byte_order, sections=sections))
    # build_elf does not set links between sections: set sh_link and sh_entsize of .symtab, sh_addr and sh_size of
    # .text.
    shoff, entry, word = (40, 64, 8) if ident_class == 64 else (32, 40, 4)
    start = int.from_bytes(data[shoff : shoff + word], "little" if byte_order == "little" else "big")
    link, entsize, size_at = (40, 56, 32) if ident_class == 64 else (24, 36, 20)
    addr_at = size_at - 2 * word

    def put(section: int, offset: int, size: int, value: int) -> None:
        at = start + section * entry + offset
        data[at : at + size] = value.to_bytes(size, "little" if byte_order == "little" else "big")

    put(2, link, 4, 3)
    put(2, entsize, word, 24 if ident_class == 64 else 16)
    put(1, addr_at, word, 0x1000)
    put(1, size_at, word, 0)
    return bytes(data)


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("ident_class", [32, 64])
def test_both_classes_and_byte_orders(ident_class: int, byte_order: str) -> None:
    table = SymbolTable(ElfFile(symbol_file(ident_class, byte_order), "file"))
    assert table.find("of_name") == Symbol("of_name", 0x1000, 0x10, 2, 1, 1)
    assert table.find("tail_of_name") == Symbol("tail_of_name", 0x2000, 8, 1, 1, 1)
    assert table.find_many(["of_name", "twice", "undefined", "file.c"]).keys() == {"of_name", "twice"}
    twice = table.find("twice")
    assert twice is not None and twice.address == 0x1030  # the global symbol wins
    assert [s.address for s in table.find_prefix("twice")] == [0x1020, 0x1030]
    assert table.find("undefined") is None and table.find("file.c") is None
    names = {
        a: (s.name if (s := table.at(a)) else None) for a in (0xFFF, 0x100F, 0x1010, 0x1060, 0x1112, 0x1150, 0x1200)
    }
    assert list(names.values()) == [None, "of_name", None, "version", "inner", "outer", None]


def test_a_label_without_size_reaches_to_the_next_symbol_or_its_sections_end() -> None:
    data = bytearray(symbol_file())
    start = int.from_bytes(data[40:48], "little")
    data[start + 64 + 32 : start + 64 + 40] = (0x1000).to_bytes(8, "little")  # .text's size
    table = SymbolTable(ElfFile(bytes(data), "file"))
    label = table.at(0x1043)
    assert label is not None and label.name == "label"
    assert table.at(0x1050) is None  # past the mapping symbol, which does not count as a name
    assert SymbolTable(ElfFile(symbol_file(), "file")).at(0x1043) is None  # .text ends before


def test_tables_that_lie_are_refused() -> None:
    good = symbol_file()
    start = int.from_bytes(good[40:48], "little") + 2 * 64
    for offset, value in ((40, 99), (56, 23), (32, 25)):  # sh_link, sh_entsize, sh_size
        data = bytearray(good)
        data[start + offset] = value
        table = SymbolTable(ElfFile(bytes(data), "file"))
        with pytest.raises(MalformedFile):
            table.at(0x1000)
    data = bytearray(good)
    entries = int.from_bytes(good[start + 24 : start + 32], "little")
    data[entries + 2 * 24 : entries + 2 * 24 + 4] = b"\xff" * 4  # st_name of of_name
    table = SymbolTable(ElfFile(bytes(data), "file"))
    assert table.find("of_name") is None
    with pytest.raises(MalformedFile):
        table.at(0x1008)


def everything(data: bytes) -> None:
    table = SymbolTable(ElfFile(data, "damaged"))
    table.find("recurse")
    table.find_many(["recurse", "handler", "no_such"])
    table.find_prefix("_")
    for address in range(0x1000, 0x4000, 0x40):
        table.at(address)


def test_damaged_tables_are_read_or_refused() -> None:
    path = compiled()
    elf = mapped(path)
    names = (".symtab", ".strtab", ".dynsym", ".dynstr")
    regions = [(s.sh_offset, s.sh_offset + s.sh_size) for s in elf.sections if s.name in names]
    shoff = elf.header.e_shoff
    survives(path.read_bytes(), everything, [*regions, (shoff, shoff + 64 * len(elf.sections))])


# Files without section headers


@files
def test_dynamic_symbols_are_found_without_section_headers(file: Callable[[], Path]) -> None:
    whole = mapped(file())
    bare = ElfFile(without_sections(file().read_bytes()), "bare")
    assert bare.sections == ()
    exported = SymbolTable(whole).exported_variables
    table = SymbolTable(bare)
    assert table.exported_variables == exported
    assert all(table.find(name) == SymbolTable(whole).find(name) for name in [*exported][:50])
    rows = [row for row in listed_by_readelf(file(), "--dyn-syms") if row.kind in ("FUNC", "OBJECT") and row.size]
    assert rows or file is own_program
    for row in rows:
        found = table.at(row.address)
        assert found is not None and found.address == row.address, row


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_either_hash_table_counts_symbols(style: str) -> None:
    whole = compiled("gcc", "-Wl,--export-dynamic", f"-Wl,--hash-style={style}")
    table = SymbolTable(ElfFile(without_sections(whole.read_bytes()), "bare"))
    rows = listed_by_readelf(whole, "--dyn-syms")
    assert rows and {row.name for row in rows} == {row.name for row in rows if table.find(row.name) is not None}


def test_a_damaged_dynamic_section_is_refused() -> None:
    whole = compiled("gcc", "-Wl,--export-dynamic").read_bytes()
    elf = ElfFile(whole, "whole")
    spans = [(s.p_offset, s.p_offset + s.p_filesz) for s in elf.segments if s.p_type == PT_DYNAMIC]
    spans += [(s.sh_offset, s.sh_offset + s.sh_size) for s in elf.sections if s.name in (".gnu.hash", ".dynsym")]

    def use(data: bytes) -> object:
        table = SymbolTable(ElfFile(data, "damaged"))
        return table.find("no_such_symbol"), table.at(0x1000)

    survives(without_sections(whole), use, spans)
