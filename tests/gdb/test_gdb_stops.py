"""Lines that gdb prints at stops and when a runtime begins, and breakpoints at OpenMP's events."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.stub.programs import built
from tests.support.gdb import open_program, replies
from tests.support.lldb import build_regions
from tests.support.machine import require
from tests.support.products import each_gdb

pytestmark = pytest.mark.xdist_group("gdb")

DEBUG = "set environment OMP_DEBUG enabled"
NO_PLACES = "no runtime of the program has places for events"


def figure_8(library: str) -> str:
    name = f"figure8-{library[:-3]}"
    return open_program(built("figure8.c", "stop.c", name=name, flags=("-DBY_KEY",), library=library))


@each_gdb()
def test_a_line_at_each_stop_of_every_run(found: str) -> None:
    told = replies(
        *("omp auto on", open_program(build_regions() / "regions"), DEBUG, "break 16", "run", "continue", "kill"),
        *("run", "omp auto off", "continue", "omp auto on", "continue", "omp auto", "omp auto maybe", "omp status"),
        name=found,
    )
    first, second, third, silent, again = told.all("run", "continue")
    for text in (first, third):
        assert text.count("OpenMP:") == 2 and "OpenMP: libiomp5.so has begun\n" in text
        assert re.search("OpenMP: 2 threads in 1 region: .*1 work_parallel.*; this is thread 0/2 at level 1\n", text)
    assert second.count("OpenMP:") == 1 and "OpenMP: 3 threads in 1 region: 2 wait_barrier" in second
    assert "OpenMP" not in silent
    assert again.count("OpenMP:") == 1 and "OpenMP: 4 threads in 1 region: 3 wait_barrier" in again
    assert told["omp auto"] == "ompd auto is on\n" and "auto      on\n" in told["omp status"]
    assert told["omp auto maybe"] == "ompd: expected on or off\nompd: ompd auto on\n"


@each_gdb()
def test_a_runtime_that_is_loaded_later_is_seen(found: str) -> None:
    folder = build_regions()
    told = replies(
        *(open_program(folder / "opener"), DEBUG, "omp auto on", "omp break parallel_begin", "break main", "run"),
        *("delete 2", "continue", "omp threads --json", "info breakpoints"),
        name=found,
        cwd=folder,
    )
    assert "OpenMP: no OpenMP runtime among its" in told["run"]
    assert "OpenMP: libiomp5.so has begun\n" in told["continue"]
    assert "hit Breakpoint 1, ompd_bp_parallel_begin () " in told["continue"]
    assert told["info breakpoints"].count("ompd_") == 1


@each_gdb()
def test_a_walk_ends_with_the_line(found: str) -> None:
    told = replies(
        *(open_program(build_regions() / "regions"), DEBUG, "break 16", "omp auto on", "run", "omp next"), name=found
    )
    assert told["omp next"].count("OpenMP:") == 1
    assert told["omp next"].splitlines()[-1].startswith("OpenMP: 2 threads in 1 region: ")


@pytest.mark.parametrize("library", ["libomp_stub.so", "libomp_stub_label.so"])
@each_gdb()
@pytest.mark.quick("gdb-16-libomp_stub.so")
def test_the_program_stops_at_events(found: str, library: str) -> None:
    # The places are functions in one library and labels in the other.
    told = replies(
        *(figure_8(library), DEBUG, "omp auto on", "omp break parallel_begin", "omp break task_begin --thread 2"),
        *("run", "omp threads --json", "continue", "omp thread", "kill", "delete 2", "omp break thread_begin", "run"),
        name=found,
    )
    assert told["omp break parallel_begin"] == "Breakpoint 1 at parallel_begin (ompd_bp_parallel_begin)\n"
    assert told["omp break task_begin --thread 2"].endswith("(ompd_bp_task_begin), in OpenMP thread 2\n")
    begins, again = told.all("run")
    assert f"OpenMP: {library} has begun\n" in begins and "hit Breakpoint 1, ompd_bp_parallel_begin () " in begins
    # The region exists as soon as its begin is reported.
    rows = json.loads(told["omp threads --json"])["threads"]
    assert [(row["thread_num"], row["team_size"], row["level"]) for row in rows] == [(n, 4, 1) for n in range(4)]
    assert "hit Breakpoint 2, ompd_bp_task_begin () " in told["continue"]
    assert "OpenMP thread 2/4 at level 1" in told["omp thread"]
    assert "Breakpoint 3, ompd_bp_thread_begin () " in again


@each_gdb()
def test_events_that_will_not_come_are_said(found: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    program = 'int main(void) {\n#pragma omp parallel\n__asm__ volatile("");\nreturn 0; }\n'
    command = [require("gcc"), "-g", "-fopenmp", "-x", "c", "-", "-o", str(plain)]
    subprocess.run(command, input=program, text=True, check=True)
    told = replies(
        *(open_program(plain), "omp break task_end", "run", "break main", "run ", "omp break parallel_end", "kill"),
        *(open_program(build_regions() / "regions"), "delete", "omp break parallel_begin", "break 16", "run  "),
        "omp break thread_end",
        name=found,
    )
    assert told["run"].endswith(f"OpenMP: breakpoint 1 was nowhere: {NO_PLACES}\n")
    assert told["omp break parallel_end"].startswith("ompd: libgomp.so.1.0.0 has no places for events (ompd_bp_*)\n")
    reason = "the runtime passes its places for events only if the program was started with OMP_DEBUG=enabled\n"
    assert f"OpenMP: {reason}" in told["run  "] and told["omp break thread_end"] == f"ompd: {reason}"
