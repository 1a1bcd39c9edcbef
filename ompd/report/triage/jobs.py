"""The waits of a job: boxes of waiting ranks, and below them the ranks on which they depend."""

from __future__ import annotations

from ompd.model.triage import JobRecord, RankEnd
from ompd.render.answers.triage import folded
from ompd.report import svg
from ompd.report.boxes import ARROW_X, LEFT, Box, lines_of, width_beside, words_beside

_MOST = 6  # drawn ends
_CALLS = 5  # drawn calls for each end
_GAP, _LENGTH = 10.0, 32.0


def draw_job(job: JobRecord, key: str) -> str | None:
    """Return the picture, None if no rank is known to wait for another."""
    ends = job.ends[:_MOST]
    if not ends:
        return None
    body = [svg.arrowhead(key)]
    y, width = LEFT, 0.0
    for end in ends:
        parts, y, wide = _end(job, end, y, key)
        body += parts
        y += 2 * _GAP
        width = max(width, wide)
    undrawn = len(job.ends) - len(ends)
    if undrawn:
        y += svg.LINE
        body.append(svg.text(f"{undrawn} more not drawn", LEFT, y - 8, class_="note"))
    words = "; ".join(_words(end) for end in ends)
    name = f"who waits for whom in job {job.job}" if job.job is not None else "who waits for whom across ranks"
    return svg.picture(body, width + LEFT, y, name, words, key)


def _words(end: RankEnd) -> str:
    waiting = f"ranks [{folded(end.waiting)}] in the end wait for ranks [{folded(end.ranks)}]"
    return f"{waiting}: {end.summary}" if end.summary is not None else f"{waiting}, {_kind(end)}"


def _kind(end: RankEnd) -> str:
    return {"cycle": "wait for each other", "not_inspected": "not inspected"}.get(end.kind, end.verdict or "?")


def _end(job: JobRecord, end: RankEnd, y: float, key: str) -> tuple[list[str], float, float]:
    # Return a box for each call with waiting ranks, an arrow to the box of the ranks that they depend on, the lower
    # edge of that box, and the right edge of all.
    waiting = set(end.waiting)
    calls = [(sorted(waiting.intersection(wait.ranks)), wait.call) for wait in job.waits]
    calls = [(ranks, call) for ranks, call in calls if ranks]
    shown = calls[:_CALLS] or ([(sorted(waiting), "")] if waiting else [])
    boxes = [Box(_lines(ranks, f"in {call}" if call else "")) for ranks, call in shown]
    if len(calls) > len(shown):
        boxes.append(Box([f"{len(calls) - len(shown)} more calls"]))
    last = Box(_lines(sorted(end.ranks), _kind(end)), end.summary, is_root=True)
    width = max(box.width for box in (*boxes, last))
    parts, begin = [], y
    for box in boxes:
        parts.append(box.draw(y, width))
        y += box.height + _GAP
    if not boxes:
        return [last.draw(y, width)], y + last.height, LEFT + width
    # The arrow begins in the first box, and all boxes stand on it.
    low = y - _GAP + _LENGTH
    path = f"M{ARROW_X:.0f},{begin + boxes[0].height:.0f} V{low - 2:.0f}"
    arrow = svg.element("path", d=path, class_="arrow", marker_end=f"url(#{key}-head)")
    words = ["in the end wait for"]
    right = max(LEFT + width, width_beside(words))
    parts = [arrow, *parts, *words_beside(words, y - _GAP), last.draw(low, width)]
    return parts, low + last.height, right


def _lines(ranks: list[int], more: str) -> list[str]:
    times = f"{svg.TIMES}{len(ranks)}  " if len(ranks) > 1 else ""
    ranks_text = f"{times}{'rank' if len(ranks) == 1 else 'ranks'} [{folded(ranks)}]"
    return [*lines_of(ranks_text), *lines_of(more)]
