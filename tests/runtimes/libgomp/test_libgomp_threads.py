"""Threads of libgomp that its lists lack, or that are elsewhere than their own structures say.

They are in target regions that they execute themselves, outside of all regions, newly made, or deep in nests of regions
and tasks.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import ompd
from ompd.contract.memory import StructView
from ompd.errors import MemoryFault
from ompd.inspection import Inspection
from ompd.runtimes.libgomp import structures
from ompd.runtimes.libgomp.runtime import Runtime
from ompd.session import Session
from tests.support import FULL, clean_environment, require
from tests.support.build import compiler
from tests.support.cache import CHECKOUT
from tests.support.live import build_live, working
from tests.support.machine import require_module
from tests.support.runs import write_gcore

require_module("unicorn")
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "OMP_STACKSIZE": "256K", "OMP_WAIT_POLICY": "passive"}


# Target regions


def check_on_host(session: Inspection, truth: list[dict[str, int]]) -> None:
    threads, parallel, tasks = session.ask_threads(), session.ask_parallel(), session.ask_tasks()
    stacks = session.ask_stacks()
    for answer in (threads, parallel, tasks, stacks):
        assert answer.complete and not answer.warnings, answer.warnings
    rows = {row.native_thread_id: row for row in threads.rows}
    assert set(rows) == {each["native"] for each in truth}
    regions = {row.id: row for row in parallel.rows}
    (team,) = (row for row in parallel.rows if row.team_size == 4)
    known = {row.id: row for row in tasks.rows}
    for each in truth:
        row = rows[each["native"]]
        assert (row.thread_num, row.team_size, row.level) == (each["number"], each["size"], each["level"])
        if row.parallel is not None:
            assert regions[row.parallel].threads[each["number"]] == each["native"]
        outside = row.outside_of_target
        assert (outside is not None) == (each["outside"] >= 0)
        assert row.task is not None and known[row.task].status == "executing"
        if outside is not None:
            assert (outside.parallel, outside.thread_num, outside.team_size, outside.level) == (
                *(team.id, each["outside"], 4, 1),
            )
            assert team.threads[each["outside"]] == each["native"]
            met = known[outside.task]
            assert met.thread == each["native"] and met.parallel == team.id and met.status == "suspended"
            (frames,) = (stack.frames for stack in stacks.rows if stack.native_thread_id == each["native"])
            written = [frame.construct.kind for frame in frames if frame.construct is not None]
            assert written[-1] == "parallel" and ("target" in written or met.kind == "explicit")
    # Each thread number has its thread, and each member of a team has its implicit task.
    assert None not in [native for region in parallel.rows for native in region.threads]
    assert Counter(row.parallel for row in tasks.rows if row.kind == "implicit") == {
        row.id: row.team_size for row in parallel.rows
    }


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.quick("0", "2")
def test_a_target_region_on_the_host(mode: int, tmp_path: Path) -> None:
    executable = build_live("on_host", runtime="libgomp", flags=("-foffload=disable",))
    with working("on_host", str(mode), executable=executable) as worker:
        assert worker.process.stdout is not None
        truth = json.loads(worker.process.stdout.readline())
        with ompd.attach(worker.pid) as session:
            check_on_host(session, truth)
        write_gcore(worker.pid, tmp_path / "core")
    with ompd.open_core(tmp_path / "core") as session:
        check_on_host(session, truth)


# Threads that have just been made


@pytest.fixture(scope="module")
def newborn(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    folder = tmp_path_factory.mktemp("newborn")
    environment = {**clean_environment(), **ENVIRONMENT, "CORES": str(folder)}
    script = CHECKOUT / "tests" / "between" / "newborn.py"
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", str(script)]
    command.append(str(build_live("forks", runtime="libgomp")))
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("CORE ")]
    assert len(lines) > 6, done.stdout + done.stderr
    return [(core, int(native)) for _, core, native in lines]


def test_a_thread_that_has_just_been_made_is_no_damage(newborn: list[tuple[str, int]]) -> None:
    states = []
    for core, native in newborn:
        with ompd.open_core(core) as session:
            threads, parallel, tasks = session.ask_threads(), session.ask_parallel(), session.ask_tasks()
            stacks = session.ask_stacks()
        for answer in (threads, parallel, tasks, stacks):
            assert answer.complete, (core, answer.warnings)
        (region,) = parallel.rows
        (row,) = (row for row in threads.rows if row.native_thread_id == native)
        primary = threads.target.process_id
        assert region.threads[0] == primary and region.team_size == len(region.threads)
        # The new thread is not taken for the initial thread. If it has a number, its region has it under this number.
        assert row.thread_type == "worker"
        assert row.thread_num is None or (row.parallel == region.id and region.threads[row.thread_num] == native)
        assert {row.thread for row in tasks.rows if row.kind == "initial"} == {primary}
        assert row.thread_num is not None or "state" in row.unavailable
        states.append(("thread_num" in row.unavailable, native in region.threads))
    assert states[0] == (True, False) and states[-1][1]


# Outside of all regions

OUTSIDE = """
#include <omp.h>
#include <stdio.h>
#include <unistd.h>
static volatile int turns;
__attribute__((noinline)) static int fib(int n)
{
    int a, b;
    if (n < 2)
        return n;
    #pragma omp task shared(a)
    a = fib(n - 1);
    #pragma omp task shared(b)
    b = fib(n - 2);
    #pragma omp taskwait
    return a + b;
}
int main(void)
{
    printf("ready\\n");
    fflush(stdout);
    for (;;) {
        turns += fib(12);
        #pragma omp critical
        turns++;
    }
}
"""


def made(folder: Path, text: str, *flags: str) -> Path:
    (folder / "program.c").write_text(text)
    command = [str(compiler("gcc").path), "-g", "-O1", "-fopenmp", *flags, "program.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, env=clean_environment())
    return folder / "program"


def test_an_initial_thread_that_was_in_no_region(tmp_path: Path) -> None:
    with working("outside", executable=made(tmp_path, OUTSIDE)) as worker, ompd.attach(worker.pid) as session:
        seen: Counter[bool] = Counter()
        while min(seen[True], seen[False]) < 2:
            threads, tasks = session.ask_threads(), session.ask_tasks()
            assert threads.complete and tasks.complete, (threads.warnings, tasks.warnings)
            (row,) = threads.rows
            # Between two constructs, in the program's own code, nothing of OpenMP is visible.
            assert (row.thread_num, row.level) in ((0, 0), (None, None)) and row.thread_type in ("initial", "other")
            assert {task.kind for task in tasks.rows} <= {"initial", "explicit"}
            seen[any(task.kind == "explicit" for task in tasks.rows)] += 1
            if sum(seen.values()) == 24:
                break  # on a busy machine each stop may find the program at the same place
        assert seen[True]


# Deep nests

DEEP = """
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int regions, tasks;
static void stay(void)
{
    printf("ready\\n%d\\n", omp_get_level());
    fflush(stdout);
    for (;;)
        pause();
}
__attribute__((noinline)) static void task(int depth)
{
    if (depth == tasks)
        stay();
    #pragma omp task if(0)
    task(depth + 1);
}
__attribute__((noinline)) static void region(int depth)
{
    if (depth == regions)
        task(0);
    #pragma omp parallel num_threads(1)
    region(depth + 1);
}
int main(int argc, char **argv)
{
    regions = atoi(argv[1]);
    tasks = atoi(argv[2]);
    region(0);
}
"""


@pytest.fixture
def much_stack() -> Iterator[None]:
    usual = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (min(1 << 28, usual[1]) if usual[1] >= 0 else 1 << 28, usual[1]))
    yield
    resource.setrlimit(resource.RLIMIT_STACK, usual)


@pytest.mark.parametrize(("levels", "tasks"), [(10_000 if FULL else 5_000, 0)])
@pytest.mark.usefixtures("much_stack")
def test_a_deep_nest(levels: int, tasks: int, tmp_path: Path) -> None:
    with working("deep", str(levels), str(tasks), executable=made(tmp_path, DEEP)) as worker:
        assert worker.process.stdout is not None and int(worker.process.stdout.readline()) == levels
        write_gcore(worker.pid, tmp_path / "core")
    with ompd.open_core(tmp_path / "core") as session:
        threads, parallel = session.ask_threads(), session.ask_parallel()
        stacks = session.ask_stacks()
    assert threads.complete and parallel.complete and stacks.complete, (threads.warnings, stacks.warnings)
    (row,) = threads.rows
    assert (row.thread_num, row.team_size, row.level) == (0, 1, levels)
    assert [region.level for region in parallel.rows] == list(range(1, levels + 1))
    assert {region.function.function for region in parallel.rows if region.function} == {"region"}
    assert sum(frame.construct is not None for frame in stacks.rows[0].frames) == levels


# Lists that are being changed

QUEUED = """
#include <omp.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    #pragma omp parallel num_threads(2)
    {
        #pragma omp barrier
        if (omp_get_thread_num() == 0) {
            for (int i = 0; i < 6; i++)
                #pragma omp task untied
                pause();
            printf("ready\\n");
            fflush(stdout);
        }
        for (;;)
            pause();
    }
}
"""


@pytest.mark.parametrize("break_at", range(3))
def test_a_list_that_is_being_changed_loses_only_what_is_behind(
    break_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working("queued", executable=made(tmp_path, QUEUED)) as worker:
        write_gcore(worker.pid, tmp_path / "core")
    with Session.open_core(tmp_path / "core") as session:
        (runtime,) = session.runtimes
        space = runtime.space
        assert isinstance(space, Runtime)
        rows = ompd.questions.tasks.ask(session).rows
        whole = [int(row.id, 16) for row in rows if row.kind == "explicit"]
    assert len(whole) == 6
    victim = sorted(whole)[2 + break_at]
    honest = structures.copied

    # As if a task was freed while lists still have it: a word that malloc wrote is then its parent.
    def copied(memory, layout, address, members):  # type: ignore[no-untyped-def]
        view = honest(memory, layout, address, members)
        if address != victim:
            return view

        class Freed:
            byte_order, pointer_size = memory.byte_order, memory.pointer_size

            def read(self, at: int, size: int) -> bytes:
                if at == victim:
                    raise MemoryFault(0x7FF3C0003, 214, "nothing is mapped there")
                return bytes(view.memory.read(at, size))

        return StructView(Freed(), layout, address)

    monkeypatch.setattr(structures, "copied", copied)
    with ompd.open_core(tmp_path / "core") as session:
        answer, threads = session.ask_tasks(), session.ask_threads()
    left = {int(row.id, 16) for row in answer.rows if row.kind == "explicit"}
    assert not answer.complete and threads.complete
    assert sum(row.kind == "implicit" for row in answer.rows) == 2
    # Tasks before the freed one, and tasks in other lists, are found. ompd does not guess the tasks behind it.
    assert left and left <= set(whole) - {victim}
    assert len(answer.warnings) == 1 and "0x7ff3c0003" in answer.warnings[0], answer.warnings
