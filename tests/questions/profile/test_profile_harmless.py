"""A profile ends well whatever happens, has what was collected until then, and leaves the process as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import jsonschema
import pytest

import ompd
from ompd.errors import BadInput, Unsupported
from ompd.model import ProfileAnswer
from ompd.questions import profile
from ompd.render.answers.profile import format_folded, format_speedscope
from ompd.render.schema import format_schema
from ompd.render.terminal import make_console, print_profile
from tests.support import stopped
from tests.support.cache import CHECKOUT
from tests.support.command import ompd as command
from tests.support.live import Worker, is_let_go, wait_until, working
from tests.support.profiles import GNU, built, hurry

ENOUGH = 60.0  # seconds; something else ends each of these profiles


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@contextmanager
def costly(case: str = "uneven", *arguments: str) -> Iterator[Worker]:
    environment = {"OMP_NUM_THREADS": "2"}
    with working("costs", case, *arguments, executable=built(GNU), env=environment) as program:
        yield program


def profiled(
    process_id: int, happens: Callable[[], object], *, looks: int = 5, seconds: float = ENOUGH
) -> ProfileAnswer:
    """Return a profile during which *happens* is called once, after some looks."""
    left = [looks]

    def progress(text: str) -> None:
        left[0] -= 1
        if not left[0]:
            happens()

    with ompd.attach(process_id) as session:
        return profile.ask(session, seconds=seconds, rate=200, progress=progress)


def ended(answer: ProfileAnswer) -> str:
    assert answer.sampling is not None and answer.sampling.moments and len(answer.moments) == answer.sampling.moments
    return answer.sampling.ended


def interrupt() -> None:
    # As Python does for SIGINT, unless a shell has started it in the background.
    raise KeyboardInterrupt


def test_ctrl_c_ends_it_with_what_was_collected() -> None:
    with costly() as program:
        answer = profiled(program.pid, interrupt)
        assert ended(answer) == "interrupted" and any(row.file for row in answer.rows)
        wait_until(lambda: is_let_go(program.pid))
        program.finish()


def test_a_program_that_ends_leaves_what_was_collected() -> None:
    with costly() as program:
        answer = profiled(program.pid, program.process.kill)
        assert "ended" in ended(answer) and any(row.file for row in answer.rows)
        assert any("sampling ended" in warning for warning in answer.warnings)


SEIZE = """
import sys
from ompd.debugger.targets.live import ptrace
ptrace.seize(int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_tracer_ends_it() -> None:
    with (
        costly() as program,
        subprocess.Popen(
            [sys.executable, "-c", SEIZE, str(program.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as nobody,
    ):
        nobody.kill()
        tracers: list[subprocess.Popen[str]] = []

        def trace() -> None:
            words = [sys.executable, "-c", SEIZE, str(program.pid)]
            tracer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert tracer.stdout is not None and tracer.stdout.readline() == "ready\n"
            tracers.append(tracer)

        nobody.wait()
        wait_until(lambda: is_let_go(program.pid))
        answer = profiled(program.pid, trace)
        assert "trace" in ended(answer) or "debugger" in ended(answer)
        tracers[0].communicate()
        wait_until(lambda: is_let_go(program.pid))
        program.finish()


def test_another_program_in_the_same_process_ends_it() -> None:
    with working("restless", "exec", "4", "5", env={"RESTLESS_REST": "2000"}) as program:
        answer = profiled(program.pid, lambda: None)
        # On a busy machine the program may come to its end before a look meets one of its execve().
        assert ended(answer).endswith(("executes another program", "ended while it was looked at"))


def test_threads_may_come_and_go() -> None:
    with working("restless", "threads", "8", "100000") as program:
        answer = profiled(program.pid, lambda: None, seconds=0.5)
        assert ended(answer) == "time" and answer.target.stops_ns
        wait_until(lambda: is_let_go(program.pid))


def test_a_process_that_a_signal_holds_is_not_counted() -> None:
    with costly() as program:
        answer = profiled(program.pid, lambda: program.process.send_signal(signal.SIGSTOP), seconds=1.0)
        assert any("was held" in warning for warning in answer.warnings)
        program.process.send_signal(signal.SIGCONT)
        program.finish()


def test_nonblocking_stops_nothing() -> None:
    with costly() as program, ompd.attach(program.pid, nonblocking=True) as session:
        answer = session.ask_profile(0.5, rate=100)
        assert answer.sampling is not None and answer.sampling.moments and not answer.sampling.stops
        assert answer.target.stops_ns == ()


def test_sleeping_threads_are_not_stopped() -> None:
    with costly("sleeps", "1000000") as program, ompd.attach(program.pid) as session:
        answer = session.ask_profile(0.5, rate=100)
        asleep = [each.share.mean for each in answer.activities if each.activity == "asleep"]
        assert asleep and asleep[0] > 0.9 and answer.sampling is not None
        assert answer.sampling.stops <= answer.sampling.moments / 2


@pytest.mark.parametrize(("seconds", "rate"), [(0.0, 20.0), (-1.0, 20.0), (1e9, 20.0), (1.0, 0.0), (1.0, 1e9)])
def test_limits(seconds: float, rate: float) -> None:
    with costly() as program, ompd.attach(program.pid) as session, pytest.raises(BadInput):
        session.ask_profile(seconds, rate=rate)


# Output


@pytest.fixture(scope="module")
def example() -> ProfileAnswer:
    with costly() as program, ompd.attach(program.pid) as session:
        return session.ask_profile(1.0, rate=100)


def test_text_fits_eighty_columns(example: ProfileAnswer) -> None:
    text = StringIO()
    print_profile(make_console("never", file=text, width=80), example, unfold=False, verbose=False)
    assert "costs.c" in text.getvalue() and max(map(len, text.getvalue().splitlines())) <= 80


def test_stacks_are_in_other_formats(example: ProfileAnswer) -> None:
    folded = format_folded(example).splitlines()
    counted = sum(stack.count for stack in example.stacks)
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == counted
    assert any(line.startswith("main (costs.c:") and ";burn (costs.c:" in line for line in folded)
    speedscope = json.loads(format_speedscope(example))
    assert speedscope["profiles"][0]["endValue"] == counted


def test_json_fits_the_schema(example: ProfileAnswer) -> None:
    schema = json.loads(format_schema("profile"))
    saved = json.loads((CHECKOUT / "tests" / "profile" / "profile.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert [*validator.iter_errors(json.loads(example.to_json())), *validator.iter_errors(saved)] == []


def test_a_started_program_is_looked_at_until_it_ends() -> None:
    run = command(
        "profile", "--json", "--rate", "100", "--", "env", "OMP_NUM_THREADS=2", built(GNU), "even", "500", "1.5"
    )
    answer = json.loads(run.out)
    assert "ended" in answer["sampling"]["ended"] and answer["sampling"]["moments"]
    assert "ready" in run.err and '"seconds"' in run.err  # its own output


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    run = command("profile", "--", tmp_path / "nothing")
    assert run.code == 1 and run.err.startswith(f"ompd: {tmp_path}/nothing: cannot be started: ")


@pytest.mark.parametrize("words", [(), ("1", "--", "true")])
def test_it_needs_a_process_or_a_program(words: tuple[str, ...]) -> None:
    run = command("profile", *words)
    assert run.code == 2 and "a running process, or -- and a program" in run.err


def test_a_core_does_not_run() -> None:
    with ompd.open_core(stopped("hang").core) as session, pytest.raises(Unsupported):
        session.ask_profile(1.0)


def test_why_names_it_for_a_process_that_does_not_hang() -> None:
    # A thread that waits for the other one's work has another verdict.
    with costly("even", "100000") as program, ompd.attach(program.pid) as session:
        verdicts = []
        for _ in range(30):
            verdicts.append(session.ask_why(samples=1).rows[0])
            if verdicts[-1].kind == "no_stall":
                break
        assert verdicts[-1].kind == "no_stall", verdicts
        expected = "ompd profile TARGET" if len(os.sched_getaffinity(0)) > 1 else "ompd doctor TARGET"
        assert verdicts[-1].next_step == expected
