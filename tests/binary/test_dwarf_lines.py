"""Source lines, compared with gdb, addr2line and pyelftools, and damaged line tables."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile
from tests.support import clean_environment, intel_runtime, require
from tests.support.budget import within
from tests.support.made_lines import Made
from tests.support.samples import compiled, libc, mapped, run, source, survives

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
@pytest.mark.quick("2-gcc", "3-clang", "4-gcc", "4-clang", "5-gcc")
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
def test_functions_are_those_of_pyelftools(compiler: str, version: int) -> None:
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
                linkage = attributes.get("DW_AT_linkage_name") or attributes.get("DW_AT_MIPS_linkage_name")
                name = attributes["DW_AT_name"].value.decode()
                if "omp_outlined" in name and linkage is not None:  # outlined functions keep the linker's name
                    name = linkage.value.decode()
                found = info.functions(attributes["DW_AT_low_pc"].value)[-1]
                assert (found.name, found.is_inlined, found.call) == (name, False, None)
                names.add(found.name)
    assert {"main", "recurse", "compare"} <= names
    assert any("omp" in name for name in names)


def test_what_has_no_lines_has_none() -> None:
    info = LineInfo(mapped(compiled()))
    assert [info.locate(a) for a in (0, 1, mapped(compiled()).e_entry, 1 << 63, 1 << 64)] == [None] * 5
    assert info.functions(0) == []
    for path in (libc(), intel_runtime() / "lib" / "libiomp5.so"):
        assert LineInfo(mapped(path)).locate(mapped(path).e_entry) is None


def test_nothing_large_is_imported_for_it() -> None:
    program = "import ompd.binary.dwarf.lines, sys; print(sorted({m.partition('.')[0] for m in sys.modules}))"
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
            for question in (info.locate, info.functions):
                question(address)

    survives(path.read_bytes(), use, debug_regions(elf))


def test_line_tables_that_lie_are_refused() -> None:
    path = compiled("gcc", "-gdwarf-5")
    elf, data = mapped(path), path.read_bytes()
    section = elf.section(".debug_line")
    assert section is not None
    address = next(a for a in text_addresses(elf) if LineInfo(elf).locate(a) is not None)
    # Damage in the last unit, the program's own: version, header_length, line_range, a LEB128 number without end.
    for offset, damage in ((4, b"\x09"), (8, b"\xff\xff\xff"), (16, b"\0"), (30, b"\x80" * 60)):
        damaged = bytearray(data)
        damaged[section.sh_offset + offset : section.sh_offset + offset + len(damage)] = damage
        with pytest.raises(MalformedFile):
            LineInfo(ElfFile(bytes(damaged), "damaged")).locate(address)


# Inlined functions

# Nested calls, calls in loops and blocks, repeated calls of one function, code moved away as cold, and functions that
# the compiler outlines and may then inline.
INLINING = """\
#include <stdlib.h>
extern
#ifdef __cplusplus
"C"
#endif
int omp_get_thread_num(void);
volatile int sink, cold;
#ifdef __cplusplus
namespace space {
#endif
static inline __attribute__((always_inline)) int leaf(int x) { sink += x; if (x == cold) abort(); return sink * 3; }
static inline __attribute__((always_inline)) int middle(int x)
{
    int total = 0;
    for (int i = 0; i < x; i++) {
        int y = i * sink;
        total += leaf(y) + leaf(i);
    }
    return total;
}
static inline __attribute__((always_inline)) int outer(int x)
{
    if (x > 4) {
        int z = sink;
        return middle(x) + middle(z);
    }
    return leaf(x);
}
#ifdef __cplusplus
struct Thing {
    int value;
    int get(int x) const { return outer(x) + value; }
    template <class T> T twice(T x) { return get(x) + get(x * 2); }
};
}
using namespace space;
#endif
static void in_region(int n)
{
    if (omp_get_thread_num() == n)
        sink += outer(n);
}
__attribute__((noinline)) int alone(int x)
{
#ifdef __cplusplus
    Thing thing = {x};
    sink += thing.twice(x);
#endif
    return outer(x) + sink;
}
__attribute__((noinline)) int plain(int x) { return x * sink; }
int main(int argc, char **argv)
{
    int total = outer(argc);
    #pragma omp parallel num_threads(4)
    {
        in_region(2);
        #pragma omp barrier
    }
    #pragma omp parallel if (0)
    in_region(3);
    return total + alone(argc) + plain(argc) + atoi(argv[0]);
}
"""

GDB_BLOCKS = """\
import gdb
for address in open("addresses").read().split():
    block, names = gdb.block_for_pc(int(address, 16)), []
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            names.append(block.function.print_name.partition("(")[0])
        block = block.superblock
    print(address, *names)
"""


def inlining(compiler: str, *flags: str) -> Path:
    return compiled(compiler, *flags, runtime="iomp" if compiler == "clang" else "gomp", text=INLINING)


def of_gdb(path: Path, addresses: range, folder: Path) -> list[list[str]]:
    (folder / "blocks.py").write_text(GDB_BLOCKS)
    (folder / "addresses").write_text("\n".join(map(hex, addresses)))
    command = [require("gdb"), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", "blocks.py", path]
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False
    )
    if "Python" in done.stderr:
        pytest.skip("gdb has no Python")
    return [line.split()[1:] for line in done.stdout.splitlines()]


def of_addr2line(path: Path, addresses: range) -> list[list[str]]:
    # With -i, addr2line prints a name and a place for each function at the address, innermost first.
    text = run(require("readelf").with_name("addr2line"), "-aif", "-e", path, *map(hex, addresses))
    return [block.splitlines()[1::2] for block in re.split(r"^0x", text, flags=re.MULTILINE)[1:]]


def inlined_at(info: LineInfo, address: int) -> list[str | None]:
    return [function.name for function in info.functions(address) if function.is_inlined]


def check_inlined(path: Path, chains: list[list[str]]) -> None:
    # The last name of each chain is the function itself.
    info, addresses = LineInfo(mapped(path)), text_addresses(mapped(path))
    for address, chain in zip(addresses, chains, strict=True):
        assert inlined_at(info, address) == chain[:-1], hex(address)
    assert max(map(len, chains)) > 3


@VERSIONS
@pytest.mark.parametrize("flags", [(), ("-gz",), ("-O3", "-ffunction-sections")], ids=" ".join)
@pytest.mark.quick(
    "-3",
    "-4",
    "-5",
    "-gz-2",
    "-gz-4",
    "-gz-5",
    "-O3 -ffunction-sections-2",
    "-O3 -ffunction-sections-3",
    "-O3 -ffunction-sections-4",
)
def test_inlined_functions_are_those_of_addr2line(version: int, flags: tuple[str, ...]) -> None:
    path = inlining("gcc", f"-gdwarf-{version}", *flags)
    check_inlined(path, of_addr2line(path, text_addresses(mapped(path))))


@pytest.mark.parametrize(
    ("version", "flags"),
    [*((v, f) for v in (2, 3, 4, 5) for f in ((), ("-gz",), ("-O1",), ("-x", "c++"))), (4, ("-gdwarf64",))],
    ids=str,
)
@pytest.mark.quick("2-('-O1',)", "3-()", "4-('-x', 'c++')", "5-('-gz',)")
def test_inlined_functions_of_clang_are_those_of_gdb(version: int, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = inlining("clang", f"-gdwarf-{version}", *flags)
    check_inlined(path, of_gdb(path, text_addresses(mapped(path)), tmp_path))


@VERSIONS
def test_inlined_functions_of_cplusplus_are_those_of_gdb_and_as_many_as_of_addr2line(
    version: int, tmp_path: Path
) -> None:
    # gcc places outlined functions inside the user's function, and gdb takes them for inlined ones. addr2line prints
    # the symbol's name for an inlined function without a linkage name.
    path = inlining("gcc", f"-gdwarf-{version}", "-x", "c++", "-fno-exceptions")
    info, addresses = LineInfo(mapped(path)), text_addresses(mapped(path))
    chains = zip(of_gdb(path, addresses, tmp_path), of_addr2line(path, addresses), strict=True)
    for address, (by_gdb, by_addr2line) in zip(addresses, chains, strict=True):
        found = inlined_at(info, address)
        assert len(found) == len(by_addr2line) - 1, hex(address)
        assert by_gdb[: len(found)] == found, hex(address)


@pytest.mark.parametrize("version", [4, 5])
def test_inlined_functions_of_a_separate_compressed_debug_file(version: int, tmp_path: Path) -> None:
    path = inlining("gcc", f"-gdwarf-{version}", "-gz")
    separate = tmp_path / "sample.debug"
    objcopy = require("readelf").with_name("objcopy")
    subprocess.run([objcopy, "--only-keep-debug", path, separate], env=clean_environment(), check=True)
    check_inlined(separate, of_addr2line(path, text_addresses(mapped(path))))


def test_inlined_functions_of_functions_in_functions(tmp_path: Path) -> None:
    text = """\
program p
  integer :: n
  n = command_argument_count()
  call work(n)
contains
  subroutine work(n)
    integer, intent(inout) :: n
    integer :: i
    !$omp parallel do reduction(+:n)
    do i = 1, n
      n = n + times(i)
    end do
    if (n > 7) call abort()
  end subroutine
  integer function times(i)
    integer, intent(in) :: i
    times = i * 3 + n
  end function
end program
"""
    require("gfortran")
    path = compiled("gfortran", "-x", "f95", "-Wl,-lgfortran", text=text)
    info, names = LineInfo(mapped(path)), set()
    addresses = text_addresses(mapped(path))
    for address, chain in zip(addresses, of_gdb(path, addresses, tmp_path), strict=True):
        found = inlined_at(info, address)
        assert chain[: len(found)] == found, hex(address)
        names |= set(found)
    assert names == {"p", "work", "times"}


@COMPILERS
def test_nothing_is_inlined_where_nothing_tells_it(compiler: str) -> None:
    path = inlining(compiler)
    info, addresses = LineInfo(mapped(path)), text_addresses(mapped(path))
    names = {address: found[-1].name for address in addresses if (found := info.functions(address))}
    assert {"plain", "alone", "main"} <= set(names.values())
    assert not any(inlined_at(info, address) for address, name in names.items() if name == "plain")
    assert [inlined_at(info, a) for a in (0, 1, mapped(path).e_entry, 1 << 63, 1 << 64)] == [[]] * 5
    without = mapped(inlining(compiler, "-g0"))
    assert not any(inlined_at(LineInfo(without), address) for address in text_addresses(without))


@COMPILERS
def test_inlined_functions_are_told_quickly(compiler: str) -> None:
    path = inlining(compiler)
    info, addresses = LineInfo(mapped(path)), text_addresses(mapped(path))
    for address in addresses:
        inlined_at(info, address)
    with within(0.1 + 0.001 * len(addresses)):
        for address in addresses:
            inlined_at(info, address)


@COMPILERS
@pytest.mark.parametrize("version", [4, 5])
def test_damaged_entries_of_inlined_functions_are_read_or_refused(compiler: str, version: int) -> None:
    path = inlining(compiler, f"-gdwarf-{version}")
    elf = mapped(path)
    addresses = text_addresses(elf, 13)

    def use(data: bytes) -> None:
        info = LineInfo(ElfFile(data, "damaged"))
        for address in addresses:
            inlined_at(info, address)

    survives(path.read_bytes(), use, debug_regions(elf))


def function_with(inlined: bytes, ranges: bytes = b"") -> LineInfo:
    """Return a unit with one function from 0x1000 to 0x2000 that contains the given entries."""
    code = struct.pack("<QQ", 0x1000, 0x1000)
    entries = b"\1" + code + b"\2" + code + inlined + b"\0\0"
    low_high = bytes((0x11, 1, 0x12, 7, 0, 0))
    abbreviations = b"\1\x11\1" + low_high + b"\2\x2e\1" + low_high
    # 3, 4: inlined, with children and without; 5: without, with DW_AT_ranges; 6: a subprogram with a name
    abbreviations += b"\3\x1d\1\x31\x13" + low_high + b"\4\x1d\0\x31\x13" + low_high
    abbreviations += b"\5\x1d\0\x31\x13\x55\x17\0\0" + b"\6\x2e\0\x03\x08\0\0" + b"\0"
    header = struct.pack("<IHIB", 7 + len(entries), 4, 0, 8)
    return LineInfo(Made(info=header + entries, abbrev=abbreviations, ranges=ranges))  # type: ignore[arg-type]


def inlined_entry(code: int, origin: int) -> bytes:
    return struct.pack("<BIQQ", code, origin, 0x1000, 0x1000)


NAMED = b"\6name\0"  # at 11 + 17 + 17: it follows header, unit and function


def test_inlined_functions_of_absurd_files_are_refused_soon() -> None:
    assert inlined_at(function_with(NAMED + inlined_entry(4, 45)), 0x1800) == ["name"]
    assert inlined_at(function_with(NAMED + inlined_entry(3, 45) * 500 + b"\0" * 500), 0x1800) == ["name"] * 500
    end = struct.pack("<QQ", 0, 0)
    absurd = [
        function_with(NAMED + inlined_entry(3, 45) * 5000 + b"\0" * 5000),  # deep
        function_with(NAMED + inlined_entry(4, 45) * 100_000),  # many
        function_with(inlined_entry(4, 45)),  # its own origin
        function_with(inlined_entry(4, 66) + inlined_entry(4, 45)),  # each other's origin
        function_with(inlined_entry(4, 1 << 20)),  # its origin lies outside of the unit
        function_with(inlined_entry(3, 45)[:-3]),  # cut off
        # Each entry has the same long list of ranges, or a list without end.
        function_with(struct.pack("<BII", 5, 45, 0) * 50_000, struct.pack("<QQ", 1, 1) * 200_000 + end),
        function_with(struct.pack("<BII", 5, 45, 0), struct.pack("<QQ", 1, 1) * 1000),
    ]
    for info in absurd:
        with within(10), pytest.raises(MalformedFile):
            info.functions(0x1800)
