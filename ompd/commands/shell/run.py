"""``ompd run``, which starts a command and asks why if it does not go on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.ending import say, status_of_why
from ompd.commands.progress import width_of_errors
from ompd.errors import OmpdError
from ompd.run.command import NotStarted, RunningCommand
from ompd.run.watching import Plan, Watch

if TYPE_CHECKING:
    from ompd.run.looking import Seen

_STALL = 60.0
_KEPT = 10
_ENDED, _FAILED = 124, 125
_MOST_PRINTED = 4
_EXIT_CODES = """\b
Exit codes:
  those of COMMAND, and
  124  ompd has ended COMMAND; with --exit-code those of why
  125  ompd run itself failed
  126  COMMAND cannot be executed
  127  there is no such COMMAND"""
_HELP = """Runs COMMAND as if it were started without ompd: terminal, signals and exit status are its own. Meanwhile
ompd watches it and its child processes by /proc, without stopping them. If nothing moves for --stall seconds, ompd
asks why. If threads certainly or likely never go on, it prints why on standard error and ends COMMAND; --then
chooses something else. A command that computes, or waits for input, is never ended for that.

\b
  $ ompd run --stall 5 -- ./hang
  ompd run: process 1234 (hang): nothing has moved for 5 s
  process 1234   hang   4 threads   libgomp GCC 12

\b
  Hang: thread 1 (1235) waits for &progress_lock, which no thread will ever
  release.
"""


class _Teller:
    def __init__(self, folder: str | None, kept: int) -> None:
        self._folder, self._kept = folder, kept
        self._looks = 0
        self._last = ""

    def tell(self, reason: str, seen: Sequence[Seen], *, is_end: bool) -> None:
        summaries = "; ".join(f"{each.name}: {_summary(each)}" for each in seen)
        if not is_end:
            if summaries != self._last:
                say(f"ompd run: {reason}, but nothing is proven to hang: {summaries}")
            self._last = summaries
            return
        from ompd.render.terminal import make_console, print_why

        width = width_of_errors() if sys.stderr.isatty() else None
        console = make_console("auto", file=sys.stderr, width=width)
        for each in seen[:_MOST_PRINTED]:
            say(f"ompd run: {each.name}: {reason}")
            if each.answer is not None and (each.is_stuck or each is seen[0]):
                print_why(console, each.answer, unfold=False, verbose=False)
            else:
                say(f"  {_summary(each)}")
        if len(seen) > _MOST_PRINTED:
            say(f"ompd run: {len(seen) - _MOST_PRINTED} more processes")
        if self._folder is not None:
            from ompd.run.saving import save

            say(*(f"ompd run: not saved: {fault}" for fault in save(self._folder, seen, reason)))
            say(f"ompd run: saved in {self._folder}")

    def keep(self, seen: Sequence[Seen]) -> None:
        from ompd.run.saving import save_verdicts

        if all(process.answer is None for process in seen):
            return  # the processes have ended, or have no OpenMP runtime: earlier verdicts say more
        self._looks += 1
        try:
            save_verdicts(f"{self._folder}/verdict-{self._looks % self._kept}.jsonl", seen)
        except OmpdError as error:
            say(f"ompd run: {error}")

    def say(self, text: str) -> None:
        say(f"ompd run: {text}")


def _summary(seen: Seen) -> str:
    return seen.answer.rows[0].summary if seen.answer is not None else seen.fault or ""


def _run(**options: Any) -> None:
    plan = Plan(options["stall"] or None, options["timeout"], options["then"], options["every"])
    if options["every"] is not None and options["save"] is None:
        say("ompd run: --every needs --save DIR")
        sys.exit(_FAILED)
    try:
        if options["save"] is not None:
            from ompd.run.saving import make_folder

            make_folder(options["save"])
        command = RunningCommand(options["command"])
    except OmpdError as error:
        say(f"ompd run: {error}")
        sys.exit(error.status if isinstance(error, NotStarted) else _FAILED)
    watch = Watch(command, plan, _Teller(options["save"], options["keep"]))
    watch.until_end()
    if watch.ended_after is not None:
        answers = [each.answer for each in watch.ended_after if each.answer is not None]
        sys.exit(status_of_why(answers[0]) if options["exit_code"] and answers else _ENDED)
    command.end_like_it()


class _Run(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Wrong usage must not look like an exit status of the command.
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.show()
            sys.exit(_FAILED)


run = _Run(
    "run",
    callback=_run,
    help=_HELP,
    epilog=_EXIT_CODES,
    context_settings={"allow_interspersed_args": False},
    params=[
        click.Argument(["command"], metavar="COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED),
        click.Option(
            ["--stall"],
            metavar="S",
            type=click.FloatRange(0, 86_400),
            default=_STALL,
            help="Ask why when nothing has moved for S seconds; default 60, 0 for never.",
        ),
        click.Option(
            ["--timeout"],
            metavar="S",
            type=click.FloatRange(0.01, 8_640_000),
            help="Ask why when COMMAND has run for S seconds, and do what --then says. Without it there is no limit.",
        ),
        click.Option(
            ["--then"],
            type=click.Choice(["kill", "continue", "core", "wait"]),
            default="kill",
            help="What to do once COMMAND is stuck or its time is over: end it (SIGTERM, after 10 s SIGKILL), watch on,"
            " abort it so that the kernel writes a core, or leave it to be looked at; default kill.",
        ),
        click.Option(
            ["--save"],
            metavar="DIR",
            type=click.Path(),
            help="Save a snapshot, a page and JSON of each process there, and junit.xml.",
        ),
        click.Option(
            ["--every"],
            metavar="S",
            type=click.FloatRange(1, 86_400),
            help="Keep the verdicts in DIR every S seconds, in case COMMAND is killed from outside.",
        ),
        click.Option(
            ["--keep"],
            metavar="N",
            type=click.IntRange(1, 10_000),
            default=_KEPT,
            help="How many verdicts of --every to keep; default 10.",
        ),
        click.Option(
            ["--exit-code"], is_flag=True, help="Exit with the code of why (10 to 13) if ompd has ended COMMAND."
        ),
    ],
)
