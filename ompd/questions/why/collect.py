"""Collects what the analysis needs to know of one stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ompd.analysis.moment import Moment
from ompd.analysis.words import counted
from ompd.errors import OmpdError
from ompd.model import Answer, HeldRecord, ParallelRecord, SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions import regions, tasks, threads
from ompd.questions.facts.answers import begin, has_no_handles, not_begun, readable_runtimes
from ompd.questions.facts.damage import is_damaged, is_fork
from ompd.questions.threads.waits import lock_symbol
from ompd.questions.why.callers import CREATES_TASKS, MOVES_TASKS, may_call
from ompd.questions.why.cancelled import cancelled
from ompd.questions.why.held import held, wanted
from ompd.questions.why.interrupted import interrupted, waiting_in_handlers
from ompd.questions.why.points import gone_threads, queued_threads, scheduling_points, unfinished_tasks
from ompd.questions.why.python import may_hold_interpreter
from ompd.questions.why.reentry import reentered
from ompd.questions.why.signalled import signalled
from ompd.questions.why.system import system_wait
from ompd.session import Session


def collect(session: Session, *, has_times: bool = True) -> tuple[Moment, Answer[ThreadRecord]]:
    """Return the records of this stop, and the answer of ``threads`` from which they began.

    :param has_times: whether to ask for the processor time of each thread, which only another look can be compared with
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    if has_no_handles(session):
        next(readable_runtimes(session, begin(session)), None)  # raises if no other runtime has handles
    answer = threads.ask(session)
    own, handlers = interrupted(session, answer.rows)
    unfinished = unfinished_tasks(session, own)
    owned = any(row.wait is not None and row.wait.owner is not None for row in own)
    moves_tasks = owned and may_call(session, MOVES_TASKS)
    found = tasks.ask(session) if moves_tasks or _need_tasks(own, unfinished) else None
    teams = _regions(session, own)
    system, unread = _system_waits(session, own)
    handlers |= waiting_in_handlers(session, (thread for thread, wait in system.items() if wait.kind is Kind.FUTEX))
    waiting = {row.native_thread_id for row in own if row.wait is not None and row.wait.kind.is_task}
    points, _ = scheduling_points(session, waiting) if found is not None else ({}, {})
    held_by = _held(session, own, system)
    rows, variables = _named(session, own, held_by)
    moment = Moment(
        points=points,
        unfinished=unfinished,
        held=held_by,
        variables=variables,
        may_hold_interpreter=_may_hold_interpreter(session, own, system),
        how=_how(session, own),
        queued=queued_threads(session, own),
        handlers=handlers,
        signals=signalled(session, [n for n in (row.native_thread_id for row in own) if n is not None], system),
        cancels=cancelled(session, own, system),
        threads=rows,
        system=system,
        unread=unread,
        processor_ns=_processor_times(session) if has_times else {},
        outside=from_outside(session),
        cancels_regions=_cancels_regions(session),
        makes_tasks=(owned or any(wait.owner is not None for wait in system.values()))
        and may_call(session, CREATES_TASKS),
        moves_tasks=moves_tasks,
        tasks=found.rows if found is not None else None,
        regions=teams.rows if teams is not None else None,
        gone={runtime: len(gone) for runtime, gone in gone_threads(session).items()} if teams is not None else {},
        has_all_threads=_has_all_threads(session, rows),
        is_fork=is_fork(session),
        forked=_forked(session),
        is_held=session.is_held,
        processors=_processors(session),
        loss=session.target.loss.what if session.target.loss is not None else None,
        unknowns=tuple(_unknowns(session, (*answer.warnings, *(found.warnings if found is not None else ())))),
    )
    return moment, answer


def _unknowns(session: Session, warnings: Sequence[str]) -> dict[str, None]:
    # That a runtime has not begun is known, and says that no thread waits in it.
    notes = {not_begun(runtime) for runtime in session.runtimes if not runtime.is_initialised}
    return dict.fromkeys(warning for warning in warnings if warning not in notes)


def _has_all_threads(session: Session, rows: Sequence[ThreadRecord]) -> bool:
    # A thread without a row may do anything: the question may have read more than it may before its turn came.
    if is_damaged(session) or not session.process.threads.names_all:
        return False
    return set(session.process.threads.ids()) <= {row.native_thread_id for row in rows}


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
                found[row.native_thread_id] = session.process.waiting.progress(row.native_thread_id)
    return found


def _may_hold_interpreter(
    session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]
) -> frozenset[int]:
    waiting = {thread for thread, wait in system.items() if wait.kind is Kind.GIL and wait.owner is None}
    if not waiting:
        return frozenset()
    own = {row.native_thread_id for row in rows if row.wait is None and row.state != "idle"}
    at_work = {thread for thread in own if thread is not None and thread not in system}
    return may_hold_interpreter(session, waiting, at_work)


def _named(
    session: Session, rows: Sequence[ThreadRecord], held: dict[int, tuple[HeldRecord, ...]]
) -> tuple[tuple[ThreadRecord, ...], dict[int, int]]:
    # Where no variable is known that stands for the runtime's own object of a lock, as of gfortran's, which are plain
    # integers, or in a program without symbols: the one that was passed to the routine in which the thread waits is it,
    # for whoever has set it, too. Returns also these variables, by the runtime's objects.
    objects: dict[int, set[int]] = {}
    variables: dict[int | None, tuple[int, str | None]] = {}
    for row in rows:
        wait, native = row.wait, row.native_thread_id
        if native is None or wait is None or not wait.kind.has_variable:
            continue
        if wait.symbol is not None or wait.object is None:
            continue
        with suppress(OmpdError):
            variable = wanted(session, native)
            if variable is not None:
                variables[native] = variable, lock_symbol(session, wait.kind, variable)
                objects.setdefault(variable, set()).add(wait.object)
    same = {variable: next(iter(some)) for variable, some in objects.items() if len(some) == 1}
    if len(set(same.values())) < len(objects):
        return tuple(rows), {}  # one object for two variables, or the other way round: not all is as it seems
    for native, records in held.items():
        held[native] = tuple(
            replace(record, object=same[record.object])
            if record.kind.has_variable and record.object in same
            else record
            for record in records
        )
    named = tuple(
        replace(row, wait=replace(row.wait, symbol=variables[row.native_thread_id][1]))
        if row.wait is not None and row.native_thread_id in variables
        else row
        for row in rows
    )
    return named, {wanted: variable for variable, wanted in same.items()}


def _held(
    session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]
) -> dict[int, tuple[HeldRecord, ...]]:
    # Only where it may decide something: who holds a lock of which no owner is recorded, and what barriers are inside
    # of where one region's threads wait at several.
    barriers: dict[str | None, set[tuple[int, ...] | None]] = {}
    is_wanted = any(wait.kind.is_set_by_code and wait.owner is None for wait in system.values())
    for row in rows:
        wait = row.wait
        if wait is not None and wait.kind is Kind.BARRIER:
            barriers.setdefault(row.parallel, set()).add(wait.missing)
        elif wait is not None and wait.kind.is_lock and wait.owner is None:
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
    for row, record in reentered(session, rows):
        if row.native_thread_id is not None:
            found[row.native_thread_id] = (record, *found.get(row.native_thread_id, ()))
    return found


def _processor_times(session: Session) -> dict[int, int]:
    found: dict[int, int] = {}
    for thread in session.process.threads.ids():
        with suppress(OmpdError):
            found[thread] = session.process.system.cpu_time_ns(thread)
    return found


def from_outside(session: Session) -> tuple[str, ...]:
    """Return what may act on a process though all of its threads sleep; of a core no more than pending signals."""
    found: list[str] = []
    threads = session.process.threads.ids()
    if threads:  # a core that is cut off may have lost them all
        with suppress(OmpdError):
            # The first thread may have ended before the others.
            sharers = session.process.system.sharers(max(threads))
            found += [f"process {process} has the same memory, and may do anything" for process in sharers]
    with suppress(OmpdError):
        count = len(session.process.system.timers())
        if count:
            found.append(f"the process has {counted(count, 'timer')}, whose signals may do anything")
    if session.target.kind != "live" and not found:
        found += _pending(session)
    return tuple(found)


def _pending(session: Session) -> Iterator[str]:
    # A core does not say which signals have handlers; one that is pending and not blocked is about to come.
    for thread in session.process.threads.ids():
        with suppress(OmpdError):
            pending = session.process.system.pending_signals(thread)
            coming = sorted((pending.thread | (pending.process or frozenset())) - pending.blocked)
            if coming:
                yield f"signal {coming[0]} is about to reach thread {thread}, whose handler may do anything"
                return


def _cancels_regions(session: Session) -> frozenset[str]:
    # cancel-var is of the whole process.
    found = set()
    for runtime in session.runtimes:
        if runtime.space is None:
            continue
        with suppress(OmpdError):
            if not runtime.space.icv("cancel-var", runtime.space):
                continue
        found.add(runtime.id)
    return frozenset(found)


def _forked(session: Session) -> int | None:
    with suppress(OmpdError):
        return session.target.process_id if session.process.system.origin().is_forked else None
    return None


def _processors(session: Session) -> int | None:
    now = session.process.system.processor_count()
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
    if not is_fork(session) and not any(wait.kind is Kind.BARRIER and wait.missing is None for wait in waits):
        return None
    return regions.ask(session)


def _need_tasks(rows: Sequence[ThreadRecord], unfinished: Mapping[str, int | None]) -> bool:
    # Most programs that hang do not wait for tasks, and listing them takes as long as listing threads.
    waits = [row.wait for row in rows if row.wait is not None]
    # At a barrier inside of a task no barrier of the team counts the thread.
    uncounted = any(wait.kind is Kind.BARRIER and wait.missing is None for wait in waits)
    return (
        uncounted or any(unfinished.values()) or any(wait.kind.is_task or bool(wait.unfinished_tasks) for wait in waits)
    )
