"""``parallel``: the parallel regions that are being executed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from ompd.contract.plugin import AddressSpace, ParallelHandle
from ompd.errors import OmpdError
from ompd.model import Answer, ParallelRecord
from ompd.questions import places, team_sizes
from ompd.questions.facts.answers import (
    answer,
    as_tree,
    begin,
    each,
    name_thread,
    native_thread,
    readable_runtimes,
    threads_of,
)
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.runtimes import records
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> Answer[ParallelRecord]:
    """Return the regions that are being executed, each after the one that encloses it.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    problems = begin(session)
    rows: list[ParallelRecord] = []
    for runtime in readable_runtimes(session, problems):
        if runtime.space is not None:
            regions = live_regions(session, runtime, runtime.space, problems)
            rows += each(session, regions.values(), partial(_record, session, runtime, problems))
    return answer(session, _as_tree(rows), records(session, problems), problems)


def live_regions(
    session: Session, runtime: LoadedRuntime, space: AddressSpace, problems: Problems
) -> dict[str, ParallelHandle]:
    """Return all regions that some thread is in, and those that enclose them, by id."""
    live: dict[str, ParallelHandle] = {}
    faults: list[tuple[str, OmpdError]] = []
    for thread in threads_of(runtime, problems):
        try:
            outside = thread.outside_of_target()
            for region in (thread.current_parallel(), outside.region if outside is not None else None):
                while region is not None and region.id not in live:
                    live[region.id] = region
                    region = region.enclosing()
        except OmpdError as error:
            faults.append((f"{runtime.id}: the regions of {name_thread(session, thread)}", error))
    for what, fault in faults:
        # If no thread shows a region, there may be one all the same. Then the unreadable fact always makes the answer
        # incomplete.
        (problems.missing if live else problems.unreadable)(what, fault)
    return live


def _record(session: Session, runtime: LoadedRuntime, problems: Problems, region: ParallelHandle) -> ParallelRecord:
    facts = Facts(f"region {region.id}", problems)
    size = facts.get("team_size", region.size)
    enclosing = facts.get("enclosing", region.enclosing)
    function = places.named(facts, "function", facts.get("function", places.region_function, session, region))
    members = tuple(facts.get(f"threads[{number}]", _member, session, region, number) for number in range(size or 0))
    _note_absent(region, members, facts, problems)
    requested, reduction = _sizes(session, region, facts)
    return ParallelRecord(
        id=region.id,
        runtime=runtime.id,
        level=facts.get("level", region.level),
        active_level=facts.get("active_level", region.active_level),
        team_size=size,
        enclosing=enclosing.id if enclosing is not None else None,
        function=function,
        tool_data=facts.get("tool_data", region.tool_data),
        threads=members,
        ompt_id=facts.own("ompt_id", region.ompt_id),
        requested=requested.threads if requested is not None else None,
        requested_by=requested.by if requested is not None else None,
        reduced_by=reduction.by if reduction is not None else None,
        reduction=team_sizes.words(session, reduction) if reduction is not None else None,
        unavailable=facts.unavailable,
    )


def _sizes(
    session: Session, region: ParallelHandle, facts: Facts
) -> tuple[team_sizes.Requested | None, team_sizes.Reduction | None]:
    requested = facts.get("requested", team_sizes.requested, session, region)
    if requested is None:
        for name in ("requested_by", "reduced_by"):
            facts.unavailable[name] = facts.unavailable["requested"]
        return None, None
    return requested, facts.get("reduced_by", team_sizes.reduction, region, requested.threads)


def _note_absent(region: ParallelHandle, members: Sequence[int | None], facts: Facts, problems: Problems) -> None:
    absent = [number for number, native in enumerate(members) if native is None]
    if absent:
        reason = facts.unavailable[f"threads[{absent[0]}]"]
        if not any(warning.endswith(reason) for warning in problems.warnings):
            problems.note(f"region {region.id}: {len(absent)} of its {len(members)} threads unknown: {reason}")


def _member(session: Session, region: ParallelHandle, thread_num: int) -> int:
    return native_thread(session, region.thread(thread_num))


def _as_tree(rows: list[ParallelRecord]) -> list[ParallelRecord]:
    # Siblings are in the order of their primary threads' numbers in the enclosing region. Of siblings with the same
    # number, such as regions of several initial threads, the one that was found last is first.
    numbers = {row.id: {thread: number for number, thread in enumerate(row.threads)} for row in rows}

    def number_outside(row: ParallelRecord) -> int:
        return numbers.get(row.enclosing or "", {}).get(row.threads[0] if row.threads else None, 0)

    latest_first = rows[::-1]
    latest_first.sort(key=number_outside)
    return as_tree(latest_first, attrgetter("enclosing"))
