"""Text answers on a terminal, or in a pipe: colours, column widths, the region tree. Sees records only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ompd.model import (
    Answer,
    IcvRecord,
    LayoutAnswer,
    ParallelRecord,
    RuntimeRecord,
    StackRecord,
    TaskRecord,
    ThreadRecord,
    VariableAnswer,
)
from ompd.render import icvs, layouts, regions, runtimes, stacks, tasks, threads, variables, words

# Styles by the names that words.Line uses.
_STYLES = {"": "", "dim": "dim", "wait": "yellow", "head": "bold", "outlier": "bold"}
# Recursion of tasks, and of regions, goes thousands of levels deep.
_MAX_INDENT = 40
# A pipe has no width; nothing may be cut off or wrapped in it.
_UNBOUNDED = 100_000


class _Console(Console):
    """A console whose reader may go away: that is for the caller to know, not the end of the process."""

    def on_broken_pipe(self) -> None:
        raise


def make_console(color: str, *, file: TextIO | None = None, width: int | None = None) -> Console:
    """Return where answers go: standard output, with colours as *color* (``auto``, ``always``, ``never``) says.

    :param file: where they go instead, *width* columns wide or without end
    """
    terminal = sys.stdout.isatty() if file is None else width is not None
    return _Console(
        file=file,
        force_terminal=True if color == "always" else None,
        no_color=True if color == "never" else None,
        color_system="auto" if color != "never" else None,
        width=width if terminal else _UNBOUNDED,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not terminal,
    )


def _print_head(console: Console, answer: Answer[Any], verbose: bool) -> None:
    console.print(Text(words.format_target(answer.target, answer.runtimes), style=_STYLES["head"]))
    for name in answer.target.unproven if verbose else ():
        console.print(Text(words.clean(f"not proven to be the build that ran: {name}"), style=_STYLES["dim"]))
    console.print()


def print_threads(
    console: Console,
    answer: Answer[ThreadRecord],
    *,
    unfold: bool,
    verbose: bool,
    indices: Mapping[int, int] | None = None,
) -> None:
    """Print the answer to ``threads``, with LLDB's numbers of the threads if there are *indices*."""
    _print_head(console, answer, verbose)
    _print_table(console, threads.threads_table(answer, unfold=unfold, verbose=verbose, indices=indices))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def _print_table(console: Console, table: words.Table) -> None:
    grid = Table(box=None, pad_edge=False, header_style=_STYLES["head"], show_edge=False)
    for title in table.titles:
        grid.add_column(Text(title), overflow="fold", no_wrap=title in ("OMP", "LEVEL", "LLDB", "ICV", "SCOPE"))
    for line in table.lines:
        grid.add_row(*(Text(cell) for cell in line.cells), style=_STYLES[line.style])
    console.print(grid)


def print_tasks(console: Console, answer: Answer[TaskRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``tasks``."""
    _print_head(console, answer, verbose)
    for depth, line in tasks.task_lines(answer, unfold=unfold, verbose=verbose):
        console.print(Text("   " * min(depth, _MAX_INDENT) + line))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_stacks(console: Console, answer: Answer[StackRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``stack``."""
    _print_head(console, answer, verbose)
    lines = list(stacks.stack_lines(answer, unfold=unfold, verbose=verbose))
    if console.color_system is None:
        # Some ten thousand lines, in which there is nothing to lay out.
        console.file.write("".join(f"{line}\n" for line, _ in lines))
    else:
        console.print(Text("\n").join(Text(line, style=_STYLES[style]) for line, style in lines))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_variable(
    console: Console,
    answer: VariableAnswer,
    *,
    unfold: bool,
    verbose: bool,
    indices: Mapping[int, int] | None = None,
) -> None:
    """Print the answer to ``var``, with LLDB's numbers of the threads if there are *indices*."""
    _print_head(console, answer, verbose)
    console.print(Text(variables.variable_heading(answer)))
    mark = console.color_system is None
    _print_table(console, variables.variable_table(answer, unfold=unfold, mark=mark, indices=indices))
    if answer.stats is not None:
        console.print()
        for line in variables.stats_lines(answer.stats):
            console.print(Text(line))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_icvs(console: Console, answer: Answer[IcvRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``icvs``."""
    _print_head(console, answer, verbose)
    _print_table(console, icvs.icvs_table(answer, unfold=unfold, display=verbose))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_parallel(console: Console, answer: Answer[ParallelRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``parallel``."""
    _print_head(console, answer, verbose)
    if not answer.rows:
        untold = "no parallel region is known: what would tell could not be read"
        console.print(Text("no parallel region is being executed" if answer.complete else untold))
    for depth, line in regions.region_lines(answer, unfold=unfold, verbose=verbose):
        console.print(Text("   " * min(depth, _MAX_INDENT) + line))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_runtimes(console: Console, answer: Answer[RuntimeRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``runtimes``."""
    _print_head(console, answer, verbose)
    for line in runtimes.runtime_lines(answer):
        console.print(Text(line))


def print_layouts(console: Console, answer: LayoutAnswer, *, verbose: bool) -> None:
    """Print the tables of layouts that are known, or what one of them holds."""
    if answer.structs is None:
        _print_table(console, layouts.layouts_table(answer))
        console.print()
        for line in layouts.notes(answer, verbose=verbose):
            console.print(Text(line, style=_STYLES["dim"]))
        return
    for line in layouts.layout_lines(answer):
        console.print(Text(line))


def _print_reasons(console: Console, verbose: bool, rows: Iterable[Mapping[str, str]]) -> None:
    # Why facts shown as "?" are not known, each reason once.
    if not verbose:
        return
    reasons: dict[str, set[str]] = {}
    for unavailable in rows:
        for key, reason in unavailable.items():
            reasons.setdefault(reason, set()).add(key)
    if reasons:
        console.print()
    for reason, keys in reasons.items():
        console.print(Text(words.clean(f"not known: {', '.join(sorted(keys))}: {reason}"), style=_STYLES["dim"]))
