"""An inspected process runs on undisturbed: interrupted inspections, signals, programs that end or fork."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.errors import BadProcess, NoAnswer, TargetGone
from tests.support import FULL, clean_environment
from tests.support.live import (
    OMPD,
    PATIENT,
    STOPS_ALL,
    Worker,
    is_let_go,
    run,
    status_of,
    wait_until,
    working,
)
from tests.support.runs import READY_SECONDS

# Inspections of a working program. A third of them are interrupted somewhere.
INSPECTED = 500 if FULL else 12
# Attaches that end between any two system calls, by the program's number of threads.
INTERRUPTED = {4: 200, 64: 200, 2000: 100} if FULL else {4: 12, 64: 9, 500: 3}
SEED = 20261121


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
    """Return the package's files in a traceback, without the file in which the installed command begins."""
    files = map(Path, re.findall(r'File "([^"]*)"', traceback))
    package = Path(ompd.__file__).parent
    return [file for file in files if file.is_relative_to(package) and file.name != "start.py"]


@pytest.fixture
def busy() -> Iterator[Worker]:
    """Yield a program with 64 threads that work, and leave a little processor time to inspections."""
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
            # The interpreter was interrupted before it ran any of our files except the first.
            is_pythons = "Traceback" in errors or "Fatal Python error" in errors
            allowed |= {1} if is_pythons and not ours_in(errors) else set()
        assert inspector.returncode in allowed, (SEED, number, errors)
        wait_until(lambda: is_let_go(busy.pid))
    assert ended[0] > INSPECTED / 2
    busy.finish()


# Each line of standard input is an attach in a fork of this interpreter: the signal, the number of the system call at
# which it comes, and the command's arguments. Standard output has the exit code of each attach and its number of calls.
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
@pytest.mark.quick("500")
def test_a_program_survives_an_end_between_any_two_calls(threads: int) -> None:
    # All threads are seized, then stopped, queried, read, let go. Meanwhile the kernel queues signals to the program;
    # the program's count shows at the end whether a tracer has lost one.
    chance = random.Random(SEED + threads)
    ways = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    sent, ended = 0, Counter[int]()
    pause = "1000" if threads < 500 else f"{150 * threads}"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    inspector = subprocess.Popen([sys.executable, "-c", STOPS_ALL + END_AT], **pipes, env=clean_environment())
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
            # Each thread is seized and interrupted once. Later calls depend on what the program does.
            last = threads if turn // len(ways) % 2 == 0 else calls
            code, done = attach(number, chance.randint(1, last))
            # Another attach may need fewer calls than the first one.
            assert code in (130, -number) or (code in (0, 3) and done < calls), (turn, number, code, done)
            ended[code] += 1
            # With 2,000 threads the kernel takes its time to let them go after the tracer's end.
            wait_until(lambda: is_let_go(worker.pid))
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
                    command = [sys.executable, "-c", STOPS_ALL + KILL_AT, "9", at, str(worker.pid)]
                    subprocess.run(command, capture_output=True)
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
            wait_until(lambda: is_let_go(worker.pid))
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
@pytest.mark.quick("threads")
def test_a_program_may_do_what_it_likes_meanwhile(what: str, threads: int, count: int) -> None:
    asked, rest = 0, 200
    while asked == 0:  # the program may end, or execute another one, before the first answer
        with working("restless", what, str(threads), str(count), env={"RESTLESS_REST": str(rest)}) as worker:
            while worker.process.poll() is None:
                try:
                    with ompd.attach(worker.pid) as session:
                        session.ask_threads()
                    asked += 1
                except (NoAnswer, TargetGone):
                    pass  # the program has just begun to execute another one, or is at its end
                except BadProcess as error:
                    assert "zombie" in str(error)
            said, _ = worker.process.communicate()
            assert (said, worker.process.returncode) == ("done\n", 0)
        count, rest = (count, 4 * rest) if what == "exec" else (4 * count, rest)


def children_of(process_id: int) -> list[int]:
    tasks = Path(f"/proc/{process_id}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_a_thread_that_cannot_be_woken_is_not_waited_for() -> None:
    with working("restless", "vfork", "4", "1") as worker:
        wait_until(lambda: children_of(worker.pid) != [])
        wait_until(lambda: any(state.startswith("D") for state in status_of(worker.pid, "State")))
        (child,) = children_of(worker.pid)
        asleep = [
            int(task.name)
            for task in Path(f"/proc/{worker.pid}/task").iterdir()
            if b"State:\tD" in (task / "status").read_bytes()
        ]
        with ompd.attach(worker.pid) as session:
            answer = session.ask_threads()
        assert worker.process.poll() is None and is_let_go(worker.pid)
        # The thread's stack does not show whether it has arrived at the barrier that the others may have reached.
        assert all("who has arrived at its barrier" in warning for warning in answer.warnings)
        assert answer.complete == (not answer.warnings)
        row = next(row for row in answer.rows if row.native_thread_id in asleep)
        assert (row.thread_num, row.team_size) == (3, 4)
        os.kill(child, signal.SIGTERM)
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
