"""``why`` remarks on teams that are smaller than requested, and only on those."""

from __future__ import annotations

import pytest

from ompd.model import VerdictRecord
from ompd.model.kinds import VerdictKind
from ompd.questions import why
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
