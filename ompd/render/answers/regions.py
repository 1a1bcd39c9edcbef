"""``parallel`` as a tree, with equal regions folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ompd.model import Answer, ParallelRecord
from ompd.render.words import UNKNOWN, clean, format_field, format_list, format_place


def region_lines(
    answer: Answer[ParallelRecord], *, unfold: bool = False, verbose: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield the regions as ``(depth, text)``, each after its enclosing region. Equal siblings are folded unless
    *unfold*.
    """
    ids = {row.id for row in answer.rows}
    children: dict[str | None, list[ParallelRecord]] = {}
    for row in answer.rows:
        children.setdefault(row.enclosing if row.enclosing in ids else None, []).append(row)
    shapes = {} if unfold else _shapes(children)
    pending = [(0, False, group) for group in reversed(_fold(children, None, shapes))]
    while pending:
        depth, inside_folded, group = pending.pop()
        yield depth, _region_text(group, verbose, inside_folded)
        folded = inside_folded or len(group) > 1
        pending += [(depth + 1, folded, inner) for inner in reversed(_fold(children, group[0].id, shapes))]


def _fold(
    children: Mapping[str | None, list[ParallelRecord]], parent: str | None, shapes: Mapping[str, int]
) -> list[list[ParallelRecord]]:
    groups: dict[int, list[ParallelRecord]] = {}
    for number, row in enumerate(children.get(parent, ())):
        groups.setdefault(shapes.get(row.id, -1 - number), []).append(row)
    return list(groups.values())


def _shapes(children: Mapping[str | None, list[ParallelRecord]]) -> dict[str, int]:
    # Number the shapes of regions: regions that are equal, with all regions inside, except for thread ids, get the same
    # number. Innermost regions come first, so that each region is visited once at any depth.
    order = list(children.get(None, ()))
    for row in order:
        order += children.get(row.id, ())
    numbers: dict[tuple[Any, ...], int] = {}
    shapes: dict[str, int] = {}
    for row in reversed(order):
        sizes = row.team_size, row.requested, row.requested_by, row.reduction
        facts = (row.runtime, *sizes, row.active_level, row.function, tuple(sorted(row.unavailable)))
        shape = (facts, tuple(shapes[child.id] for child in children.get(row.id, ())))
        shapes[row.id] = numbers.setdefault(shape, len(numbers))
    return shapes


def _region_text(group: Sequence[ParallelRecord], verbose: bool, inside_folded: bool) -> str:
    # Return the text of a row for equal regions. A row inside of a folded row stands for several regions, one in each
    # folded region, so it names no threads.
    row = group[0]
    size = format_field(row, "team_size")
    team = f"{size} thread{'' if row.team_size == 1 else 's'}"
    if row.requested is not None and row.team_size is not None and row.requested > row.team_size:
        team += f" of {row.requested} requested"
        team += f" ({row.reduction or format_field(row, 'reduced_by')})"
    elif verbose:
        team += f" of {format_field(row, 'requested')} requested"
    place = format_place(row.function, verbose=verbose) if row.function is not None else format_field(row, "function")
    words = [
        f"parallel  {place}",
        f"level {format_field(row, 'level')}",
        f"active level {format_field(row, 'active_level')}",
        team,
    ]
    if len(group) > 1:
        words.insert(0, f"{len(group)} x")
    elif not inside_folded:
        words.append(format_list([str(t) if t is not None else UNKNOWN for t in row.threads]))
    if len(group) == 1 and not inside_folded:
        words.append(row.id)
        if verbose:
            words.append(f"tool data {format_field(row, 'tool_data')}")
            words += [f"OMPT id {row.ompt_id}"] if row.ompt_id is not None else []
    return clean("   ".join(words))
