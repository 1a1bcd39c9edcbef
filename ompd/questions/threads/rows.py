"""``threads``: one row for each thread of the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ompd.analysis.folding import folded_threads
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State, state_name
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.errors import NoCall, OmpdError, Unavailable
from ompd.model import Answer, OutsideRecord, OwnStateRecord, Place, RegionFunction, ThreadRecord
from ompd.questions import places
from ompd.questions.facts.answers import (
    answer,
    begin,
    each,
    has_no_handles,
    native_thread,
    note_first_thread,
    readable_runtimes,
)
from ompd.questions.facts.damage import is_damaged, is_fork, lacks_threads
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.facts.openmp_threads import (
    Ancestry,
    Matching,
    Membership,
    membership_of,
    team_order,
    unknown_membership,
)
from ompd.questions.facts.signals import signal_of
from ompd.questions.runtimes import records
from ompd.questions.threads.waits import Waits
from ompd.session import LoadedRuntime, Session


def ask(session: Session, *, fold: bool = False) -> Answer[ThreadRecord]:
    """Return one row for each thread of the process: OpenMP's by region and thread number, then idle ones, then others.

    :param fold: group equal threads in one row
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    problems = begin(session)
    # The threads of a damaged target are worth showing even if no runtime can be read.
    needed = not (is_damaged(session) or has_no_handles(session)) or not session.process.threads.ids()
    runtimes = list(readable_runtimes(session, problems, needed=needed))
    waits = {runtime.id: Waits(session) for runtime in runtimes if runtime.space is not None}
    matching = Matching(session, runtimes, problems)
    ancestry = {runtime.id: Ancestry() for runtime in runtimes}

    def record(thread: int) -> ThreadRecord:
        match = matching.of(thread)
        if match is None:
            return _other(session, thread, matching.doubt, problems)
        runtime, handle = match
        return _record(session, runtime, handle, thread, waits[runtime.id], ancestry[runtime.id], problems)

    # Look up all threads before the rows are made, because the search for one thread may find the handle of another.
    matched, threads = matching.matched, session.process.threads.ids()
    rows = list(each(session, threads, record))
    for runtime, handle in _unmatched(runtimes, matched):
        if lacks_threads(session):
            row = _unnamed(session, runtime, handle, waits[runtime.id], ancestry[runtime.id], problems)
            rows += [row] if row is not None else []
        else:
            _complain(runtime, handle, problems)
    note_first_thread(session, problems)
    if is_fork(session):
        for row in rows:
            _note_alone(row, problems)
    rows.sort(key=team_order)
    return answer(session, list(folded_threads(rows)) if fold else rows, records(session, problems), problems)


def _note_alone(row: ThreadRecord, problems: Problems) -> None:
    if row.team_size is not None and row.team_size > 1:
        subject = "its other thread is" if row.team_size == 2 else f"the other {row.team_size - 1} are"
        problems.note(
            f"the process has one thread of a team of {row.team_size}: {subject} not in this process, "
            "which is a fork of another one, or they have ended"
        )


def _unmatched(
    runtimes: list[LoadedRuntime], matched: frozenset[tuple[str, int]]
) -> Iterator[tuple[LoadedRuntime, ThreadHandle]]:
    for runtime in runtimes:
        try:
            handles = runtime.space.threads() if runtime.space is not None else ()
        except OmpdError:
            continue  # said already, thread by thread
        yield from ((runtime, handle) for handle in handles if (runtime.id, handle.address) not in matched)


def _complain(runtime: LoadedRuntime, handle: ThreadHandle, problems: Problems) -> None:
    try:
        pthread = handle.native_id(ThreadIdKind.PTHREAD)
    except OmpdError as error:
        problems.missing(f"{runtime.id}: the thread whose data are at {handle.address:#x}", error)
        return
    if pthread:  # 0 while the thread is being created
        problems.note(f"{runtime.id}: the process has no thread with pthread id {pthread:#x}, which the runtime knows")


def _unnamed(
    session: Session,
    runtime: LoadedRuntime,
    handle: ThreadHandle,
    waits: Waits,
    ancestry: Ancestry,
    problems: Problems,
) -> ThreadRecord | None:
    # The row of a thread that only the runtime knows, because the target has lost the list of its threads.
    try:
        if not handle.native_id(ThreadIdKind.PTHREAD):
            return None
        return _record(session, runtime, handle, native_thread(session, handle), waits, ancestry, problems)
    except OmpdError as error:
        row = _record(session, runtime, handle, None, waits, ancestry, problems)
        return replace(row, unavailable={**row.unavailable, "native_thread_id": str(error)})


def _record(
    session: Session,
    runtime: LoadedRuntime,
    handle: ThreadHandle,
    thread: int | None,
    waits: Waits,
    ancestry: Ancestry,
    problems: Problems,
) -> ThreadRecord:
    facts = Facts(
        f"thread {thread}" if thread is not None else f"the thread whose data are at {handle.address:#x}", problems
    )
    member = membership_of(handle, ancestry, facts, ("team_size", "level", "active_level"))
    region = member.region
    state = facts.get("state", handle.state)
    if state is None:
        facts.unavailable["state_source"] = facts.unavailable["state"]
    wait = waits.of(state, handle, region, facts, thread)
    task = facts.get("task", handle.current_task)
    where = facts.get("where", _where, session, thread, handle)
    if where is not None and where.address is None:
        for key in ("address", "file", "line")[: 3 if where.line is None else 1]:
            facts.unavailable[f"where.{key}"] = "that code ended by a jump, and which one is not known"
    innermost = facts.get("innermost", _innermost, session, thread) if "where" in facts.unavailable else None
    _note_function(session, facts, where)
    at_end_of = None
    if "state" in facts.unavailable or "parallel" in facts.unavailable:
        facts.unavailable["at_end_of"] = facts.unavailable.get("state") or facts.unavailable["parallel"]
    elif region is not None and state is not None and state.state == State.WAIT_BARRIER_IMPLICIT_PARALLEL:
        try:
            at_end_of = _end(waits, region, member.thread_num, where, facts.unavailable.get("where"))
        except OmpdError as error:
            facts.unavailable["at_end_of"] = str(error)  # no warning: other facts lack the unreadable data, too
    if at_end_of is not None and where is not None and where.file == at_end_of.file:
        where = replace(where, line=at_end_of.line)  # gcc may give the call another line
    return ThreadRecord(
        runtime=runtime.id,
        thread_num=member.thread_num,
        team_size=member.team_size,
        level=member.level,
        active_level=member.active_level,
        ancestors=member.ancestors,
        native_thread_id=thread,
        thread_type=facts.get("thread_type", handle.thread_type),
        state=state_name(state.state) if state is not None else None,
        state_source=state.source if state is not None else None,
        wait_id=state.wait_id if state is not None else None,
        wait=wait,
        parallel=region.id if region is not None else None,
        task=task.id if task is not None else None,
        where=where,
        innermost=innermost,
        about_to_begin=facts.known("about_to_begin", handle.is_about_to_begin, False),
        address=facts.get("address", _address, runtime, handle),
        tool_data=facts.get("tool_data", handle.tool_data),
        **signal_of(session, thread, facts),
        outside_of_target=facts.get("outside_of_target", _outside, handle),
        at_end_of=at_end_of,
        ompt_id=facts.own("ompt_id", handle.ompt_id),
        ompt_state=facts.own("ompt_state", lambda: OwnStateRecord(*handle.ompt_state())),
        unavailable=facts.unavailable,
    )


def _end(
    waits: Waits, region: ParallelHandle, thread_num: int | None, where: Place | None, why_unknown: str | None
) -> RegionFunction | None:
    # Return the construct at whose end a thread waits, None if the thread is still in its code. At the end of a region,
    # the primary thread's innermost user frame is that of the code that encountered the region, and other threads have
    # none. *why_unknown*: the reason why the thread's place is unknown.
    if why_unknown is not None:
        raise Unavailable(why_unknown)
    if where is not None and (thread_num != 0 or region.encountering_frames()[0].call_site != where.address):
        return None
    construct = waits.construct_of(region)
    if construct is None or construct.line is None:
        raise Unavailable("which construct the region is of is not known")
    return construct


def _address(runtime: LoadedRuntime, handle: ThreadHandle) -> int:
    if runtime.found.hosted is not None:
        raise Unavailable("OMPD has no call that returns where the runtime has a thread's data")
    return handle.address


def _outside(handle: ThreadHandle) -> OutsideRecord | None:
    outside = handle.outside_of_target()
    if outside is None:
        return None
    region = outside.region
    size, level = (region.size(), region.level()) if region is not None else (1, 0)
    return OutsideRecord(region.id if region is not None else None, outside.thread_num, size, level, outside.task.id)


def _note_function(session: Session, facts: Facts, where: Place | None) -> None:
    # Note in *facts* why the function of the place is unknown, if a compiler made the code there.
    if where is None or where.function is not None:
        return
    if is_damaged(session):
        facts.unavailable["where.function"] = "what tells the function of compiler-made code is lost"
    elif where.address is not None and places.is_of_construct(session, where.address):
        facts.unavailable["where.function"] = places.NO_FUNCTION


def _where(session: Session, thread: int | None, handle: ThreadHandle | None = None) -> Place | None:
    if thread is None:
        raise Unavailable(_NAMELESS)
    return places.innermost_user_place(session, thread, handle)


def _innermost(session: Session, thread: int | None) -> Place:
    if thread is None:
        raise Unavailable(_NAMELESS)
    return places.innermost_place(session, thread)


_NAMELESS = "which thread of the process it is, is not known"
# The keys of a row that are about OpenMP.
_OPENMP = (
    *("runtime", "thread_num", "team_size", "level", "active_level", "thread_type"),
    *("state", "state_source", "wait_id", "wait", "parallel", "task", "address", "tool_data"),
    *("outside_of_target", "at_end_of", "ompt_id", "ompt_state"),
)


def _other(session: Session, thread: int, doubt: OmpdError | None, problems: Problems) -> ThreadRecord:
    facts = Facts(f"thread {thread}", problems)
    member = Membership()
    if doubt is not None:
        member = unknown_membership(facts, _OPENMP, str(doubt))
        if not is_damaged(session) and not isinstance(doubt, NoCall):  # else a note has said it
            problems.unreadable(f"whether thread {thread} is an OpenMP thread", doubt)
    where = facts.get("where", _where, session, thread)
    innermost = facts.get("innermost", _innermost, session, thread) if "where" in facts.unavailable else None
    _note_function(session, facts, where)
    kind = "other" if doubt is None else None
    return ThreadRecord(
        ancestors=member.ancestors,
        native_thread_id=thread,
        thread_type=kind,
        where=where,
        innermost=innermost,
        **signal_of(session, thread, facts),
        unavailable=facts.unavailable,
    )
