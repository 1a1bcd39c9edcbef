"""Threads that wait by loops of their own: the words that end these loops, and loops of which nothing is claimed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ompd
from ompd.debugger.emulation.openings import Word, opening
from ompd.model import VerdictRecord
from ompd.model.kinds import Confidence
from tests.support.cache import CHECKOUT
from tests.support.live import build_live, wait_until, working
from tests.support.machine import FULL, require_module
from tests.support.runs import cores_allowed, require_kernel_cores, write_kernel_core

SPINS = {
    "volatile": ("flag", "flag is not 0 (it is 0)"),
    "atomic": ("ready", "ready is not 0 (it is 0)"),
    "turn": ("turn", "turn is 7 (it is 3)"),
    "yield": ("flag", "flag is not 0 (it is 0)"),
    "member": ("job+0x4", "job+0x4 is not 0 (it is 0)"),
    "local": ("the word at 0x", " is not 0 (it is 0)"),
    "barrier": ("arrived", "arrived is at least 4 (it is 1)"),
    "byte": ("byte", "byte is not 0 (it is 0)"),
    "test_lock": ("lock", "lock is 0 (it is 1)"),
    "either": ("flag or ready", "flag is not 0 (it is 0) or ready is not 0 (it is 0)"),
    "list": ("first+0x8 or second+0x8", "first+0x8 is 9 (it is 0) or second+0x8 is 9 (it is 0)"),
}
COMPUTES = (
    *("count", "limit", "random_walk", "array", "real", "clock", "coarse", "seconds", "wtime", "tsc", "sleep"),
    *("getrandom", "processor", "pid", "polite"),
)
BUILDS = (("gcc", "libgomp", "-O2"), ("gcc", "intel", "-O0"), ("clang", "intel", "-O2"), ("gcc", "libgomp", "-O0"))
EVERY_BUILD = pytest.mark.parametrize("build", BUILDS if FULL else BUILDS[:1], ids="-".join)

require_module("unicorn")


def _program(build: tuple[str, str, str]) -> Path:
    compiler, runtime, level = build
    folder = CHECKOUT / "fixtures" / "spins"
    return build_live("spins", runtime=runtime, flags=(level,), compiler_name=compiler, folder=folder)


def _await_loop(process_id: int) -> None:
    # The program says that it is ready just before it comes to its loop.
    with ompd.attach(process_id, max_stop=60_000) as at:
        wait_until(lambda: at.ask_why(samples=1).rows[0].kind == "spin_wait")


def _first(case: str, build: tuple[str, str, str], samples: int = 1) -> tuple[VerdictRecord, int]:
    with working("spins", case, executable=_program(build)) as worker, ompd.attach(worker.pid, max_stop=60_000) as at:
        if case in SPINS:
            _await_loop(worker.pid)
        return at.ask_why(samples=samples, interval=0.01).rows[0], worker.pid


@EVERY_BUILD
@pytest.mark.parametrize("case", SPINS)
def test_a_loop_that_waits_is_a_wait_for_a_word(case: str, build: tuple[str, str, str]) -> None:
    first, pid = _first(case, build)
    name, condition = SPINS[case]
    assert (first.kind, first.stuck, first.confidence) == ("spin_wait", "likely", "likely"), first.summary
    assert first.roots == (pid,)
    # Compilers choose the order of variables in memory.
    if (case, build[1]) == ("test_lock", "intel"):
        return  # this runtime has the word of a lock in memory of its own
    assert all(part in first.summary for part in name.split(" or ")), first.summary
    assert all(part in first.unknowns[0] for part in condition.split(" or ")), first.unknowns


def test_a_team_smaller_than_requested_explains_a_loop_that_counts_on_it() -> None:
    program = build_live("counted", runtime="libgomp", folder=Path(__file__).parent)
    limit = {"OMP_THREAD_LIMIT": "2"}
    with working("counted", executable=program, env=limit) as worker, ompd.attach(worker.pid, max_stop=60_000) as at:
        wait_until(lambda: "arrived is at least 4 (it is 2)" in "".join(at.ask_why(samples=1).rows[0].unknowns))
        first = at.ask_why(samples=1).rows[0]
    assert (first.kind, first.stuck) == ("spin_wait", "likely")
    assert first.others is not None and "requested 4 threads and got 2 (OMP_THREAD_LIMIT=2)" in first.others
    assert any("OMP_THREAD_LIMIT" in advice for advice in first.advice)
    assert "the code passes 4 as num_threads" in [evidence.text for evidence in first.evidence]


@EVERY_BUILD
@pytest.mark.parametrize("case", COMPUTES)
def test_of_a_loop_that_goes_on_nothing_is_claimed(case: str, build: tuple[str, str, str]) -> None:
    first, _ = _first(case, build)
    assert first.kind in ("laggard", "oversubscribed", "external_wait"), first.summary
    assert first.stuck in (Confidence.POSSIBLE, Confidence.UNKNOWN)


@EVERY_BUILD
def test_another_process_may_end_a_loop_on_shared_memory(build: tuple[str, str, str]) -> None:
    with working("spins", "process", executable=_program(build)) as worker, ompd.attach(worker.pid) as at:
        wait_until(lambda: at.ask_why(samples=1).rows[0].kind == "external_wait")
        first = at.ask_why(samples=1).rows[0]
    assert first.stuck == "possible"
    assert "a loop of its own, which another process may end" in first.summary


def test_a_signal_handler_may_end_a_loop() -> None:
    with working("spins", "handler", executable=_program(BUILDS[0])) as worker, ompd.attach(worker.pid) as at:
        wait_until(lambda: at.ask_why(samples=1).rows[0].kind == "spin_wait")
        first = at.ask_why(samples=1).rows[0]
    assert (first.stuck, first.confidence) == ("possible", "likely")
    assert "the program has a handler for SIGUSR1, which may write this word" in first.unknowns


def test_a_thread_that_changes_place_within_its_loop_has_not_moved() -> None:
    with working("spins", "test_lock", executable=_program(BUILDS[0])) as worker:
        _await_loop(worker.pid)
        with ompd.attach(worker.pid, max_stop=60_000) as at:
            # On a busy machine a look may see a thread before it is in its loop, or without its registers.
            wait_until(lambda: at.ask_why(samples=4, interval=0.01).rows[0].stuck == "likely")


def test_the_same_in_a_core(tmp_path: Path) -> None:
    require_kernel_cores()
    core = tmp_path / "core"
    command = [str(_program(BUILDS[0])), "barrier"]
    with cores_allowed(), subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        _await_loop(process.pid)
        write_kernel_core(process, core)
    with ompd.open_core(core) as session:
        first = session.ask_why().rows[0]
    assert (first.kind, first.stuck) == ("spin_wait", "likely")
    assert "arrived is at least 4 (it is 1)" in first.unknowns[0]


def test_without_a_thread_at_work_no_emulator_is_imported() -> None:
    code = "import sys, ompd.questions.why.query; sys.exit(any('orbits' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("leaves", "value", "text"),
    [
        (lambda value: value != 0, 0, "is not 0"),
        (lambda value: value == 7, 3, "is 7"),
        (lambda value: value == 0, 1, "is 0"),
        (lambda value: 1000 <= value < 1 << 31, 3, "is at least 1000"),
        (lambda value: value < 5 or value >> 31, 6, "is at most 4"),
        (lambda value: value & 4, 0, "changes, for example to 4"),
        (lambda value: False, 0, None),
        (lambda value: None, 0, None),
    ],
)
def test_the_condition_is_found_by_trials(leaves, value: int, text: str | None) -> None:  # type: ignore[no-untyped-def]
    word = Word(0x1000, 4, value)
    assert opening(word, (), lambda tried: None if leaves(tried) is None else bool(leaves(tried))) == text
