"""Live processes: the same answers as from a core, of one moment, and the process runs on as if nothing had been."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ompd
from ompd.contract.plugin import ThreadHandle
from ompd.debugger.targets.live import refusals
from ompd.errors import BadProcess, MemoryFault, NoAnswer, StaleHandle, TargetGone
from ompd.inspection import Inspection
from ompd.model import Answer, StackRecord, ThreadRecord
from tests.support import FULL, Missing, clean_environment, intel_runtime, require, running
from tests.support.facts import expected, facts_told
from tests.support.live import SOURCES, Worker, build_live, is_let_go, status_of, wait_until, working
from tests.support.products import sample
from tests.support.programs import ALL_PROGRAMS, STACK_PROGRAMS
from tests.support.runs import ENVIRONMENT, READY_SECONDS, kernel_core_obstacle
from tests.truth import compare, everything

OMPD = Path(sys.executable).with_name("ompd")
# Inspections of a program that works, a third of which are interrupted somewhere.
INSPECTED = 500 if FULL else 12
# Attaches that are ended between any two calls of the kernel, by the size of the program.
INTERRUPTED = {4: 200, 64: 200, 2000: 100} if FULL else {4: 15, 64: 15, 2000: 3}
SEED = 20261121


# A machine that is busy with other tests may give a program too late the processors that its threads need to stop on.
# How long a stop may last is for tests/test_stop_time_limits.py.
PATIENT = ("--max-stop", "60000")


def run(
    *arguments: str | int | Path, prefix: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    patient = PATIENT if arguments[0] != "schema" else ()
    return subprocess.run(
        [*prefix, str(OMPD), *map(str, arguments), *patient],
        capture_output=True,
        text=True,
        env={**clean_environment(), **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


# What is told is true, and the same as of a core


def _marks(program: str) -> list[Any]:
    return [pytest.mark.xdist_group("busy")] * ALL_PROGRAMS[program].spins


LIVE = [
    pytest.param(program, mode, id=f"{program}-{mode}", marks=_marks(program))
    for number, program in enumerate(ALL_PROGRAMS)
    for mode in (("debug", "neither") if FULL or program in ("nested", "lock", "task_tree") else ("debug",))
    # What a core of the same programs tells is in tests/test_truth.py.
    if FULL or number % 2 == 0 or program in (*STACK_PROGRAMS, "nested", "lock", "task_tree")
]


@pytest.mark.parametrize(("program", "mode"), LIVE)
def test_a_live_program_is_told_as_it_wrote_itself(program: str, mode: str, tmp_path: Path) -> None:
    compiler = ALL_PROGRAMS[program].compilers[0]
    with running(program, compiler=compiler, mode=mode, folder=tmp_path) as live:
        found = compare(live)
        assert found.differences == []
        assert facts_told(found) == expected(program, mode)
        assert is_let_go(live.pid)


def without_signal(row: Any) -> Any:
    # The core says which signal ended the process, besides.
    if not isinstance(row, ThreadRecord | StackRecord):
        return row
    assert row.failed is False
    return replace(row, signal=None, signal_name=None, si_code=None)


@pytest.mark.parametrize("program", ["nested", "serialized_three", "extra_pthread", "task_queued", "icvs"])
def test_the_same_process_is_told_alike_alive_and_as_a_core(program: str, tmp_path: Path) -> None:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    with running(program, folder=tmp_path) as live:
        with ompd.attach(live.pid) as session:
            alive = session.ask(everything)
        before = set(tmp_path.iterdir())
        os.kill(live.pid, signal.SIGABRT)
        wait_until(lambda: "Z" in status_of(live.pid, "State")[0])
        (core,) = set(tmp_path.iterdir()) - before
        with ompd.open_core(core) as session:
            dead = session.ask(everything)
    for one, other in zip(alive, dead, strict=True):
        assert sorted(map(repr, one.rows)) == sorted(map(repr, map(without_signal, other.rows)))
        assert (one.runtimes, one.complete) == (other.runtimes, other.complete)


# The process runs on as if nothing had been

KILL_AT = """
import os, signal, sys
from ompd.debugger.targets.live import ptrace
number, left = int(sys.argv[1]), int(sys.argv[2])
def counted(call):
    def counting(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)
        return call(*arguments, **options)
    return counting
for name in ("seize", "interrupt", "report", "general_registers", "read_memory"):
    setattr(ptrace, name, counted(getattr(ptrace, name)))
sys.argv = ["ompd", "threads", sys.argv[3], "--json", "--max-stop", "60000"]
from ompd.commands.main import main
main()
"""


def ours_in(traceback: str) -> list[Path]:
    """Return the modules of ours in a traceback, but the one that the installed command begins in."""
    files = map(Path, re.findall(r'File "([^"]*)"', traceback))
    package = Path(ompd.__file__).parent
    return [file for file in files if file.is_relative_to(package) and file.name != "start.py"]


@pytest.fixture
def busy() -> Iterator[Worker]:
    """64 threads that work, and leave a little of the processors to those that inspect them."""
    with working("busy", "64", "3000") as worker:
        yield worker


@pytest.mark.xdist_group("busy")
@pytest.mark.timeout(1800 if FULL else 240)
def test_a_program_survives_any_inspection_interrupted_or_not(busy: Worker) -> None:
    chance = random.Random(SEED)
    began = time.monotonic()
    assert run("threads", busy.pid, "--json").returncode in (0, 3)
    usual = time.monotonic() - began
    ended: Counter[int] = Counter()
    for number in range(INSPECTED):
        inspector = subprocess.Popen(
            [str(OMPD), "threads", str(busy.pid), "--json", *PATIENT],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if number % 3 == 0:
            time.sleep(chance.uniform(0.2, 1.0) * usual)
            inspector.send_signal(chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)))
        _, errors = inspector.communicate(timeout=60)
        ended[inspector.returncode] += 1
        allowed = {0, 3}
        if number % 3 == 0:
            allowed |= {130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL}
            # An interpreter that is interrupted before it has begun to run anything of ours but the first module.
            is_pythons = "Traceback" in errors or "Fatal Python error" in errors
            allowed |= {1} if is_pythons and not ours_in(errors) else set()
        assert inspector.returncode in allowed, (SEED, number, errors)
        wait_until(lambda: is_let_go(busy.pid), 5)
    assert ended[0] > INSPECTED / 2
    busy.finish()


# Each line of standard input is an attach, in a fork of this interpreter: the signal, the call of the kernel at which
# it comes, and the arguments of the command. Standard output has how each ended, and the number of calls up to it.
END_AT = """
import os, signal, sys
import ompd.commands.main, ompd.session.live, ompd.questions.threads, ompd.render.json
from ompd.debugger.targets.live import ptrace
from ompd.start import main
CALLS = ("seize", "interrupt", "report", "general_registers", "read_memory", "resume", "detach")
real = os.fdopen(os.dup(1), "w")
def counted(call, number, at):
    def counting(*arguments, **options):
        done[0] += 1
        if done[0] == at:
            os.pwrite(report, b"%d" % done[0], 0)
            os.kill(os.getpid(), number)
        return call(*arguments, **options)
    return counting
for line in sys.stdin:
    number, at, *arguments = line.split()
    report = os.memfd_create("report")
    done = [0]
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        for name in CALLS:
            if hasattr(ptrace, name):
                setattr(ptrace, name, counted(getattr(ptrace, name), int(number), int(at)))
        end = os._exit
        def ending(code):  # as the command ends once it has answered
            os.pwrite(report, b"%d" % done[0], 0)
            end(code)
        os._exit = ending
        sys.argv = ["ompd", *arguments]
        code = 70
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            os.pwrite(report, b"%d" % done[0], 0)
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    real.write(f"{code} {os.pread(report, 20, 0).decode() or 0}\\n")
    real.flush()
    os.close(report)
"""


@pytest.mark.xdist_group("busy")
@pytest.mark.timeout(1800 if FULL else 240)
@pytest.mark.parametrize("threads", INTERRUPTED)
def test_a_program_survives_an_end_between_any_two_calls(threads: int) -> None:
    # All threads are seized, then stopped, asked for, read, let go. Signals come to the program meanwhile, which the
    # kernel queues: a tracer that loses one is seen at the end.
    chance = random.Random(SEED + threads)
    ways = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    sent, ended = 0, Counter[int]()
    pause = "1000" if threads < 1000 else "300000"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    inspector = subprocess.Popen([sys.executable, "-c", END_AT], **pipes, env=clean_environment())
    with inspector, working("busy", str(threads), pause, env={"OMP_STACKSIZE": "64k"}) as worker:
        assert inspector.stdin is not None and inspector.stdout is not None

        def attach(number: int, at: int) -> tuple[int, int]:
            arguments = f"threads {worker.pid} --json --max-stop 60000"
            inspector.stdin.write(f"{number} {at} {arguments}\n")  # type: ignore[union-attr]
            inspector.stdin.flush()  # type: ignore[union-attr]
            code, calls = inspector.stdout.readline().split()  # type: ignore[union-attr]
            return int(code), int(calls)

        code, calls = attach(0, 0)
        assert code in (0, 3) and calls > threads
        for turn in range(INTERRUPTED[threads]):
            number = ways[turn % len(ways)]
            for _ in range(5):
                os.kill(worker.pid, signal.SIGRTMIN)
                sent += 1
            # Each thread is seized and interrupted once; what comes after that depends on what the program does.
            last = threads if turn // len(ways) % 2 == 0 else calls
            code, done = attach(number, chance.randint(1, last))
            # Another attach may need fewer calls than the first one.
            assert code in (130, -number) or (code in (0, 3) and done < calls), (turn, number, code, done)
            ended[code] += 1
            # What the kernel does for a tracer that is gone takes its time where there are 2,000 threads.
            wait_until(lambda: is_let_go(worker.pid), 20)
        assert ended[130] and ended[-signal.SIGTERM] and ended[-signal.SIGKILL], ended
        assert worker.finish().split()[-1] == str(sent)
        inspector.stdin.close()


@pytest.mark.xdist_group("busy")
def test_no_signal_to_the_program_is_lost() -> None:
    chance = random.Random(SEED)
    sent = 0
    with working("busy", "8") as worker:
        over = threading.Event()

        def send() -> None:
            nonlocal sent
            while not over.is_set():
                os.kill(worker.pid, signal.SIGRTMIN)
                sent += 1
                time.sleep(0.0003)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for number in range(30 if FULL else 9):
                if number % 3:
                    with ompd.attach(worker.pid) as session:
                        session.ask_runtimes()
                else:
                    at = str(chance.randint(30, 90))
                    subprocess.run([sys.executable, "-c", KILL_AT, "9", at, str(worker.pid)], capture_output=True)
        finally:
            over.set()
            sender.join()
        assert sent > 50
        assert worker.finish().split()[-1] == str(sent)


STOP_BY_SIGNAL = """
import os, signal, sys, threading
from ompd.debugger.targets.live import ptrace
process = int(sys.argv[1])
threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
caught = {}
def stop():
    global caught
    for thread in threads:
        ptrace.seize(thread)
    os.kill(process, signal.SIGRTMIN)
    while not caught:
        reports = {thread: ptrace.report(thread) for thread in threads}
        caught = {thread: report.signal for thread, report in reports.items() if report is not None}
if sys.argv[2] == "let go":
    tracer = threading.Thread(target=stop)
    tracer.start()
    tracer.join()
    while len(os.listdir("/proc/self/task")) > 1:
        pass
else:
    stop()
assert list(caught.values()) == [signal.SIGRTMIN], caught
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["let go", "killed"])
def test_a_signal_that_stopped_a_thread_before_we_did_arrives(how: str) -> None:
    with working("busy", "4", "1000") as worker:
        for _ in range(5):
            ended = subprocess.run(
                [sys.executable, "-c", STOP_BY_SIGNAL, str(worker.pid), how], capture_output=True, text=True, timeout=60
            )
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            wait_until(lambda: is_let_go(worker.pid), 5)
        assert worker.finish().split()[-1] == "5"


def test_a_program_that_its_user_stopped_stays_stopped() -> None:
    with working("busy", "8") as worker:
        os.kill(worker.pid, signal.SIGSTOP)
        wait_until(lambda: set(status_of(worker.pid, "State")) == {"T (stopped)"})
        for _ in range(3):
            with ompd.attach(worker.pid) as session:
                answer = session.ask_threads()
            assert answer.complete and len(answer.target.stops_ns) == 1
            wait_until(lambda: set(status_of(worker.pid, "State")) == {"T (stopped)"}, 5)
            assert is_let_go(worker.pid) is False
            assert set(status_of(worker.pid, "TracerPid")) == {"0"}
        os.kill(worker.pid, signal.SIGCONT)
        worker.finish()


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    ("what", "threads", "count"),
    [("exec", 4, 12), ("fork", 4, 300), ("threads", 8, 2000)],
    ids=["exec", "fork", "threads"],
)
def test_a_program_may_do_what_it_likes_meanwhile(what: str, threads: int, count: int) -> None:
    asked = 0
    while asked == 0:  # the program may be at its end before the first answer
        with working("restless", what, str(threads), str(count)) as worker:
            while worker.process.poll() is None:
                try:
                    with ompd.attach(worker.pid) as session:
                        session.ask_threads()
                    asked += 1
                except (NoAnswer, TargetGone):
                    pass  # it has just begun to be another program, or is at its end
                except BadProcess as error:
                    assert "zombie" in str(error)
            said, _ = worker.process.communicate()
            assert (said, worker.process.returncode) == ("done\n", 0)
        count *= 4


def test_a_thread_that_cannot_be_woken_is_not_waited_for() -> None:
    with working("restless", "vfork", "4", "1500") as worker:
        wait_until(lambda: any(state.startswith("D") for state in status_of(worker.pid, "State")))
        with ompd.attach(worker.pid) as session:
            answer = session.ask_threads()
        assert worker.process.poll() is None and is_let_go(worker.pid)
        (note,) = (warning for warning in answer.warnings if warning.startswith("asleep in the kernel"))
        asleep = int(note.split()[-1])
        # Whether it has arrived at the barrier at which the others may be by now, its stack does not show.
        others = [warning for warning in answer.warnings if warning != note]
        assert all("who has arrived at its barrier" in warning for warning in others)
        assert answer.complete == (not others)
        row = next(row for row in answer.rows if row.native_thread_id == asleep)
        assert (row.thread_num, row.team_size) == (3, 4)
        said, _ = worker.process.communicate(timeout=READY_SECONDS)
        assert (said, worker.process.returncode) == ("done\n", 0)


def test_a_program_whose_first_thread_has_ended_is_told() -> None:
    with working("restless", "leave", "3", "1") as worker:
        wait_until(lambda: status_of(worker.pid, "State")[0].startswith("Z"))
        with ompd.attach(worker.pid) as session:
            rows = session.ask_threads().rows
        assert sum(row.team_size == 3 for row in rows) == 3
        worker.process.terminate()
        said, _ = worker.process.communicate(timeout=READY_SECONDS)
        assert (said, worker.process.returncode) == ("done\n", 0)


def test_a_program_that_ends_meanwhile_ends_as_it_would() -> None:
    chance = random.Random(SEED)
    for _ in range(20 if FULL else 6):
        with working("restless", "exit", "4", str(chance.randint(20, 250))) as worker:
            done = run("threads", worker.pid)
            assert done.returncode in (0, 1, 3), done.stderr
            assert "Traceback" not in done.stderr and "internal error" not in done.stderr
            assert done.returncode != 1 or "ended" in done.stderr or "no such process" in done.stderr, done.stderr
            said, _ = worker.process.communicate(timeout=READY_SECONDS)
            assert (said, worker.process.returncode) == ("done\n", 0)


# What is told is of one moment


def ask_all(session: Inspection) -> tuple[Answer[Any], ...]:
    return session.ask_threads(), session.ask_parallel(), session.ask_tasks()


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(("runtime", "size"), sample(product(["libgomp", "intel"], [3, 16])))
def test_answers_agree_with_one_another_at_full_speed(runtime: str, size: int) -> None:
    told: Counter[str] = Counter()
    kinds = ("thread in its region", "region", "task")
    with working("busy", str(size), executable=build_live("busy", runtime=runtime)) as worker:
        for number in range(1000):
            if number >= (60 if FULL else 15) and all(told[kind] for kind in kinds):
                break  # a small team may be seen between its regions again and again
            with ompd.attach(worker.pid) as session:
                threads, parallel, tasks = session.ask(ask_all)
            assert (threads.target, parallel.target) == (parallel.target, tasks.target)
            for answer in (threads, parallel, tasks):
                assert answer.complete, answer.warnings
            natives = {row.native_thread_id for row in threads.rows}
            regions = {row.id: row for row in parallel.rows}
            for row in threads.rows:
                assert row.parallel is None or row.parallel in regions
                if row.parallel is not None and row.thread_num is not None:
                    region = regions[row.parallel]
                    assert region.threads[row.thread_num] == row.native_thread_id
                    assert (region.level, region.team_size) == (row.level, row.team_size)
                    told["thread in its region"] += 1
            for row in parallel.rows:
                assert row.enclosing is None or regions[row.enclosing].level == (row.level or 0) - 1
                assert {thread for thread in row.threads if thread is not None} <= natives
                told["region"] += 1
            known = {row.id for row in tasks.rows}
            assert all(row.generating is None or row.generating in known for row in tasks.rows)
            told["task"] += len(tasks.rows)
        worker.finish()
    assert all(told[kind] for kind in kinds), told


def test_handles_are_of_one_stop(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live, ompd.attach(live.pid) as session:

        def handles_of(session: Inspection) -> Sequence[ThreadHandle]:
            (runtime,) = session.runtimes
            assert runtime.space is not None
            return runtime.space.threads()

        handles = session.ask(handles_of)
        assert handles
        with pytest.raises(MemoryFault, match="not copied") as fault:
            [handle.current_task() for handle in handles]
        assert "Session.ask" in fault.value.hint
        session.ask_threads()
        with pytest.raises(StaleHandle, match="one stop"):
            handles[0].state()
    with pytest.raises(TargetGone):
        session.ask_threads()


def test_one_stop_is_enough_for_a_program_at_rest(tmp_path: Path) -> None:
    with running("many", folder=tmp_path) as live, ompd.attach(live.pid) as session:
        for answer in (session.ask_threads(), session.ask_parallel(), session.ask_runtimes()):
            assert len(answer.target.stops_ns) == 1
            assert answer.target.signal is None and answer.target.kind == "live"


def test_a_question_that_fails_lets_the_program_go(tmp_path: Path) -> None:
    class Failed(Exception):
        pass

    with running("nested", folder=tmp_path) as live, ompd.attach(live.pid) as session:
        for at in (1, 2):
            calls = iter(range(1, 9))

            def failing(session: Inspection, at: int = at, calls: Iterator[int] = calls) -> None:
                if next(calls) == at:
                    raise Failed

            with pytest.raises(Failed):
                session.ask(failing)
            assert is_let_go(live.pid)
        assert session.ask_threads().complete


def test_without_stopping_it_is_said_that_facts_may_not_agree(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live:
        gdb = subprocess.Popen(
            [str(require("gdb")), "-nx", "-q", "-p", str(live.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**clean_environment(), "HOME": str(tmp_path)},
        )
        try:
            wait_until(lambda: set(status_of(live.pid, "TracerPid")) == {str(gdb.pid)})
            refused = run("threads", live.pid)
            assert refused.returncode == 1 and f"is traced already, by process {gdb.pid} (gdb)" in refused.stderr
            assert "--nonblocking" in refused.stderr
            told = run("threads", live.pid, "--nonblocking", "--json")
            assert "was not stopped" in told.stderr
            answer = json.loads(told.stdout)
            assert answer["target"]["stops_ns"] == [] and len(answer["threads"]) == len(live.truth["threads"])
        finally:
            gdb.communicate(b"", timeout=30)
        wait_until(lambda: is_let_go(live.pid), 5)
        told = run("parallel", live.pid, "--nonblocking", "--json")
        assert told.returncode == 0
        assert len(json.loads(told.stdout)["parallel"]) == len(live.truth["regions"])


# What the command says


def test_a_process_is_named_by_its_number_or_its_folder(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live:
        told = run("threads", live.pid, "-v")
        assert told.returncode == 0
        assert told.stdout.startswith(f"process {live.pid}   nested   {len(live.truth['threads'])} threads   libiomp5 ")
        assert "the process was stopped once, for " in told.stderr
        target = json.loads(run("runtimes", f"/proc/{live.pid}", "--json").stdout)["target"]
        assert (target["kind"], target["file"], target["process_id"]) == ("live", None, live.pid)
        assert target["executable"] == str(live.executable) and target["own_thread_ids"] == {}
        answer = json.loads(run("threads", live.pid, "--json").stdout)
        jsonschema.validate(answer, json.loads(run("schema", "threads").stdout))
        assert target["command"] == str(live.executable) and len(target["stops_ns"]) == 1
        worker = live.truth["threads"][1]["native_thread_id"]
        thread = run("threads", worker, "--json")
        assert thread.returncode == 0 and f"{worker} is a thread of process {live.pid}" in thread.stderr
        assert json.loads(thread.stdout)["target"]["process_id"] == live.pid


def test_a_file_that_is_called_like_a_number_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("no core")
    done = subprocess.run([str(OMPD), "threads", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "1: is not an ELF file" in done.stderr


@pytest.mark.parametrize("number", ["0", "999999999", "9" * 30, "9" * 5000, "00000000999999999"])
def test_a_number_of_no_process_is_refused(number: str) -> None:
    done = run("threads", number)
    assert done.returncode == 1 and "there is no such process" in done.stderr and "ps -e" in done.stderr


def test_a_zombie_is_refused() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: status_of(process.pid, "State")[0].startswith("Z"))
    done = run("threads", process.pid)
    process.wait()
    assert done.returncode == 1 and "zombie" in done.stderr and f"process {os.getpid()}" in done.stderr


def test_a_thread_of_the_kernel_is_refused() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        raise Missing("kthreadd", "process 2 is none of the kernel's", forbidden=True)
    done = run("threads", 2)
    assert done.returncode == 1 and "thread of the kernel" in done.stderr


def test_the_asking_process_is_refused() -> None:
    with pytest.raises(BadProcess, match="the process that asks"):
        ompd.attach(os.getpid())


def test_a_program_without_openmp_is_refused_as_its_core_would_be() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        done = run("threads", process.pid)
        assert done.returncode == 1 and f"process {process.pid}: no OpenMP runtime among its" in done.stderr
        assert run("runtimes", process.pid).returncode == 0
        assert process.poll() is None and is_let_go(process.pid)
    finally:
        process.kill()
        process.wait()


def test_another_users_process_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        raise Missing("root", "only root becomes another user", forbidden=True)
    setpriv = (str(require("setpriv")), "--reuid=65534", "--regid=65534", "--clear-groups")
    process = subprocess.Popen(["sleep", "60"])
    try:
        # Another user may not read this checkout, perhaps: the refusal is asked for in a process that has read it.
        code = (
            "import os, ompd.inspection, ompd.session.live, sys, ompd\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "from ompd.errors import BadProcess\n"
            "try: ompd.attach(int(sys.argv[1]))\n"
            "except BadProcess as error: print(error, '|', error.hint)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(process.pid)], capture_output=True, text=True)
        assert "belongs to another user (uid 0)" in done.stdout, done.stderr
        assert "as that user, or as root" in done.stdout
        # One of our own that has given up being read.
        own = subprocess.Popen(
            [
                *setpriv,
                sys.executable,
                "-I",
                "-S",
                "-c",
                "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True); time.sleep(60)",
            ],
            stdout=subprocess.PIPE,
        )
        try:
            assert own.stdout is not None and own.stdout.readline() == b"ready\n"
            done = subprocess.run([sys.executable, "-c", code, str(own.pid)], capture_output=True, text=True)
            assert "lets no one read it" in done.stdout, done.stderr
        finally:
            own.kill()
            own.communicate()
    finally:
        process.kill()
        process.wait()


def _child(process_id: int) -> int | None:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return int(children[0]) if children else None


def test_a_program_in_a_container_is_read_by_its_own_files() -> None:
    # Namespaces of its own: it is process 1 there, and its files are in a folder that is empty here.
    unshare = str(require("unshare"))
    executable, library = build_live("busy"), intel_runtime() / "lib" / "libiomp5.so"
    inside = f"mount -t tmpfs none /mnt && cp {executable} {library} /mnt && exec /mnt/busy 3 1000"
    command = [unshare, "--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", inside]
    environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": "/mnt"}
    container = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert container.stdout is not None and container.stderr is not None
        if container.stdout.readline() != "ready\n":
            raise Missing("unshare", container.stderr.read().strip(), forbidden=True)
        process = _child(container.pid)
        assert process is not None and not Path("/mnt/busy").exists()
        with ompd.attach(process) as session:
            threads, runtimes = session.ask(lambda stopped: (stopped.ask_threads(), stopped.ask_runtimes()))
        assert threads.complete and {row.native_thread_id for row in threads.rows} >= {process}
        assert runtimes.rows[0].file == "/mnt/libiomp5.so"
        assert threads.target.own_thread_ids[str(process)] == 1
        assert len(threads.target.own_thread_ids) == len(threads.rows)
        assert any(row.where is not None and row.where.line is not None for row in threads.rows)
        os.kill(process, signal.SIGTERM)
        said, _ = container.communicate(timeout=READY_SECONDS)
        assert said.startswith("rounds ") and container.returncode == 0
    finally:
        container.kill()  # with which the container ends: a PDEATHSIG of unshare's child
        container.wait()


def test_files_that_were_deleted_are_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        raise Missing("root", "only root follows /proc/PID/map_files", forbidden=True)
    executable, library = tmp_path / "busy", tmp_path / "libiomp5.so"
    shutil.copy(build_live("busy"), executable)
    shutil.copy(intel_runtime() / "lib" / "libiomp5.so", library)
    with working("busy", "3", "1000", executable=executable, env={"LD_LIBRARY_PATH": str(tmp_path)}) as worker:
        executable.unlink()
        library.unlink()
        with ompd.attach(worker.pid) as session:
            threads, runtimes = session.ask(lambda stopped: (stopped.ask_threads(), stopped.ask_runtimes()))
        assert runtimes.rows[0].file == f"{library} (deleted)" and threads.complete
        assert sum(row.runtime is not None for row in threads.rows) >= 3
        worker.finish()


def test_a_replaced_file_is_not_taken_for_the_one_that_runs(tmp_path: Path) -> None:
    executable = tmp_path / "busy"
    shutil.copy(build_live("busy"), executable)
    with working("busy", "3", "1000", executable=executable) as worker:
        executable.unlink()
        shutil.copy("/bin/true", executable)
        with ompd.attach(worker.pid) as session:
            threads = session.ask_threads()
        assert threads.complete
        assert {row.where.file for row in threads.rows if row.where is not None and row.where.line} <= {
            str(SOURCES / "busy.c")
        }
        worker.finish()


def test_a_program_of_another_processor_is_refused() -> None:
    # Of 32 bits for a 64-bit processor (x32), and of AArch64.
    for ident, machine, what in ((1, 62, "32-bit program (ELF machine number 62)"), (2, 183, "machine number 183")):
        header = b"\x7fELF" + bytes((ident, 1, 1)) + bytes(9) + struct.pack("<HH", 2, machine)
        with pytest.raises(BadProcess, match=re.escape(what)) as raised:
            refusals._architecture(1, header)
        assert raised.value.hint == "programs of these can be read: x86_64, i386"


def test_a_program_of_32_bits_without_a_c_library_tells_where_it_stands(tmp_path: Path) -> None:
    # pause() for ever, as 32-bit code: mov $29, %eax; int $0x80; jmp back
    code = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7"
    start, headers = 0x08048000, 52 + 32
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, start + headers, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = headers + len(code)
    program = tmp_path / "small"
    program.write_bytes(header + struct.pack("<IIIIIIII", 1, 0, start, start, size, size, 5, 4096) + code)
    program.chmod(0o755)
    try:
        process = subprocess.Popen([str(program)])
    except OSError as error:
        raise Missing("32-bit programs", str(error), forbidden=True) from error
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "small\n")
        done = run("stack", process.pid, "--raw")
        assert f"{start + headers + 7:#x}" in done.stdout and "in small" in done.stdout, done.stdout + done.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
