"""Threads that are stopped while they form or leave a team: libomp changes the words for their place step by step."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ompd
from ompd.contract.process import Stack
from ompd.debugger.stacks.stacks import Stacks
from tests.support import FULL, clean_environment, require, stopped
from tests.support.cache import CHECKOUT
from tests.support.live import build_live

RUNTIMES = ("intel", "libomp-19", "libomp-16", "libomp-15", "libomp-14", "libomp-13")
SCRIPT = CHECKOUT / "tests" / "between" / "stops.py"
# Small cores, and threads that do not spin while gdb steps.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "OMP_STACKSIZE": "256K", "OMP_WAIT_POLICY": "passive"}


def stops(runtime: str, folder: Path, *arguments: str) -> list[tuple[str, int, bool]]:
    environment = {**clean_environment(), **ENVIRONMENT, "CORES": str(folder), "PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(CHECKOUT)
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", str(SCRIPT)]
    command += ["--args", str(build_live("forks", runtime=runtime)), *arguments]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("CORE ")]
    assert len(lines) > 20, done.stdout + done.stderr
    return [(core, int(level), two == "1") for _, core, level, two in lines]


CASES = [
    pytest.param(runtime, arguments, id=f"{runtime}-{name}")
    for runtime in RUNTIMES
    for name, arguments in (("new", ()), ("kept", ("kept",)))
    if FULL or (runtime, name) == ("libomp-19", "kept")
]


@pytest.mark.parametrize(("runtime", "arguments"), CASES)
@pytest.mark.quick()
def test_a_thread_between_two_teams_is_in_the_outer_one(
    runtime: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    told: Counter[str] = Counter()
    for core, level, between in stops(runtime, tmp_path, *arguments):
        with ompd.open_core(core) as session:
            threads, parallel, tasks = session.ask_threads(), session.ask_parallel(), session.ask_tasks()
            stacks, icvs = session.ask_stacks(), session.ask_icvs()
        for answer in (threads, parallel, tasks, stacks, icvs):
            assert answer.complete, (core, answer.warnings)
        (initial,) = (row for row in threads.rows if row.native_thread_id == threads.target.process_id)
        assert initial.level == level or (not between and initial.level == level + 1), core
        regions = {row.id: row for row in parallel.rows}
        for row in threads.rows:
            if row.parallel is not None:
                assert row.thread_num is not None
                assert regions[row.parallel].threads[row.thread_num] == row.native_thread_id
        for region in parallel.rows:
            assert region.level == (regions[region.enclosing].level or 0) + 1 if region.enclosing else region.level == 1
        known = {row.id for row in tasks.rows}
        assert all(row.generating is None or row.generating in known for row in tasks.rows)
        # Members that the runtime has not created yet have no tasks.
        assert Counter(row.parallel for row in tasks.rows if row.kind == "implicit") == {
            row.id: sum(thread is not None for thread in row.threads) for row in parallel.rows
        }
        assert sum(row.kind == "initial" for row in tasks.rows) == 1
        # Variables that the runtime has not set yet in a new task read as 0, which ompd must not tell.
        assert all(row.value != 0 for row in icvs.rows if row.name in ("nthreads-var", "thread-limit-var"))
        told["between" if between else "in one"] += 1
        Path(core).unlink()
    assert told["between"] >= 12 and told["in one"] >= 12


@pytest.mark.parametrize("runtime", ("intel", "libomp-19"))
def test_a_thread_that_was_only_made_is_in_overhead(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the kernel had made the thread and not run it yet: its stack has only the first frame, in the C library.
    with ompd.open_core(stopped("barrier", mode="neither", runtime=runtime).core) as session:
        rows = session.ask_threads().rows
        made = next(row.native_thread_id for row in rows if row.thread_num == 1)
        honest = Stacks.stack

        def stack(stacks: Stacks, thread: int, *, guess: bool = False) -> Stack:
            whole = honest(stacks, thread, guess=guess)
            return Stack(whole.frames[-1:], None) if thread == made else whole

        monkeypatch.setattr(Stacks, "stack", stack)
    with ompd.open_core(stopped("barrier", mode="neither", runtime=runtime).core) as session:
        answer = session.ask_threads()
    (row,) = [row for row in answer.rows if row.native_thread_id == made]
    assert (row.thread_type, row.thread_num, row.state, row.state_source) == ("worker", 1, "overhead", "derived")
    assert answer.complete
