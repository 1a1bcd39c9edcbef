"""Who likely holds a lock of the runtime's own: the thread that waits for it, if the runtime has called it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.contract.code_owners import RUNTIME, USER
from ompd.errors import OmpdError
from ompd.model import HeldRecord, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.session import Session


def reentered(session: Session, rows: Sequence[ThreadRecord]) -> Iterator[tuple[ThreadRecord, HeldRecord]]:
    """Yield the threads that wait for a lock of the runtime's own to which no owner is recorded, and have come to it
    out of the runtime itself, which called the user's code, as an allocator: what they likely hold is that lock.

    None where another thread is in the runtime's code and may hold it: one that is awake where it may execute tasks
    looks for some every now and then.
    """
    waiting = [row for row in rows if row.wait is not None and row.wait.kind is Kind.INTERNAL_LOCK]
    if any(row.runtime is not None and row.wait is None and row.state != "idle" for row in rows):
        return
    # At a barrier those who spin look at its word alone.
    if any(row.wait is not None and row.wait.kind.is_task and row.wait.how != "blocked" for row in rows):
        return
    for row in waiting:
        wait = row.wait
        if wait is None or wait.owner is not None or wait.object is None or row.native_thread_id is None:
            continue
        try:
            names = _called_back(session, row.native_thread_id)
        except OmpdError:
            continue
        if names is not None:
            reason = f"{names[0]} has called {names[1]}, which came to wait for it"
            yield row, HeldRecord(kind=wait.kind, object=wait.object, is_certain=False, reason=reason)


def _called_back(session: Session, thread: int) -> tuple[str, str] | None:
    # The routine of the runtime, and the function of the user's that it has called, where that is no construct's.
    inner: int | None = None
    has_waited = False
    for frame in session.process.stacks.stack(thread).frames:
        owner = places.code_owner(session, frame.call_site)
        if owner == RUNTIME and inner is not None:
            if places.is_of_construct(session, inner):
                return None
            routine = session.process.places.locate(frame.call_site).symbol
            function = session.process.places.source_frames(inner)[-1].function
            return routine or "the runtime", function or "code of the user's"
        has_waited |= owner == RUNTIME
        if owner == USER and has_waited:
            inner = frame.call_site
        elif inner is not None:
            return None  # the C library lies in between, or the kernel has called a handler
    return None
