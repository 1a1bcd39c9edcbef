"""Regions that got fewer threads than their ``num_threads`` clause requested, while members of their teams work.

A program that counts on the number in the clause then waits for threads that do not exist, by a loop of its own, or
leaves their part of the work undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ompd.analysis.moment import Moment
from ompd.model import Evidence, ParallelRecord, ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.questions import regions
from ompd.questions.team_sizes import CLAUSE, DYNAMIC, LEVELS, LIMIT
from ompd.session import Session

_MOST = 3  # verdicts
_ADVICE = {
    LIMIT: "or raise OMP_THREAD_LIMIT, or remove it",
    DYNAMIC: "or OMP_DYNAMIC=false, or omp_set_dynamic(0) before the region",
}


def with_small_teams(session: Session, moment: Moment, verdicts: Sequence[VerdictRecord]) -> tuple[VerdictRecord, ...]:
    """Return *verdicts* and those on regions with fewer threads than requested.

    These are remarks. They come before the verdict that nothing hangs, and after all others. None is made if threads
    are stuck for another reason. If threads spin in a loop that counts on the team, the remark is a part of that
    verdict.
    """
    stuck = [verdict for verdict in verdicts if verdict.stuck in (Confidence.PROVEN, Confidence.LIKELY)]
    if any(verdict.kind is not VerdictKind.SPIN_WAIT for verdict in stuck):
        return tuple(verdicts)
    small = tuple(_small_teams(session, moment))
    if stuck:
        return tuple(_explained(verdict, small) for verdict in verdicts)
    kinds = [verdict.kind for verdict in verdicts]
    index = kinds.index(VerdictKind.NO_STALL) if VerdictKind.NO_STALL in kinds else len(kinds)
    return (*verdicts[:index], *small, *verdicts[index:])


def _explained(verdict: VerdictRecord, small: Sequence[VerdictRecord]) -> VerdictRecord:
    # Return a verdict on threads that spin with the reason why their team is small, if it is.
    of_team = [
        team for team in small if not {*team.explains, *team.roots}.isdisjoint((*verdict.explains, *verdict.roots))
    ]
    if verdict.kind is not VerdictKind.SPIN_WAIT or not of_team:
        return verdict
    team = of_team[0]
    return replace(verdict, others=team.summary, advice=team.advice, evidence=(*team.evidence, *verdict.evidence))


def _small_teams(session: Session, moment: Moment) -> Iterator[VerdictRecord]:
    at_work: dict[tuple[str, str], list[ThreadRecord]] = {}
    for row in moment.threads:
        if row.runtime is not None and row.parallel is not None and row.wait is None and _works(row):
            at_work.setdefault((row.runtime, row.parallel), []).append(row)
    if not at_work:
        return
    rows = moment.regions if moment.regions is not None else regions.ask(session).rows
    teams: dict[tuple[object, ...], list[ThreadRecord]] = {}
    first: dict[tuple[object, ...], ParallelRecord] = {}
    for region in rows:
        members = at_work.get((region.runtime, region.id))
        if members is None or not _is_small(region):
            continue
        key: tuple[object, ...] = (region.function, region.requested, region.team_size, region.reduction)
        first.setdefault(key, region)
        teams.setdefault(key, []).extend(members)
    for key, members in list(teams.items())[:_MOST]:
        yield _verdict(first[key], members)


def _works(row: ThreadRecord) -> bool:
    return row.state is not None and row.state.startswith("work")


def _is_small(region: ParallelRecord) -> bool:
    # Whether the team is smaller than the clause requests, other than by its level. Inner regions have one thread by
    # default, so a region whose reason is unknown is left out, too, if it may be such a one.
    size, requested = region.team_size, region.requested
    if region.requested_by != CLAUSE or size is None or requested is None or size >= requested:
        return False
    return region.reduced_by in (LIMIT, DYNAMIC) or (
        region.reduced_by != LEVELS and (region.enclosing is None or size > 1)
    )


def _verdict(region: ParallelRecord, members: Sequence[ThreadRecord]) -> VerdictRecord:
    got = f"requested {region.requested} threads and got {region.team_size}"
    reason = f" ({region.reduction})" if region.reduction is not None else ""
    evidence = [Evidence(f"the code passes {region.requested} as num_threads", "derived")]
    if region.reduction is not None:
        evidence.append(Evidence(f"{region.reduced_by} gave the team fewer", "runtime"))
    natives = [row.native_thread_id for row in members if row.native_thread_id is not None]
    unknown = region.unavailable.get("reduced_by")
    return VerdictRecord(
        kind=VerdictKind.SMALL_TEAM,
        stuck=Confidence.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        summary=f"{_name(region)} {got}{reason}: code that expects {region.requested} may wait for ever",
        advice=(
            "use omp_get_num_threads() inside of the region: a team may be smaller than num_threads",
            *((_ADVICE[region.reduced_by],) if region.reduced_by in _ADVICE else ()),
        ),
        roots=tuple(natives),
        evidence=tuple(evidence),
        unknowns=(f"what gave the team fewer threads: {unknown}",) if unknown is not None else (),
        next_step="ompd parallel TARGET",
        place=next((row.where for row in members if row.where is not None), None),
    )


def _name(region: ParallelRecord) -> str:
    function = region.function
    if function is not None and function.file is not None and function.line is not None:
        return f"the region at {PurePosixPath(function.file).name}:{function.line}"
    if function is not None and function.function is not None:
        return f"a region in {function.function}"
    return f"the region {region.id}"
