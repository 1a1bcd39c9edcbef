"""Debug information in several files (split, packaged, supplementary), and compressed debug information."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ompd.binary.dwarf.lines import Function, LineInfo
from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.static import find_variables
from ompd.binary.types.types import TypeInfo
from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.errors import FieldNotFound
from tests.support import require
from tests.support.debug_programs import built, changed, tool

VERSIONS = pytest.mark.parametrize("version", [4, 5])
COMPILERS = pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
LANGUAGES = pytest.mark.parametrize("language", ["c", "c++"])

# By language: types with their sizes, and the offsets and sizes of some members, as the psABI has them.
TYPES = {
    "c": {
        "struct first": (32, {"a": (0, 4), "in.y": (16, 8), "text": (24, 7)}),
        "struct second": (24, {"d": (8, 8), "next": (16, 8)}),
    },
    "c++": {"ns::Box<double>": (8, {"v": (0, 8)}), "Base": (8, {}), "Local": (8, {})},
}


class Program:
    """A program's file, with the companion files that the debugger would find."""

    def __init__(self, path: Path, *, at: Path | None = None, finder: FileFinder | None = None) -> None:
        self.elf = ElfFile(path.read_bytes(), path.name)
        companions = (finder or FileFinder()).companions(str(at or path), str(at or path))
        self.lines, self.types = LineInfo(self.elf, companions), TypeInfo(self.elf, companions)

    def addresses(self) -> range:
        section = self.elf.section(".text")
        assert section is not None
        return range(section.sh_addr, section.sh_addr + section.sh_size, 3)

    def functions(self) -> list[list[Function]]:
        return [self.lines.functions(address) for address in self.addresses()]

    def places(self) -> list[tuple[str, int] | None]:
        return [self.lines.locate(address) for address in self.addresses()]

    def check_types(self, language: str) -> None:
        for name, (size, members) in TYPES[language].items():
            found = self.types.find(name)
            assert found is not None, name
            assert found.size == size
            assert {path: found.member(path)[:2] for path in members} == members
            with pytest.raises(FieldNotFound):
                found.member("nothing")


def same(functions: list[list[Function]], others: list[list[Function]]) -> None:
    # Names of files contain the folder of the compilation, so that only the last parts are compared.
    def plain(rows: list[list[Function]]) -> list[list[tuple[object, ...]]]:
        return [[(f.name, f.is_inlined, f.call and (Path(f.call[0]).name, f.call[1])) for f in row] for row in rows]

    assert plain(functions) == plain(others)
    assert sum(map(bool, functions)) > 50


# Split debug information


@VERSIONS
@COMPILERS
@LANGUAGES
@pytest.mark.quick("c-gcc-5")
def test_split_files_tell_what_the_whole_one_does(language: str, clang: bool, version: int, tmp_path: Path) -> None:
    flags = ("-O2", f"-gdwarf-{version}")
    whole = Program(built(language, *flags, clang=clang))
    split = Program(built(language, *flags, "-gsplit-dwarf", clang=clang, folder=tmp_path))
    same(split.functions(), whole.functions())
    split.check_types(language)
    assert split.lines.is_whole
    assert not LineInfo(split.elf).is_whole or not any(map(LineInfo(split.elf).functions, split.addresses()))


@VERSIONS
@pytest.mark.quick("4")
def test_types_of_split_files_may_be_in_units_of_their_own(version: int, tmp_path: Path) -> None:
    flags = ("-O2", f"-gdwarf-{version}", "-gsplit-dwarf")
    split = Program(built("c++", *flags, "-fdebug-types-section", folder=tmp_path))
    same(split.functions(), Program(built("c++", "-O2", f"-gdwarf-{version}")).functions())
    split.check_types("c++")


@COMPILERS
@VERSIONS
def test_split_files_are_found_where_they_may_be(version: int, clang: bool, tmp_path: Path) -> None:
    made, moved, elsewhere = tmp_path / "made", tmp_path / "moved", tmp_path / "elsewhere"
    for folder in (made, moved, elsewhere):
        folder.mkdir()
    program = built("c", "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", clang=clang, folder=made)
    copy = moved / "program"
    shutil.copy(program, copy)
    expected = Program(program).functions()
    assert Program(copy).functions() == expected  # found by the compiler's working folder
    made.rename(tmp_path / "away")
    lost = Program(copy)
    assert not any(lost.functions()) and not lost.lines.is_whole
    assert lost.places() == Program(tmp_path / "away" / "program").places()
    for split in (tmp_path / "away").glob("*.dwo"):
        shutil.copy(split, elsewhere)
    assert Program(copy, finder=FileFinder(FileOptions(debug_dirs=[str(elsewhere)]))).functions() == expected
    sysroot = tmp_path / "sysroot"
    shutil.copytree(elsewhere, sysroot / str(made).lstrip("/"))
    assert Program(copy, finder=FileFinder(FileOptions(sysroot=str(sysroot)))).functions() == expected
    for split in elsewhere.iterdir():
        shutil.copy(split, moved)
    assert Program(copy).functions() == expected  # found beside the program


@VERSIONS
def test_a_split_file_of_another_build_is_not_believed(version: int, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    program = built("c", "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", folder=one)
    built("c", "-O1", f"-gdwarf-{version}", "-gsplit-dwarf", folder=other)
    for split in other.glob("*.dwo"):
        shutil.copy(split, one)
    found = Program(program)
    assert not any(found.functions()) and not found.lines.is_whole
    assert any(found.places())
    assert found.types.find("struct first") is None


# llvm-dwp 14 does not end on some files that gcc writes in DWARF 5. binutils' dwp does not end on any of them.
PACKERS = [(packer, 4, clang) for packer in ("dwp", "llvm-dwp") for clang in (False, True)] + [("llvm-dwp", 5, True)]


@LANGUAGES
@pytest.mark.parametrize(("packer", "version", "clang"), PACKERS, ids=str)
@pytest.mark.quick("dwp-4-True-c")
def test_packages_tell_what_their_files_do(
    packer: str, version: int, language: str, clang: bool, tmp_path: Path
) -> None:
    made, moved = tmp_path / "made", tmp_path / "moved"
    made.mkdir()
    moved.mkdir()
    types = () if clang else ("-fdebug-types-section",)
    program = built(language, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", *types, clang=clang, folder=made)
    expected = Program(program)
    changed([require(packer), "-e", "program", "-o", moved / "program.dwp"], made)
    functions = expected.functions()
    shutil.copy(program, moved)
    made.rename(tmp_path / "away")
    packed = Program(moved / "program")
    same(packed.functions(), functions)
    packed.check_types(language)
    # The package has the name of another program, then lies in a folder of debug files.
    folder = tmp_path / "debug"
    folder.mkdir()
    (moved / "program.dwp").rename(folder / "program.dwp")
    assert not any(Program(moved / "program").functions())
    assert Program(moved / "program", finder=FileFinder(FileOptions(debug_dirs=[str(folder)]))).functions() == functions


def test_a_package_of_another_build_is_not_believed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, level in ((one, "-O2"), (other, "-O1")):
        folder.mkdir()
        built("c", level, "-gdwarf-4", "-gsplit-dwarf", folder=folder)
    changed([require("dwp"), "-e", "program", "-o", one / "program.dwp"], other)
    good = Program(one / "program").functions()
    assert sum(map(bool, good)) > 50  # found by the split files beside the program
    for split in one.glob("*.dwo"):
        split.unlink()
    found = Program(one / "program")
    assert not any(found.functions())
    assert found.types.find("struct first") is None


# Supplementary debug information


def shared(folder: Path, *flags: str, clang: bool = False, language: str = "c", five: bool = False) -> Path:
    """Return a program that shares a supplementary file with a copy of itself."""
    original = built(language, *flags, clang=clang)
    for name in ("program", "copy"):
        shutil.copy(original, folder / name)
    options = ["--dwarf-5"] if five else []
    changed([require("dwz"), *options, "-m", "shared.debug", "program", "copy"], folder)
    assert (folder / "shared.debug").exists()
    return folder / "program"


SHARED = [(False, "c", 4, False), (False, "c", 5, False), (False, "c++", 5, False), (True, "c", 4, False)]
SHARED += [(True, "c++", 4, False), (False, "c", 5, True), (False, "c++", 5, True)]


@pytest.mark.parametrize(("clang", "language", "version", "five"), SHARED, ids=str)
@pytest.mark.quick("True-c++-4-False", "False-c-5-False", "False-c-5-True")
def test_shared_entries_tell_what_the_whole_file_does(
    clang: bool, language: str, version: int, five: bool, tmp_path: Path
) -> None:
    flags = ("-O2", f"-gdwarf-{version}")
    program = shared(tmp_path, *flags, clang=clang, language=language, five=five)
    found, whole = Program(program), Program(built(language, *flags, clang=clang))
    same(found.functions(), whole.functions())
    found.check_types(language)
    assert found.lines.is_whole
    names = ("first", "second", "int") if language == "c" else ("int",)
    assert sorted(find_variables(found.types, names)) == sorted(find_variables(whole.types, names))
    assert find_variables(whole.types, names)
    # Without the shared file, lines are still found, and no name is wrong.
    (tmp_path / "shared.debug").unlink()
    lost = Program(program)
    for place, of_whole in zip(lost.places(), whole.places(), strict=True):  # the folder's name may be lost, too
        assert place == of_whole or (
            place and of_whole and (Path(place[0]).name, place[1]) == (Path(of_whole[0]).name, of_whole[1])
        )
    for rest, all_of_it in zip(lost.functions(), whole.functions(), strict=True):
        assert [f.name for f in rest if f.name is not None] == [
            f.name for f, g in zip(all_of_it, rest, strict=False) if g.name is not None
        ]
    assert not lost.lines.is_whole


def test_one_file_alone_may_share_with_itself(tmp_path: Path) -> None:
    shutil.copy(built("c++", "-O2", "-gdwarf-4"), tmp_path / "program")
    changed([require("dwz"), "program"], tmp_path)
    found = Program(tmp_path / "program")
    same(found.functions(), Program(built("c++", "-O2", "-gdwarf-4")).functions())
    found.check_types("c++")


def test_supplementary_files_are_found_where_they_may_be(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    program = shared(here, "-O2", "-gdwarf-5")
    expected = Program(program).functions()
    build_id = ElfFile((here / "shared.debug").read_bytes(), "shared").build_id()
    assert build_id is not None
    by_id = tmp_path / "debug" / ".build-id" / build_id.hex()[:2] / f"{build_id.hex()[2:]}.debug"
    by_name = tmp_path / "names" / ".dwz" / "shared.debug"
    for path in (by_id, by_name):
        path.parent.mkdir(parents=True)
        shutil.copy(here / "shared.debug", path)
    (here / "shared.debug").unlink()
    assert Program(program).functions() != expected
    for folder in ("debug", "names"):
        assert (
            Program(program, finder=FileFinder(FileOptions(debug_dirs=[str(tmp_path / folder)]))).functions()
            == expected
        )
    # Another file with that name is not used, nor is a file that refers to itself.
    shutil.copy(program, here / "shared.debug")
    assert all(f.name is None or f.name for row in Program(program).functions() for f in row)
    assert not Program(program).lines.is_whole or Program(program).functions() != expected


# Compressed debug information


@pytest.mark.parametrize("kind", ["zlib-gnu", "zlib-gabi", "zstd"])
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.quick("c-zlib-gabi", "c-zstd", "c++-zlib-gnu", "c++-zstd")
def test_compressed_sections_tell_what_plain_ones_do(kind: str, language: str, tmp_path: Path) -> None:
    path = built(language, "-O2")
    changed([tool("objcopy"), f"--compress-debug-sections={kind}", path, "program"], tmp_path)
    found, plain = Program(tmp_path / "program"), Program(path)
    names = {section.name for section in found.elf.sections}
    assert (".zdebug_info" in names) == (kind == "zlib-gnu")
    assert found.functions() == plain.functions() and found.places() == plain.places()
    found.check_types(language)


def test_split_files_may_be_compressed(tmp_path: Path) -> None:
    program = built("c", "-O2", "-gdwarf-5", "-gsplit-dwarf", "-gz", folder=tmp_path)
    same(Program(program).functions(), Program(built("c", "-O2", "-gdwarf-5")).functions())
