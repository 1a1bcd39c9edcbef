"""``layout add`` refuses files that give no table, says why, and leaves the tables that were there."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ompd.binary.types.types import flat_members
from ompd.errors import BadInput, MalformedFile, OmpdError
from ompd.questions import layouts
from ompd.runtimes.layout import table
from tests.support import FULL
from tests.support.layout_sources import SOURCE, compile_c
from tests.support.layout_tables import BUILD_ID

# The number of files with damaged debug information.
DAMAGED = 300 if FULL else 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


def refused(path: Path | str, **options: Any) -> str:
    with pytest.raises(OmpdError) as error:
        layouts.add(str(path), **options)
    return str(error.value)


def test_refusals_are_words(tmp_path: Path, folder: Path) -> None:
    assert "no such file" in refused(tmp_path / "nothing")
    assert "is a directory" in refused(tmp_path)
    assert "is not an ELF file" in refused(Path(__file__))
    plain = compile_c(tmp_path, "struct s { int a; } s; int main(void) { return s.a; }", name="plain")
    assert "not that of a known runtime: it has none of gomp_thread (libgomp), kmp_base_info (libomp)" in refused(plain)
    assert "lacks the type gomp_thread" in refused(plain, runtime="libgomp")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-s", "-o", str(stripped), str(plain)], check=True)
    assert "has no debug information (DWARF)" in refused(stripped)
    some = compile_c(tmp_path, "struct gomp_thread { int a; } s; int main(void) { return s.a; }", name="some")
    assert "lacks the type gomp_team" in refused(some)
    both = SOURCE.replace("static int some;", "static int some; struct kmp_base_info { int a; } info;")
    both_file = compile_c(tmp_path, both, name="both")
    assert "is of libgomp and libomp" in refused(both_file)
    assert layouts.add(str(both_file), runtime="libgomp").rows[0].runtime == "libgomp"
    assert "lacks the type ident" in refused(both_file, runtime="libomp")
    raw = bytearray(plain.read_bytes())
    for offset, value in ((18, 243), (4, 1), (5, 2)):
        other = bytearray(raw)
        other[offset] = value
        foreign = tmp_path / "foreign"
        foreign.write_bytes(other)
        assert any(word in refused(foreign) for word in ("another architecture", "damaged ELF file"))
    (tmp_path / "short").write_bytes(raw[:40])
    assert "damaged ELF file" in refused(tmp_path / "short")


def test_two_structures_of_one_name_are_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "other.c").write_text("struct gomp_team { char c[3]; } other_team;")
    program = compile_c(tmp_path, SOURCE, str(tmp_path / "other.c"))
    assert "several of different sizes" in refused(program)


def test_a_structure_that_no_runtime_has_is_not_written(tmp_path: Path, folder: Path) -> None:
    huge = SOURCE.replace("long double ld;", "long double ld; char huge[1 << 21];")
    assert "which no runtime has" in refused(compile_c(tmp_path, huge))
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_c(tmp_path, SOURCE)
    for place in ("/dev/null/there", "/proc/1", str(program)):
        monkeypatch.setenv("XDG_DATA_HOME", place)
        assert "cannot be written" in refused(program)
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", "")
    assert "neither XDG_DATA_HOME nor HOME" in refused(program)


def test_a_failure_leaves_the_table_that_was_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile_c(tmp_path, SOURCE)
    layouts.add(str(program), name="mine")
    before = (folder / "libgomp-mine.json").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert "No space left on device" in refused(program, name="mine")
    assert [(entry.name, entry.read_bytes()) for entry in folder.iterdir()] == [("libgomp-mine.json", before)]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("../../../etc/passwd", "libgomp-etc-passwd"),
        ("/absolute", "libgomp-absolute"),
        ("..", "libgomp-0123456789ab"),
        ("", "libgomp-0123456789ab"),
        (".hidden", "libgomp-hidden"),
        ("libgomp-12", None),
        ("libgomp-12.json/../x", "libgomp-12.json-x"),
        ("GCC 12.2.0", "libgomp-GCC-12.2.0"),
        ("日本", "libgomp-0123456789ab"),
        ("a\nb\x1b[31m", "libgomp-a-b-31m"),
        ("\udcff", "libgomp-0123456789ab"),
        ("x" * 5000, "libgomp-" + "x" * 64),
    ],
)
@pytest.mark.quick(
    "/absolute-libgomp-absolute",
    ".hidden-libgomp-hidden",
    "libgomp-12-None",
    "libgomp-12.json/../x-libgomp-12.json-x",
    "GCC 12.2.0-libgomp-GCC-12.2.0",
    "a*",
    "*",
    "name11-libgomp-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx*",
)
def test_a_name_never_leads_out_of_the_folder(name: str, file: str | None, tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE, f"-Wl,--build-id=0x{BUILD_ID}")
    before = sorted(tmp_path.rglob("*"))
    if file is None:
        with pytest.raises(BadInput, match="shipped"):
            layouts.add(str(program), name=name)
        return
    layouts.add(str(program), name=name)
    assert [entry.name for entry in folder.iterdir()] == [f"{file}.json"]
    assert set(tmp_path.rglob("*")) - set(before) == {folder, folder.parent, folder.parents[1], folder / f"{file}.json"}


def test_damaged_debug_information_is_refused_in_words(tmp_path: Path, folder: Path) -> None:
    whole = compile_c(tmp_path, SOURCE).read_bytes()
    chance = random.Random(5)
    damaged = tmp_path / "damaged"
    outcomes = {"made": 0, "refused": 0}
    for _ in range(DAMAGED):
        raw = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            raw[chance.randrange(len(raw) // 4, len(raw))] = chance.randrange(256)
        damaged.unlink(missing_ok=True)
        damaged.write_bytes(raw[: chance.randrange(len(raw))] if chance.random() < 0.1 else raw)
        try:
            layouts.add(str(damaged), name="damaged")
            outcomes["made"] += 1
        except OmpdError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > DAMAGED // 15
    assert table.user_tables()[1] == []  # all tables that were made can be read


class _Endless:
    # A structure whose members have the type of the structure itself, which no compiler writes.

    class Place:
        class unit:
            offset = 0

        offset = 0

    def __init__(self, width: int, name: str | None) -> None:
        self.width, self.name = width, name
        self.index = self

    def rows(self, place: Any) -> Any:
        names = [f"{self.name}{number}" if self.name else None for number in range(self.width)]
        return [(name, 0x0D, {}) for name in names]

    def location(self, unit: Any, attributes: Any) -> tuple[int, None, None]:
        return 0, None, None

    def type_of(self, unit: Any, attributes: Any) -> Any:
        return self.Place

    inner = staticmethod(lambda place: place)
    size_at = staticmethod(lambda place: 8)
    entry = staticmethod(lambda place: (0x13, {}))


@pytest.mark.parametrize("width", [1, 2, 1000])
@pytest.mark.parametrize("name", ["m", None])
def test_a_structure_that_contains_itself_ends(width: int, name: str | None) -> None:
    endless: Any = _Endless(width, name)
    with pytest.raises(MalformedFile):
        flat_members(endless, _found(endless), lambda path: True)


def _found(endless: Any) -> Any:
    class Found:
        place = endless.Place

    return Found
