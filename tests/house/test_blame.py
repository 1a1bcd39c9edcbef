"""The tool of ``examples/blame`` names the thread that the others wait for, and so does ``ompd why``."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import ompd
from ompd.questions import why
from ompd.session import Session
from tests.blame import FOLDER, WAYS, Report, parsed, program, tool
from tests.support.build import run_compiler
from tests.support.cache import CHECKOUT
from tests.support.machine import FULL, clean_environment, require
from tests.support.runs import ENVIRONMENT, READY_SECONDS, write_gcore
from tests.support.spaces import without_spaces
from tests.support.stub import stub_folder

LLVM, INTEL = "libomp-19", "intel"
# By runtime: the variables that make it find the tool, and the generation that the report then names.
RUNS = [
    *((runtime, {}, "OpenMP 5") for runtime in (LLVM, INTEL, "stub")),
    ("stub", {"BLAME_GENERATION": "2015"}, "report of 2015"),
    ("stub", {"BLAME_GENERATION": "draft"}, "draft"),
]
VALGRIND = [
    *("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"),
    "--errors-for-leak-kinds=definite",
]
every_run = pytest.mark.parametrize(
    ("runtime", "choice", "generation"), RUNS, ids=[f"{run[0]}-{run[2]}".replace(" ", "-") for run in RUNS]
)


def environment(library: Path, choice: Mapping[str, str], way: str = "") -> dict[str, str]:
    # LLVM's threads that sleep in a barrier do not wake up for tasks.
    sleeps = {"KMP_BLOCKTIME": "infinite"} if way == "task" else {}
    return {**ENVIRONMENT, **sleeps, **choice, "LD_PRELOAD": str(without_spaces(library))}


def reported(words: Sequence[str | Path], variables: Mapping[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=dict(variables),
        timeout=90,
        check=True,
    )
    return done.stderr


def check_sum(report: Report) -> None:
    # The charges add up to the total wait; each figure is rounded to a millisecond.
    charged = sum(charge.seconds for charge in report.charges) + report.others + report.nobody
    assert abs(charged - report.seconds) <= 0.001 * (len(report.charges) + 3)


@every_run
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.quick("barrier-stub-report-of-2015", "lock-stub-draft", "task-intel-OpenMP-5")
def test_it_names_the_straggler(runtime: str, choice: Mapping[str, str], generation: str, way: str) -> None:
    threads, laggard, kind = WAYS[way]
    straggler = program(FOLDER / "straggler.c", runtime)
    words = [straggler, way, str(threads), str(laggard)]
    report = parsed(reported(words, environment(tool(), choice, way)))
    assert report.threads == threads and report.runtime.endswith(f", {generation}")
    check_sum(report)
    first = report.charges[0]
    assert (first.number, first.size) == (laggard, threads if way != "serial" else 1)
    assert "lag" in first.functions and max(first.kinds, key=lambda name: first.kinds[name]) == kind
    # Nearly all waiting is charged to the laggard, not to the threads that wait.
    own = sum(charge.seconds for charge in report.charges if charge.thread == first.thread)
    assert own > 0.8 * report.seconds
    assert report.seconds > 0.1


@every_run
def test_without_a_sampler_the_end_of_the_work_is_the_place(
    runtime: str, choice: Mapping[str, str], generation: str
) -> None:
    straggler = program(FOLDER / "straggler.c", runtime)
    variables = {**environment(tool(), choice), "BLAME_INTERVAL": "0"}
    report = parsed(reported([straggler, "barrier", "4", "2"], variables))
    check_sum(report)
    # The place is the laggard's own arrival at the barrier, after its work.
    assert report.charges[0].number == 2
    assert report.charges[0].functions == ["at_barrier._omp_fn.0"]


@pytest.mark.parametrize("generation", ["2015", "draft"])
def test_a_generation_that_the_runtime_does_not_know_is_silent(generation: str) -> None:
    straggler = program(FOLDER / "straggler.c", LLVM)
    words = [straggler, "barrier", "2", "1"]
    assert reported(words, environment(tool(), {"BLAME_GENERATION": generation})) == ""


def test_the_program_controls_it() -> None:
    controlled = program(CHECKOUT / "tests" / "blame" / "controlled.c", LLVM)
    text = reported([controlled], environment(tool(), {}))
    paused, ended = (parsed("blame: " + part) for part in text.split("blame: ")[1:])  # no report at the program's end
    assert paused.seconds == 0 and not paused.charges
    assert ended.seconds > 0.05 and ended.charges[0].number == 1
    check_sum(ended)


@contextmanager
def hanging(straggler: Path, folder: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run the program and yield it once the laggard works, which it does for ever."""
    fifo = folder / "report"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [str(straggler), "barrier", "4", "2", "hang"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**variables, "BLAME_OUTPUT": str(fifo), "BLAME_SIGNAL": str(int(signal.SIGUSR1))},
        start_new_session=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "at work\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@every_run
@pytest.mark.quick("intel-OpenMP-5")
def test_why_says_the_same_of_the_same_moment(
    runtime: str, choice: Mapping[str, str], generation: str, tmp_path: Path
) -> None:
    require("gdb")
    straggler = program(FOLDER / "straggler.c", runtime)
    with hanging(straggler, tmp_path, environment(tool(), choice)) as process:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            process.send_signal(signal.SIGUSR1)
            report = parsed((tmp_path / "report").read_text())  # the tool opens the file when it writes
            if report.charges and "heavy_work" in report.charges[0].functions:
                break
            assert time.monotonic() < deadline, report
        while True:
            with ompd.attach(process.pid) as session:
                live = session.ask(why.ask)
            place = live.rows[0].place
            if place is None or place.file != str(FOLDER / "accounts.c"):
                break  # the report is complete, and the handler has returned
            assert time.monotonic() < deadline, place
        write_gcore(process.pid, tmp_path / "core")
    with Session.open_core(tmp_path / "core") as session:
        kept = why.ask(session)
    laggard = report.charges[0]
    assert (laggard.number, laggard.size) == (2, 4)
    for answer in (live, kept):
        (verdict,) = answer.rows
        assert verdict.kind == "laggard"
        assert verdict.roots == (laggard.thread,)
        assert verdict.place is not None and verdict.place.function in laggard.functions


def checked_program(folder: Path, flags: Sequence[str]) -> Path:
    # The program is linked with the tool, before the runtime: a preloaded library would precede the sanitizer's.
    library, stub = tool("gcc", tuple(flags)), stub_folder(flags=tuple(flags))
    compiling = [str(require("gcc")), "-g", "-O1", "-fopenmp", *flags, "-c", str(FOLDER / "straggler.c")]
    places = [word for place in (library.parent, stub) for word in (f"-L{place}", f"-Wl,-rpath,{place}")]
    linking = [str(require("gcc")), *flags, "straggler.o", "-o", "straggler", "-Wl,--no-as-needed", *places]
    run_compiler(compiling, folder)
    run_compiler([*linking, "-l:libblame.so", "-l:libomp_stub.so", "-lpthread"], folder)
    return folder / "straggler"


@pytest.mark.skipif(not FULL, reason="takes a minute: make test-full")
@pytest.mark.parametrize("generation", ["", "2015", "draft"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("under", ["valgrind", "tsan"])
def test_checkers_find_nothing(way: str, generation: str, under: str, tmp_path: Path) -> None:
    flags, before = (["-fsanitize=thread"], []) if under == "tsan" else ([], VALGRIND)
    require("libtsan" if under == "tsan" else "valgrind")
    threads, laggard, _ = WAYS[way]
    words = [*before, checked_program(tmp_path, flags), way, str(threads), str(laggard)]
    choice = {"BLAME_GENERATION": generation} if generation else {}
    text = reported(words, {**ENVIRONMENT, **choice, "TSAN_OPTIONS": "halt_on_error=1:exitcode=9"})
    assert "ThreadSanitizer" not in text and "==" not in text
    report = parsed(text)
    assert report.threads == threads and report.charges
    check_sum(report)


def test_compilers_make_it_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "-s", "-C", str(FOLDER), f"CC={require('clang')}", f"BUILD={tmp_path}", str(tmp_path / "libblame.so")],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert tool().with_name("warnings").read_text() == ""
