"""Trees as text: the lines in front of each row that lead to what it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# Recursion of tasks, and of regions, goes thousands of levels deep.
_MAX_DEPTH = 40
# The stem beside rows that follow, and the branch of a row, of the last one, and none.
_DRAWN = ("│  ", "├─ ", "└─ ")
_ASCII = ("|  ", "|- ", "`- ")


def grow(rows: Iterable[tuple[int, str]], *, drawn: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each row of a tree, given as its depth and its text in the order of the tree, as its stem and its text.

    Rows deeper than forty levels are drawn at that level.

    :param drawn: whether the screen has characters for lines, else they are made of ``|`` and ``-``
    """
    beside, branch, last = _DRAWN if drawn else _ASCII
    rows = [(min(depth, _MAX_DEPTH), text) for depth, text in rows]
    # From the end: a bit for each depth at which a row follows that belongs to the same one.
    follow, masks = 0, []
    for depth, _ in reversed(rows):
        masks.append(follow)
        follow = follow & ((1 << depth) - 1) | 1 << depth
    for (depth, text), mask in zip(rows, reversed(masks), strict=True):
        stems = [beside if mask >> level & 1 else "   " for level in range(1, depth)]
        own = [branch if mask >> depth & 1 else last] if depth else []
        yield "".join((*stems, *own)), text
