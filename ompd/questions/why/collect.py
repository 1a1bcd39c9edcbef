"""Collects what the analysis needs to know of one stop."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress

from ompd.analysis.moment import Moment
from ompd.analysis.words import counted
from ompd.errors import OmpdError
from ompd.model import Answer, HeldRecord, ParallelRecord, SystemWait, TaskRecord, ThreadRecord
from ompd.questions import regions, tasks, threads
from ompd.questions.facts.damage import is_damaged, is_fork
from ompd.questions.why.held import held
from ompd.questions.why.points import queued_threads, scheduling_points
from ompd.questions.why.system import system_wait
from ompd.session import Session
from ompd.session.face import processors

_LOCK_WAITS = ("lock", "nest_lock", "critical", "atomic", "ordered", "internal_lock")
_MOST_NAMES = 4
_TASK_WAITS = ("taskwait", "taskgroup", "dependence")


def collect(session: Session, *, has_times: bool = True) -> tuple[Moment, Answer[ThreadRecord]]:
    """Return the records of this stop, and the answer of ``threads`` from which they began.

    :param has_times: whether to ask for the processor time of each thread, which only another look can be compared with
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    answer = threads.ask(session)
    found, teams = _tasks(session, answer.rows), _regions(session, answer.rows)
    system, unread = _system_waits(session, answer.rows)
    waiting = {row.native_thread_id for row in answer.rows if row.wait is not None and row.wait.kind in _TASK_WAITS}
    points, _ = scheduling_points(session, waiting) if found is not None else ({}, {})
    moment = Moment(
        points=points,
        held=_held(session, answer.rows),
        how=_how(session, answer.rows),
        queued=queued_threads(session, answer.rows),
        handlers=_in_handlers(session, answer.rows),
        threads=answer.rows,
        system=system,
        unread=unread,
        processor_ns=_processor_times(session) if has_times else {},
        outside=from_outside(session),
        tasks=found.rows if found is not None else None,
        regions=teams.rows if teams is not None else None,
        has_all_threads=not is_damaged(session) and session.process.thread_list.names_all,
        is_fork=is_fork(session),
        processors=_processors(session),
        unknowns=tuple(dict.fromkeys((*answer.warnings, *(found.warnings if found is not None else ())))),
    )
    return moment, answer


def _system_waits(session: Session, rows: Sequence[ThreadRecord]) -> tuple[dict[int, SystemWait], dict[int, str]]:
    # Of threads of which no runtime names a wait, and which are not merely idle in its pool.
    found: dict[int, SystemWait] = {}
    unread: dict[int, str] = {}
    for row in rows:
        thread = row.native_thread_id
        if thread is None or row.wait is not None or row.state == "idle":
            continue
        try:
            wait = system_wait(session, thread)
        except OmpdError as error:
            unread[thread] = f"what it does is not known: {error}"
            continue
        if wait is not None:
            found[thread] = wait
    return found, unread


def _how(session: Session, rows: Sequence[ThreadRecord]) -> dict[int, str | None]:
    # A thread that the stop has interrupted in the kernel looks asleep, though it may have been set free since.
    found: dict[int, str | None] = {}
    for row in rows:
        if row.native_thread_id is not None and row.wait is None:
            with suppress(OmpdError):
                found[row.native_thread_id] = session.process.progress(row.native_thread_id)
    return found


def _held(session: Session, rows: Sequence[ThreadRecord]) -> dict[int, tuple[HeldRecord, ...]]:
    # Only where it may decide something: who holds a lock of which no owner is recorded, and what barriers are inside
    # of where one region's threads wait at several.
    barriers: dict[str | None, set[tuple[int, ...] | None]] = {}
    is_wanted = False
    for row in rows:
        wait = row.wait
        if wait is not None and wait.kind == "barrier":
            barriers.setdefault(row.parallel, set()).add(wait.missing)
        elif wait is not None and wait.kind in _LOCK_WAITS and wait.owner is None:
            is_wanted = True
    if not is_wanted and all(len(missing) < 2 for missing in barriers.values()):
        return {}
    found: dict[int, tuple[HeldRecord, ...]] = {}
    for row in rows:
        if row.native_thread_id is None:
            continue
        if row.state == "idle":
            found[row.native_thread_id] = ()
            continue
        with suppress(OmpdError):
            found[row.native_thread_id] = held(session, row.native_thread_id)
    return found


def _in_handlers(session: Session, rows: Sequence[ThreadRecord]) -> frozenset[int]:
    found = set()
    for row in rows:
        if row.native_thread_id is not None and row.wait is not None and row.wait.kind in _LOCK_WAITS:
            with suppress(OmpdError):
                if any(frame.is_signal_frame for frame in session.process.stack(row.native_thread_id).frames):
                    found.add(row.native_thread_id)
    return frozenset(found)


def _processor_times(session: Session) -> dict[int, int]:
    found: dict[int, int] = {}
    for thread in session.process.threads():
        with suppress(OmpdError):
            found[thread] = session.process.system.cpu_time_ns(thread)
    return found


def _sent_by_others() -> set[int]:
    # What may come while all threads sleep: from alarms, files, children and other processes. Not signals by which
    # people end a program, nor those of faults. A live process is one of this machine, so that the numbers are.
    return {
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),
        *(signal.SIGCHLD, signal.SIGIO, signal.SIGURG, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)),
    }


def from_outside(session: Session) -> tuple[str, ...]:
    """Return what may act on a live process though all of its threads sleep; empty for a core, which does not say."""
    found: list[str] = []
    with suppress(OmpdError):
        count = len(session.process.system.timers())
        if count:
            found.append(f"the process has {counted(count, 'timer')}, whose signals may do anything")
    with suppress(OmpdError):
        handled = sorted(session.process.system.handled_signals() & _sent_by_others())
        names = [signal.Signals(n).name if n in set(signal.Signals) else f"signal {n}" for n in handled[:_MOST_NAMES]]
        if names:
            found.append(f"the program has a handler for {', '.join(names)}, which may do anything")
    return tuple(found)


def _processors(session: Session) -> int | None:
    now = processors(session)
    if now is not None:
        return now
    for runtime in session.runtimes:
        try:
            # What the runtime found when it was initialised.
            found = runtime.space.icv("num-procs-var", runtime.space) if runtime.space is not None else None
        except OmpdError:
            continue
        if isinstance(found, int) and found > 0:
            return found
    return None


def _regions(session: Session, rows: Sequence[ThreadRecord]) -> Answer[ParallelRecord] | None:
    # Who is missing at a barrier is unknown where the process lacks members of the team.
    waits = [row.wait for row in rows if row.wait is not None]
    if not is_fork(session) and not any(wait.kind == "barrier" and wait.missing is None for wait in waits):
        return None
    return regions.ask(session)


def _tasks(session: Session, rows: Sequence[ThreadRecord]) -> Answer[TaskRecord] | None:
    # Most programs that hang do not wait for tasks, and listing them takes as long as listing threads.
    waits = [row.wait for row in rows if row.wait is not None]
    # At a barrier inside of a task no barrier of the team counts the thread.
    uncounted = any(wait.kind == "barrier" and wait.missing is None for wait in waits)
    if not uncounted and not any(wait.kind in _TASK_WAITS or wait.unfinished_tasks for wait in waits):
        return None
    return tasks.ask(session)
