"""The wait-for graph of a verdict: a box for each waiter, below it what it waits for. Equal waiters share a box."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.model import Link, VerdictRecord
from ompd.render.answers.why import chain_rows
from ompd.render.words import format_count
from ompd.report import svg
from ompd.report.boxes import ARROW_X, LEFT, Box, lines_of, width_beside, words_beside

_FIRST, _LAST = 7, 5  # drawn links: the first ones, and the last ones, on which the others depend
_ROOM = 16.0  # of an arrow, in addition to its words
_LANE = 16.0  # of the arrow back to the first box


def draw_waits(verdict: VerdictRecord, key: str) -> str | None:
    """Return the picture of a verdict's cycle or chain, None if it has none."""
    links = verdict.cycle
    if not links:
        return None
    rows = list(chain_rows(links, len(links)))
    left_out = range(_FIRST, len(links) - _LAST)
    drawn = [number for number in range(len(links)) if number not in left_out]
    boxes = {number: _box(links[number], rows[number], verdict.roots) for number in drawn}
    waits = {number: lines_of(rows[number][1]) for number in drawn}
    is_cycle = links[-1].holder is not None
    width = max(box.width for box in boxes.values())
    right = max(LEFT + width + _LANE, *map(width_beside, waits.values()))
    body = [svg.arrowhead(key)]
    head = f"url(#{key}-head)"
    y = LEFT
    middle = y + boxes[drawn[0]].height / 2
    for number, following in zip(drawn, [*drawn[1:], None], strict=True):
        body.append(boxes[number].draw(y, width))
        y += boxes[number].height
        words = waits[number]
        if following is not None and following != number + 1:
            words = [*words, f"… {format_count(len(left_out), 'more link')} …"]
        end = y + _ROOM + svg.LINE * len(words)
        if following is not None:
            body.append(_arrow(f"M{ARROW_X:.0f},{y:.0f} V{end - 2:.0f}", head))
        elif is_cycle:
            path = f"M{ARROW_X:.0f},{y:.0f} V{end - 4:.0f} H{right:.0f} V{middle:.0f} H{LEFT + width + 2:.0f}"
            body.append(_arrow(path, head))
        body += words_beside(words, y)
        y = end
    named = {native for link in links for native in link.threads}
    dependents = sum(native not in named for native in verdict.explains)
    if dependents:
        y += svg.LINE
        depend = "depends" if dependents == 1 else "depend"
        body.append(svg.text(f"{format_count(dependents, 'more thread')} {depend} on these", 8, y - 4, class_="note"))
    name = f"wait-for graph: {'cycle' if is_cycle else 'chain'} of {len(links)}"
    described = "; ".join(" ".join(filter(None, rows[number])) for number in drawn)
    return svg.picture(body, right + LEFT, y + 8, name, described, key)


def _arrow(path: str, head: str) -> str:
    return svg.element("path", d=path, class_="arrow", marker_end=head)


def _box(link: Link, row: tuple[str, str, str, str], roots: Sequence[int]) -> Box:
    who, what, where, holder = row
    times = svg.TIMES if len(link.threads) > 1 else ""
    is_root = any(native in roots for native in (*link.threads, link.thread) if native is not None)
    return Box([*lines_of(f"{times}{who}"), *lines_of(where)], f"{who} {what} {where} {holder}", is_root)
