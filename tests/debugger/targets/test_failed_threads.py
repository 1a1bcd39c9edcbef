"""The thread that failed, according to a core, and its place: in programs of ``tests/failed``, one of four threads
fails.

The thread writes its identity before it fails. The kernel's own record (``siginfo_t``) decides about a failure, so that
no thread is blamed for a signal from elsewhere.
"""

from __future__ import annotations

import json
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ompd
from ompd.binary.core import notes
from ompd.binary.core.notes import SignalInfo
from ompd.binary.elf.elf import ElfFile, iter_notes
from ompd.errors import MalformedFile, Unavailable
from ompd.model import StackRecord, ThreadRecord
from ompd.render.answers.stacks import stack_lines
from ompd.render.answers.threads import threads_table
from ompd.render.json import format_answer
from ompd.render.schema import format_schema
from ompd.render.words import format_failure
from tests.support import FULL, INTEL, require
from tests.support.cache import CHECKOUT
from tests.support.failing import WAYS, failed, program, started, until_it_waits
from tests.support.lldb import VERSIONS, lldb
from tests.support.runs import ENVIRONMENT, write_gcore

CASES = [
    *(("libgomp", "gcc", way) for way in WAYS),
    *((runtime, "clang", way) for runtime in (INTEL, "libomp-19") for way in ("null", "abort")),
    *(("stub-32", "gcc", way) for way in ("near-null", "division", "abort")),
]


def told(core: Path) -> tuple[dict[int | None, ThreadRecord], dict[int | None, StackRecord]]:
    with ompd.open_core(core) as session:
        threads, stacks = session.ask_threads(), session.ask_stacks(fold=True)
        assert threads.complete and stacks.complete, threads.warnings + stacks.warnings
    return {row.native_thread_id: row for row in threads.rows}, {row.native_thread_id: row for row in stacks.rows}


def signal_of(row: ThreadRecord | StackRecord) -> tuple[Any, ...]:
    return (row.signal, row.signal_name, row.si_code, row.si_addr, row.failed)


KEYS = ("signal", "signal_name", "si_code", "si_addr", "failed")
NONE = (None, None, None, None, False)


WHERE = {"handler-aborts": "give_up"}


@pytest.mark.parametrize(("runtime", "compiler_name", "way"), CASES)
def test_the_thread_that_failed_is_told(runtime: str, compiler_name: str, way: str) -> None:
    case = failed(way, runtime, compiler_name)
    number, is_own, address = WAYS[way]
    threads, stacks = told(case.core)
    (took,) = (row for row in threads.values() if row.signal is not None)
    assert all(signal_of(row) == NONE for row in threads.values() if row is not took)
    assert (took.signal, took.signal_name, took.failed) == (number, number.name, is_own)
    if is_own:
        assert (took.native_thread_id, took.thread_num, took.team_size) == (case.thread, 2, 4)
        assert took.where is not None and took.where.function == WHERE.get(way, "fail")
    if address == "said":
        assert took.si_addr == case.address is not None
    elif address == "code":
        assert took.where is not None and took.si_addr == took.where.address
    else:
        assert took.si_addr is None
    assert ("si_addr" in took.unavailable) == (address == "unknown")
    # Stacks show the same, and a thread that failed shares its stack's row with no other thread.
    assert signal_of(stacks[took.native_thread_id]) == signal_of(took)
    if is_own:
        assert stacks[took.native_thread_id].threads == (took.native_thread_id,)
        assert {len(row.threads) for row in stacks.values()} == {1, 3}


SHOWN = {
    "null": "* SIGSEGV at address 0x0",
    "near-null": "* SIGSEGV at address 0x18",
    "not-canonical": "* SIGSEGV at an unknown address",
    "division": "* SIGFPE at address 0x",
    "abort": "* SIGABRT",
    "breakpoint": "* SIGTRAP",
    "kill": None,
    "raised-again": None,
    "raised-inside": None,
    "handler-aborts": "* SIGABRT",
}


@pytest.mark.parametrize("way", SHOWN)
def test_text_marks_the_thread_that_failed(way: str) -> None:
    case, shown = failed(way), SHOWN[way]
    with ompd.open_core(case.core) as session:
        table, stacks = threads_table(session.ask_threads()), session.ask_stacks(fold=True)
    marked = [line for line in table.lines if "*" in line.cells[-1]]
    headings = [line for line, style in stack_lines(stacks) if style in ("head", "failed") and "*" in line]
    if shown is None:
        assert not marked and not headings
        return
    (line,), (heading,) = marked, headings
    assert line.cells[0] == "2/4" and line.style == "failed"
    assert re.fullmatch(rf"fails\.c:\d+ {WHERE.get(way, 'fail')} {re.escape(shown)}\w*", line.cells[-1])
    assert heading.startswith("OMP 2/4   ") and re.search(rf"   {re.escape(shown)}\w*$", heading)


def test_json_has_it_and_its_schema_does() -> None:
    with ompd.open_core(failed("near-null").core) as session:
        answers = {"threads": session.ask_threads(), "stack": session.ask_stacks()}
    for command, answer in answers.items():
        found = json.loads(format_answer(command, answer))
        jsonschema.validate(found, json.loads(format_schema(command)))
        (row,) = (row for row in found[command] if row["failed"])
        assert (row["signal"], row["signal_name"], row["si_code"], row["si_addr"]) == (11, "SIGSEGV", 1, "0x18")
        others = [row for row in found[command] if not row["failed"]]
        assert len(others) == 3
        assert all(row[key] is None for row in others for key in ("signal", "signal_name", "si_code", "si_addr"))


def test_a_thread_that_a_signal_from_elsewhere_reached_did_not_fail() -> None:
    threads, _ = told(failed("wait").core)
    (took,) = (row for row in threads.values() if row.signal is not None)
    assert signal_of(took) == (signal.SIGABRT, "SIGABRT", 0, None, False)


def test_a_core_by_gdb_of_a_process_that_waits_names_no_one(tmp_path: Path) -> None:
    with started(program(), "wait", tmp_path) as process:
        until_it_waits(process, tmp_path)
        write_gcore(process.pid, tmp_path / "core")
    threads, _ = told(tmp_path / "core")
    assert len(threads) == 4 and all(signal_of(row) == NONE for row in threads.values())


def test_a_core_by_gdb_of_a_program_that_failed_names_who(tmp_path: Path) -> None:
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    commands = ("set startup-with-shell off", "run", "gcore core", "kill")
    for each in commands:
        command += ["-ex", each]
    subprocess.run(
        [*command, "--args", str(program()), "near-null"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    threads, _ = told(tmp_path / "core")
    thread = int((tmp_path / "said").read_text().split()[0])
    assert {native: signal_of(row) for native, row in threads.items()} == {
        native: (signal.SIGSEGV, "SIGSEGV", 1, 0x18, True) if native == thread else NONE for native in threads
    }


@pytest.mark.parametrize("way", ["near-null", "not-canonical", "division", "abort", "kill"])
def test_a_snapshot_keeps_it(way: str, tmp_path: Path) -> None:
    case = failed(way)
    with ompd.open_core(case.core) as session:
        session.snapshot(tmp_path / "small")
    before, _ = told(case.core)
    after, _ = told(tmp_path / "small")
    assert {native: signal_of(row) for native, row in after.items()} == {
        native: signal_of(row) for native, row in before.items()
    }


def test_a_process_that_runs_has_no_failed_thread(tmp_path: Path) -> None:
    with started(program(), "wait", tmp_path) as process:
        until_it_waits(process, tmp_path)
        with ompd.attach(process.pid) as session:
            rows = session.ask_threads().rows
            session.snapshot(tmp_path / "small")
    assert len(rows) == 4 and all(signal_of(row) == NONE for row in rows)
    threads, _ = told(tmp_path / "small")
    assert all(signal_of(row) == NONE for row in threads.values())


# Damaged cores


def note_at(core: bytes, wanted: int) -> int:
    """Return the offset of the first note of type *wanted*."""
    segment = next(s for s in ElfFile(memoryview(core), "core").segments if s.p_type == 4)
    at = segment.p_offset
    for owner, kind, raw in iter_notes(memoryview(core)[at : at + segment.p_filesz], "little"):
        if kind == wanted:
            return at
        at += 12 + -(-(len(owner) + 1) // 4) * 4 + -(-len(raw) // 4) * 4
    raise AssertionError(f"no note of type {wanted:#x}")


def test_a_core_without_the_note_says_what_the_others_tell(tmp_path: Path) -> None:
    case = failed("null")
    core = bytearray(case.core.read_bytes())
    struct.pack_into("<I", core, note_at(bytes(core), notes.NT_SIGINFO) + 8, 0x7FFFFFFF)  # an unknown type
    (tmp_path / "core").write_bytes(core)
    threads, stacks = told(tmp_path / "core")
    row = threads[case.thread]
    # The kernel writes the thread that took the signal first. Only the note has the cause and the address.
    assert (row.signal, row.si_code, row.si_addr, row.failed) == (signal.SIGSEGV, None, None, None)
    assert {"si_code", "si_addr", "failed"} <= set(row.unavailable)
    assert all(signal_of(other) == NONE for native, other in threads.items() if native != case.thread)
    assert format_failure(row) == format_failure(stacks[case.thread]) == "? SIGSEGV"


def test_where_the_thread_before_the_note_is_lost_nobody_is_blamed(tmp_path: Path) -> None:
    case = failed("null")
    core = bytearray(case.core.read_bytes())
    at = note_at(bytes(core), notes.NT_PRSTATUS)
    core[at : at + 12 + 8 + 336] = bytes(12 + 8 + 336)
    (tmp_path / "core").write_bytes(core)
    with ompd.open_core(tmp_path / "core") as session:
        rows = [row for row in session.ask_threads().rows if row.native_thread_id is not None]
    assert rows and all(row.signal is None and row.failed is None for row in rows)
    assert all("lost" in row.unavailable["signal"] for row in rows)


def test_siginfo_is_read_as_the_kernel_lays_it_out() -> None:
    fault64 = struct.pack("<iiiiQ", 11, 0, 1, 0, 0x7FFF_0000_1234).ljust(128, b"\0")
    fault32 = struct.pack("<iiiI", 11, 0, 1, 0x1234).ljust(128, b"\0")
    assert notes.parse_siginfo(fault64, 8, "little").address == 0x7FFF_0000_1234
    assert notes.parse_siginfo(fault32, 4, "little").address == 0x1234
    big = struct.pack(">iiiiQ", 6, 0, -6, 0, 0x1234 << 32).ljust(128, b"\0")
    assert notes.parse_siginfo(big, 8, "big") == SignalInfo(6, -6, 0x1234, 0x1234 << 32)
    assert notes.parse_siginfo(fault64[:12], 8, "little") == SignalInfo(11)
    with pytest.raises(MalformedFile):
        notes.parse_siginfo(fault64[:3], 8, "little")
    for info in (SignalInfo(11), SignalInfo(11, 1, None, 0x18), SignalInfo(6, -6, 77)):
        by_address = info.address is not None
        again = notes.parse_siginfo(notes.format_siginfo(info, 8, "little", by_address=by_address), 8, "little")
        assert (again.number, again.code) == (info.number, info.code)
        assert again.address == info.address if by_address else again.sender == info.sender


def test_only_a_fault_or_its_own_signal_is_a_threads_failure() -> None:
    own = (100, 101)
    assert SignalInfo(signal.SIGSEGV, 1).has_failed(own, lambda: True)
    assert SignalInfo(signal.SIGABRT, -6, 100).has_failed(own, lambda: True)
    assert not SignalInfo(signal.SIGABRT, -6, 100).has_failed(own, lambda: False)  # raised by a handler for it
    assert SignalInfo(signal.SIGSEGV, -6, 100).has_failed(own, lambda: False)
    assert not SignalInfo(signal.SIGABRT, -6, 7).has_failed(own, lambda: True)  # tgkill by another process
    assert not SignalInfo(signal.SIGQUIT, 128, 0).has_failed(own, lambda: True)  # from the terminal
    assert not SignalInfo(signal.SIGSEGV, 0, 100).has_failed(own, lambda: True)  # kill, which reaches any thread
    with pytest.raises(Unavailable):
        SignalInfo(signal.SIGABRT).has_failed(own, lambda: True)
    with pytest.raises(Unavailable):
        SignalInfo(signal.SIGSEGV, 128, 0, 0).fault_address()
    assert SignalInfo(signal.SIGABRT, -6, 100, 100).fault_address() is None


# LLDB

ASK = """
import json, sys
import ompd
from ompd.debugger.targets.lldb.loading import load_lldb
from ompd.render.json import format_answer
lldb = load_lldb()
debugger = lldb.SBDebugger.Create()
debugger.SetAsync(False)
executable, core, small = sys.argv[1:]
target = debugger.CreateTarget(executable)
found = {}
with ompd.from_lldb(target.LoadCore(core)) as session:
    found["core"] = json.loads(format_answer("threads", session.ask_threads()))["threads"]
    session.snapshot(small)
target = debugger.CreateTarget(executable)
info = lldb.SBLaunchInfo(["near-null"])
process = target.Launch(info, lldb.SBError())
with ompd.from_lldb(process) as session:
    found["live"] = json.loads(format_answer("threads", session.ask_threads()))["threads"]
process.Kill()
print("ANSWER" + json.dumps(found))
"""


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("version", VERSIONS if FULL else (22, 14))
@pytest.mark.quick("22")
def test_lldb_tells_the_thread_that_failed(version: int, tmp_path: Path) -> None:
    case, found = failed("near-null"), lldb(version)
    environment = {name: value for name, value in found.environment.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(program()), str(case.core), str(tmp_path / "small")],
        cwd=tmp_path,
        env={**environment, "OMPD_LLDB": found.command, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "ANSWER" in done.stdout, done.stderr
    answer = json.loads(done.stdout.rpartition("ANSWER")[2])
    fault = (11, "SIGSEGV", 1, "0x18", True)
    for kind, rows in answer.items():
        said = {row["native_thread_id"]: tuple(row[key] for key in KEYS) for row in rows}
        thread = case.thread if kind == "core" else int((tmp_path / "said").read_text().split()[0])
        if kind == "core" and version < 17:  # LLDB has only the number, and not the name of its file
            assert said.pop(thread) == (11, "SIGSEGV", None, None, None)
        else:
            assert said.pop(thread) == fault
        assert set(said.values()) == {NONE}
    threads, _ = told(tmp_path / "small")
    assert threads[case.thread].failed is (True if version >= 17 else None)
    assert {signal_of(row) for native, row in threads.items() if native != case.thread} == {NONE}
