"""``tasks`` as a tree, with equal tasks folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ompd.model import Answer, DependenceRecord, TaskFrame, TaskRecord
from ompd.render.words import UNKNOWN, clean, format_field, format_place, format_threads


def task_lines(answer: Answer[TaskRecord], *, unfold: bool = False, verbose: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the tasks as ``(depth, text)``, each after its generating task. Equal siblings are folded unless
    *unfold*.
    """
    listed: set[str] = set()
    children: dict[str | None, list[TaskRecord]] = {}
    for row in answer.rows:
        # A task listed before its generating task is part of a circle: show it at the top.
        children.setdefault(row.generating if row.generating in listed else None, []).append(row)
        listed.add(row.id)
    pending = [(0, group) for group in reversed(_fold_tasks(children, None, unfold))]
    while pending:
        depth, group = pending.pop()
        yield depth, _task_text(group, children.get(group[0].id, ()), verbose)
        pending += [(depth + 1, inner) for inner in reversed(_fold_tasks(children, group[0].id, unfold))]


def _fold_tasks(
    children: Mapping[str | None, list[TaskRecord]], parent: str | None, unfold: bool
) -> list[list[TaskRecord]]:
    # Tasks without children share a row if they differ only in their threads, or in the tasks that they wait for, as
    # in a chain of dependences.
    groups: dict[Any, list[TaskRecord]] = {}
    for number, row in enumerate(children.get(parent, ())):
        alike = (
            row.runtime,
            row.kind,
            row.ompt_type == "target",
            row.status,
            row.function,
            row.final,
            row.tied,
            row.parallel,
            row.waits_for and (row.waits_for.kind, row.waits_for.count, row.waits_for.dependences),
            row.unfinished_children,
            tuple(sorted(row.unavailable)),
        )
        groups.setdefault(number if unfold or row.id in children else alike, []).append(row)
    return list(groups.values())


def _task_text(group: Sequence[TaskRecord], children: Sequence[TaskRecord], verbose: bool) -> str:
    row = group[0]
    words = [f"{len(group)} x"] if len(group) > 1 else []
    words.append(f"{'target' if row.ompt_type == 'target' else format_field(row, 'kind')} task")
    if row.function is not None:
        words.append(format_place(row.function, verbose=verbose))
    elif "function" in row.unavailable:
        words.append(UNKNOWN)
    marks = (" final" if row.final else "", " untied" if row.tied is False else "")
    words.append(format_field(row, "status") + "".join(marks))
    threads = sorted({r.thread for r in group if r.thread is not None})
    if threads:
        words.append(f"thread{'s' if len(threads) > 1 else ''} {format_threads(threads)}")
    elif "thread" in row.unavailable:
        words.append(f"thread {UNKNOWN}")
    words += [*_waits(group), *_unfinished(row, children)]
    if len(group) == 1:
        words.append(row.id)
    if verbose and len(group) == 1:
        words.append(f"exit {_frame(row, 'exit_frame')}, enter {_frame(row, 'enter_frame')}")
        words.append(f"tool data {format_field(row, 'tool_data')}")
        words += [f"OMPT id {row.ompt_id}"] if row.ompt_id is not None else []
        words += [f"OMPT type {clean(row.ompt_type)}"] if row.ompt_type not in (None, row.kind) else []
    return clean("   ".join(words))


# Names shown of a long list.
_LISTED = 4


def _waits(group: Sequence[TaskRecord]) -> Iterator[str]:
    wait = group[0].waits_for
    if wait is None:
        return
    if wait.kind == "event":
        yield f"its event {wait.event:#x} is not fulfilled" if wait.event is not None else "its event is not fulfilled"
        return
    words = [f"for {wait.count} task{'' if wait.count == 1 else 's'}" if wait.count is not None else "for others"]
    if len({row.waits_for.tasks for row in group if row.waits_for is not None}) > 1:
        words[0] += " each"
    elif wait.tasks:
        words[0] += ": " + _listed(wait.tasks)
    if wait.dependences:
        words.append(_listed([_clause(item) for item in wait.dependences]))
    yield ", ".join(words)


def _clause(item: DependenceRecord) -> str:
    name = item.symbol or f"{item.address:#x}"
    # Access types other than "in" have one text, because runtimes do not distinguish them.
    access = "out/inout" if item.access == "out" else item.access
    return f"depend({access}: {name})" if access is not None else f"depend({name})"


def _listed(names: Sequence[str]) -> str:
    hidden = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {hidden} more" if hidden > 0 else "")


def _unfinished(row: TaskRecord, children: Sequence[TaskRecord]) -> Iterator[str]:
    # Yield why the children are unfinished, unless they only wait for a thread to execute them.
    explicit = [child for child in children if child.kind == "explicit" and child.status != "complete"]
    counts = {status: sum(child.status == status for child in explicit) for status in ("detached", "waiting")}
    words = [f"{count} {status}" for status, count in counts.items() if count]
    hidden = (row.unfinished_children or 0) - len(explicit)
    if hidden > 0:
        words.append(f"{hidden} not found")
    if words:
        count = max(row.unfinished_children or 0, len(explicit))
        yield f"{count} unfinished child{'' if count == 1 else 'ren'}: {', '.join(words)}"


def _frame(row: TaskRecord, key: str) -> str:
    frame: TaskFrame | None = getattr(row, key)
    if frame is None:
        return format_field(row, key)
    return f"{frame.address:#x}" + (f" (flags {frame.flags:#x})" if frame.flags is not None else "")
