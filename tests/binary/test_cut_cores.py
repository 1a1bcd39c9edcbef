"""Cores that were cut off or lost pages: the rest is answered exactly, and the gaps are named.

Every fact from a damaged core must equal the same fact from the intact core.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.errors import BadFile, NoAnswer
from ompd.questions import threads as threads_question
from ompd.session import Session
from tests.support import FULL, Stopped, clean_environment, stopped, stopped_twice
from tests.support.budget import within
from tests.support.comparing import as_json, compare
from tests.support.cutting import LOST, PAGE, Holes, check_cut, intact_of, places_to_cut, wrong
from tests.support.damage import (
    DAMAGES,
    QUESTIONS,
    ask_all,
    cut,
    loads_of,
    notes_of,
    segments,
    zeroed,
)

OMPD = Path(sys.executable).with_name("ompd")
KINDS = ("kernel", "gcore")
NOTES_LOST = "the notes that name threads and files, and hold registers, were behind the cut"
QUICK_SECONDS = 5


@pytest.fixture(scope="module")
def deadlock() -> dict[str, Stopped]:
    by_gdb, by_kernel = stopped_twice("deadlock")
    return {"kernel": by_kernel, "gcore": by_gdb}


def percent(core: Stopped, part: int, to: Path) -> Path:
    return cut(core.core, to, core.core.stat().st_size * part // 100)


def behind_the_runtime(core: Path) -> int:
    """Return the offset in the file where the runtime's variables end, zero-initialised ones included."""
    with Session.open_core(core) as session:
        end = session.runtimes[0].found.module.end
    return next(load.p_offset + load.p_filesz for load in loads_of(core) if load.p_vaddr == end)


# Cuts at any place


@pytest.mark.parametrize(
    ("program", "mode", "kind"),
    [
        (program, mode, kind)
        for program, mode, usual in (
            ("deadlock", "debug", KINDS),
            ("nested", "neither", ("kernel",)),
            ("task_tree", "tool", ("gcore",)),
            ("taskgroup", "debug", ("kernel",)),
        )
        for kind in (KINDS if FULL else usual)
    ],
)
@pytest.mark.quick("nested-neither-kernel")
def test_no_fact_is_wrong_wherever_a_core_is_cut(tmp_path: Path, program: str, mode: str, kind: str) -> None:
    by_gdb, by_kernel = stopped_twice(program, mode=mode)
    core = by_gdb if kind == "gcore" else by_kernel
    intact = intact_of(core)
    for size in sorted(places_to_cut(core.core), reverse=True):
        part = cut(core.core, tmp_path / "core", size)
        for options in ({}, {"exe": core.executable}) if kind == "gcore" and (FULL or mode == "debug") else ({},):
            with within(QUICK_SECONDS):
                told = ask_all(part, **options)
            check_cut(told, intact, size, core.core)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name.startswith("cut")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick("kernel-cut at 20 %", "gcore-cut at 1 %")
def test_what_the_page_claims(tmp_path: Path, deadlock: dict[str, Stopped], kind: str, damage: str) -> None:
    core = deadlock[kind]
    intact = intact_of(core)
    told = ask_all(DAMAGES[damage](core.core, tmp_path / "core"), exe=core.executable)
    # A core without notes has no registers, with which stacks begin, and not the program's name.
    asked = [name for name in QUESTIONS if kind == "kernel" or name not in ("stack", "var")]
    facts = {name: found.told for name, found in told.compared(intact).items() if name in asked}
    if kind == "kernel":
        threads = told.answers["threads"]["threads"]
        assert told.exit_code("threads") == 3
        assert {row["native_thread_id"] for row in threads} == {t["native_thread_id"] for t in core.truth["threads"]}
        assert all(row["where"] or row["innermost"] or "where" not in row["unavailable"] for row in threads)
    if (tmp_path / "core").stat().st_size >= behind_the_runtime(core.core):
        assert {told.exit_code(name) for name in asked} == {3}
        assert sum(facts.values()) > 0.8 * sum(intact.compared(intact)[name].of for name in asked)
    elif kind == "gcore" and told.exit_code("threads") == 3:
        # The loader places libraries at random, so that this cut may leave enough to list threads.
        assert not any(found.wrong for found in told.compared(intact).values())
    elif kind == "gcore":
        assert told.exit_code("threads") == 1 and NOTES_LOST in str(told.errors["threads"])


# A kernel's core: its notes come first


def ask(core: Path, question: str = "threads", **options: Any) -> dict[str, Any]:
    with ompd.open_core(core, **options) as session:
        return as_json(question, QUESTIONS[question](session))


def test_threads_of_a_core_without_memory(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    core = deadlock["kernel"]
    answer = ask(percent(core, 1, tmp_path / "core"))
    assert len(answer["threads"]) == len(core.truth["threads"]) == answer["target"]["thread_count"]
    for row in answer["threads"]:
        for key in ("runtime", "thread_num", "team_size", "level", "thread_type", "state", "wait", "parallel", "task"):
            assert row[key] is None and row["unavailable"][key]
        assert row["innermost"]["function"] and "not proven" in row["innermost"]["unproven"]
    assert any(name.endswith("/libc.so.6") for name in answer["target"]["unproven"])
    assert "not proven to be the build that ran" in answer["warnings"][1]


def test_notes_that_are_cut_give_the_threads_before_the_cut(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    core = deadlock["kernel"]
    notes = notes_of(core.core)
    answer = ask(cut(core.core, tmp_path / "core", notes.p_offset + notes.p_filesz // 2))
    true = [row["native_thread_id"] for row in ask(core.core)["threads"]]
    told = [row["native_thread_id"] for row in answer["threads"]]
    assert 0 < len(told) < len(true) and set(told) <= set(true)
    assert answer["target"]["thread_count"] is None
    count = f"{len(told)} thread{'s' * (len(told) > 1)} before the cut and an unknown number after it"
    assert count in answer["warnings"][0]


@pytest.mark.parametrize(
    ("size", "fault"),
    [(30, "inside its ELF header: 30 bytes"), (64, "inside its program headers"), (500, "inside its program headers")],
)
def test_headers_that_are_cut_are_called_so(
    tmp_path: Path, deadlock: dict[str, Stopped], size: int, fault: str
) -> None:
    for kind in KINDS:
        with pytest.raises(BadFile, match=f"is cut off {fault}") as raised:
            Session.open_core(cut(deadlock[kind].core, tmp_path / kind, size))
        assert "copy the core again" in raised.value.hint


def test_the_number_of_segments_is_found_though_its_place_is_cut_off(
    tmp_path: Path, deadlock: dict[str, Stopped]
) -> None:
    # With 65,535 segments or more, e_phnum is PN_XNUM, and a section header at the file's end has the number. Make such
    # a file: empty segments follow those of a real core, and the notes follow them.
    data = deadlock["kernel"].core.read_bytes()
    old = segments(deadlock["kernel"].core)
    count = 0xFFFF + 5
    shift = -(-(count - len(old)) * 56 // PAGE) * PAGE
    count = len(old) + shift // 56
    shift = (count - len(old)) * 56
    notes = notes_of(deadlock["kernel"].core)
    assert notes.p_offset == 64 + 56 * len(old)
    headers = b"".join(
        struct.pack("<IIQQQQQQ", *row._replace(p_offset=row.p_offset + shift)) for row in old
    ) + struct.pack("<IIQQQQQQ", 1, 4, len(data) + shift, 0, 0, 0, 0, PAGE) * (count - len(old))
    header = bytearray(data[:64])
    struct.pack_into("<Q", header, 40, len(data) + shift)
    struct.pack_into("<HHHH", header, 56, 0xFFFF, 64, 1, 0)
    section = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, count, 0, 0)
    whole = tmp_path / "core"
    whole.write_bytes(bytes(header) + headers + data[64 + 56 * len(old) :] + section)
    intact = ask(whole)
    assert intact["complete"] and len(intact["threads"]) == len(deadlock["kernel"].truth["threads"])
    os.truncate(whole, whole.stat().st_size - 70)
    answer = ask(whole)
    assert not answer["complete"] and compare("threads", intact, answer).wrong == ()
    os.truncate(whole, shift // 2)
    with pytest.raises(BadFile, match="cut off inside its program headers"):
        Session.open_core(whole)


def test_a_file_that_nothing_proves_has_to_fit_and_to_be_older(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    core = deadlock["kernel"]
    part = percent(core, 1, tmp_path / "core")
    root = tmp_path / "machine"
    with Session.open_core(core.core) as session:
        paths = {module.name for module in session.process.symbols.modules() if module.path}
    for path in paths:
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    libc = next(path for path in paths if path.endswith("libc.so.6"))
    copy = root / libc.lstrip("/")
    assert any(row["innermost"]["function"] for row in ask(part, sysroot=root)["threads"])
    # First another library takes its place, then a copy that was changed after the core was written.
    shutil.copy2(next(path for path in paths if "libpthread" in path), copy)
    rows = ask(part, sysroot=root)["threads"]
    assert all(row["innermost"]["function"] is None for row in rows)
    shutil.copy(libc, copy)
    later = part.stat().st_mtime + 60
    os.utime(copy, (later, later))
    rows = ask(part, sysroot=root)["threads"]
    assert all(row["innermost"]["function"] is None for row in rows)


# gdb's core: its notes come last


def test_modules_are_found_in_memory(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    core = deadlock["gcore"]
    part = cut(core.core, tmp_path / "core", notes_of(core.core).p_offset)
    intact = ask(core.core, "runtimes")
    answer = ask(part, "runtimes")
    assert answer["target"]["executable"] == str(core.executable)
    assert compare("runtimes", intact, answer).told == compare("runtimes", intact, intact).told
    with Session.open_core(core.core) as whole, Session.open_core(part) as left:
        true = {(m.start, m.build_id) for m in whole.process.symbols.modules()}
        found = {(m.start, m.build_id) for m in left.process.symbols.modules()}
        assert found == true


def test_threads_without_notes_come_from_the_runtime_and_the_c_library(
    tmp_path: Path, deadlock: dict[str, Stopped]
) -> None:
    core = deadlock["gcore"]
    intact = ask(core.core)
    answer = ask(cut(core.core, tmp_path / "core", notes_of(core.core).p_offset))
    assert compare("threads", intact, answer).wrong == ()
    assert len(answer["threads"]) == len(intact["threads"]) == answer["target"]["thread_count"]
    by_id = {row["native_thread_id"]: row for row in intact["threads"]}
    for row in answer["threads"]:
        true = by_id[row["native_thread_id"]]
        for key in ("thread_num", "team_size", "level", "state", "wait_id", "parallel", "task"):
            assert row[key] == true[key]
        assert row["where"] is None and "registers are lost" in row["unavailable"]["where"]


def test_threads_that_only_the_runtime_knows(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    # The cut removes the loader's lists, all names of files, and some of glibc's thread descriptors.
    core = deadlock["gcore"]
    intact = ask(core.core)
    answer = ask(cut(core.core, tmp_path / "core", behind_the_runtime(core.core)))
    assert compare("threads", intact, answer).wrong == ()
    assert answer["target"]["thread_count"] is None and answer["target"]["executable"] is None
    assert sorted(row["thread_num"] for row in answer["threads"]) == [0, 1, 2, 3]
    for row in answer["threads"]:
        # The reason depends on where the loader has placed the C library.
        assert row["state"] and (row["native_thread_id"] or row["unavailable"]["native_thread_id"])


# Lost pages inside of a core


@pytest.mark.parametrize(
    ("program", "mode"),
    [("deadlock", "debug"), ("nested", "neither"), ("task_tree", "debug"), ("extra_pthread", "debug")],
)
@pytest.mark.quick("nested-neither")
def test_no_fact_is_wrong_whatever_page_is_lost(program: str, mode: str) -> None:
    target = Holes(str(stopped(program, mode=mode).core))
    intact = target.ask_all()
    assert len(target.pages) > 30
    for page in sorted(target.pages)[:: 1 if FULL else 8]:
        target.hole = page
        told = target.ask_all()
        assert wrong(told, intact) == [], f"page at {page * PAGE:#x}"


def test_the_runtimes_variables_are_lost(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    for kind in KINDS:
        core = deadlock[kind]
        intact = intact_of(core)
        with Session.open_core(core.core) as session:
            (runtime,) = session.runtimes
            module = runtime.found.module
        part = zeroed(core.core, tmp_path / kind, module.start + PAGE, 64 << 20)
        told = ask_all(part)
        assert wrong(told, intact) == []
        assert {told.exit_code(name) for name in ("parallel", "tasks", "icvs")} == {1}
        part = zeroed(core.core, tmp_path / kind, module.end, 1 << 18)  # only its zero-initialised variables
        told = ask_all(part)
        assert wrong(told, intact) == [] and told.exit_code("parallel") == 1


def test_changed_bytes_are_called_damage(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    for kind in KINDS:
        core = deadlock[kind]
        with Session.open_core(core.core) as session:
            module = next(m for m in session.process.symbols.modules() if m.name.endswith("libiomp5.so"))
        load = next(s for s in loads_of(core.core) if s.p_vaddr == module.start)
        shutil.copyfile(core.core, tmp_path / "core")
        with (tmp_path / "core").open("r+b") as file:
            file.seek(load.p_offset + 0x320)
            byte = file.read(1)[0]
            file.seek(load.p_offset + 0x320)
            file.write(bytes([byte ^ 0x10]))
        told = ask_all(tmp_path / "core")
        assert wrong(told, intact_of(core)) == []
        assert {told.exit_code(name) for name in QUESTIONS} == {3}
        warning = told.answers["threads"]["warnings"][0]
        assert "damaged" in warning and "1 of " in warning and "libiomp5.so" in warning


# The command


@pytest.mark.parametrize(
    ("kind", "part", "code", "words"),
    [
        ("kernel", 99, 3, (LOST, "(98.9 %)", "deadlock.c:29 transfer_to_a")),
        ("kernel", 1, 3, (LOST, "(0.9 %)", "(unproven)", "not proven")),
        ("gcore", 99, 3, (LOST, NOTES_LOST, "wait_lock", "incomplete")),
        ("gcore", 20, 1, (LOST, NOTES_LOST, "--exe FILE")),
    ],
)
@pytest.mark.quick("kernel-1-3-words1", "gcore-20-1-words3")
def test_the_command(
    tmp_path: Path, deadlock: dict[str, Stopped], kind: str, part: int, code: int, words: tuple[str, ...]
) -> None:
    core = percent(deadlock[kind], part, tmp_path / "core")
    for options in ((), ("-v",)):
        done = subprocess.run(
            [str(OMPD), "threads", str(core), *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=60,
            check=False,
        )
        assert done.returncode == code and "Traceback" not in done.stderr
        assert all(word in done.stdout + done.stderr for word in words), done
        assert done.stderr.count(LOST) == 1 and done.stderr.splitlines()[0].count(LOST) == 1


def _hostile_names(core: Path) -> Iterator[bytes]:
    data = bytearray(core.read_bytes())
    at = data.find(b"libiomp5.so\0")
    while at >= 0:
        data[at : at + 4] = b"\x1b[2J"
        at = data.find(b"libiomp5.so\0", at)
    yield bytes(data)


def test_names_found_in_memory_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, deadlock: dict[str, Stopped]
) -> None:
    core = deadlock["gcore"]
    part = cut(core.core, tmp_path / "whole", notes_of(core.core).p_offset)
    (data,) = _hostile_names(part)
    (tmp_path / "core").write_bytes(data)
    for question in ("runtimes", "threads"):
        done = subprocess.run(
            [str(OMPD), question, str(tmp_path / "core")], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode in (1, 3) and "\x1b" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_large_sparse_core_without_notes_is_opened_at_once(tmp_path: Path, deadlock: dict[str, Stopped]) -> None:
    # The core has three thousand ranges of a megabyte. One page of each is read.
    core = tmp_path / "core"
    count = 3000
    header = bytearray(deadlock["gcore"].core.read_bytes()[:64])
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<H", header, 56, count + 1)
    start = -(-(64 + 56 * (count + 1)) // PAGE) * PAGE
    rows = [
        struct.pack("<IIQQQQQQ", 1, 6, start + (n << 20), 0x10000000 + (n << 21), 0, 1 << 20, 1 << 20, PAGE)
        for n in range(count)
    ]
    notes = struct.pack("<IIQQQQQQ", 4, 4, start + (count << 20), 0, 0, 1 << 16, 0, 1)
    core.write_bytes(bytes(header) + b"".join(rows) + notes)
    os.truncate(core, start + (count << 20) - 1)
    with within(QUICK_SECONDS), pytest.raises(NoAnswer, match="cut off"):
        ask(core)


def test_a_thread_whose_thread_pointer_is_half_lost_is_found_in_the_c_librarys_list(tmp_path: Path) -> None:
    whole = stopped("nested").core
    data = bytearray(whole.read_bytes())
    with Session.open_core(whole) as session:
        true = {row.native_thread_id: row for row in threads_question.ask(session).rows}
        thread = [native for native, row in true.items() if row.thread_num][3]
        assert thread is not None
        pointer = session.process.threads.thread_pointer(thread)
    at = data.index(pointer.to_bytes(8, "little"))  # fs_base in the thread's NT_PRSTATUS, since the notes come first
    data[at + 4 : at + 4 + 2 * 4096] = bytes(2 * 4096)
    core = tmp_path / "core"
    core.write_bytes(data)
    with Session.open_core(core) as session:
        assert session.process.threads.thread_pointer(thread) == pointer
        answer = threads_question.ask(session)
    assert not answer.complete and "notes are lost" in answer.warnings[0]
    (row,) = (row for row in answer.rows if row.native_thread_id == thread)
    assert row.thread_num == true[thread].thread_num


@pytest.mark.parametrize("page", range(1, 5))
def test_a_lost_page_of_the_notes_hides_no_thread(page: int, tmp_path: Path) -> None:
    # The notes of a kernel's core begin in its first page; those of 13 threads fill several.
    whole = stopped("nested").core
    core = tmp_path / "core"
    data = bytearray(whole.read_bytes())
    data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    core.write_bytes(data)
    with Session.open_core(whole) as session:
        true = {row.native_thread_id: row for row in threads_question.ask(session).rows}
    with Session.open_core(core) as session:
        answer = threads_question.ask(session)
    assert not answer.complete and "notes are lost" in answer.warnings[0]
    for row in answer.rows:
        if row.native_thread_id is not None:
            assert row.thread_num is None or row.thread_num == true[row.native_thread_id].thread_num
            assert (
                row.thread_num is not None
                or "thread_num" in row.unavailable
                or true[row.native_thread_id].runtime is None
            )
