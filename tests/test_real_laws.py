"""The laws of the campaign on programs of others: what obeys them passes, and each of them can be broken."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.real import laws

_TARGET = {"stops_ns": [700_000]}


def waiting(thread: int, number: int, missing: list[int]) -> dict[str, Any]:
    wait = {"kind": "barrier", "arrived": 2, "expected": 3, "missing": missing, "owner": None}
    return {**working(thread, number), "state": "wait_barrier", "wait": wait}


def working(thread: int, number: int) -> dict[str, Any]:
    return {
        **{"native_thread_id": thread, "thread_num": number, "team_size": 3, "level": 1, "runtime": "libgomp"},
        **{"parallel": "0x10", "task": f"0x{number}", "state": "work_parallel", "wait": None, "unavailable": {}},
    }


def threads() -> dict[str, Any]:
    rows = [waiting(7, 0, [9]), waiting(8, 1, [9]), working(9, 2)]
    return {"target": _TARGET, "complete": True, "warnings": [], "threads": rows}


def said(command: str, answer: dict[str, Any], code: int = 0) -> list[str]:
    return laws.broken(command, answer, code, (7, 8, 9), (7, 8, 9))


def test_a_right_answer_breaks_none() -> None:
    assert said("threads", threads()) == []


@pytest.mark.parametrize(
    ("path", "value", "law"),
    [
        ((0, "native_thread_id"), 8, "listed 2 times"),
        ((0, "native_thread_id"), 77, "did not have"),
        ((1, "native_thread_id"), 77, "had all the time are missing"),
        ((1, "thread_num"), 0, "is told of 2 threads"),
        ((1, "thread_num"), 4, "has number 4 of 3"),
        ((2, "team_size"), 2, "several sizes"),
        ((2, "state"), None, "nothing says why"),
        ((0, "wait", "missing"), [7], "missing from the barrier at which it waits"),
        ((0, "wait", "missing"), [], "0 missing of 3"),
        ((0, "wait", "missing"), [8], "does not miss it"),
        ((0, "wait", "missing"), [77], "which is not listed"),
        ((0, "wait", "owner"), 77, "waits for thread 77"),
    ],
)
def test_what_breaks_a_law_of_threads(path: tuple[Any, ...], value: object, law: str) -> None:
    answer = copy.deepcopy(threads())
    place = answer["threads"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert any(law in text for text in said("threads", answer)), said("threads", answer)


def test_what_breaks_a_law_of_all_answers() -> None:
    answer = threads()
    assert said("threads", answer, 3) == ["exit code 3, where complete is True"]
    answer["complete"] = False
    assert said("threads", answer, 3) == ["not complete, and no warning says why"]
    answer = {**threads(), "target": {"stops_ns": [1, 51_000_000]}}
    assert said("threads", answer) == ["a stop of 51.0 ms, where 50 ms are the bound"]


def test_what_breaks_a_law_of_tasks() -> None:
    row = {"id": "0x1", "generating": None, "scheduling": None, "status": "executing", "thread": 7, "unavailable": {}}
    answer = {"target": _TARGET, "complete": True, "warnings": [], "tasks": [row]}
    assert said("tasks", answer) == []
    for change, law in (
        ({"generating": "0x2"}, "which is not listed"),
        ({"thread": None}, "executed by no thread"),
        ({"status": "queued"}, "is queued"),
    ):
        assert law in "".join(said("tasks", {**answer, "tasks": [{**row, **change}]}))
    assert any("at once" in text for text in said("tasks", {**answer, "tasks": [row, {**row, "id": "0x3"}]}))


def test_what_breaks_a_law_of_answers_together() -> None:
    tasks = [{"id": f"0x{number}", "thread": number + 7, "parallel": "0x10"} for number in range(3)]
    common = {"complete": True}
    answers: dict[str, Any] = {
        "threads": {**common, **threads()},
        "parallel": {**common, "parallel": [{"id": "0x10", "threads": [7, 8, 9]}]},
        "tasks": {**common, "tasks": tasks},
        "stack": {**common, "stack": [{"threads": [7, 8, 9]}]},
    }
    assert laws.broken_together(answers) == []
    for command, rows, law in (
        ("parallel", [], "is in region 0x10, which is not listed"),
        ("parallel", [{"id": "0x10", "threads": [7, 8]}], "does not list its thread 9"),
        ("tasks", tasks[:2], "executes task 0x2, which is not listed"),
        ("tasks", [*tasks[:2], {**tasks[2], "thread": 7}], "which says thread 7"),
        ("stack", [{"threads": [7, 8]}], "are not those that are listed"),
    ):
        changed = {**answers, command: {**common, command: rows}}
        assert any(law in text for text in laws.broken_together(changed)), law
