"""Trees as text: the branches in front of each row, which connect it with its parent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# The most levels that are drawn, because recursive tasks and regions may be thousands of levels deep.
_MAX_DEPTH = 40
# The stem of a row beside which a branch goes on, the branch of a row, and the branch of the last row of a parent.
_DRAWN = ("│  ", "├─ ", "└─ ")
_ASCII = ("|  ", "|- ", "`- ")


def grow(rows: Iterable[tuple[int, str]], *, drawn: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the stem and the text of each row of a tree. *rows* has their depths and texts in the order of the tree.

    Rows deeper than forty levels are drawn at that level.

    :param drawn: whether the screen has characters for lines, otherwise ``|`` and ``-`` are used
    """
    beside, branch, last = _DRAWN if drawn else _ASCII
    rows = [(min(depth, _MAX_DEPTH), text) for depth, text in rows]
    # Go through the rows from the end. A bit is set for each depth at which another row with the same parent follows.
    follow, masks = 0, []
    for depth, _ in reversed(rows):
        masks.append(follow)
        follow = follow & ((1 << depth) - 1) | 1 << depth
    for (depth, text), mask in zip(rows, reversed(masks), strict=True):
        stems = [beside if mask >> level & 1 else "   " for level in range(1, depth)]
        own = [branch if mask >> depth & 1 else last] if depth else []
        yield "".join((*stems, *own)), text
