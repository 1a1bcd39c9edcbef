"""The end of a command: its exit code, and its messages on standard error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ompd.commands.progress import harmless, width_of_errors
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.model import Answer

EXIT_CODES = """\b
Exit codes:
  0    the answer is complete
  1    no answer; standard error says why
  2    wrong usage
  3    parts of the answer were unreadable; standard error lists them
  130  interrupted"""
"""The end of each command's help."""

EXIT_NO_ANSWER = 1
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130


def say(*lines: str) -> None:
    """Print lines on standard error, with control characters escaped. Lines that cannot be written are dropped.

    On a terminal, long lines are broken between words.
    """
    with suppress(OSError):
        for line in lines:
            for part in _fitted(harmless(line)):
                click.echo(part, err=True)


def _fitted(line: str) -> Sequence[str]:
    if not sys.stderr.isatty():
        return (line,)
    from ompd.render.columns import wrap_line

    return wrap_line(line, width_of_errors())


def end_of_output(error: OSError) -> NoReturn:
    """End the command because its answer cannot be written."""
    # Python flushes standard output once more when it ends. That must not report the error a second time.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(0)  # the reader has closed the pipe
    why = "standard output is closed" if error.errno == errno.EBADF else error.strerror
    say(f"ompd: cannot write the answer: {why}")
    sys.exit(EXIT_NO_ANSWER)


def fail(error: OmpdError) -> NoReturn:
    """End the command without an answer."""
    say(f"ompd: {error}", *([f"ompd: {error.hint}"] if error.hint else []))
    sys.exit(EXIT_NO_ANSWER)


def format_warnings(answer: Any) -> list[str]:
    """Return a line for each warning of an answer."""
    return [f"ompd: {'note' if answer.complete else 'warning'}: {warning}" for warning in answer.warnings]


_SUPPLY = ("throttled", "few_processors", "starved", "spin_burn", "limits")
_HEALTHY = frozenset(("no_stall", "laggard", "oversubscribed", "small_team", *_SUPPLY))


def status_of_why(answer: Answer[Any]) -> int:
    """Return the exit code of ``why --exit-code``, which the first and surest verdict decides."""
    first = answer.rows[0] if answer.rows else None
    if first is not None and first.stuck == "proven":
        return 10
    if first is not None and first.kind in _HEALTHY:
        return 12
    return 13 if first is None or first.kind == "undecided" or first.stuck == "unknown" else 11


def status_of_check(answer: Any) -> int | None:
    """Return the exit code of ``check``: 10 if there is a new difference or a gone entry, None for the usual code."""
    from ompd.questions.check.answering import is_news

    return 10 if is_news(answer) else None
