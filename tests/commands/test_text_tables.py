"""Text in the width of a terminal: no word is broken, and lists are abridged by OpenMP's numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from ompd.model import (
    Answer,
    IcvRecord,
    ParallelRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    StackFrame,
    StackRecord,
    TargetRecord,
    TaskRecord,
    ThreadRecord,
    Wait,
)
from ompd.model.kinds import Kind
from ompd.render import columns, terminal
from ompd.render.answers.threads import threads_table
from ompd.render.summary import format_summary
from ompd.render.words import Line, Table, format_numbers, format_some

WIDTHS = (40, 80, 120)
SIZES = (4, 120, 2000)
FIRST = 18139  # a native id
TARGET = TargetRecord("core", "core.1234", "/usr/bin/hang", 1234, "hang", 6, "SIGABRT", "x86_64", None)
RUNTIME = RuntimeRecord("libgomp", "libgomp", "GCC 12", "/lib/libgomp.so.1", None, "table", None, False)
STATE = "wait_barrier_implicit_parallel"
REGION = "0x55d4a93e33c0"


def answer_of(rows: Sequence[object], *, runtimes: int = 1) -> Answer[object]:
    return Answer(TARGET, (RUNTIME,) * runtimes, tuple(rows), True, ())


def team(size: int, late: Sequence[int], **changed: object) -> list[ThreadRecord]:
    """Return a team of *size* threads. The threads *late* compute, and the others wait for them at a barrier."""
    missing = tuple(FIRST + number for number in late)
    wait = Wait(Kind.BARRIER, arrived=size - len(late), expected=size, missing=missing)
    row = ThreadRecord(
        native_thread_id=0,
        thread_type="worker",
        runtime="libgomp",
        team_size=size,
        level=1,
        active_level=1,
        parallel=REGION,
        where=Place(0x1234, "simulate_all_of_the_cells", "/home/u/src/simulation.c", 1059),
    )
    row = replace(row, **changed)
    return [
        replace(row, native_thread_id=FIRST + number, thread_num=number, state="work_parallel")
        if number in late
        else replace(row, native_thread_id=FIRST + number, thread_num=number, state=STATE, wait=wait)
        for number in range(size)
    ]


def printed(printer: str, rows: Sequence[object], width: int | None, **options: bool) -> list[str]:
    file = io.StringIO()
    console = terminal.make_console("never", file=file, width=width)
    getattr(terminal, printer)(console, answer_of(rows), **{"unfold": False, "verbose": False, **options})
    return file.getvalue().splitlines()


def words(lines: Sequence[str]) -> set[str]:
    # Pieces that must stay whole: those between spaces and commas.
    return {word for line in lines for word in re.findall(r"[^\s,]+,?", line)}


@pytest.mark.parametrize(("width", "size"), [*product(WIDTHS, SIZES)])
@pytest.mark.parametrize("late", ["one", "every second", "half"])
def test_threads_fit(width: int, size: int, late: str) -> None:
    numbers = {"one": [size // 2], "every second": list(range(1, size, 2)), "half": list(range(size // 2, size))}[late]
    rows = team(size, numbers)
    lines, whole = printed("print_threads", rows, width), printed("print_threads", rows, None)
    assert max(map(len, lines)) <= width
    assert words(lines) <= words(whole)  # no word is cut
    assert "REGION" not in " ".join(lines) and REGION not in " ".join(lines)
    assert len(lines) < 30 and max(map(len, whole)) < 200


def test_a_barrier_names_who_is_missing_by_their_numbers() -> None:
    def waits(late: Sequence[int]) -> str:
        table = threads_table(answer_of(team(120, late)))  # type: ignore[arg-type]
        (line,) = (line for line in table.lines if line.cells[table.titles.index("STATE")] == STATE)
        return line.cells[table.titles.index("WAITS FOR")]

    assert waits([7]) == "barrier 119/120 arrived, missing 7"
    assert waits([7, 9]) == "barrier 118/120 arrived, missing 7 and 9"
    assert waits([7, *range(9, 13), 40]) == "barrier 114/120 arrived, missing 7, 9-12 and 40"
    assert waits([7, 9, *range(11, 114, 2)]).endswith(" missing 7, 9 and 52 more")


def test_who_is_missing_is_counted_in_the_team_that_waits() -> None:
    # Thread 1 of the outer team has begun a team of its own, of which it is thread 0.
    outer = team(3, [1])
    inner = [
        replace(row, level=2, parallel="0x2", ancestors=(1,), native_thread_id=native, thread_num=number, team_size=2)
        for row, native, number in zip(team(2, [0, 1]), (FIRST + 1, 7), (0, 1), strict=True)
    ]
    table = threads_table(answer_of([outer[0], outer[2], *inner]))  # type: ignore[arg-type]
    cells = {line.cells[0]: line.cells[table.titles.index("WAITS FOR")] for line in table.lines}
    assert cells == {"0,2/3": "barrier 2/3 arrived, missing 1", "1.0/2": "-", "1.1/2": "-"}
    # A thread without a known number is named by its native id.
    lost = threads_table(answer_of([outer[0], outer[2]]))  # type: ignore[arg-type]
    assert "missing thread 18140" in lost.lines[0].cells[-2]


def test_a_holder_is_named_by_its_number() -> None:
    rows = team(4, [2])
    lock = Wait(Kind.LOCK, symbol="&gate", owner=FIRST + 2)
    waiting = [replace(row, wait=lock, state="wait_lock") if row.thread_num != 2 else row for row in rows]
    table = threads_table(answer_of(waiting))  # type: ignore[arg-type]
    assert table.lines[0].cells[-2] == "lock &gate held by 2/4"
    foreign = [replace(row, wait=replace(lock, owner=5)) for row in waiting if row.thread_num != 2]
    assert threads_table(answer_of(foreign)).lines[0].cells[-2] == "lock &gate held by thread 5"  # type: ignore[arg-type]


def test_numbers_of_nested_threads_are_told_apart() -> None:
    assert format_numbers([(0,), (1,), (2,), (4,)], 5) == "0-2,4/5"
    assert format_numbers([(1, 0)], 2) == "1.0/2"
    assert format_numbers([(0, 0), (1, 0), (2, 0)], 2) == "0-2.0/2"
    assert format_numbers([(0, 1), (2, 0)], 2) == "0.1,2.0/2"  # not 0,2.0-1, which would be four threads
    assert format_numbers([(None, 1)], 2) == "?.1/2"
    assert format_numbers([None], None) == "?"
    assert format_numbers([(number,) for number in (*range(64), *range(65, 120))], 120) == "0-63,65-119/120"
    assert format_numbers([(number,) for number in range(0, 2000, 2)], 2000) == "0,2,…,1998/2000"
    assert format_numbers([(0,) * 10_000], 1) == "0.0.….0.0/1"
    assert format_some([1]) == "1" and format_some([7, 9, *range(20, 142, 2)]) == "7, 9 and 61 more"


def test_columns_that_say_the_same_everywhere_are_left_out_where_there_is_no_room() -> None:
    rows = team(4, [1])
    assert printed("print_threads", rows, None)[2].split()[:2] == ["OMP", "LEVEL"]
    assert "LEVEL" not in "".join(printed("print_threads", rows, 120))
    nested = [replace(row, level=number % 2, ancestors=()) for number, row in enumerate(rows)]
    assert "LEVEL" in "".join(printed("print_threads", nested, 120))
    # The region is shown if there are several, and with -v.
    two = [*rows, *(replace(row, parallel="0x2") for row in rows)]
    assert "REGION" in printed("print_threads", two, None)[2]
    assert REGION in "".join(printed("print_threads", rows, None, verbose=True))


def test_a_table_that_cannot_be_one_becomes_blocks() -> None:
    table = Table(("NAME", "VALUE"), (Line(("a" * 30, "b" * 30)), Line(("c", "d e"))))
    assert [text for text, _ in columns.table_lines(table, 62)] == [
        "NAME" + " " * 28 + "VALUE",
        f"{'a' * 30}  {'b' * 30}",
        "c" + " " * 31 + "d e",
    ]
    assert [text for text, _ in columns.table_lines(table, 40)] == [
        "NAME   " + "a" * 30,
        "VALUE  " + "b" * 30,
        "",
        "NAME   c",
        "VALUE  d e",
    ]


@pytest.mark.parametrize("width", [1, 2, 5, 10, 17, 40])
def test_no_width_is_too_small(width: int) -> None:
    for printer, rows in LISTS.items():
        assert max(map(len, printed(printer, rows, width))) <= max(width, 2), printer
    assert max(map(len, printed("print_threads", team(4, [1]), width))) <= max(width, 2)


def test_wide_characters_take_two_columns() -> None:
    table = Table(("A", "B"), (Line(("函数", "x")), Line(("name", "y"))))
    texts = [text for text, _ in columns.table_lines(table, 40)]
    assert texts == ["A     B", "函数  x", "name  y"]
    assert all(columns.width_of(part) <= 5 for part in columns.wrap("函数函数函数", 5))


def frames(thread: int) -> tuple[StackFrame, ...]:
    frame = StackFrame("simulate_all_of_the_cells", "/home/u/src/simulation.c", 1059, 1, 2, "user", None, thread)
    return (frame, replace(frame, function="main", line=2070))


FUNCTION = RegionFunction(0x1234, "simulate_all_of_the_cells", "/home/u/src/simulation.c", 1059, "parallel")
LISTS: dict[str, Sequence[object]] = {
    "print_parallel": [
        ParallelRecord(REGION, "libgomp", 1, 1, 2000, None, FUNCTION, tuple(range(FIRST, FIRST + 2000))),
    ],
    "print_tasks": [
        TaskRecord(f"0x{number:x}", "libgomp", "implicit", FIRST + number, None, None, REGION, FUNCTION, None, None,
                   "executing") for number in range(2000)
    ],
    "print_stacks": [
        StackRecord(FIRST, "libgomp", 0, 2000, 1, REGION, False, "derived", None, frames(FIRST),
                    tuple(range(FIRST, FIRST + 2000)), tuple(range(2000)), ancestors=((),) * 2000),
    ],
    "print_icvs": [
        IcvRecord("libgomp", "thread-num-var", "thread", number % 4, str(FIRST + number)) for number in range(2000)
    ],
}  # fmt: skip


@pytest.mark.parametrize(("printer", "width"), [*product(LISTS, WIDTHS)])
def test_trees_stacks_and_variables_fit(printer: str, width: int) -> None:
    lines, whole = printed(printer, LISTS[printer], width), printed(printer, LISTS[printer], None)
    assert max(map(len, lines)) <= width
    assert words(lines) <= words(whole)
    assert max(map(len, whole)) < 250


def test_one_is_not_written_as_many() -> None:
    one = Answer(replace(TARGET, thread_count=1), (RUNTIME,), tuple(team(1, [0])), True, ())
    file = io.StringIO()
    terminal.print_threads(terminal.make_console("never", file=file, width=80), one, unfold=False, verbose=False)
    assert "   1 thread   " in file.getvalue() and "1 threads" not in file.getvalue()
    unknown = replace(team(1, [0])[0], state=None, unavailable={"state": "it is not told"})
    summary = format_summary(replace(one, rows=(unknown, *team(1, [0]))))
    assert summary == "OpenMP: 2 threads in 1 region: 1 of unknown state, 1 work_parallel"


def test_words_of_a_tool_are_hexadecimal_as_in_json() -> None:
    word = 0x7F00_1234_5678
    thread = replace(team(1, [0])[0], tool_data=word)
    region = replace(LISTS["print_parallel"][0], tool_data=word)
    task = replace(LISTS["print_tasks"][0], tool_data=word)
    for printer, row in (("print_threads", thread), ("print_parallel", region), ("print_tasks", task)):
        file = io.StringIO()
        console = terminal.make_console("never", file=file, width=None)
        getattr(terminal, printer)(console, answer_of([row]), unfold=False, verbose=True)
        assert "0x7f0012345678" in file.getvalue() and str(word) not in file.getvalue()


def test_answers_without_rows_say_why() -> None:
    early = replace(RUNTIME, layout=None, version=None, unavailable={"layout": "has not begun"})
    said = {}
    for printer in ("print_icvs", "print_tasks"):
        for name, answer in {
            "early": Answer(TARGET, (early,), (), True, ()),
            "none": Answer(TARGET, (RUNTIME,), (), True, ()),
            "lost": Answer(TARGET, (RUNTIME,), (), False, ("lost",)),
        }.items():
            file = io.StringIO()
            console = terminal.make_console("never", file=file, width=80)
            getattr(terminal, printer)(console, answer, unfold=False, verbose=False)
            said[printer, name] = file.getvalue().splitlines()[2:]
    assert said == {
        ("print_icvs", "early"): ["no variables yet: OpenMP has not begun in this process"],
        ("print_icvs", "none"): ["no variable differs between threads, regions or tasks"],
        ("print_icvs", "lost"): ["variables unknown: the data that they come from could not be read"],
        ("print_tasks", "early"): ["no tasks yet: OpenMP has not begun in this process"],
        ("print_tasks", "none"): ["no task"],
        ("print_tasks", "lost"): ["tasks unknown: the data that they come from could not be read"],
    }
