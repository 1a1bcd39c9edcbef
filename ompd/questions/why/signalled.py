"""Which waiting threads a signal may take out of their waits: by what its handler does, or since it ends the wait.

A live process says for which signals it has handlers, a core does not. Which code installs them tells what they do; see
:mod:`ompd.debugger.flow.handlers`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.errors import OmpdError, Unavailable
from ompd.model import SystemWait
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.flow.handlers import Handler

# These waits end with EINTR, whatever the handler does, unless that was installed with SA_RESTART. The C library begins
# all others anew, and the runtimes begin theirs.
_ENDED = (Kind.SEMAPHORE, Kind.FUTEX)


def signalled(session: Session, threads: Iterable[int], system: Mapping[int, SystemWait]) -> dict[int, str]:
    """Return the native ids of those *threads* that a signal may set free, and how.

    :param system: what threads wait for of which no runtime names a wait
    """
    process, caught = session.process, None
    with suppress(Unavailable):
        caught = process.system.handled_signals()
        if not caught:
            return {}
    made = process.handlers(naming.ROUTINES(), lambda at: places.code_owner(session, at) == USER)
    handlers = made.all(caught)
    found: dict[int, str] = {}
    for thread in threads if handlers else ():
        blocked: frozenset[int] = frozenset()
        with suppress(OmpdError):
            blocked = process.system.pending_signals(thread).blocked
        ends_so = _ends_by_signals(session, thread, system.get(thread))
        coming = (h for h in handlers if (h.releases or (h.ends and ends_so)) and h.may_come(blocked))
        handler = next(coming, None)
        if handler is not None:
            does = "may do anything" if handler.releases else f"would end the wait of thread {thread}"
            found[thread] = f"the program has {_name(handler)}, which {does}"
    return found


def _ends_by_signals(session: Session, thread: int, wait: SystemWait | None) -> bool:
    if wait is None or wait.kind not in _ENDED:
        return False
    with suppress(OmpdError):
        owners = (places.code_owner(session, site) for site in session.process.stacks.stack(thread).shape[1])
        return next((owner for owner in owners if owner != SYSTEM), None) != RUNTIME
    return True


def _name(handler: Handler) -> str:
    if handler.number is None:
        return "a handler for some signal"
    known = {number.value: number.name for number in signal.Signals}
    return f"a handler for {known.get(handler.number, f'signal {handler.number}')}"
