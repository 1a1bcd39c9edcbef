"""How the values of a variable are spread over threads."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ompd.model import VariableRecord
from ompd.render.words import format_count
from ompd.report import svg

_WHOLE = re.compile(r"-?[0-9]{1,300}")
_BINS = 24
_WIDTH, _HIGH = 520, 110


def draw_histogram(rows: Sequence[VariableRecord], name: str, key: str) -> str | None:
    """Return the picture of numbers, None if the values are none, or all the same."""
    values = [(_number(row.value), row.outlier) for row in rows]
    known = [(value, is_outlier) for value, is_outlier in values if value is not None]
    low, high = (min(v for v, _ in known), max(v for v, _ in known)) if known else (0.0, 0.0)
    if not known or low == high or not math.isfinite(high - low):
        return None
    bins = [0] * _BINS
    odd = [False] * _BINS
    for value, is_outlier in known:
        at = min(int((value - low) / (high - low) * _BINS), _BINS - 1)
        bins[at] += 1
        odd[at] = odd[at] or is_outlier
    most, wide = max(bins), (_WIDTH - 16) / _BINS
    body = []
    for number, count in enumerate(bins):
        if not count:
            continue
        tall = max(3.0, _HIGH * count / most)
        start, end = (low + (high - low) * (number + side) / _BINS for side in (0, 1))
        words = f"{start:g} to {end:g}: {format_count(count, 'thread')}{', outlier' if odd[number] else ''}"
        x, y = 8 + number * wide, 8 + _HIGH - tall
        shade = "s-missing" if odd[number] else "s-works"
        body.append(svg.element("rect", svg.title(words), x=x, y=y, width=wide - 2, height=tall, class_=shade))
        if odd[number]:
            body.append(svg.text("*", x + wide / 2 - 1, y - 1, text_anchor="middle"))
    base = 8 + _HIGH
    body.append(svg.element("path", d=f"M8,{base} H{_WIDTH - 8}", class_="axis"))
    body.append(svg.text(f"{low:g}", 8, base + 15))
    body.append(svg.text(f"{high:g}", _WIDTH - 8, base + 15, text_anchor="end"))
    words = f"{format_count(len(known), 'value')} from {low:g} to {high:g}; at most {most} in one of {_BINS} bins"
    return svg.picture(body, _WIDTH, base + 22, f"histogram of {name}", words, key)


def _number(value: object) -> float | None:
    # Whole numbers beyond 2**53 are strings, as are addresses, which are no numbers to compare.
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, (int, float)):
            found = float(value)
        elif isinstance(value, str) and _WHOLE.fullmatch(value):
            found = float(int(value))
        else:
            return None
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
