"""``ompd profile``, which looks at a running process for some seconds, or starts a program and looks at it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.completing import complete_target
from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, EXIT_NO_ANSWER, fail, format_warnings, say
from ompd.commands.formats import TEXT
from ompd.commands.progress import Progress
from ompd.commands.shell.request import OPTIONS, Request, print_answer, split_options
from ompd.commands.targets import process_id_of
from ompd.errors import OmpdError, Unsupported

if TYPE_CHECKING:
    from ompd.model import ProfileAnswer

_PRINTER = "ompd.render.terminal:print_profile"
_HELP = """Says where the time of the threads of a running program goes: work, or waiting for slower threads, locks or
tasks, for each parallel region. It looks at the process some 20 times a second for 20 seconds, or until Ctrl-C.
The causes of lost time come first: what they cost, how much faster the program can be without them, and what to do.
After -- it starts a program, and looks at it until it ends. With a format other than text, that program's output
goes to standard error.

\b
  $ ompd profile 1234
  $ ompd profile -- ./solver input.txt
"""


class _Profile(click.Command):
    # What follows "--" is a program with its arguments.
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            index = args.index("--")
            ctx.meta[_PROGRAM] = args[index + 1 :]
            args = args[:index]
        return super().parse_args(ctx, args)


_PROGRAM = "ompd.profile.program"


def _profile(**options: Any) -> None:
    program: list[str] | None = click.get_current_context().meta.get(_PROGRAM)
    request, own = split_options(options)
    if (request.target is None) == (not program):
        raise click.UsageError("profile needs a running process, or -- and a program to start")
    chosen = own["chosen"] or request.format
    try:
        if program:
            with _started(program, is_apart=chosen != TEXT) as process:
                answer = _ask(replace(request, target=f"/proc/{process.pid}"), own, is_new=True)
                _print(request, answer, chosen)
        else:
            answer = _ask(request, own, is_new=False)
            _print(request, answer, chosen)
    except OmpdError as error:
        if request.debug:
            raise
        fail(error)
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


@contextmanager
def _started(program: list[str], *, is_apart: bool) -> Iterator[subprocess.Popen[bytes]]:
    # Start the program. Wait for its end afterwards: it uses the same terminal. *is_apart*: whether its output goes to
    # standard error, because other programs read the answer.
    try:
        process = subprocess.Popen(program, stdout=sys.stderr if is_apart else None)
    except OSError as error:
        say(f"ompd: {program[0]}: cannot be started: {error.strerror}")
        sys.exit(EXIT_NO_ANSWER)
    try:
        yield process
    finally:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                continue  # the terminal sent the signal to the program, too, and it decides whether to end


def _ask(request: Request, own: dict[str, Any], *, is_new: bool) -> ProfileAnswer:
    from ompd.questions import profile

    if process_id_of(request.target) is None:
        raise Unsupported(f"{request.target} does not run: a profile needs a running process")
    seconds = own["seconds"] if own["seconds"] is not None or is_new else profile.SECONDS
    rate = own["rate"] if own["rate"] is not None else profile.RATE
    with request.opened() as session, Progress() as progress:
        shown = progress if sys.stderr.isatty() else None
        answer = profile.ask(session, seconds=seconds, rate=rate, progress=shown, is_new=is_new)
    return replace(answer, query="profile")


def _print(request: Request, answer: ProfileAnswer, chosen: str) -> None:
    print_answer(request, answer, _PRINTER, format=chosen, unfold=False)
    say(*format_warnings(answer))


profile = _Profile(
    "profile",
    callback=_profile,
    help=_HELP,
    epilog=EXIT_CODES,
    params=[
        click.Argument(["target"], metavar="[PID | -- PROGRAM...]", required=False, shell_complete=complete_target),
        click.Option(
            ["--seconds"],
            metavar="S",
            type=click.FloatRange(0, 86_400, min_open=True),
            help="How long to look; default 20, or until a started program ends.",
        ),
        click.Option(
            ["--rate"],
            metavar="N",
            type=click.FloatRange(0, 1000, min_open=True),
            help="The most looks per second; default 20. There are fewer if a look costs too much.",
        ),
        click.Option(
            ["--format", "chosen"],
            metavar="NAME",
            type=click.Choice(["text", "json", "folded", "speedscope"]),
            help="text, json, or the stacks for flame graphs: folded, or speedscope's JSON.",
        ),
        *OPTIONS,
    ],
)
