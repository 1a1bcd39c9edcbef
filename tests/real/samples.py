"""One question to ``ompd`` at one moment, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ompd import attach
from ompd.commands.main import main
from ompd.errors import OmpdError
from ompd.render.json import format_answer

COMMANDS = ("threads", "tasks", "stack")
TOGETHER = "together"
"""All of them, and ``parallel``, of one moment."""
SECONDS = 60.0


@dataclass(frozen=True)
class Sample:
    """What a question came to: *code* is the exit code, -1 if it did not end; *answers* by command."""

    command: str
    code: int
    seconds: float
    answers: dict[str, Any]
    output: str
    errors: str
    before: frozenset[int]
    after: frozenset[int]


def threads_of(process_id: int) -> frozenset[int]:
    """Return the threads of a process, none if it has ended."""
    try:
        return frozenset(int(entry.name) for entry in Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return frozenset()


def take(process_id: int, command: str) -> Sample:
    """Ask *command* of a process."""
    before, started = threads_of(process_id), time.monotonic()
    question = _all_at_once if command == TOGETHER else _command
    code, output, errors = _forked(lambda: question(process_id, command))
    seconds, after = time.monotonic() - started, threads_of(process_id)
    answers = {}
    if code in (0, 3):
        parsed = json.loads(output)
        answers = parsed if command == TOGETHER else {command: parsed}
    return Sample(command, code, seconds, answers, output, errors, before, after)


def _command(process_id: int, command: str) -> None:
    sys.argv = ["ompd", command, str(process_id), "--json"]
    main()


def _all_at_once(process_id: int, _command: str) -> None:
    try:
        with attach(process_id) as session:
            answers = session.ask(lambda s: (s.ask_threads(), s.ask_parallel(), s.ask_tasks(), s.ask_stacks()))
    except OmpdError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    texts = (
        f'"{name}": {format_answer(name, answer)}'
        for name, answer in zip(("threads", "parallel", "tasks", "stack"), answers, strict=True)
    )
    print("{" + ", ".join(texts) + "}")
    sys.exit(0 if all(answer.complete for answer in answers) else 3)


def _forked(run: Callable[[], None]) -> tuple[int, str, str]:
    # As a command of its own, less the time that Python takes to start and to import.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                run()
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            except BaseException:  # noqa: BLE001  a traceback is a find
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        code = _wait(child)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return code, texts[0], texts[1]


def _wait(child: int) -> int:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
