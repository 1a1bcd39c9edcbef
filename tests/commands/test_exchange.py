"""Formats of other programs, and trees as text: ``threads --csv``, ``stack --format``, the branches of ``tasks``."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from typing import Any

import pytest

from ompd.model import Answer, Place, StackFrame, StackRecord, TargetRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind
from ompd.render import columns, exchange, trees
from tests.support import stopped
from tests.support.command import ompd

TARGET = TargetRecord("core", "core.1", "/x/y", 1, None, None, None, "x86_64", 1)
HOSTILE = "a;b\x00\x1b[31m\u202e\n1"


def answer_of(rows: tuple[Any, ...]) -> Answer[Any]:
    return Answer(TARGET, (), rows, True, ())


def frame(name: str | None, line: int | None = None, **more: Any) -> StackFrame:
    file = "/src/a.c" if line is not None else None
    return StackFrame(name, file, line, 0x400000, None, "user", None, 1, **more)


def stack(*frames: StackFrame, threads: tuple[int, ...] = (1,), **more: Any) -> StackRecord:
    given = {"idle": False, "stopped": None} | more
    return StackRecord(
        threads[0], "libgomp", 0, 1, 1, "0x1", given["idle"], "derived", given["stopped"], frames, threads, (0,)
    )


# Comma-separated values


@pytest.mark.parametrize("program", ["lock", "nested"])
def test_csv_has_what_json_has(program: str) -> None:
    core = stopped(program).core
    rows = list(csv.DictReader(io.StringIO(ompd("threads", core, "--csv").out)))
    threads = ompd("threads", core, "--json").json["threads"]
    assert len(rows) == len(threads) and any(row["wait_kind"] for row in rows)
    for row, thread in zip(rows, threads, strict=True):
        assert None not in row and None not in row.values()
        for key in ("native_thread_id", "state", "thread_num", "team_size", "level", "parallel", "task"):
            value = thread[key]
            unknown = "?" if key in thread["unavailable"] else ""
            assert row[key] == (unknown if value is None else str(value)), key
        assert row["line"] == str((thread["where"] or {}).get("line") or "")
        assert row["wait_kind"] == (thread["wait"] or {"kind": ""})["kind"]


def test_csv_says_what_is_unknown_and_no_cell_is_a_formula_or_breaks_the_line() -> None:
    row = ThreadRecord(
        native_thread_id=7,
        thread_type="worker",
        state=None,
        wait=Wait(Kind.LOCK, symbol="@SUM(A1)", owner=None, missing=(3, 4)),
        where=Place(0x10, '=HYPERLINK("x")', "-1+1", -5),
        unavailable={"state": "no stack", "wait.owner": "not recorded"},
    )
    odd = ThreadRecord(native_thread_id=8, thread_type=None, where=Place(0x10, HOSTILE, 'q",\r', 1))
    text = exchange.format_csv(answer_of((row, odd)))
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["state"], first["wait_owner"], first["wait_missing"], first["task"]) == ("?", "?", "3 4", "")
    assert first["wait_symbol"] == "'@SUM(A1)" and first["function"] == '\'=HYPERLINK("x")'
    # A negative number is written as a number.
    assert (first["file"], first["line"], first["address"]) == ("'-1+1", "-5", "0x10")
    assert len(text.splitlines()) == 3 and text.isascii() and "\x00" not in text and "\x1b" not in text
    assert second["file"] == 'q",\\r'


def test_csv_and_json_exclude_each_other() -> None:
    for words in (("threads", "--csv"), ("stack", "--format", "folded")):
        ran = ompd(words[0], stopped("lock").core, *words[1:], "--json")
        assert ran.code == 2 and "exclude each other" in ran.err and not ran.out


# Stacks


@pytest.mark.parametrize("program", ["lock", "nested"])
def test_folded_stacks_are_those_of_json(program: str) -> None:
    core = stopped(program).core
    expected: Counter[str] = Counter()
    for row in ompd("stack", core, "--json").json["stack"]:
        names = [
            f["function"] + (f" ({f['file'].rpartition('/')[2]}:{f['line']})" if f["line"] is not None else "")
            for f in reversed(row["frames"])
        ]
        expected[";".join(names)] += 1
    lines = ompd("stack", core, "--format", "folded").out.splitlines()
    assert {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in lines)} == expected
    assert any(count > 1 for count in expected.values())

    speedscope = json.loads(ompd("stack", core, "--format", "speedscope").out)
    assert speedscope["$schema"].endswith("/file-format-schema.json")
    (profile,) = speedscope["profiles"]
    frames = [
        item["name"] + (f" ({item['file'].rpartition('/')[2]}:{item['line']})" if "line" in item else "")
        for item in speedscope["shared"]["frames"]
    ]
    samples = [";".join(frames[number] for number in sample) for sample in profile["samples"]]
    assert dict(zip(samples, profile["weights"], strict=True)) == expected
    assert (profile["startValue"], profile["endValue"]) == (0, sum(expected.values()))


def test_what_a_stack_lacks_is_said_and_names_stay_in_their_frame() -> None:
    rows = (
        stack(frame(HOSTILE, 3), frame("main", 9), threads=(1, 2)),
        stack(frame(None), stopped="no unwind data"),
        stack(idle=True, threads=(5,)),
        stack(threads=(6,)),
        stack(frame("handler", 1, signal=True)),
    )
    text = exchange.format_folded(answer_of(rows))
    assert text.splitlines() == sorted(
        (
            "main (a.c:9);a:b\\x00\\x1b[31m\\u202e\\n1 (a.c:3) 2",
            "(stack could not be followed further);0x400000 1",
            "(idle in the pool) 1",
            "(no user code) 1",
            "(signal handler called) (a.c:1) 1",
        )
    )
    names = [item["name"] for item in json.loads(exchange.format_speedscope(answer_of(rows)))["shared"]["frames"]]
    assert "a;b\\x00\\x1b[31m\\u202e\\n1" in names


# Trees


def test_branches_lead_to_what_a_row_belongs_to() -> None:
    rows = [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (2, "f"), (0, "g"), (1, "h")]
    drawn = [stem + text for stem, text in trees.grow(rows)]
    assert drawn == ["a", "├─ b", "│  ├─ c", "│  └─ d", "└─ e", "   └─ f", "g", "└─ h"]
    plain = [stem + text for stem, text in trees.grow(rows, drawn=False)]
    assert plain == ["a", "|- b", "|  |- c", "|  `- d", "`- e", "   `- f", "g", "`- h"]
    assert list(trees.grow([])) == []


def test_a_deep_tree_stays_narrow_and_costs_no_more_than_its_rows() -> None:
    found = list(trees.grow((depth, "task") for depth in range(20_000)))
    assert len(found) == 20_000 and max(len(stem) for stem, _ in found) == 120


@pytest.mark.parametrize("width", [1, 7, 30, 50])
def test_branches_go_on_beside_a_row_that_is_broken(width: int) -> None:
    rows = [(0, "root"), (1, "first " * 12), (2, "inside " * 12), (1, "last " * 12)]
    lines = [line for stem, text in trees.grow(rows) for line in columns.wrap_branch(stem, text, width)]
    assert all(columns.width_of(line) <= width for line in lines)
    if width < 30:
        return  # where there is no room for branches, only the text matters
    at = [next(n for n, line in enumerate(lines) if word in line) for word in ("first", "inside", "last")]
    assert all(line.startswith("│ ") for line in lines[at[0] + 1 : at[1]])
    assert all(line.startswith("│ ") for line in lines[at[1] + 1 : at[2]])
    assert all(line.startswith("       ") for line in lines[at[2] + 1 :]) and len(lines) > at[2] + 1


def test_an_encoding_without_lines_gets_others() -> None:
    core = stopped("nested").core
    drawn, plain = (
        ompd("tasks", core, environment={"PYTHONIOENCODING": encoding}).out for encoding in ("utf-8", "latin-1")
    )
    assert "├─ implicit task" in drawn and "|- implicit task" in plain and "\\u25" not in plain
