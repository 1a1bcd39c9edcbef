"""Source files are found by their names in debug information, and shown only if they are the compiled ones."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.files.sources import Origin, Sources
from ompd.errors import Unavailable
from ompd.model.places import SourceExcerpt, SourceMark
from ompd.render.excerpts import excerpt_lines

TEXT = "int main(void)\n{\n    return 0;\n}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "src" / "deep" / "main.c"
    file.parent.mkdir(parents=True)
    file.write_text(TEXT)
    return file


def test_a_file_is_read_at_its_own_path(source: Path) -> None:
    found = Sources((), str).read(str(source), Origin())
    assert found.lines[2] == "    return 0;"
    assert (found.path, found.note) == (str(source), None)


def test_a_folder_that_the_user_names_comes_first(source: Path, tmp_path: Path) -> None:
    assert Sources([str(tmp_path / "src")], str).read("/gone/build/deep/main.c", Origin()).path == str(source)
    assert Sources([str(source.parent)], str).read("/gone/build/main.c", Origin()).path == str(source)
    with pytest.raises(Unavailable, match="no such file"):
        Sources((), str).read("/gone/build/deep/main.c", Origin())


def test_a_file_of_the_targets_machine_comes_before_one_of_this(source: Path, tmp_path: Path) -> None:
    inside = tmp_path / "root" / str(source)[1:]
    inside.parent.mkdir(parents=True)
    inside.write_text("// of the container\n")
    finder = FileFinder(FileOptions(sysroot=tmp_path / "root"))
    assert finder.sources.read(str(source), Origin()).path == str(inside)


def test_a_file_with_another_digest_is_not_shown(source: Path) -> None:
    digest = hashlib.md5(TEXT.encode()).digest()
    assert Sources((), str).read(str(source), Origin(digest)).note is None
    source.write_text("\n" + TEXT)
    with pytest.raises(Unavailable, match="has changed since it was compiled"):
        Sources((), str).read(str(source), Origin(digest))


def test_a_file_that_is_newer_than_the_module_has_a_note(source: Path, tmp_path: Path) -> None:
    module = tmp_path / "program"
    module.write_bytes(b"x")
    os.utime(module, (2_000_000_000, 2_000_000_000))
    assert Sources((), str).read(str(source), Origin(program=str(module))).note is None
    os.utime(module, (1_000_000_000, 1_000_000_000))
    assert "is newer than" in (Sources((), str).read(str(source), Origin(program=str(module))).note or "")


@pytest.mark.parametrize("name", ["/etc/passwd", "/dev/zero", "/proc/self/environ", "/etc/shadow", ""])
def test_other_files_than_sources_are_not_shown(name: str) -> None:
    with pytest.raises(Unavailable, match="is not called like a source file"):
        Sources((), str).read(name, Origin())


def test_a_pipe_and_a_huge_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.c")
    with pytest.raises(Unavailable, match="is not a regular file"):
        Sources((), str).read(str(tmp_path / "pipe.c"), Origin())
    with (tmp_path / "huge.c").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unavailable, match="too large for a source file"):
        Sources((), str).read(str(tmp_path / "huge.c"), Origin())


def test_the_line_is_underlined_with_what_happens_there() -> None:
    marks = (SourceMark(8, "set here", is_main=False), SourceMark(9, "thread 1 waits"), SourceMark(9, "thread 2 waits"))
    lines = ("\tlock();", "\tset(&a);", "\x1b[31m")
    excerpt = SourceExcerpt("/src/a.c", 9, 8, lines, "/src/a.c", "it may be another", marks)
    assert [line for line, _ in excerpt_lines(excerpt)] == [
        "  --> a.c:9",
        " 8 |         lock();",
        "   |         ------- set here",
        " 9 |         set(&a);",
        "   |         ^^^^^^^^ thread 1 waits",
        "   |                  thread 2 waits",
        "10 | \\x1b[31m",
        "   = it may be another",
    ]
