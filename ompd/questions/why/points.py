"""Where threads wait for tasks, for which ones, and which ones they may execute there; and which threads are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from ompd.contract.plugin import ThreadHandle
from ompd.contract.waits import GoneThread
from ompd.errors import OmpdError
from ompd.model import SchedulingRecord, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions.facts.damage import is_damaged
from ompd.session import Session


def scheduling_points(
    session: Session, wanted: Collection[int | None] | None = None
) -> tuple[Mapping[int, SchedulingRecord], Mapping[int, str]]:
    """Return where threads are that wait at scheduling points, by native id, and why that is unknown of others.

    :param wanted: the native ids of the threads to look at, None for all
    """
    found: dict[int, SchedulingRecord] = {}
    unread: dict[int, str] = {}
    for native, handle in _handles(session):
        if wanted is not None and native not in wanted:
            continue
        try:
            point = _record(native, handle)
        except OmpdError as error:
            unread[native] = str(error)
        else:
            if point is not None:
                found[native] = point
    return found, unread


def _handles(session: Session) -> Iterator[tuple[int, ThreadHandle]]:
    # All threads that runtimes know, with their native ids; the answer of threads says which cannot be read.
    for runtime in session.runtimes:
        with suppress(OmpdError):
            for handle in runtime.space.threads() if runtime.space is not None else ():
                with suppress(OmpdError):
                    yield handle.native_thread_id(), handle


def _record(native: int, handle: ThreadHandle) -> SchedulingRecord | None:
    point = handle.scheduling_point()
    if point is None:
        return None
    return SchedulingRecord(
        native_thread_id=native,
        kind=Kind(point.kind),
        task=point.task.id if point.task is not None else None,
        takes=point.takes,
        count=point.count,
        address=point.address,
        value=point.value,
        tasks=tuple(task.id for task in point.tasks),
        is_whole=point.is_whole,
    )


def unfinished_tasks(session: Session, rows: Sequence[ThreadRecord]) -> Mapping[str, int | None]:
    """Return how many tasks are not complete, at least, of each region of which threads wait at a barrier that others
    have not reached; by the region's id, None where that is unknown. Those who wait there may execute them.
    """
    waiting = [row for row in rows if row.wait is not None and row.wait.kind is Kind.BARRIER and row.wait.missing]
    one_of = {row.parallel: row.native_thread_id for row in reversed(waiting) if row.parallel is not None}
    left = {native: region for region, native in one_of.items()}
    found: dict[str, int | None] = dict.fromkeys(one_of)
    for native, handle in _handles(session) if left else ():
        region = left.pop(native, None)
        if region is not None:
            with suppress(OmpdError):
                team = handle.current_parallel()
                found[region] = team.unfinished_tasks() if team is not None and team.id == region else None
            if not left:
                break
    return found


def queued_threads(session: Session, rows: Sequence[ThreadRecord]) -> frozenset[int]:
    """Return the native ids of the threads that wait for locks without a recorded owner, and that these have in their
    queues: a lock takes out of it whom it lets go. Only libomp's locks have one.
    """
    asking: dict[int, int] = {}  # one thread of each lock
    for row in rows:
        wait = row.wait
        if wait is not None and wait.owner is None and wait.how != "blocked" and wait.object is not None:
            asking.setdefault(wait.object, row.native_thread_id or 0)
    chosen, found = frozenset(asking.values()), set[int]()
    for native, handle in _handles(session) if chosen else ():
        with suppress(OmpdError):
            lock = handle.lock() if native in chosen else None
            found.update(lock.waiters if lock is not None else ())
    return frozenset(found)


def gone_threads(session: Session) -> Mapping[str, Sequence[GoneThread]]:
    """Return the threads that runtimes count among their own and that the process does not have, by the runtime's id;
    runtimes without such threads, or of which that is unknown, are left out.
    """
    found: dict[str, Sequence[GoneThread]] = {}
    for runtime in session.runtimes:
        try:
            gone = runtime.space.gone_threads() if runtime.space is not None else ()
        except OmpdError:
            continue
        if gone and not is_damaged(session):
            found[runtime.id] = gone
    return found
