"""``var`` as a table, with threads of equal values folded, and statistics of the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ompd.model import Answer, VariableRecord, VariableStats
from ompd.render.words import (
    LISTED,
    NONE,
    UNKNOWN,
    Indices,
    Line,
    Table,
    basename,
    clean,
    format_count,
    format_field,
    format_numbers,
    format_threads,
)
from ompd.short_names import short_name

_MECHANISMS = {
    "tls": "thread-local (tls)",
    "cached": "copies of the OpenMP runtime (cached)",
    "emutls": "emulated thread-local (emutls)",
    "key": "thread-specific data (key)",
    "global": "one for all threads (global)",
    "local": "of a function (local)",
}
_NO_STORAGE = "no storage allocated yet"
_MAX_DISTINCT = 10
_MARK = "*"


def variable_heading(answer: Answer[VariableRecord]) -> str:
    """Return the line above the table: name, type, kind of copies of threads, and place of the declaration."""
    if not answer.rows:
        return ""
    row = answer.rows[0]
    typed = next((r.type for r in answer.rows if r.type is not None), None)
    words = [row.name, typed if typed is not None else format_field(row, "type")]
    words.append(_MECHANISMS.get(row.mechanism or "", "no place"))
    if row.file is not None:
        words.append(f"{basename(row.file)}:{row.line}" if row.line is not None else basename(row.file))
    words.append(f"in {basename(row.module)}")
    return clean("   ".join(words))


def variable_table(
    answer: Answer[VariableRecord],
    *,
    unfold: bool = False,
    verbose: bool = False,
    mark: bool = True,
    indices: Indices | None = None,
) -> Table:
    """Return the table of ``var``. Rows that differ only in number and address share a line, unless *unfold*.

    :param mark: mark outliers by a star, not only by their style
    :param indices: a debugger's numbers of the threads, shown in a column
    """
    groups: dict[Any, list[VariableRecord]] = {}
    for number, row in enumerate(answer.rows):
        groups.setdefault(number if unfold else _alike(row), []).append(row)
    many = len(answer.runtimes) > 1
    starred = mark and any(row.outlier for row in answer.rows)
    titles: tuple[str, ...] = ("OMP", "THREADS", "ADDRESS", "VALUE")
    if indices is not None:
        titles = ("OMP", indices.title, *titles[1:])
    if many:
        titles = ("RUNTIME", *titles)
    if starred:
        titles = ("", *titles)
    are_local = any(row.mechanism == "local" for row in answer.rows)
    if are_local:
        titles = (*titles, "SHARING", "FUNCTION")
    lines = []
    for rows in groups.values():
        first = rows[0]
        cells: tuple[str, ...] = (_numbers(rows), _natives(rows), _address(rows), _value(first))
        if indices is not None:
            cells = (cells[0], indices.format(row.native_thread_id for row in rows), *cells[1:])
        if many:
            cells = (clean(first.runtime or NONE), *cells)
        if starred:
            cells = (_MARK if first.outlier else "", *cells)
        if are_local:
            function = first.function if first.function is None or verbose else short_name(first.function)
            cells = (*cells, clean(first.sharing or NONE), clean(function or UNKNOWN))
        style = "outlier" if first.outlier else "dim" if first.text is None and not first.unavailable else ""
        lines.append(Line(cells, style))
    return Table(titles, tuple(lines))


def _alike(row: VariableRecord) -> tuple[Any, ...]:
    if row.mechanism == "global":
        return ("global", row.address, row.text, row.digest, tuple(sorted(row.unavailable.items())))
    reasons = tuple(sorted(row.unavailable.items()))
    team = (row.runtime, row.thread_num is not None, row.team_size, row.function, row.sharing)
    return (team, row.mechanism, row.text, row.digest, row.address is None, row.initialized, row.outlier, reasons)


def _numbers(rows: Sequence[VariableRecord]) -> str:
    row = rows[0]
    if row.mechanism == "global" and len(rows) > 1:
        return "all"
    if row.runtime is None:
        return UNKNOWN if "runtime" in row.unavailable else NONE
    if row.thread_num is None:
        return UNKNOWN if "thread_num" in row.unavailable else "pool"
    paths = ((*(r.ancestors if r.ancestors is not None else (None,)), r.thread_num) for r in rows)
    return format_numbers(paths, row.team_size)


def _natives(rows: Sequence[VariableRecord]) -> str:
    count = f" ({len(rows)})" if len(rows) > LISTED else ""
    return format_threads([row.native_thread_id for row in rows]) + count


def _address(rows: Sequence[VariableRecord]) -> str:
    addresses = dict.fromkeys(row.address for row in rows)
    if len(addresses) > 1:
        return format_count(len(addresses), "copy", "copies")
    return format_field(rows[0], "address")


def _value(row: VariableRecord) -> str:
    if row.text is None:
        reason = row.unavailable.get("value")
        return f"{UNKNOWN} {clean(reason)}" if reason is not None else _NO_STORAGE
    note = "   (not initialised yet)" if row.initialized is False else ""
    untyped = "   (type unknown)" if "type" in row.unavailable else ""
    return clean(row.text) + note + untyped


def stats_lines(stats: VariableStats) -> Iterator[str]:
    """Yield the lines of the statistics."""
    words = [f"{format_count(stats.count, 'value')}, {len(stats.distinct)} distinct"]
    for title, number in (("min", stats.minimum), ("max", stats.maximum), ("mean", stats.mean)):
        if number is not None:
            words.append(f"{title} {number:g}" if isinstance(number, float) else f"{title} {number}")
    yield "   ".join(words)
    for distinct in stats.distinct[:_MAX_DISTINCT]:
        threads = format_threads(distinct.threads)
        yield clean(f"  {len(distinct.threads)} x   {distinct.text}   [{threads.replace(',', ' ')}]")
    if len(stats.distinct) > _MAX_DISTINCT:
        yield f"  and {len(stats.distinct) - _MAX_DISTINCT} more values"
    if stats.outliers:
        yield f"outliers: {format_threads(stats.outliers)}"
