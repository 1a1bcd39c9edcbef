"""Orders rows as a tree, with each row after its parent."""

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
    """Return the rows depth first, each after the row whose id *parent_of* returns, if that is among them.

    :param order: the sort key of a row among those of a parent; None keeps the order of *rows*
    """
    ids = {row.id for row in rows}
    children: dict[str | None, list[_Row]] = {}
    for row in rows:
        parent = parent_of(row)
        children.setdefault(parent if parent in ids else None, []).append(row)
    if order is not None:
        for parent, group in children.items():
            group.sort(key=lambda row, parent=parent: order(parent, row))  # type: ignore[misc]
    # No recursion, because a target may claim any depth.
    tree: list[_Row] = []
    waiting = children.pop(None, [])[::-1]
    while waiting:
        row = waiting.pop()
        tree.append(row)
        inner = children.pop(row.id, None)
        if inner is not None:
            waiting += inner[::-1]
    # The rows that are left are in circles of parents.
    return tree + [row for group in children.values() for row in group]
