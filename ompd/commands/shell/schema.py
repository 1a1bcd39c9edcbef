"""``ompd schema``: the JSON Schema of commands' output with ``--json``."""

from __future__ import annotations

import click

from ompd.commands.table import COMMANDS


@click.command("schema")
@click.argument(
    "command",
    type=click.Choice([*(command.name for command in COMMANDS), "conformance", "diff", "layout", "profile", "triage"]),
)
def schema(command: str) -> None:
    """Prints the JSON Schema of the output of `ompd COMMAND --json`."""
    import ompd.render.schema as schemas

    click.echo(schemas.format_schema(command))
