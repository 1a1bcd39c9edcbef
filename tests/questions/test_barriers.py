"""Teams whose threads wait at several barriers, or at one barrier and in other waits: each barrier has its own count.

The truth is the record of ``fixtures/programs/mismatched.c`` on each runtime; runtimes differ in which constructs share
a barrier. A sample runs by default, the full product with ``OMPD_FULL=1``.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.errors import OmpdError
from ompd.model import ThreadRecord
from ompd.questions import threads
from ompd.session import Session
from tests.support import (
    FULL,
    INTEL,
    MISMATCHES,
    RUNTIMES,
    STRIPPED,
    clean_environment,
    intel_runtime,
    running,
    stopped,
)
from tests.support.build import compiler as compiler_of
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.runs import ENVIRONMENT
from tests.truth import compare

SECONDS = 25  # until a program no longer changes
SOURCE = CHECKOUT / "tests" / "waits" / "jumped.c"
# With the stub's one barrier these teams go on, or wait for a thread in user code.
MEETS_ON_STUB = ("late", "loop", "single", "lock")
SPINS = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinite", "KMP_BLOCKTIME": "infinite"}


def combinations() -> Iterator[Any]:
    modes = {INTEL: ("neither", "debug"), "stub": ("neither", "debug")}
    runtimes = (INTEL, "libgomp", "libgomp-wheel", "stub", *STRIPPED)
    whole = [
        (mismatch, runtime, compiler, mode)
        for runtime, mismatch in itertools.product(runtimes, MISMATCHES)
        for compiler in ("gcc", "clang")[: 1 if runtime.startswith(("libgomp", "stub")) else 2]
        for mode in modes.get(runtime, ("neither",))
        if runtime != "stub" or mismatch in MEETS_ON_STUB
    ]
    for number, each in enumerate(whole):
        # All cases of the two runtimes that differ most; every seventh of the others.
        is_sampled = (each[1] == "libgomp") or (each[1] == "libomp-19" and each[2] == "clang") or number % 7 == 0
        if FULL or is_sampled:
            yield pytest.param(*each, id="-".join(each), marks=pytest.mark.xdist_group("busy"))


@pytest.mark.parametrize(("mismatch", "runtime", "compiler", "mode"), list(combinations()))
@pytest.mark.quick("single-intel-gcc-debug", "lock-libomp-14-clang-neither")
def test_each_barrier_has_its_own_count(mismatch: str, runtime: str, compiler: str, mode: str) -> None:
    env = {"MISMATCH": mismatch, **({"OMP_NESTED": "true"} if runtime == "libgomp-wheel" else {})}
    core = stopped("mismatched", compiler=compiler, mode=mode, runtime=runtime, env=env)
    found = compare(core)
    assert found.differences == []
    counted = {"nested": 8, "late": 3, "loop": 3, "single": 3, "lock": 2}.get(mismatch, 4)
    assert [found.equal[f"wait.{key}"] for key in ("arrived", "expected", "missing")] == [counted] * 3


@pytest.mark.parametrize(("runtime", "compiler"), [("libgomp", "gcc"), ("libomp-14", "gcc"), (INTEL, "gcc")])
def test_also_live_and_in_a_core_of_gdb(runtime: str, compiler: str, tmp_path: Path) -> None:
    env = {"MISMATCH": "primary"}
    core = stopped("mismatched", compiler=compiler, mode="neither", kind="gcore", runtime=runtime, env=env)
    assert compare(core).differences == []
    with running("mismatched", compiler=compiler, mode="neither", runtime=runtime, env=env, folder=tmp_path) as live:
        assert compare(live).differences == []


@pytest.mark.parametrize("runtime", ["libomp-19", INTEL])
@pytest.mark.parametrize("pattern", ["linear", "tree", "hyper", "hierarchical"])
def test_every_pattern_of_barriers(pattern: str, runtime: str) -> None:
    names = (f"KMP_{kind}_BARRIER_PATTERN" for kind in ("PLAIN", "FORKJOIN", "REDUCTION"))
    env = {"MISMATCH": "reduction", **dict.fromkeys(names, f"{pattern},{pattern}")}
    core = stopped("mismatched", compiler="clang", mode="neither", runtime=runtime, env=env)
    assert compare(core).differences == []


@pytest.mark.parametrize("mode", ["neither", "debug"])
def test_a_waiter_is_never_missing_at_its_own_barrier(mode: str) -> None:
    # The stub's only barrier releases all threads when thread 2 arrives at the region's end. The others then come back
    # for that end, while the runtime's state of thread 2 still is that it waits at a barrier.
    core = stopped("mismatched", compiler="gcc", mode=mode, runtime="stub", env={"MISMATCH": "skipped"})
    rows = {row.thread_num: row for row in rows_of(core.core).values() if row.level}
    late = rows.pop(2)
    for row in rows.values():
        assert row.wait is not None
        assert (row.wait.arrived, row.wait.expected, row.wait.missing) == (3, 4, (late.native_thread_id,))
    if mode == "debug":
        assert late.wait is not None and (late.state, late.wait.missing) == ("wait_barrier_implicit", None)
        assert late.unavailable["wait.arrived"].startswith("none of the team's barriers counts the thread")


def rows_of(core: Path) -> dict[int, ThreadRecord]:
    with Session.open_core(core) as session:
        return {row.native_thread_id or 0: row for row in threads.ask(session).rows}


# Code that has left the stack by jumps


def jumped(runtime: str, compiler_name: str) -> Path:
    """Return the executable of ``tests/waits/jumped.c``, optimised."""
    used, openmp = compiler_of(compiler_name), RUNTIMES[runtime]
    include = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = [str(used.path), "-g", "-O2", "-fopenmp", *include, "-c", str(SOURCE), "-o", "jumped.o"]
    library = openmp.file().parent
    linking = [str(used.path), "jumped.o", "-o", "jumped", f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options]

    def make(folder: Path) -> None:
        for command in (compiling, [*linking, "-lpthread"]):
            subprocess.run(command, cwd=folder, check=True, env=clean_environment())

    key = key_of("jumped", SOURCE.read_text(), used.version, compiling, linking, openmp.version())
    return entry("programs", key, make) / "jumped"


# By thread number, for waits at a barrier: how many threads have arrived there, and which have not.
JUMPED: dict[str, dict[int, tuple[int, tuple[int, ...]]]] = {
    "barrier": {0: (3, (2,)), 1: (3, (2,)), 2: (1, (0, 1, 3)), 3: (3, (2,))},
    "primary": {0: (1, (1, 2, 3)), 1: (3, (0,)), 2: (3, (0,)), 3: (3, (0,))},
    "locks": {2: (2, (0, 1)), 3: (2, (0, 1))},
    "section": {2: (2, (0, 1)), 3: (2, (0, 1))},
    "taskwait": {1: (3, (0,)), 2: (3, (0,)), 3: (3, (0,))},
    "tasks": dict.fromkeys(range(4), (4, ())),
    "ending": dict.fromkeys(range(4), (4, ())),
    "outer": {1: (1, (0, 2))},
}
# The number of unfinished tasks for which the threads wait at a barrier where all have arrived.
UNFINISHED = {"tasks": 1, "ending": 2}
BUILDS = [("libgomp", "gcc"), ("libomp-19", "gcc"), ("libomp-14", "clang"), (INTEL, "gcc")]


@pytest.mark.parametrize(
    ("name", "runtime", "compiler"),
    [
        (name, *build)
        for number, (name, build) in enumerate(itertools.product(JUMPED, BUILDS))
        if FULL or build[0] in ("libgomp", "libomp-19") or number % 3 == 0
    ],
)
@pytest.mark.quick(
    "barrier-intel-gcc",
    "primary-libomp-14-clang",
    "taskwait-libomp-19-gcc",
    "tasks-libgomp-gcc",
    "ending-libomp-19-gcc",
    "outer-libomp-14-clang",
)
def test_code_that_was_left_by_a_jump(name: str, runtime: str, compiler: str) -> None:
    # Optimised code leaves its frame by a jump to the routine that waits, so its caller does not show the routine.
    check_jumped(name, runtime, compiler)


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(("runtime", "compiler"), BUILDS)
def test_threads_that_spin(runtime: str, compiler: str) -> None:
    check_jumped("barrier", runtime, compiler, **SPINS)


def check_jumped(name: str, runtime: str, compiler: str, **more: str) -> None:
    with started(name, runtime, compiler, **more) as process:
        deadline = time.monotonic() + SECONDS
        while not is_as_expected(found := gathered(process.pid), name) and time.monotonic() < deadline:
            assert process.poll() is None
        assert is_as_expected(found, name), found
        if name in UNFINISHED:
            with Session.attach(process.pid) as session:
                rows = session.ask(threads.ask).rows
            waits = [row.wait for row in rows if row.wait is not None and row.wait.kind == "barrier"]
            assert {wait.unfinished_tasks for wait in waits} == {UNFINISHED[name]}
            said = f"barrier 4/4 arrived, {UNFINISHED[name]} task{'s' * (UNFINISHED[name] > 1)} unfinished"
            assert said in CliRunner().invoke(cli, ["threads", str(process.pid)], catch_exceptions=False).stdout


@contextmanager
def started(name: str, runtime: str, compiler: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``tests/waits/jumped.c``, and kill it when the context ends."""
    program = jumped(runtime, compiler)
    environment = {**clean_environment(), **ENVIRONMENT, "OMP_MAX_ACTIVE_LEVELS": "4", **more}
    process = subprocess.Popen([program, name], env=environment, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def is_as_expected(found: object, name: str) -> bool:
    if name in ("tasks", "ending"):  # chance decides which thread executes the task
        counts = (3,) if name == "tasks" else (2, 3)  # two tasks
        return isinstance(found, dict) and len(found) in counts and found.items() <= JUMPED[name].items()
    return found == JUMPED[name]


def gathered(pid: int) -> dict[int, tuple[int | None, tuple[int | None, ...] | str]] | str:
    """Return the barrier counts that ompd gives for waiting threads of the outermost region, by thread number."""
    try:
        with Session.attach(pid) as session:
            rows = session.ask(threads.ask).rows
    except OmpdError as error:
        return str(error)  # it has not begun
    numbers = {row.native_thread_id: row.thread_num for row in rows}
    found: dict[int, tuple[int | None, tuple[int | None, ...] | str]] = {}
    for row in rows:
        if row.level != 1 or row.thread_num is None or row.wait is None or row.wait.kind != "barrier":
            continue
        missing = row.wait.missing
        told = tuple(map(numbers.get, missing)) if missing is not None else row.unavailable["wait.missing"]
        found[row.thread_num] = row.wait.arrived, told
    return found


# Laws, which hold at any moment


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    ("runtime", "compiler", "mode"),
    [
        *[("libgomp", "gcc", "neither"), ("libomp-19", "clang", "debug"), (INTEL, "clang", "neither")],
        *[("libomp-19", "gcc", "neither"), ("libomp-14", "clang", "neither"), (INTEL, "gcc", "debug")] * FULL,
    ],
)
@pytest.mark.quick("intel-clang-neither")
def test_what_is_told_while_threads_pass_barriers_fits_together(runtime: str, compiler: str, mode: str) -> None:
    answers = told = 0
    with started("passing", runtime, compiler, **{"OMP_DEBUG": "enabled"} if mode == "debug" else {}) as process:
        deadline = time.monotonic() + SECONDS
        while (answers < (400 if FULL else 15) or not told) and time.monotonic() < deadline:
            try:
                with Session.attach(process.pid) as session:
                    rows = session.ask(threads.ask).rows
            except OmpdError:
                assert process.poll() is None and not answers
                continue  # it has not begun
            answers += 1
            told += check_laws(rows)
    assert told


def check_laws(rows: Sequence[ThreadRecord]) -> int:
    """Check the barriers in an answer. Return the number of threads with a complete one."""
    at: dict[int, tuple[str | None, frozenset[int | None]]] = {}
    for row in rows:
        wait = row.wait
        if wait is None or wait.kind != "barrier":
            continue
        if wait.missing is None:
            assert wait.arrived is wait.expected is None
            assert row.unavailable["wait.missing"] == row.unavailable["wait.arrived"]
            continue
        assert wait.arrived is not None and wait.arrived + len(wait.missing) == wait.expected == row.team_size
        assert row.native_thread_id not in wait.missing
        at[row.native_thread_id or 0] = row.parallel, frozenset(wait.missing)
    for thread, (region, missing) in at.items():
        for other, (others, without) in at.items():
            # Two threads of a team are at one barrier with equal counts, or each is missing where the other waits.
            same = missing == without
            assert region != others or (other not in missing if same else other in missing and thread in without)
    return len(at)
