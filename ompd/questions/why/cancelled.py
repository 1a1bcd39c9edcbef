"""Which waiting threads another one may cancel: they leave their waits, and what they clean up may let others go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd import naming
from ompd.errors import OmpdError
from ompd.model import SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from ompd.session import Session

_ROUTINE = "pthread_cancel"
# Of the waits that do not end by themselves or from outside, those in calls that are cancellation points.
_POINTS = (Kind.CONDITION, Kind.SEMAPHORE, Kind.JOIN, Kind.GIL)


def cancelled(session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]) -> dict[int, str]:
    """Return the native ids of waiting threads that may be cancelled, and why that is so.

    Runtimes cancel their own threads when they end, and nobody else's.

    :param system: what threads wait for of which no runtime names a wait
    """
    callers = [
        (loaded.record, names)
        for loaded, names in session.process.symbols.naming((_ROUTINE,))
        if not naming.is_runtime_file(loaded.name)
    ]
    if not callers:
        return {}
    module, names = callers[0]
    name = "the program" if module.is_program else module.name.rpartition("/")[2]
    reason = f"{name} may cancel a thread in its wait ({_ROUTINE})"
    if not names:
        reason = f"whether {name} calls {_ROUTINE} is not known"
    found: dict[int, str] = {}
    for row in rows:
        native = row.native_thread_id
        if native is None or (row.wait is None and row.state != "idle" and native not in system):
            continue
        if _may_be(session, native, system.get(native)):
            found[native] = reason
    return found


def _may_be(session: Session, thread: int, wait: SystemWait | None) -> bool:
    # What is not known of it may be.
    process = session.process
    try:
        is_enabled, is_at_any_time = process.glibc.cancelling(process.threads.pthread_self(thread))
        if not is_enabled or is_at_any_time:
            return is_enabled
        inner = wait if wait is not None else process.system_waits.of(thread)
    except OmpdError:
        return True
    return inner is not None and inner.kind in _POINTS
