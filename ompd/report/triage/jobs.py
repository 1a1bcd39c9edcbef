"""The waits of a job: on the left boxes of waiting ranks, on the right the ranks on which they depend."""

from __future__ import annotations

from ompd.model.triage import JobRecord, RankEnd
from ompd.render.answers.triage import folded
from ompd.report import svg

_MOST = 6  # drawn ends
_CALLS = 5  # drawn calls for each end
_WIDEST = 40  # characters of a line in a box
_HIGH, _GAP, _LENGTH = 46, 12, 150


def draw_job(job: JobRecord, key: str) -> str | None:
    """Return the picture, None if no rank is known to wait for another."""
    ends = job.ends[:_MOST]
    if not ends:
        return None
    body = [svg.arrowhead(key)]
    y = 4.0
    width = 0.0
    for end in ends:
        parts, high, wide = _end(job, end, y, key)
        body += parts
        y += high + 2 * _GAP
        width = max(width, wide)
    left = len(job.ends) - len(ends)
    if left:
        y += svg.LINE
        body.append(svg.text(f"{left} more not drawn", 8, y - 8, class_="note"))
    words = "; ".join(_words(end) for end in ends)
    name = f"who waits for whom in job {job.job}" if job.job is not None else "who waits for whom across ranks"
    return svg.picture(body, width + 8, y, name, words, key)


def _words(end: RankEnd) -> str:
    waiting = f"ranks [{folded(end.waiting)}] in the end wait for ranks [{folded(end.ranks)}]"
    return f"{waiting}: {end.summary}" if end.summary is not None else f"{waiting}, {_kind(end)}"


def _kind(end: RankEnd) -> str:
    return {"cycle": "wait for each other", "not_inspected": "not inspected"}.get(end.kind, end.verdict or "?")


def _end(job: JobRecord, end: RankEnd, y: float, key: str) -> tuple[list[str], float, float]:
    # A box for each call with waiting ranks, and arrows to the box of the ranks that they depend on.
    waiting = set(end.waiting)
    calls = [(sorted(waiting.intersection(wait.ranks)), wait.call) for wait in job.waits]
    calls = [(ranks, call) for ranks, call in calls if ranks]
    shown = calls[:_CALLS] or ([(sorted(waiting), "")] if waiting else [])
    boxes = [_lines(ranks, f"in {call}" if call else "") for ranks, call in shown]
    if len(calls) > len(shown):
        boxes.append([f"{len(calls) - len(shown)} more calls"])
    wide = max((_wide(lines) for lines in boxes), default=0.0)
    high = max(len(boxes), 1) * (_HIGH + _GAP) - _GAP
    middle = y + high / 2
    body = []
    x = 8.0 + wide + _LENGTH if boxes else 8.0
    for number, lines in enumerate(boxes):
        top = y + number * (_HIGH + _GAP)
        body.append(_box(lines, 8.0, top, wide))
        path = f"M{8 + wide:.0f},{top + _HIGH / 2:.0f} L{x - 2:.0f},{middle:.0f}"
        body.append(svg.element("path", d=path, class_="arrow", marker_end=f"url(#{key}-head)"))
    if boxes:
        place = 8 + wide + _LENGTH / 2
        body.append(svg.text("in the end wait for", place, middle - 6, text_anchor="middle", class_="edge"))
    last = _lines(sorted(end.ranks), _kind(end))
    body.append(_box(last, x, middle - _HIGH / 2, _wide(last), is_root=True, words=end.summary))
    return body, high, x + _wide(last)


def _lines(ranks: list[int], more: str) -> list[str]:
    times = f"{svg.TIMES}{len(ranks)}  " if len(ranks) > 1 else ""
    who = f"{times}{'rank' if len(ranks) == 1 else 'ranks'} [{folded(ranks)}]"
    return [svg.shorten(who, _WIDEST), *([svg.shorten(more, _WIDEST)] if more else [])]


def _wide(lines: list[str]) -> float:
    return max(90.0, 20 + max(map(svg.width_of, lines)))


def _box(lines: list[str], x: float, y: float, wide: float, *, is_root: bool = False, words: str | None = None) -> str:
    top = y + (_HIGH - svg.LINE * len(lines)) / 2 + 12
    texts = [
        svg.text(line, x + wide / 2, top + number * svg.LINE, text_anchor="middle") for number, line in enumerate(lines)
    ]
    style = "box root" if is_root else "box"
    shape = svg.element("rect", x=x, y=y, width=wide, height=float(_HIGH), rx=6, class_=style)
    title = [svg.title(words)] if words is not None else []
    return svg.element("g", *title, shape, *texts)
