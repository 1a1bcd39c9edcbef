"""The key by which targets are grouped: it decides which stacks count as the same. Increase KEY if its parts change.

Key 1 consists of the verdict and the stacks of the threads that it names. It ignores differences that depend on chance:

- the depth of a recursion: up to four functions that repeat in turn count once
- the line within a loop, for threads that run the program's code
- the folders of source files
- the suffixes and arguments that compilers add to function names
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

KEY = 1

_MOST_IN_TURN = 4
_SUFFIX = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|llvm|omp_fn|\d+))+(\.\d+)*$|\[abi:\w+\]|\[clone [^\]]*\]")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)")


class Frame(NamedTuple):
    """A function on a stack, as results have it."""

    function: str | None
    file: str | None
    line: int | None
    loop: int | None = None
    """The first line of the innermost loop around the frame, None if unknown."""
    depth: int = 1
    """How often the function repeats in its recursion."""
    construct: str | None = None
    """The kind of the OpenMP construct that the frame belongs to, None for a function's own code."""


Part = tuple[str, str, int, str]
"""A frame's part of the key: function, file name, line (inside of a loop, the loop's), construct."""


def part(frame: Frame) -> Part:
    """Return a frame's part of the key."""
    line = frame.loop if frame.loop is not None else frame.line
    return function_name(frame.function), (frame.file or "").rpartition("/")[2], line or 0, frame.construct or ""


@lru_cache(maxsize=1 << 12)
def function_name(name: str | None) -> str:
    """Return a function's name without compilers' suffixes, template arguments and parameters."""
    text = _SUFFIX.sub("", name or "?")
    if text.startswith("operator") or "::operator" in text:
        return text  # the brackets are part of the name
    while (shorter := _NESTED.sub("", text)) != text and shorter:
        text = shorter
    return text


def group_id(verdict: str, stacks: Iterable[Sequence[Frame]]) -> str:
    """Return the id of the group with this verdict and these stacks."""
    parts = sorted({tuple(map(part, frames)) for frames in stacks})
    digest = hashlib.sha256(repr((verdict, parts)).encode("utf-8", "replace")).hexdigest()
    return f"{KEY}-{digest[:16]}"


def rolled(frames: Sequence[Frame]) -> list[Frame]:
    """Return *frames*, outermost first, with only the innermost turn of each recursion, which has the current place."""
    result: list[Frame] = []
    names = [(function_name(frame.function), frame.file, frame.construct) for frame in frames]
    index = 0
    while index < len(frames):
        # Take the period that covers most frames. If several do, take the shortest.
        covered, negative = max(
            (_times(names, index, period) * period, -period) for period in range(1, _MOST_IN_TURN + 1)
        )
        period = -negative
        times = covered // period
        last = index + (times - 1) * period
        result += (frame._replace(depth=frame.depth * times) for frame in frames[last : last + period])
        index += times * period
    return result


def _times(names: Sequence[object], start: int, period: int) -> int:
    # Return how often the *period* names from *start* on follow each other. Without a repetition: 1 for a single name,
    # else 0.
    times = 1
    first = names[start : start + period]
    while names[start + times * period : start + (times + 1) * period] == first:
        times += 1
    return times if times > 1 or period == 1 else 0
