"""Threads that a signal has interrupted where they wait: until its handler returns, they do what that does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ompd.contract.code_owners import RUNTIME
from ompd.errors import OmpdError
from ompd.model import ThreadRecord
from ompd.questions import places
from ompd.session import Session

_STATE = "undefined"  # OMPT's word for a state that is none of its own


def interrupted(session: Session, rows: Sequence[ThreadRecord]) -> tuple[tuple[ThreadRecord, ...], frozenset[int]]:
    """Return the records without the waits that handlers have interrupted, and the native ids of threads whose handler
    itself waits for what its record says.
    """
    found: list[ThreadRecord] = []
    waiting: set[int] = set()
    for row in rows:
        native = row.native_thread_id
        if native is not None and (row.wait is not None or row.state == "idle"):
            sites = _sites(session, native)
            if any(places.code_owner(session, site) == RUNTIME for site in sites):
                waiting.add(native)
            elif sites:
                row = replace(row, wait=None, state=_STATE)
        found.append(row)
    return tuple(found), frozenset(waiting)


def waiting_in_handlers(session: Session, threads: Iterable[int]) -> frozenset[int]:
    """Return those of *threads* whose handler of a signal is inside of the runtime."""
    return frozenset(
        thread
        for thread in threads
        if any(places.code_owner(session, site) == RUNTIME for site in _sites(session, thread))
    )


def _sites(session: Session, thread: int) -> Sequence[int]:
    # Where the frames of its handlers are, innermost first; none if it is in no handler, or its stack is unknown.
    with suppress(OmpdError):
        stack = session.process.stacks.stack(thread)
        return stack.shape[1][: session.process.waiting.frames_of_handlers(stack)]
    return ()
