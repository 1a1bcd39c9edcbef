"""The programs with known truth get into their state; what they write fits together, with the source, with gdb."""

from __future__ import annotations

import platform
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import (
    ALL_PROGRAMS,
    BARRIER_PROGRAMS,
    COMPILERS,
    FULL,
    KINDS,
    LOCK_KINDS,
    MODES,
    REDUCTIONS,
    STACK_PROGRAMS,
    TASK_PROGRAMS,
    Stopped,
    build,
    clean_environment,
    require,
    running,
    stopped,
    stopped_twice,
)
from tests.support.build import C_COMPILERS, SUFFIXES, source
from tests.support.build import PROGRAMS as SOURCES
from tests.support.programs import modes_of

# Threads in a team, idle and of no concern to OpenMP (one is the monitor); sizes of the live regions by level.
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
# Explicit tasks by what became of them, and what the tasks that have been started wait for.
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
PARAMETERS = [
    pytest.param(
        name,
        compiler,
        id=f"{name}-{compiler}",
        marks=[pytest.mark.xdist_group("busy")] if program.spins or name == "many" else [],
    )
    for name, program in ALL_PROGRAMS.items()
    for compiler in program.compilers
]
every_build = pytest.mark.parametrize(("program", "compiler"), PARAMETERS)
every_mode = pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    [
        pytest.param(*build.values, mode, id=f"{build.id}-{mode}", marks=build.marks)
        for build in PARAMETERS
        for mode in modes_of(*build.values)
    ],
)
every_compiler = pytest.mark.parametrize("compiler", COMPILERS)


def by_native_id(truth: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {thread["native_thread_id"]: thread for thread in truth["threads"]}


def by_key(truth: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {region["key"]: region for region in truth["regions"]}


def test_every_program_has_a_source_and_a_shape() -> None:
    sources = {path.stem for path in SOURCES.iterdir() if path.suffix in SUFFIXES} - {"truth"}
    assert sources == {*ALL_PROGRAMS, *BARRIER_PROGRAMS} and set(ALL_PROGRAMS) == set(SHAPES)


@every_build
@pytest.mark.parametrize(
    ("mode", "flags"),  # what is built for OMP_DEBUG is what is built for tools
    [("tool", ()), ("neither", ()), ("tool", ("-O2",)), *([("neither", ("-O2",))] * FULL)],
    ids=lambda value: "".join(value) or "-O0",
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
def test_truth_has_the_shape_of_the_program(program: str, compiler: str, mode: str) -> None:
    truth = stopped(program, compiler=compiler, mode=mode).truth
    roles = Counter(thread["role"] for thread in truth["threads"])
    team_idle_other, regions = SHAPES[program]
    # What the program writes is compiled as C.
    assert (truth["program"], truth["compiler"], truth["mode"]) == (program, C_COMPILERS.get(compiler, compiler), mode)
    assert (roles["team"], roles["idle"], roles["other"]) == team_idle_other
    assert sorted((region["level"], region["team_size"]) for region in truth["regions"]) == regions
    if program in BLOCKED:
        assert Counter(thread["blocked_in"] for thread in truth["threads"] if thread["openmp"]) == BLOCKED[program]


@every_mode
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
    if thread["where"] is None:  # it has left the code of its region
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
    # What OMPT tells of each thread's tasks is what the program declared: from its innermost one outwards by way of
    # those that its thread left for them, from an implicit one by way of the one that generated it.
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
        assert told[:-1] == expected[:-1]  # the implicit region of an initial thread is not in the truth


@every_compiler
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group("busy")) for kind in LOCK_KINDS])
def test_locks_of_every_kind_are_waited_for(kind: str, compiler: str, mode: str) -> None:
    truth = stopped("lock_kinds", compiler=compiler, mode=mode, env={"KMP_LOCK_KIND": kind}).truth
    assert Counter(thread["blocked_in"] for thread in truth["threads"] if thread["openmp"]) == BLOCKED["lock_kinds"]
    by_number = {thread["thread_num"]: thread["native_thread_id"] for thread in truth["threads"]}
    holders = {"gate": by_number[0], "attic": by_number[0], "ledger": by_number[1], None: None}
    for thread in truth["threads"]:
        assert thread["holder"] == holders[thread["object_symbol"]]
        # Without a queuing lock the runtime does not mark who waits for it.
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
def test_optimized_and_fixed_address_programs_get_into_the_same_state(
    program: str, compiler: str, flags: tuple[str, ...], pie: bool
) -> None:
    usual = stopped(program, compiler=compiler, mode="tool")
    other = stopped(program, compiler=compiler, mode="tool", flags=flags, pie=pie)
    assert _facts(other.truth) == _facts(usual.truth)


def _facts(truth: dict[str, Any]) -> Counter[str]:
    names = ("role", "thread_type", "thread_num", "team_size", "level", "active_level", "blocked_in", "where")
    return Counter(repr([thread[name] for name in names]) for thread in truth["threads"])


class GdbFrame(NamedTuple):
    """A frame of gdb's backtrace: *function* without parameters, *file* and *line* None where it has no source."""

    function: str
    file: str | None
    line: int | None


def gdb_stacks(core: Stopped) -> dict[int, list[GdbFrame]]:
    """Return all frames of each thread, inlined functions too, innermost first."""
    command = [
        str(require("gdb")),
        "-nx",
        "-batch",
        *("-iex", "set debuginfod enabled off"),
        *("-iex", "set print frame-arguments presence"),
        *("-iex", "set width 0"),
        str(core.executable),
        str(core.core),
        *("-ex", "thread apply all backtrace"),
    ]
    text = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment(), check=True
    ).stdout
    stacks: dict[int, list[GdbFrame]] = {}
    frames: list[GdbFrame] = []  # gdb begins with the frame of the thread that it selected
    for line in text.splitlines():
        if found := re.match(r"Thread \d+ \(.*LWP (\d+)\)", line):
            frames = stacks.setdefault(int(found[1]), [])
        elif found := re.match(
            r"#\d+ +(?:0x[0-9a-f]+ in )?(.+?)(?: \((?:\.\.\.)?\))?(?: at (.+):(\d+))?(?: from .*)?$", line
        ):
            # Some names of compiler-made functions have parameters in them.
            name = re.sub(r"(_omp_fn\.\d+|_debug__|operator\(\))\(.*\)(?: const)?$", r"\1", found[1])
            frames.append(GdbFrame(name, found[2] and Path(found[2]).name, int(found[3]) if found[3] else None))
    return stacks


OUTLINED = re.compile(
    r"^(?:(\w+)::)?(\w*)\._omp_fn\.\d+$|^\.omp_(?:outlined|task_entry)\.|^(\w+)(?:\.omp_outlined[\w.]*)+$"
)
# clang's from 17 on have the name of the function before them, and one mark behind the other.
OF_CLANG = re.compile(r"^\.omp_outlined\.|^\w+\.omp_outlined")
BODY = re.compile(r"_debug__(?:\.\d+)?$")


def user_frames(frames: list[GdbFrame], files: Sequence[str], compiler: str) -> list[GdbFrame]:
    """Return those of *frames* that are in the source, where compilers add some of their own: clang's function of a
    region calls one that has its code, its function of a task too, and so does one that combines for a reduction;
    gfortran's ``main`` calls the program."""
    own = []
    for inner, frame in zip([None, *frames], frames, strict=False):
        if frame.file not in files:
            continue
        calls_outlined = inner is not None and OF_CLANG.match(inner.function)
        if frame.function.startswith(".omp_task_entry.") and calls_outlined:
            continue
        is_body = inner is not None and BODY.search(inner.function) and not BODY.search(frame.function)
        if OF_CLANG.match(frame.function) and calls_outlined and is_body:
            continue
        if frame.function == ".omp_combiner." or (compiler == "gfortran" and frame.function == "main"):
            continue
        own.append(frame)
    return own


def is_named(frame: GdbFrame, stated: dict[str, Any], compiler: str) -> bool:
    """Tell whether gdb's name of a frame fits to the program's: that of a function in which a construct is."""
    outlined = OUTLINED.search(frame.function)
    if (outlined is not None) != (stated["construct"] is not None):
        return False
    name = frame.function
    if outlined is not None:
        if outlined[2] is None and outlined[3] is None:
            return True
        # gfortran's names have the procedure first, and then as linkers know it.
        name = outlined[1] or outlined[2] or outlined[3]
        if name.startswith("_Z"):
            return _demangled(name) == stated["function"]
    if compiler == "gfortran":
        name = name.rpartition("::")[2]
    # The class of a lambda expression has no name; compilers make different ones.
    return name == stated["function"] or (stated["function"] == "operator()" and name.endswith("::operator()"))


def _demangled(symbol: str) -> str:
    command = [str(require("c++filt")), "--no-params", symbol]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("program", "compiler", "flags"),
    [
        pytest.param(*build.values, flags, id=f"{build.id}-{level}", marks=build.marks)
        for number, build in enumerate(PARAMETERS)
        for level, flags in (("O0", ()), ("O2", ("-O2",)))
        # What the others say of their stacks is the same code's, whichever compiler made it.
        if FULL or (build.values[0] in STACK_PROGRAMS and (flags or number % 2)) or (number % 8 == 0 and not flags)
    ],
)
def test_gdb_sees_the_same_threads_at_the_same_lines(program: str, compiler: str, flags: tuple[str, ...]) -> None:
    core = stopped(program, compiler=compiler, mode="tool", flags=flags)
    threads, stacks = by_native_id(core.truth), gdb_stacks(core)
    assert set(stacks) == set(threads)
    for native_thread_id, thread in threads.items():
        found = user_frames(stacks[native_thread_id], (source(program).name, "truth.c"), compiler)
        # What follows on other threads is no part of this thread's stack.
        stated = [frame for frame in thread["stack"] or () if frame["thread"] == native_thread_id]
        assert [frame[1:] for frame in found] == [(frame["file"], frame["line"]) for frame in stated]
        for frame, true in zip(found, stated, strict=True):
            assert is_named(frame, true, compiler), (frame, true)


# The stacks of all threads that execute a region, from the outermost function inwards; "parallel" and the like are the
# bodies of such constructs, and ">" is where a stack goes on upon another thread's.
STACKS = {
    "closing_barrier": """
        main
        main > main.parallel straggle
        main >
        main >
    """,
    "nested": """
        main main.parallel main.parallel innermost innermost.parallel
        main main.parallel main.parallel innermost > innermost.parallel
        main main.parallel > main.parallel innermost innermost.parallel
        main main.parallel > main.parallel innermost > innermost.parallel
        main > main.parallel main.parallel innermost innermost.parallel
        main > main.parallel main.parallel innermost > innermost.parallel
        main > main.parallel > main.parallel innermost innermost.parallel
        main > main.parallel > main.parallel innermost > innermost.parallel
        main > main.parallel main.parallel innermost innermost.parallel
        main > main.parallel main.parallel innermost > innermost.parallel
        main > main.parallel > main.parallel innermost innermost.parallel
        main > main.parallel > main.parallel innermost > innermost.parallel
    """,
    "two_initial": """
        main main.parallel
        main > main.parallel
        main > main.parallel
        second second.parallel
        second > second.parallel
    """,
    "extra_pthread": """
        main main.parallel
        main > main.parallel
        main > main.parallel
        listen
    """,
    "task_tree": """
        main main.parallel plant grow_twig.task unfold
        main > plant.task grow_trunk grow_twig.task unfold
        main > grow_trunk.task grow_bough grow_bough.task grow_twig grow_twig.task unfold
        main > grow_trunk.task grow_bough grow_bough.task grow_twig grow_twig.task unfold
    """,
    "task_in_barrier": """
        main main.parallel create
        main > main.parallel
        main > main.parallel create.task
    """,
    "taskloop": """
        main main.parallel loop loop.taskloop step
        main > loop.taskloop step
        main > loop.taskloop step
    """,
    "deep": """
        main set_out A explore B survey dig C work descend descend descend descend
        main set_out A explore B survey dig > C work meet
        main set_out A explore > B survey dig C work descend descend descend descend
        main set_out A explore > B survey dig > C work meet
        main set_out > A explore B survey dig C work descend descend descend descend
        main set_out > A explore B survey dig > C work meet
        main set_out > A explore > B survey dig C work descend descend descend descend
        main set_out > A explore > B survey dig > C work meet
    """.replace("A", "set_out.parallel")
    .replace("B", "explore.parallel")
    .replace("C", "dig.parallel"),
    "task_stack": """
        main main.parallel take take.task take take.task take take.task finish
        main > main.parallel all_at_once all_at_once.task at_once at_once.task finish
        main > main.parallel spread_in_task spread_in_task.task spread spread.parallel finish
        main > main.parallel spread_in_task spread_in_task.task spread > spread.parallel finish
        main > main.parallel group group group group.task take take.task finish
    """,
    "single_taskloop": """
        main main.parallel loop.taskloop step
        main > main.parallel loop loop.taskloop step
        main > main.parallel loop.taskloop step
    """,
    "callbacks": """
        main main.parallel sort compare think
        main > main.parallel prepare_once prepare think
        main > main.parallel be_interrupted handle think
        main > main.parallel fail handle think
        main > main.parallel think
    """,
    "interrupted": """
        main main.parallel meet handle report
        main > main.parallel
        main > main.parallel meet handle report
    """,
    "orphaned": """
        main main.parallel share_evenly share iterate hold
        main > main.parallel share iterate hold
        main > main.parallel share_evenly share hold
        main > main.parallel share hold
    """,
    "inlined": """
        main spread spread.parallel pause_in_task pause_in_task.task hold
        main spread > spread.parallel hold_or_rest hold
        main spread > spread.parallel hold_or_rest rest
    """,
    "cplusplus": """
        main S S.parallel heat::(anonymous namespace)::repeat<3> P::spread P::spread.task P::relax
        main S > S.parallel heat::(anonymous namespace)::Sensor::operator+= heat::(anonymous namespace)::Sensor::read
        main S > S.parallel operator()
        main S > S.parallel P::relax P::relax P::relax
    """.replace("S ", "heat::simulate ")
    .replace("S.", "heat::simulate.")
    .replace("P::", "heat::Plate<double>::"),
    "modules": """
        modules simulate simulate.parallel refine refine refine hold
        modules simulate > simulate.parallel inspect refine hold
        modules simulate > simulate.parallel measure measure.task measured hold
    """,
}


@pytest.mark.parametrize(
    ("program", "compiler"), [(name, compiler) for name in STACKS for compiler in ALL_PROGRAMS[name].compilers]
)
def test_stacks_are_those_of_the_source(program: str, compiler: str) -> None:
    truth = stopped(program, compiler=compiler).truth
    lines = []
    for thread in truth["threads"]:
        words, on = [], None
        for frame in reversed(thread["stack"] or ()):
            words += [">"] * (on not in (None, frame["thread"]))
            words.append(frame["function"] + (f".{frame['construct']}" if frame["construct"] else ""))
            on = frame["thread"]
        words += [">"] * (thread["stack"] is not None and on != thread["native_thread_id"])
        if thread["native_thread_id"] != truth["monitor"]:
            lines.append(" ".join(words))
    assert sorted(lines) == sorted(line.strip() for line in STACKS[program].strip().splitlines())
    assert all(
        frame["inlined"] == (program == "inlined" and frame["function"] in ("hold", "hold_or_rest", "spread"))
        for thread in truth["threads"]
        for frame in thread["stack"] or ()
        if frame["construct"] is None
    )


# Parts of the function itself, and routines in which no program of these stops.
NEVER_STOPS = re.compile(
    r"\.text\.unlikely|.*[. ]cold\]?$|truth_\w+$|omp_unset_\w+$|GOMP_\w+_end$|__kmpc_end_(?:critical|reduce)\w*$"
)


def left_by_jumps(program: Path) -> dict[str, list[str]]:
    """Return the functions of a program's own object file, and where each jumps to that is not in it."""
    command = [
        str(require("objdump")),
        "-d",
        "-r",
        "-C",
        "--no-show-raw-insn",
        str(program.with_name(f"{program.name}.o")),
    ]
    text = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True).stdout
    functions: dict[str, list[str]] = {}
    name = pending = before = ""
    for line in text.splitlines():
        if found := re.match(r"\s+[0-9a-f]+: R_X86_64_\w+\s+(.*?)(?:[-+]0x[0-9a-f]+)?$", line):
            pending = pending and found[1]  # what the linker makes of the jump before
            continue
        if pending and pending != name:
            functions[name].append(pending)
        pending = ""
        if found := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = found[1]
            functions.setdefault(name, [])
        elif found := re.match(r"\s+[0-9a-f]+:\s+(?:notrack )?j\w+ +(\S.*)$", line):
            target = re.match(r"[0-9a-f]+ <(.*?)(?:\+0x[0-9a-f]+)?>$", found[1])
            # The address of a case of a switch was worked out just before.
            pending = target[1] if target else found[1] if not re.search(r"\badd ", before) else ""
        before = line
    return functions


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads jumps of x86-64")
@every_build
def test_no_function_of_a_stack_is_left_by_a_jump(program: str, compiler: str) -> None:
    core = stopped(program, compiler=compiler, mode="tool", flags=("-O2",))
    functions = left_by_jumps(core.executable)
    for function in {
        frame["function"]
        for thread in core.truth["threads"]
        for frame in thread["stack"] or ()
        if frame["file"] != "truth.c" and not frame["inlined"] and frame["construct"] is None
    }:
        named = re.compile(
            # As C, C++, gfortran and the compilers' makers of functions for constructs write it.
            rf"(?:.*[ :])?(?:__\w+_MOD_)?{re.escape(function)}(?:\(.*|_)?(?: const)?(?:\.\d+)?(?:[. \[].*)?"
            if function != program or compiler != "gfortran"
            else r"MAIN__"
        )
        texts = [name for name in functions if named.fullmatch(name)]
        assert texts != [], (function, list(functions))
        for name in (*texts, *(name for name in functions if name.startswith(".omp_"))):
            assert [target for target in functions[name] if not NEVER_STOPS.match(target)] == [], name


@pytest.mark.parametrize("program", ["nested", "extra_pthread", "not_initialised"])
def test_one_process_gives_two_cores(program: str) -> None:
    cores = stopped_twice(program)
    assert [core.kind for core in cores] == sorted(KINDS)
    assert cores[0].truth == cores[1].truth
    assert set(gdb_stacks(cores[0])) == set(gdb_stacks(cores[1])) == set(by_native_id(cores[0].truth))


def test_a_team_can_be_as_large_as_asked() -> None:
    truth = stopped("many", threads=5).truth
    assert [region["team_size"] for region in truth["regions"]] == [5]


def test_a_live_program_stays_in_its_state_and_ends_with_its_context(tmp_path: Path) -> None:
    with running("barrier", folder=tmp_path) as live:
        tasks = {int(path.name) for path in Path(f"/proc/{live.pid}/task").iterdir()}
        assert tasks == set(by_native_id(live.truth))
    assert not Path(f"/proc/{live.pid}").exists()
