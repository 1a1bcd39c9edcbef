"""A stop of a live process has a time limit, and questions are linear in their subject. Clocks are invented."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ompd
import ompd.session.live
from ompd.binary.core.procfs import MemoryMapping
from ompd.debugger.memory import TargetMemory
from ompd.debugger.targets.live import live, ptrace
from ompd.debugger.targets.live.copying import Copy
from ompd.debugger.targets.live.live import STOP_TRIES, LiveProcess
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.tracer import NotStopped
from ompd.errors import BadInput, TargetGone
from ompd.inspection import Inspection
from ompd.isa.x86.architectures import X86_64
from ompd.model import Answer
from ompd.session.live import MAX_STOPS, Stopper
from tests.conftest import USUAL_STOP_NS
from tests.support import FULL, running
from tests.support.live import STOPS_ALL, build_live, is_let_go, status_of, stop_all, wait_until, working
from tests.support.products import sample
from tests.support.runtimes import STRIPPED

RUNTIMES = ["intel", "libgomp", *(STRIPPED if FULL else STRIPPED[-1:])]
HOUR = 3_600_000_000_000


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def attached(process_id: int, clock: Callable[[], int]) -> Inspection:
    stopper = Stopper.attach(process_id, clock=clock)
    return Inspection(stopper.target, stopper.files, process=stopper.base, stopper=stopper)


def put_on_while_copying(monkeypatch: pytest.MonkeyPatch, clock: Clock, pieces: int) -> list[int]:
    """Let an hour pass in each stop after *pieces* copied pieces; return the list that will have the pieces of each
    stop.
    """
    read = ptrace.read_memory
    copied: list[int] = []

    def reading(process: int, ranges: Any, buffer: Any, is_over: Callable[[], bool] | None = None) -> Any:
        if is_over is None:
            return read(process, ranges, buffer)  # a read of the running process
        copied.append(0)

        def passing() -> bool:
            copied[-1] += 1
            clock.now += HOUR * (copied[-1] > pieces)
            return is_over()

        return read(process, ranges, buffer, passing)

    monkeypatch.setattr(ptrace, "read_memory", reading)
    return copied


@pytest.fixture
def _usual_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "DEFAULT_STOP_NS", USUAL_STOP_NS)


@pytest.mark.usefixtures("_usual_limit")
def test_how_long_a_stop_may_last() -> None:
    with working("busy", "3", "1000") as worker:
        process = LiveProcess(worker.pid)
        lengths = [process.limit_ns(threads) for threads in (1, 256, 257, 1256)]
        assert [length / 1e6 for length in lengths] == [50, 50, 50.2, 250]
        process.close()
        process = LiveProcess(worker.pid, max_stop_ns=7)
        assert {process.limit_ns(threads) for threads in (1, 100_000)} == {7}
        process.close()
        for wrong in (0, -1, 1e9, float("nan")):
            with pytest.raises(BadInput, match="a stop of"):
                ompd.attach(worker.pid, max_stop=wrong)
        with ompd.attach(worker.pid, max_stop=60_000) as session:
            assert session.ask_threads().rows
        worker.finish()


@pytest.fixture
def _all_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_all(monkeypatch)


@pytest.mark.usefixtures("_usual_limit", "_all_are_stopped")
@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_a_process_that_does_not_stop_in_time_is_let_go_and_tried_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = Clock(), []
    stop, interrupt = LiveProcess._stop, ptrace.interrupt

    def trying(self: LiveProcess, *arguments: Any) -> Moment:
        tries.append(len(tries))
        return stop(self, *arguments)

    def interrupting(thread: int) -> None:
        if len(tries) > failures:
            interrupt(thread)
        else:
            clock.now += HOUR  # the thread does not stop in this hour

    monkeypatch.setattr(ptrace, "interrupt", interrupting)
    monkeypatch.setattr(LiveProcess, "_stop", trying)
    with working("busy", "4", "1000") as worker:
        process = LiveProcess(worker.pid, clock=clock)
        if failures < STOP_TRIES:
            assert process.stop(()).thread_ids()
            assert len(tries) == failures + 1
        else:
            with pytest.raises(NotStopped) as raised:
                process.stop(())
            error = raised.value
            assert (len(tries), error.tries, error.running) == (STOP_TRIES, STOP_TRIES, error.threads)
            assert str(error).startswith(f"process {worker.pid}: was not stopped within 50 ms, 3 times: ")
            assert "--max-stop" in error.hint and "--nonblocking" in error.hint
        assert is_let_go(worker.pid)
        assert not any(thread.name == "ompd-stop" for thread in threading.enumerate())
        process.close()
        worker.finish()


def test_the_command_says_what_helps_where_a_process_does_not_stop() -> None:
    code = (
        f"{STOPS_ALL}"
        "import sys\n"
        "from ompd.debugger.targets.live import ptrace\n"
        "ptrace.interrupt = lambda thread: None\n"
        "from ompd.commands.main import main\n"
        "main()\n"
    )
    with working("busy", "3", "1000") as worker:
        command = [sys.executable, "-c", code, "threads", str(worker.pid), "--max-stop", "0.5"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        # The program is read while it runs.
        assert done.returncode == 3 and "LEVEL" in done.stdout
        assert f"ompd: warning: process {worker.pid}: was not stopped within 0.5 ms, 3 times: " in done.stderr
        assert "--max-stop MS allows longer stops" in done.stderr and "Traceback" not in done.stderr
        for wrong in ("0", "-3", "x", "1e9"):
            command[-1] = wrong
            assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2
        assert is_let_go(worker.pid)
        worker.finish()


# Copying


def known_of(answer: Answer[Any]) -> dict[Any, dict[str, Any]]:
    """Return the facts of each thread by its native id."""
    keys = ("thread_num", "team_size", "level", "state", "parallel", "task", "thread_type")
    return {row.native_thread_id: {key: getattr(row, key) for key in keys} for row in answer.rows}


@pytest.mark.usefixtures("_all_are_stopped")
@pytest.mark.parametrize("runtime", ["intel", "libgomp"])
@pytest.mark.quick("intel")
def test_what_was_not_copied_in_time_is_named_and_what_was_is_right(
    runtime: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = Clock()
    monkeypatch.setattr(ptrace, "MAX_PIECE", 3 << 12)
    with running("nested", runtime=runtime, mode="neither", folder=tmp_path) as program:
        with monkeypatch.context() as patching, attached(program.pid, clock) as session:
            copied = put_on_while_copying(patching, clock, 1 << 20)
            answer = session.ask_threads()
            assert answer.complete and len(copied) == 2  # the needed pages, and the pages beside them
            whole, last = known_of(answer), copied[0]
        told, cut, refused = 0, 0, 0
        # Needed pages come first, so that the second half may be left out.
        for pieces in (0, *(last * part // 16 for part in range(1, 8)), last):
            with monkeypatch.context() as patching, attached(program.pid, clock) as session:
                put_on_while_copying(patching, clock, pieces)
                try:
                    answer = session.ask_threads()
                except ompd.errors.OmpdError as error:
                    assert "stopped as long as it may be" in str(error)  # not even the runtime is found
                    assert "--max-stop" in error.hint and pieces < last
                    refused += 1
                    continue
                finally:
                    assert is_let_go(program.pid)
            if answer.complete:
                assert known_of(answer) == whole
                told += 1
                continue
            cut += 1
            assert len(answer.target.stops_ns) == MAX_STOPS
            first = answer.warnings[0]
            assert re.search(r"stopped as long as it may be, with \d+ pages not yet copied", first)
            assert "--max-stop" in first
            reasons = [reason for row in answer.rows for reason in row.unavailable.values()]
            assert reasons or len(answer.warnings) > 1
            for thread, facts in known_of(answer).items():
                row = next(row for row in answer.rows if row.native_thread_id == thread)
                for key, value in facts.items():
                    assert value == whole[thread][key] or key in row.unavailable, (pieces, thread, key)
        assert told and refused + cut


PAGE = 1 << 12


def mapping(start: int, pages: int, name: str = "") -> MemoryMapping:
    return MemoryMapping(start, start + pages * PAGE, True, True, False, 0, name)


class Still:
    """The parts of a process that a moment uses; all of its pages exist."""

    process_id, command, architecture = 1, None, X86_64
    constants: dict[int, bytes]

    def __init__(self) -> None:
        self.constants = {}

    def read_now(self, address: int, size: int) -> bytes:
        return bytes(size)


def test_where_a_program_moves_on_its_heap_is_copied_as_a_whole() -> None:
    heap, large, stack = mapping(0x100000, 300), mapping(0x10000000, 1 << 16), mapping(0x70000000, 40)
    moment = Moment(Still(), {1: {"rsp": stack.start + 30 * PAGE}}, [heap, large, stack], {})  # type: ignore[arg-type]
    for address in (heap.start + 100 * PAGE, large.start + 5000 * PAGE, stack.start + 35 * PAGE):
        moment.read(address, 8)
    assert moment.misses_stacks()
    heaps, beyond = range(0x100, 0x100 + 300), range(0x100 + 300, 0x100 + 310)
    first, second = moment.pages_nearby(0), moment.pages_nearby(1)
    assert len(first) == 16 and {0x100 + 100, 0x10000 + 5000} <= set(first)
    # The likely pages come first, then all pages of small mappings, and no page of a stack.
    assert set(second[:128]) > set(first) and len(set(second)) == len(second)
    assert set(second) >= {*heaps, *beyond} and len(second) < 600
    assert not set(second) & set(range(0x70000, 0x70000 + 40))


def test_stacks_are_copied_as_far_as_they_are_used() -> None:
    shallow, deep, deeper = mapping(0x100000, 100), mapping(0x1000000, 5000), mapping(0x8000000, 9000)
    copying = Copy.__new__(Copy)
    copying._process = SimpleNamespace(architecture=X86_64)  # type: ignore[assignment]
    copying._memory = [shallow, deep, deeper]
    copying._starts = [each.start for each in copying._memory]
    copying._all_stacks = 6000 * PAGE
    pointers = [shallow.end - 10 * PAGE, deep.end - 1000 * PAGE, deeper.end - 8000 * PAGE]
    pages = Counter[int]()
    for address, size in copying._stacks(pointers):
        pages.update(range(address // PAGE, (address + size) // PAGE))
    assert set(pages.values()) == {1}
    used = [{page for page in pages if each.start <= page * PAGE < each.end} for each in (shallow, deep, deeper)]
    assert [len(each) for each in used[:2]] == [11, 1001]  # with the page below, which may be used as well
    # The deepest stack gets the remaining pages, and its outermost frames are copied, too.
    assert 4900 < len(used[2]) < 5000 and deeper.end // PAGE - 1 in used[2]


@pytest.mark.usefixtures("_all_are_stopped")
@pytest.mark.quick()
def test_a_snapshot_says_what_was_not_copied_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock()
    with running("nested", mode="neither", folder=tmp_path) as program:
        with monkeypatch.context() as patching, attached(program.pid, clock) as session:
            put_on_while_copying(patching, clock, 3)
            taken = session.snapshot(tmp_path / "cut.core")
            assert len(session._stopper.process.stops_ns) <= MAX_STOPS  # type: ignore[union-attr]
        assert "stopped as long as it may be" in taken.problems[0]
        with attached(program.pid, clock) as session:
            whole = session.snapshot(tmp_path / "whole.core")
        assert whole.problems == () and whole.memory_bytes > taken.memory_bytes
        assert is_let_go(program.pid)
    with ompd.open_core(tmp_path / "cut.core") as session:
        assert session.process.threads.ids()


# A program that changes all the time


@pytest.mark.usefixtures("_all_are_stopped")
def test_a_program_that_changes_all_the_time_is_never_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop = LiveProcess.stop

    def stopping(self: LiveProcess, pages: Collection[int], nearby: Any = (), **options: Any) -> Moment:
        return stop(self, ())  # the needed pages are elsewhere each time

    monkeypatch.setattr(LiveProcess, "stop", stopping)
    with running("nested", folder=tmp_path) as program, ompd.attach(program.pid) as session:
        states: list[set[str]] = []

        def asked(session: Inspection) -> Answer[Any]:
            states.append({state[:1] for state in status_of(program.pid, "State")})
            return session.ask_threads()

        try:
            answer = session.ask(asked)
        except ompd.errors.OmpdError as error:
            assert "moved on" in str(error)
        else:
            assert not answer.complete and len(answer.target.stops_ns) == MAX_STOPS
            assert "faster than it can be copied" in answer.warnings[0]
        assert len(states) == MAX_STOPS + 2  # the rehearsal, each stop, and the answer of the best stop
        assert not any("t" in found for found in states)
        assert is_let_go(program.pid)


@pytest.mark.usefixtures("_all_are_stopped")
def test_a_program_that_ends_between_two_stops_is_said_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop, stops = LiveProcess.stop, []

    def stopping(self: LiveProcess, pages: Collection[int], nearby: Any = (), **options: Any) -> Moment:
        stops.append(pages)
        if len(stops) > 1:
            raise TargetGone("it ended")
        return stop(self, [page for page in pages if page != rare])

    with running("nested", folder=tmp_path) as program, ompd.attach(program.pid) as session:
        threads = session.ask_threads()
        rare = max(row.address for row in threads.rows if row.address is not None) // PAGE
        monkeypatch.setattr(LiveProcess, "stop", stopping)
        answer = session.ask_threads()
    assert len(stops) == 2 and not answer.complete
    assert answer.warnings[0].startswith("the process ended before it could be stopped again: ")


def test_a_rehearsal_reads_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ompd.session.live, "_MAX_REHEARSED", 20)
    monkeypatch.setattr(ompd.session.live, "_MAX_REHEARSED_PER_THREAD", 0)
    monkeypatch.setattr(LiveProcess, "asleep", lambda self, thread: None)  # as if all threads ran
    with running("nested", folder=tmp_path) as program, ompd.attach(program.pid) as session:
        budgets: list[int] = []

        def asked(session: Inspection) -> Answer[Any]:
            budgets.append(session.process.memory.max_reads)
            return session.ask_threads()

        answer = session.ask(asked)
        assert answer.complete
        assert budgets[0] == 20 and min(budgets[1:]) > 1_000_000


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.quick("intel")
def test_trees_of_tasks_that_come_and_go_are_told_or_said_to_change(runtime: str) -> None:
    with working("descends", "growing", "3", executable=build_live("descends", runtime=runtime)) as worker:
        for number in range(30 if FULL else 6):
            with ompd.attach(worker.pid) as session:
                answer = (session.ask_tasks, session.ask_stacks, session.ask_threads)[number % 3]()
            assert len(answer.target.stops_ns) > 0
            changing = "faster than it can be copied|task queue was being changed|stopped as long as it may be"
            assert answer.complete or any(re.search(changing, text) for text in answer.warnings), answer.warnings
            assert answer.rows
            wait_until(lambda: is_let_go(worker.pid))
        worker.finish()


# Questions are linear


class Work:
    """The numbers of reads of the target and of function calls that a question makes."""

    def __init__(self) -> None:
        self.reads = self.calls = 0

    def counted(self, question: Callable[[Inspection], Answer[Any]]) -> Callable[[Inspection], Answer[Any]]:
        """Return *question*, changed so that its last call is counted."""

        def counting(session: Inspection) -> Answer[Any]:
            self.reads = self.calls = 0
            before = sys.getprofile()
            sys.setprofile(self._note)
            try:
                return question(session)
            finally:
                sys.setprofile(before)

        return counting

    def _note(self, frame: Any, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
        if event == "call" and frame.f_code is TargetMemory.read.__code__:
            self.reads += 1


QUESTIONS = ("ask_tasks", "ask_stacks", "ask_threads")
MAX_TRIES = 10


def _worked(executable: Path, kind: str, count: int) -> tuple[tuple[str, ...], dict[str, Work]]:
    """Return the threads' states in a program with *count* tasks, and the work of each question about it."""
    states: tuple[str, ...] = ()
    found: dict[str, Work] = {}
    roomy = {"OMP_STACKSIZE": "8M"}  # one thread may have all the tasks on its stack
    program = working("descends", kind, str(count), executable=executable, env=roomy)
    with program as worker, ompd.attach(worker.pid) as session:
        for name in QUESTIONS:
            work = found[name] = Work()
            answer = session.ask(work.counted(lambda asked, name=name: getattr(asked, name)()))  # type: ignore[misc]
            assert answer.complete, answer.warnings
            if name == "ask_tasks":
                assert sum(row.kind == "explicit" for row in answer.rows) == count
            elif name == "ask_threads":
                states = tuple(sorted(str(row.state) for row in answer.rows))
    return states, found


@pytest.mark.usefixtures("_all_are_stopped")  # so that each question is asked equally often
@pytest.mark.parametrize(("runtime", "kind"), sample(product(RUNTIMES, ["waiting", "undeferred"])))
@pytest.mark.quick()
def test_twice_the_tasks_are_about_twice_the_work(runtime: str, kind: str) -> None:
    few, many = (600, 1200) if FULL else (150, 300)
    executable = build_live("descends", runtime=runtime)
    # The runtime chooses the thread that executes a task, and the wait of the other thread adds work. Only runs
    # with the same states are compared.
    found: dict[int, dict[tuple[str, ...], dict[str, Work]]] = {few: {}, many: {}}
    for count in (few, many) * MAX_TRIES:
        states, works = _worked(executable, kind, count)
        found[count][states] = works
        both = found[few].keys() & found[many].keys()
        if both:
            break
    else:
        pytest.fail(f"no two are alike: {found}")
    alike = both.pop()
    less, more = found[few][alike], found[many][alike]
    for name in QUESTIONS:
        assert more[name].reads < 2.2 * less[name].reads, (name, less[name].reads, more[name].reads)
        assert more[name].calls < 2.2 * less[name].calls, (name, less[name].calls, more[name].calls)
    if runtime == "libgomp":
        assert more["ask_threads"].reads < 0.6 * more["ask_tasks"].reads  # threads need no walk over tasks
