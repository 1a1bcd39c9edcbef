"""The walks that runtimes share, on invented structures: each ends, and reports an endless structure as damage."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ompd.contract.helpers import walks
from ompd.contract.helpers.walks import all_tasks, chain
from ompd.errors import CorruptState


def test_a_chain_is_followed_to_its_end() -> None:
    following = {1: 5, 5: 3, 3: None}
    assert list(chain(1, following.__getitem__, 3, "it")) == [1, 5, 3]
    assert list(chain(None, following.__getitem__, 3, "it")) == []


@pytest.mark.parametrize("following", [{1: 5, 5: 3, 3: 5}, {1: 1}, {1: 5, 5: 3, 3: 4, 4: 6, 6: 7}])
def test_a_chain_without_end_is_damage_where_it_comes_back_or_is_too_long(following: dict[int, int]) -> None:
    found = []
    with pytest.raises(CorruptState, match="the chain of teams does not end") as caught:
        for at in chain(1, following.__getitem__, 4, "the chain of teams"):
            found.append(at)
    assert len(found) == len(set(found)) <= 4
    assert caught.value.address == following[found[-1]]


def test_what_follows_is_asked_for_when_it_is_needed() -> None:
    asked = []

    def following(at: int) -> int:
        asked.append(at)
        return at + 1

    walk = chain(1, following, 10, "it")
    assert (next(walk), next(walk), asked) == (1, 2, [1])


@dataclass(frozen=True)
class Task:
    address: int


def test_all_tasks_are_met_once_whatever_leads_to_them() -> None:
    children = {1: [2, 3], 2: [3, 1], 3: [3], 4: [2]}
    found = [task.address for task in all_tasks(map(Task, (1, 4, 1)), lambda task: map(Task, children[task.address]))]
    assert sorted(found) == [1, 2, 3, 4]


def test_more_tasks_than_any_program_has_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "MAX_TASKS", 50)
    with pytest.raises(CorruptState, match="more tasks than any program has"):
        list(all_tasks([Task(1)], lambda task: [Task(task.address + 1)]))
