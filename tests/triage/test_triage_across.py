"""The ranks of a job that wait for one another, and the ends of these chains, in invented jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ompd.model.triage import JobRecord
from ompd.render.answers.triage import describe_triage
from ompd.triage.across import Jobs
from ompd.triage.groups import Groups

ALL = {"routine": "MPI_Allreduce", "link": "", "rank": None, "world": True}
BARRIER = {"routine": "MPI_Barrier", "link": "", "rank": None, "world": True}


def receives(rank: int | None) -> dict[str, Any]:
    return {"routine": "MPI_Recv", "link": "from", "rank": rank, "world": True}


def job(calls: list[list[dict[str, Any]]], size: int | None = None) -> JobRecord:
    jobs = Jobs()
    for rank, own in reversed([*enumerate(calls)]):
        result = {"target": f"core.{rank}", "rank": rank, "job": "7", "size": size, "verdict": "laggard", "mpi": own}
        jobs.add(result, f"rank {rank} works")
    (found,) = jobs.records()
    return found


def ends(found: JobRecord) -> list[tuple[tuple[int, ...], str, tuple[int, ...]]]:
    return [(end.ranks, end.kind, end.waiting) for end in found.ends]


def test_a_thousand_ranks_wait_for_one() -> None:
    found = job([[] if rank == 17 else [ALL] for rank in range(1000)], 1000)
    others = tuple(rank for rank in range(1000) if rank != 17)
    assert ends(found) == [((17,), "rank", others)]
    assert found.ends[0].summary == "rank 17 works"


def test_what_all_wait_for_in_the_end_is_at_the_end_of_the_chain() -> None:
    # Rank 3 receives from 4, which receives from 5.
    found = job([[ALL], [ALL], [ALL], [receives(4)], [receives(5)], []])
    assert ends(found) == [((5,), "rank", (0, 1, 2, 3, 4))]


def test_two_that_receive_from_each_other_are_a_cycle() -> None:
    found = job([[ALL], [receives(2)], [receives(1)], [ALL]])
    assert ends(found) == [((1, 2), "cycle", (0, 3))]


def test_ranks_in_different_calls_wait_for_each_other() -> None:
    assert ends(job([[ALL], [ALL], [BARRIER]])) == [((0, 1, 2), "cycle", ())]


def test_more_depend_on_one_than_on_another() -> None:
    found = job([[receives(1)], [], [receives(4)], [receives(4)], []])
    assert ends(found) == [((4,), "rank", (2, 3)), ((1,), "rank", (0,))]


def test_a_rank_that_was_not_inspected_is_said_to_be_the_end() -> None:
    assert ends(job([[ALL], [ALL]], 3)) == [((2,), "not_inspected", (0, 1))]
    assert ends(job([[receives(9)]])) == [((9,), "not_inspected", (0,))]


def test_ranks_with_the_same_wrong_are_one_end_and_others_are_counted() -> None:
    jobs = Jobs()
    for rank in range(2000):
        members = {"job": "7", "size": 2001, "verdict": "laggard", "mpi": [ALL] if rank % 2 else []}
        jobs.add({"target": f"core.{rank}", "rank": rank, **members}, f"rank works at {rank % 200}")
    (found,) = jobs.records()
    odd = tuple(range(1, 2000, 2))
    assert len(found.ends) + found.more_ends == 101 and len(found.ends) < 101
    assert found.ends[0].ranks == tuple(range(0, 2000, 200)) and found.ends[0].summary == "rank works at 0"
    assert all(end.waiting is found.ends[0].waiting == odd for end in found.ends)
    answer = Groups().answer()
    text = [*describe_triage(replace(answer, jobs=(found,)))]
    assert f"  and {found.more_ends} more on which others depend" in text


@pytest.mark.parametrize("size", [1, 1 << 30])
def test_a_size_that_cannot_be_is_not_believed(size: int) -> None:
    found = job([[ALL], [ALL]], size)
    assert found.size is None and ends(found) == []


def test_a_call_that_all_are_in_waits_for_nobody() -> None:
    found = job([[ALL], [ALL]], 2)
    assert [(wait.ranks, wait.missing, wait.unknown) for wait in found.waits] == [((0, 1), (), None)]


@pytest.mark.parametrize("call", [{**ALL, "world": False}, {**ALL, "world": None}, receives(None)])
def test_what_is_not_known_waits_for_nobody_that_is_named(call: dict[str, Any]) -> None:
    found = job([[call], []])
    assert found.ends == () and found.waits[0].unknown is not None


def test_a_long_chain_needs_no_recursion() -> None:
    found = job([[receives(rank + 1)] for rank in range(5000)] + [[]])
    assert ends(found) == [((5000,), "rank", tuple(range(5000)))]
