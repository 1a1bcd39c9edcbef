"""``threads`` as a table, with equal threads folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ompd.analysis.folding import likeness
from ompd.model import Answer, ThreadRecord
from ompd.render.words import (
    LISTED,
    NONE,
    UNKNOWN,
    Indices,
    Line,
    Path,
    Table,
    clean,
    format_count,
    format_failure,
    format_field,
    format_numbers,
    format_place,
    format_some,
    format_threads,
)

_CONSTRUCTS = ("loop", "sections", "single")  # with a barrier at their end


def threads_table(
    answer: Answer[ThreadRecord],
    *,
    unfold: bool = False,
    verbose: bool = False,
    indices: Indices | None = None,
) -> Table:
    """Return the table of ``threads``. Rows that differ only in number share a line, unless *unfold*.

    :param indices: a debugger's numbers of the threads, shown in a column
    """
    groups: dict[Any, list[ThreadRecord]] = {}
    for number, row in enumerate(answer.rows):
        groups.setdefault(number if unfold else likeness(row, verbose=verbose), []).extend(_members(row))
    by_native = {
        row.native_thread_id: row for rows in groups.values() for row in rows if row.native_thread_id is not None
    }
    folded = list(groups.values())
    columns = {
        "RUNTIME": [clean(rows[0].runtime or NONE) for rows in folded],
        **_openmp_columns(folded),
        **({indices.title: [indices.format(r.native_thread_id for r in rows) for rows in folded]} if indices else {}),
        "THREADS": [_natives(rows) for rows in folded],
        "STATE": [_state(rows[0], verbose) for rows in folded],
        "WAITS FOR": [_wait(rows, by_native) for rows in folded],
        "WHERE": [_where(rows[0], verbose) for rows in folded],
        "TASK": [format_field(rows[0], "task") if len(rows) == 1 else "" for rows in folded],
        "TOOL DATA": [format_field(rows[0], "tool_data") if len(rows) == 1 else "" for rows in folded],
        "OMPT ID": [format_field(rows[0], "ompt_id") if len(rows) == 1 else "" for rows in folded],
    }
    left_out = {"TASK", "TOOL DATA"} if not verbose else set()
    if not verbose or all(row.ompt_id is None for row in answer.rows):
        left_out.add("OMPT ID")
    # A column with equal cells in all rows is useless.
    if not verbose and len({(row.runtime, row.parallel) for row in answer.rows if row.parallel is not None}) <= 1:
        left_out.add("REGION")
    if len(answer.runtimes) <= 1:
        left_out.add("RUNTIME")
    titles = tuple(title for title in columns if title not in left_out)
    cells = zip(*(columns[title] for title in titles), strict=True)
    lines = tuple(Line(row, _style(rows[0])) for rows, row in zip(folded, cells, strict=True))
    return Table(titles, lines, optional=frozenset(("LEVEL",)), least=frozenset(("REGION",)))


def _members(row: ThreadRecord) -> Iterator[ThreadRecord]:
    # Yield a row for each thread of a group. Only its numbers are its own.
    if not row.threads:
        yield row
    for native, number in zip(row.threads, row.thread_nums, strict=True):
        yield replace(row, native_thread_id=native, thread_num=number)


def _openmp_columns(folded: Sequence[Sequence[ThreadRecord]]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"OMP": [], "LEVEL": [], "REGION": []}
    for rows in folded:
        row = rows[0]
        if row.runtime is None:
            number = level = region = UNKNOWN if "runtime" in row.unavailable else NONE
        elif _is_idle(row):
            number, level, region = "pool", NONE, NONE
        else:
            number = format_numbers(map(path_of, rows), row.team_size) + _outside(rows)
            level = format_field(row, "level")
            regions = dict.fromkeys(r.parallel for r in rows)
            region = format_field(row, "parallel") if len(regions) == 1 else format_count(len(regions), "region")
        for title, cell in (("OMP", number), ("LEVEL", level), ("REGION", region)):
            columns[title].append(cell)
    return columns


def _outside(rows: Sequence[ThreadRecord]) -> str:
    # For threads that execute a target region themselves, return their numbers outside of that region.
    outside = [row.outside_of_target for row in rows if row.outside_of_target is not None]
    if not outside:
        return ""
    return f" in target of {format_numbers(((membership.thread_num,) for membership in outside), outside[0].team_size)}"


def _is_idle(row: ThreadRecord) -> bool:
    return row.thread_num is None and "thread_num" not in row.unavailable


def path_of(row: ThreadRecord) -> Path | None:
    """Return the thread's numbers in its teams, outermost first, None for a thread without a team."""
    if row.thread_num is None:
        return None
    return (*(row.ancestors if row.ancestors is not None else (None,)), row.thread_num)


def _style(row: ThreadRecord) -> str:
    if format_failure(row):
        return "failed"
    if row.runtime is None and "runtime" not in row.unavailable:
        return "dim"
    if row.runtime is not None and _is_idle(row):
        return "dim"
    return "wait" if row.wait is not None else ""


def _natives(rows: Sequence[ThreadRecord]) -> str:
    count = f" ({len(rows)})" if len(rows) > LISTED else ""
    return format_threads([r.native_thread_id for r in rows]) + count


def _state(row: ThreadRecord, verbose: bool) -> str:
    if row.runtime is None:
        return UNKNOWN if "runtime" in row.unavailable else "not OpenMP"
    state = format_field(row, "state")
    if not verbose or row.state_source is None:
        return state
    # Add the runtime's own name of the state if it differs, because OpenMP 5 has no such state.
    ompt_state = row.ompt_state
    name = f": {clean(ompt_state.name)}" if ompt_state is not None and ompt_state.name != row.state else ""
    return f"{state} ({row.state_source}{name})"


def _wait(rows: Sequence[ThreadRecord], by_native: Mapping[int, ThreadRecord]) -> str:
    row, wait = rows[0], rows[0].wait
    if wait is None:
        return UNKNOWN if row.runtime is None and "runtime" in row.unavailable else format_field(row, "wait")
    words: list[str] = [wait.kind]
    if wait.symbol is not None:
        words = [wait.symbol] if wait.symbol.startswith(wait.kind) else [wait.kind, wait.symbol]
    elif wait.object is not None and wait.kind != "barrier":
        words.append(f"{wait.object:#x}")
    if wait.arrived is not None and wait.expected is not None:
        words.append(f"{wait.arrived}/{wait.expected} arrived")
    if wait.missing and all(r.wait is not None and r.wait.missing == wait.missing for r in rows):
        words[-1] += f", missing {_missing(row, wait.missing, by_native)}"
    if wait.unfinished_tasks:
        words[-1] += f", {format_count(wait.unfinished_tasks, 'task')} unfinished"
    if wait.owner is not None:
        words.append(f"held by {_named(wait.owner, by_native)}")
    if wait.how == "released":
        words.append("(released)")
    return clean(" ".join(words))


def _missing(waiting: ThreadRecord, missing: Sequence[int], by_native: Mapping[int, ThreadRecord]) -> str:
    # Name the missing threads by their numbers in the barrier's team, also if they are in inner teams now.
    team = (path_of(waiting) or ())[:-1]
    numbers, names = [], []
    for native in missing:
        path = path_of(by_native[native]) if native in by_native else None
        number = path[len(team)] if path is not None and len(path) > len(team) and path[: len(team)] == team else None
        if number is None:
            names.append(native)
        else:
            numbers.append(number)
    words = [format_some(numbers)] if numbers else []
    if names:
        words.append(f"thread{'s' * (len(names) > 1)} {format_threads(names)}")
    return " and ".join(words)


def _named(native: int, by_native: Mapping[int, ThreadRecord]) -> str:
    # Return the thread's OpenMP number as the table shows it, or the native id for a thread without a team.
    row = by_native.get(native)
    path = path_of(row) if row is not None else None
    return format_numbers((path,), row.team_size) if row is not None and path is not None else f"thread {native}"


def _where(row: ThreadRecord, verbose: bool) -> str:
    failure = format_failure(row)
    return f"{_place(row, verbose)} {failure}".rstrip()


def _place(row: ThreadRecord, verbose: bool) -> str:
    if row.at_end_of is not None and not (verbose and row.where is not None):
        return f"end of parallel {format_place(row.at_end_of, verbose=verbose)}"
    if row.where is None and row.about_to_begin:
        return "about to begin"
    if row.where is None:
        inside = f" in {format_place(row.innermost, verbose=verbose)}" if row.innermost is not None else ""
        return format_field(row, "where") + inside
    return _end_of_construct(row) + format_place(row.where, verbose=verbose)


def _end_of_construct(row: ThreadRecord) -> str:
    # What comes before the place of a barrier at the end of a worksharing construct.
    construct = row.wait.construct if row.wait is not None else None
    if construct not in _CONSTRUCTS and row.state == "wait_barrier_implicit_workshare":
        return "end of worksharing "
    return f"end of {construct} " if construct in _CONSTRUCTS else ""
