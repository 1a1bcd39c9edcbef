"""``threads`` as a table, with equal threads folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ompd.model import Answer, ThreadRecord
from ompd.render.words import (
    LISTED,
    NONE,
    UNKNOWN,
    Line,
    Table,
    clean,
    format_count,
    format_field,
    format_indices,
    format_place,
    format_ranges,
    format_threads,
)


def threads_table(
    answer: Answer[ThreadRecord],
    *,
    unfold: bool = False,
    verbose: bool = False,
    indices: Mapping[int, int] | None = None,
) -> Table:
    """Return the table of ``threads``. Rows that differ in nothing but their number are one, unless *unfold*.

    :param indices: LLDB's numbers of the threads by native id, which get a column then
    """
    groups: dict[Any, list[ThreadRecord]] = {}
    for number, row in enumerate(answer.rows):
        groups.setdefault(number if unfold else _alike(row, verbose), []).append(row)
    many = len(answer.runtimes) > 1
    titles: tuple[str, ...] = ("OMP", "LEVEL", "REGION", "THREADS", "STATE", "WAITS FOR", "WHERE")
    lines = tuple(_thread_line(rows, verbose) for rows in groups.values())
    if verbose:
        titles = (*titles, "TASK", "TOOL DATA")
        lines = tuple(
            Line(
                (*line.cells, *(format_field(rows[0], key) if len(rows) == 1 else "" for key in ("task", "tool_data"))),
                line.style,
            )
            for rows, line in zip(groups.values(), lines, strict=True)
        )
    if indices is not None:
        at = titles.index("THREADS")
        titles = (*titles[:at], "LLDB", *titles[at:])
        lines = tuple(
            Line(
                (*line.cells[:at], format_indices((row.native_thread_id for row in rows), indices), *line.cells[at:]),
                line.style,
            )
            for rows, line in zip(groups.values(), lines, strict=True)
        )
    if many:
        titles = ("RUNTIME", *titles)
        lines = tuple(
            Line((clean(rows[0].runtime or NONE), *line.cells), line.style)
            for rows, line in zip(groups.values(), lines, strict=True)
        )
    return Table(titles, lines)


def _alike(row: ThreadRecord, verbose: bool) -> tuple[Any, ...]:
    place = row.where or row.innermost
    where = place and (place.function, place.file, place.line, place.address if verbose else None, row.where is None)
    reasons = tuple(sorted(row.unavailable))
    in_team = row.thread_num is not None
    # Teams of the same shape do the same in a nest of regions: their threads are alike if their numbers are.
    number = row.thread_num if row.level is not None and row.level > 1 else in_team
    team = (row.runtime, in_team, number, row.level, row.team_size, row.parallel if row.level == 1 else None)
    # Which of its threads are missing at a team's barrier is the team's own matter.
    wait = row.wait and replace(row.wait, missing=row.wait.missing and len(row.wait.missing) * (0,))
    return (team, row.state, row.state_source, wait, where, reasons)


def _thread_line(rows: Sequence[ThreadRecord], verbose: bool) -> Line:
    row = rows[0]
    count = f" ({len(rows)})" if len(rows) > LISTED else ""
    natives = format_threads([r.native_thread_id for r in rows]) + count
    if row.runtime is None:
        if "runtime" in row.unavailable:
            return Line((UNKNOWN, UNKNOWN, UNKNOWN, natives, UNKNOWN, UNKNOWN, _where(row, verbose)))
        return Line((NONE, NONE, NONE, natives, "not OpenMP", NONE, _where(row, verbose)), "dim")
    if row.thread_num is None and "thread_num" not in row.unavailable:
        return Line(("pool", NONE, NONE, natives, _state(row, verbose), NONE, _where(row, verbose)), "dim")
    numbers = format_ranges({r.thread_num for r in rows if r.thread_num is not None}) or UNKNOWN
    if row.team_size is not None:
        numbers += f"/{row.team_size}"
    regions = dict.fromkeys(r.parallel for r in rows)
    region = format_field(row, "parallel") if len(regions) == 1 else format_count(len(regions), "region")
    cells = (
        numbers,
        format_field(row, "level"),
        region,
        natives,
        _state(row, verbose),
        _wait(rows),
        _where(row, verbose),
    )
    return Line(cells, "wait" if row.wait is not None else "")


def _state(row: ThreadRecord, verbose: bool) -> str:
    state = format_field(row, "state")
    return f"{state} ({row.state_source})" if verbose and row.state_source is not None else state


def _wait(rows: Sequence[ThreadRecord]) -> str:
    row, wait = rows[0], rows[0].wait
    if wait is None:
        return format_field(row, "wait")
    words = [wait.kind]
    if wait.symbol is not None:
        words = [wait.symbol] if wait.symbol.startswith(wait.kind) else [wait.kind, wait.symbol]
    elif wait.object is not None:
        words.append(f"{wait.object:#x}")
    if wait.arrived is not None and wait.expected is not None:
        words.append(f"{wait.arrived}/{wait.expected} arrived")
    if wait.missing and all(r.wait is not None and r.wait.missing == wait.missing for r in rows):
        words[-1] += f", missing {format_threads(wait.missing)}"
    if wait.owner is not None:
        words.append(f"held by {wait.owner}")
    return clean(" ".join(words))


def _where(row: ThreadRecord, verbose: bool) -> str:
    if row.where is None:
        inside = f" in {format_place(row.innermost, verbose=verbose)}" if row.innermost is not None else ""
        return format_field(row, "where") + inside
    return format_place(row.where, verbose=verbose)
