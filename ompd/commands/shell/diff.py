"""``ompd diff``, which compares two targets, or samples one target repeatedly."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.completing import complete_target
from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, fail, format_warnings, say
from ompd.commands.formats import TEXT
from ompd.commands.shell.request import OPTIONS, Request, print_answer, split_options
from ompd.commands.targets import process_id_of
from ompd.errors import BadProcess, OmpdError, TargetGone

if TYPE_CHECKING:
    from ompd.model import DiffAnswer
    from ompd.questions.diff import Look
    from ompd.session import Session

EXIT_DIFFERS = 10
_PRINTER = "ompd.render.terminal:print_diff"
_HELP = """Shows what differs between two moments of a program: threads that have moved, that are new or gone, and those
that still wait where they did; tasks; and how many there are of each. A and B are core files, snapshots, process
ids, or files that `ompd threads --json`, `tasks --json` or `parallel --json` wrote. Threads of one process are
matched by their ids, those of two runs by their numbers in their teams. The exit code is 10 if anything differs.

\b
  $ ompd diff core.1 core.2
"""


def _diff(**options: Any) -> None:
    request, own = split_options(options)
    later, watch, samples = own["later"], own["watch"], own["samples"]
    is_one_of_two = (watch is None) != (later is None)
    if not is_one_of_two or (samples is not None and watch is None):
        raise click.UsageError("diff needs two targets, or one process and --watch S")
    try:
        if watch is not None:
            if process_id_of(request.target) is None:
                raise click.UsageError("--watch needs a running process")
            sys.exit(_watch(request, own, watch, samples))
        answer = _compare(request, replace(request, target=later))
    except OmpdError as error:
        if request.debug:
            raise
        fail(error)
    _print(request, answer, unfold=own["unfold"])
    if answer.differs:
        sys.exit(EXIT_DIFFERS)
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


def _compare(request: Request, other: Request) -> DiffAnswer:
    import ompd.questions.diff as questions

    with ExitStack() as stack:
        looks: list[Look] = []
        sessions: list[Session | None] = []
        for side in (request, other):
            saved = _saved(side.target)
            session = stack.enter_context(side.opened()) if saved is None else None
            sessions.append(session)
            looks.append(saved if saved is not None else questions.look(session))  # type: ignore[arg-type]
        first, second = sessions
        if first is not None and second is not None:
            same = questions.are_one_process(first, second)
        else:
            same = questions.may_be_one_process(*(look.answer.target for look in looks))
    return questions.compared(*looks, same_process=same)


def _saved(target: str) -> Look | None:
    # Return the saved answer in a JSON file that ompd wrote, None for any other target.
    import ompd.questions.diff as questions
    import ompd.render.saved as saved
    from ompd.analysis.differences import Sight

    if process_id_of(target) is not None or not saved.is_saved(target):
        return None
    command, answer = saved.read_answer(target)
    rows: dict[str, Any] = {"threads": None, "tasks": None, "parallel": None, command: answer.rows}
    sight = Sight(threads=rows["threads"], tasks=rows["tasks"], regions=rows["parallel"])
    return questions.Look(sight, answer, answer.complete, answer.warnings)


def _watch(request: Request, own: dict[str, Any], seconds: float, samples: int | None) -> int:
    # Sample until the process ends, or *samples* times. Return the exit code: 10 if anything has differed.
    import ompd.questions.diff as questions

    changes = 0
    with request.opened() as session:
        before = questions.look(session)
        for _ in _turns(samples):
            time.sleep(seconds)
            try:
                after = questions.look(session)
            except (TargetGone, BadProcess) as error:
                say(f"ompd: {error}")
                break
            answer = questions.compared(before, after, same_process=True)
            if answer.differs or request.format != TEXT or not answer.complete:
                _print(request, answer, unfold=own["unfold"])
            elif sys.stderr.isatty():
                say(f"ompd: nothing differs, {time.strftime('%H:%M:%S')}")
            if answer.differs:
                changes = EXIT_DIFFERS
            elif not answer.complete:
                changes = changes or EXIT_INCOMPLETE
            before = after
    return changes


def _turns(samples: int | None) -> Iterator[int]:
    number = 0
    while samples is None or number < samples:
        yield number
        number += 1


def _print(request: Request, answer: DiffAnswer, *, unfold: bool) -> None:
    print_answer(request, answer, _PRINTER, format=request.format, unfold=unfold)
    say(*format_warnings(answer))


diff = click.Command(
    "diff",
    callback=_diff,
    help=_HELP,
    epilog=f"{EXIT_CODES.rstrip()}\n  10   something differs",
    params=[
        click.Argument(["target"], metavar="A", type=click.Path(readable=False), shell_complete=complete_target),
        click.Argument(
            ["later"], metavar="[B]", required=False, type=click.Path(readable=False), shell_complete=complete_target
        ),
        click.Option(
            ["--all", "unfold"], is_flag=True, help="Print every row on a line of its own, unchanged ones, too."
        ),
        click.Option(
            ["--watch"],
            metavar="S",
            type=click.FloatRange(0, 86_400),
            help="Look at process A every S seconds, and print what has changed each time.",
        ),
        click.Option(
            ["--samples"], metavar="N", type=click.IntRange(1, 1_000_000), help="With --watch, end after N times."
        ),
        *OPTIONS,
    ],
)
