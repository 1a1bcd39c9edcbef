"""One test for each thing that LLVM's libompd test-suite does not cover."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import NoAnswer
from ompd.questions import regions, tasks, threads
from ompd.session import Session
from tests.libompd import build, stop
from tests.support import COMPILERS, KINDS, MODES, Missing, Stopped, intel_runtime, require, stopped
from tests.support import build as build_fixture
from tests.support.cache import entry, key_of
from tests.support.products import sample
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.support.vendor import told
from tests.truth import compare

every_compiler = pytest.mark.parametrize("compiler", COMPILERS)
every_mode = pytest.mark.parametrize("mode", MODES)
every_build = pytest.mark.parametrize(("compiler", "mode"), sample(product(COMPILERS, MODES)))
busy = pytest.mark.xdist_group("busy")


@contextmanager
def opened(core: Path) -> Iterator[tuple[Session, AddressSpace]]:
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        yield session, runtime.space


def members(core: Stopped) -> list[dict[str, Any]]:
    found = [thread for thread in core.truth["threads"] if thread["role"] == "team"]
    assert found
    return found


def thread(space: AddressSpace, native: int) -> ThreadHandle:
    found = space.thread_by_native_id(ThreadIdKind.LWP, native)
    assert found is not None
    return found


def regions_of(handle: ThreadHandle) -> list[ParallelHandle]:
    found, region = [], handle.current_parallel()
    while region is not None:
        found.append(region)
        region = region.enclosing()
    return found


def tasks_of(handle: ThreadHandle) -> list[TaskHandle]:
    found, task = [], handle.current_task()
    while task is not None:
        found.append(task)
        task = task.generating()
    return found


def told_states(core: Stopped) -> Counter[str]:
    with Session.open_core(core.core) as session:
        return Counter(row.state or "" for row in threads.ask(session).rows if row.parallel is not None)


# Serialized regions


@every_build
@pytest.mark.parametrize(("program", "levels"), [("serialized_three", 4), ("serialized_initial", 2)])
@pytest.mark.quick("serialized_three-4-gcc-neither", "serialized_initial-2-clang-tool", "serialized_three-4-clang-tool")
def test_nested_serialized_regions(program: str, levels: int, mode: str, compiler: str) -> None:
    core = stopped(program, compiler=compiler, mode=mode)
    by_key = {region["key"]: region for region in core.truth["regions"]}
    with opened(core.core) as (_, space):
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            found = regions_of(handle)
            assert [region.level() for region in found] == list(range(levels, 0, -1))
            assert len({region.id for region in found}) == levels
            assert [region.size() for region in found] == [level["team_size"] for level in truth["ancestors"][:0:-1]]
            tree = tasks_of(handle)
            assert [task.kind() for task in tree] == ["implicit"] * levels + ["initial"]
            assert len({task.id for task in tree}) == levels + 1
            for task, region in zip(tree, found, strict=False):
                parallel = task.parallel()
                assert parallel is not None and parallel.id == region.id
            if mode == "neither":
                continue
            assert [task.tool_data() for task in tree] == [level["task_data"] for level in truth["tasks"]]
            frames = [task.frames() for task in tree]
            assert [(exit_frame and f"{exit_frame.address:#x}") for exit_frame, _ in frames] == [
                level["exit_frame"] for level in truth["tasks"]
            ]
            data, key = [], truth["region"]
            while key is not None:
                data.append(by_key[key]["parallel_data_value"])
                key = by_key[key]["enclosing"]
            assert [region.tool_data() for region in found] == data


def test_intels_library_shows_one_serialized_region_too_few() -> None:
    # The library is no oracle for serialized regions for this reason.
    core, theirs = told("serialized_three")
    with opened(core.core) as (_, space):
        for truth in members(core):
            answer = theirs["threads"][str(truth["native_thread_id"])]
            ours = [region.tool_data() for region in regions_of(thread(space, truth["native_thread_id"]))]
            *inside, _ = [region["tool_data"] for region in answer["parallels"]]
            assert len(ours) == 4 and inside == ours[1:]


@every_build
def test_region_with_a_false_if_clause(mode: str, compiler: str) -> None:
    core = stopped("serialized_three", compiler=compiler, mode=mode)
    wanted = [region for region in core.truth["regions"] if region["function"] == "by_if"]
    assert len(wanted) == 2
    with Session.open_core(core.core) as session:
        rows = {(row.level, row.threads): row for row in regions.ask(session).rows}
    for region in wanted:
        row = rows[region["level"], tuple(region["threads"])]
        assert (row.team_size, row.active_level) == (1, 1)
        assert row.function is not None
        assert (row.function.function, row.function.line) == ("by_if", region["line"])


@pytest.mark.parametrize(
    ("compiler", "mode", "number"),
    sample(product(COMPILERS, MODES, [1, 2, 3]), lambda compiler, *others: (compiler, others)),
)
@pytest.mark.quick("clang-tool-3", "gcc-neither-1", "gcc-tool-2")
def test_task_in_a_serialized_region(number: int, mode: str, compiler: str) -> None:
    core = stop("task_in_serialized", compiler_name=compiler, mode=mode, env={"REGIONS": str(number)})
    assert compare(core).differences == []
    with opened(core.core) as (_, space):
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            found, tree = regions_of(handle), tasks_of(handle)
            assert [region.level() for region in found] == list(range(number + 1, 0, -1))
            assert [task.kind() for task in tree] == ["explicit", *["implicit"] * (number + 1), "initial"]
            # The task belongs to the innermost region, as does the implicit task that made it.
            assert [region.id for task in tree[:2] if (region := task.parallel()) is not None] == [found[0].id] * 2


@pytest.mark.xfail(
    strict=True,
    reason="libomp gives a serialized region that begins inside of an explicit task of a serialized one neither a team"
    " nor a task of its own: the explicit task is told to be the region's, and the region's implicit task is missing",
)
@every_compiler
def test_serialized_region_in_a_task_in_a_serialized_region(compiler: str) -> None:
    # No tool is loaded here: the runtime itself goes astray when a tool asks for these tasks.
    core = stop("task_in_serialized", compiler_name=compiler, mode="neither", env={"REGIONS": "1", "INNER": "1"})
    with opened(core.core) as (_, space):
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            found, tree = regions_of(handle), tasks_of(handle)
            assert [region.level() for region in found] == [3, 2, 1]
            kinds = [(task.kind(), region and region.level()) for task in tree for region in [task.parallel()]]
            assert kinds == [("implicit", 3), ("explicit", 2), ("implicit", 2), ("implicit", 1), ("initial", None)]


# Without the runtime's help


@every_compiler
def test_without_omp_debug(compiler: str) -> None:
    core = stopped("nested", compiler=compiler, mode="neither")
    with opened(core.core) as (_, space):
        assert not space.keeps_states()
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            found, tree = regions_of(handle), tasks_of(handle)
            assert [region.size() for region in found] == [2, 2, 3]
            assert [task.function() is not None for task in tree] == [True, True, True, False]
            state = handle.state()
            waits = truth["blocked_in"] == "barrier"
            assert state.source == "derived" and (state.state == State.WORK_PARALLEL) == (not waits)
    assert compare(core).differences == []


@pytest.mark.parametrize("kind", KINDS)
def test_core_file(kind: str) -> None:
    assert compare(stopped("nested", kind=kind)).differences == []


def test_stripped_runtime(tmp_path: Path) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    runtime = library / "libiomp5.so"
    if shutil.which("strip") is None:
        raise Missing("binutils", "no strip")
    command = ["strip", "--strip-all", "--remove-section=.gnu_debuglink", "-o", str(runtime)]
    subprocess.run([*command, str(intel_runtime() / "lib" / "libiomp5.so")], check=True)
    core = _break_at(build("example_1", "gcc", "neither"), "pause", tmp_path, {"LD_LIBRARY_PATH": str(library)})
    with Session.open_core(core) as session:
        (found,) = session.runtimes
        assert found.found.module.name == str(runtime)
        assert found.found.kind == "libiomp5" and found.space is None
        # The runtime is recognised, but its layouts are lost with its symbols.
        with pytest.raises(NoAnswer, match="ompd_access__ symbols") as caught:
            threads.ask(session)
        assert str(runtime) in str(caught.value) and "--debug-dir" in caught.value.hint


def _break_at(program: Path, routine: str, folder: Path, environment: dict[str, str]) -> Path:
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for line in (
        "set startup-with-shell off",
        "set breakpoint pending on",
        f"break {routine}",
        "run",
        "gcore core",
        "kill",
    ):
        command += ["-ex", line]
    done = subprocess.run(
        [*command, str(program)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
        timeout=60,
        check=False,
    )
    if not (folder / "core").exists():
        raise Missing("gdb", f"cannot stop the program: {done.stderr.strip()[-300:]}", forbidden=True)
    return folder / "core"


# Threads


def test_thread_that_is_created_and_not_registered(tmp_path: Path) -> None:
    # The first worker has just begun to run. On a busy machine the next worker has begun, too.
    program = build_fixture("barrier", mode="neither")
    core = _break_at(program, "__kmp_launch_worker", tmp_path, {})
    with Session.open_core(core) as session:
        answer = threads.ask(session)
        assert answer.complete, answer.warnings
        begun = [
            native
            for native in session.process.threads.ids()
            if "__kmp_launch_worker" in (symbol_of(session, native) or "")
        ]
        assert begun
        rows = {row.native_thread_id: row for row in answer.rows}
        assert set(rows) == set(session.process.threads.ids())
        # Before it registers itself, a worker is no thread of OpenMP. Once it has a descriptor, it is idle, or already
        # in a team that it has not reached yet.
        for new in begun:
            row = rows[new]
            if row.thread_type == "worker" and row.state is None:
                assert "state" in row.unavailable
                continue
            if (row.state, row.thread_type) == ("overhead", "worker"):
                assert row.thread_num is not None and row.state_source == "derived"
                continue
            assert (row.state, row.thread_type) in ((None, "other"), ("idle", "worker"))
            assert (row.parallel, row.thread_num, row.task) == (None, None, None)
        (initial,) = (row for row in answer.rows if row.thread_type == "initial")
        assert initial.native_thread_id == session.target.process_id


def symbol_of(session: Session, native: int) -> str | None:
    return session.process.places.locate(session.process.stacks.stack(native).frames[0].pc).symbol


@every_mode
def test_thread_after_the_pool_shrank(mode: str) -> None:
    core = stopped("shrunk_pool", mode=mode)
    idle = [truth["native_thread_id"] for truth in core.truth["threads"] if truth["role"] == "idle"]
    assert len(idle) == 4
    with opened(core.core) as (_, space):
        for native in idle:
            handle = thread(space, native)
            assert (handle.current_parallel(), handle.current_task(), handle.thread_num()) == (None, None, None)
            assert handle.state().state == State.IDLE and handle.thread_type() == "worker"
        for truth in members(core):
            (region,) = regions_of(thread(space, truth["native_thread_id"]))
            assert region.size() == 2


@every_build
def test_two_root_threads(mode: str, compiler: str) -> None:
    core = stopped("two_initial", compiler=compiler, mode=mode)
    with opened(core.core) as (_, space):
        outermost, types = set(), Counter()
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            (region,) = regions_of(handle)
            implicit, initial = tasks_of(handle)
            assert (implicit.kind(), initial.kind()) == ("implicit", "initial")
            outermost.add((region.id, region.size(), initial.id))
            types[handle.thread_type()] += 1
    assert sorted(size for _, size, _ in outermost) == [2, 3] and len({task for *_, task in outermost}) == 2
    assert types == {"initial": 2, "worker": 3}


@every_compiler
def test_teams(compiler: str) -> None:
    # OMPT and the runtime describe a league differently from what the program can see: only its shape is compared.
    limits = {"KMP_TEAMS_THREAD_LIMIT": "8", "OMP_TEAMS_THREAD_LIMIT": "4"}  # otherwise the number of processors
    core = stop("teams", compiler_name=compiler, mode="neither", env=limits)
    known = set()
    with opened(core.core) as (_, space):
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            (region,) = regions_of(handle)
            assert (region.level(), region.size(), handle.thread_num()) == (1, 2, truth["thread_num"])
            natives = [member.native_id(ThreadIdKind.PTHREAD) for member in (region.thread(0), region.thread(1))]
            assert natives[truth["thread_num"]] == handle.native_id(ThreadIdKind.PTHREAD)
            known.add(region.id)
    assert len(known) == 2 and len(members(core)) == 4


# Waiting


@pytest.mark.parametrize(
    ("program", "states"),
    [
        pytest.param("taskloop", {"work_parallel": 3}, id="taskloop"),
        pytest.param("taskgroup", {"wait_taskgroup": 2, "work_parallel": 1}, id="taskgroup", marks=busy),
        pytest.param("critical", {"wait_critical": 3, "work_parallel": 1}, id="critical", marks=busy),
        pytest.param("lock", {"wait_lock": 3, "work_parallel": 1}, id="lock", marks=busy),
        pytest.param("nest_lock", {"wait_lock": 3, "work_parallel": 1}, id="nest_lock", marks=busy),
        pytest.param("ordered", {"wait_ordered": 3, "work_parallel": 1}, id="ordered", marks=busy),
    ],
)
@every_build
@pytest.mark.quick(
    "gcc-debug-critical",
    "clang-tool-nest_lock",
    "clang-tool-ordered",
    "gcc-neither-taskgroup",
    "clang-tool-taskloop",
    "clang-tool-lock",
    "gcc-debug-lock",
    "gcc-debug-taskloop",
)
def test_states_and_wait_ids(program: str, states: dict[str, int], mode: str, compiler: str) -> None:
    core = stopped(program, compiler=compiler, mode=mode)
    wanted = Counter(states)
    if mode != "neither":  # libomp itself reports wait_lock
        wanted["wait_lock"] += wanted.pop("wait_critical", 0)
    found = told_states(core)
    assert found == +wanted, found
    ids = [truth["wait_id"] for truth in members(core)]
    with opened(core.core) as (_, space):
        for truth in members(core):
            wait_id = thread(space, truth["native_thread_id"]).state().wait_id
            assert (wait_id and f"{wait_id:#x}") == truth["wait_id"]
    of_a_lock = program in ("critical", "lock", "nest_lock", "ordered")
    assert sum(wait_id is not None for wait_id in ids) == (3 if of_a_lock and mode != "neither" else 0)


@busy
@every_mode
def test_detached_task(mode: str) -> None:
    core = stopped("task_detach", compiler="clang", mode=mode)
    (detached,) = (task for task in core.truth["tasks"] if task["status"] == "detached")
    with opened(core.core) as (session, space):
        tree = [task for native in core.truth["threads"] if native["openmp"] for task in tasks_of_native(space, native)]
        assert detached["thread"] is None and all(task.kind() != "explicit" for task in tree)
        waiting = [truth for truth in members(core) if truth["blocked_in"] == "taskwait"]
        (one,) = waiting
        assert thread(space, one["native_thread_id"]).state().state == State.WAIT_TASKWAIT
        assert tasks.ask(session).complete


def tasks_of_native(space: AddressSpace, truth: dict[str, Any]) -> list[TaskHandle]:
    return tasks_of(thread(space, truth["native_thread_id"]))


@every_compiler
@pytest.mark.parametrize("mode", ["debug", "neither"])
@pytest.mark.quick("debug-gcc", "neither-clang")
def test_task_on_a_hidden_helper_thread(mode: str, compiler: str) -> None:
    core, words = hidden_helper(compiler, mode)
    with opened(core) as (session, space):
        handle = thread(space, words["helper"])
        task = handle.current_task()
        assert task is not None and task.kind() == "explicit" and task.status() == "executing"
        assert session.process.places.locate(task.function() or 0).symbol == "helped"
        assert handle.state().state == State.WORK_PARALLEL
        # An implicit task of another region made the task, on another thread.
        maker = task.generating()
        owner = maker.thread() if maker is not None else None
        assert maker is not None and owner is not None and maker.kind() == "implicit"
        assert owner.address == thread(space, words["maker"]).address
        # Helper threads have their own team.
        own, other = handle.current_parallel(), owner.current_parallel()
        assert own is not None and other is not None and own.id != other.id
        assert (other.size(), other.level()) == (2, 1)
        answer = tasks.ask(session)
        assert answer.complete
        (row,) = (row for row in answer.rows if row.kind == "explicit")
        assert (row.thread, row.function and row.function.function) == (words["helper"], "helped")


def hidden_helper(compiler: str, mode: str) -> tuple[Path, dict[str, Any]]:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    program = build("hidden_helper", compiler, "neither")
    environment = {
        **ENVIRONMENT,
        "LIBOMP_USE_HIDDEN_HELPER_TASK": "1",
        "LIBOMP_NUM_HIDDEN_HELPER_THREADS": "2",
        **({"OMP_DEBUG": "enabled"} if mode == "debug" else {}),
    }

    def make(folder: Path) -> None:
        with (folder / "output").open("wb") as output, cores_allowed():
            subprocess.run(
                [str(program)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                timeout=100,
                check=False,
            )
        (written,) = (path for path in folder.iterdir() if path.name.startswith("core"))
        written.rename(folder / "core")

    folder = entry("cores", key_of("hidden_helper", program.parent.name, environment), make)
    return folder / "core", json.loads((folder / "words").read_text())


# Several at once


def test_two_processes_at_once() -> None:
    nested, lock = stopped("nested"), stopped("lock", compiler="clang")
    with opened(nested.core) as (first, _), opened(lock.core) as (second, _):
        # Questions alternate between the processes. No fact of one process appears in the other.
        for ask in (threads.ask, tasks.ask, regions.ask, threads.ask):
            one, other = ask(first), ask(second)
            assert one.complete and other.complete
            assert one.target.process_id == nested.truth["pid"] != other.target.process_id == lock.truth["pid"]
        rows = threads.ask(first).rows
        assert {row.native_thread_id for row in rows} == {t["native_thread_id"] for t in nested.truth["threads"]}
        assert {row.level for row in threads.ask(second).rows} == {1, None}
    assert compare(nested).differences == compare(lock).differences == []
