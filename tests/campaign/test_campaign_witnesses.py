"""The witnesses of the campaign: they contradict no right answer, and each notices wrong ones."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd import attach
from ompd.render.json import format_answer
from ompd.session import Session
from tests.campaign import witnesses
from tests.campaign.witnesses import gdb, ompt, proc
from tests.support import INTEL, clean_environment, running, stopped
from tests.support.build import compiler
from tests.support.machine import require
from tests.support.runs import Running

Answers = dict[str, Any]
COMMANDS = ("threads", "parallel", "tasks", "stack")


def asked(session: Session) -> Answers:
    answers = (session.ask_threads(), session.ask_parallel(), session.ask_tasks(), session.ask_stacks())
    pairs = zip(COMMANDS, answers, strict=True)
    told = {name: json.loads(format_answer(name, answer)) for name, answer in pairs}
    return {**told, "raw": json.loads(format_answer("stack", session.ask_stacks(raw=True)))}


@contextmanager
def held(program: Running) -> Iterator[Answers]:
    """Stop a program by SIGSTOP, and yield its answers to all questions."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        while any(task.state != "T" for task in proc.tasks(program.pid, "x86_64").values()):
            time.sleep(0.01)
        with attach(program.pid) as session:
            answers = session.ask(asked)
        yield answers
    finally:
        os.kill(program.pid, signal.SIGCONT)


# gdb

PROGRAMS = {"nested": "libgomp", "task_tree": INTEL, "barrier": INTEL, "inlined": "libgomp", "critical": "libomp-19"}


@pytest.mark.parametrize(("program", "runtime"), PROGRAMS.items())
@pytest.mark.quick("barrier-intel", "inlined-libgomp", "critical-libomp-19")
def test_gdb_contradicts_no_right_answer(program: str, runtime: str) -> None:
    core = stopped(program, mode="neither", runtime=runtime)
    with ompd.open_core(core.core) as session:
        answers = asked(session)
    assert witnesses.broken(core.core, core.executable, answers) == []


def _frames(answers: Answers, least: int = 3) -> list[Any]:
    return next(row["frames"] for row in answers["stack"]["stack"] if len(row["frames"]) >= least)


def _borrowed(answers: Answers) -> Any:
    rows = answers["stack"]["stack"]
    return next(f for row in rows for f in row["frames"] if f["thread"] != row["native_thread_id"])


def _of_another(answers: Answers) -> None:
    frame = _borrowed(answers)
    frame["thread"] = next(
        row["native_thread_id"]
        for row in answers["stack"]["stack"]
        if all(other is not frame for other in row["frames"]) and row["native_thread_id"] != frame["thread"]
    )


def _row(answers: Answers, state: str) -> Any:
    return next(row for row in answers["threads"]["threads"] if (row["state"] or "").startswith(state))


def _swapped(answers: Answers) -> None:
    frames = _frames(answers)
    frames[0], frames[1] = frames[1], frames[0]


def _same_frame(answers: Answers) -> None:
    frames = _frames(answers)
    frames.insert(0, copy.deepcopy(frames[-1]))


def _lost(answers: Answers) -> None:
    frames = _frames(answers)
    del frames[1]


def _set(found: Callable[[Answers], Any], **values: Any) -> Callable[[Answers], None]:
    return lambda answers: found(answers).update(values)


WRONG_FOR_GDB = {
    "swapped": _swapped,
    "twice": _same_frame,
    "lost": _lost,
    "function": _set(lambda a: _frames(a)[-1], function="other"),
    "line": _set(lambda a: _frames(a)[-1], line=1),
    "address": _set(lambda a: _frames(a)[-2], address="0x1234"),
    "cfa": _set(lambda a: _frames(a)[-2], cfa="0x1234"),
    "borrowed": _set(_borrowed, line=2),
    "borrowed of another": _of_another,
    "works": _set(lambda a: _row(a, "wait_barrier"), state="work_parallel", state_source="derived"),
    "idle": _set(lambda a: _row(a, "wait_barrier"), state="idle"),
    "waits": _set(lambda a: _row(a, "work"), state="wait_barrier"),
    "lock": _set(lambda a: _row(a, "wait_barrier"), state="wait_lock"),
    "all frames, pc": _set(lambda a: a["raw"]["stack"][0]["frames"][1], address="0x1234"),
    "all frames, cfa": _set(lambda a: a["raw"]["stack"][0]["frames"][1], cfa="0x1234"),
    "all frames, one less": lambda a: a["raw"]["stack"][-1]["frames"].pop(),
    "where": _set(lambda a: _row(a, "wait_barrier")["where"], address="0x1234"),
}


@pytest.fixture(scope="module")
def at_barrier() -> tuple[Any, Answers]:
    core = stopped("barrier", mode="neither", runtime=INTEL)
    with ompd.open_core(core.core) as session:
        answers = asked(session)
    theirs = gdb.stacks(core.core, core.executable)
    assert gdb.broken(theirs, core.executable, answers) == []
    return (theirs, core.executable), answers


@pytest.mark.parametrize("wrong", WRONG_FOR_GDB)
@pytest.mark.quick("swapped", "twice", "lost", "borrowed", "borrowed of another", "works", "idle", "where")
def test_gdb_contradicts_what_is_wrong(wrong: str, at_barrier: tuple[Any, Answers]) -> None:
    (theirs, executable), answers = at_barrier[0], copy.deepcopy(at_barrier[1])
    WRONG_FOR_GDB[wrong](answers)
    assert gdb.broken(theirs, executable, answers) != []


LINES = """
.file "rows.c"
.text
.globl main
main:
    .file 1 "rows.c"
    .loc 1 10
    nop
    .loc 1 11 is_stmt 0
    nop
    .loc 1 11 is_stmt 1
    nop
    ud2
"""


def test_another_reader_of_line_tables_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "rows.s").write_text(LINES)
    program = tmp_path / "rows"
    command = [str(compiler("gcc").path), "rows.s", "-o", str(program)]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    symbols = subprocess.run([str(require("readelf")), "-sW", str(program)], capture_output=True, text=True, check=True)
    sections = subprocess.run(
        [str(require("readelf")), "-SW", str(program)], capture_output=True, text=True, check=True
    )
    (main,) = [int(line.split()[1], 16) for line in symbols.stdout.splitlines() if line.endswith(" main")]
    (text,) = [int(line.split(".text")[1].split()[1], 16) for line in sections.stdout.splitlines() if " .text " in line]
    frame = gdb.Frame(0, "normal", main + 2, None, str(program), text, (gdb.Written("main", "rows.c", 10),))
    assert frame.lines_elsewhere(frame.pc) == {11}
    unknown = gdb.Frame(0, "normal", main + 2, None, str(program), None, frame.written)
    assert unknown.lines_elsewhere(unknown.pc) == frozenset()


# The kernel


@pytest.mark.parametrize("runtime", ["libgomp", INTEL])
def test_the_kernel_of_a_stopped_process(runtime: str, tmp_path: Path) -> None:
    with running("barrier", mode="neither", runtime=runtime, folder=tmp_path) as program, held(program) as answers:
        assert witnesses.broken(program.pid, program.executable, answers) == []
        blocked = next(row for row in answers["threads"]["threads"] if row["wait"] and row["wait"]["how"] == "blocked")
        for how in ("spinning", "released"):
            blocked["wait"]["how"] = how
            assert len(proc.broken(program.pid, answers)) == 1
        blocked["wait"]["how"] = "blocked"
        answers["threads"]["threads"].pop()
        answers["stack"]["target"]["thread_count"] += 1
        assert len(proc.broken(program.pid, answers)) == 2


# OMPT


def _flipped(key: str) -> Callable[[Answers], None]:
    return lambda a: _row(a, "wait_barrier").update({key: 77})


def _one_region(answers: Answers) -> None:
    # Put all threads of level 3 into the region of the first of them.
    rows = [row for row in answers["threads"]["threads"] if row["level"] == 3]
    for row in rows:
        row["parallel"] = rows[0]["parallel"]


def _region(answers: Answers) -> Any:
    return next(row for row in answers["parallel"]["parallel"] if row["level"] == 3)


def _task(answers: Answers) -> Any:
    current = {row["task"] for row in answers["threads"]["threads"]}
    return next(row for row in answers["tasks"]["tasks"] if row["id"] in current)


WRONG_FOR_OMPT = {
    "state": _set(lambda a: a["threads"]["threads"][0], state="wait_lock", state_source="runtime"),
    "number": _set(lambda a: a["threads"]["threads"][0], thread_num=77),
    "size": _set(lambda a: a["threads"]["threads"][0], team_size=77),
    "level": _set(lambda a: a["threads"]["threads"][0], level=7),
    "data": _set(lambda a: a["threads"]["threads"][0], tool_data="0x1"),
    "one region": _one_region,
    "size of a region": _set(_region, team_size=77),
    "data of a region": _set(_region, tool_data="0x77"),
    "region around": _set(lambda a: next(r for r in a["parallel"]["parallel"] if r["level"] == 1), tool_data="0x77"),
    "kind of task": _set(_task, kind="explicit"),
    "data of a task": _set(_task, tool_data="0x77"),
}


@pytest.mark.parametrize("runtime", [INTEL, "libomp-19"])
def test_a_tool_within_the_program(runtime: str, tmp_path: Path) -> None:
    tool, run = tmp_path / "tool", tmp_path / "run"
    tool.mkdir()
    run.mkdir()
    environment = ompt.environment(tool)
    with (
        running("nested", mode="neither", runtime=runtime, folder=run, env=environment) as program,
        ompt.moment(program.pid, tool) as moment,
    ):
        with attach(program.pid) as session:
            answers = session.ask(asked)
        with ompt.nothing_kept(), attach(program.pid) as session:
            derived = session.ask(asked)
    # The program also has a thread that is not OpenMP's, which blocks all signals.
    assert set(moment) == {row["native_thread_id"] for row in answers["threads"]["threads"] if row["runtime"]}
    assert {len(seen.regions) for seen in moment.values()} == {4}  # and the one around all
    assert ompt.broken(moment, answers) == ompt.broken(moment, derived) == []
    assert {row["tool_data"] for row in derived["threads"]["threads"]} == {None}
    for name, wrong in WRONG_FOR_OMPT.items():
        changed = copy.deepcopy(answers)
        wrong(changed)
        assert ompt.broken(moment, changed) != [], name


def test_a_program_without_a_tool_tells_nothing(tmp_path: Path) -> None:
    with ompt.moment(os.getpid(), tmp_path) as moment:
        assert moment == {}
    assert ompt.broken({}, {"threads": {"threads": []}, "parallel": {"parallel": []}, "tasks": {"tasks": []}}) == []
