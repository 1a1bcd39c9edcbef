"""Collects the records of one stop that the analysis needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ompd import naming
from ompd.analysis.moment import Moment
from ompd.contract.plugin import ThreadHandle
from ompd.contract.waits import GoneThread
from ompd.errors import OmpdError
from ompd.model import Answer, HeldRecord, ParallelRecord, SchedulingRecord, SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions import regions, tasks, threads
from ompd.questions.facts.answers import begin, has_no_handles, not_begun, readable_runtimes
from ompd.questions.facts.damage import is_damaged, is_fork
from ompd.questions.facts.processors import counted_processors
from ompd.questions.threads.waits import lock_symbol
from ompd.questions.why.held import held, may_hold_interpreter, reentered, wanted
from ompd.questions.why.interventions import cancelled, from_outside, interrupted, signalled, waiting_in_handlers
from ompd.questions.why.system import system_wait
from ompd.session import Session


def collect(session: Session, *, has_times: bool = True) -> tuple[Moment, Answer[ThreadRecord]]:
    """Return the records of this stop, and the answer of ``threads``.

    :param has_times: whether to read the processor time of each thread. It is of use only if there is another look.
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    if has_no_handles(session):
        next(readable_runtimes(session, begin(session)), None)  # raises if no other runtime has handles
    answer = threads.ask(session)
    rows, handlers = interrupted(session, answer.rows)
    unfinished = unfinished_tasks(session, rows)
    owned = any(row.wait is not None and row.wait.owner is not None for row in rows)
    moves_tasks = owned and may_call(session, MOVES_TASKS)
    tasks_answer = tasks.ask(session) if moves_tasks or _need_tasks(rows, unfinished) else None
    teams = _regions(session, rows)
    system, unread = _system_waits(session, rows)
    handlers |= waiting_in_handlers(session, (thread for thread, wait in system.items() if wait.kind is Kind.FUTEX))
    waiting = {row.native_thread_id for row in rows if row.wait is not None and row.wait.kind.is_task}
    points, _ = scheduling_points(session, waiting) if tasks_answer is not None else ({}, {})
    natives = [row.native_thread_id for row in rows if row.native_thread_id is not None]
    held_by = _held(session, rows, system)
    named_rows, variables = _named(session, rows, held_by)
    moment = Moment(
        points=points,
        unfinished=unfinished,
        held=held_by,
        variables=variables,
        may_hold_interpreter=_may_hold_interpreter(session, rows, system),
        how=_progress(session, rows),
        queued=queued_threads(session, rows),
        handlers=handlers,
        signals=signalled(session, natives, system),
        cancels=cancelled(session, rows, system),
        threads=named_rows,
        system=system,
        unread=unread,
        processor_ns=_processor_times(session) if has_times else {},
        outside=from_outside(session),
        cancels_regions=_cancels_regions(session),
        makes_tasks=(owned or any(wait.owner is not None for wait in system.values()))
        and may_call(session, CREATES_TASKS),
        moves_tasks=moves_tasks,
        tasks=tasks_answer.rows if tasks_answer is not None else None,
        regions=teams.rows if teams is not None else None,
        gone={runtime: len(gone) for runtime, gone in gone_threads(session).items()} if teams is not None else {},
        has_all_threads=_has_all_threads(session, named_rows),
        is_fork=is_fork(session),
        forked=_forked(session),
        is_held=session.is_held,
        processors=_processors(session),
        loss=session.target.loss.what if session.target.loss is not None else None,
        unknowns=tuple(_unknowns(session, (*answer.warnings, *(tasks_answer.warnings if tasks_answer else ())))),
    )
    return moment, answer


def _unknowns(session: Session, warnings: Sequence[str]) -> dict[str, None]:
    # Return the warnings about unknown facts. The note on a runtime that has not begun is none: no thread waits in it.
    notes = {not_begun(runtime) for runtime in session.runtimes if not runtime.is_initialised}
    return dict.fromkeys(warning for warning in warnings if warning not in notes)


def _has_all_threads(session: Session, rows: Sequence[ThreadRecord]) -> bool:
    # Return whether all threads of the process have rows. A thread has no row if the query's budget of reads was spent
    # before.
    if is_damaged(session) or not session.process.threads.names_all:
        return False
    return set(session.process.threads.ids()) <= {row.native_thread_id for row in rows}


def _system_waits(session: Session, rows: Sequence[ThreadRecord]) -> tuple[dict[int, SystemWait], dict[int, str]]:
    # Return the waits outside of OpenMP by native id, and the reasons why others are unknown. Threads with a wait by a
    # runtime's records, and idle threads of its pool, are left out.
    waits: dict[int, SystemWait] = {}
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
            waits[thread] = wait
    return waits, unread


def _progress(session: Session, rows: Sequence[ThreadRecord]) -> dict[int, str | None]:
    # Return how threads without a recorded wait are waiting: "blocked", "released" or "spinning". A "released" thread
    # still sleeps in the kernel, but has been set free since.
    progress: dict[int, str | None] = {}
    for row in rows:
        if row.native_thread_id is not None and row.wait is None:
            with suppress(OmpdError):
                progress[row.native_thread_id] = session.process.waiting.progress(row.native_thread_id)
    return progress


def _may_hold_interpreter(
    session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]
) -> frozenset[int]:
    waiting = {thread for thread, wait in system.items() if wait.kind is Kind.GIL and wait.owner is None}
    if not waiting:
        return frozenset()
    without_record = {row.native_thread_id for row in rows if row.wait is None and row.state != "idle"}
    at_work = {thread for thread in without_record if thread is not None and thread not in system}
    return may_hold_interpreter(session, waiting, at_work)


def _named(
    session: Session, rows: Sequence[ThreadRecord], held_by: dict[int, tuple[HeldRecord, ...]]
) -> tuple[tuple[ThreadRecord, ...], dict[int, int]]:
    # Return the rows with the names of locks for which threads wait, and the locks' variables by the addresses that the
    # runtime records. Only locks without a name are treated: gfortran's, which are plain integers, and those of
    # programs without symbols. A lock's variable is the argument of the routine in which the thread waits. Replace the
    # variables in *held_by* by the addresses that the runtime records.
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
    object_of = {variable: next(iter(addresses)) for variable, addresses in objects.items() if len(addresses) == 1}
    if len(set(object_of.values())) < len(objects):
        return tuple(rows), {}  # variables and the runtime's addresses do not match one to one, so none is certain
    for native, records in held_by.items():
        held_by[native] = tuple(
            replace(record, object=object_of[record.object])
            if record.kind.has_variable and record.object in object_of
            else record
            for record in records
        )
    named = tuple(
        replace(row, wait=replace(row.wait, symbol=variables[row.native_thread_id][1]))
        if row.wait is not None and row.native_thread_id in variables
        else row
        for row in rows
    )
    return named, {address: variable for variable, address in object_of.items()}


def _held(
    session: Session, rows: Sequence[ThreadRecord], system: Mapping[int, SystemWait]
) -> dict[int, tuple[HeldRecord, ...]]:
    # Return the constructs that threads are inside of, by native id. They are found only if they may decide something:
    # if a lock has no recorded owner, or if threads of one region wait at several barriers.
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
    held_by: dict[int, tuple[HeldRecord, ...]] = {}
    for row in rows:
        if row.native_thread_id is None:
            continue
        if row.state == "idle":
            held_by[row.native_thread_id] = ()
            continue
        with suppress(OmpdError):
            held_by[row.native_thread_id] = held(session, row.native_thread_id)
    for row, record in reentered(session, rows):
        if row.native_thread_id is not None:
            held_by[row.native_thread_id] = (record, *held_by.get(row.native_thread_id, ()))
    return held_by


def _processor_times(session: Session) -> dict[int, int]:
    times: dict[int, int] = {}
    for thread in session.process.threads.ids():
        with suppress(OmpdError):
            times[thread] = session.process.system.cpu_time_ns(thread)
    return times


def _cancels_regions(session: Session) -> frozenset[str]:
    # Return the ids of runtimes that may cancel regions, by cancel-var. A runtime counts if its variable is unknown.
    identifiers = set()
    for runtime in session.runtimes:
        if runtime.space is None:
            continue
        with suppress(OmpdError):
            if not runtime.space.icv("cancel-var", runtime.space):
                continue
        identifiers.add(runtime.id)
    return frozenset(identifiers)


def _forked(session: Session) -> int | None:
    with suppress(OmpdError):
        return session.target.process_id if session.process.system.origin().is_forked else None
    return None


def _processors(session: Session) -> int | None:
    now = session.process.system.processor_count()
    if now is not None:
        return now
    counted = counted_processors(session)
    return counted.number if counted is not None else None


def _regions(session: Session, rows: Sequence[ThreadRecord]) -> Answer[ParallelRecord] | None:
    # Return the regions, None if they are not needed. They show which members of teams are no longer in the process.
    # This matters in a possible fork, which lacks its parent's other threads, and at a barrier whose missing members
    # are unknown, because they may have ended.
    waits = [row.wait for row in rows if row.wait is not None]
    if not is_fork(session) and not any(wait.kind is Kind.BARRIER and wait.missing is None for wait in waits):
        return None
    return regions.ask(session)


def _need_tasks(rows: Sequence[ThreadRecord], unfinished: Mapping[str, int | None]) -> bool:
    # Return whether tasks may decide something. Most programs that hang do not wait for tasks, and listing tasks takes
    # as long as listing threads.
    waits = [row.wait for row in rows if row.wait is not None]
    # A thread at a barrier inside of a task is counted by no barrier of the team.
    uncounted = any(wait.kind is Kind.BARRIER and wait.missing is None for wait in waits)
    return (
        uncounted or any(unfinished.values()) or any(wait.kind.is_task or bool(wait.unfinished_tasks) for wait in waits)
    )


def scheduling_points(
    session: Session, threads: Collection[int | None] | None = None
) -> tuple[Mapping[int, SchedulingRecord], Mapping[int, str]]:
    """Return the scheduling points at which threads wait, and the reasons why others are unknown. Keys are native ids.

    :param threads: the native ids of the threads to examine, None for all
    """
    points: dict[int, SchedulingRecord] = {}
    unread: dict[int, str] = {}
    for native, handle in _handles(session):
        if threads is not None and native not in threads:
            continue
        try:
            point = _record(native, handle)
        except OmpdError as error:
            unread[native] = str(error)
        else:
            if point is not None:
                points[native] = point
    return points, unread


def _handles(session: Session) -> Iterator[tuple[int, ThreadHandle]]:
    # Yield the native id and the handle of each thread that a runtime knows. Unreadable threads are left out, because
    # the answer of ``threads`` reports them.
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
    """Return how many incomplete tasks a region has at least, for each region with threads that wait at a barrier.

    Only barriers that other members have not reached count. The threads at the barrier may execute these tasks. The
    keys are the ids of regions. A number is None if it is unknown.
    """
    waiting = [row for row in rows if row.wait is not None and row.wait.kind is Kind.BARRIER and row.wait.missing]
    one_of = {row.parallel: row.native_thread_id for row in reversed(waiting) if row.parallel is not None}
    regions = {native: region for region, native in one_of.items()}
    counts: dict[str, int | None] = dict.fromkeys(one_of)
    for native, handle in _handles(session) if regions else ():
        region = regions.pop(native, None)
        if region is not None:
            with suppress(OmpdError):
                team = handle.current_parallel()
                counts[region] = team.unfinished_tasks() if team is not None and team.id == region else None
            if not regions:
                break
    return counts


def queued_threads(session: Session, rows: Sequence[ThreadRecord]) -> frozenset[int]:
    """Return the native ids of the threads in the queues of locks whose owner is not recorded.

    A lock takes a thread out of its queue when it lets the thread go. Only libomp's locks have a queue.
    """
    asking: dict[int, int] = {}  # one thread of each lock
    for row in rows:
        wait = row.wait
        if wait is not None and wait.owner is None and wait.how != "blocked" and wait.object is not None:
            asking.setdefault(wait.object, row.native_thread_id or 0)
    chosen, queued = frozenset(asking.values()), set[int]()
    for native, handle in _handles(session) if chosen else ():
        with suppress(OmpdError):
            lock = handle.lock() if native in chosen else None
            queued.update(lock.waiters if lock is not None else ())
    return frozenset(queued)


def gone_threads(session: Session) -> Mapping[str, Sequence[GoneThread]]:
    """Return the threads that runtimes still list but the process no longer has, by the runtime's id.

    Runtimes without such threads are left out, and so are runtimes for which this is unknown.
    """
    gone_of: dict[str, Sequence[GoneThread]] = {}
    for runtime in session.runtimes:
        try:
            gone = runtime.space.gone_threads() if runtime.space is not None else ()
        except OmpdError:
            continue
        if gone and not is_damaged(session):
            gone_of[runtime.id] = gone
    return gone_of


CREATES_TASKS = frozenset(
    (
        *("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull", "GOMP_target_ext"),
        *("__kmpc_omp_task_alloc", "__kmpc_omp_target_task_alloc"),
    )
)
"""The routines that create tasks."""
MOVES_TASKS = frozenset(("__kmpc_omp_task_alloc",))
"""The routine that creates untied tasks, which may continue on another thread. gcc's untied tasks never do."""


def may_call(session: Session, names: Collection[str]) -> bool:
    """Return whether a module may call one of the routines *names*: its symbols contain the name, or are unknown.

    The OpenMP runtimes themselves do not count.
    """
    return any(not naming.is_runtime_file(loaded.name) for loaded, _ in session.process.symbols.naming(names))
