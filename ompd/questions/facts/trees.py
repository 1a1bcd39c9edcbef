"""The order of rows that others enclose or have generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_Row = TypeVar("_Row", bound=_Named)


def as_tree(
    rows: Sequence[_Row],
    parent_of: Callable[[_Row], str | None],
    order: Callable[[str | None, _Row], int] | None = None,
) -> list[_Row]:
    """Return the rows depth first, each after the one that *parent_of* names, if that is one of them.

    :param order: the place of a row among those with the same parent; that in *rows* if None
    """
    known = {row.id for row in rows}
    children: dict[str | None, list[_Row]] = {}
    for row in rows:
        parent = parent_of(row)
        children.setdefault(parent if parent in known else None, []).append(row)
    if order is not None:
        for parent, group in children.items():
            group.sort(key=lambda row, parent=parent: order(parent, row))  # type: ignore[misc]
    # No recursion: how deep regions and tasks nest is the target's word.
    tree: list[_Row] = []
    waiting = children.pop(None, [])[::-1]
    while waiting:
        row = waiting.pop()
        tree.append(row)
        inner = children.pop(row.id, None)
        if inner is not None:
            waiting += inner[::-1]
    # What is left is its own parent, by way of others.
    return tree + [row for group in children.values() for row in group]
