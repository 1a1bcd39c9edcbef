"""The ``ompd`` command: click's declarations, made from the table of commands. Open, ask, render; errors become
messages here.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

import ompd
from ompd.commands.ending import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_NO_ANSWER, end_of_output, fail, say
from ompd.commands.libraries.conformance import conformance
from ompd.commands.options import OWN, own_option, parse_size
from ompd.commands.setup import installing
from ompd.commands.shell.diff import make_diff
from ompd.commands.shell.hook import hook
from ompd.commands.shell.report import make_report
from ompd.commands.shell.request import EXIT_CODES, OPTIONS, split_options
from ompd.commands.shell.triage import triage
from ompd.commands.table import COMMANDS, DEFAULT, GROUPS, Command
from ompd.commands.targets import is_target
from ompd.errors import BadInput, OmpdError
from ompd.render.json import format_answer, format_layouts, format_snapshot
from ompd.render.words import describe_snapshot, format_stops

if TYPE_CHECKING:
    from ompd.model.layouts import LayoutAnswer


class _Commands(click.Group):
    # The commands in groups, and a target alone stands for the command that most people want first.

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self.commands:
            if not is_target(word):
                raise click.UsageError(_no_command(word, list(self.commands)), ctx)
            args = [DEFAULT, *args]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.commands)
        for title, names in GROUPS:
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", self.commands[name].get_short_help_str(80)) for name in names])


def _no_command(word: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, names, n=1)
    return (
        f"no command {word!r}; did you mean {near[0]!r}?"
        if near
        else f"{word!r} is neither a command nor a file nor the number of a process"
    )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(ompd.__version__, prog_name="ompd")
def cli() -> None:
    """Show what an OpenMP program is doing: its threads, what they wait for, regions, tasks and stacks.

    TARGET is a core file or the number of a running process. `ompd TARGET` alone is `ompd threads TARGET`, and
    `ompd COMMAND --help` explains a command.
    """


def _make(command: Command) -> click.Command:
    def run(**options: Any) -> None:
        _run(command, options)

    lines = "\n".join(f"  {line}" for line in command.example.splitlines())
    argument = command.argument
    words = f" {command.example_words or (argument.example if argument is not None else '')}".rstrip()
    run.__doc__ = f"{command.help}\n\n\b\n  $ ompd {command.name} core.1234{words}\n{lines}"
    decorated: Callable[..., None] = run
    extra = (
        (click.option("--all", "unfold", is_flag=True, help="Print every row on a line of its own."),)
        if command.folds
        else ()
    )
    own = tuple(map(own_option, command.options))
    named = (click.argument(OWN + argument.name, metavar=argument.metavar),) if argument is not None else ()
    target = OPTIONS[0] if command.alone is None else click.argument("target", metavar="[TARGET]", required=False)
    if command.compare is not None:
        named = (click.argument("later", metavar="[LATER]", required=False), *named)
    for option in reversed((target, *OPTIONS[1:], *named, *extra, *own)):
        decorated = option(decorated)
    return click.command(command.name, short_help=command.summary, epilog=EXIT_CODES)(decorated)


def _run(command: Command, options: dict[str, Any]) -> None:
    request, own = split_options(options)
    if request.ompd_library is None:
        request = replace(request, ompd_library=command.ompd_library)
    given = {name.removeprefix(OWN): value for name, value in own.items() if name.startswith(OWN)}
    try:
        printer = command.printer_of(given, as_json=request.as_json)
    except BadInput as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error
    answer = command.alone(request.target, request.nonblocking) if command.alone is not None else None
    later = own.get("later")
    if later is not None:
        with request.opened() as earlier, replace(request, target=later).opened() as session:
            answer = command.run_later(earlier, session, given)
    elif answer is None:
        with request.opened() as session:
            answer = command.run(session, given)
    try:
        if request.as_json:
            sys.stdout.write(format_answer(command.name, answer))
            sys.stdout.write("\n")
        else:
            import ompd.render.terminal as terminal

            console = terminal.make_console(request.color)
            unfold = own.get("unfold", False)
            getattr(terminal, printer)(console, answer, unfold=unfold, verbose=request.verbose)
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    stops = format_stops(answer.target) if request.verbose else None
    if stops is not None:
        say(f"ompd: {stops}")
    for warning in answer.warnings:
        say(f"ompd: {'note' if answer.complete else 'warning'}: {warning}")
    status = command.status_of(answer, given)
    if status is not None:
        sys.exit(status)
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


for _command in COMMANDS:
    cli.add_command(_make(_command))


def _snapshot(**options: Any) -> None:
    """Writes a small ELF core with the memory that ompd needs of TARGET, and what it needs of the program's files.
    Every command works on it as on TARGET, on any machine, without those files. gdb and lldb read it, too.

    It leaves out environment variables other than OpenMP's and the rank of MPI, and the folders in arguments. Memory
    is kept in whole pages, which may hold other data of the program: look at it before you publish it.

    \b
      $ ompd snapshot core.1234 -o small.core
      small.core: 5.5 MB, 13 threads; 1.8 MB of memory, 3.6 MB of the files of 3 modules
    """
    import ompd.questions.snapshot as snapshots

    request, own = split_options(options)
    if own["data"] is None:
        own["data"] = snapshots.DATA_LIMIT
    with request.opened() as session:
        taken = snapshots.take_snapshot(
            session, own["output"], data_limit=own["data"], keep_environment=own["keep_env"]
        )
    try:
        sys.stdout.write((format_snapshot(taken) if request.as_json else describe_snapshot(taken)) + "\n")
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    for problem in taken.problems:
        say(f"ompd: warning: {problem}")
    if taken.problems:
        sys.exit(EXIT_INCOMPLETE)


_SNAPSHOT_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.option("-o", "--output", metavar="FILE", required=True, type=click.Path(), help="The file to write."),
    click.option(
        "--data",
        metavar="SIZE",
        callback=parse_size,
        help="How much writable data to keep of each of your modules: 500K, 2G, 0 for none; default 1M.",
    ),
    click.option("--keep-env", is_flag=True, help="Keep the whole environment and the folders in arguments."),
)
cli.add_command(conformance)
_decorated: Callable[..., None] = _snapshot
for _option in reversed((*OPTIONS, *_SNAPSHOT_OPTIONS)):
    _decorated = _option(_decorated)
_summary = "Write a small core to send to somebody else."
cli.add_command(click.command("snapshot", short_help=_summary, epilog=EXIT_CODES)(_decorated))


@cli.group(short_help="List or add structure layouts of stripped runtimes.", epilog=EXIT_CODES)
def layout() -> None:
    """Tables of offsets and sizes of the runtimes' structures. ompd needs one where a runtime is stripped, and uses it
    only after verifying that it fits that runtime. These commands take no TARGET.
    """


_DEBUG = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@layout.command("show", short_help="List the tables, or print one.", epilog=EXIT_CODES)
@click.argument("name", metavar="[NAME]", required=False)
@_JSON
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours in text; NO_COLOR is respected.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show build-ids with what each is, and the files.")
@_DEBUG
def layout_show(name: str | None, as_json: bool, color: str, verbose: bool, debug: bool) -> None:
    """Lists the tables of layouts: runtime, releases, architectures, for how many build-ids each is known to be right,
    how it was made, and whether it came with ompd or is your own. With NAME, prints that table's structures: offset,
    size and name of each member, in bytes; 204:3 is bit 3 of byte 204.

    \b
      $ ompd layout show
      NAME        RUNTIME  RELEASES                ARCHITECTURES    BUILD-IDS  FROM
      libgomp-11  libgomp  GCC 11.3.0, GCC 11.5.0  aarch64, x86_64  0          shipped
      libgomp-12  libgomp  GCC 12.2.0, GCC 12.5.0  aarch64, x86_64  1          shipped
    """
    import ompd.questions.layouts as layouts

    _tell_layouts(lambda: layouts.known(name), as_json=as_json, color=color, verbose=verbose, debug=debug)


@layout.command("add", short_help="Make a table from a runtime's debug information.", epilog=EXIT_CODES)
@click.argument("file", metavar="FILE", type=click.Path(readable=False))
@click.option("--name", metavar="NAME", help="Name of the runtime's release and of the table; default: read from FILE.")
@click.option(
    "--runtime",
    type=click.Choice(["libgomp", "libomp"]),
    help="The runtime in FILE, if it has the types of several.",
)
@_JSON
@_DEBUG
def layout_add(file: str, name: str | None, runtime: str | None, as_json: bool, debug: bool) -> None:
    """Makes a table from the debug information of FILE, a runtime's own file or its separate debug file (.debug, .dbg),
    and writes it into your folder, $XDG_DATA_HOME/ompd/layouts, by default ~/.local/share/ompd/layouts. From then on
    every command can read a stripped file with the same build-id.

    \b
      $ ompd layout add libiomp5.dbg
      libomp-libiomp5.dbg   libomp   Intel 5.0.20260828   x86_64   44 structures
        file           /home/u/.local/share/ompd/layouts/libomp-libiomp5.dbg.json
        build-id       -
    """
    import ompd.questions.layouts as layouts
    from ompd.render.answers.libraries.layouts import describe_layout

    def describe(answer: LayoutAnswer) -> str:
        return describe_layout(answer.rows[0], len(answer.structs or ()))

    _tell_layouts(lambda: layouts.add(file, name, runtime), as_json=as_json, debug=debug, describe=describe)


def _tell_layouts(
    ask: Callable[[], LayoutAnswer],
    *,
    as_json: bool,
    debug: bool,
    color: str = "auto",
    verbose: bool = False,
    describe: Callable[[LayoutAnswer], str] | None = None,
) -> None:
    try:
        answer = ask()
    except OmpdError as error:
        if debug:
            raise
        fail(error)
    try:
        if as_json:
            sys.stdout.write(format_layouts(answer) + "\n")
        elif describe is not None:
            sys.stdout.write(describe(answer) + "\n")
        else:
            import ompd.render.terminal as terminal

            terminal.print_layouts(terminal.make_console(color), answer, verbose=verbose)
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    for warning in answer.warnings:
        say(f"ompd: {'note' if answer.complete else 'warning'}: {warning}")
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


@cli.command(short_help="Print the JSON Schema of a command's output.")
@click.argument(
    "command",
    type=click.Choice([*(command.name for command in COMMANDS), "conformance", "diff", "layout", "triage"]),
)
def schema(command: str) -> None:
    """Prints the JSON Schema of the output of `ompd COMMAND --json`."""
    import ompd.render.schema as schemas

    click.echo(schemas.format_schema(command))


cli.add_command(triage)
cli.add_command(hook)
for _installing in installing.make(fail):
    cli.add_command(_installing)
cli.add_command(make_diff())
cli.add_command(make_report())


def _is_from(error: OSError, function: Callable[..., None]) -> bool:
    # Whether the error was raised in this function, or in one of C that it called.
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code is function.__code__


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name must not end the answer in an 8-bit locale
    try:
        cli.main(prog_name="ompd", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        sys.exit(error.exit_code)
    except OmpdError:
        raise  # --debug requested it
    except MemoryError:
        say("ompd: not enough memory for the answer")
        sys.exit(EXIT_NO_ANSWER)
    except Exception as error:  # the outer edge: our faults are not the user's
        if isinstance(error, OSError) and _is_from(error, click.echo):
            end_of_output(error)
        if isinstance(error.__cause__, KeyboardInterrupt):  # until 3.12, in a class that is being made
            sys.exit(EXIT_INTERRUPTED)
        if "--debug" in sys.argv:
            raise
        say(f"ompd: internal error: {type(error).__name__}: {error}", "ompd: --debug shows where; please report it")
        sys.exit(EXIT_NO_ANSWER)
    sys.exit(0)
