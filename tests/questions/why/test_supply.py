"""Slow programs get the verdict on what makes them slow, and programs in order get none. Each runs on a real runtime.

Other programs may use the machine meanwhile. So no test expects that a thread gets a certain time, and programs in
order may be ``starved`` if the kernel says that they were.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pytest

import ompd
from ompd.model import VerdictRecord
from tests.support.cache import CHECKOUT
from tests.support.live import build_live, wait_until
from tests.support.machine import Missing
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read
from tests.support.why import GNU, LLVM, OLD_LLVM

FOLDER = CHECKOUT / "tests" / "supply"
CGROUPS = Path("/sys/fs/cgroup")
KINDS = {"few_processors", "throttled", "starved", "oversubscribed", "spin_burn", "limits"}

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two processors are needed to use too few of them"),
    pytest.mark.xdist_group("processors"),  # these tests would see each other's processes
]
FIRST, SECOND = sorted(os.sched_getaffinity(0))[:2] if len(os.sched_getaffinity(0)) > 1 else (0, 0)


def build(name: str, runtime: str) -> Path:
    """Return a program of ``tests/supply``, with that runtime."""
    return build_live(name, runtime=runtime, folder=FOLDER, compiler_name="g++" if name == "pool" else "gcc")


@contextmanager
def started(
    program: Path, *words: str, before: Callable[[], None] | None = None, prefix: Sequence[str] = (), **variables: str
) -> Iterator[int]:
    """Run a program until it is ready. Yield its number, or that of the shell that runs it."""
    process = Popen(
        [*prefix, str(program), *words],
        stdin=DEVNULL,
        stdout=PIPE,
        env={**ENVIRONMENT, **variables},
        preexec_fn=before,
    )
    assert process.stdout is not None
    try:
        assert can_be_read(process.stdout.fileno(), READY_SECONDS)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def on_first_processor() -> None:
    os.sched_setaffinity(0, {FIRST})


@contextmanager
def control_group(controller: str, **files: str) -> Iterator[Path]:
    """Make a control group of version 1, and remove it when its processes have ended."""
    root = CGROUPS / controller
    if not os.access(root / "cgroup.procs", os.W_OK):
        raise Missing(f"control groups with {controller}", "none can be made here", forbidden=True)
    group = root / f"ompd-tests-supply-{os.getpid()}"
    group.mkdir()
    try:
        for name, text in files.items():
            (group / name.replace("__", ".")).write_text(text)
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def entering(group: Path) -> Callable[[], None]:
    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return enter


def verdicts(process_id: int, **options: Any) -> list[VerdictRecord]:
    with ompd.attach(process_id, nonblocking=True) as session:
        return [row for row in session.ask_why(**options).rows if row.kind in KINDS]


def only(process_id: int, kind: str) -> VerdictRecord:
    """Return the verdict of a kind, which has to be the first cause of slowness."""
    found = verdicts(process_id)
    assert found and found[0].kind == kind and found[0].stuck == "unknown", found
    return found[0]


# Slow programs


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_of_a_list_of_processors_that_is_too_short_the_variable_is_named(runtime: str) -> None:
    with started(build("busy", runtime), "barrier", GOMP_CPU_AFFINITY=str(FIRST)) as process_id:
        verdict = only(process_id, "few_processors")
        with ompd.attach(process_id, nonblocking=True) as session:
            findings = {row.kind: row for row in session.ask_doctor().rows}
    # Other tests may have processes on this processor, too.
    assert re.match(rf"2 threads share processor {FIRST}(?: with threads of .*\))?, and wait for it ", verdict.summary)
    assert verdict.summary.endswith(f": GOMP_CPU_AFFINITY={FIRST} binds them there")
    assert verdict.advice[0].startswith("unset GOMP_CPU_AFFINITY")
    assert len(verdict.explains) == 2
    assert findings["few_processors"].remedy == verdict.advice[0]
    assert "unset GOMP_CPU_AFFINITY" in (findings["oversubscription"].remedy or "")


def test_of_llvm_s_own_variable_the_name_is_given() -> None:
    setting = f"granularity=fine,proclist=[{FIRST}],explicit"
    with started(build("busy", LLVM), "work", KMP_AFFINITY=setting) as process_id:
        verdict = only(process_id, "few_processors")
    assert verdict.summary.endswith(f": KMP_AFFINITY={setting} binds them there")


@pytest.mark.parametrize("runtime", [GNU, OLD_LLVM])
def test_threads_that_inherit_the_initial_thread_s_processor_are_explained(runtime: str) -> None:
    with started(build("pool", runtime), OMP_PROC_BIND="true") as process_id:
        verdict = only(process_id, "few_processors")
        numbers = {int(path.name) for path in Path(f"/proc/{process_id}/task").iterdir()}
    assert "OMP_PROC_BIND=true has bound the initial thread there, and the threads that it created" in verdict.summary
    assert set(verdict.explains) < numbers and process_id not in verdict.explains and len(verdict.explains) == 2
    assert any(item.text.startswith("the initial thread may use processor ") for item in verdict.evidence)


def test_processes_that_bind_themselves_to_one_processor_are_named() -> None:
    program = build("busy", GNU)
    with ExitStack() as running:
        ranks = [
            running.enter_context(started(program, "work", "1", OMP_PROC_BIND="true", OMP_PLACES=f"{{{FIRST}}}"))
            for _ in range(3)
        ]
        verdict = only(ranks[0], "few_processors")
    assert verdict.explains == (ranks[0],)
    beside = re.search(r"with threads of \d+ processes \((.*?)\)", verdict.summary)
    assert beside is not None and {f"{rank} busy" for rank in ranks[1:]} <= set(beside[1].split(", "))
    assert "binds each process from the same place on" in verdict.summary and "OMP_PROC_BIND" in verdict.advice[0]


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_a_process_that_was_limited_before_it_began_is_no_fault_of_openmp(runtime: str) -> None:
    program = build("busy", runtime)
    with started(program, "barrier", before=on_first_processor, OMP_PROC_BIND="true") as process_id:
        verdict = only(process_id, "few_processors")
    assert verdict.summary.endswith(": taskset or sched_setaffinity() has bound the process there")
    assert "taskset" in verdict.advice[0]


def test_a_launcher_that_has_bound_a_rank_is_named() -> None:
    # Ranks of Open MPI have this variable. mpirun itself is not needed to show what is concluded from it.
    program = build("busy", GNU)
    with started(program, "work", before=on_first_processor, OMPI_COMM_WORLD_SIZE="1") as process_id:
        verdict = only(process_id, "few_processors")
    assert "mpirun of Open MPI has bound the process there" in verdict.summary and "--bind-to none" in verdict.advice[0]


def test_of_a_control_group_with_few_processors_the_file_is_named() -> None:
    memory = (CGROUPS / "cpuset" / "cpuset.mems").read_text() if (CGROUPS / "cpuset").is_dir() else ""
    with (
        control_group("cpuset", cpuset__mems=memory, cpuset__cpus=str(FIRST)) as group,
        started(build("busy", GNU), "work", before=entering(group)) as process_id,
    ):
        verdict = only(process_id, "few_processors")
    assert f"its control group has no other processors ({group}/cpuset." in verdict.summary


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_a_quota_that_is_used_up_comes_first(runtime: str) -> None:
    with (
        control_group("cpu", cpu__cfs_quota_us="3000") as group,
        started(build("busy", runtime), "work", before=entering(group)) as process_id,
    ):
        found = verdicts(process_id, interval=1.0)
        with ompd.attach(process_id, nonblocking=True) as session:
            findings = {row.kind for row in session.ask_doctor().rows}
    assert [row.kind for row in found] == ["throttled"] and found[0].confidence == "proven"
    assert found[0].summary.startswith("2 threads have a quota of 0.03 processors, and in ")
    assert f"{group}/cpu.cfs_quota_us" in found[0].advice[0] and "throttled" in findings


def test_siblings_that_share_the_processors_are_added_up() -> None:
    program = build("busy", GNU)
    both = {FIRST, SECOND}
    with (
        started(program, "work", before=lambda: os.sched_setaffinity(0, both)) as one,
        started(program, "work", before=lambda: os.sched_setaffinity(0, both)) as other,
    ):
        verdict = only(one, "oversubscribed")
    assert f"2 OpenMP threads and 2 threads of process {other} (busy) take turns on 2 processors" in verdict.summary
    assert "OMP_NUM_THREADS=1" in verdict.advice[0]


def test_processes_of_others_that_use_the_processors_are_named() -> None:
    program = build("busy", GNU)
    both = {FIRST, SECOND}
    shell = ("sh", "-c", '"$@" & echo $!; wait', "sh")  # so that the other one has another parent
    with (
        started(program, "work", before=lambda: os.sched_setaffinity(0, both)) as one,
        started(program, "work", "4", prefix=shell, before=lambda: os.sched_setaffinity(0, both)) as parent,
    ):
        (other,) = (int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        wait_until(lambda: len(list(Path(f"/proc/{other}/task").iterdir())) == 4)

        def is_named() -> bool:
            # Of many others only those that used most are named, which a busy machine may decide otherwise at a look.
            verdict = next(iter(verdicts(one)), None)
            if verdict is None or verdict.kind != "starved":
                return False
            assert one in verdict.explains and "ready to run, but wait" in verdict.summary
            return any(f"process {other} (busy, with libgomp" in item.text for item in verdict.evidence)

        wait_until(is_named)


@pytest.mark.parametrize(
    ("runtime", "policy", "remedy", "useless"),
    [
        (GNU, "OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY=passive", "KMP_BLOCKTIME=0"),
        (LLVM, "KMP_BLOCKTIME=infinite", "KMP_BLOCKTIME=0", "GOMP_SPINCOUNT=0"),
    ],
    ids=(GNU, LLVM),
)
def test_a_pool_that_spins_while_nothing_is_to_do_is_named_with_the_policy(
    runtime: str, policy: str, remedy: str, useless: str
) -> None:
    variables = dict(setting.split("=") for setting in (policy, useless))
    with started(build("idle", runtime), **variables) as process_id:
        verdict = only(process_id, "spin_burn")
        pool = {int(path.name) for path in Path(f"/proc/{process_id}/task").iterdir()} - {process_id}
    assert set(verdict.explains) <= pool and verdict.explains
    assert verdict.summary.endswith(f"processors while no region is active: {policy}")
    assert verdict.advice == (remedy, f"{useless} has no effect on this runtime")


def test_a_limit_that_the_next_region_will_meet_is_named() -> None:
    space = 64 << 20
    limited = build("idle", GNU)
    with started(
        limited,
        before=lambda: resource.setrlimit(resource.RLIMIT_AS, (space, space)),
        OMP_NUM_THREADS="64",
        OMP_STACKSIZE="8M",
    ) as process_id:
        verdict = only(process_id, "limits")
    assert "the next region needs 62 more threads" in verdict.summary
    assert "the process's address space is limited to 64 MB (ulimit -v)" in verdict.summary


def test_a_control_group_s_number_of_threads_is_a_limit() -> None:
    with (
        control_group("pids", pids__max="2") as group,
        started(build("idle", GNU), before=entering(group), OMP_NUM_THREADS="8") as process_id,
    ):
        verdict = only(process_id, "limits")
    assert f"its next thread fails: the control group's number of threads is limited to 2 ({group}/pids.max)" in (
        verdict.summary
    )


# Programs in order


def was_delayed(process_id: int) -> bool:
    """Return whether threads of a process had to wait for a processor for a tenth of the time, by the kernel."""
    times = [path.read_text().split() for path in Path(f"/proc/{process_id}/task").glob("*/schedstat")]
    ran, waited = (sum(int(words[column]) for words in times) for column in (0, 1))
    return waited > 0.1 * (ran + waited)


def assert_healthy(process_id: int) -> None:
    found = verdicts(process_id)
    # Whether others used the machine is not for this test to decide.
    assert [row for row in found if row.kind != "starved"] == []
    assert not found or was_delayed(process_id)


@pytest.mark.parametrize(
    ("name", "words", "runtime", "variables"),
    [
        ("busy", ("work",), GNU, {}),
        ("busy", ("barrier",), LLVM, {}),
        ("busy", ("work",), GNU, {"OMP_PROC_BIND": "true"}),
        ("busy", ("barrier",), LLVM, {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}),
        ("busy", ("work", "1"), GNU, {"OMP_PROC_BIND": "true"}),
        ("busy", ("work",), LLVM, {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "infinite"}),
        ("idle", (), GNU, {}),
        ("idle", (), LLVM, {"GOMP_SPINCOUNT": "infinite"}),
        ("idle", ("regions",), GNU, {}),
        ("idle", ("regions",), LLVM, {"OMP_WAIT_POLICY": "active"}),
        ("pool", (), GNU, {}),
    ],
)
def test_a_program_in_order_has_no_such_verdict(
    name: str, words: tuple[str, ...], runtime: str, variables: dict[str, str]
) -> None:
    with started(build(name, runtime), *words, **variables) as process_id:
        assert_healthy(process_id)


def everywhere() -> None:
    os.sched_setaffinity(0, {FIRST, SECOND})


@pytest.mark.parametrize("variables", [{}, {"OMP_PROC_BIND": "true"}], ids=("free", "bound"))
def test_more_threads_than_processors_are_only_a_remark(variables: dict[str, str]) -> None:
    if len(os.sched_getaffinity(0)) > 2:
        pytest.skip("all processors of the machine have to be few")
    with started(build("busy", GNU), "work", "4", before=everywhere, **variables) as process_id:
        assert_healthy(process_id)
        with ompd.attach(process_id, nonblocking=True) as session:
            plain = session.ask_why(samples=1).rows[0]
    assert plain.kind == "no_stall" and "4 OpenMP threads take turns on 2 processors" in plain.summary


def test_a_quota_that_is_not_used_up_is_none() -> None:
    with (
        control_group("cpu", cpu__cfs_quota_us="5000000") as group,
        started(build("busy", GNU), "work", before=entering(group)) as process_id,
    ):
        assert_healthy(process_id)


def test_one_look_measures_nothing() -> None:
    with started(build("busy", GNU), "work", GOMP_CPU_AFFINITY=str(FIRST)) as process_id:
        assert verdicts(process_id, samples=1) == [] and verdicts(process_id, interval=0.01) == []
