"""Finds what may end a thread's wait from elsewhere: signals, cancellation, timers and other processes.

For a live process it is known which signals have handlers, for a core it is not. :mod:`ompd.debugger.flow.handlers`
finds what a handler does, by the code that installs it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ompd import naming
from ompd.analysis.words import counted
from ompd.contract.code_owners import RUNTIME, SYSTEM
from ompd.errors import OmpdError, Unavailable
from ompd.model import SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.flow.handlers import Handler

_UNDEFINED = "undefined"  # OMPT's name for a state that it does not define


def interrupted(session: Session, rows: Sequence[ThreadRecord]) -> tuple[tuple[ThreadRecord, ...], frozenset[int]]:
    """Return the records without waits that a signal handler has interrupted and is still running.

    Also return the native ids of threads whose handler has called the runtime. Their records keep their wait, which is
    that of the handler.
    """
    records: list[ThreadRecord] = []
    waiting: set[int] = set()
    for row in rows:
        native = row.native_thread_id
        if native is not None and (row.wait is not None or row.state == "idle"):
            sites = _sites_of_handlers(session, native)
            if any(places.code_owner(session, site) == RUNTIME for site in sites):
                waiting.add(native)
            elif sites:
                row = replace(row, wait=None, state=_UNDEFINED)
        records.append(row)
    return tuple(records), frozenset(waiting)


def waiting_in_handlers(session: Session, threads: Iterable[int]) -> frozenset[int]:
    """Return the native ids of those *threads* that are inside of the runtime in a signal handler."""
    return frozenset(
        thread
        for thread in threads
        if any(places.code_owner(session, site) == RUNTIME for site in _sites_of_handlers(session, thread))
    )


def _sites_of_handlers(session: Session, thread: int) -> Sequence[int]:
    # Return the call sites of the frames inside of a thread's signal handlers, innermost first. Empty without a
    # handler, and if the stack is unknown.
    with suppress(OmpdError):
        stack = session.process.stacks.stack(thread)
        return stack.shape[1][: session.process.waiting.frames_of_handlers(stack)]
    return ()


# The waits that a handler without SA_RESTART ends with EINTR. After a signal, the C library resumes all other waits
# itself, and the OpenMP runtimes resume theirs.
_INTERRUPTIBLE = (Kind.SEMAPHORE, Kind.FUTEX)


def signalled(session: Session, threads: Iterable[int], system: Mapping[int, SystemWait]) -> dict[int, str]:
    """Return how a signal may set free a thread, by native id, for those *threads* that a signal may set free.

    :param system: the waits outside of OpenMP, by native id
    """
    handlers = _handlers(session)
    set_free: dict[int, str] = {}
    for thread in threads if handlers else ():
        blocked = _blocked(session, thread)
        ends_so = _ends_by_signals(session, thread, system.get(thread))
        coming = (h for h in handlers if (h.releases or (h.ends and ends_so)) and h.may_come(blocked))
        handler = next(coming, None)
        if handler is not None:
            does = "may do anything" if handler.releases else f"would end the wait of thread {thread}"
            set_free[thread] = f"the program has {_name_of_handler(handler)}, which {does}"
    return set_free


def writing_handlers(session: Session) -> tuple[str, ...]:
    """Return texts about the signal handlers that may write a word for which a thread spins."""
    blocked = [_blocked(session, thread) for thread in session.process.threads.ids()]
    names = (
        _name_of_handler(handler)
        for handler in _handlers(session)
        if (handler.releases or handler.writes) and any(map(handler.may_come, blocked))
    )
    return tuple(f"the program has {name}, which may write this word" for name in dict.fromkeys(names))


def _handlers(session: Session) -> Sequence[Handler]:
    process, caught = session.process, None
    with suppress(Unavailable):
        caught = process.system.handled_signals()
        if not caught:
            return ()
    return process.handlers(naming.ROUTINES(), partial(places.is_users, session)).all(caught)


def _blocked(session: Session, thread: int) -> frozenset[int]:
    # Return the signals that a thread blocks. If they are unknown, it may block none.
    with suppress(OmpdError):
        return session.process.system.pending_signals(thread).blocked
    return frozenset()


def _ends_by_signals(session: Session, thread: int, wait: SystemWait | None) -> bool:
    if wait is None or wait.kind not in _INTERRUPTIBLE:
        return False
    with suppress(OmpdError):
        owners = (places.code_owner(session, site) for site in session.process.stacks.stack(thread).shape[1])
        return next((owner for owner in owners if owner != SYSTEM), None) != RUNTIME
    return True


def _name_of_handler(handler: Handler) -> str:
    if handler.number is None:
        return "a handler for some signal"
    names = {number.value: number.name for number in signal.Signals}
    return f"a handler for {names.get(handler.number, f'signal {handler.number}')}"


_CANCEL = "pthread_cancel"
# The kinds of waits that are cancellation points. Kinds that end by themselves or from outside are left out.
_CANCELLATION_POINTS = (Kind.CONDITION, Kind.SEMAPHORE, Kind.JOIN, Kind.GIL)


def cancelled(session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]) -> dict[int, str]:
    """Return the reason why a waiting thread may be cancelled, by native id, for those that may be.

    A cancelled thread leaves its wait, and its clean-up may let others go on. OpenMP runtimes do not count: they cancel
    only their own threads, when the runtime shuts down.

    :param system: the waits outside of OpenMP, by native id
    """
    callers = [
        (loaded.record, names)
        for loaded, names in session.process.symbols.naming((_CANCEL,))
        if not naming.is_runtime_file(loaded.name)
    ]
    if not callers:
        return {}
    module, names = callers[0]
    name = "the program" if module.is_program else module.name.rpartition("/")[2]
    reason = f"{name} may cancel a thread in its wait ({_CANCEL})"
    if not names:
        reason = f"whether {name} calls {_CANCEL} is not known"
    reasons: dict[int, str] = {}
    for row in rows:
        native = row.native_thread_id
        if native is None or (row.wait is None and row.state != "idle" and native not in system):
            continue
        if _may_be_cancelled(session, native, system.get(native)):
            reasons[native] = reason
    return reasons


def _may_be_cancelled(session: Session, thread: int, wait: SystemWait | None) -> bool:
    # Return whether a thread can be cancelled in its wait. True if its cancellation state is unknown.
    process = session.process
    try:
        is_enabled, is_at_any_time = process.glibc.cancelling(process.threads.pthread_self(thread))
        if not is_enabled or is_at_any_time:
            return is_enabled
        inner = wait if wait is not None else process.system_waits.of(thread)
    except OmpdError:
        return True
    return inner is not None and inner.kind in _CANCELLATION_POINTS


def from_outside(session: Session) -> tuple[str, ...]:
    """Return texts about anything outside that may act on a process while all of its threads sleep.

    These are other processes with the same memory, and timers. Without them, and unless the process is live, these are
    pending signals.
    """
    causes: list[str] = []
    threads = session.process.threads.ids()
    if threads:  # a core that is cut off may have lost them all
        with suppress(OmpdError):
            # The first thread may have ended before the others.
            sharers = session.process.system.sharers(max(threads))
            causes += [f"process {process} has the same memory, and may do anything" for process in sharers]
    with suppress(OmpdError):
        count = len(session.process.system.timers())
        if count:
            causes.append(f"the process has {counted(count, 'timer')}, whose signals may do anything")
    if session.target.kind != "live" and not causes:
        causes += _pending(session)
    return tuple(causes)


def _pending(session: Session) -> Iterator[str]:
    # Yield a text for the first signal that is pending and not blocked, because it is about to arrive. A core does not
    # show whether the signal has a handler.
    for thread in session.process.threads.ids():
        with suppress(OmpdError):
            pending = session.process.system.pending_signals(thread)
            coming = sorted((pending.thread | (pending.process or frozenset())) - pending.blocked)
            if coming:
                yield f"signal {coming[0]} is about to reach thread {thread}, whose handler may do anything"
                return
