"""The laws of the campaign: right answers obey them, and for each law there is an answer that breaks it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import judge, kinds, laws, page
from tests.campaign.agreement import DIFFERENT, disagreements
from tests.campaign.finds import Finds, smallest
from tests.campaign.programs import Built
from tests.campaign.samples import TOGETHER, Sample
from tests.support.runs import kernel_core_obstacle, stopped

_TARGET = {"stops_ns": [700_000]}


def waiting(thread: int, number: int, missing: list[int]) -> dict[str, Any]:
    wait = {"kind": "barrier", "arrived": 2, "expected": 3, "missing": missing, "owner": None}
    return {**working(thread, number), "state": "wait_barrier", "wait": wait}


def working(thread: int, number: int) -> dict[str, Any]:
    return {
        **{"native_thread_id": thread, "thread_num": number, "team_size": 3, "level": 1, "runtime": "libgomp"},
        **{"parallel": "0x10", "task": f"0x{number}", "state": "work_parallel", "wait": None, "unavailable": {}},
        **{"ancestors": [], "outside_of_target": None},
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


def test_a_thread_that_is_missing_may_wait_in_a_nested_region() -> None:
    answer = threads()
    inner = {"kind": "barrier", "arrived": 1, "expected": 2, "missing": [10], "owner": None}
    answer["threads"][2] |= {"wait": inner, "state": "wait_barrier"}
    answer["threads"].append({**working(10, 1), "parallel": "0x20", "team_size": 2})
    law = "misses thread 9, which does not miss it"
    assert law in "".join(laws.broken("threads", answer, 0))
    answer["threads"][2] |= {"parallel": "0x20", "thread_num": 0, "team_size": 2, "level": 2, "ancestors": [2]}
    assert law not in "".join(laws.broken("threads", answer, 0))


def test_what_breaks_a_law_of_all_answers() -> None:
    answer = threads()
    assert said("threads", answer, 3) == ["exit code 3, where complete is True"]
    answer["complete"] = False
    assert said("threads", answer, 3) == ["not complete, and no warning says why"]


def test_a_stop_is_too_long_unless_something_waited_for_a_processor() -> None:
    assert laws.broken_stops([(49_000_000, 0), (51_000_000, 0)]) == ([], 0)
    found, busy = laws.broken_stops([(70_000_000, 10_000_000)])
    assert "a stop of 70.0 ms, 10.0 ms of them without a processor" in found[0] and busy == 0
    assert laws.broken_stops([(70_000_000, 30_000_000)]) == ([], 1)
    assert laws.broken_stops([(70_000_000, 0)], threads=512) == ([], 0)


def test_nothing_is_proven_of_a_program_that_goes_on() -> None:
    row = {"kind": "lock_cycle", "stuck": "likely", "summary": "deadlock"}
    assert list(laws.proven({"why": [row]})) == []
    assert list(laws.proven({"why": [row, {**row, "stuck": "proven"}]})) == [
        "lock_cycle is said to be stuck for certain: deadlock"
    ]


def test_memory_is_bounded() -> None:
    assert laws.broken_memory(100 << 20) == []
    assert laws.broken_memory(1 << 30) == ["1024 MiB of memory were taken, where 512 MiB are the bound"]


def test_threads_are_those_that_something_else_tells_of() -> None:
    rows = threads()["threads"]
    assert laws.broken_counts(rows, [9, 8, 7], "/proc") == []
    assert "[7]" in laws.broken_counts(rows, [8, 9], "/proc")[0]
    assert "[10]" in laws.broken_counts(rows, [7, 8, 9, 10], "/proc")[0]
    assert laws.broken_counts([*rows, rows[0]], [7, 8, 9], "/proc")


def region(**changes: Any) -> dict[str, Any]:
    known = {"id": "0x10", "enclosing": None, "level": 1, "active_level": 1, "team_size": 3, "threads": [7, 8, 9]}
    return {**known, "runtime": "libgomp", **changes}


def test_what_breaks_a_law_of_regions() -> None:
    inner = region(id="0x20", enclosing="0x10", level=2)
    answer = {"target": _TARGET, "complete": True, "warnings": [], "parallel": [region(), inner]}
    assert said("parallel", answer) == []
    for changed, law in (
        ({"id": "0x10"}, "is listed 2 times"),
        ({"enclosing": "0x30"}, "which is not listed"),
        ({"level": 3}, "in one at level 1"),
        ({"threads": [7, 8, 8]}, "lists thread 8 twice"),
        ({"threads": [7, 8]}, "of 3 threads lists 2"),
    ):
        assert law in "".join(said("parallel", {**answer, "parallel": [region(), {**inner, **changed}]}))


def test_what_breaks_a_law_of_tasks() -> None:
    row = {"id": "0x1", "generating": None, "scheduling": None, "status": "executing", "thread": 7, "unavailable": {}}
    row["waits_for"] = None
    answer = {"target": _TARGET, "complete": True, "warnings": [], "tasks": [row]}
    assert said("tasks", answer) == []
    for change, law in (
        ({"generating": "0x2"}, "which is not listed"),
        ({"waits_for": {"tasks": ["0x2"]}}, "waits for task 0x2, which is not listed"),
        ({"thread": None}, "executed by no thread"),
        ({"status": "queued"}, "is queued"),
    ):
        assert law in "".join(said("tasks", {**answer, "tasks": [{**row, **change}]}))
    assert any("at once" in text for text in said("tasks", {**answer, "tasks": [row, {**row, "id": "0x3"}]}))


def together() -> dict[str, Any]:
    """Return answers about a team of three, whose thread 0 is also thread 0 of a team of two."""
    rows = [
        {**working(7, 0), "team_size": 2, "level": 2, "parallel": "0x20", "ancestors": [0]},
        {**working(11, 1), "team_size": 2, "level": 2, "parallel": "0x20", "ancestors": [0], "task": "0x3"},
        working(8, 1),
        working(9, 2),
    ]
    tasks = [
        {"id": row["task"], "thread": row["native_thread_id"], "parallel": row["parallel"], "status": "executing"}
        for row in rows
    ]
    frame = {"task": "0x0", "thread": 7, "kind": "user", "inlined": False}
    stacks = [
        {
            **{
                key: row[key] for key in ("native_thread_id", "runtime", "thread_num", "team_size", "level", "parallel")
            },
            "threads": [row["native_thread_id"]],
            **{"thread_nums": [row["thread_num"]], "ancestors": [row["ancestors"]], "frames": [frame]},
        }
        for row in rows
    ]
    icvs = [
        {"scope": "thread", "handle": "7", "name": "thread-num-var", "value": 0, "runtime": "libgomp"},
        {"scope": "parallel", "handle": "0x20", "name": "team-size-var", "value": 2, "runtime": "libgomp"},
    ]
    regions = [region(), region(id="0x20", enclosing="0x10", level=2, team_size=2, threads=[7, 11])]
    lists = {"runtimes": [{"id": "libgomp"}], "threads": rows, "parallel": regions, "tasks": tasks}
    lists |= {"stack": stacks, "icvs": icvs}
    return {
        command: {"target": _TARGET, "complete": True, "warnings": [], command: listed}
        for command, listed in lists.items()
    }


@pytest.mark.parametrize(
    ("command", "row", "change", "law"),
    [
        ("threads", 0, {"parallel": "0x30"}, "is in region 0x30, which is not listed"),
        ("threads", 0, {"thread_num": 1}, "number 1 of region 0x20 is told of threads 7 and 11"),
        ("threads", 2, {"thread_num": 2}, "lists [7, 8, 9], where thread 8 has number 2"),
        ("threads", 0, {"ancestors": [1]}, "lists [7, 8, 9], where thread 7 has number 1"),
        ("threads", 0, {"team_size": 3}, "is one of 3, and its region 0x20 has 2"),
        ("threads", 0, {"level": 1}, "at level 1, and its region 0x20 at 2"),
        ("threads", 0, {"task": "0x9"}, "executes task 0x9, which is not listed"),
        ("threads", 0, {"runtime": "libomp"}, "of runtime libomp, which is not listed"),
        ("parallel", 0, {"threads": [7, 8, 77]}, "has thread 77, which is not listed"),
        ("parallel", 1, {"threads": [7, 8]}, "does not list its thread 11"),
        ("parallel", 1, {"threads": [11, 7]}, "where thread 7 has number 0"),
        ("tasks", 0, {"thread": 8}, "which says thread 8"),
        ("tasks", 0, {"thread": 77}, "has thread 77, which is not listed"),
        ("tasks", 0, {"id": "0x9"}, "says that thread 7 executes it, which executes another"),
        ("tasks", 0, {"parallel": "0x30"}, "is of region 0x30, which is not listed"),
        ("stack", 0, {"threads": [8]}, "are not those that are listed"),
        ("stack", 0, {"thread_nums": [1]}, "thread_num is 0, and 1 with its stack"),
        ("stack", 0, {"ancestors": [[1]]}, "ancestors is [0], and [1] with its stack"),
        ("stack", 0, {"parallel": "0x10"}, "its region is 0x20, and 0x10 with its stack"),
        ("stack", 0, {"frames": [{"task": "0x9", "thread": None}]}, "is of task 0x9, which is not listed"),
        ("stack", 0, {"frames": [{"task": None, "thread": 77}]}, "is of thread 77, which is not listed"),
        ("icvs", 0, {"handle": "77"}, "icvs are told of thread 77"),
        ("icvs", 0, {"value": 1}, "thread-num-var of 7 is 1, where the other question has 0"),
        ("icvs", 1, {"value": 3}, "team-size-var of 0x20 is 3, where the other question has 2"),
    ],
)
def test_what_breaks_a_law_of_answers_together(command: str, row: int, change: dict[str, Any], law: str) -> None:
    answers = together()
    assert laws.broken_together(answers) == []
    answers[command][command][row].update(change)
    assert any(law in text for text in laws.broken_together(answers)), laws.broken_together(answers)


def test_a_schema_sees_some_of_many_rows() -> None:
    answer = {"tasks": list(range(1000))}
    part = laws.sampled(answer, "tasks", 40)["tasks"]
    assert part[:20] == list(range(20)) and len(part) <= 40 and part[-1] > 900
    assert laws.sampled(answer, "tasks", 1000) is answer


# Targets of one moment


def test_answers_of_one_moment_agree() -> None:
    one = together()
    assert disagreements(one, copy.deepcopy(one)) == []
    for path in DIFFERENT:
        assert path.startswith("target.")
    other = copy.deepcopy(one)
    other["threads"]["target"] = {**_TARGET, "stops_ns": [1], "file": "core", "kind": "core"}
    one["threads"]["target"] = {**_TARGET, "file": None, "kind": "live"}
    assert disagreements(one, other) == []
    for each in (one, other):
        frame = {"kind": "system", "inlined": False, "function": "clone3", "file": None, "line": None}
        each["stack"]["stack"][0]["frames"] = [frame]
    other["stack"]["stack"][0]["frames"] = [{**frame, "inlined": True}, {**frame, "function": "__clone3", "line": 7}]
    assert disagreements(one, other) == []
    other["threads"]["threads"][0]["thread_num"] = 5
    other["tasks"]["tasks"].pop()
    assert disagreements(one, other, ("process", "core")) == [
        "threads of process and core: threads.threads[0].thread_num is 0 and 5",
        "tasks of process and core: tasks.tasks has 4 and 3 rows",
    ]


def test_an_answer_that_is_not_whole_may_tell_less_and_nothing_else() -> None:
    target = {"kind": "core", "architecture": "x86_64", "executable": "/a", "process_id": 7, "thread_count": 4}
    one = together()["parallel"]
    one["target"] = {**target, "command": "a", "signal": None, "signal_name": None}
    for row in one["parallel"]:
        row["unavailable"] = {}
    less = copy.deepcopy(one)
    less |= {"complete": False}
    less["parallel"].pop()
    assert disagreements({"parallel": one}, {"parallel": less}) == []
    less["parallel"][0]["level"] = 2
    assert "level is 2, not 1" in disagreements({"parallel": one}, {"parallel": less})[0]


def test_the_threads_of_a_core_are_read_from_its_notes() -> None:
    if kernel_core_obstacle() is not None:
        pytest.skip("no kernel core")
    core = stopped("barrier")
    there = kinds.threads_in_core(core.core)
    assert len(there) == len(set(there)) > 1
    assert judge.judged([core.core], ["threads"]) == []
    answer = judge.answered(core.core, ["threads"]).answers["threads"]
    assert laws.broken_counts(answer["threads"], there, "its notes") == []


# Contents of a find


def test_the_smallest_command_is_found() -> None:
    tried = []

    def breaks(candidate: str, questions: Any) -> bool:
        tried.append((candidate, tuple(questions)))
        return candidate != "snapshot" and {"threads", "stack"} <= set(questions)

    questions = ("runtimes", "threads", "tasks", "stack")
    assert smallest(["snapshot", "core"], questions, breaks) == ("core", ("threads", "stack"))
    assert tried[0] == ("snapshot", questions)
    assert smallest(["core"], questions, lambda _, asked: "tasks" in asked) == ("core", ("tasks",))
    assert smallest(["snapshot"], questions, breaks) is None


def test_a_find_can_be_seen_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Built("prog", "libgomp", "gcc", "O3", ("/bin/prog", "-n"), {"A": "b"}, lambda *_: None, Path("/bin/prog"))
    answers = {"threads": {**threads(), "runtimes": [], "schema": "ompd/threads/1"}}
    answers["threads"]["threads"][1]["thread_num"] = 0
    sample = Sample("live", TOGETHER, 0, 0.1, answers, json.dumps(answers), "", frozenset((7, 8, 9)))
    law = next(law for law in judge.broken(sample) if "is told of 2 threads" in law)
    finds = Finds(tmp_path, "7")
    for _ in range(9):
        finds.add(program, "live, number 3", law, [sample], {})
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == finds.kept == 2
    how = (folders[0] / "how.txt").read_text()
    assert f"law          {law}\n" in how and "prog on libgomp: /bin/prog -n" in how and "seed         7" in how
    Finds(tmp_path, "7").add(program, "live, number 4", law, [sample], {})
    assert len(list(tmp_path.iterdir())) == 3, "another campaign of that seed goes on behind"
    again = how.partition("tests.campaign.judge ")[2].split("\n")[0].split()
    assert again[:2] == ["--questions", "threads"]
    assert judge.main(again) == 1
    assert law in capsys.readouterr().out


def test_the_page_has_what_was_seen(tmp_path: Path) -> None:
    row = {
        **{"program": "prog", "runtime": "libgomp", "moments": {"live": 2, "abort": 1}, "answers": {"live": 2}},
        **{"codes": {"0": 1, "3": 1}, "longest_stop": 1.25, "slowest": 0.5, "grown": 3 << 20, "busy": 1, "ended": 1},
        **{"no_state": 0, "no_where": 0, "broken": {"law N": 1}, "reasons": {}},
    }
    seen = [{"seed": "1", "missing": {}, "rows": [row]}, {"seed": "2", "missing": {}, "rows": [row]}]
    file = tmp_path / "campaign.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(seen, file)
    text = file.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "6 moments of 1 programs on 1 runtimes (seeds: 1, 2), with 4 answers. Laws were broken 2 times" in text
    assert "| prog | libgomp | 4 | 0 | 2 | 0 | 4 | 2 | 0 | 0 | 1.2 | 0.5 | 3 | 2 | 0 | 2 | 2 |" in text
    assert "- 2 times: law N" in text
