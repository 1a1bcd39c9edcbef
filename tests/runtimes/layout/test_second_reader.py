"""``ompd layout add`` with two readers of debug information.

It writes what both readers agree on, and refuses a file about which they disagree. If only one reads a file, the table
says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from ompd.binary.types.types import FlatMember, flat_members
from ompd.errors import LayoutUnavailable
from ompd.questions import layouts
from ompd.runtimes.layout import second_reader
from ompd.session import tables as making
from tests.support.layout_sources import DEBUG_FLAGS, SOURCE, compile_c

TWO = "two readers that agree, ompd's own and pyelftools"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


def made(file: Path, tables: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    answer = layouts.add(str(file), name="made")
    written: dict[str, Any] = json.loads((tables / "libgomp-made.json").read_text())
    assert answer.rows[0].provenance == written["provenance"]
    return written, answer.warnings


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_c(tmp_path, SOURCE, "-gdwarf-5")


@pytest.mark.parametrize("flag", [*DEBUG_FLAGS, "-gdwarf64"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.quick(
    "gcc--gdwarf-5",
    "gcc--gz",
    "gcc--fdebug-types-section",
    "gcc--gdwarf64",
    "clang--gdwarf-5",
    "clang--gdwarf-4",
    "clang--gdwarf-2",
)
def test_both_read_what_compilers_write(compiler: str, flag: str, tmp_path: Path, tables: Path) -> None:
    flags = ("-gdwarf-5", flag) if flag == "-gdwarf64" else (flag,)
    written, warnings = made(compile_c(tmp_path, SOURCE, *flags, compiler=compiler), tables)
    both = TWO in written["provenance"]
    # Types with a signature are in their own units. pyelftools 0.33 finds only those of DWARF 4.
    assert both or (", one reader" in written["provenance"] and flag == "-fdebug-types-section")
    assert any("from one reader" in warning for warning in warnings) == (not both)


@pytest.mark.parametrize(
    ("type_name", "wrong", "words"),
    [
        ("gomp_team", {"offset": 4}, r"gomp_team\.nthreads is \[4, 4\], and \[0, 4\]"),
        ("gomp_task", {"size": 2}, r"gomp_task\.c is \[0, 2\], and \[0, 1\]"),
        ("gomp_thread", {"path": "function"}, r"gomp_thread\.fn is missing, and \[0, 8\]"),
    ],
)
def test_a_disagreement_is_refused(
    type_name: str,
    wrong: dict[str, Any],
    words: str,
    program: Path,
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def members(types: Any, found: Any, is_wanted: Any) -> list[FlatMember]:
        first, *others = flat_members(types, found, is_wanted)
        return [first._replace(**wrong) if found.name == type_name else first, *others]

    monkeypatch.setattr(making, "flat_members", members)
    with pytest.raises(LayoutUnavailable, match=f"differently by ompd and by pyelftools: {words}") as refused:
        layouts.add(str(program))
    assert "no table is written" in refused.value.hint
    assert not tables.exists()


def test_sizes_and_types_that_one_alone_sees_are_disagreements() -> None:
    difference = making._difference
    assert difference("t", (8, {"a": [0, 8]}), [(8, {"a": [0, 8]})]) is None
    assert difference("t", (8, {}), [(8, {}), (16, {})]) == "t has 8 bytes, and 16"
    assert difference("t", (8, {}), []) == "t is there, and is missing"
    assert difference("t", None, [(8, {})]) == "t is missing, and is there"
    assert difference("t", None, [(8, {}), (16, {})]) is None and difference("t", None, []) is None
    assert difference("t", (8, {"b": [0, 4, 1, 2]}), [(8, {"b": [0, 4, 2, 2]})]) is not None


def test_a_file_that_has_no_end_is_given_up(
    program: Path,
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The DW_AT_sibling of a function names the function itself. ompd's reader does not ask functions for it.
    with program.open("rb") as stream:
        info = ELFFile(stream).get_dwarf_info()
        section = info.debug_info_sec
        (unit,) = info.iter_CUs()
        function = next(
            die
            for die in unit.get_top_DIE().iter_children()
            if die.tag == "DW_TAG_subprogram" and "DW_AT_sibling" in die.attributes
        )
        sibling = function.attributes["DW_AT_sibling"]
        assert sibling.form == "DW_FORM_ref4"
        at = section.global_offset + sibling.offset
        value = function.offset - unit.cu_offset
    raw = bytearray(program.read_bytes())
    raw[at : at + 4] = value.to_bytes(4, "little")
    hostile = program.with_name("hostile")
    hostile.write_bytes(raw)
    monkeypatch.setattr(second_reader, "SECONDS", 1)
    honest = made(program, tables)[0]
    written, warnings = made(hostile, tables)
    assert "one reader" in written["provenance"] and written["structs"] == honest["structs"]
    assert any("from one reader: pyelftools has not read" in text and "more than 1 s" in text for text in warnings)


def test_without_pyelftools_one_reader_is_enough(program: Path, tables: Path) -> None:
    code = "import sys; sys.modules['elftools'] = None; from ompd.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "layout", "add", str(program), "--name", "made"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pyelftools is not installed" in done.stderr and "from one reader" in done.stderr
    written = json.loads((tables / "libgomp-made.json").read_text())
    assert ", one reader" in written["provenance"]


def test_a_part_in_another_file_is_not_read_twice(tmp_path: Path, tables: Path) -> None:
    split = compile_c(tmp_path, SOURCE, "-gsplit-dwarf")
    written, warnings = made(split, tables)
    assert "one reader" in written["provenance"]
    assert any("a part of it is in another file" in text for text in warnings)
