"""Answers in formats that other programs read: comma-separated values, folded stacks, speedscope's JSON.

Names come from the target: control characters in them are escaped, as in text.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator

from ompd.model import Answer, StackFrame, StackRecord, ThreadRecord
from ompd.render.words import UNKNOWN, Indices, basename, clean, format_target

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_PLAIN = (
    "runtime",
    "thread_num",
    "team_size",
    "level",
    "native_thread_id",
    "thread_type",
    "state",
    "state_source",
)
_OF_WAIT = ("kind", "object", "symbol", "arrived", "expected", "missing", "owner")
_OF_PLACE = ("function", "file", "line", "address")
_ADDRESSES = frozenset(("object", "address"))
# Spreadsheet programs evaluate text that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@")


def format_csv(answer: Answer[ThreadRecord], indices: Indices | None = None) -> str:
    """Return the threads as comma-separated values: a line with the names of the columns, and a line for each thread.

    A cell is empty if there is no value, and ``?`` if the value is unknown. A group of equal threads has a line.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    index_column = [indices.key] if indices is not None else []
    waits = [f"wait_{name}" for name in _OF_WAIT]
    writer.writerow([*index_column, *_PLAIN, *waits, "parallel", "task", *_OF_PLACE])
    for row in answer.rows:
        number = [str(indices.numbers.get(row.native_thread_id or 0, ""))] if indices is not None else []
        writer.writerow([*number, *_cells(row)])
    return out.getvalue()


def _cells(row: ThreadRecord) -> Iterator[str]:
    unknown = row.unavailable
    groups = {"native_thread_id": row.threads, "thread_num": row.thread_nums}
    yield from (_cell(groups.get(name) or getattr(row, name), name in unknown) for name in _PLAIN)
    for name in _OF_WAIT:
        is_unknown = "wait" in unknown or f"wait.{name}" in unknown
        value = getattr(row.wait, name) if row.wait is not None else None
        yield _cell(f"{value:#x}" if value is not None and name in _ADDRESSES else value, is_unknown)
    yield from (_cell(getattr(row, name), name in unknown) for name in ("parallel", "task"))
    for name in _OF_PLACE:
        value = getattr(row.where, name) if row.where is not None else None
        yield _cell(f"{value:#x}" if value is not None and name in _ADDRESSES else value, "where" in unknown)


def _cell(value: object, is_unknown: bool) -> str:
    if value is None:
        return UNKNOWN if is_unknown else ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    text = clean(str(value))
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


# Stacks


def format_folded(answer: Answer[StackRecord]) -> str:
    """Return a line for each distinct stack: its frames from the outermost inwards, joined by semicolons, a space and
    the number of its threads.
    """
    stacks = _counted(answer)
    lines = (f"{';'.join(map(_folded, frames))} {count}\n" for frames, count in stacks.items())
    return "".join(sorted(lines))


def format_speedscope(answer: Answer[StackRecord]) -> str:
    """Return the stacks as a file of speedscope: one profile, in which each thread is a sample."""
    numbers: dict[_Frame, int] = {}
    samples, weights = [], []
    for frames, count in sorted(_counted(answer).items(), key=lambda item: tuple(map(_folded, item[0]))):
        samples.append([numbers.setdefault(frame, len(numbers)) for frame in frames])
        weights.append(count)
    title = format_target(answer.target, answer.runtimes)
    shared = [
        {"name": name} | ({"file": file} if file is not None else {}) | ({"line": line} if line is not None else {})
        for name, file, line in numbers
    ]
    profile = {
        "type": "sampled",
        "name": "threads",
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "ompd",
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": shared},
            "profiles": [profile],
        }
    )


# A function, its file and its line.
_Frame = tuple[str, "str | None", "int | None"]


def _counted(answer: Answer[StackRecord]) -> Counter[tuple[_Frame, ...]]:
    # Return how many threads have each distinct stack. Stacks begin with the outermost frame.
    stacks: Counter[tuple[_Frame, ...]] = Counter()
    for row in answer.rows:
        frames = tuple(_frame(frame) for frame in reversed(row.frames))
        if row.stopped is not None:
            frames = (("(stack could not be followed further)", None, None), *frames)
        stacks[frames or ((_without_frames(row), None, None),)] += len(row.threads)
    return stacks


def _without_frames(row: StackRecord) -> str:
    return "(idle in the pool)" if row.idle else "(no user code)"


def _frame(frame: StackFrame) -> _Frame:
    name = "(signal handler called)" if frame.signal else frame.function
    if name is None:
        name = f"{frame.address:#x}" if frame.address is not None else UNKNOWN
        name += f" in {basename(frame.module)}" if frame.module is not None else ""
    return clean(name), clean(frame.file) if frame.file is not None else None, frame.line


def _folded(frame: _Frame) -> str:
    name, file, line = frame
    line_text = f" ({basename(file)}:{line})" if file is not None and line is not None else ""
    return (name + line_text).replace(";", ":")
