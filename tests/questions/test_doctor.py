"""``ompd doctor``: it finds faults of a program or of its core, and reports no fault of a healthy one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.debugger.system_waits.kernel import SystemFacts
from ompd.debugger.targets.live import ptrace
from ompd.errors import Unavailable
from ompd.machine.supply import groups
from ompd.machine.supply.files import Roots
from ompd.model import DoctorAnswer, FindingRecord
from ompd.questions.doctor.supply import named_processors
from tests.support import INTEL, Missing, clean_environment, stopped
from tests.support.command import run
from tests.support.doctor import at_rest, program, resting_in_library, two_runtimes
from tests.support.lldb import target_create
from tests.support.lldb_replies import replies
from tests.support.products import each_version
from tests.support.runs import ENVIRONMENT, cores_allowed, require_kernel_cores, write_gcore
from tests.support.spaces import without_spaces


def examined(process_id: int) -> DoctorAnswer:
    with ompd.attach(process_id) as session:
        return session.ask_doctor()


def of_core(core: Path, **options: Any) -> DoctorAnswer:
    with ompd.open_core(core, **options) as session:
        return session.ask_doctor()


def the(answer: DoctorAnswer, kind: str) -> FindingRecord:
    (row,) = (row for row in answer.rows if row.kind == kind)
    return row


def kinds(answer: DoctorAnswer, *severities: str) -> set[str]:
    return {row.kind for row in answer.rows if not severities or row.severity in severities}


def two_processors() -> set[int]:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2 or any(quota.processors < 2 for quota in groups.quotas(os.getpid(), Roots())):
        raise Missing("two processors", "this process may not use two")
    return set(allowed[:2])


def one_processor() -> set[int]:
    return {min(os.sched_getaffinity(0))}


# Healthy programs


@pytest.mark.parametrize("runtime", ["libgomp", INTEL])
def test_of_a_healthy_program_nothing_bad_is_said(runtime: str) -> None:
    with at_rest([program(runtime=runtime), "team", "2"], {"OMP_STACKSIZE": "4M"}, two_processors()) as process_id:
        answer = examined(process_id)
        text = run("doctor", process_id, "-v")
    assert kinds(answer) <= {"omp_debug"} and answer.complete and answer.warnings == ()
    assert all(row.severity == "note" for row in answer.rows)
    assert "2 threads are in active regions, and the process may use 2 processors" in " ".join(answer.in_order)
    assert any(said.startswith("one OpenMP runtime: ") for said in answer.in_order)
    assert text.returncode == 0 and all(f"in order: {said}" in text.stdout for said in answer.in_order)
    if not answer.rows:
        assert text.stdout.splitlines()[2].startswith("nothing is wrong: answers cannot be better")


# Several runtimes


def names(paths: Sequence[str]) -> list[str]:
    return [path.rpartition("/")[2] for path in paths]


def test_each_runtime_is_traced_to_what_needs_it() -> None:
    pair = two_runtimes("libgomp", INTEL)
    with at_rest([pair.program, pair.plugin]) as process_id:
        row = the(examined(process_id), "duplicate_runtimes")
        text = run("doctor", process_id).stdout
    gnu, intel = row.chains if "gomp" in row.chains[0].module else reversed(row.chains)
    assert gnu.begins == "program" and intel.begins == "dlopen"
    assert names(gnu.modules) == ["main", "libouter.so", "libinner.so", pair.first.resolve().name]
    assert names(intel.modules) == ["plugin.so", pair.second.name]
    assert names(gnu.needed_by) == ["libinner.so"] and names(intel.needed_by) == ["plugin.so"]
    assert row.severity == "note" and "libgomp and libiomp5 work beside each other" in row.consequence
    assert (row.finding or "").count("is initialised and has 2 threads") == 2
    assert f"main -> libouter.so -> libinner.so -> {pair.first.resolve().name}: the program needs it" in text
    assert "plugin.so -> libiomp5.so: the first one was loaded while the program ran (dlopen)" in text


def test_a_runtime_that_was_preloaded_is_not_taken_for_one_that_dlopen_loaded(tmp_path: Path) -> None:
    pair = two_runtimes("libgomp", INTEL)
    with at_rest([pair.program], {"LD_PRELOAD": str(without_spaces(pair.plugin))}) as process_id:
        row = the(examined(process_id), "duplicate_runtimes")
    chains = {names(chain.modules)[-1]: chain for chain in row.chains}
    assert chains["libiomp5.so"].begins == "preload"
    assert names(chains["libiomp5.so"].modules) == ["plugin.so", "libiomp5.so"]


@pytest.mark.parametrize("value", ["TRUE", ""])
def test_two_runtimes_that_are_one_program_are_an_error(value: str) -> None:
    pair = two_runtimes(INTEL, "libomp-19")
    if not value:  # without this permission the second runtime would end the program
        with at_rest([pair.program]) as process_id:
            answer = examined(process_id)
        assert not kinds(answer) & {"duplicate_runtimes", "kmp_duplicate_lib_ok"}
        return
    # With one runtime the setting is harmless.
    with at_rest([pair.program, "", value]) as process_id:
        assert "kmp_duplicate_lib_ok" not in kinds(examined(process_id))
    # The program sets the variable itself, so it is not in the environment that it was started with.
    with at_rest([pair.program, pair.plugin, value]) as process_id:
        answer = examined(process_id)
    row, allowed = the(answer, "duplicate_runtimes"), the(answer, "kmp_duplicate_lib_ok")
    assert row.severity == "error" and "Error #15" in row.consequence
    assert allowed.finding == "KMP_DUPLICATE_LIB_OK=TRUE in its environment" and allowed.severity == "warning"


# Threads, processors, settings


def test_more_threads_than_processors() -> None:
    environment = {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "infinity", "KMP_BLOCKTIME": "infinite"}
    with at_rest([program(), "team", "3"], environment, one_processor()) as process_id:
        answer = examined(process_id)
    row = the(answer, "oversubscription")
    assert row.severity == "warning" and (row.remedy or "").startswith("OMP_NUM_THREADS=1,")
    assert (row.finding or "").startswith("3 threads are in active regions, and the process may use ")
    assert "1 processor (Cpus_allowed_list)" in (row.finding or "")
    waits = {row.subject: row.remedy for row in answer.rows if row.kind == "active_wait"}
    assert waits == {"OMP_WAIT_POLICY": "OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT": "unset GOMP_SPINCOUNT"}


def test_a_limit_that_cannot_be_read_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process_id: int, roots: Roots) -> NoReturn:
        raise Unavailable("/sys/fs/cgroup/cpu.max cannot be read: Permission denied")

    monkeypatch.setattr(groups, "quotas", refuse)
    monkeypatch.setattr(SystemFacts, "allowed_processors", lambda self: frozenset({0, 1, 2}))
    with at_rest([program(), "team", "3"]) as process_id:
        text = " ".join(examined(process_id).in_order)
    refusal = "/sys/fs/cgroup/cpu.max cannot be read: Permission denied"
    assert f"3 processors (Cpus_allowed_list) if no control group allows it less: {refusal}" in text


def test_nested_regions_are_counted_together() -> None:
    with at_rest([program(), "nested", "2", "2"], cpus=two_processors()) as process_id:
        answer = examined(process_id)
    row = the(answer, "nested_oversubscription")
    assert row.subject == "4 threads" and "OMP_MAX_ACTIVE_LEVELS=1" in (row.remedy or "")
    assert "active_wait" not in kinds(answer)


def test_small_stacks_of_workers() -> None:
    with at_rest([program(), "team", "2"], {"OMP_STACKSIZE": "64k"}) as process_id:
        row = the(examined(process_id), "small_stacks")
    assert row.severity == "note" and "1 worker has a stack of 6" in (row.finding or "")
    assert "(OMP_STACKSIZE=64k)" in (row.finding or "")


def core_of(command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> Path:
    require_kernel_cores()
    with cores_allowed():
        subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env={**clean_environment(), **ENVIRONMENT, **environment},
            check=False,
            stdout=subprocess.DEVNULL,
        )
    (core,) = folder.glob("core*")
    return core


def test_a_stack_overflow_is_called_one(tmp_path: Path) -> None:
    answer = of_core(core_of([program(), "overflow"], tmp_path, {"OMP_STACKSIZE": "256k"}))
    row = the(answer, "stack_overflow")
    assert row.severity == "error" and "(OpenMP 1/2) failed at 0x" in (row.finding or "")
    assert row.remedy == "OMP_STACKSIZE=16M"
    assert "pages_omitted" not in kinds(answer)
    # A fault elsewhere is no stack overflow.
    assert "stack_overflow" not in kinds(of_core(stopped("hang").core))


@pytest.mark.parametrize("runtime", ["libgomp", INTEL])
def test_a_child_of_fork_is_warned_of(runtime: str) -> None:
    with at_rest([program(runtime=runtime), "forked"]) as process_id:
        answer = examined(process_id)
    row = the(answer, "fork_child")
    assert "the process has one thread, and its team had 2 more" in (row.finding or "") and "spawn" in (
        row.remedy or ""
    )


def test_a_child_that_was_forked_after_a_region_is_warned_of() -> None:
    with at_rest([program(runtime="libgomp"), "after"]) as process_id:
        row = the(examined(process_id), "fork_child")
    assert "the process has one thread, and libgomp keeps 2 more in its pool" in (row.finding or "")
    # LLVM's runtime starts afresh in a child.
    with at_rest([program(runtime=INTEL), "after"]) as process_id:
        assert "fork_child" not in kinds(examined(process_id))


# Files and cores


def copied(core: Path, folder: Path) -> Path:
    return Path(shutil.copy(core, folder / "core"))


def test_a_core_whose_program_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = Path(shutil.copy(program(), tmp_path / "gone"))
    core = core_of([executable, "overflow"], tmp_path, {})
    shutil.move(executable, tmp_path / "elsewhere")
    row = the(of_core(core), "file_unreadable")
    assert row.severity == "error" and str(executable) in (row.finding or "")
    assert row.remedy == f"ompd doctor {core} --exe PROGRAM"
    (tmp_path / "-v").symlink_to(core)
    monkeypatch.chdir(tmp_path)
    assert the(of_core(Path("-v")), "file_unreadable").remedy == "ompd doctor ./-v --exe PROGRAM"
    assert "file_unreadable" not in kinds(of_core(core, exe=tmp_path / "elsewhere"))
    # Another program at the same path is no better.
    shutil.copy("/bin/true", executable)
    assert the(of_core(core), "file_unreadable").severity == "error"


def test_a_program_without_debug_information_is_told_apart_from_a_stripped_one() -> None:
    said = {}
    for name, flags in (("plain", ()), ("stripped", ("-s",)), ("debug", ("-g",))):
        with at_rest([program(flags=flags), "team", "2"]) as process_id:
            rows = [row for row in examined(process_id).rows if row.kind == "debug_information"]
        said[name] = [(row.severity, row.finding or "", row.remedy) for row in rows]
    assert said["debug"] == []
    for name in ("plain", "stripped"):
        ((severity, finding, remedy),) = said[name]
        assert severity == "warning" and remedy == "compile and link it with -g, and do not strip it"
        assert finding.endswith("has no debug information" + " and is stripped" * (name == "stripped"))


@pytest.mark.parametrize(
    ("folder", "strip", "remedy"),
    [
        ("own", "-g", "compile and link it with -g, and do not strip it"),
        ("own", "-s", None),
        ("site-packages", "-g", None),
    ],
)
def test_users_need_not_compile_libraries_of_packages(
    folder: str, strip: str, remedy: str | None, tmp_path: Path
) -> None:
    main, library = resting_in_library(tmp_path / folder / "package.libs", strip)
    with at_rest([main]) as process_id:
        row = the(examined(process_id), "debug_information")
    assert (row.subject, row.remedy) == (str(library), remedy)


def test_a_separate_debug_file_that_is_missing_is_named(tmp_path: Path) -> None:
    executable = Path(shutil.copy(program(), tmp_path / "linked"))
    objcopy = shutil.which("objcopy")
    if objcopy is None:
        raise Missing("binutils", "no objcopy")
    for words in (
        ("--only-keep-debug", executable, tmp_path / "linked.debug"),
        ("--strip-debug", "--strip-unneeded", executable),
        (f"--add-gnu-debuglink={tmp_path / 'linked.debug'}", executable),
    ):
        subprocess.run([objcopy, *map(str, words)], check=True, cwd=tmp_path)
    with at_rest([executable, "team", "2"]) as process_id:
        assert "debug_information" not in kinds(examined(process_id))
        shutil.move(tmp_path / "linked.debug", tmp_path / "hidden")
        row = the(examined(process_id), "debug_information")
    assert "the separate file that it names, linked.debug, is not found" in (row.finding or "")
    assert f"ompd doctor {process_id} --debug-dir FOLDER, where linked.debug is" in (row.remedy or "")


def test_a_core_that_was_cut_off(tmp_path: Path) -> None:
    core = copied(stopped("hang").core, tmp_path)
    size = core.stat().st_size
    os.truncate(core, size // 2)
    ran = run("doctor", core, "--json")
    answer = json.loads(ran.stdout)
    (row,) = (row for row in answer["doctor"] if row["kind"] == "core_truncated")
    assert row["severity"] == "error" and f"{size // 2} of {size} bytes" in row["finding"]
    assert "ulimit -c unlimited" in row["remedy"]
    assert ran.returncode == 3 and not answer["complete"]


def test_stacks_that_a_core_leaves_out(tmp_path: Path) -> None:
    # coredump_filter 0x10 leaves out private memory. The failed thread is below its stack, at unmapped addresses.
    require_kernel_cores()
    with cores_allowed():
        words = ["sh", "-c", 'echo 0x10 > /proc/self/coredump_filter; exec "$0" overflow', str(program())]
        subprocess.run(words, cwd=tmp_path, env={**clean_environment(), **ENVIRONMENT}, check=False)
    (core,) = tmp_path.glob("core*")
    row = the(of_core(core), "pages_omitted")
    assert row.severity == "error" and "leaves out the stacks of 1 of 2 threads" in (row.finding or "")
    assert (row.remedy or "").startswith("echo 0x33 > /proc/self/coredump_filter")


def test_a_program_without_openmp() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        ran = run("doctor", process.pid)
    finally:
        process.kill()
        process.wait()
    assert ran.returncode == 0 and "error: no OpenMP runtime among the" in ran.stdout
    assert "-fopenmp" in ran.stdout


def test_a_snapshot_is_examined_like_its_process(tmp_path: Path) -> None:
    pair = two_runtimes("libgomp", INTEL)
    small = tmp_path / "small.core"
    with at_rest([pair.program, pair.plugin]) as process_id, ompd.attach(process_id) as session:
        live = session.ask_doctor()
        session.snapshot(small)
    kept = of_core(small)
    assert the(kept, "duplicate_runtimes").finding == the(live, "duplicate_runtimes").finding
    # Libraries' needs are in parts of files that a snapshot does not keep, and they are not guessed.
    assert all(
        chain.begins is None and "begins" in chain.unavailable for chain in the(kept, "duplicate_runtimes").chains
    )
    assert not kinds(kept, "error") and "debug_information" not in kinds(kept)


# Processes that cannot be inspected


def test_a_process_that_another_traces_is_refused_and_why() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        ptrace.seize(process.pid)
        ran = run("doctor", process.pid, "--json")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    answer = json.loads(ran.stdout)
    row = answer["doctor"][0]
    assert (row["kind"], row["severity"], row["area"]) == ("attach_refused", "error", "target")
    assert (
        row["finding"] == f"is traced already, by process {os.getpid()} ({Path('/proc/self/comm').read_text().strip()})"
    )
    assert "detach" in row["remedy"] and ran.returncode == 3 and answer["target"]["kind"] == "machine"


def test_another_users_process_is_refused_and_why() -> None:
    if os.geteuid() != 0:
        raise Missing("root", "only root becomes another user", forbidden=True)
    process = subprocess.Popen(["sleep", "60"])
    code = (
        "import os, sys, ompd.questions.doctor as doctor, ompd.debugger.targets.live.refusals\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "for row in doctor.ask_alone(int(sys.argv[1])).rows: print(row.kind, '|', row.finding, '|', row.remedy)\n"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code, str(process.pid)], capture_output=True, text=True)
    finally:
        process.kill()
        process.wait()
    first = done.stdout.splitlines()[0]
    assert first == ("attach_refused | belongs to another user (uid 0) | run ompd as that user, or as root (sudo)"), (
        done.stderr
    )


def test_no_such_process_is_an_error_of_the_user() -> None:
    ran = CliRunner().invoke(cli, ["doctor", "999999999"])
    assert ran.exit_code == 1 and "there is no such process" in ran.stderr and ran.stdout == ""


# LLDB


@pytest.mark.xdist_group("lldb")
@each_version()
def test_lldb_says_what_the_shell_says(version: int) -> None:
    core = stopped("hang")
    said = replies(version, target_create(core.executable, core.core), "ompd doctor --json")
    answer = json.loads(said["ompd doctor --json"])
    with ompd.open_core(core.core) as session:
        expected = session.ask_doctor()
    assert answer["schema"] == "ompd/doctor/1" and answer["target"]["kind"] == "lldb"
    assert {row["kind"] for row in answer["doctor"]} == kinds(expected)


# Processors that settings name


@pytest.mark.parametrize(("name", "places"), [("GOMP_CPU_AFFINITY", "0"), ("OMP_PLACES", "{0}")])
def test_a_core_shows_that_its_setting_names_too_few_processors(name: str, places: str, tmp_path: Path) -> None:
    with at_rest([program(), "team", "2"], {name: places}) as process_id:
        write_gcore(process_id, tmp_path / "core")
    row = the(of_core(tmp_path / "core"), "few_processors")
    assert (row.severity, row.subject) == ("note", name)
    assert row.finding == f"{name}={places} names processor 0, and 2 threads are in active regions"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0 3 8-10", {0, 3, 8, 9, 10}),
        ("4-15:4", {4, 8, 12}),
        ("{0,1},{2}", {0, 1, 2}),
        ("cores", None),
        ("{0:2}:4:2", None),
        ("5-1", None),
        ("0-99999999", None),
        ("1-2:0", None),
        ("", None),
    ],
)
def test_lists_of_places_are_read_as_far_as_they_do_not_depend_on_the_machine(text: str, cpus: set[int] | None) -> None:
    assert named_processors(text) == cpus
