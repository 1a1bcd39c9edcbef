"""Bounds on the cost of hostile targets: reads, time and memory are limited, and names are escaped for the terminal."""

from __future__ import annotations

import json
import os
import re
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ompd import naming
from ompd.binary.core.notes import AT_EXECFN, AT_RANDOM
from ompd.binary.elf.elf import ElfFile
from ompd.debugger.environment import read_environment
from ompd.debugger.stacks.unwind import MAX_ALL_FRAMES
from ompd.errors import MalformedFile, MemoryFault, OmpdError, TooMuch, Unavailable
from ompd.model import Answer, ParallelRecord, TargetRecord
from ompd.questions import icvs, stacks, tasks, threads
from ompd.render.answers.regions import region_lines
from ompd.render.json import format_answer
from ompd.session import Session
from tests.fuzz import formats, run
from tests.fuzz.oracle import QUESTIONS, as_text, seeded
from tests.fuzz.parses import parsed_once
from tests.support import FULL, clean_environment, stopped
from tests.support.budget import within
from tests.support.command import NT_FILE, notes, patched
from tests.support.hostile import Victim
from tests.support.runs import limited

OMPD = Path(sys.executable).with_name("ompd")
MEMORY = 512 << 20
SECONDS = 20
COMMANDS = ("runtimes", "threads", "parallel", "tasks", "icvs")
# ompd writes colours itself. A terminal must not act on anything else.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def ompd(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    """Run the command in little memory, and check what holds for any input. Return code, output and error output."""
    done = subprocess.run(
        limited([str(OMPD), *map(str, arguments)], "-v", MEMORY >> 10),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**clean_environment(), **environment},
        timeout=SECONDS,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode in (0, 1, 3), (done.returncode, err)
    assert "Traceback" not in err and "internal error" not in err, err
    for text in (out, err):
        left = _COLOUR.sub("", text) if "always" in arguments else text
        odd = [c for c in left if not c.isprintable() and c != "\n"]
        assert not odd, odd[:10]
    if "--json" in arguments and done.returncode != 1:
        json.dumps(json.loads(out), ensure_ascii=False).encode()
    else:
        assert done.returncode != 1 or (out == "" and err.startswith("ompd: "))
    return done.returncode, out, err


# Damaged cores by the command


@pytest.mark.parametrize("name", list(run.VICTIMS)[: None if FULL else 8 : 1 if FULL else 2])
@pytest.mark.quick("task_tree")
def test_the_command_survives_damaged_cores(tmp_path: Path, name: str) -> None:
    with parsed_once():
        maker = run.damager(name)
        cases = []
        for number in range(400):
            case = maker.case(seeded("command", name, number))
            if case.patches and case.reads is None and len(cases) < len(COMMANDS):
                cases.append(case)
    for command, case in zip(COMMANDS, cases, strict=True):
        core = tmp_path / "core"
        maker.victim.core.write_to(core, case.patches)
        ompd(command, core, *(("--json",) if len(command) % 2 else ("-v",)))


# Reads


def test_a_question_that_reads_too_much_says_so() -> None:
    core = stopped("task_queued").core
    with Session.open_core(core) as session:
        process = session.process
        whole = tasks.ask(session)
        needed = process.memory.max_reads - process.memory.reads_left
    with Session.open_core(core) as session:
        session.process.memory.max_reads = needed - 1000
        answer = tasks.ask(session)
        assert not answer.complete and any("given up after" in warning for warning in answer.warnings)
        known = {row.id: row for row in whole.rows}
        assert 0 < len(answer.rows) < len(whole.rows) and all(known[row.id] == row for row in answer.rows)
        session.process.memory.max_reads = 0
        session.process.memory.begin_question()
        with pytest.raises(TooMuch, match="given up after 0 reads"):
            session.process.memory.read(0, 0)
        # The next question has its own budget.
        session.process.memory.max_reads = 10 * needed
        assert icvs.ask(session).complete and threads.ask(session).complete


def test_the_bytes_of_a_question_are_counted() -> None:
    with Session.open_core(stopped("nested").core) as session:
        process = session.process
        address = session.target.registers(process.threads.ids()[0])["rsp"]
        process.memory.max_bytes = 100
        process.memory.begin_question()
        for _ in range(3):
            process.memory.read(address, 50)
        with pytest.raises(TooMuch, match="4 reads of 150 bytes"):
            process.memory.read(address, 1)
        with pytest.raises(MemoryFault):  # unreadable bytes are not counted
            process.memory.begin_question()
            process.memory.read(8, 1 << 60)
        process.memory.read(address, 8)


@pytest.mark.quick()
def test_every_waiting_task_of_many_is_told() -> None:
    core = stopped("task_queued", env={"TASKS": "20000"}).core
    with Session.open_core(core) as session:
        answer = tasks.ask(session)
        assert answer.complete and len(answer.rows) > 20_000
        # Five times as many tasks, a hundred thousand, need less than half of the allowed reads.
        assert (
            5 * (session.process.memory.max_reads - session.process.memory.reads_left)
            < session.process.memory.max_reads / 2
        )


# Memory and time


def test_a_team_of_more_threads_than_there_can_be() -> None:
    victim = Victim("nested")
    victim.write(victim.symbols["__kmp_threads_capacity"], 1 << 22, 4)
    victim.team_field("t_nproc", 1 << 21)
    with within(5):
        answer = victim.ask("parallel")
    assert isinstance(answer, OmpdError) or not answer.complete


@pytest.mark.parametrize("level", [2_000, 20_000])
@pytest.mark.quick("2000")
def test_very_deep_nests_are_told_in_a_time_that_grows_with_them(level: int) -> None:
    victim = Victim("serialized_three")
    victim.team_field("t_level", level)
    with within(SECONDS):
        answer = victim.ask("parallel")
        assert isinstance(answer, (Answer, OmpdError))
        if isinstance(answer, Answer):
            as_text("parallel", answer)


def _target() -> TargetRecord:
    return TargetRecord("core", "core", None, None, None, None, None, "x86-64", 1)


def _chain(depth: int, *, twins: bool) -> list[ParallelRecord]:
    rows = []
    for level in range(depth):
        enclosing = f"{level - 1}" if level else None
        row = ParallelRecord(f"{level}", "libomp", level, level, 1, enclosing, None, (1,))
        rows += [row, replace(row, id=f"{level}b")] if twins else [row]
    return rows


@pytest.mark.parametrize("twins", [False, True])
def test_a_deep_tree_of_regions_is_folded_in_one_pass(twins: bool) -> None:
    rows = _chain(20_000, twins=twins)
    with within(5):
        answer: Answer[ParallelRecord] = Answer(_target(), (), tuple(rows), True, ())
        lines = list(region_lines(answer))
    assert len(lines) == (2 * 20_000 - 1 if twins else 20_000)
    assert max(map(len, as_text("parallel", replace(answer, rows=tuple(rows[:3000]))).splitlines())) < 400


def test_stacks_that_never_end_do_not_fill_memory() -> None:
    with Session.open_core(stopped("many").core) as session:
        unwinder = session.process.stacks.unwinder
        unwinder.frames_given = MAX_ALL_FRAMES - 3
        told = [session.process.stacks.stack(thread) for thread in session.process.threads.ids()]
        assert all(0 < len(stack.frames) <= 48 for stack in told)


def test_an_environment_of_nothing_but_ends() -> None:
    end, size = 0x10_0000_0000, 5 << 20

    class Zeros:
        pointer_size, byte_order = 8, "little"

        def read(self, address: int, count: int) -> bytes:
            raw = bytearray(count)
            for at, word in words.items():
                if address <= at and at + 8 <= address + count:
                    struct.pack_into("<Q", raw, at - address, word)
            return bytes(raw)

        def read_string(self, address: int, limit: int = 4096) -> bytes:
            return b""

    table = end - size - 4096
    # argc 1, one argument, no variables, then the auxiliary vector
    words = {table: 1, table + 8: end - size, table + 32: AT_EXECFN, table + 40: end}
    process: Any = Zeros()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        found = read_environment(process, {AT_RANDOM: table + 1024, AT_EXECFN: end})
        assert found == {}
    except Unavailable:
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.parametrize(
    "name",
    [
        ".isra.1" * 200_000 + "x",
        "._omp_fn.1" * 200_000,
        ".omp_outlined." * 200_000 + "x",
        ".omp_task_entry." + ".1" * 200_000,
        "omp_" + "a" * 2_000_000,
    ],
)
def test_names_without_end_are_looked_at_once(name: str) -> None:
    with within(2):
        naming.parse_outlined(name)


def _files(mappings: Sequence[tuple[int, int, int, bytes]]) -> bytes:
    rows = b"".join(struct.pack("<QQQ", *mapping[:3]) for mapping in mappings)
    return struct.pack("<QQ", len(mappings), 4096) + rows + b"".join(mapping[3] + b"\0" for mapping in mappings)


@pytest.mark.parametrize("apart", [0, 4096])
def test_one_file_that_is_mapped_ten_thousand_times(tmp_path: Path, apart: int) -> None:
    good = stopped("uneven")
    raw = good.core.read_bytes()
    (at,) = notes(raw, NT_FILE)
    (count,) = struct.unpack_from("<Q", raw, at)
    names = raw[at + 16 + 24 * count :].split(b"\0", count)[:count]
    mappings = [(*struct.unpack_from("<QQQ", raw, at + 16 + 24 * i), name) for i, name in enumerate(names)]
    start, end, _, runtime = next(m for m in mappings if m[3].endswith(b"libiomp5.so"))
    base = 0x5000_0000_0000
    mappings += (
        [(base + apart * i, base + apart * i + 4096, 0, runtime) for i in range(10_000)]
        if apart
        else [(start, end, 0, runtime)] * 10_000
    )
    # A new note in a new PT_NOTE, which takes the header of the last segment; the bytes of that segment are lost.
    note = struct.pack("<III", 5, len(_files(mappings)), NT_FILE) + b"CORE\0\0\0\0" + _files(mappings)

    def patch(data: bytearray) -> None:
        e_phoff, (e_phnum,) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)
        struct.pack_into("<I", data, at - 20 + 8, 0x12345678)  # the old note
        last = e_phoff + 56 * (e_phnum - 1)
        struct.pack_into("<IIQQQQQQ", data, last, 4, 0, len(data), 0, 0, len(note), 0, 4)
        data += note

    core = patched(good.core, tmp_path / "core", patch)
    for command in ("runtimes", "threads"):
        code, _, _ = ompd(command, core, "--json")
        assert code in (0, 1, 3)


# Names

EVIL = (
    b"\x1b[31m\x1b]0;title\x07",
    b"a\nompd: all is well",
    b"a\r\x08\x08b",
    "\u202egnp.c\u2066\u200f".encode(),
    b"[red]x[/red][/]",
    b"[link=file:///x]y[/link]",
    b"\xff\xfe\xed\xa0\x80",
    b"%s%n{0}\\x1b",
    "\x85\u2028\u00a0".encode(),
    b"\x00\x01\x02",
)


def fitted(evil: bytes, size: int) -> bytes:
    """Return *evil* filled or cut to *size* bytes."""
    return (evil + b"x" * size)[:size]


@pytest.mark.parametrize("evil", EVIL if FULL else EVIL[::2])
@pytest.mark.quick("\\xff\\xfe\\xed\\xa0\\x80", "\\xc2\\x85\\xe2\\x80\\xa8\\xc2\\xa0", "a\\r\\x08\\x08b")
def test_names_of_code_are_data(tmp_path: Path, evil: bytes) -> None:
    good = stopped("deadlock")
    rows = json.loads(subprocess.run([OMPD, "threads", good.core, "--json"], capture_output=True, check=True).stdout)
    names = {row["where"][key] for row in rows["threads"] if row["where"] for key in ("function", "file")}
    names |= {row["wait"]["symbol"].lstrip("&") for row in rows["threads"] if row["wait"] and row["wait"]["symbol"]}
    data = good.executable.read_bytes()
    text = {os.path.basename(name).encode() for name in names if name and len(name) > 3}  # noqa: PTH119
    for name in sorted(text, key=len, reverse=True):
        data = data.replace(b"\0" + name + b"\0", b"\0" + fitted(evil, len(name)) + b"\0")
    program = tmp_path / good.executable.name
    program.write_bytes(data)
    for options in (["-v", "--color", "always"], ["--json"]):
        code, out, _ = ompd("threads", good.core, "--exe", program, *options)
        assert code in (0, 3) and out


@pytest.mark.parametrize("evil", EVIL if FULL else EVIL[1::2])
def test_names_in_a_core_are_data(tmp_path: Path, evil: bytes) -> None:
    good = stopped("icvs_env")

    def patch(data: bytearray) -> None:
        raw = bytes(data)
        for name in (b"OMP_WAIT_POLICY=", b"OMP_SCHEDULE", b"OMP_PROC_BIND=", b"OMP thread %"):
            at = raw.find(name)
            while at >= 0:
                data[at + len(name) : at + len(name) + len(evil)] = evil
                at = raw.find(name, at + 1)
        (at,) = notes(data, NT_FILE)
        for name in (b"libiomp5.so\0", good.executable.name.encode() + b"\0", b"libm.so.6\0"):
            place = raw.find(name, at)
            while 0 <= place < at + 20_000:
                data[place : place + len(name) - 1] = fitted(evil, len(name) - 1)
                place = raw.find(name, place + 1)
        for at in notes(data, 3):  # NT_PRPSINFO: pr_psargs
            data[at + 56 : at + 136] = fitted(evil, 80)

    core = patched(good.core, tmp_path / "core", patch)
    ompd("runtimes", core, "--json")
    ompd("threads", core, "-v")
    core = patched(good.core, tmp_path / "core", lambda data: _without_files(data, patch))
    ompd("icvs", core, "-v")
    ompd("icvs", core, "--json")


def _with_names(value: Any, evil: str) -> Any:
    """Return *value* with *evil* after every text in it, as if the target had supplied all texts."""
    if isinstance(value, str):
        return value + evil
    if isinstance(value, (tuple, list)):
        return type(value)(_with_names(each, evil) for each in value)
    if isinstance(value, dict):
        return {key: _with_names(each, evil) for key, each in value.items()}
    if is_dataclass(value):
        return replace(value, **{each.name: _with_names(getattr(value, each.name), evil) for each in fields(value)})  # type: ignore[arg-type]
    return value


@pytest.mark.parametrize("question", ["runtimes", "threads", "parallel", "tasks", "icvs", "stacks"])
def test_no_text_of_an_answer_reaches_a_terminal_as_it_is(question: str) -> None:
    ask = {"stacks": stacks.ask, **QUESTIONS}[question]
    with Session.open_core(stopped("icvs_env").core) as session:
        answer = ask(session)
    for evil in EVIL:
        text = as_text(question, _with_names(answer, evil.decode(errors="replace")))
        assert text and not [c for c in text if not c.isprintable() and c != "\n"], (evil, text[:200])


def _without_files(data: bytearray, patch: Any) -> None:
    # Restore the files' names, so that the files are found and the other names are reached.
    before = bytes(data)
    patch(data)
    (at,) = notes(before, NT_FILE)
    size = struct.unpack_from("<I", before, at - 16)[0]
    data[at : at + size] = before[at : at + size]


def test_a_core_called_like_an_answer(tmp_path: Path) -> None:
    core = tmp_path / "core\nompd: all is well\n"
    core.write_bytes(b"\x7fELF")
    code, _, err = ompd("threads", core)
    assert code == 1 and len(err.splitlines()) <= 2 and "\\n" in err


def test_json_has_no_halves_of_characters() -> None:
    target = replace(_target(), executable="/bin/\udcff\U0001f600\ud800", command="\\ud800 \\\\")
    text = format_answer("parallel", Answer(target, (), (), True, ()))
    read = json.loads(text)["target"]
    assert read["executable"] == "/bin/\ufffd\U0001f600\ufffd" and read["command"] == "\\ud800 \\\\"
    assert text.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_that_the_terminal_has_no_letters_for(encoding: str) -> None:
    core = stopped("many").core
    for command in ("threads", "parallel"):
        done = subprocess.run(
            [OMPD, command, core],
            capture_output=True,
            env={**clean_environment(), "PYTHONIOENCODING": encoding},
            check=False,
        )
        assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr
        assert done.stdout.decode(encoding)


@pytest.mark.parametrize("claimed", [1 << 30, (1 << 30) - 1, 1 << 40])
def test_a_section_that_inflates_to_fill_memory(claimed: int) -> None:
    bomb = zlib.compress(bytes(1 << 22)) * 300  # about a megabyte in the file
    raw = struct.pack("<IIQQ", 1, 0, claimed, 1) + bomb
    form = formats.Form(seeded("bomb"), lies=0.0)
    elf = ElfFile(formats._assembled(form, 3, [(".debug_info", 1, 0x800, 0, raw)], {}), "file")
    section = elf.section(".debug_info")
    assert section is not None
    with pytest.raises(MalformedFile, match="claims"):
        elf.section_data(section)
