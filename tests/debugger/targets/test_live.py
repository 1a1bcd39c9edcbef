"""Live processes: answers are true, of one moment, and equal to a core's answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.contract.plugin import ThreadHandle
from ompd.errors import MemoryFault, StaleHandle, TargetGone
from ompd.inspection import Inspection
from ompd.model import Answer, StackRecord, ThreadRecord
from tests.support import FULL, Missing, clean_environment, require, running
from tests.support.facts import expected, facts_told
from tests.support.live import Worker, build_live, is_let_go, run, status_of, stop_all, wait_until, working
from tests.support.programs import ALL_PROGRAMS, STACK_PROGRAMS
from tests.support.runs import kernel_core_obstacle
from tests.truth import compare, everything

# Truth of answers, also compared with a core


def _marks(program: str) -> list[Any]:
    return [pytest.mark.xdist_group("busy")] * ALL_PROGRAMS[program].spins


LIVE = [
    pytest.param(program, mode, id=f"{program}-{mode}", marks=_marks(program))
    for number, program in enumerate(ALL_PROGRAMS)
    for mode in (("debug", "neither") if FULL or program in ("nested", "lock", "task_tree") else ("debug",))
    # tests/runtimes/libomp/test_truth.py tests the cores of the same programs.
    if FULL or number % 2 == 0 or program in (*STACK_PROGRAMS, "nested", "lock", "task_tree")
]


@pytest.mark.parametrize(("program", "mode"), LIVE)
@pytest.mark.quick("lock-neither", "closing_barrier-debug", "shrunk_pool-debug", "task_tree-neither", "deep-debug")
def test_a_live_program_is_told_as_it_wrote_itself(program: str, mode: str, tmp_path: Path) -> None:
    compiler = ALL_PROGRAMS[program].compilers[0]
    with running(program, compiler=compiler, mode=mode, folder=tmp_path) as live:
        found = compare(live)
        assert found.differences == []
        assert facts_told(found) == expected(program, mode)
        assert is_let_go(live.pid)


def without_signal(row: Any) -> Any:
    # The core also has the signal that ended the process.
    if not isinstance(row, ThreadRecord | StackRecord):
        return row
    assert row.failed is False
    return replace(row, signal=None, signal_name=None, si_code=None)


@pytest.mark.parametrize("program", ["nested", "serialized_three", "extra_pthread", "task_queued", "icvs"])
@pytest.mark.quick("serialized_three", "extra_pthread", "icvs")
def test_the_same_process_is_told_alike_alive_and_as_a_core(program: str, tmp_path: Path) -> None:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    with running(program, folder=tmp_path) as live:
        with ompd.attach(live.pid) as session:
            alive = session.ask(everything)
        before = set(tmp_path.iterdir())
        os.kill(live.pid, signal.SIGABRT)
        wait_until(lambda: "Z" in status_of(live.pid, "State")[0])
        (core,) = set(tmp_path.iterdir()) - before
        with ompd.open_core(core) as session:
            dead = session.ask(everything)
    for one, other in zip(alive, dead, strict=True):
        assert sorted(map(repr, one.rows)) == sorted(map(repr, map(without_signal, other.rows)))
        assert (one.runtimes, one.complete) == (other.runtimes, other.complete)


@pytest.fixture
def busy() -> Iterator[Worker]:
    """Yield a program with 64 threads that work, and leave a little processor time to inspections."""
    with working("busy", "64", "3000") as worker:
        yield worker


# Answers belong to one moment


def ask_all(session: Inspection) -> tuple[Answer[Any], ...]:
    return session.ask_threads(), session.ask_parallel(), session.ask_tasks()


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    ("runtime", "size"), product(["libgomp", "intel"], [3, 16]) if FULL else [("libgomp", 16), ("intel", 3)]
)
@pytest.mark.quick("libgomp-16")
def test_answers_agree_with_one_another_at_full_speed(runtime: str, size: int) -> None:
    told: Counter[str] = Counter()
    kinds = ("thread in its region", "region", "task")
    with working("busy", str(size), executable=build_live("busy", runtime=runtime)) as worker:
        for number in range(1000):
            if number >= (60 if FULL else 6) and all(told[kind] for kind in kinds):
                break  # a small team may be seen between its regions again and again
            with ompd.attach(worker.pid) as session:
                threads, parallel, tasks = session.ask(ask_all)
            assert (threads.target, parallel.target) == (parallel.target, tasks.target)
            for answer in (threads, parallel, tasks):
                assert answer.complete, answer.warnings
            natives = {row.native_thread_id for row in threads.rows}
            regions = {row.id: row for row in parallel.rows}
            for row in threads.rows:
                assert row.parallel is None or row.parallel in regions
                if row.parallel is not None and row.thread_num is not None:
                    region = regions[row.parallel]
                    assert region.threads[row.thread_num] == row.native_thread_id
                    assert (region.level, region.team_size) == (row.level, row.team_size)
                    told["thread in its region"] += 1
            for row in parallel.rows:
                assert row.enclosing is None or regions[row.enclosing].level == (row.level or 0) - 1
                assert {thread for thread in row.threads if thread is not None} <= natives
                told["region"] += 1
            known = {row.id for row in tasks.rows}
            assert all(row.generating is None or row.generating in known for row in tasks.rows)
            told["task"] += len(tasks.rows)
        worker.finish()
    assert all(told[kind] for kind in kinds), told


def test_handles_are_of_one_stop(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live, ompd.attach(live.pid) as session:

        def handles_of(session: Inspection) -> Sequence[ThreadHandle]:
            (runtime,) = session.runtimes
            assert runtime.space is not None
            return runtime.space.threads()

        handles = session.ask(handles_of)
        assert handles
        with pytest.raises(MemoryFault, match="not copied") as fault:
            [handle.current_task() for handle in handles]
        assert "Session.ask" in fault.value.hint
        session.ask_threads()
        with pytest.raises(StaleHandle, match="one stop"):
            handles[0].state()
    with pytest.raises(TargetGone):
        session.ask_threads()


@pytest.mark.parametrize("stops", [0, 1])
def test_a_program_at_rest_is_not_stopped_and_one_stop_would_be_enough(
    stops: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if stops:
        stop_all(monkeypatch)
    with running("many", folder=tmp_path) as live, ompd.attach(live.pid) as session:
        for answer in (session.ask_threads(), session.ask_parallel(), session.ask_runtimes()):
            assert len(answer.target.stops_ns) == stops and answer.complete and not answer.warnings
            assert answer.target.signal is None and answer.target.kind == "live"


def test_a_question_that_fails_lets_the_program_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop_all(monkeypatch)

    class Failed(Exception):
        pass

    with running("nested", folder=tmp_path) as live, ompd.attach(live.pid) as session:
        for at in (1, 2):
            calls = iter(range(1, 9))

            def failing(session: Inspection, at: int = at, calls: Iterator[int] = calls) -> None:
                if next(calls) == at:
                    raise Failed

            with pytest.raises(Failed):
                session.ask(failing)
            assert is_let_go(live.pid)
        assert session.ask_threads().complete


def test_without_stopping_it_is_said_that_facts_may_not_agree(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live:
        gdb = subprocess.Popen(
            [str(require("gdb")), "-nx", "-q", "-p", str(live.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**clean_environment(), "HOME": str(tmp_path)},
        )
        try:
            wait_until(lambda: set(status_of(live.pid, "TracerPid")) == {str(gdb.pid)})
            refused = run("threads", live.pid)
            assert refused.returncode == 1 and f"is traced already, by process {gdb.pid} (gdb)" in refused.stderr
            assert "--nonblocking" in refused.stderr
            told = run("threads", live.pid, "--nonblocking", "--json")
            assert "was not stopped" in told.stderr
            answer = json.loads(told.stdout)
            assert answer["target"]["stops_ns"] == [] and len(answer["threads"]) == len(live.truth["threads"])
        finally:
            gdb.communicate(b"", timeout=100)
        wait_until(lambda: is_let_go(live.pid))
        told = run("parallel", live.pid, "--nonblocking", "--json")
        assert told.returncode == 0
        assert len(json.loads(told.stdout)["parallel"]) == len(live.truth["regions"])
