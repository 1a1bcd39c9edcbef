"""Shell completion of targets, files and folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


VARIABLE = "_OMPD_COMPLETE"
"""The environment variable with which a shell requests completions."""


def targets(start: str) -> list[CompletionItem]:
    """Return completions for a target: files, and processes whose numbers begin with the digits *start*."""
    from click.shell_completion import CompletionItem

    numbers = [path.name for path in Path("/proc").glob("[0-9]*") if path.name.startswith(start)] if start else []
    # The item of type file comes first, because bash discards the completions before it.
    return [CompletionItem(start, type="file"), *map(CompletionItem, sorted(numbers, key=int))]


def complete_target(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return the completions of a target."""
    return targets(start)


def complete_folder(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return the completion of a folder: the shell lists folders."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="dir")]


def complete_library(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Return the completions of an OMPD library: files and ``named``."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="file"), *([CompletionItem("named")] if "named".startswith(start) else [])]
