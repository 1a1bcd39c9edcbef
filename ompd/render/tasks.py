"""``tasks`` as a tree, with equal tasks folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ompd.model import Answer, TaskFrame, TaskRecord
from ompd.render.words import UNKNOWN, clean, format_field, format_place, format_threads


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
    words.append(f"{format_field(row, 'kind')} task")
    if row.function is not None:
        words.append(format_place(row.function, verbose=verbose))
    elif "function" in row.unavailable:
        words.append(UNKNOWN)
    words.append(format_field(row, "status") + (" final" if row.final else ""))
    threads = sorted({r.thread for r in group if r.thread is not None})
    if threads:
        words.append(f"thread{'s' if len(threads) > 1 else ''} {format_threads(threads)}")
    elif "thread" in row.unavailable:
        words.append(f"thread {UNKNOWN}")
    if len(group) == 1:
        words.append(row.id)
    if verbose and len(group) == 1:
        words.append(f"exit {_frame(row, 'exit_frame')}, enter {_frame(row, 'enter_frame')}")
        words.append(f"tool data {format_field(row, 'tool_data')}")
    return clean("   ".join(words))


def _frame(row: TaskRecord, key: str) -> str:
    frame: TaskFrame | None = getattr(row, key)
    return format_field(row, key) if frame is None else f"{frame.address:#x} (flags {frame.flags:#x})"
