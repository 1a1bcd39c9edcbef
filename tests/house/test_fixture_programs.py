"""The programs with known truth reach their state, and their truth is consistent and agrees with the source."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import (
    ALL_PROGRAMS,
    BARRIER_PROGRAMS,
    COMPILERS,
    FULL,
    LOCK_KINDS,
    MODES,
    REDUCTIONS,
    TASK_PROGRAMS,
    build,
    require,
    running,
    stopped,
)
from tests.support.build import C_COMPILERS, SUFFIXES
from tests.support.build import PROGRAMS as SOURCES
from tests.support.known_truth import PARAMETERS, by_native_id, every_build
from tests.support.programs import modes_of

# Numbers of threads in a team, idle, and outside of OpenMP (one is the monitor); level and size of each live region.
SHAPES: dict[str, tuple[tuple[int, int, int], list[tuple[int, int]]]] = {
    "nested": ((12, 0, 1), [(1, 3), *[(2, 2)] * 3, *[(3, 2)] * 6]),
    "uneven": ((3, 0, 1), [(1, 2), (2, 2)]),
    "serialized_middle": ((6, 0, 1), [(1, 3), *[(2, 1)] * 3, *[(3, 2)] * 3]),
    "serialized_three": ((2, 0, 1), [(1, 2), *[(2, 1)] * 2, *[(3, 1)] * 2, *[(4, 1)] * 2]),
    "serialized_initial": ((1, 0, 1), [(1, 1), (2, 1)]),
    "critical": ((4, 0, 1), [(1, 4)]),
    "lock": ((4, 0, 1), [(1, 4)]),
    "barrier": ((4, 0, 1), [(1, 4)]),
    "closing_barrier": ((4, 0, 1), [(1, 4)]),
    "two_initial": ((5, 0, 1), [(1, 2), (1, 3)]),
    "shrunk_pool": ((2, 4, 1), [(1, 2)]),
    "no_region": ((1, 0, 1), []),
    "not_initialised": ((0, 0, 2), []),
    "between": ((1, 3, 1), []),
    "extra_pthread": ((3, 0, 2), [(1, 3)]),
    "hang": ((4, 0, 1), [(1, 4)]),
    "many": ((64, 0, 1), [(1, 64)]),
    "task_tree": ((4, 0, 1), [(1, 4)]),
    "task_queued": ((4, 0, 1), [(1, 4)]),
    "icvs": ((5, 0, 1), [(1, 4), (2, 2)]),
    "nest_lock": ((4, 0, 1), [(1, 4)]),
    "lock_kinds": ((7, 0, 1), [(1, 7)]),
    "taskgroup": ((3, 0, 1), [(1, 3)]),
    "task_if0": ((4, 0, 1), [(1, 4)]),
    "task_depend": ((3, 0, 1), [(1, 3)]),
    "taskloop": ((3, 0, 1), [(1, 3)]),
    "task_detach": ((2, 0, 1), [(1, 2)]),
    "task_in_barrier": ((3, 0, 1), [(1, 3)]),
    "two_criticals": ((4, 0, 1), [(1, 4)]),
    "deadlock": ((4, 0, 1), [(1, 4)]),
    "ordered": ((4, 0, 1), [(1, 4)]),
    "for_barrier": ((4, 0, 1), [(1, 4)]),
    "single_barrier": ((4, 0, 1), [(1, 4)]),
    "sections_barrier": ((4, 0, 1), [(1, 4)]),
    "reduction": ((4, 0, 1), [(1, 4)]),
    "reduction_combiner": ((4, 0, 1), [(1, 4)]),
    "atomic_region": ((4, 0, 1), [(1, 4), (2, 1)]),
    "icvs_env": ((7, 0, 1), [(1, 4), (2, 3), (3, 2)]),
    "fortran": ((3, 0, 1), [(1, 3)]),
    "deep": ((8, 0, 1), [(1, 2), *[(2, 2)] * 2, *[(3, 2)] * 4]),
    "task_stack": ((5, 0, 1), [(1, 4), (2, 2)]),
    "single_taskloop": ((3, 0, 1), [(1, 3)]),
    "callbacks": ((5, 0, 1), [(1, 5)]),
    "interrupted": ((3, 0, 1), [(1, 3)]),
    "orphaned": ((4, 0, 1), [(1, 4)]),
    "inlined": ((3, 0, 1), [(1, 3)]),
    "cplusplus": ((4, 0, 1), [(1, 4)]),
    "modules": ((3, 0, 1), [(1, 3)]),
}
BLOCKED = {
    "critical": Counter(critical=3, user=1),
    "lock": Counter(lock=3, user=1),
    "barrier": Counter(barrier=3, user=1),
    "closing_barrier": Counter(implicit_barrier=3, user=1),
    "hang": Counter(lock=1, barrier=3),
    "task_tree": Counter(user=4),
    "task_queued": Counter(user=4),
    "nest_lock": Counter(nest_lock=3, user=1),
    "lock_kinds": Counter(lock=2, nest_lock=1, critical=2, user=2),
    "taskgroup": Counter(taskgroup=2, user=1),
    "task_if0": Counter(user=4),
    "task_depend": Counter(taskwait=1, user=2),
    "taskloop": Counter(user=3),
    "task_detach": Counter(taskwait=1, user=1),
    "task_in_barrier": Counter(barrier=1, user=2),
    "two_criticals": Counter(critical=2, user=2),
    "deadlock": Counter(lock=3, implicit_barrier=1),
    "ordered": Counter(ordered=3, user=1),
    "for_barrier": Counter(workshare_barrier=3, user=1),
    "single_barrier": Counter(workshare_barrier=3, user=1),
    "sections_barrier": Counter(workshare_barrier=3, user=1),
    "reduction": Counter(reduction_barrier=3, user=1),
    "reduction_combiner": Counter(reduction=3, user=1),
    "atomic_region": Counter(atomic=3, user=1),
    "fortran": Counter(critical=2, user=1),
    "deep": Counter(user=4, barrier=4),
    "task_stack": Counter(user=5),
    "single_taskloop": Counter(user=3),
    "callbacks": Counter(user=5),
    "interrupted": Counter(barrier=2, user=1),
    "orphaned": Counter(user=4),
    "inlined": Counter(user=3),
    "cplusplus": Counter(user=4),
    "modules": Counter(user=3),
}
# Explicit tasks by status, and started tasks by the thing that they wait for.
TASKS: dict[str, tuple[Counter[str], Counter[str]]] = {
    "task_tree": (Counter(executing=4, suspended=5, queued=2), Counter(taskwait=6, implicit_barrier=3, parallel=1)),
    "task_queued": (Counter(executing=4, queued=300), Counter(taskwait=4, parallel=1)),
    "icvs": (Counter(executing=1), Counter(parallel=2)),
    "taskgroup": (Counter(executing=2), Counter(taskgroup=2, implicit_barrier=2, parallel=1)),
    "task_if0": (Counter(executing=4, suspended=1), Counter(taskwait=2, parallel=1)),
    "task_depend": (
        Counter(executing=1, queued=1),
        Counter(taskwait=1, dependence=1, implicit_barrier=1, parallel=1),
    ),
    "taskloop": (Counter(executing=3, queued=3), Counter(taskgroup=1, implicit_barrier=2, parallel=1)),
    "task_detach": (Counter(detached=1), Counter(taskwait=1, parallel=1)),
    "task_in_barrier": (Counter(executing=1), Counter(barrier=2, parallel=1)),
    "task_stack": (Counter(executing=3, suspended=5), Counter(taskwait=5, taskgroup=1, parallel=2)),
    "single_taskloop": (Counter(executing=3), Counter(taskgroup=1, workshare_barrier=2, parallel=1)),
    "inlined": (Counter(executing=1), Counter(parallel=1)),
    "cplusplus": (Counter(executing=1), Counter(taskwait=1, parallel=1)),
    "modules": (Counter(executing=1), Counter(parallel=1)),
}
every_mode = pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    [
        pytest.param(*build.values, mode, id=f"{build.id}-{mode}", marks=build.marks)
        for build in PARAMETERS
        for mode in modes_of(*build.values)
    ],
)
every_compiler = pytest.mark.parametrize("compiler", COMPILERS)


def by_key(truth: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {region["key"]: region for region in truth["regions"]}


def test_every_program_has_a_source_and_a_shape() -> None:
    sources = {path.stem for path in SOURCES.iterdir() if path.suffix in SUFFIXES} - {"truth"}
    assert sources == {*ALL_PROGRAMS, *BARRIER_PROGRAMS} and set(ALL_PROGRAMS) == set(SHAPES)


@every_build
@pytest.mark.parametrize(
    ("mode", "flags"),  # the build for OMP_DEBUG is the build for tools
    [("tool", ()), ("neither", ()), ("tool", ("-O2",)), *([("neither", ("-O2",))] * FULL)],
    ids=lambda value: "".join(value) or "-O0",
)
@pytest.mark.quick(
    "tool--O0-orphaned-clang", "neither--O0-fortran-gfortran", "neither--O0-cplusplus-g++", "tool--O2-hang-gcc"
)
def test_compilers_have_nothing_to_warn_of(program: str, compiler: str, mode: str, flags: tuple[str, ...]) -> None:
    assert (build(program, compiler_name=compiler, mode=mode, flags=flags).parent / "warnings").read_text() == ""


def test_the_demonstration_compiles_alone(tmp_path: Path) -> None:
    command = [
        str(require("gcc")),
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fopenmp",
        "-c",
        "hang.c",
        "-o",
        str(tmp_path / "hang.o"),
    ]
    subprocess.run(command, cwd=SOURCES, check=True)


@every_mode
@pytest.mark.quick(
    "barrier-clang-neither",
    "not_initialised-gcc-neither",
    "taskloop-clang-debug",
    "deadlock-gcc-tool",
    "single_barrier-gcc-debug",
    "fortran-gfortran-neither",
    "cplusplus-g++-debug",
    "cplusplus-clang++-tool",
    "modules-gfortran-tool",
)
def test_truth_has_the_shape_of_the_program(program: str, compiler: str, mode: str) -> None:
    truth = stopped(program, compiler=compiler, mode=mode).truth
    roles = Counter(thread["role"] for thread in truth["threads"])
    team_idle_other, regions = SHAPES[program]
    # C code writes the truth, so its compiler is the C compiler.
    assert (truth["program"], truth["compiler"], truth["mode"]) == (program, C_COMPILERS.get(compiler, compiler), mode)
    assert (roles["team"], roles["idle"], roles["other"]) == team_idle_other
    assert sorted((region["level"], region["team_size"]) for region in truth["regions"]) == regions
    if program in BLOCKED:
        assert Counter(thread["blocked_in"] for thread in truth["threads"] if thread["openmp"]) == BLOCKED[program]


@every_mode
@pytest.mark.quick(
    "serialized_middle-gcc-debug",
    "barrier-clang-neither",
    "task_queued-clang-tool",
    "nest_lock-gcc-debug",
    "task_depend-gcc-neither",
    "reduction-gcc-neither",
    "reduction_combiner-clang-debug",
    "fortran-gfortran-neither",
    "callbacks-gcc-debug",
    "orphaned-clang-tool",
    "cplusplus-g++-debug",
    "cplusplus-clang++-tool",
    "modules-gfortran-tool",
)
def test_truth_does_not_contradict_itself(program: str, compiler: str, mode: str) -> None:
    truth = stopped(program, compiler=compiler, mode=mode).truth
    threads, regions = by_native_id(truth), by_key(truth)
    assert len(threads) == len(truth["threads"])
    for region in regions.values():
        lines = (SOURCES / region["file"]).read_text().splitlines()
        assert re.search(r"^ *(#pragma |!\$)omp parallel|PARALLEL \{$", lines[region["line"] - 1])
        assert len(set(region["threads"])) == region["team_size"]
        if region["enclosing"] is None:
            assert region["level"] == 1
        else:
            assert region["level"] == regions[region["enclosing"]]["level"] + 1
            assert region["threads"][0] in regions[region["enclosing"]]["threads"]
        assert region["active_level"] <= region["level"]
    for thread in threads.values():
        if thread["role"] == "team":
            _check_team_thread(thread, regions)
        else:
            assert [
                thread[name] for name in ("thread_num", "team_size", "level", "active_level", "ancestors", "region")
            ] == [None] * 6
        stated = thread["openmp"] and mode != "neither"
        assert (thread["state"] is not None) == stated
        assert (thread["thread_type"] is not None) == thread["openmp"]
        assert (thread["object"] is not None) == (thread["blocked_in"] in ("lock", "nest_lock"))
        for_object = thread["blocked_in"] in ("lock", "nest_lock", "critical")
        for_lock = for_object or thread["blocked_in"] in ("ordered", "atomic", "reduction")
        assert (thread["wait_id"] is not None) == (stated and for_lock)
        assert (thread["object_symbol"] is not None) == for_object
        assert thread["holder"] is None or (thread["holder"] in threads and for_object)
        assert (thread["icvs"] is not None) == (thread["role"] == "team" and program != "no_region")
        assert (thread["thread_data"] is not None) == (thread["tasks"] is not None) == stated
        _check_stack(thread, truth, regions)


def _check_stack(thread: dict[str, Any], truth: dict[str, Any], regions: dict[int, dict[str, Any]]) -> None:
    stack, here = thread["stack"], thread["native_thread_id"]
    assert truth["stacks"] and (stack is None) == (thread["role"] == "idle")
    if stack is None:
        return
    tasks = {task["key"]: task for task in truth["tasks"]}
    primaries = [region["threads"][0] for region in regions.values()]
    first = {key: stack[0][key] for key in ("function", "file", "line")}
    if thread["where"] is None:  # the thread has left the code of its region
        assert thread["blocked_in"] == "implicit_barrier" and stack[0]["thread"] != here
    else:
        assert (first, stack[0]["thread"]) == (thread["where"], here)
    for frame, outer in zip(stack, [*stack[1:], None], strict=True):
        assert (SOURCES / frame["file"]).read_text().splitlines()[frame["line"] - 1].strip() not in ("", "{", "}")
        if outer is not None and outer["thread"] != frame["thread"]:
            assert outer["thread"] in primaries
        if frame["construct"] is None:
            assert frame["construct_line"] is None
            assert outer is None or (outer["task"], outer["thread"]) == (frame["task"], frame["thread"])
            continue
        assert outer is not None and outer["task"] != frame["task"]
        text = (SOURCES / frame["file"]).read_text().splitlines()[frame["construct_line"] - 1]
        assert re.search(rf"omp {frame['construct']}\b|PARALLEL \{{$", text)
        task = tasks[frame["task"]]
        assert (task["function"], task["line"]) == (frame["function"], frame["construct_line"])
        if frame["construct"] == "parallel":
            assert (task["kind"], task["generating"]) == ("implicit", outer["task"])
            assert (outer["function"], outer["line"]) == (frame["function"], frame["construct_line"])
            assert outer["thread"] == regions[task["region"]]["threads"][0]
        else:
            left = tasks[task["scheduling"]]
            # An implicit task that has left the code of its region has no frame.
            ended = left["waits"] == "implicit_barrier" or (left["kind"], outer["task"]) == (
                "implicit",
                left["generating"],
            )
            assert (task["kind"], outer["task"]) == ("explicit", left["generating"] if ended else left["key"])


@every_mode
@pytest.mark.quick(
    "barrier-gcc-tool",
    "no_region-clang-neither",
    "many-gcc-debug",
    "taskloop-gcc-tool",
    "task_detach-clang-neither",
    "sections_barrier-clang-neither",
    "atomic_region-gcc-debug",
    "fortran-gfortran-debug",
    "interrupted-clang-neither",
    "orphaned-gcc-debug",
    "cplusplus-g++-debug",
    "cplusplus-clang++-tool",
    "modules-gfortran-tool",
)
def test_tasks_fit_to_each_other_and_to_the_threads(program: str, compiler: str, mode: str) -> None:
    truth = stopped(program, compiler=compiler, mode=mode).truth
    threads, regions = by_native_id(truth), by_key(truth)
    tasks = {task["key"]: task for task in truth["tasks"]}
    assert len(tasks) == len(truth["tasks"])
    of_thread = Counter(task["thread"] for task in tasks.values() if task["status"] == "executing")
    assert of_thread == Counter(tid for tid, thread in threads.items() if thread["role"] == "team")
    of_region = Counter(task["region"] for task in tasks.values() if task["kind"] == "implicit")
    assert of_region == Counter({key: region["team_size"] for key, region in regions.items()})
    for task in tasks.values():
        assert (task["thread"] is None) == (task["status"] in ("queued", "detached"))
        assert task["generating"] in tasks if task["kind"] != "initial" else task["generating"] is None
        assert task["scheduling"] in (*tasks, None) and (task["scheduling"] is None or task["kind"] == "explicit")
        assert (task["data"] is None) == (mode == "neither")
        assert (task["create_flags"] is None) == (mode == "neither" or task["kind"] != "explicit")
        if task["kind"] == "explicit":
            lines = (SOURCES / task["file"]).read_text().splitlines()
            assert re.search(r"(#pragma |!\$)omp task", lines[task["line"] - 1])
    _check_data(truth, mode)
    if program in TASKS:
        explicit = Counter(task["status"] for task in tasks.values() if task["kind"] == "explicit")
        waits = Counter(task["waits"] for task in tasks.values() if task["waits"] is not None)
        assert (explicit, waits) == TASKS[program]
    elif program not in TASK_PROGRAMS:
        assert all(task["kind"] != "explicit" for task in tasks.values())


def _check_data(truth: dict[str, Any], mode: str) -> None:
    # OMPT's tasks of each thread are those that the program declared. From the innermost task outwards, each step goes
    # to the task that the thread left for this one, or if there is none (implicit tasks) to the generating task.
    if mode == "neither":
        return
    tasks = {task["key"]: task for task in truth["tasks"]}
    regions = by_key(truth)
    for key in ("threads", "regions", "tasks"):
        name = {"threads": "thread_data", "regions": "parallel_data_value", "tasks": "data"}[key]
        numbers = [item[name] for item in truth[key] if item[name] is not None]
        assert len(set(numbers)) == len(numbers)
    kinds = {"initial": 1, "implicit": 2, "explicit": 4}
    for task in tasks.values():
        if task["status"] != "executing":
            continue
        expected, current = [], task
        while current is not None:
            region = regions.get(current["region"])
            expected.append((current["data"], kinds[current["kind"]], region and region["parallel_data_value"]))
            above = current["scheduling"] if current["scheduling"] is not None else current["generating"]
            current = tasks.get(above)
        seen = by_native_id(truth)[task["thread"]]["tasks"]
        told = [(level["task_data"], level["flags"] & 7, level["parallel_data"]) for level in seen]
        assert [level[:2] for level in told] == [level[:2] for level in expected]
        assert told[:-1] == expected[:-1]  # the truth lacks the implicit region of an initial thread


@every_compiler
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group("busy")) for kind in LOCK_KINDS])
@pytest.mark.quick(
    "tas-debug-gcc",
    "tas-debug-clang",
    "tas-neither-clang",
    "futex-neither-gcc",
    "futex-tool-clang",
    "ticket-tool-gcc",
    "queuing-debug-gcc",
    "queuing-neither-gcc",
    "queuing-tool-clang",
    "drdpa-neither-gcc",
)
def test_locks_of_every_kind_are_waited_for(kind: str, compiler: str, mode: str) -> None:
    truth = stopped("lock_kinds", compiler=compiler, mode=mode, env={"KMP_LOCK_KIND": kind}).truth
    assert Counter(thread["blocked_in"] for thread in truth["threads"] if thread["openmp"]) == BLOCKED["lock_kinds"]
    by_number = {thread["thread_num"]: thread["native_thread_id"] for thread in truth["threads"]}
    holders = {"gate": by_number[0], "attic": by_number[0], "ledger": by_number[1], None: None}
    for thread in truth["threads"]:
        assert thread["holder"] == holders[thread["object_symbol"]]
        # The runtime marks waiting threads only for queuing locks.
        waits = kind == "queuing" and mode != "neither" and thread["object_symbol"] is not None
        assert (thread["wait_id"] is not None) == waits


@every_compiler
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", REDUCTIONS)
def test_reductions_of_every_method_are_waited_for(method: str, compiler: str, mode: str) -> None:
    truth = stopped("reduction", compiler=compiler, mode=mode, env={"KMP_FORCE_REDUCTION": method}).truth
    assert Counter(thread["blocked_in"] for thread in truth["threads"] if thread["openmp"]) == BLOCKED["reduction"]


@every_compiler
@pytest.mark.parametrize("mode", MODES)
def test_control_variables_are_what_was_set(compiler: str, mode: str) -> None:
    names = ("max_threads", "dynamic", "max_active_levels", "schedule", "in_final", "default_device")
    truth = stopped("icvs", compiler=compiler, mode=mode).truth
    static, dynamic, auto, monotonic = 1, 2, 4, 1 << 31
    told = {
        tuple(level["thread_num"] for level in thread["ancestors"][1:]): [thread["icvs"][name] for name in names]
        for thread in truth["threads"]
        if thread["openmp"]
    }
    assert told == {
        (0,): [2, True, 1, [static, 3], False, 0],
        (1,): [9, True, 7, [auto, 1], True, 1],
        (2, 0): [5, False, 4, [monotonic | dynamic, 7], False, 0],
        (2, 1): [11, True, 2, [dynamic, 13], False, 0],
        (3,): [6, False, 4, [static, 0], False, 0],
    }
    truth = stopped("icvs_env", compiler=compiler, mode=mode).truth
    for thread in (thread for thread in truth["threads"] if thread["openmp"]):
        icvs, level = thread["icvs"], thread["level"]
        assert icvs["max_threads"] == {1: 3, 2: 2, 3: 2}[level]
        assert (icvs["max_active_levels"], icvs["thread_limit"]) == (3, 20)
        assert (icvs["cancellation"], icvs["max_task_priority"], icvs["proc_bind"]) == (True, 5, 3)
        assert icvs["schedule"] == [monotonic | dynamic, 7]


@every_compiler
def test_as_many_tasks_are_queued_as_asked(compiler: str) -> None:
    truth = stopped("task_queued", compiler=compiler, env={"TASKS": "1000"}, threads=8).truth
    status = Counter(task["status"] for task in truth["tasks"] if task["kind"] == "explicit")
    assert status == Counter(queued=1000, executing=8)


def _check_team_thread(thread: dict[str, Any], regions: dict[int, dict[str, Any]]) -> None:
    assert len(thread["ancestors"]) == thread["level"] + 1
    innermost = thread["ancestors"][-1]
    assert (innermost["thread_num"], innermost["team_size"]) == (thread["thread_num"], thread["team_size"])
    key = thread["region"]
    if key is None:
        assert (thread["level"], thread["team_size"]) == (0, 1)
        return
    assert regions[key]["threads"][thread["thread_num"]] == thread["native_thread_id"]
    for ancestor in reversed(thread["ancestors"][1:]):
        region = regions[key]
        assert (region["level"], region["team_size"]) == (ancestor["level"], ancestor["team_size"])
        key = region["enclosing"]
    assert key is None


OTHER_BUILDS = {"O2-pie": (("-O2",), True), "O0-nopie": ((), False), "O2-nopie": (("-O2",), False)}


@pytest.mark.parametrize(
    ("program", "compiler", "flags", "pie"),
    [
        pytest.param(*build.values, *other, id=f"{build.id}-{name}", marks=build.marks)
        for number, build in enumerate(PARAMETERS)
        for turn, (name, other) in enumerate(OTHER_BUILDS.items())
        if FULL or turn == number % len(OTHER_BUILDS)
    ],
)
@pytest.mark.quick("taskgroup-clang-O2-pie", "task_if0-gcc-O0-nopie")
def test_optimized_and_fixed_address_programs_get_into_the_same_state(
    program: str, compiler: str, flags: tuple[str, ...], pie: bool
) -> None:
    usual = stopped(program, compiler=compiler, mode="tool")
    other = stopped(program, compiler=compiler, mode="tool", flags=flags, pie=pie)
    assert _facts(other.truth) == _facts(usual.truth)


def _facts(truth: dict[str, Any]) -> Counter[str]:
    names = ("role", "thread_type", "thread_num", "team_size", "level", "active_level", "blocked_in", "where")
    return Counter(repr([thread[name] for name in names]) for thread in truth["threads"])


def test_a_team_can_be_as_large_as_asked() -> None:
    truth = stopped("many", threads=5).truth
    assert [region["team_size"] for region in truth["regions"]] == [5]


def test_a_live_program_stays_in_its_state_and_ends_with_its_context(tmp_path: Path) -> None:
    with running("barrier", folder=tmp_path) as live:
        tasks = {int(path.name) for path in Path(f"/proc/{live.pid}/task").iterdir()}
        assert tasks == set(by_native_id(live.truth))
    assert not Path(f"/proc/{live.pid}").exists()
