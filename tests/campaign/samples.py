"""Ask ``ompd`` about one target at one moment, in a process of its own, and measure the cost."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

import ompd
from ompd.commands.main import main
from ompd.debugger.targets.live import tracer
from ompd.errors import OmpdError
from ompd.render.json import format_answer

RAW = "raw"
"""``stack --raw``: all frames of each thread's own stack."""
QUESTIONS = ("runtimes", "threads", "parallel", "tasks", "stack", RAW, "icvs", "why")
TOGETHER = "together"
"""All questions, about one stop."""
COMMANDS = ("threads", "tasks", "stack", "why", TOGETHER)
"""The questions to a running process."""
SECONDS, LONGEST = 60.0, 900.0
"""Processor seconds that a question may take, and seconds after which it is ended in any case."""
_ASKS: Mapping[str, Callable[[Any], Any]] = {
    **{name: methodcaller(f"ask_{name}") for name in QUESTIONS},
    "stack": methodcaller("ask_stacks"),
    RAW: methodcaller("ask_stacks", raw=True),
}

Target = int | Path
"""A process, or a core."""


@dataclass(frozen=True)
class Sample:
    """The outcome of one question.

    :param kind: the kind of target: ``live``, ``stopped``, ``gcore``, …
    :param code: the exit code, -1 if the command did not end
    :param seconds: the processor time that it took
    :param answers: by question, as parsed JSON
    :param before: the threads of the process just before
    :param after: the threads of the process just after
    :param stops: for each stop its length, and the part of it spent waiting for a processor, in nanoseconds
    :param grown: bytes by which the memory of the asking process grew
    """

    kind: str
    command: str
    code: int
    seconds: float
    answers: Mapping[str, Any]
    output: str
    errors: str
    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    stops: Sequence[tuple[int, int]] = ()
    grown: int = 0


def threads_of(process_id: int) -> frozenset[int]:
    """Return the threads of a process; none if it has ended."""
    try:
        return frozenset(int(entry.name) for entry in Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return frozenset()


def ask(target: Target, kind: str, command: str = TOGETHER, questions: Sequence[str] = QUESTIONS) -> Sample:
    """Ask *command* of a target.

    :param questions: the questions that :data:`TOGETHER` stands for
    """
    before = _threads_before(target)
    if command == TOGETHER:
        done = _forked(lambda: _ask_together(target, questions))
    else:
        done = _forked(lambda: _ask_command(target, command))
    after = _threads_before(target)
    answers: dict[str, Any] = {}
    if done.code in (0, 3):
        parsed = json.loads(done.output)
        answers = parsed if command == TOGETHER else {command: parsed}
    return Sample(
        kind, command, done.code, done.seconds, answers, done.output, done.errors, before, after, done.stops, done.grown
    )


def write_snapshot(target: Target, file: Path) -> Sample:
    """Write a snapshot of a target by the command; the sample has no answers."""
    before = _threads_before(target)
    done = _forked(lambda: _command("snapshot", str(target), "-o", str(file)))
    name = "snapshot"
    return Sample(
        name, name, done.code, done.seconds, {}, done.output, done.errors, before, stops=done.stops, grown=done.grown
    )


def _threads_before(target: Target) -> frozenset[int]:
    return threads_of(target) if isinstance(target, int) else frozenset()


def _ask_command(target: Target, command: str) -> None:
    _command(command, str(target), "--json")


def _command(*words: str) -> None:
    sys.argv = ["ompd", *words]
    main()


def _ask_together(target: Target, questions: Sequence[str]) -> None:
    def ask_all(session: Any) -> list[Any]:
        return [_ASKS[name](session) for name in questions]

    try:
        if isinstance(target, int):
            with ompd.attach(target) as live:
                answers = live.ask(ask_all)
        else:
            with ompd.open_core(target) as core:
                answers = ask_all(core)
    except OmpdError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    texts = (
        f'"{name}": {format_answer("stack" if name == RAW else name, answer)}'
        for name, answer in zip(questions, answers, strict=True)
    )
    print("{" + ", ".join(texts) + "}")
    sys.exit(0 if all(answer.complete for answer in answers) else 3)


@dataclass(frozen=True)
class _Done:
    code: int
    seconds: float
    output: str
    errors: str
    stops: tuple[tuple[int, int], ...]
    grown: int


def _forked(run: Callable[[], None]) -> _Done:
    # Run in a fork like a separate command, but without the time in which Python starts and imports.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as measures:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 1
            stops: list[tuple[int, int]] = []
            began = 0
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
                began = _forget_peak()
                _measure_stops(stops)
                run()
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            except BaseException:  # noqa: BLE001  a traceback is a find
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                measures.write(json.dumps([stops, _peak() - began]).encode())
                measures.flush()
                os._exit(code)
        code, seconds = _wait(child)
        texts = []
        for file in (output, errors, measures):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        lengths, grown = json.loads(texts[2]) if texts[2] else ((), 0)
        measured = tuple((length, waited) for length, waited in lengths)
        return _Done(code, seconds, texts[0], texts[1], measured, grown)


def _wait(child: int) -> tuple[int, float]:
    # Return the exit code, -1 if the child did not end, and its processor seconds, which do not depend on other load.
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and _seconds(child) < SECONDS:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        time.sleep(0.005)
    taken = _seconds(child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1, taken


def _seconds(child: int) -> float:
    words = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


# Cost of a question


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def _forget_peak() -> int:
    # Forget the peak of memory that the parent process had before the fork.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _measure_stops(stops: list[tuple[int, int]]) -> None:
    # On a busy machine a stop lasts until the threads to be stopped, and the one that stops them, have got a processor.
    # Subtract this thread's wait, the longest of the other waits, and the time that other guests took from the machine.
    run, seize = tracer.Stop._run, tracer.Stop._seize_new
    began: list[tuple[int, int, dict[str, int]]] = []

    def seized(self: tracer.Stop) -> tuple[list[int], bool]:
        found = seize(self)
        if not began:  # the stop begins now
            began.append((_stolen(), _waited(Path("/proc/thread-self")), _waited_by_each(self._process_id)))
        return found

    def measured(self: tracer.Stop) -> None:
        began.clear()
        run(self)
        if began:
            stolen, own, theirs = began[0]
            ended = _waited_by_each(self._process_id)
            longest = max((waited - theirs.get(name, 0) for name, waited in ended.items()), default=0)
            waited = _waited(Path("/proc/thread-self")) - own + max(longest, 0) + _stolen() - stolen
            # The kernel adds a wait when the thread gets a processor, so part of it may be from before the stop.
            stops.append((self.duration_ns, min(waited, self.duration_ns)))

    tracer.Stop._run, tracer.Stop._seize_new = measured, seized  # type: ignore[method-assign]


def _waited(task: Path) -> int:
    # Nanoseconds that a thread was ready to run but did not run.
    try:
        return int((task / "schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _waited_by_each(process_id: int) -> dict[str, int]:
    try:
        return {entry.name: _waited(entry) for entry in Path(f"/proc/{process_id}/task").iterdir()}
    except OSError:
        return {}


def _stolen() -> int:
    # Nanoseconds in which other guests ran on the same host; the kernel counts them in ticks.
    words = Path("/proc/stat").read_text().split(maxsplit=9)
    return int(words[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
