"""The wait-for graph of a verdict: a ring for a cycle, else a chain. Equal waiters share a box."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ompd.model import Link, VerdictRecord
from ompd.render.answers.why import chain_rows
from ompd.render.words import format_count
from ompd.report import svg

_MOST = 12  # drawn links
_WIDEST = 34  # characters of a line in a box
_LAST = 100  # characters below the last box
_BOX = 62  # the height of a box
_GAP = 26
_LENGTH = 150  # the least length of an arrow, which has words on it


def draw_waits(verdict: VerdictRecord, key: str) -> str | None:
    """Return the picture of a verdict's cycle or chain, None if it has none."""
    links = verdict.cycle[:_MOST]
    if not links:
        return None
    boxes = [_Box(link, row, verdict.roots) for link, row in zip(links, chain_rows(verdict.cycle, _MOST), strict=True)]
    is_cycle = len(verdict.cycle) <= _MOST and verdict.cycle[-1].holder is not None
    named = {native for link in verdict.cycle for native in link.threads}
    dependents = sum(native not in named for native in verdict.explains)
    left_out = len(verdict.cycle) - len(links)
    if is_cycle and len(boxes) > 1:
        body, width, height = _ring(boxes)
    else:
        body, width, height = _chain(boxes, closed=is_cycle)
    notes = []
    if dependents:
        notes.append(f"{format_count(dependents, 'more thread')} depend{'s' * (dependents == 1)} on these")
    if left_out:
        notes.append(f"{format_count(left_out, 'more link')} not drawn")
    for note in notes:
        height += svg.LINE
        body.append(svg.text(note, 8, height - 4, class_="note"))
    kind = "cycle" if is_cycle else "chain"
    words = "; ".join(" ".join(filter(None, row)) for row in chain_rows(verdict.cycle, _MOST))
    body = [part.replace(_ARROWHEAD, f"url(#{key}-head)") for part in body]
    return svg.picture(
        [svg.arrowhead(key), *body], width, height + 8, f"wait-for graph: {kind} of {len(links)}", words, key
    )


# A placeholder: `draw_waits` replaces it by the id of the picture's arrowhead.
_ARROWHEAD = "url(#head)"
_ARROW = {"class_": "arrow", "marker_end": _ARROWHEAD}


class _Box:
    # A waiter: its name, its place and the object of its wait.

    def __init__(self, link: Link, row: tuple[str, str, str, str], roots: Sequence[int]) -> None:
        who, self.what, where, self.holder = row
        self.is_root = any(native in roots for native in (*link.threads, link.thread) if native is not None)
        times = svg.TIMES if len(link.threads) > 1 else ""
        self.lines = [svg.shorten(f"{times}{who}", _WIDEST), svg.shorten(where, _WIDEST)]
        self.whole = f"{who} {self.what} {where} {self.holder}"
        self.width = max(90.0, 20 + max(svg.width_of(line) for line in self.lines))

    def draw(self, x: float, y: float) -> str:
        lines = [line for line in self.lines if line]
        top = y + (_BOX - svg.LINE * len(lines)) / 2 + 12
        texts = [
            svg.text(
                line,
                x + self.width / 2,
                top + number * svg.LINE,
                text_anchor="middle",
            )
            for number, line in enumerate(lines)
        ]
        shape = svg.element(
            "rect", x=x, y=y, width=self.width, height=float(_BOX), rx=6, class_="box root" if self.is_root else "box"
        )
        return svg.element("g", svg.title(self.whole), shape, *texts)


def _chain(boxes: Sequence[_Box], *, closed: bool) -> tuple[list[str], float, float]:
    body, x, top = [], 8.0, 24.0
    for number, box in enumerate(boxes):
        body.append(box.draw(x, top))
        is_last = number == len(boxes) - 1
        words = svg.shorten(box.what, _LAST if is_last else _WIDEST)
        length = max(_LENGTH, svg.width_of(words) + 24)
        middle = top + _BOX / 2
        if not is_last:
            start, end = x + box.width, x + box.width + length
            body.append(
                svg.element(
                    "path", d=f"M{start:.0f},{middle:.0f} H{end - 2:.0f}", class_="arrow", marker_end=_ARROWHEAD
                )
            )
            body.append(svg.text(words, start + length / 2, middle - 6, text_anchor="middle", class_="edge"))
            x = end
        else:
            if closed:  # the thread waits for itself
                right = x + box.width
                path = f"M{right:.0f},{middle:.0f} h24 v-{_BOX / 2 + 14:.0f} h-{24 + box.width / 2:.0f} v12"
                body.append(svg.element("path", d=path, **_ARROW))
            body.append(svg.text(words, x, top + _BOX + svg.LINE, class_="edge"))
            x += max(box.width + 32, svg.width_of(words))
    return body, x + 8, top + _BOX + svg.LINE + 4


def _ring(boxes: Sequence[_Box]) -> tuple[list[str], float, float]:
    # Return the picture of a cycle, its width and its height. The boxes stand on an ellipse, clockwise from the top,
    # and the arrows are inside of it.
    count = len(boxes)
    wide = max(box.width for box in boxes)
    words = [svg.shorten(box.what, _WIDEST) for box in boxes]
    if count == 2:
        return _pair(boxes, words)
    radius_x = max(wide * 0.9, count * (wide + _GAP) / (2 * math.pi))
    radius_y = max(110.0, count * (_BOX + 2 * _GAP) / (2 * math.pi))
    centre_x, centre_y = 8 + radius_x + wide / 2, 8 + radius_y + _BOX / 2
    places = [
        (
            centre_x + radius_x * math.sin(2 * math.pi * number / count),
            centre_y - radius_y * math.cos(2 * math.pi * number / count),
        )
        for number in range(count)
    ]
    body = [svg.element("ellipse", cx=centre_x, cy=centre_y, rx=radius_x, ry=radius_y, class_="ring")]
    texts = []
    for number, (x, y) in enumerate(places):
        (x0, y0), (x1, y1) = (x, y), places[(number + 1) % count]
        start, end = (
            _edge_point(x0, y0, x1, y1, boxes[number]),
            _edge_point(x1, y1, x0, y0, boxes[(number + 1) % count]),
        )
        path = f"M{start[0]:.0f},{start[1]:.0f} L{end[0]:.0f},{end[1]:.0f}"
        body.append(svg.element("path", d=path, **_ARROW))
        middle_x, middle_y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        texts.append(svg.text(words[number], middle_x, middle_y + 4, text_anchor="middle", class_="edge"))
    body += [box.draw(x - box.width / 2, y - _BOX / 2) for box, (x, y) in zip(boxes, places, strict=True)]
    return [*body, *texts], 2 * centre_x, 2 * centre_y


def _pair(boxes: Sequence[_Box], words: Sequence[str]) -> tuple[list[str], float, float]:
    left, right = boxes
    length = max(_LENGTH, *(svg.width_of(word) + 24 for word in words))
    top, x = 20.0, 8.0
    far = x + left.width + length
    high, low = top + 14, top + _BOX - 14
    body = [
        left.draw(x, top),
        right.draw(far, top),
        svg.element(
            "path", d=f"M{x + left.width:.0f},{high:.0f} H{far - 2:.0f}", class_="arrow", marker_end=_ARROWHEAD
        ),
        svg.element("path", d=f"M{far:.0f},{low:.0f} H{x + left.width + 2:.0f}", **_ARROW),
        svg.text(words[0], x + left.width + length / 2, high - 6, text_anchor="middle", class_="edge"),
        svg.text(words[1], x + left.width + length / 2, low + 16, text_anchor="middle", class_="edge"),
    ]
    return body, far + right.width + 8, top + _BOX + 12


def _edge_point(x: float, y: float, to_x: float, to_y: float, box: _Box) -> tuple[float, float]:
    # Return the point at which a line from the middle of a box to another point leaves the box.
    dx, dy = to_x - x, to_y - y
    across = box.width / 2 / abs(dx) if dx else math.inf
    along = _BOX / 2 / abs(dy) if dy else math.inf
    part = min(across, along, 1.0)
    return x + dx * part, y + dy * part
