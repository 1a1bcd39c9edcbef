"""Answers as text for people: tables with equal rows folded, regions as a tree. Sees records only.

Nothing of the target reaches the terminal as it is: names are data, and a control character in one could do anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ompd.model import (
    Answer,
    IcvRecord,
    ParallelRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    TargetRecord,
    TaskFrame,
    TaskRecord,
    ThreadRecord,
)

# Thread ids of a folded row that are listed before the rest is counted.
_LISTED = 4
_UNKNOWN = "?"
_NONE = "-"


def clean(text: str) -> str:
    """Return *text* with what a terminal might act on written out (``\\x1b``)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an answer: its cells, and the style of the row (``""``, ``dim``, ``wait`` …)."""

    cells: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print: a heading above it, the columns' titles, its lines."""

    titles: tuple[str, ...]
    lines: tuple[Line, ...]


def _value(record: Any, key: str, shown: Any = None) -> str:
    # A field for the screen: what it is, "-" where there is none, "?" where it could not be told.
    value = getattr(record, key)
    if value is None:
        return _UNKNOWN if key in record.unavailable else _NONE
    return clean(str(value if shown is None else shown))


def _basename(path: str) -> str:
    return path.rpartition("/")[2] or path


def format_target(target: TargetRecord, runtimes: Sequence[RuntimeRecord]) -> str:
    """Return the line above every answer: what was asked, and which runtimes it has."""
    parts = [_basename(target.file)]
    if target.executable is not None:
        parts.append(_basename(target.executable))
    if target.process_id is not None:
        parts.append(f"process {target.process_id}")
    if target.signal is not None:
        parts.append(target.signal_name or f"signal {target.signal}")
    parts.append(_count(target.thread_count, "thread"))
    parts += [format_runtime_name(runtime) for runtime in runtimes]
    return clean("   ".join(parts))


def format_runtime_name(runtime: RuntimeRecord) -> str:
    """Return a runtime's name and version."""
    return runtime.id + (f" {runtime.version}" if runtime.version is not None else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def format_place(place: Place | RegionFunction | None, *, verbose: bool = False) -> str:
    """Return where something is: ``file.c:12 function``, as much of it as is known."""
    if place is None:
        return _NONE
    words = []
    if place.file is not None:
        words.append(f"{_basename(place.file)}:{place.line}")
    if place.function is not None:
        words.append(place.function)
    if verbose or not words:
        words.append(f"{place.address:#x}")
    return clean(" ".join(words))


def format_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as people count them: ``0,2-5``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _format_threads(threads: Sequence[int]) -> str:
    if len(threads) <= _LISTED:
        return ",".join(map(str, threads))
    return f"{threads[0]} … {threads[-1]}"


# threads


def threads_table(answer: Answer[ThreadRecord], *, unfold: bool = False, verbose: bool = False) -> Table:
    """Return the table of ``threads``. Rows that differ in nothing but their number are one, unless *unfold*."""
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
                (*line.cells, *(_value(rows[0], key) if len(rows) == 1 else "" for key in ("task", "tool_data"))),
                line.style,
            )
            for rows, line in zip(groups.values(), lines, strict=True)
        )
    if many:
        titles = ("RUNTIME", *titles)
        lines = tuple(
            Line((clean(rows[0].runtime or _NONE), *line.cells), line.style)
            for rows, line in zip(groups.values(), lines, strict=True)
        )
    return Table(titles, lines)


def _alike(row: ThreadRecord, verbose: bool) -> tuple[Any, ...]:
    where = row.where and (row.where.function, row.where.file, row.where.line, row.where.address if verbose else None)
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
    count = f" ({len(rows)})" if len(rows) > _LISTED else ""
    natives = _format_threads([r.native_thread_id for r in rows]) + count
    if row.runtime is None:
        return Line((_NONE, _NONE, _NONE, natives, "not OpenMP", _NONE, _where(row, verbose)), "dim")
    if row.thread_num is None and "thread_num" not in row.unavailable:
        return Line(("pool", _NONE, _NONE, natives, _state(row, verbose), _NONE, _where(row, verbose)), "dim")
    numbers = format_ranges({r.thread_num for r in rows if r.thread_num is not None}) or _UNKNOWN
    if row.team_size is not None:
        numbers += f"/{row.team_size}"
    regions = dict.fromkeys(r.parallel for r in rows)
    region = _value(row, "parallel") if len(regions) == 1 else _count(len(regions), "region")
    cells = (numbers, _value(row, "level"), region, natives, _state(row, verbose), _wait(rows), _where(row, verbose))
    return Line(cells, "wait" if row.wait is not None else "")


def _state(row: ThreadRecord, verbose: bool) -> str:
    state = _value(row, "state")
    return f"{state} ({row.state_source})" if verbose and row.state_source is not None else state


def _wait(rows: Sequence[ThreadRecord]) -> str:
    row, wait = rows[0], rows[0].wait
    if wait is None:
        return _value(row, "wait")
    words = [wait.kind]
    if wait.symbol is not None:
        words = [wait.symbol] if wait.symbol.startswith(wait.kind) else [wait.kind, wait.symbol]
    elif wait.object is not None:
        words.append(f"{wait.object:#x}")
    if wait.arrived is not None and wait.expected is not None:
        words.append(f"{wait.arrived}/{wait.expected} arrived")
    if wait.missing and all(r.wait is not None and r.wait.missing == wait.missing for r in rows):
        words.append(f"missing {_format_threads(wait.missing)}")
    if wait.owner is not None:
        words.append(f"held by {wait.owner}")
    return clean(" ".join(words))


def _where(row: ThreadRecord, verbose: bool) -> str:
    if row.where is None:
        return _value(row, "where")
    return format_place(row.where, verbose=verbose)


# parallel


def region_lines(
    answer: Answer[ParallelRecord], *, unfold: bool = False, verbose: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield the regions as ``(depth, text)``, each after the one that encloses it; equal siblings folded unless
    *unfold*.
    """
    known = {row.id for row in answer.rows}
    children: dict[str | None, list[ParallelRecord]] = {}
    for row in answer.rows:
        children.setdefault(row.enclosing if row.enclosing in known else None, []).append(row)
    waiting = [(0, False, group) for group in reversed(_fold(children, None, unfold))]
    while waiting:
        depth, inside_folded, group = waiting.pop()
        yield depth, _region_text(group, verbose, inside_folded)
        folded = inside_folded or len(group) > 1
        waiting += [(depth + 1, folded, inner) for inner in reversed(_fold(children, group[0].id, unfold))]


def _fold(
    children: Mapping[str | None, list[ParallelRecord]], parent: str | None, unfold: bool
) -> list[list[ParallelRecord]]:
    groups: dict[Any, list[ParallelRecord]] = {}
    for number, row in enumerate(children.get(parent, ())):
        groups.setdefault(number if unfold else _shape(children, row), []).append(row)
    return list(groups.values())


def _shape(children: Mapping[str | None, list[ParallelRecord]], root: ParallelRecord) -> tuple[Any, ...]:
    # What makes two regions look the same: they and all that is inside of them, thread ids aside.
    found: list[Any] = []
    waiting = [(0, root)]
    while waiting:
        depth, row = waiting.pop()
        found.append(
            (depth, row.runtime, row.team_size, row.active_level, row.function, tuple(sorted(row.unavailable)))
        )
        waiting += [(depth + 1, child) for child in children.get(row.id, ())]
    return tuple(found)


def _region_text(group: Sequence[ParallelRecord], verbose: bool, inside_folded: bool) -> str:
    # A row inside of a folded one stands for the like of it in each: it has no threads of its own to name.
    row = group[0]
    size = _value(row, "team_size")
    team = f"{size} thread{'' if row.team_size == 1 else 's'}"
    place = format_place(row.function, verbose=verbose) if row.function is not None else _value(row, "function")
    words = [f"parallel  {place}", f"level {_value(row, 'level')}", f"active level {_value(row, 'active_level')}", team]
    if len(group) > 1:
        words.insert(0, f"{len(group)} x")
    elif not inside_folded:
        words.append(_listed([str(t) if t is not None else _UNKNOWN for t in row.threads]))
    if len(group) == 1 and not inside_folded:
        words.append(row.id)
        if verbose:
            words.append(f"tool data {_value(row, 'tool_data')}")
    return clean("   ".join(words))


def _listed(threads: Sequence[str]) -> str:
    shown = threads if len(threads) <= 2 * _LISTED else [*threads[:_LISTED], "…", threads[-1]]
    return "[" + " ".join(shown) + "]"


# tasks

_TASK_INDENT = "   "


def task_lines(answer: Answer[TaskRecord], *, unfold: bool = False, verbose: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the tasks as ``(depth, text)``, each after the one that generated it; equal siblings folded unless
    *unfold*.
    """
    known = {row.id for row in answer.rows}
    children: dict[str | None, list[TaskRecord]] = {}
    for row in answer.rows:
        children.setdefault(row.generating if row.generating in known else None, []).append(row)
    waiting = [(0, group) for group in reversed(_fold_tasks(children, None, unfold))]
    seen: set[str] = set()
    while waiting:
        depth, group = waiting.pop()
        if group[0].id in seen:
            continue
        seen.add(group[0].id)
        yield depth, _task_text(group, verbose)
        waiting += [(depth + 1, inner) for inner in reversed(_fold_tasks(children, group[0].id, unfold))]


def _fold_tasks(
    children: Mapping[str | None, list[TaskRecord]], parent: str | None, unfold: bool
) -> list[list[TaskRecord]]:
    # Tasks without any of their own that differ in nothing but their threads are one row.
    groups: dict[Any, list[TaskRecord]] = {}
    for number, row in enumerate(children.get(parent, ())):
        alike = (
            row.runtime,
            row.kind,
            row.status,
            row.function,
            row.final,
            row.parallel,
            tuple(sorted(row.unavailable)),
        )
        groups.setdefault(number if unfold or row.id in children else alike, []).append(row)
    return list(groups.values())


def _task_text(group: Sequence[TaskRecord], verbose: bool) -> str:
    row = group[0]
    words = [f"{len(group)} x"] if len(group) > 1 else []
    words.append(f"{_value(row, 'kind')} task")
    if row.function is not None:
        words.append(format_place(row.function, verbose=verbose))
    elif "function" in row.unavailable:
        words.append(_UNKNOWN)
    words.append(_value(row, "status") + (" final" if row.final else ""))
    threads = sorted({r.thread for r in group if r.thread is not None})
    if threads:
        words.append(f"thread{'s' if len(threads) > 1 else ''} {_format_threads(threads)}")
    elif "thread" in row.unavailable:
        words.append(f"thread {_UNKNOWN}")
    if len(group) == 1:
        words.append(row.id)
    if verbose and len(group) == 1:
        words.append(f"exit {_frame(row, 'exit_frame')}, enter {_frame(row, 'enter_frame')}")
        words.append(f"tool data {_value(row, 'tool_data')}")
    return clean("   ".join(words))


def _frame(row: TaskRecord, key: str) -> str:
    frame: TaskFrame | None = getattr(row, key)
    return _value(row, key) if frame is None else f"{frame.address:#x} (flags {frame.flags:#x})"


# icvs


def icvs_table(answer: Answer[IcvRecord], *, unfold: bool = False, display: bool = False) -> Table:
    """Return the table of ``icvs``: a line for each variable and each of its values, with the handles that have it.

    A variable that goes by two names has lines for both only if *unfold*, display control variables have some only if
    *display*.
    """
    names = {row.name for row in answer.rows}
    groups: dict[tuple[str, str, str], list[tuple[str, list[str]]]] = {}
    for row in answer.rows:
        twice = row.name.startswith("ompd-") and _later_name(row.name) in names
        if (twice and not unfold) or (row.scope == "display" and not display):
            continue
        values = groups.setdefault((row.runtime, row.name, row.scope), [])
        value = _value(row, "value", _icv_value(row.value)) or '""'
        same = next((known for text, known in values if text == value and not unfold), None)
        if same is not None:
            same.append(row.handle)
        else:
            values.append((value, [row.handle]))
    many = len(answer.runtimes) > 1
    lines = []
    for (runtime, name, scope), values in groups.items():
        for value, handles in values:
            whose = "" if len(values) == 1 and not unfold else _listed(handles)
            cells = (name, scope.replace("_", " "), value, whose)
            lines.append(Line((clean(runtime), *cells) if many else cells))
    titles = ("ICV", "SCOPE", "VALUE", "OF")
    return Table(("RUNTIME", *titles) if many else titles, tuple(lines))


def _later_name(name: str) -> str:
    # What OpenMP 5.1 calls a variable of OMPD's.
    plain = name.removeprefix("ompd-")
    return {"final-var": "final-task-var", "implicit-var": "implicit-task-var"}.get(plain, plain)


def _icv_value(value: int | bool | str | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


# runtimes


def runtime_lines(answer: Answer[RuntimeRecord]) -> Iterator[str]:
    """Yield what is known of each runtime, a block of lines each."""
    for row in answer.rows:
        yield clean(format_runtime_name(row))
        yield f"  file           {clean(row.file)}"
        yield f"  build-id       {_value(row, 'build_id')}"
        yield f"  OpenMP         {_value(row, 'omp_version')}"
        yield f"  layout         {_value(row, 'layout')}"
        names = ", ".join(row.dll_locations) if row.dll_locations is not None else None
        yield f"  ompd_dll_locations  {_value(row, 'dll_locations', names)}"
        kept = (
            {True: "yes", False: "no (OMP_DEBUG=enabled or a tool makes it)"}.get(row.keeps_states)
            if row.keeps_states is not None
            else None
        )
        yield f"  keeps states   {_value(row, 'keeps_states', kept)}"
        for reason in dict.fromkeys(row.unavailable.values()):
            yield f"  unknown        {clean(reason)}"
