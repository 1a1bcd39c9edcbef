"""A histogram of a variable's values over threads."""

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
    """Return the histogram, None if there are no numbers or only equal ones."""
    values = [(_number(row.value), row.outlier) for row in rows]
    numbers = [(value, is_outlier) for value, is_outlier in values if value is not None]
    low, high = (min(v for v, _ in numbers), max(v for v, _ in numbers)) if numbers else (0.0, 0.0)
    if not numbers or low == high or not math.isfinite(high - low):
        return None
    bins = [0] * _BINS
    odd = [False] * _BINS
    for value, is_outlier in numbers:
        index = min(int((value - low) / (high - low) * _BINS), _BINS - 1)
        bins[index] += 1
        odd[index] = odd[index] or is_outlier
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
    words = f"{format_count(len(numbers), 'value')} from {low:g} to {high:g}; at most {most} in one of {_BINS} bins"
    return svg.picture(body, _WIDTH, base + 22, f"histogram of {name}", words, key)


def _number(value: object) -> float | None:
    # Records hold integers beyond 2**53 as strings. Addresses are strings, too, but are not to be compared.
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, (int, float)):
            number = float(value)
        elif isinstance(value, str) and _WHOLE.fullmatch(value):
            number = float(int(value))
        else:
            return None
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
