"""Source lines, against gdb, addr2line and pyelftools, and against bytes that lie."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ompd.debugger.formats.dwarf_lines import LineInfo
from ompd.debugger.formats.elf import ElfFile
from ompd.errors import MalformedFile
from tests.support import intel_runtime, require
from tests.unit.samples import compiled, libc, mapped, run, source, survives

VERSIONS = pytest.mark.parametrize("version", [2, 3, 4, 5])
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang"])


def text_addresses(elf: ElfFile, step: int = 1) -> range:
    section = elf.section(".text")
    assert section is not None
    return range(section.sh_addr, section.sh_addr + section.sh_size, step)


def gdb_lines(path: Path, addresses: range, tmp_path: Path) -> list[tuple[str, int] | None]:
    script = tmp_path / "lines.gdb"
    script.write_text("".join(f"info line *{address:#x}\n" for address in addresses))
    answers = run(require("gdb"), "-nx", "-batch", "-iex", "set auto-load no", "-x", script, path).splitlines()
    assert len(answers) == len(addresses)
    found = [re.match(r'Line (\d+) of "(.*?)"', answer) for answer in answers]
    return [(match[2], int(match[1])) if match else None for match in found]


def check_against_gdb(path: Path, addresses: range, tmp_path: Path) -> int:
    info = LineInfo(mapped(path))
    known = 0
    for address, expected in zip(addresses, gdb_lines(path, addresses, tmp_path), strict=True):
        found = info.locate(address)
        if expected is None:
            assert found is None, hex(address)
        else:
            assert found is not None and found[1] == expected[1] and found[0].endswith(expected[0]), hex(address)
            known += 1
    return known


@COMPILERS
@VERSIONS
def test_every_line_is_the_one_that_gdb_shows(compiler: str, version: int, tmp_path: Path) -> None:
    path = compiled(compiler, f"-gdwarf-{version}", runtime="iomp" if compiler == "clang" else "gomp")
    assert check_against_gdb(path, text_addresses(mapped(path)), tmp_path) > 100


@pytest.mark.parametrize("flags", [("-gz",), ("-O0",), ("-O3", "-ffunction-sections"), ("-gdwarf64",)], ids=" ".join)
def test_compressed_and_unusual_tables_are_read(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = compiled("gcc", *flags)
    assert check_against_gdb(path, text_addresses(mapped(path)), tmp_path) > 100


def test_lines_of_a_separate_debug_file_without_address_ranges(tmp_path: Path) -> None:
    path = intel_runtime() / "lib" / "libiomp5.dbg"
    assert mapped(path).section(".debug_aranges") is None
    assert check_against_gdb(path, text_addresses(mapped(path), 997), tmp_path) > 1000


@COMPILERS
def test_files_are_absolute_and_the_ones_that_addr2line_names(compiler: str) -> None:
    path = compiled(compiler, runtime="iomp" if compiler == "clang" else "gomp")
    info = LineInfo(mapped(path))
    located = {a: found for a in text_addresses(mapped(path)) if (found := info.locate(a)) is not None}
    names = run(require("readelf").with_name("addr2line"), "-e", path, *map(hex, located)).splitlines()
    assert {file for file, _ in located.values()} == {str(source())}
    assert {name.rsplit(":", 1)[0] for name in names} == {str(source())}


@COMPILERS
@VERSIONS
def test_functions_and_their_declarations_are_those_of_pyelftools(compiler: str, version: int) -> None:
    path = compiled(compiler, f"-gdwarf-{version}", runtime="iomp" if compiler == "clang" else "gomp")
    info = LineInfo(mapped(path))
    names = set()
    with path.open("rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            for entry in unit.iter_DIEs():
                if entry.tag != "DW_TAG_subprogram" or "DW_AT_low_pc" not in entry.attributes:
                    continue
                while "DW_AT_abstract_origin" in entry.attributes and "DW_AT_name" not in entry.attributes:
                    low = entry.attributes["DW_AT_low_pc"].value
                    entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
                    entry.attributes.setdefault("DW_AT_low_pc", entry.attributes["DW_AT_name"]._replace(value=low))
                attributes = entry.attributes
                start = attributes["DW_AT_low_pc"].value
                line = attributes["DW_AT_decl_line"].value if "DW_AT_decl_line" in attributes else None
                found = info.subprogram(start)
                assert found is not None
                assert (found[0], found[2]) == (attributes["DW_AT_name"].value.decode(), line)
                if line is not None:
                    assert found[1] == str(source())
                names.add(found[0])
    assert {"main", "recurse", "compare"} <= names
    assert any("omp" in name for name in names)


def test_what_has_no_lines_has_none() -> None:
    info = LineInfo(mapped(compiled()))
    assert [info.locate(a) for a in (0, 1, mapped(compiled()).e_entry, 1 << 63, 1 << 64)] == [None] * 5
    assert info.subprogram(0) is None
    for path in (libc(), intel_runtime() / "lib" / "libiomp5.so"):
        assert LineInfo(mapped(path)).locate(mapped(path).e_entry) is None


def test_nothing_large_is_imported_for_it() -> None:
    program = "import ompd.debugger.formats.dwarf_lines, sys; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    assert "elftools" not in run(sys.executable, "-c", program)


def debug_regions(elf: ElfFile) -> list[tuple[int, int]]:
    names = (".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges", ".debug_rnglists", ".debug_ranges")
    return [(s.sh_offset, s.sh_offset + s.sh_size) for s in elf.sections if s.name in names]


@COMPILERS
@pytest.mark.parametrize("version", [4, 5])
def test_damaged_tables_are_read_or_refused(compiler: str, version: int) -> None:
    path = compiled(compiler, f"-gdwarf-{version}", runtime="iomp" if compiler == "clang" else "gomp")
    elf = mapped(path)
    addresses = text_addresses(elf, 61)

    def use(data: bytes) -> None:
        info = LineInfo(ElfFile(data, "damaged"))
        for address in addresses:
            for question in (info.locate, info.subprogram):
                question(address)

    survives(path.read_bytes(), use, debug_regions(elf))


def test_line_tables_that_lie_are_refused() -> None:
    path = compiled("gcc", "-gdwarf-5")
    elf, data = mapped(path), path.read_bytes()
    section = elf.section(".debug_line")
    assert section is not None
    address = next(a for a in text_addresses(elf) if LineInfo(elf).locate(a) is not None)
    # Of the last unit, which is the program's own: version, header_length, line_range, and a LEB128 number without end
    for offset, damage in ((4, b"\x09"), (8, b"\xff\xff\xff"), (16, b"\0"), (30, b"\x80" * 60)):
        damaged = bytearray(data)
        damaged[section.sh_offset + offset : section.sh_offset + offset + len(damage)] = damage
        with pytest.raises(MalformedFile):
            LineInfo(ElfFile(bytes(damaged), "damaged")).locate(address)
