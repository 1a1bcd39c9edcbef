"""``why`` remarks on teams that are smaller than requested, and only on those."""

from __future__ import annotations

from typing import cast

import pytest

from ompd.analysis.moment import Moment
from ompd.model import VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.questions import why
from ompd.questions.why import small_teams as small_teams_module
from ompd.session import Session
from tests.support.runtimes import INTEL
from tests.support.team_sizes import SCENARIOS, build_sizes, running_sizes

BUILDS = (("gcc", "libgomp"), ("clang", INTEL))


def small_teams(name: str, compiler: str, runtime: str) -> list[VerdictRecord]:
    """Return the verdicts on small teams of a program that runs."""
    program = build_sizes("c", compiler, runtime, ("-O0",))
    with running_sizes(program, SCENARIOS[name]) as (process_id, _, _), Session.attach(process_id) as session:
        answer = session.ask(why.ask)
    return [verdict for verdict in answer.rows if verdict.kind is VerdictKind.SMALL_TEAM]


@pytest.mark.parametrize(("compiler", "runtime"), BUILDS)
@pytest.mark.parametrize(
    ("name", "setting", "advice"),
    [("limit", "OMP_THREAD_LIMIT=2", "raise OMP_THREAD_LIMIT"), ("dynamic", "dyn-var is true", "omp_set_dynamic(0)")],
)
def test_a_team_smaller_than_its_clause_is_remarked(
    name: str, setting: str, advice: str, compiler: str, runtime: str
) -> None:
    (verdict,) = small_teams(name, compiler, runtime)
    assert (verdict.stuck, verdict.confidence) == ("unknown", "possible")
    assert f"({setting})" in verdict.summary
    assert "omp_get_num_threads()" in verdict.advice[0] and advice in verdict.advice[1]
    assert verdict.roots and verdict.place is not None


@pytest.mark.parametrize(("compiler", "runtime"), BUILDS)
@pytest.mark.parametrize("name", ["constant", "nested_by_default", "limit_no_clause", "condition"])
def test_a_team_of_the_usual_size_is_not(name: str, compiler: str, runtime: str) -> None:
    assert small_teams(name, compiler, runtime) == []


def _verdict(kind: VerdictKind, stuck: Confidence = Confidence.UNKNOWN, *explains: int) -> VerdictRecord:
    return VerdictRecord(kind=kind, stuck=stuck, confidence=Confidence.LIKELY, summary=kind, explains=explains)


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ((_verdict(VerdictKind.NO_STALL),), ["small_team", "no_stall"]),
        (
            (_verdict(VerdictKind.FEW_PROCESSORS), _verdict(VerdictKind.NO_STALL), _verdict(VerdictKind.SPIN_BURN)),
            ["few_processors", "small_team", "no_stall", "spin_burn"],
        ),
        ((_verdict(VerdictKind.LAGGARD),), ["laggard", "small_team"]),
        ((_verdict(VerdictKind.SPIN_WAIT, Confidence.LIKELY, 7),), ["spin_wait"]),
        ((_verdict(VerdictKind.LOCK_CYCLE, Confidence.PROVEN, 7),), ["lock_cycle"]),
    ],
)
def test_a_remark_comes_before_the_verdict_that_nothing_hangs_and_after_all_others(
    given: tuple[VerdictRecord, ...], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remark = _verdict(VerdictKind.SMALL_TEAM, Confidence.UNKNOWN, 7)
    monkeypatch.setattr(small_teams_module, "_small_teams", lambda session, moment: iter([remark]))
    verdicts = small_teams_module.with_small_teams(cast(Session, None), Moment(threads=()), given)
    assert [verdict.kind for verdict in verdicts] == kinds
    assert verdicts[0].others == ("small_team" if kinds == ["spin_wait"] else None)
