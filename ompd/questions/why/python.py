"""Which threads may hold Python's interpreter lock where the interpreter does not say who does."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ompd.contract.code_owners import SYSTEM
from ompd.contract.process import Module, Stack
from ompd.errors import OmpdError
from ompd.questions import places
from ompd.session import Session

_INTERPRETS = "_PyEval_EvalFrame"
_MAX_FRAMES = 1 << 10


def may_hold_interpreter(session: Session, waiting: Collection[int], at_work: Collection[int]) -> frozenset[int]:
    """Return the native ids of the threads that may hold the interpreter lock, by their stacks.

    That is who is inside of Python's code and does not wait for the lock, but for a thread that waits in a call of the
    kernel which the interpreter itself made: before such calls it lets go of the lock.

    :param waiting: the threads that wait for the lock
    :param at_work: those that wait for nothing
    """
    found = set()
    for thread in session.process.threads.ids():
        if thread not in waiting:
            with suppress(OmpdError):
                called_others = _called_others(session, session.process.stacks.stack(thread))
                if called_others or (called_others is not None and thread in at_work):
                    found.add(thread)
    return frozenset(found)


def _called_others(session: Session, stack: Stack) -> bool | None:
    # Whether the innermost code of Python on a stack has called a library of others, None without such code.
    inner: list[tuple[Module | None, int]] = []
    for frame in stack.frames[:_MAX_FRAMES]:
        place = session.process.places.locate(frame.call_site)
        if place.symbol is not None and place.symbol.startswith(_INTERPRETS):
            return any(module != place.module and places.code_owner(session, site) != SYSTEM for module, site in inner)
        inner.append((place.module, frame.call_site))
    return None
