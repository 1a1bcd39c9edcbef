"""``why`` on Python programs: children forked after OpenMP was used, and the interpreter lock in a cycle of waits.

CPython records the holder of its lock from 3.13 on. For earlier releases, the verdict is by reasoning and says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.model import VerdictRecord, WhyAnswer
from ompd.questions import why as question
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import Missing, clean_environment, wheel_folder
from tests.support.outside import LONG, READY_SECONDS, SOURCES, Words, interpreters, until_asleep, waiting
from tests.support.runs import write_gcore

LOCK = "Python's interpreter lock"
WAYS = pytest.mark.parametrize("kind", ["live", "core"])


def interpreter(release: str) -> Path:
    found = interpreters().get(release)
    if found is None:
        raise Missing(f"python{release}", "there is none", forbidden=True)
    return found


def extension(name: str = "gil_openmp") -> Path:
    """Return the extension of ``gil_openmp.c``, or of another source."""
    gcc, source = compiler("gcc"), SOURCES / f"{name}.c"
    options = ["-g", "-O0", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-shared", "-fPIC"]

    def make(folder: Path) -> None:
        command = [str(gcc.path), *options, str(source), "-o", str(folder / f"{name}.so")]
        subprocess.run(command, check=True, env=clean_environment())

    return entry("programs", key_of("outside", source.read_text(), gcc.version, options), make) / f"{name}.so"


def answer_of(process_id: int, kind: str, folder: Path) -> WhyAnswer:
    """Return the answer about a process, or about a core written of it."""
    if kind == "live":
        with ompd.attach(process_id, max_stop=LONG) as session:
            return session.ask_why()
    write_gcore(process_id, folder / "core")
    with ompd.open_core(folder / "core") as session:
        return question.ask(session)


def links_of(verdict: VerdictRecord) -> dict[int | None, tuple[str, str | None, str | None]]:
    """Return, by thread of the cycle, its object, how the next thread holds that, and the waiting function."""
    return {link.thread: (link.object, link.holder, link.where and link.where.function) for link in verdict.cycle}


@WAYS
@pytest.mark.parametrize("release", ["3.11", "3.13"])
@pytest.mark.quick("3.11-live", "3.11-core", "3.13-live")
def test_a_thread_of_openmp_waits_for_pythons_lock(release: str, kind: str, tmp_path: Path) -> None:
    script = str(SOURCES / "gil_openmp.py")
    with waiting(interpreter(release), tmp_path, script, str(extension()), "calls") as (process, words):
        until_asleep(process.pid, words.thread("calls back"))
        first = answer_of(process.pid, kind, tmp_path).rows[0]
    main, caller = words.thread("main"), words.thread("calls back")
    # The team waits for its member, and the member for the lock that the primary thread holds.
    assert (first.kind, first.stuck) == ("lock_cycle", "proven")
    assert set(first.explains) == set(words.said)
    links = links_of(first)
    assert set(links) == {main, caller}
    assert links[caller][0] == LOCK and links[caller][2] == "call_back"
    _check_holder(first, links[caller][1], release)


@WAYS
@pytest.mark.parametrize("release", ["3.11", "3.13"])
@pytest.mark.quick("3.11-live", "3.13-core")
def test_who_has_pythons_lock_waits_for_a_lock_of_openmp(release: str, kind: str, tmp_path: Path) -> None:
    script = str(SOURCES / "gil_openmp.py")
    with waiting(interpreter(release), tmp_path, script, str(extension()), "keeps") as (process, words):
        until_asleep(process.pid, words.thread("keeps lock"))
        first = answer_of(process.pid, kind, tmp_path).rows[0]
    main, keeper = words.thread("main"), words.thread("keeps lock")
    assert (first.kind, first.stuck, first.confidence) == ("lock_cycle", "proven", "likely")
    assert set(first.explains) == {main, keeper}
    links = links_of(first)
    assert links[main][0] == "&lock" and "omp_set_lock(&lock)" in (links[main][1] or "")
    assert links[main][2] == "want_lock"
    assert links[keeper][0] == LOCK and links[keeper][2] == "keep_lock"
    _check_holder(first, links[keeper][1], release)


@WAYS
@pytest.mark.parametrize("is_stuck", [False, True], ids=["goes on", "stuck"])
@pytest.mark.parametrize("release", ["3.11", "3.13"])
@pytest.mark.quick("3.11-goes on-core", "3.13-stuck-core", "3.13-goes on-live", "3.11-stuck-live")
def test_a_thread_holds_pythons_lock_by_a_state_that_another_one_made(
    release: str, is_stuck: bool, kind: str, tmp_path: Path
) -> None:
    words = str(SOURCES / "gil_states.py"), str(extension("gil_states")), str(int(is_stuck))
    with waiting(interpreter(release), tmp_path, *words, stdin=subprocess.PIPE) as (process, said):
        until_asleep(process.pid, said.thread("main"))
        rows = answer_of(process.pid, kind, tmp_path).rows
        main, borrower = said.thread("main"), said.thread("borrows")
        assert "self_lock" not in {row.kind for row in rows}
        if is_stuck and release == "3.13":
            assert (rows[0].kind, rows[0].stuck) == ("lock_cycle", "proven")
            assert links_of(rows[0])[main][:2] == (LOCK, "held_by")
            assert set(rows[0].explains) == {main, borrower}
        elif not is_stuck:
            assert "proven" not in {row.stuck for row in rows}
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(READY_SECONDS) == 0


def _check_holder(verdict: VerdictRecord, holder: str | None, release: str) -> None:
    if release == "3.11":
        assert verdict.confidence == "likely"
        assert holder == "no other thread that is in Python's code can have it"
    else:
        assert holder == "held_by"


@contextmanager
def with_scikit_learn(case: str, folder: Path) -> Iterator[tuple[int, Words]]:
    """Run ``scikit_learn.py`` until its child sleeps, and yield the parent's number."""
    environment: dict[str, Any] = {"PYTHONPATH": str(wheel_folder("scikit-learn")), "OPENBLAS_NUM_THREADS": "1"}
    script = str(SOURCES / "scikit_learn.py")
    with waiting(Path(sys.executable), folder, script, case, environment=environment) as (process, words):
        until_asleep(words.thread("child"))
        yield process.pid, words


@WAYS
@pytest.mark.parametrize("case", ["fork", "multiprocessing"])
@pytest.mark.quick()
def test_a_child_of_a_process_that_used_scikit_learn(case: str, kind: str, tmp_path: Path) -> None:
    with with_scikit_learn(case, tmp_path) as (parent, words):
        child = words.thread("child")
        first = answer_of(child, kind, tmp_path).rows[0]
        (tmp_path / "core").unlink(missing_ok=True)
        answer = answer_of(parent, kind, tmp_path)
        above = answer.rows
    assert (first.kind, first.stuck, first.confidence) == ("fork_child", "proven", "proven")
    assert (first.roots, first.explains) == ((), (child,))
    assert first.summary == "1 thread waits for threads that fork() did not copy into this process"
    assert any("CyHalfSquaredError" in (frame.function or "") for frame in first.stacks[0].frames)
    # The parent waits for its child, and the verdict names the child.
    (only,) = above
    assert (only.kind, only.stuck, only.roots) == ("external_wait", "possible", (parent,))
    assert only.summary.endswith(f" is in waitpid for process {child}")
    told = [(row.process_id, row.kind, row.stuck, row.summary) for row in answer.children]
    assert told == ([(child, "fork_child", "proven", first.summary)] if kind == "live" else [])
