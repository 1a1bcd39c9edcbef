"""Lines of the source around places of the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ompd.errors import Unavailable
from ompd.model import Answer, Place
from ompd.model.places import SourceExcerpt, StackFrame
from ompd.session import Session

_BEFORE, _AFTER = 2, 1
_NOTED = 4  # lines on each side of a place in snapshots


def excerpt(session: Session, place: Place, begin: int, end: int) -> SourceExcerpt | None:
    """Return the lines around *place*, no lines if its file cannot be shown, None if its line is unknown.

    :param begin: the first line to show, with some before it
    :param end: the last one, with some behind it
    """
    if place.file is None or place.line is None or place.address is None:
        return None
    first = max(begin - _BEFORE, 1)
    try:
        source = session.process.source_code.lines(place.address, place.file, place.line, first, end + _AFTER)
    except Unavailable as error:
        return SourceExcerpt(place.file, place.line, first, (), note=str(error))
    return SourceExcerpt(place.file, place.line, source.first, source.lines, source.path, source.note)


def read_around_places(session: Session, answers: Mapping[str, Answer[Any]]) -> None:
    """Read the lines of source around the places of threads, regions, tasks and frames of user code.

    A process that notes its reads puts these lines into a snapshot.

    :param answers: the answers of ``threads``, ``parallel``, ``tasks`` and ``stack``, if there are any
    """
    seen = set()
    for place in _places(answers):
        if place.line is not None and (place.file, place.line) not in seen:
            seen.add((place.file, place.line))
            excerpt(session, place, place.line - _NOTED + _BEFORE, place.line + _NOTED - _AFTER)


def _places(answers: Mapping[str, Answer[Any]]) -> Iterator[Place]:
    rows = {name: answer.rows for name, answer in answers.items()}
    for thread in rows.get("threads", ()):
        if thread.where is not None:
            yield thread.where
    for row in (*rows.get("parallel", ()), *rows.get("tasks", ())):
        if row.function is not None:
            yield Place(row.function.address, row.function.function, row.function.file, row.function.line)
    for stack in rows.get("stack", ()):
        yield from _of_frames(stack.frames)


def _of_frames(frames: tuple[StackFrame, ...]) -> Iterator[Place]:
    for frame in frames:
        if frame.kind in ("user", "unknown"):
            yield Place(frame.address, frame.function, frame.file, frame.line)
