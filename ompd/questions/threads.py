"""``threads``: one row for each thread of the process."""

from __future__ import annotations

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import state_name
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.errors import OmpdError
from ompd.model import Answer, ThreadRecord
from ompd.questions import places
from ompd.questions.facts import Facts, Problems, answer, readable_runtimes
from ompd.questions.runtimes import records
from ompd.questions.waits import Waits
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> Answer[ThreadRecord]:
    """Return one row for each thread of the process: OpenMP's by region and thread number, then idle ones, then others.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    problems = Problems()
    runtimes = list(readable_runtimes(session, problems))
    waits = {runtime.id: Waits(session, runtime.space) for runtime in runtimes if runtime.space is not None}
    rows = []
    matched: set[tuple[str, int]] = set()
    for thread in session.process.threads():
        found = _handle(session, runtimes, thread, problems)
        if found is None:
            rows.append(_other(session, thread, problems))
        else:
            runtime, handle = found
            matched.add((runtime.id, handle.address))
            rows.append(_record(session, runtime, handle, thread, waits[runtime.id], problems))
    _complain_of_unmatched(runtimes, matched, problems)
    return answer(session, sorted(rows, key=_order), records(session, problems), problems)


def _handle(
    session: Session, runtimes: list[LoadedRuntime], thread: int, problems: Problems
) -> tuple[LoadedRuntime, ThreadHandle] | None:
    for runtime in runtimes:
        if runtime.space is None:
            continue
        try:
            handle = runtime.space.thread_by_native_id(ThreadIdKind.LWP, thread)
        except OmpdError as error:
            problems.lost(f"{runtime.id}: threads", error)
            continue
        if handle is not None:
            return runtime, handle
    return None


def _complain_of_unmatched(runtimes: list[LoadedRuntime], matched: set[tuple[str, int]], problems: Problems) -> None:
    for runtime in runtimes:
        try:
            handles = runtime.space.threads() if runtime.space is not None else ()
        except OmpdError:
            continue  # said already, thread by thread
        for handle in handles:
            if (runtime.id, handle.address) in matched:
                continue
            try:
                pthread = handle.native_id(ThreadIdKind.PTHREAD)
            except OmpdError as error:
                problems.lost(f"{runtime.id}: thread descriptor {handle.address:#x}", error)
                continue
            if pthread:  # 0 while the thread is being created
                problems.note(
                    f"{runtime.id}: the process has no thread with pthread id {pthread:#x}, which the runtime knows"
                )


def _record(
    session: Session, runtime: LoadedRuntime, handle: ThreadHandle, thread: int, waits: Waits, problems: Problems
) -> ThreadRecord:
    facts = Facts(f"thread {thread}", problems)
    region: ParallelHandle | None = facts.get("parallel", handle.current_parallel)
    thread_num = facts.get("thread_num", handle.thread_num)
    # A thread of a team outside of all regions is an initial one: alone, at level 0.
    outside = thread_num is not None and "parallel" not in facts.unavailable
    lost = facts.unavailable.get("parallel")

    def of_region(key: str, value: int | None) -> int | None:
        if lost is not None:
            facts.unavailable[key] = lost
        return value

    if region is not None:
        team_size, level, active = (
            facts.get(key, ask)
            for key, ask in (("team_size", region.size), ("level", region.level), ("active_level", region.active_level))
        )
    else:
        team_size, level, active = (
            of_region(key, value if outside else None)
            for key, value in (("team_size", 1), ("level", 0), ("active_level", 0))
        )
    state = facts.get("state", handle.state)
    if state is None:
        facts.unavailable["state_source"] = facts.unavailable["state"]
    wait = waits.of(state, handle, region, facts)
    task = facts.get("task", handle.current_task)
    context = (runtime.space, handle) if runtime.space is not None else None
    where = facts.get("where", lambda: places.innermost_user_place(session, thread, context))
    return ThreadRecord(
        runtime=runtime.id,
        thread_num=thread_num,
        team_size=team_size,
        level=level,
        active_level=active,
        native_thread_id=thread,
        thread_type=facts.get("thread_type", handle.thread_type) or "other",
        state=state_name(state.state) if state is not None else None,
        state_source=state.source if state is not None else None,
        wait_id=state.wait_id if state is not None else None,
        wait=wait,
        parallel=region.id if region is not None else None,
        task=task.id if task is not None else None,
        where=where,
        address=handle.address,
        tool_data=facts.get("tool_data", handle.tool_data),
        unavailable=facts.unavailable,
    )


def _other(session: Session, thread: int, problems: Problems) -> ThreadRecord:
    facts = Facts(f"thread {thread}", problems)
    where = facts.get("where", lambda: places.innermost_user_place(session, thread))
    return ThreadRecord(native_thread_id=thread, thread_type="other", where=where, unavailable=facts.unavailable)


def _order(row: ThreadRecord) -> tuple[bool, str, bool, int, str, int, int]:
    return (
        row.runtime is None,
        row.runtime or "",
        row.thread_num is None,
        row.level or 0,
        row.parallel or "",
        row.thread_num or 0,
        row.native_thread_id,
    )
