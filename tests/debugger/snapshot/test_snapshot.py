"""Snapshots: their answers equal the original core's, and gdb can read them."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from itertools import product
from pathlib import Path

import pytest

import ompd
import ompd.questions.snapshot
from ompd.binary.core import notes
from ompd.binary.core.extract import extract
from ompd.binary.elf.elf import PT_NOTE, ElfFile, iter_notes
from ompd.binary.elf.symbols import SymbolTable
from ompd.debugger.snapshot import _shortened
from ompd.errors import BadFile, TargetGone, Unavailable
from ompd.session import Session
from tests.support import clean_environment, intel_runtime, require, running, stopped
from tests.support.cache import CHECKOUT
from tests.support.command import ompd as ompd_command
from tests.support.odd import Odd, core_of
from tests.support.products import in_turn, sample
from tests.support.programs import LOCK_KINDS
from tests.support.snapshots import answers, snapshot, without_files
from tests.truth import compare, everything

# The reads of a rehearsal differ most between these programs.
PROGRAMS = ["nested", "lock", "barrier", "task_tree", "two_criticals", "icvs_env", "serialized_three", "no_region"]


@pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    sample(
        product(PROGRAMS, ("gcc", "clang"), ("debug", "neither")),
        lambda program, compiler, mode: (program, (compiler, mode)),
    ),
)
@pytest.mark.quick("barrier-clang-debug")
def test_answers_are_those_of_the_core(program: str, compiler: str, mode: str, tmp_path: Path) -> None:
    core = stopped(program, compiler=compiler, mode=mode).core
    assert without_files(snapshot(core, tmp_path)) == answers(core)


@in_turn("kind", LOCK_KINDS, most=2)
@pytest.mark.quick("drdpa")
def test_answers_about_locks(kind: str, tmp_path: Path) -> None:
    core = stopped("lock_kinds", mode="neither", env={"KMP_LOCK_KIND": kind}).core
    assert without_files(snapshot(core, tmp_path)) == answers(core)


@pytest.mark.parametrize("program", ["nested", "task_tree"])
@pytest.mark.quick("nested")
def test_of_gcores(program: str, tmp_path: Path) -> None:
    core = stopped(program, kind="gcore").core
    path = snapshot(core, tmp_path)
    assert without_files(path) == answers(core)
    assert path.stat().st_size < core.stat().st_size


def test_of_a_snapshot(tmp_path: Path) -> None:
    core = stopped("nested").core
    first = snapshot(core, tmp_path)
    (tmp_path / "again").mkdir()
    with ompd.open_core(first, sysroot="/nonexistent") as session:
        from_first = tmp_path / "again" / "snapshot"
        ompd.questions.snapshot.take_snapshot(session, from_first)
    assert without_files(from_first) == answers(core)
    assert abs(from_first.stat().st_size - first.stat().st_size) < 1 << 17


@pytest.mark.parametrize("odd", [Odd("two_files"), Odd("dlopened"), Odd("loops", link="no-pie")])
@pytest.mark.quick("odd0")
def test_of_programs_of_other_shapes(odd: Odd, tmp_path: Path) -> None:
    core = core_of(odd, "gcc").path
    assert without_files(snapshot(core, tmp_path)) == answers(core)


@pytest.mark.quick()
def test_many_threads_are_small(tmp_path: Path) -> None:
    core = stopped("many", threads=512).core
    path = snapshot(core, tmp_path)
    assert path.stat().st_size < 20e6
    assert without_files(path) == answers(core)


@pytest.mark.parametrize("program", ["nested", "task_tree", "lock"])
@pytest.mark.quick("lock")
def test_of_a_running_process(program: str, tmp_path: Path) -> None:
    # The process is at rest, so that the snapshot can be compared with the process afterwards.
    path = tmp_path / "snapshot"
    with running(program, folder=tmp_path) as process:
        with ompd.attach(process.pid) as session:
            taken = session.snapshot(path)
        assert compare(process).differences == []
        with Session.attach(process.pid) as session:
            lived = session.ask(everything)
    assert taken.problems == ()
    with ompd.open_core(path, sysroot="/nonexistent") as session:
        told = session.ask(everything)
    assert [answer.rows for answer in told] == [answer.rows for answer in lived]
    assert all(answer.complete for answer in told)


def test_by_the_command(tmp_path: Path) -> None:
    core, path = stopped("nested").core, tmp_path / "snapshot"
    done = ompd_command("snapshot", core, "-o", path, "--data", "0")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(
        r".*/snapshot: \d+\.\d MB, 13 threads; \d+\.\d MB of memory, \d+\.\d MB of the files of 4 modules\n", done.out
    )
    assert without_files(path) == answers(core)
    assert ompd_command("snapshot", core, "-o", path, "--json").json["threads"] == 13
    for words, code, text in (
        ([core], 2, "-o"),
        ([core, "-o", path, "--data", "much"], 2, "is not a size"),
        ([core, "-o", core], 1, "is what the snapshot would be taken of"),
        ([core, "-o", tmp_path / "no" / "file"], 1, "cannot be written"),
        ([tmp_path / "no", "-o", path], 1, "no such file"),
    ):
        done = ompd_command("snapshot", *words)
        assert (done.code, text in done.err) == (code, True), done.err


# Contents


def test_what_others_need_not_know_is_left_out(tmp_path: Path) -> None:
    core = stopped("nested", env={"SECRET": "password123", "OMP_SCHEDULE": "guided,3"}).core
    path = snapshot(core, tmp_path)
    assert b"password123" in core.read_bytes() and b"password123" not in path.read_bytes()
    with ompd.open_core(path, sysroot="/nonexistent") as session:
        environment = session.process.environment.at_start()
        command = session.target.command
    assert environment["OMP_SCHEDULE"] == "guided,3" and "SECRET" not in environment and "PATH" not in environment
    assert command is not None and "/" not in command
    kept = snapshot(core, tmp_path, keep_environment=True)
    with ompd.open_core(kept, sysroot="/nonexistent") as session:
        assert session.process.environment.at_start()["SECRET"] == "password123"


@pytest.mark.parametrize(
    ("text", "short"), [(b"/a/bc/d", b"/////" + b"/d"[1:]), (b"d", b"d"), (b"", b""), (b"--x=/a/b", b"///////b")]
)
def test_paths_are_shortened_in_place(text: bytes, short: bytes) -> None:
    assert _shortened(text) == short.rjust(len(text), b"/") and len(_shortened(text)) == len(text)


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    assert snapshot(stopped("nested").core, tmp_path).stat().st_mode & 0o777 == 0o600


def test_gdb_reads_it(tmp_path: Path) -> None:
    program = stopped("nested")
    path = snapshot(program.core, tmp_path)
    told = [_gdb(program.executable, core) for core in (program.core, path)]
    assert told[0] == told[1] and len(told[0]) > 40
    assert "SIGABRT" in "".join(told[1])


def _gdb(executable: Path, core: Path) -> list[str]:
    commands = ("info threads", "thread apply all bt", "info sharedlibrary")
    words = [
        str(require("gdb")),
        "-nx",
        "-batch",
        *(w for c in commands for w in ("-ex", c)),
        str(executable),
        str(core),
    ]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), check=False)
    # The file named in "Core was generated" differs, and gdb's warnings on standard error about missing registers.
    return [line for line in done.stdout.splitlines() if not line.startswith("Core was generated") and line]


def test_extracts_are_elf_files_with_the_same_symbols(tmp_path: Path) -> None:
    path = intel_runtime() / "lib" / "libiomp5.so"
    whole = ElfFile(path.read_bytes(), "whole")
    small = ElfFile(extract(whole), "small")
    assert len(small.data) < len(whole.data) / 3
    for name in ("__kmp_threads", "omp_get_level", "__kmp_invoke_microtask"):
        assert SymbolTable(small, lambda: None).find(name) == SymbolTable(whole, lambda: None).find(name)
    (tmp_path / "small").write_bytes(extract(whole))
    command = [str(require("readelf")), "-SW", str(tmp_path / "small")]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode == 0 and re.search(r"\.symtab\s+SYMTAB", done.stdout)


# Failures


def test_it_is_not_taken_over_its_source(tmp_path: Path) -> None:
    first = snapshot(stopped("nested").core, tmp_path)
    before = first.read_bytes()
    with ompd.open_core(first) as session, pytest.raises(BadFile, match="is what the snapshot would be taken of"):
        session.snapshot(first)
    assert first.read_bytes() == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with ompd.open_core(stopped("nested").core) as session, pytest.raises(BadFile, match="cannot be written"):
        session.snapshot(tmp_path / "no" / "snapshot")
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "snapshot"
    place.write_text("precious")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("ompd.debugger.snapshot.write_core", fail)
    with ompd.open_core(stopped("nested").core) as session, pytest.raises(BadFile, match="No space left"):
        session.snapshot(place)
    assert place.read_text() == "precious" and list(tmp_path.iterdir()) == [place]


def _note(path: Path, kind: int) -> int:
    # Return the offset of the extract in the file's first note of this type.
    elf = ElfFile(path.read_bytes(), "snapshot")
    for segment in elf.segments:
        if segment.p_type == PT_NOTE:
            raw = elf.segment_data(segment)
            for _, n_type, desc in iter_notes(raw, "little"):
                if n_type == kind:
                    return segment.p_offset + raw.index(bytes(desc)) + 8
    raise AssertionError("no such note")


@pytest.mark.parametrize("damage", [b"\x7fELX", b"\x7fELF\x02\x01\x01" + bytes(60), b"\xff" * 64])
@pytest.mark.quick("*", "*")
def test_a_damaged_extract_is_told(damage: bytes, tmp_path: Path) -> None:
    path = snapshot(stopped("nested").core, tmp_path)
    data = bytearray(path.read_bytes())
    at = _note(path, notes.NT_OMPD_FILE)
    data[at : at + len(damage)] = damage
    path.write_bytes(data)
    told = without_files(path)
    assert all(isinstance(said, str) or not said["complete"] or said["warnings"] for said in told.values())


def test_an_extract_of_another_build_is_refused(tmp_path: Path) -> None:
    path = snapshot(stopped("nested").core, tmp_path)
    data = path.read_bytes()
    at = _note(path, notes.NT_OMPD_FILE)
    build_id = ElfFile(stopped("nested").executable.read_bytes(), "program").build_id()
    assert build_id is not None
    where = data.index(build_id, at)
    path.write_bytes(data[:where] + bytes(len(build_id)) + data[where + len(build_id) :])
    told = without_files(path)
    assert any("is not that of the module that ran" in warning for warning in told["threads"]["warnings"])


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("gcc", ()), ("clang", ()), ("clang", ("-fnoopenmp-use-tls",))],
    ids=["gcc", "clang", "cached"],
)
def test_threadprivate_variables_are_in_it(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    core = core_of(Odd("private", flags=flags, folder=CHECKOUT / "tests" / "waits"), compiler)
    path = snapshot(core.path, tmp_path, data_limit=0)
    told = [word for word in core.words if "at" in word]
    with ompd.open_core(path, sysroot="/nonexistent") as session:
        for word in told:
            assert int.from_bytes(session.process.memory.read(word["at"], 4), "little") == word["is"]
            assert struct.unpack("<d", session.process.memory.read(word["end"], 8)) == (word["is"] + 0.5,)
    assert len(told) == 3


def test_only_regular_files_are_written(tmp_path: Path) -> None:
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real"
    os.mkfifo(pipe)
    link.symlink_to(real)
    with ompd.open_core(stopped("nested").core) as session:
        for place in (pipe, tmp_path, "", "x" * 300):
            with pytest.raises(BadFile, match=r"is not a regular file|cannot be written"):
                session.snapshot(place)
        session.snapshot(link)
    assert pipe.is_fifo() and link.is_symlink() and real.is_file() and not real.is_symlink()


def test_a_closed_session_has_no_snapshot(tmp_path: Path) -> None:
    with ompd.open_core(stopped("nested").core) as session:
        pass
    with pytest.raises(TargetGone):
        session.snapshot(tmp_path / "snapshot")
    assert list(tmp_path.iterdir()) == []


def test_strings_that_cannot_be_told_apart_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("hidden")

    core = stopped("nested", env={"SECRET": "password123", "OMP_SCHEDULE": "guided,3"}).core
    monkeypatch.setattr("ompd.debugger.snapshot.find_environment", fail)
    path = tmp_path / "snapshot"
    with ompd.open_core(core) as session:
        taken = session.snapshot(path)
    assert any("strings of the initial stack are left out" in problem for problem in taken.problems)
    assert b"password123" not in path.read_bytes()


def test_what_could_not_be_asked_is_said(tmp_path: Path) -> None:
    core = tmp_path / "cut"
    data = stopped("nested").core.read_bytes()
    core.write_bytes(data[: len(data) * 98 // 100])
    with ompd.open_core(core) as session:
        taken = session.snapshot(tmp_path / "snapshot")
    assert any(problem.startswith("threads: the core file is cut off") for problem in taken.problems)
