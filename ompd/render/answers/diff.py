"""``diff`` as text: threads that moved, threads that are stuck, tasks and counters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from ompd.model import DiffAnswer, TaskChange, ThreadChange
from ompd.render.words import (
    NONE,
    Line,
    Table,
    format_count,
    format_numbers,
    format_target,
    format_threads,
)

_SAME = {
    True: "both are of one process: threads are matched by their ids",
    False: "not of one process: threads are matched by their numbers in their teams",
    None: "whether both are of one process is unknown: threads are matched by their ids",
}
_CHANGES = {"new": "only in B", "gone": "only in A"}


def head_lines(answer: DiffAnswer) -> Iterator[str]:
    """Yield a line about each of the two moments."""
    if answer.earlier_target is not None:
        yield f"A  {format_target(answer.earlier_target, ())}"
    yield f"B  {format_target(answer.target, answer.runtimes)}"
    yield _SAME[answer.same_process]


def tables(answer: DiffAnswer, *, unfold: bool, verbose: bool) -> Iterator[tuple[str, Table | None]]:
    """Yield titles, each with the table below it, None if there is no table."""
    moved = [row for row in answer.rows if row.change != "same"]
    still = [row for row in answer.rows if row.change == "same"]
    if moved:
        yield f"{format_count(len(moved), 'thread')} moved", _moved(moved, unfold=unfold)
    if still:
        stuck = sum(row.stuck for row in still)
        since = f", {stuck} of them stuck since A" if stuck else ""
        yield (
            f"{format_count(len(still), 'thread')} {'is' if len(still) == 1 else 'are'} where they were{since}".replace(
                "is where they were", "is where it was"
            ),
            _still(still, unfold=unfold, verbose=verbose),
        )
    tasks = [row for row in answer.tasks if unfold or _has_changed(row)]
    if tasks:
        yield "tasks", _tasks(tasks)
    counters = [row for row in answer.counters if unfold or row.earlier != row.later]
    if counters:
        lines = tuple(Line((row.name, str(row.earlier), str(row.later))) for row in counters)
        yield "counters", Table(("COUNTED", "A", "B"), lines)
    if not answer.differs:
        yield "nothing differs", None


def _folded(rows: Sequence[ThreadChange], keys: Sequence[Hashable]) -> list[list[ThreadChange]]:
    groups: dict[Hashable, list[ThreadChange]] = {}
    for row, key in zip(rows, keys, strict=True):
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _name(rows: Sequence[ThreadChange]) -> str:
    if rows[0].thread_num is None:
        return "pool" if rows[0].state == "idle" else NONE
    return format_numbers(((*(row.ancestors or ()), row.thread_num) for row in rows), rows[0].team_size)


def _natives(rows: Sequence[ThreadChange]) -> str:
    ids = [row.native_thread_id if row.change != "gone" else row.earlier_thread_id for row in rows]
    return format_threads(ids) + (f" ({len(rows)})" if len(rows) > 4 else "")


def _team(row: ThreadChange) -> Hashable:
    return row.runtime, row.thread_num is None, row.team_size, len(row.ancestors or ())


def _moved(rows: Sequence[ThreadChange], *, unfold: bool) -> Table:
    keys = [n if unfold else (_team(row), row.change, row.facts, row.where) for n, row in enumerate(rows)]
    lines = []
    for group in _folded(rows, keys):
        first = (_name(group), _natives(group))
        row = group[0]
        if row.change in _CHANGES:
            lines.append(Line((*first, _CHANGES[row.change], row.state or NONE, row.where or NONE), "wait"))
        for fact in row.facts:
            lines.append(Line((*first, fact.name, fact.earlier or NONE, fact.later or NONE), "wait"))
            first = ("", "")
    return Table(("OMP", "THREADS", "WHAT", "A", "B"), tuple(lines))


def _still(rows: Sequence[ThreadChange], *, unfold: bool, verbose: bool) -> Table:
    keys = [n if unfold else (_team(row), row.state, row.wait, row.where, row.stuck) for n, row in enumerate(rows)]
    titles = ["OMP", "THREADS", "STATE", "WAITS FOR", "WHERE", ""]
    lines = []
    for group in _folded(rows, keys):
        row = group[0]
        times = [change.processor_ns for change in group if change.processor_ns is not None]
        time = f"{sum(times) / 1e9:.2f} s" if len(times) == len(group) else NONE
        cells = [_name(group), _natives(group), row.state or NONE, row.wait or NONE, row.where or NONE]
        lines.append(Line((*cells, "stuck since A" if row.stuck else "", *([time] if verbose else []))))
    if verbose:
        titles.append("PROCESSOR TIME SINCE A")
    return Table(tuple(titles), tuple(lines))


# Tasks


def _has_changed(row: TaskChange) -> bool:
    return row.earlier != row.later or bool(row.new or row.gone or row.changed)


def _tasks(rows: Sequence[TaskChange]) -> Table:
    lines = []
    for row in rows:
        moves = [(row.new, "new"), (row.gone, "gone"), (row.changed, "changed")]
        words = ", ".join(f"{count} {move}" for count, move in moves if count)
        name = f"{row.kind or '?'} task {row.function or ''}".rstrip()
        lines.append(Line((name, _counts(row.earlier), _counts(row.later), words)))
    return Table(("TASKS", "A", "B", ""), tuple(lines))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"
