"""Incomplete teams: a thread has ended inside of its region, or fork() has copied the process there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ompd
from ompd.commands.main import cli
from ompd.model import Answer, ThreadRecord
from tests.support import FULL, STRIPPED, clean_environment
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.live import status_of
from tests.support.machine import intel_runtime
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read
from tests.support.runtimes import RUNTIMES

SOURCE = CHECKOUT / "tests" / "gone" / "gone.c"
LIBGOMP = ["libgomp", *["libgomp-wheel"] * FULL]
LIBOMP = ["libomp-19", "intel", *(name for name in STRIPPED * FULL if name != "libomp-19")]


def built(runtime: str, level: str) -> Path:
    used, openmp = compiler("gcc"), RUNTIMES[runtime]
    library, headers = openmp.file().parent, intel_runtime() / "opt" / "compiler" / "include"
    command = [str(used.path), "-g", level, "-Wall", "-Werror", "-fopenmp", "-idirafter", str(headers)]
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]

    def make(folder: Path) -> None:
        for words in (
            [*command, "-c", str(SOURCE), "-o", "gone.o"],
            [str(used.path), "gone.o", "-o", "gone", *linking],
        ):
            subprocess.run(words, cwd=folder, check=True, env=clean_environment())

    return (
        entry("programs", key_of(SOURCE.read_text(), used.version, command, linking, openmp.version()), make) / "gone"
    )


@contextmanager
def running(runtime: str, how: str, number: int, level: str = "-O1") -> Iterator[int]:
    """Run the program; yield the id of the process to inspect."""
    process = subprocess.Popen(
        [str(built(runtime, level)), how, str(number)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**ENVIRONMENT},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert can_be_read(process.stdout.fileno(), READY_SECONDS)
        said = process.stdout.readline().strip()
        yield process.pid if said == "ready" else int(said)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def told(command: str, process_id: int, *options: str) -> Result:
    return CliRunner().invoke(cli, [command, str(process_id), *options], catch_exceptions=False)


@pytest.mark.parametrize("number", [1, *[0] * FULL])
@pytest.mark.parametrize("level", ["-O0", "-O2"] if FULL else ["-O2"])
@pytest.mark.parametrize("runtime", [*LIBGOMP, "intel"])
def test_the_copy_that_fork_made_in_a_region_is_one_thread_of_its_team(runtime: str, level: str, number: int) -> None:
    with running(runtime, "fork", number, level) as copy:
        with ompd.attach(copy) as session:
            threads, regions, tasks = session.ask_threads(), session.ask_parallel(), session.ask_tasks()
        text, listed = told("threads", copy), told("parallel", copy)
    (row,) = threads.rows
    assert (row.thread_num, row.team_size, row.level, row.state) == (number, 3, 1, "work_parallel")
    (region,) = regions.rows
    assert region.threads == tuple(copy if at == number else None for at in range(3)) and region.id == row.parallel
    implicit = {task.id: task for task in tasks.rows if task.kind == "implicit"}
    assert len(implicit) == 3 and implicit[row.task or ""].thread == copy
    assert "the other 2 are not in this process" in text.stderr and text.exit_code == 0
    assert "2 of its 3 threads unknown" in listed.stderr and "no parallel region" not in listed.stdout
    assert "descriptor" not in text.stderr + listed.stderr


def asked_until(process_id: int, is_it: Callable[[Answer[ThreadRecord]], bool]) -> Answer[ThreadRecord]:
    """Return the first answer of ``threads`` that satisfies *is_it*, which must come in time."""
    end = time.monotonic() + READY_SECONDS
    while True:
        with ompd.attach(process_id) as session:
            answer = session.ask_threads()
        if is_it(answer):
            return answer
        assert time.monotonic() < end, answer


def living(process_id: int) -> list[str]:
    return [state for state in status_of(process_id, "State") if not state.startswith(("Z", "X"))]


@pytest.mark.parametrize("runtime", [*LIBGOMP, *LIBOMP])
def test_a_barrier_whose_count_is_not_known_since_a_thread_has_ended_makes_the_answer_incomplete(runtime: str) -> None:
    with running(runtime, "end", 2) as process_id:
        end = time.monotonic() + READY_SECONDS
        while len(living(process_id)) > 2:
            assert time.monotonic() < end
        answer = asked_until(process_id, at_barrier)
        text = told("threads", process_id)
    assert not answer.complete and text.exit_code == 3
    rows = [row for row in answer.rows if row.wait is not None]
    assert len(rows) == 2
    for row in rows:
        assert row.wait is not None and row.wait.arrived is None
        # The unknown fact is reported without -v.
        assert row.unavailable["wait.arrived"] in text.stderr


def at_barrier(answer: Answer[ThreadRecord]) -> bool:
    return [row.state for row in answer.rows if row.wait is not None] == ["wait_barrier"] * 2


@pytest.mark.parametrize("runtime", [*LIBGOMP, *LIBOMP])
def test_the_first_thread_that_has_ended_is_not_passed_over_in_silence(runtime: str) -> None:
    with running(runtime, "first", 0) as process_id:
        end = time.monotonic() + READY_SECONDS
        while len(living(process_id)) > 3:
            assert time.monotonic() < end
        texts = [told(command, process_id) for command in ("threads", "stack")]
    assert all(f"the process's first thread, {process_id}, is not listed: it has ended" in t.stderr for t in texts)


def at_the_end(answer: Answer[ThreadRecord]) -> bool:
    return [row.state for row in answer.rows].count("wait_barrier_implicit_parallel") == 2


@pytest.mark.parametrize("number", [2, *[0] * FULL])
@pytest.mark.parametrize("runtime", [*LIBGOMP, *LIBOMP])
def test_threads_at_a_regions_end_are_at_the_construct(runtime: str, number: int) -> None:
    # The function begins with the construct, so that gcc gives the call the line of the function's brace.
    (line,) = (at for at, text in enumerate(SOURCE.read_text().splitlines(), 1) if text.endswith("/* the region */"))
    with running(runtime, "late", number) as process_id:
        rows = {row.thread_num: row for row in asked_until(process_id, at_the_end).rows}
        with ompd.attach(process_id) as session:
            stacks = {row.thread_num: row for row in session.ask_stacks().rows}
        text = told("threads", process_id).stdout
    late = rows.pop(number)
    assert late.at_end_of is None and late.where is not None and late.where.function == "stay"
    for at, row in rows.items():
        assert row.at_end_of is not None and (row.at_end_of.function, row.at_end_of.line) == ("region", line)
        assert (row.where is None) == (at != 0)
        assert row.where is None or (row.where.function, row.where.line) == ("region", line)
        assert (stacks[at].frames[0].function, stacks[at].frames[0].line) == ("region", line)
    assert f"end of parallel gone.c:{line} region" in text
