"""The OMPD libraries of Intel and LLVM answer like ompd's own plugin, row by row.

The tests compare cores and live processes of the fixtures' programs. The libraries differ for serialized regions
directly inside of one another: the first difference in docs/check.md. The plugin knows from stacks that a thread waits
for tasks, which the runtime does not note. OMPD does not list tasks in queues, and does not tell the compiler's notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.inspection import Inspection
from ompd.model import RegionFunction, TaskFrame
from tests.support import ALL_PROGRAMS, FULL, running, stopped
from tests.support.ompd_libraries import ompd_library
from tests.support.products import sample
from tests.support.programs import Program

SAMPLED = (
    *("nested", "uneven", "two_initial", "task_tree", "task_if0", "lock", "closing_barrier", "shrunk_pool", "icvs_env"),
    *("cplusplus", "not_initialised"),
)
SAMPLED_LIVE = ("nested", "task_tree", "lock", "icvs_env")
TELLS_OTHER = ("serialized_three", "serialized_initial")
# The library that answers for each runtime. LLVM's runtime has only the bare name of its library.
LIBRARIES = {"intel": "named", "libomp-19-debug": "llvm-19"}
NOT_NOTED = ("wait_taskwait", "wait_taskgroup")
# Variables that a library writes differently or does not have.
OTHERWISE = ("tool-var", "wait-policy-var", "target-offload-var")


def cases(sampled: Sequence[str], of: Callable[[Program], tuple[str, ...]] = lambda program: program.compilers) -> Any:
    """Return cases of programs, compilers and runtimes: all, or for each runtime a sample of the programs *sampled*.

    :param of: returns the compilers of a program
    """
    names = [name for name in ALL_PROGRAMS if name not in TELLS_OTHER] if FULL else sampled
    return [
        pytest.param(*case, marks=[pytest.mark.xdist_group("busy")] * ALL_PROGRAMS[case[0]].spins)
        for runtime in LIBRARIES
        for case in sample([(name, by, runtime) for name in names for by in of(ALL_PROGRAMS[name])])
    ]


class Named:
    """Names of regions and tasks that are the same for the plugin and for a library."""

    def __init__(self, session: Inspection) -> None:
        self.regions: dict[str | None, Any] = {None: None}
        self.tasks: dict[str | None, Any] = {None: None}
        self.region_rows, self.task_rows = session.ask_parallel().rows, session.ask_tasks().rows
        for region in self.region_rows:
            self.regions[region.id] = (region.threads, region.level, self.regions[region.enclosing])
        for task in self.task_rows:
            self.tasks[task.id] = (
                *(task.kind, task.thread, self.regions[task.parallel], _address(task.exit_frame)),
                *(_address(task.enter_frame), self.tasks[task.generating]),
            )


def _address(frame: TaskFrame | None) -> int | None:
    return frame.address if frame is not None else None


def library_of(runtime: str) -> str:
    """Return the argument ``ompd_library`` for a runtime."""
    name = LIBRARIES[runtime]
    return name if name == "named" else str(ompd_library(name))


def answers(opened: Inspection, *, is_by_library: bool = False) -> dict[str, dict[object, Any]]:
    """Return the answers about threads, regions, tasks, stacks and variables, under names that both sides have."""
    with opened as session:
        found: dict[str, dict[object, Any]] = session.ask(_answers)
        by = [runtime.plugin for runtime in session.ask_runtimes().rows]
        assert all((plugin or "").startswith("OMPD library ") == is_by_library for plugin in by) or not found["icvs"]
        return found


def _answers(session: Inspection) -> dict[str, dict[object, Any]]:
    named = Named(session)
    found: dict[str, dict[object, Any]] = {"threads": {}, "regions": {}, "tasks": {}, "stacks": {}, "icvs": {}}
    for row in session.ask_threads().rows:
        state = "work_parallel" if row.state in NOT_NOTED else row.state
        found["threads"][row.native_thread_id] = (
            *(
                row.runtime,
                row.thread_num,
                row.team_size,
                row.level,
                row.active_level,
                row.ancestors,
                row.thread_type,
            ),
            *(state, row.wait_id, row.tool_data, row.where, row.at_end_of),
            *(named.regions[row.parallel], named.tasks[row.task]),
        )
    for region in named.region_rows:
        told: tuple[RegionFunction | None, object, object] = (
            region.function,
            region.active_level,
            region.tool_data,
        )
        found["regions"][named.regions[region.id]] = told
    for task in named.task_rows:
        if task.status not in ("queued", "waiting", "detached", "complete"):
            found["tasks"][named.tasks[task.id]] = (
                *(task.status, task.final, task.tool_data, task.function, named.tasks[task.scheduling]),
            )
    for stack in session.ask_stacks().rows:
        found["stacks"][stack.native_thread_id] = (
            (stack.boundaries, stack.stopped),
            [
                (frame.function, frame.file, frame.line, frame.address, frame.construct, named.tasks[frame.task])
                for frame in stack.frames
            ],
        )
    for icv in session.ask_icvs().rows:
        if icv.name not in OTHERWISE:
            handle = named.regions.get(icv.handle) or named.tasks.get(icv.handle) or icv.handle
            found["icvs"][icv.name, icv.scope, handle] = icv.value
    return found


def without_notes(ours: dict[str, dict[object, Any]], theirs: dict[str, dict[object, Any]]) -> int:
    """Remove from *ours* the functions that only the compiler's notes name. Return how many tasks had one."""
    found = 0
    for key, (*_, other, _) in theirs["tasks"].items():
        status, final, tool_data, function, scheduling = ours["tasks"].get(key, (None,) * 5)
        if other is not None and other.function is None and function is not None and function.function is not None:
            ours["tasks"][key] = status, final, tool_data, replace(function, function=None), scheduling
            found += 1
    for thread, (_, frames) in ours["stacks"].items():
        for number, (one, other) in enumerate(zip(frames, theirs["stacks"][thread][1], strict=True)):
            if other[0] is None and one[0] is not None:
                frames[number] = (None, *one[1:])
    return found


def assert_same(ours: dict[str, dict[object, Any]], theirs: dict[str, dict[object, Any]]) -> None:
    """Check that the plugin and the library have answered the same."""
    for what, rows in ours.items():
        assert theirs[what] == rows, what


@pytest.mark.parametrize(("program", "compiler", "runtime"), cases(SAMPLED))
@pytest.mark.quick(
    "two_initial-gcc-intel",
    "task_tree-clang-intel",
    "task_if0-gcc-intel",
    "closing_barrier-gcc-intel",
    "cplusplus-g++-intel",
    "not_initialised-clang-intel",
    "nested-gcc-libomp-19-debug",
    "uneven-clang-libomp-19-debug",
    "lock-clang-libomp-19-debug",
    "shrunk_pool-clang-libomp-19-debug",
    "icvs_env-gcc-libomp-19-debug",
    "cplusplus-clang++-libomp-19-debug",
)
def test_of_a_core_it_is_what_our_own_plugin_answers(program: str, compiler: str, runtime: str) -> None:
    core = stopped(program, compiler=compiler, runtime=runtime).core
    ours = answers(ompd.open_core(core))
    theirs = answers(ompd.open_core(core, ompd_library=library_of(runtime)), is_by_library=True)
    assert (without_notes(ours, theirs) > 0) == ((program, compiler) == ("cplusplus", "clang++"))
    assert_same(ours, theirs)
    assert program == "not_initialised" or (ours["threads"] and ours["icvs"])


@pytest.mark.parametrize(
    ("program", "compiler", "runtime"), cases(SAMPLED_LIVE, lambda program: program.compilers[-1:])
)
@pytest.mark.quick(
    "task_tree-clang-intel", "lock-clang-intel", "nested-clang-libomp-19-debug", "icvs_env-clang-libomp-19-debug"
)
def test_of_a_live_process_it_is_what_our_own_plugin_answers(
    program: str, compiler: str, runtime: str, tmp_path: Path
) -> None:
    library = library_of(runtime)
    with running(program, compiler=compiler, runtime=runtime, folder=tmp_path) as live:
        ours = answers(ompd.attach(live.pid, max_stop=60_000))
        theirs = answers(ompd.attach(live.pid, max_stop=60_000, ompd_library=library), is_by_library=True)
    without_notes(ours, theirs)
    assert_same(ours, theirs)
    assert program == "not_initialised" or (ours["threads"] and ours["icvs"])


@pytest.mark.parametrize("runtime", LIBRARIES)
@pytest.mark.parametrize("program", TELLS_OTHER)
def test_where_it_answers_otherwise_it_is_a_known_difference(program: str, runtime: str) -> None:
    core = stopped(program, compiler="clang", runtime=runtime).core
    ours = answers(ompd.open_core(core))
    theirs = answers(ompd.open_core(core, ompd_library=library_of(runtime)), is_by_library=True)
    assert len(theirs["regions"]) < len(ours["regions"])
    with ompd.open_core(core, ompd_library=library_of(runtime)) as session:
        found = session.ask_check()
    assert [row for row in found.rows if row.entry is None] == []
    assert {1, 2, 3} <= {entry.number for entry in found.entries if entry.state == "seen"}


def test_no_library_answers_before_the_runtime_has_begun() -> None:
    # The library would report variables without a value yet as settings.
    core = stopped("not_initialised", compiler="clang").core
    with ompd.open_core(core, ompd_library=ompd_library("intel-2026")) as session:
        icvs, threads = session.ask_icvs(), session.ask_threads()
        (runtime,) = session.ask_runtimes().rows
    assert (icvs.rows, threads.complete) == ((), True) and not str(runtime.plugin).startswith("OMPD library")
    assert "no OpenMP construct or routine has run yet" in " ".join(icvs.warnings)
