"""What shells complete besides commands, options and lists of values: targets, files and folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


VARIABLE = "_OMPD_COMPLETE"
"""The variable of the environment by which a shell asks."""


def targets(start: str) -> list[CompletionItem]:
    """Return the processes whose numbers begin with the digits *start*, and that a file may be meant."""
    from click.shell_completion import CompletionItem

    numbers = [path.name for path in Path("/proc").glob("[0-9]*") if path.name.startswith(start)] if start else []
    # bash forgets what came before a file.
    return [CompletionItem(start, type="file"), *map(CompletionItem, sorted(numbers, key=int))]


def complete_target(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return what a target may be."""
    return targets(start)


def complete_folder(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return that a folder is meant."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="dir")]


def complete_library(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return ``named``, and that a file may be meant."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="file"), *([CompletionItem("named")] if "named".startswith(start) else [])]
