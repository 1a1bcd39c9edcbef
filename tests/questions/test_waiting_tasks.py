"""Tasks that no thread may execute yet, and no queue holds: those that wait for a dependence, and detached ones."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.inspection import Inspection
from ompd.model import TaskRecord
from ompd.runtimes.libomp.waits.queues import Queues
from tests.support import FULL, STRIPPED, clean_environment, running, stopped
from tests.support.build import compiler
from tests.support.live import Worker, build_live, working
from tests.support.runs import write_gcore

# libomp does not support detached tasks in gcc's code.
RUNTIMES = {"intel": "clang", "libgomp": "gcc", "stub": "gcc", **dict.fromkeys(STRIPPED, "clang")}
SAMPLE = ("intel", "libgomp", "stub", "libomp-19", "libomp-14")


def explicit(process_id: int) -> dict[str, TaskRecord]:
    with ompd.attach(process_id) as session:
        answer = session.ask_tasks()
    assert answer.complete and not answer.warnings, answer.warnings
    return {row.id: row for row in answer.rows if row.kind == "explicit"}


def check(session: Inspection, truth: dict[str, Any]) -> None:
    answer = session.ask_tasks()
    assert answer.complete and not answer.warnings, answer.warnings
    rows = {row.id: row for row in answer.rows if row.kind == "explicit"}
    assert Counter(row.status for row in rows.values()) == {"detached": 2, "waiting": 3}
    assert all(row.thread is None and "thread" not in row.unavailable for row in rows.values())
    # Each event belongs to one task. Two tasks wait for the first of these, and a third task waits for one of the two.
    events = {f"{row.waits_for.event:#x}": row for row in rows.values() if row.waits_for and row.waits_for.event}
    assert sorted(events) == sorted(truth["events"])
    first = events[truth["events"][0]]
    x, y = (int(truth[name], 16) for name in "xy")
    clauses = {}
    for row in rows.values():
        if row.status != "waiting":
            continue
        wait = row.waits_for
        assert wait is not None and wait.kind == "dependence" and wait.count == len(wait.tasks) == 1
        assert wait.dependences is not None
        items = frozenset((item.address, item.access, item.symbol) for item in wait.dependences)
        clauses[items] = wait.tasks[0], row.id
    one, two, three = {(x, "in", "x")}, {(x, "in", "x"), (y, "out", "y")}, {(y, "in", "y")}
    assert clauses.keys() == {frozenset(one), frozenset(two), frozenset(three)}
    assert clauses[frozenset(one)][0] == clauses[frozenset(two)][0] == first.id
    assert clauses[frozenset(three)][0] == clauses[frozenset(two)][1]
    # Only thread 0 generated these tasks.
    (parent,) = {row.generating for row in rows.values()}
    assert {row.id: row.unfinished_children for row in answer.rows if row.unfinished_children} == {parent: 5}


@pytest.fixture(params=RUNTIMES if FULL else SAMPLE)
def worker(request: pytest.FixtureRequest) -> Any:
    runtime: str = request.param
    executable = build_live("waiting", runtime=runtime, compiler_name=RUNTIMES[runtime])
    with working("waiting", executable=executable) as found:
        yield found


def said(worker: Worker) -> Any:
    assert worker.process.stdout is not None
    return json.loads(worker.process.stdout.readline())


@pytest.mark.quick("libgomp", "stub", "libomp-14")
def test_all_are_listed_with_what_they_wait_for(worker: Worker, tmp_path: Path) -> None:
    truth, core = said(worker), tmp_path / "core"
    with ompd.attach(worker.pid) as session:
        check(session, truth)
    write_gcore(worker.pid, core)
    with ompd.open_core(core) as session:
        check(session, truth)
    told = CliRunner().invoke(cli, ["tasks", str(core)], catch_exceptions=False)
    assert told.exit_code == 0 and "5 unfinished children: 2 detached, 3 waiting" in told.output
    assert "waiting   for 1 task: " in told.output and "depend(in: x)" in told.output
    assert "depend(out/inout: y)" in told.output
    assert f"its event {truth['events'][0]} is not fulfilled" in told.output


def test_what_nothing_leads_to_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the queues had been reused since.
    monkeypatch.setattr(Queues, "places", lambda self: [])
    with working("waiting", executable=build_live("waiting", runtime="libomp-19", compiler_name="clang")) as worker:
        said(worker)
        write_gcore(worker.pid, tmp_path / "core")
    with ompd.open_core(tmp_path / "core") as session:
        answer = session.ask_tasks()
    assert Counter(row.status for row in answer.rows if row.kind == "explicit") == {"detached": 1, "waiting": 3}
    assert [row.unfinished_children for row in answer.rows if row.unfinished_children] == [5]
    told = CliRunner().invoke(cli, ["tasks", str(tmp_path / "core")], catch_exceptions=False)
    assert "5 unfinished children: 1 detached, 3 waiting, 1 not found" in told.output


ORPHANED = """
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
static volatile int done, settled;
int main(void)
{
    #pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        #pragma omp task
        {
            omp_event_handle_t event = 0;
            #pragma omp task detach(event)
            done = 1;
        }
        #pragma omp taskwait
        #pragma omp task
        settled = done;
    } else {
        while (!settled)
            sched_yield();
        printf("ready\\n");
        fflush(stdout);
        for (;;)
            pause();
    }
}
"""


def test_libgomp_forgets_what_generated_a_task_but_counts_it(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(ORPHANED)
    command = [str(compiler("gcc").path), "-g", "-O1", "-fopenmp", "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    with working("orphaned", executable=tmp_path / "program") as worker, ompd.attach(worker.pid) as session:
        answer = session.ask_tasks()
    assert answer.complete and [row for row in answer.rows if row.kind == "explicit"] == []
    (note,) = answer.warnings
    assert "waits for 1 more task, which was not found" in note


@pytest.mark.parametrize("runtime", ["intel", "libgomp", "stub", "libomp-19"])
@pytest.mark.parametrize("program", ["task_tree", "task_depend", "taskgroup"])
def test_children_are_counted(program: str, runtime: str) -> None:
    core = stopped(program, runtime=runtime, mode="neither")
    generating = Counter(task["generating"] for task in core.truth["tasks"] if task["kind"] == "explicit")
    with ompd.open_core(core.core) as session:
        answer = session.ask_tasks()
    assert answer.complete
    assert Counter(row.unfinished_children for row in answer.rows if row.unfinished_children) == Counter(
        generating.values()
    )


def test_of_a_process_that_runs(tmp_path: Path) -> None:
    with running("task_depend", runtime="libomp-19", mode="neither", folder=tmp_path) as alive:
        rows = explicit(alive.pid)
    assert Counter(row.status for row in rows.values()) == {"executing": 1, "waiting": 1}
