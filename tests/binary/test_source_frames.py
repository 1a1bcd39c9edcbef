"""Source functions at addresses, with names, files and lines, compared with addr2line, gdb and llvm-symbolizer."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from ompd.binary.dwarf.lines import LineInfo
from ompd.debugger.files.finder import FileFinder
from ompd.naming import is_construct
from tests.support import clean_environment, require
from tests.support.debug_programs import built, tool
from tests.support.samples import mapped, run

Frame = tuple[str | None, str | None, int | None]  # function, file, line
_SAMPLE = 400

KINDS = [
    *(("c", False, (f"-O{level}", f"-gdwarf-{version}")) for level in (2, 3) for version in (4, 5)),
    *(("c", False, flags) for flags in (("-O2", "-flto"), ("-O0",), ("-O2", "-gdwarf-2"), ("-O2", "-gdwarf-3"))),
    *(("c", True, ("-O2", f"-gdwarf-{version}")) for version in (4, 5)),
    *(("c++", False, flags) for flags in (("-O1",), ("-O2", "-gdwarf-4"), ("-O3",), ("-O2", "-flto"))),
    *(("c++", False, ("-O2", "-fdebug-types-section", f"-gdwarf-{version}")) for version in (4, 5)),
    *(("c++", True, ("-O1", f"-gdwarf-{version}")) for version in (4, 5)),
    *(("fortran", False, flags) for flags in (("-O0",), ("-O2",), ("-O2", "-flto"))),
]
EVERY_KIND = pytest.mark.parametrize(
    ("language", "clang", "flags"), KINDS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value)
)


def info_of(path: Path, finder: FileFinder | None = None) -> LineInfo:
    return LineInfo(mapped(path), (finder or FileFinder()).companions(str(path), str(path)), is_outlined=is_construct)


def frames_of(info: LineInfo, address: int) -> list[Frame]:
    place = info.locate(address) or (None, None)
    frames: list[Frame] = []
    for function in info.functions(address):
        frames.append((function.name, *place))
        place = function.call or (None, None)
    return frames or [(None, *place)]


def code(path: Path) -> range:
    section = mapped(path).section(".text")
    assert section is not None
    return range(section.sh_addr, section.sh_addr + section.sh_size)


def sample(path: Path, seed: str) -> list[int]:
    whole = code(path)
    return sorted(random.Random(seed).sample(whole, min(_SAMPLE, len(whole))))


def of_addr2line(path: Path, addresses: list[int]) -> list[list[Frame]]:
    text = run(tool("addr2line"), "-aifC", "-e", path, *map(hex, addresses))
    blocks = re.split(r"^0x[0-9a-f]+\n", text, flags=re.MULTILINE)[1:]
    return [_pairs(block.splitlines(), 1) for block in blocks]


def of_symbolizer(path: Path, addresses: list[int]) -> list[list[Frame]]:
    text = run(require("llvm-symbolizer"), f"--obj={path}", "-i", "-f", "-C", *map(hex, addresses))
    return [_pairs(block.strip("\n").splitlines(), 2) for block in text.split("\n\n")[: len(addresses)]]


def _pairs(rows: list[str], colons: int) -> list[Frame]:
    # Lines alternate: a function, then its place as "file:line" or "file:line:column".
    frames: list[Frame] = []
    for name, place in zip(rows[::2], rows[1::2], strict=True):
        file, *numbers = place.partition(" (disc")[0].rsplit(":", colons)
        known = numbers[0].isdecimal() and int(numbers[0]) > 0
        frames.append((name, os.path.normpath(file), int(numbers[0])) if known else (name, None, None))
    return frames


def places(frames: list[Frame]) -> list[tuple[str | None, int | None]]:
    return [(os.path.normpath(file) if file is not None else None, line) for _, file, line in frames]


def of_gdb(path: Path, addresses: list[int], tmp_path: Path) -> list[tuple[str, int] | None]:
    # Return the innermost function's line. If an address has several rows, gdb chooses differently from the other
    # tools.
    script = tmp_path / "lines.gdb"
    script.write_text("".join(f"info line *{address:#x}\n" for address in addresses))
    answers = run(require("gdb"), "-nx", "-batch", "-iex", "set auto-load no", "-x", script, path).splitlines()
    assert len(answers) == len(addresses)
    found = [re.match(r'Line (\d+) of "(.*?)"', answer) for answer in answers]
    return [(match[2], int(match[1])) if match else None for match in found]


@EVERY_KIND
@pytest.mark.quick("c-True--O2 -gdwarf-4", "c++-False--O1", "fortran-False--O0")
def test_frames_are_those_of_other_tools(language: str, clang: bool, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = built(language, *flags, clang=clang)
    info, addresses = info_of(path), sample(path, f"{language} {clang} {flags}")
    # addr2line loses inlined functions of clang, and of units that refer to types in other units.
    by_llvm = clang or "-fdebug-types-section" in flags
    chains = of_symbolizer(path, addresses) if by_llvm else of_addr2line(path, addresses)
    known = inlined = unlike_gdb = 0
    for address, chain, row in zip(addresses, chains, of_gdb(path, addresses, tmp_path), strict=True):
        frames = frames_of(info, address)
        innermost = places(frames)[0]
        as_gdb = innermost == (None, None)
        if row is not None:
            as_gdb = innermost[1] == row[1] and str(innermost[0]).endswith(os.path.normpath(row[0]))
        assert as_gdb or innermost == places(chain)[0], hex(address)
        unlike_gdb += not as_gdb
        if frames[-1][0] is None:
            assert len(chain) == 1, hex(address)
            continue
        assert len(frames) == len(chain), hex(address)
        assert places(frames)[1:] == places(chain)[1:], hex(address)
        known += 1
        inlined += len(frames) > 1
    # gdb drops repeated rows of a line, and with them the mark of a statement's beginning.
    assert unlike_gdb < 20
    assert known > 150
    assert inlined > 10 or "-O0" in flags


# Names

GDB_NAMES = """\
import gdb
for address in open("addresses").read().split():
    block, names = gdb.block_for_pc(int(address, 16)), []
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            names.append(block.function.print_name)
        block = block.superblock
    print(__import__("json").dumps(names))
"""


def names_of_gdb(path: Path, addresses: list[int], folder: Path) -> list[list[str]]:
    (folder / "names.py").write_text(GDB_NAMES)
    (folder / "addresses").write_text("\n".join(map(hex, addresses)))
    command = [require("gdb"), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", "names.py", path]
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False
    )
    if "Python" in done.stderr:
        pytest.skip("gdb has no Python")
    return [json.loads(line) for line in done.stdout.splitlines()]


def path_of(name: str) -> list[str]:
    """Return a name's scopes and last part, without parameters and template arguments: gdb spells these differently."""
    name = (
        name.replace("(anonymous namespace)", "@anonymous").replace("operator()", "@call").replace("operator<", "@less")
    )
    plain = re.sub(r"\{lambda\([^{}]*\)#\d+\}|\$_\d+|<lambda\([^<>]*\)>", "{lambda}", name)
    depth, text = 0, ""
    for character in plain:
        depth += character in "<("
        text += character if depth == 0 else ""
        depth -= character in ">)"
    return [re.sub(r" (?:const|\[clone.*)$", "", part.strip()) for part in text.split("::")]


@pytest.mark.parametrize("flags", [("-O1",), ("-O2",), ("-O2", "-gdwarf-4")], ids=" ".join)
@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
@pytest.mark.quick("gcc--O2 -gdwarf-4")
def test_names_of_cplusplus_are_those_of_gdb(clang: bool, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = built("c++", *flags, clang=clang)
    info, addresses = info_of(path), list(code(path))  # a sample could miss the rare names
    seen: set[str] = set()
    for address, chain in zip(addresses, names_of_gdb(path, addresses, tmp_path), strict=True):
        ours = [frame[0] for frame in frames_of(info, address)]
        if not chain or ours[-1] is None:
            assert not chain and ours == [None], hex(address)
            continue
        for name, by_gdb in zip(ours, chain, strict=False):
            assert name is not None
            seen.add(name)
            if "omp_" in name:
                continue
            wanted, got = path_of(by_gdb), path_of(name)
            if "{lambda}" in got or "cfun" in got:
                # If gcc has not written the linker's name, gdb does not know the function that contains a local class.
                assert got[-1] == wanted[-1], (hex(address), name, by_gdb)
                assert len(wanted) < 3 or got == wanted, (hex(address), name, by_gdb)
            else:
                assert got == wanted, (hex(address), name, by_gdb)
    expected = {"main", "(anonymous namespace)::hid", "ns::v1::inl", "ns::Box<double>::get", "Base::v", "Local::v"}
    assert len(expected & seen) > 3


def test_names_of_every_function() -> None:
    for clang in (False, True):
        path = built("c++", "-O1", clang=clang)
        info = info_of(path)
        names = set()
        for address in code(path):
            names |= {frame[0] for frame in frames_of(info, address)}
        expected = {
            *("main", "cfun", "cfun::In::f", "Base::v", "Local::v", "Base::~Base"),
            *("(anonymous namespace)::hid", "(anonymous namespace)::Hidden::go", "(anonymous namespace)::inner::deep"),
            *("ns::v1::inl", "ns::Box<double>::get", "ns::Box<double>::conv<float>", "ns::Box<char>::stat"),
            *("ns::Box<double>::~Box", "ns::Box<double>::operator int", "ns::Box<double>::operator<"),
            *("main::{lambda}::operator()", "main::{lambda}::operator()::{lambda}::operator()"),
        }
        assert expected <= names, expected - names
        assert any(str(name).startswith("ns::twice<short") for name in names)


def test_names_of_fortran_are_those_of_the_source() -> None:
    path = built("fortran", "-O0")
    info = info_of(path)
    names = {info.functions(a)[-1].name for a in code(path) if info.functions(a)}
    assert {"p", "inner", "fill", "twice", "box_area"} <= names
