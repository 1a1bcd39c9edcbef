"""Adds the waits of threads that seem to work, but are in a loop that only a change of a word in memory ends."""

from __future__ import annotations

from dataclasses import replace

from ompd.analysis.moment import Moment
from ompd.model import ThreadRecord
from ompd.questions.why.interventions import writing_handlers
from ompd.session import Session


def with_spins(session: Session, moment: Moment) -> Moment:
    """Return *moment* with the waits of threads that spin in user code, and with what may end these from outside.

    Threads are examined only if some seem to work, and the target has lost nothing.
    """
    working = [row for row in moment.threads if _works(row, moment)]
    if not working or moment.loss is not None:
        return moment
    from ompd.questions.why.spins import spins

    waits = spins(session, working)
    if not waits:
        return moment
    outside = (*moment.outside, *writing_handlers(session))
    return replace(moment, system={**moment.system, **waits}, outside=outside)


def _works(row: ThreadRecord, moment: Moment) -> bool:
    # Whether a thread runs in the program's code, or in a routine that this has called. The runtime's own waits are
    # known from its records.
    native = row.native_thread_id
    if native is None or row.wait is not None or native in moment.system or native in moment.unread:
        return False
    if "runtime" in row.unavailable or "wait" in row.unavailable:
        return False
    return row.where is not None and row.state not in ("idle", "overhead")
