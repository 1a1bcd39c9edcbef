"""All commands, answered by an OMPD library: of a runtime without a plugin of ompd, and of runtimes that have one.

Facts that OMPD has no call for are reported as unknown. A library that fails is given up, and ompd's plugin answers.
"""

from __future__ import annotations

import json
import os
import re
import select
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import ompd
from ompd.commands.main import cli
from ompd.inspection import Inspection
from tests.support import FULL, Missing, Stopped, fable, stopped
from tests.support.lldb import VERSIONS, target_create
from tests.support.lldb_replies import replies
from tests.support.products import sample

NO_CALL = "OMPD has no call that returns "
NOT_KEPT = "the runtime keeps this only in programs that were started with OMP_DEBUG=enabled"
COMMANDS = ("runtimes", "threads", "parallel", "tasks", "icvs", "stack", "why", "doctor")


def run(*words: str | Path | int) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def told(*words: str | Path | int, status: int = 0) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def session() -> Iterator[Inspection]:
    with ompd.open_core(fable.core(), ompd_library="named") as opened:
        yield opened


# A runtime without a plugin


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.quick("threads", "parallel", "tasks", "why", "doctor")
def test_every_command_answers_of_a_runtime_that_only_its_library_knows(command: str) -> None:
    core = fable.core()
    schema = json.loads(run("schema", command).stdout)
    answer = told(command, core, "--ompd-library", "named")
    jsonschema.validate(answer, schema)
    assert answer["complete"]
    (runtime,) = answer["runtimes"]
    library = (fable.folder() / "libfable_ompd.so").resolve()  # the path that the kernel knows, if the cache is a link
    assert runtime["plugin"] == f"OMPD library {library} (fable OMPD 1.0)"
    assert (runtime["kind"], runtime["layout"], runtime["omp_version"]) == ("unknown", "library", 202111)
    assert [(dll["chosen"], dll["reason"]) for dll in runtime["dlls"]] == [
        (False, "there is no such file here"),
        (True, "loaded, as --ompd-library says"),
    ]
    # The file's name as the option gives the same answer. The text output works, too.
    assert told(command, core, "--ompd-library", library)[command] == answer[command]
    done = run(command, core, "-v", "--ompd-library", library)
    assert done.exit_code == 0 and done.stdout.startswith("core   program   process "), done.output


def test_without_the_option_nobody_reads_it() -> None:
    done = run("threads", fable.core())
    assert done.exit_code == 1 and "ompd has no plugin for its runtime" in done.stderr, done.output


def test_threads_have_what_the_library_tells(session: Inspection) -> None:
    answer = session.ask_threads()
    rows = [row for row in answer.rows if row.runtime is not None]
    assert [(row.thread_num, row.team_size, row.level, row.ancestors, row.state) for row in rows] == [
        (0, 3, 1, (), "wait_barrier_explicit"),
        (2, 3, 1, (), "work_parallel"),
        (0, 2, 2, (1,), "work_parallel"),
        (1, 2, 2, (1,), "wait_lock"),
    ]
    assert {row.state_source for row in rows} == {"runtime"}
    assert [row.thread_type for row in rows] == ["initial", "worker", "worker", "worker"]
    assert [row.tool_data for row in rows] == [7000, 7002, 7001, 7001]
    assert [(row.where.function, row.where.line) for row in rows if row.where] == [
        ("outer", line_of("fable_barrier();")),
        ("task_inside", line_of("STAY;", 2)),
        ("inner", line_of("STAY;", 1)),
        ("inner", line_of("fable_set_lock(&lock);")),
    ]
    barrier, lock = rows[0], rows[3]
    assert barrier.wait is not None and barrier.wait.kind == "barrier" and barrier.wait.arrived is None
    assert barrier.unavailable["wait.arrived"] == f"{NO_CALL}who has arrived at a barrier"
    assert lock.wait is not None and lock.wait.object == lock.wait_id is not None and lock.wait.owner is None
    assert lock.unavailable["wait.owner"] == f"{NO_CALL}who holds a lock"
    # No opaque handle is shown as an address.
    assert all(row.address is None and row.unavailable["address"].startswith(NO_CALL) for row in rows)
    assert [row.thread_type for row in answer.rows if row.runtime is None] == ["other", "other"]


def line_of(text: str, time: int = 1) -> int:
    lines = (fable.SOURCES / "program.c").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line][time - 1]


def test_regions_and_tasks_are_one_each_however_often_they_are_asked_for(session: Inspection) -> None:
    regions, tasks = session.ask_parallel().rows, session.ask_tasks().rows
    outer, inner = regions
    assert (outer.team_size, inner.team_size, inner.enclosing, outer.enclosing) == (3, 2, outer.id, None)
    assert (outer.tool_data, inner.tool_data) == (9001, 9002)
    assert [region.function and (region.function.function, region.function.line) for region in regions] == [
        ("main", line_of("static void outer(") + 1),
        ("outer", line_of("static void inner(") + 1),
    ]
    assert len({task.id for task in tasks}) == len(tasks) == 8
    kinds = Counter((task.kind, task.status) for task in tasks)
    assert kinds == {
        ("initial", "suspended"): 1,
        ("implicit", "executing"): 3,
        ("implicit", "suspended"): 2,
        ("explicit", "suspended"): 1,
        ("explicit", "executing"): 1,
    }
    by_id = {task.id: task for task in tasks}
    executed = next(task for task in tasks if (task.kind, task.status) == ("explicit", "executing"))
    suspended = by_id[executed.generating or ""]
    assert executed.scheduling == suspended.id and suspended.kind == "explicit" and executed.final
    assert suspended.thread == executed.thread and by_id[suspended.generating or ""].kind == "implicit"
    assert executed.function is not None and executed.function.function == "task_inside"
    assert executed.exit_frame is not None and executed.exit_frame.flags == 0x20
    # The identifiers are the same in another session, whose first query differs.
    with ompd.open_core(fable.core(), ompd_library="named") as other:
        assert {task.id for task in other.ask_tasks().rows} == by_id.keys()
        assert [row.task for row in other.ask_threads().rows] == [row.task for row in session.ask_threads().rows]


def test_stacks_are_divided_by_the_frames_of_tasks(session: Inspection) -> None:
    rows = {(row.level, row.thread_num): row for row in session.ask_stacks().rows if row.runtime is not None}
    names = {key: [frame.function for frame in row.frames] for key, row in rows.items()}
    assert names == {
        (1, 0): ["outer", "main"],
        (1, 2): ["pause", "task_inside", "task_outside", "outer", "main"],
        (2, 0): ["pause", "inner", "outer", "main"],
        (2, 1): ["inner", "outer", "main"],
    }
    assert {row.boundaries for row in rows.values()} == {"runtime"} and not any(row.stopped for row in rows.values())
    tasks = [frame.task for frame in rows[1, 2].frames]
    assert len(set(tasks)) == 4 and tasks[0] == tasks[1]


def test_variables_are_numbers_texts_and_lists_in_any_scope(session: Inspection) -> None:
    rows = session.ask_icvs().rows
    values: dict[str, set[object]] = {}
    for row in rows:
        values.setdefault(f"{row.scope} {row.name}", set()).add(row.value)
    assert values.pop("thread thread-num-var") == {0, 1, 2}
    assert values == {
        "parallel levels-var": {1, 2},
        "parallel active-levels-var": {1, 2},
        "parallel team-size-var": {3, 2},
        "thread nthreads-var": {"3,2"},
        "task implicit-task-var": {True, False},
        "task final-task-var": {False, True},
        "task run-sched-var": {"dynamic,4"},
        "address_space cancel-var": {False},
        "global num-procs-var": {64},
        "implicit_task place-partition-var": {"{0:4}"},
        "address_space fable-mood-var": {"serene"},
        "display FABLE_MOOD": {"serene"},
    }
    assert type(next(row.value for row in rows if row.name == "cancel-var")) is bool
    assert sum(row.name == "place-partition-var" for row in rows) == 4  # also for the thread in an explicit task


def test_a_variable_of_which_the_runtime_may_have_copies_is_unknown(session: Inspection) -> None:
    own = session.ask_var("own").rows
    assert sorted(row.value for row in own if row.runtime is not None) == [10, 12, 20, 21]
    reasons = {row.unavailable["value"] for row in session.ask_var("lock").rows}
    assert reasons == {f"{NO_CALL}whether a runtime keeps copies of a variable for each thread"}


def test_why_has_unknowns_and_no_guesses(session: Inspection) -> None:
    answer = session.ask_why()
    assert {(row.kind, row.confidence) for row in answer.rows} == {("undecided", "unknown")}
    unknowns = " ".join(text for row in answer.rows for text in row.unknowns)
    assert "who has arrived at a barrier" in unknowns and "who holds a lock" in unknowns


def test_what_ompd_does_not_list_is_said(session: Inspection) -> None:
    notes = [text for text in session.ask_tasks().warnings if NO_CALL in text]
    assert notes and all("the tasks that no thread executes" in text for text in notes)
    (runtime,) = session.runtimes
    assert runtime.space is not None
    for ask in (runtime.space.queued_tasks, runtime.space.gone_threads, runtime.space.version):
        with pytest.raises(ompd.errors.NoCall, match=NO_CALL):  # type: ignore[attr-defined]
            ask()


def test_a_runtime_that_keeps_no_states_leaves_them_unknown() -> None:
    answer = told("threads", fable.core("neither"), "--ompd-library", "named")
    rows = [row for row in answer["threads"] if row["runtime"] is not None]
    assert [(row["thread_num"], row["state"]) for row in rows] == [(0, None), (2, None), (0, None), (1, None)]
    assert all(NOT_KEPT in row["unavailable"]["state"] for row in rows)
    assert answer["runtimes"][0]["keeps_states"] is False


def test_a_live_process_is_read_as_always() -> None:
    with fable.running() as process:
        answer = told("threads", process, "--ompd-library", "named")
        assert answer["target"]["stops_ns"] == []  # all its threads sleep
        numbers = [row["thread_num"] for row in answer["threads"] if row["runtime"] is not None]
        assert numbers == [0, 2, 0, 1]
        assert len(told("tasks", process, "--ompd-library", "named")["tasks"]) == 8


def test_a_snapshot_has_what_the_library_reads(tmp_path: Path) -> None:
    core, small = fable.core(), tmp_path / "small.core"
    assert run("snapshot", core, "-o", small, "--ompd-library", "named").exit_code == 0
    library = fable.folder() / "libfable_ompd.so"
    for command in ("threads", "parallel", "tasks", "icvs", "stack"):
        assert (
            told(command, small, "--ompd-library", library)[command]
            == told(command, core, "--ompd-library", library)[command]
        )


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("version", VERSIONS if FULL else VERSIONS[-1:])
@pytest.mark.quick()
def test_the_option_is_there_under_lldb(version: int, tmp_path: Path) -> None:
    where = fable.folder()
    words = (
        *("ompd threads --ompd-library named", "ompd parallel --ompd-library named --json", "ompd threads"),
        *("ompd thread --ompd-library named 0", f"ompd snapshot --ompd-library=named {tmp_path / 'small.core'}"),
    )
    answers = replies(version, target_create(where / "program", fable.core()), *words)
    assert "wait_lock" in answers[words[0]] and "not OpenMP" in answers[words[0]]
    assert [region["team_size"] for region in json.loads(answers[words[1]])["parallel"]] == [3, 2]
    assert "ompd has no plugin for its runtime" in answers[words[2]]
    assert "is in no team" in answers[words[3]]  # the thread that has ended the program is no OpenMP thread
    library = where / "libfable_ompd.so"
    assert len(told("tasks", tmp_path / "small.core", "--ompd-library", library)["tasks"]) == 8


_WORKERS = (
    'script import glob; print("workers:", *[one for file in glob.glob("/proc/self/task/*/children")'
    ' for one in open(file).read().split() if b"hosted" in open(f"/proc/{one}/cmdline", "rb").read()])'
)


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("version", VERSIONS if FULL else VERSIONS[-1:])
def test_the_process_of_a_library_ends_with_the_stop_and_with_lldb(version: int) -> None:
    if not Path("/proc/self/task").joinpath(str(os.getpid()), "children").exists():
        raise Missing("kernel", "it does not list the children of a process", forbidden=True)
    program = fable.folder() / "program"
    hosted = "ompd threads --ompd-library named"
    words = (
        *(target_create(program), "breakpoint set -n fable_set_lock", "process launch -- abort debug"),
        *(_WORKERS, hosted, _WORKERS, hosted, _WORKERS),
        *("process continue", "ompd threads", _WORKERS, hosted, _WORKERS),
        *(target_create(program, fable.core()), hosted, _WORKERS),
    )
    answers = replies(version, *words)
    assert all("wait_lock" in text or "work" in text for text in answers.all(hosted))
    before, first, same, over, second, other = (
        [int(one) for one in text.split("workers:")[1].split()] for text in answers.all(_WORKERS)
    )
    assert before == over == [] and first == same and len(first) == len(second) == len(other) == 1
    assert len({*first, *second, *other}) == 3
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(other[0])
        assert select.select([descriptor], [], [], 60)[0], "it outlives LLDB"
        os.close(descriptor)


# Libraries that fail


@pytest.fixture(scope="module")
def on_intel() -> Stopped:
    return stopped("nested", compiler="clang")


@pytest.mark.parametrize(
    ("where", "how", "said"),
    sample(
        [
            ("initialize", "BY_ABORT", "in ompd_initialize"),
            ("process", "BY_EXIT", "in ompd_process_initialize"),
            ("thread", "BY_ABORT", "in ompd_get_thread_handle"),
        ]
    ),
)
def test_one_that_fails_is_given_up_and_our_own_plugin_answers(
    where: str, how: str, said: str, on_intel: Stopped, tmp_path: Path
) -> None:
    library = fable.dying(tmp_path, [f'-DWHERE="{where}"', f"-D{how}"])
    ours = told("threads", on_intel.core)
    answer = told("threads", on_intel.core, "--ompd-library", library, status=3)
    assert answer["threads"] == ours["threads"] and answer["runtimes"] == ours["runtimes"]
    (note,) = set(answer["warnings"]) - set(ours["warnings"])
    assert note.startswith(f"--ompd-library: {library}: ") and said in note and "given up" in note
    with ompd.open_core(on_intel.core, ompd_library=library) as session:
        for _ in range(2):  # the library is not started again
            assert sum("--ompd-library" in text for text in session.ask_parallel().warnings) == 1
        assert not session.ask_threads().complete  # the rows are whole, but the named library did not give them


def test_one_that_fails_where_there_is_no_other_plugin_is_the_reason(tmp_path: Path) -> None:
    library = fable.dying(tmp_path, ['-DWHERE="thread"', "-DBY_ABORT"])
    core = fable.core()
    done = run("threads", core, "--ompd-library", library)
    assert done.exit_code == 1 and "in ompd_get_thread_handle" in done.stderr, done.output
    assert run("runtimes", core, "--ompd-library", library).exit_code == 3


@pytest.mark.parametrize("name", ["/nonexistent/libompd.so", "libompd.so", "", __file__])
def test_one_that_may_not_be_loaded_is_said_once(name: str, on_intel: Stopped) -> None:
    answer = told("threads", on_intel.core, "--ompd-library", name, status=3)
    assert sum("--ompd-library" in text for text in answer["warnings"]) == 1
    assert answer["threads"] == told("threads", on_intel.core)["threads"]


def test_a_runtime_that_names_no_library_is_read_by_our_own_plugin() -> None:
    core = stopped("nested", compiler="gcc", mode="neither", runtime="libgomp").core
    answer = told("threads", core, "--ompd-library", "named", status=3)
    assert [text for text in answer["warnings"] if re.search("libgomp.* names no library for debuggers", text)]
    assert answer["threads"] == told("threads", core)["threads"]


def test_before_openmp_begins_there_is_no_library_to_load() -> None:
    core = stopped("not_initialised", compiler="clang").core
    ours, answer = told("runtimes", core), told("runtimes", core, "--ompd-library", "named")
    assert answer == ours
