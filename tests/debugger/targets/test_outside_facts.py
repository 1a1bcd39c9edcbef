"""Facts of a process from the kernel: processor time, signals, timers, identity; and the holder of Python's lock."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ompd.questions.snapshot
from ompd.debugger.system_waits.kernel import PendingSignals, is_same_process
from ompd.errors import Unavailable
from ompd.model import SystemWait
from ompd.model.kinds import Kind
from ompd.questions.why.interventions import from_outside, signalled
from ompd.questions.why.system import system_wait
from ompd.session import Session
from tests.support.machine import Missing
from tests.support.outside import (
    LONG,
    SOURCES,
    Words,
    build_outside,
    core_of_outside,
    interpreters,
    until_asleep,
    waiting,
)
from tests.support.runs import require_kernel_cores, write_gcore, write_kernel_core

SPUN_NS = 20_000_000  # processor time of a spinning thread before the program reports that it is ready


@pytest.fixture(scope="module")
def kernel() -> Words:
    return core_of_outside("waits", "kernel")


@pytest.fixture(scope="module")
def alive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Words]:
    with waiting(build_outside("waits"), tmp_path_factory.mktemp("alive"), blocks=True) as (_, words):
        yield words


def schedstat(process: int | Path, thread: int) -> int:
    return int(Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[0])


def test_processor_time_of_a_live_process_is_that_of_the_kernel(alive: Words) -> None:
    assert isinstance(alive.place, int)
    before = {thread: schedstat(alive.place, thread) for thread in alive.said}
    with Session.attach(alive.place, max_stop=LONG) as session:
        found = session.ask(lambda s: {thread: s.process.system.cpu_time_ns(thread) for thread in alive.said})
    after = {thread: schedstat(alive.place, thread) for thread in alive.said}
    for thread, time in found.items():
        assert before[thread] <= time <= after[thread], alive.said[thread]
    assert found[alive.thread("user")] >= SPUN_NS


def test_processor_time_of_a_core_is_that_of_each_thread_but_the_first(kernel: Words, tmp_path: Path) -> None:
    with Session.open_core(kernel.place) as session:
        system = session.process.system
        assert system.cpu_time_ns(kernel.thread("user")) >= SPUN_NS
        with pytest.raises(Unavailable):
            system.cpu_time_ns(kernel.thread("main"))
        ompd.questions.snapshot.take_snapshot(session, tmp_path / "snapshot")
        with Session.open_core(tmp_path / "snapshot") as snapshot:
            kept = snapshot.process.system
            for thread in (kernel.thread("user"), kernel.thread("pauses")):
                assert kept.status(thread) == system.status(thread)
            with pytest.raises(Unavailable):
                kept.cpu_time_ns(kernel.thread("main"))


def test_a_core_of_gdb_has_no_processor_time() -> None:
    words = core_of_outside("waits", "gcore")
    with Session.open_core(words.place) as session:
        for thread in words.said:
            with pytest.raises(Unavailable):
                session.process.system.cpu_time_ns(thread)
            with pytest.raises(Unavailable):
                session.process.system.pending_signals(thread)


def test_pending_signals_are_those_of_the_program(kernel: Words, alive: Words) -> None:
    assert isinstance(alive.place, int)
    blocked = {signal.SIGUSR2, signal.SIGALRM}
    with Session.open_core(kernel.place) as session:
        found = session.process.system.pending_signals(kernel.thread("mutex_normal"))
        assert (found.thread, found.process) == (set(), None) and found.blocked >= blocked
    with Session.attach(alive.place, max_stop=LONG) as session:
        found = session.ask(lambda s: s.process.system.pending_signals(alive.thread("mutex_normal")))
        assert (found.thread, found.process) == (set(), {signal.SIGUSR2}) and found.blocked >= blocked


@pytest.mark.parametrize("kind", ["kernel", "live"])
def test_a_signal_for_one_thread_is_that_threads(kind: str, kernel: Words, alive: Words) -> None:
    words = kernel if kind == "kernel" else alive
    threads = [thread for thread, word in words.said.items() if word["name"] == "pauses"]
    with Session.attach(words.place, max_stop=LONG) if kind == "live" else Session.open_core(words.place) as session:
        found = session.ask(lambda s: [s.process.system.pending_signals(thread).thread for thread in threads])
    assert sorted(map(sorted, found)) == [[], [signal.SIGALRM]]


def test_timers_are_those_that_the_program_made(kernel: Words, alive: Words) -> None:
    assert isinstance(alive.place, int)
    if not Path("/proc/self/timers").exists():
        pytest.skip("this kernel has no /proc/PID/timers")
    with Session.attach(alive.place, max_stop=LONG) as session:
        (timer,) = session.ask(lambda s: s.process.system.timers())
    assert (timer.signal, timer.thread, timer.clock) == (signal.SIGUSR2, None, 1)  # CLOCK_MONOTONIC
    with Session.open_core(kernel.place) as session, pytest.raises(Unavailable):
        session.process.system.timers()


_HANDLES = "import signal; signal.signal(signal.SIGUSR1, print); print(flush=True); signal.pause()"


def test_handlers_of_signals_are_told_by_what_installs_them(kernel: Words) -> None:
    with subprocess.Popen([sys.executable, "-c", _HANDLES], stdout=subprocess.PIPE) as process:
        waits = {process.pid: SystemWait(kind=Kind.SEMAPHORE)}
        try:
            assert process.stdout is not None and process.stdout.readline()
            with Session.attach(process.pid, max_stop=LONG) as session:
                handled = session.ask(lambda s: s.process.system.handled_signals())
                free, ended = (session.ask(lambda s, w=w: signalled(s, [process.pid], w)) for w in ({}, waits))
        finally:
            process.kill()
    assert {signal.SIGUSR1, signal.SIGINT} <= handled and signal.SIGALRM not in handled
    # Python's own handler only notes the signal. Its code goes on only if the signal ends a wait.
    assert free == {}
    reason = f"the program has a handler for SIGINT, which would end the wait of thread {process.pid}"
    assert ended == {process.pid: reason}
    with Session.open_core(kernel.place) as session:
        assert from_outside(session) == ()
        with pytest.raises(Unavailable):
            session.process.system.handled_signals()


def test_a_signal_that_is_about_to_come_may_do_anything(kernel: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.open_core(kernel.place) as session:
        thread = kernel.thread("mutex_normal")
        coming = PendingSignals(frozenset((signal.SIGUSR1,)), None, frozenset())
        usual = session.process.system.pending_signals
        monkeypatch.setattr(session.process.system, "pending_signals", lambda t: coming if t == thread else usual(t))
        (reason,) = from_outside(session)
    assert reason == f"signal {int(signal.SIGUSR1)} is about to reach thread {thread}, whose handler may do anything"


def test_moments_of_one_process_are_known_to_be_so(kernel: Words, tmp_path: Path) -> None:
    require_kernel_cores()
    with waiting(build_outside("waits"), tmp_path, blocks=True) as (process, _):
        with Session.attach(process.pid, max_stop=LONG) as session:
            living = session.ask(lambda s: s.process.system.identity())
            ompd.questions.snapshot.take_snapshot(session, tmp_path / "snapshot")
        write_gcore(process.pid, tmp_path / "gcore")
        write_kernel_core(process, tmp_path / "kernel")
    moments = [living]
    for name in ("snapshot", "gcore", "kernel"):
        with Session.open_core(tmp_path / name) as session:
            moments.append(session.process.system.identity())
    with Session.open_core(tmp_path / "gcore") as one, Session.open_core(tmp_path / "kernel") as other:
        assert one.process.system.is_same_process(other.process.system)
        with Session.open_core(kernel.place) as session:
            assert one.process.system.is_same_process(session.process.system) is False
            stranger = session.process.system.identity()
    for one in moments:
        assert [is_same_process(one, other) for other in moments] == [True] * len(moments)
        assert is_same_process(one, stranger) is False and is_same_process(stranger, one) is False
    assert living.start_time is not None and stranger.start_time is None


# Python


@pytest.mark.parametrize("kind", ["live", "kernel"])
@pytest.mark.parametrize("release", ["3.11", "3.13"])
def test_who_waits_for_pythons_lock_and_who_holds_it(release: str, kind: str, tmp_path: Path) -> None:
    path = interpreters().get(release)
    if path is None:
        raise Missing(f"python{release}", "there is none", forbidden=True)
    with waiting(path, tmp_path, str(SOURCES / "gil.py")) as (process, words):
        until_asleep(process.pid)
        threads = words.thread("waits"), words.thread("main")
        if kind == "kernel":
            require_kernel_cores()
            write_kernel_core(process, tmp_path / "core")
        with (
            Session.open_core(tmp_path / "core")
            if kind == "kernel"
            else Session.attach(process.pid, max_stop=LONG) as session
        ):
            waits, holds = session.ask(lambda s: [system_wait(s, thread) for thread in threads])
    assert holds is not None and (holds.kind, holds.routine) == ("signal", "pause")
    assert waits is not None and waits.kind == "gil" and waits.is_timed is False
    if release == "3.11":
        assert waits.owner is None and "3.13" in waits.unavailable["owner"]
    else:
        assert (waits.owner, waits.owner_source, waits.is_owner_alive) == (threads[1], "runtime", True)
