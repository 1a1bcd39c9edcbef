"""The processors that the OpenMP runtimes of a process counted when they were initialised."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ompd.errors import OmpdError
from ompd.session import Session


class CountedProcessors(NamedTuple):
    """The number of processors that one runtime counted. ``runtime`` is its id."""

    runtime: str
    number: int


def counted_processors(session: Session) -> CountedProcessors | None:
    """Return the number by the first runtime that says it, None if none does."""
    for runtime in session.runtimes:
        with suppress(OmpdError):
            count = runtime.space.icv("num-procs-var", runtime.space) if runtime.space is not None else None
            if isinstance(count, int) and count > 0:
                return CountedProcessors(runtime.id, count)
    return None
