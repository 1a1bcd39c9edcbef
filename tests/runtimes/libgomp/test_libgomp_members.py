"""The teams of libgomp's threads, on invented teams: primary threads, idle threads, and contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ompd.errors import CorruptState, MemoryFault
from ompd.runtimes.libgomp.members import Member, Membership, Roster
from ompd.runtimes.libgomp.stacks import BEGIN, PARALLEL, Group

OUTER, INNER = 0x1000, 0x2000
OUTER_TEAM = {"nthreads": 2, "outer_team": None, "outer_number": 0, "outer_level": 0}
INNER_TEAM = {"nthreads": 2, "outer_team": OUTER, "outer_number": 1, "outer_level": 1}
IN_CODE = Group(1, 1, BEGIN, PARALLEL, None)
FORKED = Group(1, 1, "GOMP_parallel", PARALLEL, 2)


class View(dict[str, int]):
    """The members of a structure by name. All other members are 0."""

    def unsigned(self, name: str) -> int:
        return self.get(name, 0)

    def pointer(self, name: str) -> int | None:
        return self.get(name) or None


class Process:
    """A runtime with these threads and two teams, in a process of *count* threads (by default as many as these)."""

    def __init__(self, *threads: Member, count: int | None = None, **changes: Mapping[str, Any]) -> None:
        known = {OUTER: OUTER_TEAM | dict(changes.get("outer", {})), INNER: INNER_TEAM | dict(changes.get("inner", {}))}
        self.teams = {at: SimpleNamespace(address=at, **members) for at, members in known.items()}
        self.process = SimpleNamespace(threads=lambda: range(len(threads) if count is None else count))
        self.threads = lambda: threads
        self.roster = Roster(cast("Any", self))
        for thread in threads:
            thread.runtime = cast("Any", self)

    def team_at(self, address: int) -> object:
        return self.teams[address]


def member(native: int, team: int, number: int, level: int, groups: Sequence[Group] = ()) -> Member:
    thread = Member(cast("Any", None), native, 16 * native)
    words = View({"ts.team": team, "ts.team_id": number, "ts.level": level, "task": 1, "thread_pool": 2})
    is_in_region = bool(groups) and groups[-1].entry == BEGIN
    frames = tuple(SimpleNamespace(is_signal_frame=False) for _ in range(3))
    stack = {"groups": tuple(groups), "stopped": None, "frames": frames, "is_in_region": is_in_region}
    thread.__dict__.update(view=words, stack=SimpleNamespace(**stack, runs_other_code=True, futex_word=lambda: None))
    return thread


def test_a_primary_thread_is_in_its_team_and_in_those_around_up_to_where_it_is_a_worker() -> None:
    first, second, third = member(1, OUTER, 0, 1), member(2, INNER, 0, 2), member(3, INNER, 1, 2)
    Process(first, second, third)
    assert second.memberships == (Membership(INNER, 0), Membership(OUTER, 1))
    assert third.memberships == (Membership(INNER, 1),)
    assert [thread.thread_num() for thread in (first, second, third)] == [0, 0, 1]
    assert [thread.thread_type() for thread in (first, second, third)] == ["initial", "worker", "worker"]


def test_a_worker_is_idle_once_the_primary_thread_has_left() -> None:
    first, second = member(1, 0, 0, 0), member(2, OUTER, 1, 1)
    process = Process(first, second)
    assert process.roster.live_teams == frozenset()
    assert second.claims and not second.memberships and second.is_idle and second.thread_num() is None
    assert not first.is_idle and first.thread_num() == 0


def test_members_of_live_teams_are_known_by_their_numbers() -> None:
    first, second, third = member(1, OUTER, 0, 1), member(2, INNER, 0, 2), member(3, INNER, 1, 2)
    roster = Process(first, second, third).roster
    assert roster.members(OUTER) == {0: first, 1: second}
    assert roster.members(INNER) == {0: second, 1: third}
    assert roster.members(0x9000) == {}


@pytest.mark.parametrize(
    ("thread", "changes", "reason"),
    [
        (member(1, OUTER, 2, 1), {}, "thread number 2 in a team of 2"),
        (member(1, OUTER, 0, 2), {}, "team at level 2, its region's at 0"),
        (member(1, INNER, 0, 2), {"inner": {"outer_level": 0}}, "team at level 2, its region's at 0"),
        (member(1, OUTER, 0, 1), {"outer": {"outer_team": OUTER, "outer_level": 0}}, "chain of teams does not end"),
    ],
)
def test_teams_that_contradict_each_other_are_damage(
    thread: Member, changes: dict[str, Mapping[str, Any]], reason: str
) -> None:
    Process(thread, **changes)
    with pytest.raises(CorruptState, match=reason):
        _ = thread.claims
    assert not thread.is_telling


def test_two_threads_of_one_number_are_damage() -> None:
    threads = member(1, OUTER, 0, 1), member(2, OUTER, 1, 1), member(3, OUTER, 1, 1)
    Process(*threads)
    assert threads[1].memberships
    with pytest.raises(CorruptState, match="threads 3 and 2 are both number 1"):
        _ = threads[2].memberships


def test_a_thread_that_cannot_be_read_keeps_others_from_being_idle_for_certain() -> None:
    lost, worker = member(1, OUTER, 0, 1), member(2, OUTER, 1, 1)
    lost.view.pointer = lambda name: (_ for _ in ()).throw(MemoryFault(0x10, 8))  # type: ignore[method-assign]
    roster = Process(lost, worker).roster
    assert isinstance(roster.unread, MemoryFault)
    with pytest.raises(MemoryFault):
        _ = worker.memberships


def test_the_child_of_a_forked_worker_keeps_its_team() -> None:
    worker = member(2, OUTER, 1, 1, [IN_CODE])
    assert Process(worker, count=1).roster.live_teams == {OUTER}
    assert worker.memberships == (Membership(OUTER, 1),)


def test_a_worker_in_the_code_of_a_region_that_nobody_leads_is_damage() -> None:
    worker = member(2, OUTER, 1, 1, [IN_CODE])
    Process(member(1, 0, 0, 0), worker)
    with pytest.raises(CorruptState, match="whose primary thread is not seen in it"):
        _ = worker.memberships


def test_regions_are_on_the_stack_in_their_order() -> None:
    task = Group(4, 5, "GOMP_barrier", "task", 6)
    thread = member(2, INNER, 0, 2, [FORKED, task, IN_CODE])
    Process(member(1, OUTER, 0, 1), thread, member(3, INNER, 1, 2))
    assert thread.hosted == {INNER: 0, OUTER: 2}
    assert thread.group_of(INNER) is FORKED and thread.is_in_code(OUTER)
    assert thread.is_told_apart(FORKED) and not thread.is_told_apart(task)


def test_regions_are_not_told_apart_where_a_frame_is_missing() -> None:
    thread = member(2, INNER, 0, 2, [IN_CODE])
    Process(member(1, OUTER, 0, 1), thread, member(3, INNER, 1, 2))
    thread.stack.groups = (IN_CODE._replace(entry="GOMP_parallel"),)  # type: ignore[misc]
    assert thread.hosted == {} and thread.group_of(OUTER) is None


def test_what_depends_on_itself_is_unknown_and_a_failure_is_kept() -> None:
    thread = member(1, OUTER, 0, 1)
    asked: list[int] = []

    def work() -> int:
        asked.append(1)
        return thread.once("it", work)

    for _ in range(2):
        with pytest.raises(Exception, match="depends on itself"):
            thread.once("it", work)
    assert len(asked) == 1
