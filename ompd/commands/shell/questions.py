"""click's commands for the table: open the target, run the query, print the answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.completing import complete_target
from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, fail, format_warnings, say
from ompd.commands.options import OWN, own_option
from ompd.commands.shell.request import OPTIONS, TARGET, print_answer, split_options
from ompd.commands.table import Command
from ompd.commands.targets import process_id_of
from ompd.errors import BadInput, OmpdError

if TYPE_CHECKING:
    from ompd.model import Answer


def make(command: Command) -> click.Command:
    """Return click's declaration of *command*."""
    argument = command.argument
    words = f" {command.example_words or (argument.example if argument is not None else '')}".rstrip()
    lines = "\n".join(f"  {line}" for line in command.example.splitlines())
    target = (
        TARGET
        if command.alone is None
        else click.Argument(["target"], metavar="[TARGET]", required=False, shell_complete=complete_target)
    )
    params: list[click.Parameter] = [target]
    if command.compare is not None:
        params.append(click.Argument(["later"], metavar="[LATER]", required=False, shell_complete=complete_target))
    if argument is not None:
        params.append(click.Argument([OWN + argument.name], metavar=argument.metavar))
    # The help lists options in this order.
    params += map(own_option, command.options)
    if command.folds:
        params.append(click.Option(["--all", "unfold"], is_flag=True, help="Print every row on a line of its own."))
    return click.Command(
        command.name,
        callback=partial(_run, command),
        params=[*params, *OPTIONS],
        help=f"{command.help}\n\n\b\n  $ ompd {command.name} core.1234{words}\n{lines}",
        short_help=command.summary,
        epilog=EXIT_CODES,
    )


def _run(command: Command, **options: Any) -> None:
    request, own = split_options(options)
    if request.ompd_library is None:
        request = replace(request, ompd_library=command.ompd_library)
    given = {name.removeprefix(OWN): value for name, value in own.items() if name.startswith(OWN)}
    try:
        chosen = command.format_of({**options, **given})
    except BadInput as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error
    try:
        answer = _answer_alone(command, request.target, nonblocking=request.nonblocking)
    except OmpdError as error:
        if request.debug:
            raise
        fail(error)
    later = own.get("later")
    if later is not None:
        with request.opened() as earlier, replace(request, target=later).opened() as session:
            answer = command.run_later(earlier, session, given)
    elif answer is None:
        with request.opened() as session:
            answer = command.run(session, given)
    print_answer(request, answer, command.printer, format=chosen, unfold=own.get("unfold", False))
    if request.verbose:
        from ompd.render.words import format_stops

        stops = format_stops(answer.target)
        say(*([f"ompd: {stops}"] if stops is not None else []))
    say(*format_warnings(answer))
    status = command.status_of(answer, given)
    if status is not None:
        sys.exit(status)
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


def _answer_alone(command: Command, target: str | None, *, nonblocking: bool) -> Answer[Any] | None:
    # None if the command has to open the target, as it always does for a core.
    process_id = process_id_of(target) if command.alone is not None and target is not None else None
    if command.alone is None or (target is not None and process_id is None):
        return None
    return command.answer_alone(process_id, nonblocking=nonblocking)
