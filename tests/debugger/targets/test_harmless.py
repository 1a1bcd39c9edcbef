"""Inspections do no harm: sleeping threads are read without a stop, with the same results. A thread is not stopped if
its system call might not restart.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.debugger.stacks.partial import PartialStacks
from ompd.debugger.targets.base import PartialRegisters
from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.live import LiveProcess
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import RunningProcess
from ompd.errors import NoAnswer
from ompd.inspection import Inspection
from ompd.model import Answer
from tests.support import FULL
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.live import SOURCES, Worker, build_live, is_let_go, stop_all, wait_until, working
from tests.support.machine import clean_environment, require
from tests.support.products import sample

LOOKS = 200 if FULL else 3
FUTEX = b"202 "
# Calls that would return early, that a filter of system calls forbids by now, or whose code is gone.
KINDS = ("recv", "write", "mknod", "nanosleep", "futex", "poll", "read", "unmapped", "protected", "replaced")


def built(name: str, source: str, *options: str, used: str = "gcc") -> Path:
    """Return the executable or library that is compiled from a file of ``fixtures/live`` with *options*."""
    text = (SOURCES / source).read_text()
    by = require("gfortran") if used == "gfortran" else compiler(used).path
    command = [str(by), "-g", *options, str(SOURCES / source), "-o", name]

    def make(folder: Path) -> None:
        subprocess.run(command, cwd=folder, check=True, env=clean_environment())

    return entry("programs", key_of(name, text, command), make) / name


def interruptible(worker: Worker) -> list[bytes]:
    """Return the system call in which each thread sleeps."""
    return [path.read_bytes() for path in Path(f"/proc/{worker.pid}/task").glob("*/syscall")]


def look(session: Inspection) -> list[Answer[Any]]:
    answers: list[Answer[Any]] = [session.ask_stacks(raw=True)]
    for question in (session.ask_threads, lambda: session.ask_why(samples=1)):
        with suppress(NoAnswer):  # without a runtime
            answers.append(question())
    return answers


@pytest.mark.parametrize(("kind", "busy", "openmp"), sample(product(KINDS, [False, True], [True, False])))
def test_a_thread_is_not_stopped_that_might_be_harmed(kind: str, busy: bool, openmp: bool) -> None:
    program = build_live("fragile", openmp=openmp, runtime="libgomp")
    arguments = [kind, "busy"] if busy else [kind]
    with working("fragile", *arguments, executable=program) as worker, ompd.attach(worker.pid) as session:
        for _ in range(LOOKS):
            answers = look(session)
        # Without a runtime, `why` has an answer only about code that is no longer mapped.
        assert len(answers) == (3 if openmp else 1 + (kind == "unmapped"))
        # Working threads are stopped, sleeping threads are not.
        assert busy or not any(answer.target.stops_ns for answer in answers)
        assert worker.finish() == "unharmed\n"


def test_a_process_without_a_runtime_is_not_stopped_to_find_none() -> None:
    program = build_live("fragile", openmp=False)
    with working("fragile", "read", "busy", executable=program) as worker, ompd.attach(worker.pid) as session:
        with pytest.raises(NoAnswer):
            session.ask_threads()
        assert session._stopper is not None and session._stopper.process.stops_ns == []
        worker.finish()


@contextmanager
def crossed(*program: Path) -> Iterator[Inspection]:
    """Yield a session on a program in which two threads wait for each other's locks."""
    with working("crossed", *map(str, program[1:]), executable=program[0]) as worker:
        wait_until(lambda: all(call.startswith(FUTEX) for call in interruptible(worker)))
        with ompd.attach(worker.pid) as session:
            yield session
        assert is_let_go(worker.pid)


def all_of(session: Inspection) -> Sequence[Answer[Any]]:
    why: Callable[[], Answer[Any]] = lambda: session.ask_why(samples=1)  # noqa: E731
    questions = (session.ask_threads, session.ask_stacks, session.ask_parallel, session.ask_tasks, why)
    return [question() for question in questions]


LANGUAGES = {"c": ("crossed.c", "gcc", ()), "fortran": ("crossed_fortran.f90", "gfortran", ())}
LANGUAGES["alloca"] = ("crossed.c", "gcc", ("-DALLOCA",))
LANGUAGES["pointer"] = ("crossed.c", "gcc", ("-fno-omit-frame-pointer",))


@pytest.mark.parametrize(("language", "level"), sample(product(LANGUAGES, range(4))))
@pytest.mark.quick("alloca-2", "c-0", "pointer-3")
def test_what_is_read_without_a_stop_is_what_a_stop_would_read(
    language: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, used, options = LANGUAGES[language]
    program = built("crossed", source, f"-O{level}", "-fopenmp", *options, used=used)
    with crossed(program) as session:
        before = all_of(session)
        stop_all(monkeypatch)
        for answer, stopped in zip(before, all_of(session), strict=True):
            assert answer.rows == stopped.rows and answer.complete and stopped.target.stops_ns
        # Without optimisation a stop is needed only if the size of a frame is unknown (alloca).
        assert level or any(answer.target.stops_ns for answer in before) == (language == "alloca")


@pytest.mark.parametrize("language", ["c", "fortran"])
@pytest.mark.quick("c")
def test_under_a_filter_of_system_calls_the_facts_are_the_same(language: str) -> None:
    source, used, options = LANGUAGES[language]
    program = built("crossed", source, "-O0", "-fopenmp", *options, used=used)
    told = []
    for way in ((program,), (built("filtered", "filtered.c"), program)):
        with crossed(*way) as session:
            answers = all_of(session)
            assert not any(answer.target.stops_ns for answer in answers)
            rows = [(row.thread_num, row.state, row.wait.symbol, row.where.line) for row in answers[0].rows]
            frames = [[(f.function, f.line, f.kind) for f in row.frames] for row in answers[1].rows]
            why = [(row.kind, row.stuck, row.confidence, row.place.line) for row in answers[-1].rows]
            told.append((rows, frames, why, [answer.warnings for answer in answers]))
    assert told[0] == told[1]


def test_a_sleeping_thread_is_stopped_only_if_its_registers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    seized: list[int] = []
    seize = ptrace.seize

    def counting(thread: int) -> None:
        seized.append(thread)
        seize(thread)

    monkeypatch.setattr(ptrace, "seize", counting)
    with crossed(built("crossed", "crossed.c", "-O0", "-fopenmp", "-DALLOCA")) as session:
        assert session.ask_tasks().complete and set(seized) == set(session.process.threads.ids())


SHAPES = list(product(["gcc", "clang"], ["-O0", "-O1", "-O2", "-Os"]))


@pytest.mark.parametrize(("used", "level"), sample(SHAPES))
def test_stacks_of_functions_of_many_shapes_are_those_of_a_stop(
    used: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The frame pointer must be found despite jump tables, arguments on the stack, calls that do not return, and
    # recursion.
    program = built("shapes", "shapes.c", level, "-fno-omit-frame-pointer", used=used)
    with working("shapes", executable=program) as worker, ompd.attach(worker.pid) as session:
        wait_until(lambda: all(call[:1].isdigit() for call in interruptible(worker)))
        frame_pointer, found = PartialStacks.frame_pointer, []

        def finding(self: PartialStacks, registers: Any, last: Any) -> int | None:
            found.append(frame_pointer(self, registers, last))
            return found[-1]

        monkeypatch.setattr(PartialStacks, "frame_pointer", finding)
        asked = session.ask_stacks(raw=True), session.ask_stacks(locals=True)
        assert any(found) and None in found  # it is proven for some; threads of the others were stopped
        stop_all(monkeypatch)
        for answer, stopped in zip(asked, (session.ask_stacks(raw=True), session.ask_stacks(locals=True)), strict=True):
            assert answer.rows == stopped.rows and len(answer.rows) == 9


def test_a_stop_of_all_sleeping_threads_ends_no_call_that_would_not_begin_anew() -> None:
    program = built("calls", "calls.c", "-O1", "-fopenmp", "-lrt")
    with working("calls", executable=program) as worker:
        process = LiveProcess(worker.pid)
        try:
            moment = process.stop((), lacking=process.thread_ids())
            registers = map(moment.registers, moment.thread_ids())
            stopped = [known for known in registers if not isinstance(known, PartialRegisters)]
            assert len(process.stops_ns) == 1 and 15 < len(stopped) < 30
        finally:
            process.close()
        wait_until(lambda: all(call[:1].isdigit() for call in interruptible(worker)))
        assert worker.finish() == "end\n"


def test_a_process_that_supplies_its_own_pages_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import ctypes, time; print(ctypes.CDLL(None).syscall(323, 0), flush=True); time.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            if int(child.stdout.readline()) < 0:
                pytest.skip("the machine forbids it: userfaultfd")
            process = RunningProcess(child.pid)
            assert process.serves_page_faults()
            process.close()
        finally:
            child.kill()
    with working("busy", "3", "1000") as worker, ompd.attach(worker.pid) as session:
        assert session._stopper is not None and not session._stopper.process.serves_page_faults()
        monkeypatch.setattr(RunningProcess, "serves_page_faults", lambda self: True)
        monkeypatch.setattr(Moment, "confirm", lambda self: False)  # its threads run
        answer = session.ask_threads()
        assert not answer.complete and answer.target.stops_ns == () and "userfaultfd" in answer.warnings[0]
        worker.finish()


def test_a_thread_that_is_made_while_the_others_are_looked_at_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_ids = LiveProcess.thread_ids
    listed: list[list[int]] = []

    def listing(self: LiveProcess) -> list[int]:
        # As if a thread that sleeps by now had made the last thread meanwhile.
        threads = thread_ids(self)
        listed.append(threads)
        return threads[:-1] if len(listed) <= late else threads

    with crossed(built("crossed", "crossed.c", "-O0", "-fopenmp")) as session:
        assert session._stopper is not None
        process = session._stopper.process
        threads = process.thread_ids()
        monkeypatch.setattr(LiveProcess, "thread_ids", listing)
        late = 1
        assert process.glance().confirm() is False
        late = len(listed) + 2  # the list for the count, and the list for the first look
        assert set(process.stop(()).thread_ids()) == set(threads)


def test_threads_of_the_kernel_for_io_uring_are_none_of_the_program() -> None:
    with working("uring", executable=built("uring", "uring.c")) as worker:
        if len(list(Path(f"/proc/{worker.pid}/task").iterdir())) == 1:
            pytest.skip("the machine forbids it: io_uring")
        with ompd.attach(worker.pid) as session:
            (row,) = session.ask_stacks(raw=True).rows
            assert row.native_thread_id == worker.pid and row.stopped is None


def test_threads_that_sleep_where_a_library_was_are_not_woken_up() -> None:
    library = built("libplugin.so", "plugin.c", "-DLIBRARY", "-shared", "-fPIC", "-fopenmp")
    program = built("plugin", "plugin.c", "-O1")
    with working("plugin", str(library), executable=program) as worker, ompd.attach(worker.pid) as session:
        for _ in range(LOOKS):
            rows = session.ask_stacks(raw=True).rows
        assert len(rows) == 3
        why = session.ask_why()
        (verdict,) = why.rows
        workers = {row.native_thread_id for row in rows} - {worker.pid}
        assert (verdict.kind, verdict.stuck, set(verdict.roots)) == ("runtime_unloaded", "likely", workers)
        assert verdict.summary.startswith("libgomp.so.1 was unloaded while 2 threads sleep in it")
        assert why.runtimes == () and why.target.stops_ns == ()
        assert worker.finish() == "unharmed\n"


# docs/live.md lists these calls in a table.
DISTURBED_BY_A_STOP = {
    "EINTR": {
        *("epoll_wait", "epoll_wait_timeout", "semop", "semtimedop", "io_getevents", "io_uring_enter"),
        *("recv_timeout", "accept_timeout", "sigtimedwait", "sigwaitinfo"),
    },
    "part": {"recv_waitall", "write_pipe", "write_socket"},
}


def returned(said: str) -> dict[str, set[str]]:
    """Return the calls that returned with EINTR, or with only a part of their work done."""
    calls: dict[str, set[str]] = {"EINTR": set(), "part": set()}
    for line in said.splitlines()[:-1]:
        name, _, interrupted, _, other, _, result, _ = line.split()
        if int(other):
            assert interrupted == "0" and int(result) > 0, line
        calls["part" if int(other) else "EINTR"].add(name)
    return calls


@pytest.mark.parametrize("stops", [False, True])
def test_of_48_system_calls_none_notices_a_look_and_some_a_stop(stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built("calls", "calls.c", "-O1", "-fopenmp", "-lrt")
    with working("calls", executable=program) as worker, ompd.attach(worker.pid) as session:
        if stops:
            stop_all(monkeypatch)
        looks = 1 if stops else LOOKS
        for _ in range(looks):
            answers = look(session)
        assert all(bool(answer.target.stops_ns) == stops for answer in answers)
        assert len(answers[0].rows) == 49 and not any(row.stopped for row in answers[0].rows)
        if stops:
            wait_until(lambda: all(call[:1].isdigit() for call in interruptible(worker)))  # they sleep again
        found = returned(worker.finish())
    possible = DISTURBED_BY_A_STOP if stops else {"EINTR": set(), "part": set()}
    # A machine may forbid io_uring.
    assert {kind: calls | {"io_uring_enter"} for kind, calls in found.items()} == {
        kind: calls | {"io_uring_enter"} for kind, calls in possible.items()
    }
