"""Places of threads whose stacks are incomplete: programs of ``tests/frames``, live, on each runtime.

A function that ended with a jump has no frame. Frames of a library without debug information show nothing useful. A
thread in ``omp_get_thread_num`` is in no user code, but it works.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.contract.helpers import entries
from ompd.model import Answer, StackFrame, ThreadRecord
from tests.support import FULL, clean_environment, require
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.live import working
from tests.support.lldb import LOAD, batch, lldb
from tests.support.machine import intel_runtime
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read
from tests.support.runtimes import RUNTIMES

FOLDER = CHECKOUT / "tests" / "frames"
SOURCE = (FOLDER / "ends.c").read_text()
PAIRS = [("gcc", "libgomp"), ("clang", "libomp-19"), ("clang", "intel"), ("gcc", "stub")]
if FULL:
    PAIRS += [("gcc", name) for name in ("libgomp-wheel", "libomp-13", "libomp-14", "libomp-16", "libomp-19", "intel")]
    PAIRS += [("clang", name) for name in ("libomp-13", "libomp-14", "libomp-16")]
EVERYWHERE = pytest.mark.parametrize(("compiler_name", "runtime"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
LEVELS = ("-O0", "-O1", "-O2", "-O3") if FULL else ("-O2",)
BARRIERS = {"wait_barrier", "wait_barrier_explicit"}


def line_of(mark: str) -> int:
    (line,) = (number for number, text in enumerate(SOURCE.splitlines(), 1) if f"/* {mark} */" in text)
    return line


def built(compiler_name: str, runtime: str, flags: Sequence[str]) -> Path:
    openmp, used, gcc = RUNTIMES[runtime], compiler(compiler_name), compiler("gcc")
    library, headers = openmp.file().parent, intel_runtime() / "opt" / "compiler" / "include"
    command = [str(used.path), "-Wall", "-Wextra", "-Werror", "-fopenmp", "-idirafter", str(headers), *flags]
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]
    shared = ["-O1", "-fPIC", "-shared", "-s", str(FOLDER / "library.c"), "-o", "libhidden.so"]

    def make(folder: Path) -> None:
        for words in (
            [*command, "-c", str(FOLDER / "ends.c"), "-o", "ends.o"],
            [str(gcc.path), *shared],
            [str(gcc.path), "ends.o", "-o", "ends", "-L.", "-lhidden", "-Wl,-rpath,$ORIGIN", *linking],
        ):
            subprocess.run(words, cwd=folder, check=True, env=clean_environment())

    texts = [SOURCE, (FOLDER / "library.c").read_text()]
    key = key_of("frames", texts, used.version, gcc.version, command, shared, linking, openmp.version())
    return entry("programs", key, make) / "ends"


@contextmanager
def at(place: str, compiler_name: str, runtime: str, level: str = "-O2", *flags: str) -> Iterator[tuple[int, str]]:
    """Run the program until it is on its way to *place*; yield the process id and the line that the program printed."""
    program = built(compiler_name, runtime, ["-g", level, *flags])
    # The program may fork, so that the child has to be killed as well.
    process = subprocess.Popen(
        [str(program), place],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **({"OMP_NESTED": "true"} if runtime == "libgomp-wheel" else {})},  # an old libgomp
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert can_be_read(process.stdout.fileno(), READY_SECONDS)
        yield process.pid, process.stdout.readline().strip()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def asked_until(process_id: int, is_it: Callable[[Answer[ThreadRecord]], bool]) -> ompd.Inspection:
    """Attach until the threads satisfy *is_it*, which must happen in time; return that session."""
    end = time.monotonic() + READY_SECONDS
    while True:
        session = ompd.attach(process_id)
        answer = session.ask_threads()
        if is_it(answer):
            return session
        session.close()
        assert time.monotonic() < end, answer


def members(answer: Answer[ThreadRecord]) -> dict[int, ThreadRecord]:
    return {row.thread_num: row for row in answer.rows if row.thread_num is not None and row.level == 1}


def three_wait(answer: Answer[ThreadRecord]) -> bool:
    rows = members(answer)
    return len(rows) == 4 and [rows[number].state in BARRIERS for number in range(4)] == [True, True, True, False]


def place(row: ThreadRecord | StackFrame | None) -> tuple[str | None, str | None, int | None]:
    here = row.where if isinstance(row, ThreadRecord) else row
    assert here is not None
    return here.function, here.file and Path(here.file).name, here.line


@pytest.mark.parametrize("level", LEVELS)
@EVERYWHERE
def test_a_thread_at_a_barrier_that_its_code_jumped_to_is_in_the_region(
    compiler_name: str, runtime: str, level: str
) -> None:
    region, barrier = line_of("region of the barrier"), line_of("the barrier")
    with at("barrier", compiler_name, runtime, level) as (pid, _), asked_until(pid, three_wait) as session:
        answer, stacks = session.ask_threads(), session.ask_stacks()
    assert answer.complete and stacks.complete, (answer.warnings, stacks.warnings)
    rows = members(answer)
    assert [place(rows[number]) for number in range(3)] == [("at_barrier", "ends.c", barrier)] * 3
    assert all(rows[number].where.address is not None for number in range(3))  # type: ignore[union-attr]
    by_number = {row.thread_num: row for row in stacks.rows}
    for number in range(3):
        inner, *outer = by_number[number].frames
        assert place(inner) == ("at_barrier", "ends.c", barrier)
        assert inner.construct is not None and (inner.construct.kind, inner.construct.line) == ("parallel", region)
        assert inner.task == rows[number].task and inner.thread == rows[number].native_thread_id
        assert [frame.function for frame in outer] == ["at_barrier", "main"]
        assert {frame.thread for frame in outer} == {rows[0].native_thread_id}
    if level in ("-O2", "-O3"):
        assert {by_number[number].frames[0].how for number in range(3)} == {"tail-call"}


@EVERYWHERE
def test_functions_that_jumped_on_are_all_there(compiler_name: str, runtime: str) -> None:
    with at("orphan", compiler_name, runtime) as (pid, _), asked_until(pid, three_wait) as session:
        stacks = session.ask_stacks()
    by_number = {row.thread_num: row for row in stacks.rows}
    for number in range(3):
        frames = by_number[number].frames
        assert [place(frame) for frame in frames[:2]] == [
            ("meet", "ends.c", line_of("the orphaned barrier")),
            ("at_orphan", "ends.c", line_of("calls the orphan")),
        ]
        assert frames[0].construct is None and frames[1].construct is not None
        assert frames[1].construct.line == line_of("region of the orphan")


@pytest.mark.parametrize(("compiler_name", "runtime"), [pair for pair in PAIRS if pair[1] != "stub"])
def test_a_region_that_ends_with_another_one_goes_on_in_the_stacks_of_its_workers(
    compiler_name: str, runtime: str
) -> None:
    def all_stay(answer: Answer[ThreadRecord]) -> bool:
        rows = [row for row in answer.rows if row.level == 2]
        return len(rows) == 4 and all(row.where is not None and row.where.function == "stay" for row in rows)

    with at("nested", compiler_name, runtime) as (pid, _), asked_until(pid, all_stay) as session:
        stacks = session.ask_stacks()
    assert stacks.complete, stacks.warnings
    outer, inner = line_of("outer region"), line_of("inner region")
    for row in stacks.rows:
        written = [(frame.function, frame.line, frame.construct and frame.construct.line) for frame in row.frames[-3:]]
        assert written[:2] == [("nested", inner, outer), ("nested", outer, None)] and written[2][0] == "main"


@EVERYWHERE
def test_a_library_without_debug_information_is_what_the_users_code_called(compiler_name: str, runtime: str) -> None:
    def is_there(answer: Answer[ThreadRecord]) -> bool:
        where = [row.where for row in members(answer).values()]
        return len(where) == 4 and all(here is not None and here.calling is not None for here in where)

    with at("library", compiler_name, runtime) as (pid, _), asked_until(pid, is_there) as session:
        answer = session.ask_threads()
        text = CliRunner().invoke(cli, ["threads", str(pid)]).stdout
    for row in members(answer).values():
        assert place(row) == ("in_library", "ends.c", line_of("calls the library"))
        assert row.where is not None and row.where.calling == "library_wait" and row.state == "work_parallel"
    assert f"ends.c:{line_of('calls the library')} in_library, in library_wait" in " ".join(text.split())


def test_a_library_that_is_called_outside_of_all_regions() -> None:
    def is_there(answer: Answer[ThreadRecord]) -> bool:
        return any(row.where is not None and row.where.calling for row in answer.rows)

    with at("serial", "gcc", "libgomp") as (pid, _), asked_until(pid, is_there) as session:
        (row,) = session.ask_threads().rows
    assert place(row) == ("main", "ends.c", line_of("calls the library outside"))


def works(row: ThreadRecord) -> bool:
    # The line must be one of the calls, or the loop around them.
    asks = {number for number, text in enumerate(SOURCE.splitlines(), 1) if "/* asks */" in text}
    if row.where is None:
        return False  # it has not begun yet
    function, file, line = place(row)
    return (row.state, function, file) == ("work_parallel", "asking", "ends.c") and {
        line,
        (line or 0) + 1,
    } & asks != set()


@EVERYWHERE
@pytest.mark.quick("gcc-libgomp")
def test_a_thread_that_asks_openmp_something_works(compiler_name: str, runtime: str) -> None:
    with at("asking", compiler_name, runtime) as (pid, _):
        asked_until(pid, lambda answer: len(members(answer)) == 4 and all(map(works, answer.rows))).close()
        for _ in range(10 if FULL else 3):
            with ompd.attach(pid) as session:
                assert all(map(works, session.ask_threads().rows))


@EVERYWHERE
@pytest.mark.quick("gcc-stub")
def test_a_thread_that_is_in_the_routine_that_it_asks_works(compiler_name: str, runtime: str, tmp_path: Path) -> None:
    # A stop at any moment seldom hits the routine: most of the time passes in the loop around the call.
    core = tmp_path / "core"
    words = ["break omp_get_wtime", "continue", f"gcore {core}", "kill"]  # gcc calls omp_get_thread_num only once
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    with at("asking", compiler_name, runtime) as (pid, _):
        asked_until(pid, lambda answer: len(members(answer)) == 4 and all(map(works, answer.rows))).close()
        command += ["-p", str(pid), *(part for word in words for part in ("-ex", word))]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert core.exists(), done.stdout + done.stderr
    with ompd.open_core(core) as session:
        rows, raw = session.ask_threads().rows, session.ask_stacks(raw=True).rows
    assert all(map(works, rows))
    # The frames of each thread inside of the region's code.
    inner = [row.frames[: [frame.function for frame in row.frames].index("asking")] for row in raw]
    assert any(frame.kind == "runtime" for frames in inner for frame in frames)


def test_a_thread_in_an_entry_of_the_linkage_table_is_where_that_is_called(tmp_path: Path) -> None:
    program, core = built("gcc", "libgomp", ["-g", "-O2"]), tmp_path / "core"
    words = [
        "break asking",
        f"run asking > {tmp_path / 'output'}",
        "break *'omp_get_thread_num@plt'",
        "continue",
        f"gcore {core}",
        "kill",
    ]
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    command += [part for word in words for part in ("-ex", word)]
    done = subprocess.run([*command, str(program)], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert core.exists(), done.stdout + done.stderr
    with ompd.open_core(core) as session:
        rows, raw, shown = session.ask_threads().rows, session.ask_stacks(raw=True).rows, session.ask_stacks().rows
    inner = {row.native_thread_id: row.frames[0] for row in raw}
    stubs = {
        native for native, frame in inner.items() if frame.kind == "system" and (frame.module or "").endswith("ends")
    }
    assert stubs
    where = {row.native_thread_id: row for row in rows}
    first = {row.native_thread_id: row.frames[0] for row in shown}
    for native in stubs:
        assert place(where[native])[:2] == place(first[native])[:2] == ("asking", "ends.c")
        assert where[native].state == "work_parallel"


# The stub is left out: it lets tasks pile up.
@pytest.mark.parametrize(("compiler_name", "runtime"), [pair for pair in PAIRS if pair[1] != "stub"])
@pytest.mark.quick("clang-libomp-19")
def test_a_thread_that_makes_tasks_or_hands_out_a_loop_is_in_the_runtimes_overhead(
    compiler_name: str, runtime: str
) -> None:
    states: set[str | None] = set()
    with at("making", compiler_name, runtime) as (pid, _):
        asked_until(pid, lambda answer: len(members(answer)) == 4).close()
        for _ in range(8):
            with ompd.attach(pid) as session:
                states |= {row.state for row in members(session.ask_threads()).values()}
    assert "overhead" in states and states <= {"overhead", "work_parallel"}


@pytest.mark.parametrize("runtime", ["libgomp", "intel"])
def test_a_child_of_fork_has_one_thread_of_its_team(runtime: str) -> None:
    with at("forked", "gcc", runtime) as (_, said):
        result = CliRunner().invoke(cli, ["parallel", said, "-v"])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert f"[{said} ? ?]" in text and "it is a fork" in text and "has not begun" not in text


def test_which_routines_wait_for_nobody() -> None:
    asks = (
        "omp_get_thread_num",
        "omp_get_wtime",
        "omp_set_num_threads",
        "omp_in_parallel",
        "omp_test_lock",
        "omp_get_level_",
    )
    waits = (
        "omp_set_lock",
        "omp_set_nest_lock",
        "omp_set_lock_",
        "omp_pause_resource",
        "omp_target_memcpy",
        "GOMP_barrier",
    )
    busy = (
        "GOMP_parallel",
        "GOMP_task",
        "GOMP_loop_dynamic_next",
        "__kmpc_omp_task",
        "__kmpc_fork_call",
        "__kmpc_dispatch_init_4",
    )
    others = (
        "GOMP_taskwait",
        "GOMP_taskloop",
        "GOMP_taskgroup_end",
        "GOMP_barrier",
        "__kmpc_omp_taskwait",
        "__kmpc_taskloop",
        "__kmpc_barrier",
    )
    assert all(entries.asks_only(name) for name in asks) and not any(entries.asks_only(name) for name in waits)
    assert all(entries.is_overhead(name) for name in busy)
    assert not any(entries.is_overhead(name) for name in (*others, *waits))


@pytest.mark.parametrize("version", (14, 19, 22) if FULL else (19,))
@pytest.mark.quick()
def test_commands_of_lldb_agree_on_who_is_in_a_team(version: int, tmp_path: Path) -> None:
    # The first thread at a breakpoint stops all others. Threads that have not begun yet are already in the team.
    program = tmp_path / "rounds"
    source = FOLDER / "rounds.c"
    command = [str(compiler("gcc").path), "-g", "-O0", "-fopenmp", str(source), "-o", str(program)]
    subprocess.run(command, check=True, env=clean_environment())
    (line,) = (n for n, text in enumerate(source.read_text().splitlines(), 1) if "/* stop here */" in text)
    asked = [f"ompd {name} --json" for name in ("threads", "parallel", "tasks", "stack")] + ["ompd thread 3"]
    commands = [LOAD, f"breakpoint set -f rounds.c -l {line}", "run", *asked, *(["continue", *asked] * 5), "kill"]
    begins = 0
    for _ in range(10):  # by chance, all threads may have begun
        printed = batch(lldb(version), commands, str(program), cwd=tmp_path)
        pieces = re.split(r"^\(lldb\) (.*)\n", printed, flags=re.MULTILINE)
        replies = list(zip(pieces[1::2], pieces[2::2], strict=True))
        answers = {name: [text for said, text in replies if said == name] for name in asked}
        begins = sum(check_who_is_in_a_team(*texts) for texts in zip(*answers.values(), strict=True))
        if begins:
            break
    assert begins


def check_who_is_in_a_team(threads: str, parallel: str, tasks: str, stack: str, thread: str) -> int:
    """Check that the commands agree at one stop; return how many threads have not begun yet."""
    rows = {row["native_thread_id"]: row for row in json.loads(threads)["threads"]}
    (region,) = json.loads(parallel)["parallel"]
    assert [rows[native]["thread_num"] for native in region["threads"]] == [0, 1, 2, 3]
    assert {rows[native]["parallel"] for native in region["threads"]} == {region["id"]}
    implicit = [row for row in json.loads(tasks)["tasks"] if row["kind"] == "implicit"]
    assert {row["thread"]: row["id"] for row in implicit} == {native: rows[native]["task"] for native in rows}
    for row in json.loads(stack)["stack"]:
        same = rows[row["native_thread_id"]]
        assert all(row[key] == same[key] for key in ("thread_num", "parallel", "about_to_begin"))
        assert not same["about_to_begin"] or (same["state"] == "overhead" and same["where"] is None)
    begins = sum(row["about_to_begin"] for row in rows.values())
    last = rows[region["threads"][3]]
    assert ("about to begin" in thread) == last["about_to_begin"] and "OpenMP thread 3/4 at level 1" in thread
    return begins


HOSTED = """
#include <omp.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
__attribute__((noinline)) static void meet(void)
{
    #pragma omp parallel num_threads(3) /* region */
    {
        while (omp_get_thread_num() == 1)
            pause();
        #pragma omp barrier
    }
}
int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (write(1, "ready\\n", 6) != 6)
        return 1;
    #pragma omp CONSTRUCT
    meet();
    return 0;
}
"""


@pytest.mark.parametrize("construct", ["teams num_teams(1)", "target"])
def test_code_of_teams_and_target_that_ended_by_a_jump(construct: str, tmp_path: Path) -> None:
    # The ended function has no frame between the routine that called it and the routine that it jumped to.
    source, program = tmp_path / "hosted.c", tmp_path / "hosted"
    source.write_text(HOSTED.replace("CONSTRUCT", construct))
    command = [str(compiler("gcc").path), "-g", "-O2", "-fopenmp", "-foffload=disable", str(source), "-o", str(program)]
    subprocess.run(command, check=True, env=clean_environment())
    (line,) = (n for n, text in enumerate(source.read_text().splitlines(), 1) if "#pragma omp barrier" in text)
    with (
        working("hosted", executable=program) as worker,
        asked_until(worker.pid, at_line(line)) as session,
    ):
        threads, stacks = session.ask_threads(), session.ask_stacks()
    assert threads.complete and stacks.complete, (threads.warnings, stacks.warnings)
    rows = {row.thread_num: row for row in threads.rows}
    waits = [rows[number].wait for number in (0, 2)]
    missing = (rows[1].native_thread_id,)
    assert all(w is not None and (w.arrived, w.expected, w.missing) == (2, 3, missing) for w in waits)
    for row in stacks.rows:
        constructs = [frame.construct.kind for frame in row.frames if frame.construct is not None]
        assert constructs == ["parallel"] and row.frames[-1].function == "main"


def at_line(line: int) -> Callable[[Answer[ThreadRecord]], bool]:
    def is_it(answer: Answer[ThreadRecord]) -> bool:
        rows = members(answer)
        places = [rows[at].where for at in (0, 2)] if len(rows) == 3 else []
        return len(places) == 2 and all(here is not None and here.line == line for here in places)

    return is_it


HANDLER = """
#include <omp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((noinline)) static void stay(void)
{
    for (;;)
        pause();
}
static void handle(int number)
{
    (void)number;
    #pragma omp parallel num_threads(2)
    stay();
}
int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    signal(SIGUSR1, handle);
    if (write(1, "ready\\n", 6) != 6)
        return 1;
    return raise(SIGUSR1) != 0;
}
"""


@pytest.mark.parametrize(("compiler_name", "runtime"), [("gcc", "libgomp"), ("gcc", "intel"), ("clang", "libomp-19")])
def test_a_handler_that_ended_by_a_jump_into_a_region_is_on_the_stack(
    compiler_name: str, runtime: str, tmp_path: Path
) -> None:
    # Only the kernel knows the address of the handler.
    source, library = tmp_path / "handler.c", RUNTIMES[runtime].file().parent
    source.write_text(HANDLER)
    (line,) = (n for n, text in enumerate(HANDLER.splitlines(), 1) if "#pragma omp parallel" in text)
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = [str(compiler(compiler_name).path), "-g", "-O2", "-fopenmp", *headers, "-c", str(source), "-o", "h.o"]
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *RUNTIMES[runtime].options, "-lpthread"]
    for command in (compiling, [str(compiler("gcc").path), "h.o", "-o", "handler", *linking]):
        subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    with (
        working("handler", executable=tmp_path / "handler") as worker,
        asked_until(worker.pid, both_stay) as session,
    ):
        stacks = session.ask_stacks()
    assert stacks.complete, stacks.warnings
    rows = [row for row in stacks.rows if row.thread_num is not None]
    assert len(rows) == 2
    for row in rows:
        user = [(frame.function, frame.line if frame.how == "tail-call" else None) for frame in row.frames]
        user = [(function, at) for function, at in user if function in ("stay", "handle", "main")]
        assert user == [("stay", None), ("handle", None), ("handle", line), ("main", None)]


def both_stay(answer: Answer[ThreadRecord]) -> bool:
    rows = members(answer)
    return len(rows) == 2 and all(row.where is not None and row.where.function == "stay" for row in rows.values())
