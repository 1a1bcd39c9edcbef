"""click's options: options of single commands, and options for third-party plugins and OMPD libraries."""

from __future__ import annotations

import re
from typing import Any

import click

from ompd.commands.completing import complete_folder, complete_library
from ompd.commands.table import Option

OWN = "own_"
"""Prefix of the names of parameters of a single command."""

FOREIGN = (
    click.Option(
        ["--plugins"],
        metavar="DIR",
        type=click.Path(readable=False),
        multiple=True,
        shell_complete=complete_folder,
        help="Folder with plugins for other OpenMP runtimes; may be repeated.",
    ),
    click.Option(
        ["--ompd-library"],
        metavar="FILE|named",
        type=click.Path(readable=False),
        shell_complete=complete_library,
        help="Let an OMPD library answer: FILE, or named, the one that the runtime itself names.",
    ),
)
"""The options for third-party plugins and OMPD libraries."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_KINDS: dict[str, Any] = {"number": int, "seconds": click.FloatRange(0, 86_400), "text": str}


def own_option(option: Option) -> click.Option:
    """Return click's declaration of an option of a single command."""
    words = [f"--{option.word}", f"{OWN}{option.name}"]
    if option.kind == "flag":
        return click.Option(words, is_flag=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices else _KINDS[option.kind]
    return click.Option(words, metavar=option.metavar, type=kind, help=option.help)


def parse_size(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the number of bytes in a size such as 500M or 2G; a callback for click.

    :raises click.BadParameter: if *text* is not a size
    """
    if text is None and parameter.name == "max_size":
        from ompd.debugger.files.opening import MAX_SIZE

        return MAX_SIZE
    if text is None:
        return None
    parts = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE | re.ASCII)
    size = int(float(parts[1]) * (1 << _UNITS[parts[2].upper()])) if parts is not None else None
    if size is None or (size == 0 and parameter.name == "max_size"):
        raise click.BadParameter(f"{text!r} is not a size; write 500M or 2G")
    return size
