"""Colours on a terminal, by rich. Importing rich takes a tenth of a command's time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rich.console import Console as _RichConsole
from rich.text import Text

if TYPE_CHECKING:
    from ompd.render.terminal import Console

# Styles by the names that words.Line uses.
_STYLES = {"": "", "dim": "dim", "wait": "yellow", "head": "bold", "outlier": "bold", "failed": "bold red"}


class _Console(_RichConsole):
    """A console whose reader may go away: the caller decides what that means, not rich."""

    def on_broken_pipe(self) -> None:
        raise

    def write_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        if self.color_system is None:
            # Do not let rich lay out the lines again: there may be tens of thousands.
            self.file.write("".join(f"{line}\n" for line, _ in lines))
        elif lines:
            text = Text("\n").join(Text(line, style=_STYLES[style]) for line, style in lines)
            self.print(text, soft_wrap=True)


def make_rich_console(color: str, *, file: TextIO | None, width: int | None, wraps: bool) -> Console:
    """Return a console on *file*, None for standard output.

    :param width: number of columns, None for the terminal's
    :param wraps: whether rich breaks long lines
    """
    return _Console(
        file=file,
        force_terminal=True if color == "always" else None,
        no_color=True if color == "never" else None,
        color_system="auto" if color != "never" else None,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not wraps,
    )
