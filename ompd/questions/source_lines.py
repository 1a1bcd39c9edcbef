"""Lines of the source around places of the code."""

from __future__ import annotations

from ompd.errors import Unavailable
from ompd.model import Place
from ompd.model.places import SourceExcerpt
from ompd.session import Session

_BEFORE, _AFTER = 2, 1
_LONGEST = 240  # characters of a line


def excerpt(session: Session, place: Place, begin: int, end: int) -> SourceExcerpt | None:
    """Return the lines around *place*, no lines if its file cannot be shown, None if its line is unknown.

    :param begin: the first line to show, with some before it
    :param end: the last one, with some behind it
    """
    if place.file is None or place.line is None or place.address is None:
        return None
    process = session.process
    module = process.symbols.module_at(place.address)
    digest = process.places.source_digest(place.address, place.file)
    first = max(begin - _BEFORE, 1)
    try:
        source = process.finder.sources.read(place.file, digest, module.path if module is not None else None)
    except Unavailable as error:
        return SourceExcerpt(place.file, place.line, first, (), note=str(error))
    if place.line > len(source.lines):
        return SourceExcerpt(
            place.file, place.line, first, (), note=f"{source.path} has only {len(source.lines)} lines"
        )
    lines = tuple(line.rstrip()[:_LONGEST] for line in source.lines[first - 1 : end + _AFTER])
    return SourceExcerpt(place.file, place.line, first, lines, source.path, source.note)
