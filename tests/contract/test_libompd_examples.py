"""Programs shaped like the examples in LLVM's libompd test-suite, one test each, named after the example.

As in the suite, each thread's answers of OMPT and ``omp_get_*`` are compared with those of its handles; here from
cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ompd.contract.code_owners import RUNTIME, SYSTEM, USER, owner
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import AddressSpace, TaskHandle, ThreadHandle
from ompd.questions import regions
from ompd.session import Session
from tests.libompd import stop
from tests.support import COMPILERS, Stopped, stopped
from tests.truth import BINDINGS, compare

# A thread that searches other threads' queues must go on until it finds a task.
STEADY = {"KMP_BLOCKTIME": "infinite"}
SCHEDULES = {1: "static", 2: "dynamic", 3: "guided", 4: "auto"}
MONOTONIC = 1 << 31
COMPARED = (
    *("state", "wait id", "thread-num-var", "thread data", "team-size-var", "levels-var", "active-levels-var"),
    *("parallel data", "nthreads-var", "in parallel", "final-task-var", "dyn-var", "max-active-levels-var"),
    *("run-sched-var", "bind-var", "task data", "frames"),
)

every_compiler = pytest.mark.parametrize("compiler", COMPILERS)


@contextmanager
def opened(core: Stopped) -> Iterator[tuple[Session, AddressSpace]]:
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        yield session, runtime.space


def ompt_equals_ompd(core: Stopped) -> Counter[tuple[object, ...]]:
    """Compare the values that LLVM's plugin compares, for each thread of a team; return the number of threads by the
    sizes of their regions, innermost first.
    """
    shapes: Counter[tuple[object, ...]] = Counter()
    compared: Counter[str] = Counter()
    data = {region["key"]: region["parallel_data_value"] for region in core.truth["regions"]}
    with opened(core) as (_, space):
        for truth in core.truth["threads"]:
            handle = space.thread_by_native_id(ThreadIdKind.LWP, truth["native_thread_id"])
            assert (handle is not None) == truth["openmp"]
            if truth["role"] != "team":
                continue
            assert handle is not None
            for name, ours, true in _pairs(space, handle, truth, data[truth["region"]]):
                assert ours == true, f"{name} of {truth['native_thread_id']}"
                compared[name] += 1
            sizes, region = [], handle.current_parallel()
            while region is not None:
                sizes.append(region.size())
                region = region.enclosing()
            shapes[tuple(sizes)] += 1
    # All values of all threads were compared.
    assert compared == Counter(dict.fromkeys(COMPARED, shapes.total()))
    assert compare(core).differences == []
    return shapes


def _pairs(
    space: AddressSpace, handle: ThreadHandle, truth: dict[str, Any], parallel_data: int
) -> Iterator[tuple[str, object, object]]:
    region, task, state, icvs = handle.current_parallel(), handle.current_task(), handle.state(), truth["icvs"]
    assert region is not None and task is not None
    assert state.source == "runtime"
    yield "state", state.state, truth["state_value"]
    yield "wait id", state.wait_id, truth["wait_id"] and int(truth["wait_id"], 16)
    yield "thread-num-var", space.icv("thread-num-var", handle), truth["thread_num"]
    yield "thread data", handle.tool_data(), truth["thread_data"]
    yield "team-size-var", space.icv("team-size-var", region), truth["team_size"]
    yield "levels-var", space.icv("levels-var", region), truth["level"]
    yield "active-levels-var", space.icv("active-levels-var", region), truth["active_level"]
    yield "parallel data", region.tool_data(), parallel_data
    yield "nthreads-var", str(space.icv("nthreads-var", handle)).split(",")[0], str(icvs["max_threads"])
    yield "in parallel", region.active_level() > 0, icvs["in_parallel"]
    yield "final-task-var", space.icv("final-task-var", task), icvs["in_final"]
    yield "dyn-var", space.icv("dyn-var", handle), icvs["dynamic"]
    yield "max-active-levels-var", space.icv("max-active-levels-var", task), icvs["max_active_levels"]
    yield "run-sched-var", *_schedules(str(space.icv("run-sched-var", task)), *icvs["schedule"])
    yield "bind-var", str(space.icv("bind-var", task)).split(",")[0], BINDINGS[icvs["proc_bind"]]
    known = _stacked(task)
    # OMPT's outermost task is the initial thread's, and workers have it, too.
    told = [level["task_data"] for level in truth["tasks"]]
    yield "task data", [one.tool_data() for one in known], told
    frames = [
        [level[key] and (int(level[key], 16), level[f"{key}_flags"]) for key in ("exit_frame", "enter_frame")]
        for level in truth["tasks"]
    ]
    ours = [[frame and (frame.address, frame.flags) for frame in one.frames()] for one in known]
    yield "frames", ours, frames


def _stacked(task: TaskHandle) -> list[TaskHandle]:
    found = []
    here: TaskHandle | None = task
    while here is not None:
        found.append(here)
        here = here.scheduling() or here.generating()
    return found


def _schedules(ours: str, kind: int, chunk: int) -> tuple[object, object]:
    kind &= 0xFFFFFFFF
    modifier, _, rest = ours.rpartition(":")
    name, _, size = rest.partition(",")
    monotonic = kind & MONOTONIC != 0
    return (modifier == "monotonic", name, int(size or chunk)), (monotonic, SCHEDULES[kind & ~MONOTONIC], chunk)


@every_compiler
@pytest.mark.quick("clang")
def test_example_1(compiler: str) -> None:
    core = stop("example_1", compiler_name=compiler)
    assert ompt_equals_ompd(core) == {(4,): 4}
    outside = [thread for thread in core.truth["threads"] if thread["role"] == "other"]
    assert len(outside) == 3  # two threads, and the monitor


@every_compiler
@pytest.mark.quick("gcc")
def test_example_2(compiler: str) -> None:
    core = stop("nested_loop", compiler_name=compiler, env={"OMP_SCHEDULE": "static,5", "ITERATIONS": "10"})
    assert ompt_equals_ompd(core) == {(2, 2, 3): 12}
    assert {thread["where"]["function"] for thread in core.truth["threads"] if thread["role"] == "team"} == {"step"}
    assert schedules(core) == {"static,5"}


@every_compiler
@pytest.mark.quick("gcc")
def test_example_3(compiler: str) -> None:
    core = stop("example_3", compiler_name=compiler, env={"OMP_SCHEDULE": "static"})
    assert ompt_equals_ompd(core) == {(2,): 1, (2, 2): 2}
    assert schedules(core) == {"static"}


@every_compiler
def test_example_4(compiler: str) -> None:
    core = stop("nested_loop", compiler_name=compiler, env={"ITERATIONS": "10", "AFTER": "1"})
    assert ompt_equals_ompd(core) == {(2, 2, 3): 12}
    assert {t["where"]["function"] for t in core.truth["threads"] if t["role"] == "team"} == {"innermost"}


@every_compiler
def test_example_5(compiler: str) -> None:
    core = stopped("serialized_middle", compiler=compiler, env={"OMP_SCHEDULE": "guided"})
    assert ompt_equals_ompd(core) == {(2, 1, 3): 6}
    assert schedules(core) == {"guided,1"}


@every_compiler
@pytest.mark.quick("gcc")
def test_example_task(compiler: str) -> None:
    core = stop("example_task", compiler_name=compiler, env=STEADY)
    assert ompt_equals_ompd(core) == {(8,): 8}
    with opened(core) as (_, space):
        threads = [t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team"]
        depths = [depth(space, native) for native in threads]
    assert depths == [4] * 8  # all of them are in a task of the fourth level


@every_compiler
@pytest.mark.quick("gcc")
def test_fibonacci(compiler: str) -> None:
    core = stop("fibonacci", compiler_name=compiler, env=STEADY)
    assert ompt_equals_ompd(core) == {(4,): 4}
    with opened(core) as (_, space):
        threads = [t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team"]
        # fib(1) is four calls away from fib(5). fib(0) is three calls away, by way of even numbers.
        assert {depth(space, native) for native in threads} <= {2, 3, 4}
        assert all(depth(space, native) == true_depth(core, native) for native in threads)


@every_compiler
def test_nested(compiler: str) -> None:
    core = stop("nested_loop", compiler_name=compiler, env={"OMP_SCHEDULE": "guided,10", "ITERATIONS": "20"})
    assert ompt_equals_ompd(core) == {(2, 2, 3): 12}
    assert schedules(core) == {"guided,10"}


@every_compiler
@pytest.mark.quick("clang")
def test_parallel(compiler: str) -> None:
    core = stop("parallel", compiler_name=compiler, env=STEADY)
    assert ompt_equals_ompd(core) == {(4,): 4}
    with opened(core) as (_, space):
        queued = space.queued_tasks()
        assert len(queued) == 96
        functions = {task.function() for task in queued}
        assert len(functions) == 1 and None not in functions


@every_compiler
@pytest.mark.quick("clang")
def test_ompd_bt(compiler: str) -> None:
    core = stop("ompd_bt", compiler_name=compiler)
    assert ompt_equals_ompd(core) == {(5,): 5}
    with opened(core) as (session, space):
        for truth in (t for t in core.truth["threads"] if t["role"] == "team"):
            native = truth["native_thread_id"]
            handle = space.thread_by_native_id(ThreadIdKind.LWP, native)
            task = handle.current_task() if handle is not None else None
            assert task is not None
            exit_frame, enter_frame = task.frames()
            assert exit_frame is not None and enter_frame is None
            stack = session.process.stacks.stack(native).frames
            owners = [(owner(session.process.contract, [space.module], frame.call_site), frame) for frame in stack]
            # The frames inside of the task's exit frame belong to the user and the system. The whole stack also has
            # frames of the runtime.
            inside = [whose for whose, frame in owners if frame.cfa is not None and frame.cfa < exit_frame.address]
            names = [session.process.places.locate(f.call_site).symbol for w, f in owners[: len(inside)] if w == USER]
            assert names[:2] == ["deepest", "called"] and set(inside) == {USER, SYSTEM}
            assert RUNTIME in [whose for whose, _ in owners]


@every_compiler
@pytest.mark.parametrize(("number", "told"), [(1, (2, 2, 5)), (2, (2, 1, 1)), (3, (1, 1, 9))])
@pytest.mark.quick("1-told0-gcc", "2-told1-gcc", "3-told2-clang")
def test_ompd_icvs(compiler: str, number: int, told: tuple[int, int, int]) -> None:
    core = stop("ompd_icvs", compiler_name=compiler, env={"OMP_SCHEDULE": "dynamic,2", "STOP": str(number)})
    shapes = {1: {(5, 9): 5, (9,): 8}, 2: {(1, 9): 1, (9,): 8}, 3: {(9,): 9}}
    assert ompt_equals_ompd(core) == shapes[number]
    assert schedules(core) == {"dynamic,2"}
    with opened(core) as (_, space):
        handle = space.thread_by_native_id(ThreadIdKind.LWP, core.truth["pid"])
        region = handle.current_parallel() if handle is not None else None
        names = ("levels-var", "active-levels-var", "team-size-var")
        assert tuple(space.icv(name, region) for name in names) == told


@every_compiler
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.quick("1-gcc", "2-clang")
def test_ompd_parallel(compiler: str, number: int) -> None:
    core = stop("ompd_parallel", compiler_name=compiler, env={"STOP": str(number)})
    sizes = [3, 5, 7][number - 1 :]
    assert ompt_equals_ompd(core) == {tuple(sizes): {1: 105, 2: 35, 3: 7}[number]}
    with Session.open_core(core.core) as session:
        answer = regions.ask(session)
    by_id = {row.id: row for row in answer.rows}
    chain = [row for row in answer.rows if row.threads[0] == core.truth["pid"]]
    chain.sort(key=lambda row: -(row.level or 0))
    assert [row.enclosing and by_id[row.enclosing].team_size for row in chain] == [*sizes[1:], None]
    assert [(row.team_size, row.level) for row in chain] == list(zip(sizes, range(len(sizes), 0, -1), strict=True))
    places = [row.function and (row.function.function, row.function.line) for row in chain]
    lines = {region["function"]: region["line"] for region in core.truth["regions"]}
    assert places == [(name, lines[name]) for name in ("innermost", "middle", "main")[number - 1 :]]


def schedules(core: Stopped) -> set[str]:
    """Return the run-sched-var of the threads' current tasks."""
    found = set()
    with opened(core) as (_, space):
        for truth in (t for t in core.truth["threads"] if t["role"] == "team"):
            handle = space.thread_by_native_id(ThreadIdKind.LWP, truth["native_thread_id"])
            assert handle is not None
            found.add(str(space.icv("run-sched-var", handle.current_task())))
    return found


def depth(space: AddressSpace, native: int) -> int:
    """Return the number of explicit tasks from a thread's current task up to its implicit task."""
    handle = space.thread_by_native_id(ThreadIdKind.LWP, native)
    task = handle.current_task() if handle is not None else None
    count = 0
    while task is not None and task.kind() == "explicit":
        count += 1
        task = task.generating()
    assert task is not None and task.kind() == "implicit"
    return count


def true_depth(core: Stopped, native: int) -> int:
    """Return the same number, as the program wrote it."""
    tasks: Mapping[int, dict[str, Any]] = {task["key"]: task for task in core.truth["tasks"]}
    (task,) = (t for t in tasks.values() if t["status"] == "executing" and t["thread"] == native)
    count = 0
    while task["kind"] == "explicit":
        count += 1
        task = tasks[task["generating"]]
    return count
