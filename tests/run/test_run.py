"""``ompd run``: a command under it behaves as without it, and only a command that is stuck is ended."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote

import pytest

from tests.support.live import OMPD, build_live
from tests.support.why import GNU

RUN = (str(OMPD), "run")
# Commands whose exit status under `ompd run` is the shell's own.
ORDINARY = (
    "true",
    "exit 7",
    "exit 255",
    "kill -TERM $$",
    "kill -KILL $$",
    "ulimit -c 0; kill -SEGV $$",
    "kill -INT $$",
    "kill -PIPE $$",
    "trap 'exit 9' TERM; kill -TERM $$; sleep 1",
    "sleep 30 >/dev/null 2>&1 & exit 4",
    "yes | head -1 >/dev/null",
    "exec sh -c 'exit 5'",
    "setsid sleep 5 >/dev/null 2>&1 & exit 0",
    "(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 6",
    "test -t 0",
    "cat; exit 2",
    "grep SigBlk /proc/self/status",
    "grep SigIgn /proc/self/status",
    "nohup true 2>/dev/null",
    "ulimit -n; ls /proc/self/fd | wc -l",
    "env | sort | grep -v -e ^_=",
    "ps -o pgid= -p $$ >/dev/null",
)


@pytest.fixture(scope="module")
def stuck() -> Path:
    return build_live("stuck", runtime=GNU, folder=Path(__file__).parent)


def run(
    *words: str, environment: Mapping[str, str] | None = None, text: str = "", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(environment or {})},
    )


def started(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RUN, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(os.setpgid, 0, 0),
        env={**os.environ, **(environment or {})},
    )


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def state_of(process_id: int) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def child_of(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()[0])


@pytest.mark.parametrize("command", ORDINARY)
def test_an_ordinary_command_has_its_own_output_and_exit_status(command: str) -> None:
    words = ["sh", "-c", command]
    environment = {"LC_ALL": "", "LANG": "C", "PATH": os.environ["PATH"]}
    alone = subprocess.run(words, input="x\n", capture_output=True, text=True, timeout=60, env=environment)
    under = subprocess.run([*RUN, *words], input="x\n", capture_output=True, text=True, timeout=60, env=environment)
    assert (under.returncode, under.stdout, under.stderr) == (alone.returncode, alone.stdout, alone.stderr)


@pytest.mark.parametrize(
    ("words", "status"),
    [(["nosuch-program"], 127), (["/"], 126), (["--nosuch", "true"], 125), (["--every", "5", "true"], 125)],
)
def test_what_cannot_be_started_has_the_exit_status_of_timeout(words: list[str], status: int) -> None:
    outcome = run(*words)
    assert outcome.returncode == status and outcome.stderr and not outcome.stdout


def test_a_deadlock_is_explained_saved_and_ended(stuck: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    outcome = run("--stall", "1", "--save", str(folder), "--", str(stuck), environment={"CASE": "deadlock"})
    assert (outcome.returncode, outcome.stdout) == (124, "begins\n")
    assert "Deadlock: thread 0" in outcome.stderr and "stuck.c:" in outcome.stderr
    (core,) = folder.glob("*.core")
    verdict = json.loads(core.with_suffix(".json").read_text())["why"][0]
    assert (verdict["kind"], verdict["stuck"]) == ("lock_cycle", "proven")
    again = subprocess.run([OMPD, "why", core, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["why"][0]["kind"] == "lock_cycle"
    assert "Deadlock" in core.with_suffix(".html").read_text()
    suite = ET.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_a_child_that_is_stuck_is_found_and_ended_with_its_parent(stuck: Path) -> None:
    outcome = run(
        "--stall",
        "1",
        "--exit-code",
        "--",
        "sh",
        "-c",
        f"{quote(str(stuck))}; exit 0",
        environment={"CASE": "deadlock"},
    )
    assert outcome.returncode == 10
    assert "(stuck)" in outcome.stderr and "Deadlock" in outcome.stderr


def test_what_computes_is_not_ended(stuck: Path) -> None:
    outcome = run("--stall", "0.3", "--", str(stuck), environment={"CASE": "compute", "SECONDS": "3"})
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (3, "begins\nends ", "")


def test_what_waits_for_input_is_not_ended_but_said(stuck: Path) -> None:
    process = started("--stall", "0.5", "--", str(stuck), environment={"CASE": "input"})
    assert process.stdin is not None and process.stderr is not None
    line = process.stderr.readline()
    assert "nothing has moved for" in line and "read" in line
    output, _ = process.communicate("go\n", timeout=60)
    assert (process.returncode, output) == (3, "begins\nends go\n")


def test_what_sleeps_is_not_ended(stuck: Path) -> None:
    outcome = run("--stall", "0.5", "--", str(stuck), environment={"CASE": "sleep", "SECONDS": "3"})
    assert (outcome.returncode, outcome.stdout) == (3, "begins\nends ")


def test_a_timeout_ends_whatever_runs_and_says_why(stuck: Path) -> None:
    words = ("--timeout", "1", "--", "sh", "-c", f"{quote(str(stuck))} & wait")
    process = started(*words, environment={"CASE": "compute", "SECONDS": "60"})
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 124
    assert "it has run for 1 s" in messages


def test_a_timeout_can_leave_the_command_alone() -> None:
    outcome = run("--timeout", "0.2", "--then", "continue", "--", "sh", "-c", "sleep 1; exit 8")
    assert outcome.returncode == 8 and "it has run for 0.2 s" in outcome.stderr


def test_signals_reach_the_command(tmp_path: Path) -> None:
    process = started("sh", "-c", "trap 'exit 11' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 11
    process.communicate()


def test_a_stopped_command_stops_ompd_and_both_go_on() -> None:
    process = started("--stall", "30", "--", "sh", "-c", "echo ready; sleep 1; exit 12")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    command = child_of(process.pid)
    os.kill(command, signal.SIGTSTP)
    until(lambda: state_of(process.pid) == "T")
    os.killpg(process.pid, signal.SIGCONT)
    _, messages = process.communicate(timeout=60)
    assert (process.returncode, messages) == (12, "")


def test_the_verdict_keeps_to_the_columns_that_the_variable_sets(stuck: Path) -> None:
    terminal, errors = pty.openpty()
    environment = {**os.environ, "CASE": "deadlock", "COLUMNS": "60"}
    with subprocess.Popen([*RUN, "--stall", "1", "--", str(stuck)], env=environment, stderr=errors):
        os.close(errors)
        shown = b""
        with suppress(OSError):  # all that wrote to the terminal have ended
            while part := os.read(terminal, 1 << 16):
                shown += part
    os.close(terminal)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert any(line.startswith("Deadlock: ") for line in lines) and max(map(len, lines)) <= 60, max(lines, key=len)


def test_control_c_reaches_the_command_once() -> None:
    program = (
        "import signal, time\n"
        "count = 0\n"
        "def add(*_):\n"
        "    global count\n"
        "    count += 1\n"
        "signal.signal(signal.SIGINT, add)\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 60\n"
        "while not count and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "print('count', count, flush=True)\n"
    )
    process_id, terminal = pty.fork()
    if not process_id:
        os.execv(RUN[0], [*RUN, "--", sys.executable, "-c", program])
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while re.search(rb"count \d", output) is None:
        output += os.read(terminal, 1000)
    assert b"count 1" in output
    _, status = os.waitpid(process_id, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0


def test_verdicts_are_kept_while_the_command_runs(stuck: Path, tmp_path: Path) -> None:
    words = ("--every", "1", "--keep", "2", "--save", str(tmp_path), "--", str(stuck))
    outcome = run(*words, environment={"CASE": "compute", "SECONDS": "5"})
    assert outcome.returncode == 3
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept and set(kept) <= {"verdict-0.jsonl", "verdict-1.jsonl"}
    assert json.loads((tmp_path / kept[0]).read_text())["why"]
