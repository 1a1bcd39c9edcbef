"""Stacks as an icicle graph: the outermost function on top, its width the number of threads inside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ompd.model import StackFrame, StackRecord
from ompd.render.words import basename, format_count
from ompd.report import svg
from ompd.report.states import WORDS, state_of_stack
from ompd.short_names import short_name

_WIDTH, _HIGH = 860, 19
_NARROWEST = 0.7  # narrower boxes are not drawn
_DEEPEST = 48  # rows; deeper frames are not drawn
_MOST = 3000  # boxes


class _Node:
    __slots__ = ("children", "name", "states", "whole")

    def __init__(self, name: str, whole: str) -> None:
        self.name = name
        self.whole = whole
        self.children: dict[object, _Node] = {}
        self.states: Counter[str] = Counter()


def draw_icicle(stacks: Sequence[StackRecord], states: Mapping[int, str], key: str) -> str | None:
    """Return the picture of all stacks, None if no busy thread has one."""
    root = _Node("all threads", "all threads")
    deepest = 0
    for row in stacks:
        if row.idle or not row.frames:
            continue
        state, count = state_of_stack(row, states), len(row.threads) or 1
        root.states[state] += count
        node = root
        frames = list(reversed(row.frames))
        for frame in frames[:_DEEPEST]:
            name = _name(frame)
            node = node.children.setdefault(name, _Node(*name))
            node.states[state] += count
        deepest = max(deepest, len(frames))
    total = root.states.total()
    if not total:
        return None
    body: list[str] = []
    rows = 0
    waiting = [(root, 8.0, float(_WIDTH - 16), 0)]
    left_out = 0
    while waiting:
        node, x, wide, depth = waiting.pop()
        if wide < _NARROWEST or len(body) >= _MOST:
            left_out += 1
            continue
        rows = max(rows, depth + 1)
        body.append(_box(node, x, 4.0 + depth * _HIGH, wide))
        for child in node.children.values():
            part = wide * child.states.total() / node.states.total()
            waiting.append((child, x, part, depth + 1))
            x += part
    height = 8.0 + rows * _HIGH
    notes = [f"{format_count(left_out, 'narrower box', 'narrower boxes')} not drawn"] if left_out else []
    notes += [f"stacks of up to {deepest} frames, of which the {_DEEPEST} outermost are drawn"] * (deepest > _DEEPEST)
    for note in notes:
        height += svg.LINE
        body.append(svg.text(note, 8, height - 4, class_="note"))
    words = f"{format_count(total, 'thread')}: {_summary(root.states)}"
    return svg.picture(body, _WIDTH, height, "stacks of all threads, outermost function on top", words, key)


def _name(frame: StackFrame) -> tuple[str, str]:
    name = frame.function or (f"{frame.address:#x}" if frame.address is not None else "?")
    line = f"{basename(frame.file)}:{frame.line}" if frame.file is not None and frame.line is not None else ""
    return svg.shorten(f"{short_name(name)} {line}".rstrip()), svg.shorten(f"{name} {line}".rstrip(), 300)


def _summary(states: Counter[str]) -> str:
    return ", ".join(f"{states[state]} {words}" for state, words in WORDS.items() if states[state])


def _box(node: _Node, x: float, y: float, wide: float) -> str:
    (state, most), *_ = node.states.most_common(1)
    total = node.states.total()
    # A box whose threads are in several states has a neutral colour.
    shade = f"s-{state}" if most == total else "s-mixed"
    words = svg.title(f"{node.whole}: {format_count(total, 'thread')} ({_summary(node.states)})")
    shape = svg.element("rect", words, x=x, y=y, width=max(wide - 1, 0.5), height=float(_HIGH - 2), class_=shade)
    label = svg.fit(node.name, wide - 8)
    if not label:
        return shape
    return shape + svg.text(label, x + 4, y + 13, class_=f"on {shade}-text")
