"""``ompd diff``: threads and tasks matched over two moments, of one process or of two runs."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ompd
from ompd.analysis.differences import Differences, Sight, compare
from ompd.errors import BadFile
from ompd.model import Place, TaskRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind
from ompd.render import saved
from ompd.render.schema import format_schema
from tests.support import FULL, INTEL, stopped, stopped_twice
from tests.support.command import ompd as command
from tests.support.live import working
from tests.support.why import WHYS, hanging


def thread(native: int, number: int, **more: Any) -> ThreadRecord:
    given: dict[str, Any] = {
        "runtime": "libgomp",
        "thread_num": number,
        "team_size": 4,
        "level": 1,
        "native_thread_id": native,
        "thread_type": "worker",
        "state": "work_parallel",
        "where": Place(0x400010 + number, "work", "/src/a.c", 10 + number),
    }
    return ThreadRecord(**given | more)


def task(name: str, status: str = "queued", line: int = 5) -> TaskRecord:
    function = None
    return TaskRecord(name, "libgomp", "explicit", None, None, None, None, function, None, None, status)


def compared(before: list[ThreadRecord], after: list[ThreadRecord], same: bool | None = True) -> Differences:
    return compare(Sight(threads=tuple(before)), Sight(threads=tuple(after)), same_process=same)


# Comparison


def test_a_thread_that_did_not_move_is_the_same_and_one_that_waits_is_stuck() -> None:
    waiting = thread(2, 1, state="wait_lock", wait=Wait(Kind.LOCK, 0x10, "&lock"))
    found = compared([thread(1, 0), waiting], [thread(1, 0), waiting])
    assert [(row.change, row.stuck) for row in found.threads] == [("same", False), ("same", True)]
    assert not found.differs


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"where": Place(0x999, "work", "/src/a.c", 10)}, {"where"}),
        ({"state": "wait_lock", "wait": Wait(Kind.LOCK, 0x10)}, {"state", "wait"}),
        ({"thread_num": 3}, {"team"}),
        ({"task": "0x77"}, {"task"}),
        ({"parallel": "0x88", "level": 2}, {"region", "team"}),
    ],
)
def test_each_fact_of_a_thread_that_changes_is_named(change: dict[str, Any], names: set[str]) -> None:
    old = thread(1, 0, where=Place(0x998, "work", "/src/a.c", 10))
    (row,) = compared([old], [replace(old, **change)]).threads
    assert row.change == "moved" and {fact.name for fact in row.facts} == names and not row.stuck


def test_a_barrier_that_was_passed_is_a_move() -> None:
    rows = [thread(1, 0, wait=Wait(Kind.BARRIER, 0x10, arrived=3, expected=4, generation=n)) for n in (7, 8)]
    (row,) = compared(rows[:1], rows[1:]).threads
    assert [(fact.name, fact.earlier, fact.later) for fact in row.facts] == [("passes", "7", "8")]


def test_what_has_changed_is_seen_on_both_sides() -> None:
    # Barriers have no names that could distinguish them, and a thread of the pool has no place in a team.
    waiting = [thread(1, 0, wait=Wait(Kind.BARRIER, at)) for at in (0x10, 0x20)]
    (row,) = compared(waiting[:1], waiting[1:]).threads
    assert [(fact.name, fact.earlier, fact.later) for fact in row.facts] == [("wait", "barrier 0x10", "barrier 0x20")]
    (row,) = compared([thread(1, 0)], [replace(thread(1, 0), thread_num=None, team_size=None, level=None)]).threads
    assert [(fact.name, fact.later) for fact in row.facts] == [("team", None)]


def test_what_is_unknown_is_compared_with_nothing() -> None:
    unknown = thread(1, 0, where=None, unavailable={"where": "the stack is lost"})
    found = compared([thread(1, 0)], [unknown])
    assert found.threads[0].change == "same" and found.threads[0].unavailable == {"where": "the stack is lost"}
    stuck = compared([thread(1, 0, wait=Wait(Kind.LOCK))], [replace(unknown, wait=Wait(Kind.LOCK))])
    assert not stuck.threads[0].stuck


def test_threads_come_and_go() -> None:
    found = compared([thread(1, 0), thread(2, 1)], [thread(1, 0), thread(3, 1)])
    assert [(row.change, row.native_thread_id, row.earlier_thread_id) for row in found.threads] == [
        ("same", 1, 1),
        ("new", 3, None),
        ("gone", None, 2),
    ]
    assert found.differs


def test_two_runs_are_compared_by_numbers_names_and_general_states() -> None:
    old = thread(1, 0, state="wait_barrier_implicit_parallel", wait=Wait(Kind.BARRIER, 0x10, arrived=1, expected=4))
    new = thread(9, 0, state="wait_barrier", wait=Wait(Kind.BARRIER, 0x99, arrived=1, expected=4), runtime="libiomp5")
    new = replace(new, where=Place(0x7777, "work", "/home/b/a.c", 10), parallel="0x5", task="0x6")
    old = replace(old, parallel="0x15", task="0x16")
    (row,) = compared([old], [new], same=False).threads
    assert row.change == "same" and not row.stuck and (row.earlier_thread_id, row.native_thread_id) == (1, 9)
    (moved,) = compared([old], [replace(new, where=Place(0x7777, "rest", "/home/b/a.c", 10))], same=False).threads
    assert moved.change == "moved"
    # In nested teams, a thread is identified by its numbers in all of them.
    inner = [thread(5, 0, level=2, ancestors=(1,)), thread(6, 0, level=2, ancestors=(0,))]
    pairs = compared(inner, [thread(16, 0, level=2, ancestors=(0,)), thread(15, 0, level=2, ancestors=(1,))], False)
    assert {(row.earlier_thread_id, row.native_thread_id) for row in pairs.threads} == {(5, 15), (6, 16)}


def test_tasks_of_one_process_are_matched_and_those_of_two_runs_are_counted() -> None:
    before, after = (task("0x1"), task("0x2"), task("0x3")), (task("0x2", "executing"), task("0x3"), task("0x4"))
    sights = [Sight(threads=(), tasks=rows) for rows in (before, after)]
    (row,) = compare(*sights, same_process=True).tasks
    assert (row.new, row.gone, row.changed) == (1, 1, 1)
    assert (row.earlier, row.later) == ({"queued": 3}, {"executing": 1, "queued": 2})
    (row,) = compare(*sights, same_process=False).tasks
    assert (row.new, row.gone, row.changed) == (None, None, None)
    counters = {
        counter.name: (counter.earlier, counter.later) for counter in compare(*sights, same_process=True).counters
    }
    assert counters["tasks"] == (3, 3) and counters["tasks executing"] == (0, 1)


# Command


def test_two_cores_of_a_deadlock_do_not_differ_and_their_threads_are_stuck() -> None:
    earlier, later = stopped_twice("deadlock", runtime="libgomp")
    done = command("diff", earlier.core, later.core, "--json")
    assert done.code == 0, done.err
    jsonschema.validate(done.json, json.loads(format_schema("diff")))
    assert done.json["same_process"] is True and done.json["differs"] is False
    stuck = {row["native_thread_id"] for row in done.json["diff"] if row["stuck"]}
    assert stuck == {row["native_thread_id"] for row in later.truth["threads"]} - {later.truth["monitor"]}
    with ompd.open_core(earlier.core) as one, ompd.open_core(later.core) as other:
        answer = other.ask_diff(one)
    assert json.loads(answer.to_json())["diff"] == done.json["diff"]
    text = command("diff", earlier.core, later.core)
    assert "stuck since A" in text.out and text.out.endswith("nothing differs\n")


def test_the_same_program_on_two_runtimes_does_the_same() -> None:
    cores = [stopped("hang", runtime=runtime).core for runtime in (INTEL, "libgomp")]
    done = command("diff", *cores, "--json")
    assert (done.code, done.json["same_process"]) == (0, False), done.out
    assert all(row["change"] == "same" and not row["stuck"] for row in done.json["diff"])
    assert done.json["warnings"] == []


def test_two_programs_differ() -> None:
    done = command("diff", stopped("hang").core, stopped("lock").core)
    assert done.code == 10 and "moved" in done.out and "nothing differs" not in done.out
    assert "A is the program hang, B is lock: equal facts of different programs are a coincidence" in done.err


def test_json_that_was_saved_is_compared_like_its_core(tmp_path: Path) -> None:
    core, other = stopped("nested").core, stopped("lock").core
    for name in ("threads", "tasks", "parallel") if FULL else ("tasks",):
        file = tmp_path / f"{name}.json"
        file.write_text(command(name, core, "--json").out)
        assert command("diff", file, file).code == 0
        assert command("diff", file, core).code == 0, name
        assert command("diff", file, other).code == 10, name


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[" * 100_000,
        '{"schema": "ompd/why/1"}',
        '{"schema": "ompd/threads/1", "threads": [7], "runtimes": [], "target": {}, "complete": true, "warnings": []}',
        '{"schema": "ompd/threads/1", "threads": {}, "runtimes": []}',
        '{"schema": ["x"], "threads": 1}',
    ],
)
def test_json_that_is_not_ours_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(BadFile):
        saved.read_answer(str(file))
    done = command("diff", file, file)
    assert (done.code, done.out) == (1, "") and str(file) in done.err


def test_values_of_other_types_are_refused(tmp_path: Path) -> None:
    good = command("threads", stopped("lock").core, "--json").json
    file = tmp_path / "a.json"
    for key, value in (("thread_num", "1"), ("address", 5), ("address", "0xzz"), ("wait", []), ("state", {})):
        bad = json.loads(json.dumps(good))
        bad["threads"][0][key] = value
        file.write_text(json.dumps(bad))
        with pytest.raises(BadFile):
            saved.read_answer(str(file))
    file.write_text(json.dumps(good))
    name, answer = saved.read_answer(str(file))
    assert (name, json.loads(answer.to_json())) == ("threads", good)


@pytest.mark.parametrize("piece", [1, 7, 1 << 10])
@pytest.mark.parametrize("form", [{}, {"indent": 2}, {"sort_keys": True}, {"separators": (",", ":")}])
@pytest.mark.quick("form0-1", "form1-7", "form2-1024", "form3-7")
def test_an_answer_is_read_in_pieces(
    piece: int, form: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = command("tasks", stopped("task_depend").core, "--json").json
    file = tmp_path / "a.json"
    file.write_text(f" {json.dumps(good, **form)}\n ")
    monkeypatch.setattr(saved, "_PIECE", piece)
    _, answer = saved.read_answer(str(file))
    assert json.loads(answer.to_json()) == good and len(good["tasks"]) > 3
    for end in ("x", "}", ","):
        file.write_text(json.dumps(good, **form) + end)
        with pytest.raises(BadFile):
            saved.read_answer(str(file))


def many_tasks(file: Path, count: int) -> int:
    """Write an answer of *count* tasks, and return its size."""
    good = command("tasks", stopped("task_depend").core, "--json").json
    row = good["tasks"][-1]
    good["tasks"] = [{**row, "id": f"{number:#x}"} for number in range(count)]
    return file.write_text(json.dumps(good))


def test_large_answers_take_less_memory_than_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    size = many_tasks(file, 3000)
    monkeypatch.setattr(saved, "_PIECE", 1 << 14)
    saved.read_answer(str(file))
    tracemalloc.start()
    try:
        _, answer = saved.read_answer(str(file))
        assert len(answer.rows) == 3000
        assert tracemalloc.get_traced_memory()[1] < size * 0.7
    finally:
        tracemalloc.stop()


def test_what_is_larger_than_any_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    many_tasks(file, 3000)
    with monkeypatch.context() as patch:
        patch.setattr(saved, "_MOST_BYTES", 1 << 20)
        with pytest.raises(BadFile, match="has more than 1 MB, which no answer has") as caught:
            saved.read_answer(str(file))
        assert caught.value.path == str(file) and "compare the cores" in caught.value.hint
    monkeypatch.setattr(saved, "_LONGEST_VALUE", 1 << 20)
    file.write_text('{"schema": "' + "x" * (5 << 20))
    with pytest.raises(BadFile, match="has a value of more than 1 MB"):
        saved.read_answer(str(file))


def test_usage() -> None:
    core = stopped("lock").core
    for words in ((core,), (core, core, "--watch", "1"), (core, "--watch", "1"), (core, core, "--samples", "2")):
        done = command("diff", *map(str, words))
        assert done.code == 2 and not done.out, words


# Watch mode


def test_a_hang_that_is_watched_does_not_differ(tmp_path: Path) -> None:
    with hanging(WHYS["lock_cycle-nested"], "gcc", "libgomp", folder=tmp_path) as hung:
        done = command("diff", str(hung.pid), "--watch", "0", "--samples", "2")
        as_json = command("diff", str(hung.pid), "--watch", "0", "--samples", "1", "--json")
    assert (done.code, done.out) == (0, ""), done.err
    rows = as_json.json["diff"]
    assert as_json.code == 0 and sum(row["stuck"] for row in rows) == 4
    assert all(row["processor_ns"] is not None for row in rows)


@pytest.mark.quick()
def test_a_program_that_works_differs_when_it_is_watched() -> None:
    # With few threads, most samples fall into the pause between two rounds. Many threads take the processors from ompd.
    with working("busy", "12") as worker:
        done = command("diff", str(worker.pid), "--watch", "0.01", "--samples", "40", "--max-stop", "5000")
        worker.finish()
    assert done.code == 10 and "moved" in done.out, done.err
