"""The tree of all stacks as an icicle graph: outermost functions on top, and rare ones wide enough to be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.model.triage import TreeNode
from ompd.render.answers.triage import format_frame, format_rank_sets, format_roles
from ompd.render.words import format_count
from ompd.report import svg

SHARES: Mapping[str, str] = {
    "missing": "a single target",
    "waits": "less than a tenth of the targets",
    "arrived": "less than half of the targets",
    "works": "half of the targets or more",
}
"""The colours of boxes, by the share of targets with threads in the function."""

_HIGH = 19
_NARROW, _WIDE = 860, 2400  # widths of the picture
_LEAST = 84.0  # the least width of a box, if there is room
_NARROWEST = 0.7  # narrower boxes are not drawn
_DEEPEST = 48  # rows; deeper functions are not drawn
_MOST = 3000  # boxes


def share(targets: int, inspected: int) -> str:
    """Return the key in :data:`SHARES` for a function in which *targets* of the *inspected* targets have threads."""
    if targets == 1 and inspected > 1:
        return "missing"
    part = targets / max(inspected, 1)
    return "waits" if part < 0.1 else "arrived" if part < 0.5 else "works"


def draw_tree(nodes: Sequence[TreeNode], inspected: int, key: str) -> str | None:
    """Return the picture, None if the tree is empty.

    :param inspected: the number of targets in the tree
    """
    if not nodes:
        return None
    below = _children(nodes)
    leaves = sum(node.id not in below for node in nodes)
    width = min(max(leaves * _LEAST + 16, _NARROW), _WIDE)
    room = _needed(nodes, below, min(_LEAST, (width - 16) / leaves))
    body: list[str] = []
    left_out = rows = 0
    waiting = _placed(below.get(None, ()), 8.0, width - 16, 0.0, room, 0)
    while waiting:
        node, x, wide, depth = waiting.pop()
        if wide < _NARROWEST or len(body) >= _MOST or depth >= _DEEPEST:
            left_out += 1
            continue
        rows = max(rows, depth + 1)
        body.append(_box(node, x, 4.0 + depth * _HIGH, wide, inspected))
        waiting += _placed(below.get(node.id, ()), x, wide, sum(node.ends.values()), room, depth + 1)
    height = 8.0 + rows * _HIGH
    if left_out:
        height += svg.LINE
        note = f"{format_count(left_out, 'narrower or deeper box', 'narrower or deeper boxes')} not drawn"
        body.append(svg.text(note, 8, height - 4, class_="note"))
    words = f"{format_count(inspected, 'target')}, {format_count(len(nodes), 'function')} by their callers"
    return svg.picture(body, width, height, "tree of all stacks, outermost function on top", words, key)


def _children(nodes: Sequence[TreeNode]) -> dict[int | None, list[TreeNode]]:
    children: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    return children


def _needed(
    nodes: Sequence[TreeNode], below: Mapping[int | None, Sequence[TreeNode]], least: float
) -> dict[int | None, float]:
    # Return the width that each node needs so that all its callees have the least width. *nodes* has callers first.
    needed: dict[int | None, float] = {}
    for node in reversed(nodes):
        inner = sum(needed[child.id] for child in below.get(node.id, ()))
        needed[node.id] = max(least, inner)
    return needed


def _placed(
    nodes: Sequence[TreeNode], x: float, wide: float, ends: float, room: Mapping[int | None, float], depth: int
) -> list[tuple[TreeNode, float, float, int]]:
    # Return the callees of one caller, each with its x, its width and its depth. Each gets the width that it needs. The
    # remaining width is divided by numbers of threads, and threads that end in the caller have a share, too.
    boxes = []
    needed = sum(room[node.id] for node in nodes)
    threads = [sum(node.threads.values()) for node in nodes]
    total = sum(threads) + ends
    left = max(wide - needed, 0.0)
    for node, count in zip(nodes, threads, strict=True):
        part = min(room[node.id], wide) + (left * count / total if total else 0.0)
        boxes.append((node, x, part, depth))
        x += part
    return boxes


def _box(node: TreeNode, x: float, y: float, wide: float, inspected: int) -> str:
    name = format_frame(node)
    ranks = "".join(f", ranks {text}" for text in format_rank_sets(node.ranks))
    targets = format_count(node.targets, "target")
    words = svg.title(f"{name}: {targets} of {inspected}{ranks}; {format_roles(node.threads)}")
    shade = f"s-{share(node.targets, inspected)}"
    shape = svg.element("rect", words, x=x, y=y, width=max(wide - 1, 0.5), height=float(_HIGH - 2), class_=shade)
    label = svg.fit(f"{node.targets}: {name}", wide - 8)
    return shape + svg.text(label, x + 4, y + 13, class_="on") if label else shape
