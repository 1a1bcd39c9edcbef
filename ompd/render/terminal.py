"""Text output on a terminal, or in a pipe: colours, column widths, the region tree. Sees only records."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Protocol, TextIO

from ompd.render import columns, trees, words
from ompd.render.answers import icvs, regions, runtimes, stacks, tasks, threads, variables

if TYPE_CHECKING:
    from ompd.model import (
        Answer,
        CheckAnswer,
        DiffAnswer,
        DoctorAnswer,
        IcvRecord,
        ParallelRecord,
        ProfileAnswer,
        RuntimeRecord,
        StackRecord,
        TaskRecord,
        ThreadRecord,
        VariableAnswer,
        VerdictRecord,
    )
    from ompd.model.layouts import LayoutAnswer

# A pipe has no width; nothing may be cut off or wrapped in it.
_UNBOUNDED = 100_000


class Console(Protocol):
    """The output for answers. ``color_system`` is None if there are no colours."""

    @property
    def file(self) -> IO[str]: ...

    @property
    def encoding(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def color_system(self) -> str | None: ...

    def write_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        """Write lines, each with its style. The caller has broken them to fit :attr:`width`."""
        ...


class _Pipe:
    # A console for a pipe: it has no colours and no limit of width, and needs no import of rich.

    width, color_system = _UNBOUNDED, None

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.encoding = file.encoding or "utf-8"

    def write_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        self.file.write("".join(f"{line}\n" for line, _ in lines))


def make_console(color: str, *, file: TextIO | None = None, width: int | None = None) -> Console:
    """Return the console for answers: standard output, with colours by *color* (``auto``, ``always``, ``never``).

    :param file: write there instead, *width* columns wide, None for no limit
    """
    terminal = sys.stdout.isatty() if file is None else width is not None
    # With these variables rich treats a pipe as a terminal.
    is_forced = "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ
    if not terminal and (color == "never" or (color == "auto" and not is_forced)):
        return _Pipe(sys.stdout if file is None else file)
    from ompd.render.colours import make_rich_console

    return make_rich_console(color, file=file, width=width if terminal else _UNBOUNDED, wraps=terminal)


def print_wrapped(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, each with its style. Long ones are broken between words, and their continuation lines are indented
    more.
    """
    width, clean = console.width, words.clean
    console.write_lines([(part, style) for line, style in lines for part in columns.wrap_line(clean(line), width)])


def _print_head(console: Console, answer: Answer[Any], verbose: bool) -> None:
    lines = [(words.format_target(answer.target, answer.runtimes), "head")]
    for name in answer.target.unproven if verbose else ():
        lines.append((words.clean(f"not proven to be the build that ran: {name}"), "dim"))
    print_wrapped(console, [*lines, ("", "")])


def print_threads(
    console: Console,
    answer: Answer[ThreadRecord],
    *,
    unfold: bool,
    verbose: bool,
    indices: words.Indices | None = None,
) -> None:
    """Print the answer to ``threads``, with a debugger's numbers of the threads if there are *indices*."""
    _print_head(console, answer, verbose)
    _print_table(console, threads.threads_table(answer, unfold=unfold, verbose=verbose, indices=indices))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def _print_table(console: Console, table: words.Table) -> None:
    lines = tuple(words.Line(tuple(map(words.clean, line.cells)), line.style) for line in table.lines)
    console.write_lines(list(columns.table_lines(replace(table, lines=lines), console.width)))


def _print_tree(console: Console, lines: Iterable[tuple[int, str]]) -> None:
    stems = trees.grow(lines, drawn=console.encoding.lower().startswith("utf"))
    width, clean = console.width, words.clean
    parts = (part for stem, line in stems for part in columns.wrap_branch(stem, clean(line), width))
    console.write_lines([(part, "") for part in parts])


def print_tasks(console: Console, answer: Answer[TaskRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``tasks``."""
    _print_head(console, answer, verbose)
    if not answer.rows:
        print_wrapped(console, [(words.format_nothing(answer, "no task", "tasks"), "")])
    _print_tree(console, tasks.task_lines(answer, unfold=unfold, verbose=verbose))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_stacks(console: Console, answer: Answer[StackRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``stack``."""
    _print_head(console, answer, verbose)
    print_wrapped(console, stacks.stack_lines(answer, unfold=unfold, verbose=verbose))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_variable(
    console: Console,
    answer: VariableAnswer,
    *,
    unfold: bool,
    verbose: bool,
    indices: words.Indices | None = None,
) -> None:
    """Print the answer to ``var``, with a debugger's numbers of the threads if there are *indices*."""
    _print_head(console, answer, verbose)
    print_wrapped(console, [(variables.variable_heading(answer), "")])
    mark = console.color_system is None
    table = variables.variable_table(answer, unfold=unfold, verbose=verbose, mark=mark, indices=indices)
    _print_table(console, table)
    if answer.stats is not None:
        print_wrapped(console, [("", ""), *((line, "") for line in variables.stats_lines(answer.stats))])
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_icvs(console: Console, answer: Answer[IcvRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``icvs``."""
    _print_head(console, answer, verbose)
    table = icvs.icvs_table(answer, unfold=unfold, display=verbose)
    if table.lines:
        _print_table(console, table)
    else:
        none = "no variable differs between threads, regions or tasks"
        print_wrapped(console, [(words.format_nothing(answer, none, "variables"), "")])
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_parallel(console: Console, answer: Answer[ParallelRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``parallel``."""
    _print_head(console, answer, verbose)
    if not answer.rows:
        unknown = "parallel regions unknown: the data that they come from could not be read"
        print_wrapped(console, [("no parallel region is being executed" if answer.complete else unknown, "")])
    _print_tree(console, regions.region_lines(answer, unfold=unfold, verbose=verbose))
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_runtimes(console: Console, answer: Answer[RuntimeRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``runtimes``."""
    _print_head(console, answer, verbose)
    print_wrapped(console, ((line, "") for line in runtimes.runtime_lines(answer)))


def print_why(console: Console, answer: Answer[VerdictRecord], *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``why``."""
    import ompd.render.answers.why as why

    _print_head(console, answer, verbose)
    print_wrapped(console, why.why_lines(answer, unfold=unfold, verbose=verbose))


def print_diff(console: Console, answer: DiffAnswer, *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``diff``."""
    import ompd.render.answers.diff as diff

    print_wrapped(console, ((line, "head") for line in diff.head_lines(answer)))
    for title, table in diff.tables(answer, unfold=unfold, verbose=verbose):
        print_wrapped(console, [("", ""), *([(title, "")] if title else [])])
        if table is not None:
            _print_table(console, table)
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_profile(console: Console, answer: ProfileAnswer, *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``profile``."""
    import ompd.render.answers.profile as profile

    _print_head(console, answer, verbose)
    print_wrapped(console, [*profile.cause_lines(answer, verbose=verbose), ("", "")])
    print_wrapped(console, [*((line, "") for line in profile.sampling_lines(answer)), ("", "")])
    _print_table(console, profile.region_table(answer, verbose=verbose))
    print_wrapped(console, [("", ""), *((line, "") for line in profile.detail_lines(answer, verbose=verbose))])
    _print_reasons(console, verbose, (row.unavailable for row in answer.rows))


def print_findings(console: Console, answer: DoctorAnswer, *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``doctor``."""
    import ompd.render.answers.libraries.findings as findings

    if answer.target.kind != "machine":
        _print_head(console, answer, verbose)
    print_wrapped(console, findings.finding_lines(answer, verbose=verbose))


def print_check(console: Console, answer: CheckAnswer, *, unfold: bool, verbose: bool) -> None:
    """Print the answer to ``check``."""
    import ompd.render.answers.libraries.checks as checks

    _print_head(console, answer, verbose)
    for library in answer.libraries:
        print_wrapped(console, ((line, "") for line in checks.lines_of_library(library)))
    rows, more = checks.shown(answer, unfold=unfold)
    if rows:
        print_wrapped(console, [("", "")])
        _print_table(console, checks.differences_table(rows))
        print_wrapped(console, [(more, "dim")] if more is not None else [])
    table = checks.entries_table(answer.entries, many=len(answer.libraries) > 1)
    if table.lines:
        print_wrapped(console, [("", "")])
        _print_table(console, table)
    gone = list(checks.gone_lines(answer.entries))
    if gone:
        print_wrapped(console, [("", ""), *((line, "failed") for line in gone)])
    if unfold:
        _print_reasons(console, verbose, (row.unavailable for row in rows))


def print_layouts(console: Console, answer: LayoutAnswer, *, verbose: bool) -> None:
    """Print the known tables of layouts, or the contents of one."""
    import ompd.render.answers.libraries.layouts as layouts

    if answer.structs is None:
        _print_table(console, layouts.layouts_table(answer))
        print_wrapped(console, [("", ""), *((line, "dim") for line in layouts.notes(answer, verbose=verbose))])
        return
    print_wrapped(console, ((line, "") for line in layouts.layout_lines(answer)))


def _print_reasons(console: Console, verbose: bool, rows: Iterable[Mapping[str, str]]) -> None:
    # Print the reasons why facts shown as "?" are unknown, each once.
    if not verbose:
        return
    reasons: dict[str, set[str]] = {}
    for unavailable in rows:
        for key, reason in unavailable.items():
            reasons.setdefault(reason, set()).add(key)
    lines = ((words.clean(f"unknown: {', '.join(sorted(keys))}: {why}"), "dim") for why, keys in reasons.items())
    if reasons:
        print_wrapped(console, [("", ""), *lines])
