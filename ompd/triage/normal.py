"""Which stacks are the same: the key by which targets are grouped. Whoever changes what it is made of changes KEY.

Key 1: the verdict, and the stacks of the threads that the verdict names, each without what chance decides. That is the
depth of a recursion (functions that repeat, up to four in turn, count once), the line in a loop of threads that run the
program's code, folders of source files, and the suffixes and arguments that compilers add to the names of functions.
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
    """A function on a stack, as results have it. ``loop`` is the first line of the innermost loop that it is in, known
    of threads that run the program's code; ``depth`` how often it was there, with those that repeat with it.
    ``construct`` is the kind of the OpenMP construct whose code the frame is, None for the function's own.
    """

    function: str | None
    file: str | None
    line: int | None
    loop: int | None = None
    depth: int = 1
    construct: str | None = None


Part = tuple[str, str, int, str]
"""What of a frame counts: function, file's name, line (that of the loop if it is in one), and construct."""


def part(frame: Frame) -> Part:
    """Return what of a frame counts."""
    line = frame.loop if frame.loop is not None else frame.line
    return function_name(frame.function), (frame.file or "").rpartition("/")[2], line or 0, frame.construct or ""


@lru_cache(maxsize=1 << 12)
def function_name(name: str | None) -> str:
    """Return a function's name without what compilers and templates add to it."""
    text = _SUFFIX.sub("", name or "?")
    if text.startswith("operator") or "::operator" in text:
        return text  # whose brackets are its name
    while (shorter := _NESTED.sub("", text)) != text and shorter:
        text = shorter
    return text


def group_id(verdict: str, stacks: Iterable[Sequence[Frame]]) -> str:
    """Return what targets with this verdict and these stacks have in common."""
    parts = sorted({tuple(map(part, frames)) for frames in stacks})
    digest = hashlib.sha256(repr((verdict, parts)).encode("utf-8", "replace")).hexdigest()
    return f"{KEY}-{digest[:16]}"


def rolled(frames: Sequence[Frame]) -> list[Frame]:
    """Return frames, outermost first, with those that repeat in turn once: the innermost ones, which say where."""
    found: list[Frame] = []
    names = [(function_name(frame.function), frame.file, frame.construct) for frame in frames]
    at = 0
    while at < len(frames):
        times, period = max((_times(names, at, period) * period, -period) for period in range(1, _MOST_IN_TURN + 1))
        period = -period
        times = times // period
        last = at + (times - 1) * period
        found += (frame._replace(depth=frame.depth * times) for frame in frames[last : last + period])
        at += times * period
    return found


def _times(names: Sequence[object], at: int, period: int) -> int:
    # How often the names from *at* on come in turn; 1 if they do not, and for more than one only if they do.
    times = 1
    first = names[at : at + period]
    while names[at + times * period : at + (times + 1) * period] == first:
        times += 1
    return times if times > 1 or period == 1 else 0
