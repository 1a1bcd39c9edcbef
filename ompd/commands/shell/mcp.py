"""``ompd mcp``: the questions as tools for agents."""

from __future__ import annotations

import click

from ompd.commands.ending import fail
from ompd.errors import OmpdError, Unsupported
from ompd.safety.isolation import AwayFromHere

_HELP = """Serves the Model Context Protocol on standard input and output: an agent's program starts it.

The tools are list_targets, why, threads, stack and variable. They change nothing and execute nothing. Only what --allow
names can be opened: a core, a folder with cores, a process by its number, or own for the OpenMP processes of this user.
An answer has at most 8 kB. It needs the package mcp: pip install 'ompd[mcp]'.

\b
  $ ompd mcp --allow /var/crash --allow own
"""


def _mcp(allow: tuple[str, ...]) -> None:
    try:
        from ompd.mcp.allowed import AllowedTargets

        targets = AllowedTargets(allow)
        try:
            with AwayFromHere():
                from ompd.mcp.server import serve
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("ompd"):
                raise
            raise Unsupported(
                f"ompd mcp needs the package {error.name}, which is not installed for this Python",
                hint="pip install 'ompd[mcp]'",
            ) from error
        serve(targets)
    except OmpdError as error:
        fail(error)


mcp = click.Command(
    "mcp",
    callback=_mcp,
    help=_HELP,
    params=[
        click.Option(
            ["--allow"],
            metavar="PATH|PID|own",
            required=True,
            multiple=True,
            type=click.Path(readable=False),
            help="What may be opened: a core, a folder with cores, a process, or own; may be repeated.",
        )
    ],
)
