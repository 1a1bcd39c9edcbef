"""The ``ompd`` command: finds the typed command and imports only that. Errors become messages here."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import click

import ompd
from ompd.commands.completing import VARIABLE, targets
from ompd.commands.ending import EXIT_CODES, EXIT_INTERRUPTED, EXIT_NO_ANSWER, end_of_output, say
from ompd.commands.loading import load
from ompd.commands.table import COMMANDS, DEFAULT, GROUPS, OTHERS
from ompd.commands.targets import is_target
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_QUESTIONS = {command.name: command for command in COMMANDS}
_SUMMARIES = {command.name: command.summary for command in (*COMMANDS, *OTHERS)}
_PLACES = {command.name: command.place for command in OTHERS}


class _Formatter(click.HelpFormatter):
    # On a terminal, lines of examples are broken as in the output that they show.

    def getvalue(self) -> str:
        text = super().getvalue()
        if not sys.stdout.isatty():
            return text
        from shutil import get_terminal_size

        from ompd.render.columns import wrap_line

        width = get_terminal_size().columns
        return "".join(f"{part}\n" for line in text.splitlines() for part in wrap_line(line, width))


class _Context(click.Context):
    formatter_class = _Formatter


class _Commands(click.Group):
    # Lists the commands in groups. A target without a command runs the default command. A command is imported when it
    # is typed, because the table is enough to list them.

    context_class = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, names in GROUPS for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        command: click.Command | None = None
        if cmd_name in _QUESTIONS:
            from ompd.commands.shell.questions import make

            command = make(_QUESTIONS[cmd_name])
        elif cmd_name in _PLACES:
            command = load(_PLACES[cmd_name])
            command.short_help = _SUMMARIES[cmd_name]
        if command is not None:
            command.context_class = _Context
            self.commands[cmd_name] = command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*targets(incomplete), *(CompletionItem(name, help=_SUMMARIES[name]) for name in names)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, names = args[0], self.list_commands(ctx)
        if word not in names:
            if not is_target(word) and not ctx.resilient_parsing:
                raise click.UsageError(_no_command(word, names), ctx)
            args = [DEFAULT, *args]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _SUMMARIES))
        for title, names in GROUPS:
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", _SUMMARIES[name]) for name in names])


def _no_command(word: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, names, n=1)
    return (
        f"no command {word!r}; did you mean {near[0]!r}?"
        if near
        else f"{word!r} is neither a command nor a file, and no process has that name"
    )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    invoke_without_command=True,
)
@click.version_option(ompd.__version__, prog_name="ompd")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Show what an OpenMP program is doing: its threads, what they wait for, regions, tasks and stacks.

    TARGET is a core file, or a running process by its number, by its program's file or by its name. `ompd TARGET`
    means `ompd threads TARGET`. Without arguments, `ompd` lists the OpenMP processes of this machine. `ompd COMMAND
    --help` explains a command.
    """
    if ctx.invoked_subcommand is None:
        from ompd.commands.shell.processes import list_processes

        list_processes(otherwise=ctx.get_help())


def _is_from(error: OSError, function: Callable[..., None]) -> bool:
    # Whether *function*, or a C function that it called, raised the error.
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code is function.__code__


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an 8-bit locale cannot encode all names
    if VARIABLE in os.environ:
        from ompd.commands.setup.completion import answer_shells

        answer_shells()
    try:
        cli.main(prog_name="ompd", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        sys.exit(error.exit_code)
    except OmpdError:
        raise  # with --debug, for the traceback
    except MemoryError:
        say("ompd: not enough memory for the answer")
        sys.exit(EXIT_NO_ANSWER)
    except Exception as error:  # the outer edge: report our own faults as internal errors
        if isinstance(error, OSError) and _is_from(error, click.echo):
            end_of_output(error)
        if isinstance(error.__cause__, KeyboardInterrupt):  # before Python 3.12, Ctrl-C during the creation of a class
            sys.exit(EXIT_INTERRUPTED)
        if "--debug" in sys.argv:
            raise
        say(f"ompd: internal error: {type(error).__name__}: {error}", "ompd: --debug shows where; please report it")
        sys.exit(EXIT_NO_ANSWER)
    sys.exit(0)
