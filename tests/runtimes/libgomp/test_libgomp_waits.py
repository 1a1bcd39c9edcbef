"""libgomp: threads that sleep, spin, or need not wait any more; programs without symbols or debug information."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ompd.debugger.targets.core import CoreTarget
from ompd.questions import stacks, threads, why
from ompd.session import Session
from tests.support import Missing, Stopped, clean_environment, running
from tests.support.build import compiler
from tests.support.libgomp import FACTS, on_libgomp, run_source
from tests.support.machine import require
from tests.support.runs import ENVIRONMENT
from tests.truth import compare

# Programs without symbols


def test_of_a_program_without_symbols(tmp_path: Path) -> None:
    with running("nested", mode="neither", runtime="libgomp", folder=tmp_path) as whole:
        executable = whole.executable
    bare = tmp_path / "nested"
    shutil.copy(executable, bare)
    subprocess.run(["strip", "-s", str(bare)], check=True)
    folder = tmp_path / "run"
    folder.mkdir()
    with running("nested", mode="neither", runtime="libgomp", folder=folder, executable=bare) as alive:
        found = compare(alive)
    places = ("where.", "function", "file", "line", "address", "stack.", "stack of")
    assert [text for text in found.differences if not any(place in text for place in places)] == []
    assert found.equal["state"] == json.loads(FACTS.read_text())["nested"]["state"]


SPIN = """
#include "settled.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>
static omp_lock_t lock;
static omp_nest_lock_t nest;
static volatile int there, held;
static void stop(void) {
    while (!there)
        usleep(1000);
    until_settled(1);
    abort();
}
int main(void) {
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) { BEFORE }
        #pragma omp barrier
        if (omp_get_thread_num() == 0) { HOLDER }
        there = 1;
        WAITER
    }
    there = 1;
    stop();
}
"""
# The code of the waiting thread, the code of thread 0 behind and before the barrier, and the waiter's state and symbol.
SPINNING = {
    "barrier": ('_Pragma("omp barrier")', "stop();", "", "wait_barrier", None),
    "closing": ("", "stop();", "", "wait_barrier_implicit_parallel", None),
    "lock": ("omp_set_lock(&lock);", "stop();", "omp_set_lock(&lock);", "wait_lock", "&lock"),
    "nest": ("omp_set_nest_lock(&nest);", "stop();", "omp_set_nest_lock(&nest);", "wait_lock", "&nest"),
    "critical": ("", "", "", "wait_critical", "critical(one)"),
    "unnamed": ("", "", "", "wait_critical", "critical"),
    "pool": ("", "", "", "idle", None),
}
SECTIONS = {"critical": "(one)", "unnamed": ""}


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("name", SPINNING)
def test_threads_that_spin(name: str, tmp_path: Path) -> None:
    # If there are more threads than processors, libgomp's threads sleep.
    if len(os.sched_getaffinity(0)) < 2:
        raise Missing("processors", "two threads of libgomp's spin on two processors only", forbidden=True)
    waiter, holder, before, state, symbol = SPINNING[name]
    if name in SECTIONS:
        section = f'_Pragma("omp critical{SECTIONS[name]}")'
        holder = f"{section} {{ held = 1; stop(); }}"
        waiter = f"while (!held) usleep(1000);\n{section} there++;"
    text = SPIN.replace("BEFORE", before).replace("HOLDER", holder).replace("WAITER", waiter)
    core = run_source(tmp_path, text, {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinite"})
    with Session.open_core(core) as session:
        answer = threads.ask(session)
    assert answer.complete and answer.warnings == ()
    (row,) = [row for row in answer.rows if row.thread_type == "worker"]
    assert row.state == state
    if state == "idle":
        assert (row.thread_num, row.wait) == (None, None)
        return
    assert row.wait is not None and (row.wait.how, row.wait.symbol) == ("spinning", symbol)
    if symbol is None:
        primary = next(row.native_thread_id for row in answer.rows if row.thread_type == "initial")
        assert (row.wait.arrived, row.wait.expected, row.wait.missing) == (1, 2, (primary,))


@pytest.mark.parametrize(
    "program", ["barrier", "closing_barrier", "lock", "critical", "taskgroup", "ordered", "nested"]
)
def test_threads_that_sleep(program: str) -> None:
    assert ways_to_wait(on_libgomp(program)) == {"blocked"}


def ways_to_wait(core: Stopped) -> set[str | None]:
    with Session.open_core(core.core) as session:
        return {row.wait.how for row in threads.ask(session).rows if row.wait is not None}


@pytest.mark.parametrize(("changed", "how"), [(8, "released"), (1, "blocked"), (2, "blocked"), (3, "blocked")])
def test_threads_that_need_not_wait_any_more(changed: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the kernel had not scheduled the threads yet: the team's barrier has another count than the one they sleep
    # on. The bits for tasks to execute release no thread (bar.h: BAR_TASK_PENDING, BAR_WAITING_FOR_TASK).
    core = on_libgomp("barrier")
    with Session.open_core(core.core) as session:
        waiting = [row.native_thread_id or 0 for row in threads.ask(session).rows if row.wait is not None]
        (word,) = {session.process.stacks.stack(native).frames[0].registers[5] for native in waiting}
    honest = CoreTarget.read

    def read(self: CoreTarget, address: int, size: int) -> bytes:
        data = honest(self, address, size)
        at = word - address
        return data[:at] + bytes([data[at] ^ changed]) + data[at + 1 :] if 0 <= at < size else data

    monkeypatch.setattr(CoreTarget, "read", read)
    assert ways_to_wait(core) == {how}


def test_a_task_lets_nobody_go_who_sleeps_in_the_barrier(tmp_path: Path) -> None:
    # One thread wakes up to execute the task. The others still sleep, although their word has changed.
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            #pragma omp parallel num_threads(4)
            if (omp_get_thread_num() == 3) {
                until_settled(3);
                #pragma omp task
                { until_settled(3); abort(); }
            }
        }
        """,
        {"OMP_WAIT_POLICY": "passive"},
    )
    with Session.open_core(told) as session:
        found = [row.wait for row in threads.ask(session).rows if row.wait is not None]
    assert [(wait.kind, wait.how, wait.arrived, wait.expected) for wait in found] == [("barrier", "blocked", 4, 4)] * 3


def test_where_a_thread_is_whose_code_jumped_there_without_debug_information(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <signal.h>
        #include <unistd.h>
        static volatile int there;
        void __attribute__((noinline)) rest(int number) {
            while (!there) {
                if (number)
                    there = 1;
                usleep(100000);
            }
            if (!number)
                raise(SIGABRT);
            while (there)
                pause();
        }
        int main(void) {
            #pragma omp parallel num_threads(2)
            rest(omp_get_thread_num());
        }
        """,
        flags=("-O2", "-g0"),
    )
    with Session.open_core(told) as session:
        found = [row.where for row in threads.ask(session).rows]
        shown = [[frame for frame in row.frames if frame.kind == "user"] for row in stacks.ask(session).rows]
    assert [frames[1].how for frames in shown] == ["tail-call"] * 2
    assert [(place.function, place.calling) for place in found if place is not None] == [("rest", None)] * 2
    assert [place.address for place in found if place is not None] == [(frames[0].address or 0) - 1 for frames in shown]


def test_who_wakes_the_others_up_does_not_sleep(tmp_path: Path) -> None:
    # The last thread at a barrier calls futex, like the threads that sleep there. gdb stops it in this call.
    (tmp_path / "wake.c").write_text("int main(void) {\n#pragma omp parallel num_threads(2)\n;\n}\n")
    command = [str(compiler("gcc").path), "-g", "-fopenmp", "wake.c", "-o", "wake"]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    gdb = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    # Stop at the first FUTEX_WAKE of any thread: this thread is at the barrier before the region's code, or at the one
    # that ends the region. The other thread sleeps there, or is on its way.
    stop = ["set startup-with-shell off", "catch syscall futex", "condition 1 ($rsi & 0x7f) == 1", "run", "thread"]
    commands = [word for text in (*stop, "generate-core-file core", "kill") for word in ("-ex", text)]
    done = subprocess.run(
        [*gdb, *commands, "./wake"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **ENVIRONMENT},
    )
    if "ptrace" in done.stderr:
        raise Missing("gdb", "ptrace is not permitted", forbidden=True)
    with Session.open_core(tmp_path / "core") as session:
        ways = {native: session.process.waiting.progress(native) for native in session.process.threads.ids()}
    (waker,) = re.findall(r"^\[Current thread is \d+ \(Thread \w+ \(LWP (\d+)\)\)\]", done.stdout, re.MULTILINE)
    assert ways.pop(int(waker)) == "spinning", (ways, done.stdout, done.stderr)
    assert len(ways) == 1 and set(ways.values()) <= {"spinning", "blocked", "released"}, (done.stdout, done.stderr)


GETS_NEST_LOCK = r"""
#include <omp.h>
omp_nest_lock_t nested;
int main(void)
{
    omp_init_nest_lock(&nested);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0)
            omp_set_nest_lock(&nested);
        #pragma omp barrier
    }
    return 0;
}
"""
# gdb steps one thread from the moment when it owns the lock to its return. The owner is behind the mutex and the count.
STEPS = r"""
import gdb
for words in ("pagination off", "confirm off", "width 0", "startup-with-shell off"):
    gdb.execute(f"set {words}")
gdb.execute("break omp_set_nest_lock")
gdb.execute("run")
gdb.execute("set scheduler-locking on")
address = int(gdb.parse_and_eval("(unsigned long)&nested"))
process, number = gdb.selected_inferior(), 0
while not any(process.read_memory(address + 8, 8).tobytes()):
    gdb.execute("stepi", to_string=True)
while gdb.selected_frame().name() != "main._omp_fn.0" and number < 20:
    gdb.execute(f"gcore step{number}", to_string=True)
    number += 1
    gdb.execute("stepi", to_string=True)
gdb.execute("kill")
"""


def test_who_has_just_got_a_nestable_lock_does_not_wait_for_itself(tmp_path: Path) -> None:
    (tmp_path / "gets.c").write_text(GETS_NEST_LOCK)
    (tmp_path / "steps.py").write_text(STEPS)
    command = [str(compiler("gcc").path), "-g", "-fopenmp", "gets.c", "-o", "gets"]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    done = subprocess.run(
        [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", "steps.py", "./gets"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **ENVIRONMENT},
    )
    if "ptrace" in done.stderr:
        raise Missing("gdb", "ptrace is not permitted", forbidden=True)
    told = set()
    for core in sorted(tmp_path.glob("step*[0-9]")):
        with Session.open_core(core) as session:
            (row,) = (row for row in threads.ask(session).rows if row.thread_num == 0)
            verdicts = why.ask(session).rows
        assert row.wait is None or row.wait.owner is None
        told.add(row.unavailable.get("wait.owner", row.unavailable.get("wait")))
        assert [verdict.summary for verdict in verdicts if verdict.stuck == "proven"] == []
    assert "the thread has just got the lock" in told, (done.stdout, done.stderr)
