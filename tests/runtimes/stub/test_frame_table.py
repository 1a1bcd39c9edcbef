"""The table of frames in the report of 2015: the null frames of a task show where its thread is.

The tests read the stub like a debugger. Initial tasks and tasks that have not begun have no exit frame. Tasks in user
code have no enter frame. ``runtime_stub/tests/ompt/inquiry.c`` tests in C what a tool gets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ompd.model.openmp import TaskRecord
from ompd.questions import tasks, threads
from ompd.session import Session
from tests.support.stub_cores import on_stub

INITIAL_AT_WORK, NOT_BEGUN = "initial task in user code", "created and not yet scheduled"
INITIAL_IN_RUNTIME, AT_WORK = "initial task in the runtime", "another task in user code"
IN_RUNTIME = "another task in the runtime"
# The report's table, by whether a task has an exit frame, and an enter frame (the report's reenter frame).
TABLE = {
    (False, False): {INITIAL_AT_WORK, NOT_BEGUN},
    (False, True): {INITIAL_IN_RUNTIME},
    (True, False): {AT_WORK},
    (True, True): {IN_RUNTIME},
}
PROGRAMS = ("between", "task_queued", "nested", "task_if0", "two_initial", "lock", "serialized_three")


def situation(row: TaskRecord, at_work: set[int | None]) -> str:
    """Return what a task does, from its status and the threads *at_work*."""
    if row.status in ("queued", "waiting"):
        return NOT_BEGUN
    works = row.status == "executing" and row.thread in at_work
    if row.kind == "initial":
        return INITIAL_AT_WORK if works else INITIAL_IN_RUNTIME
    return AT_WORK if works else IN_RUNTIME


def found(program: str) -> Iterator[tuple[tuple[bool, bool], str]]:
    core = on_stub(program)
    with Session.open_core(core.core) as session:
        of_tasks, of_threads = tasks.ask(session), threads.ask(session)
    assert of_tasks.complete and of_threads.complete
    at_work = {row.native_thread_id for row in of_threads.rows if (row.state or "").startswith("work_")}
    closing = {row.native_thread_id for row in of_threads.rows if row.at_end_of is not None}
    for row in of_tasks.rows:
        if row.status == "executing" and row.kind == "implicit" and row.thread in closing:
            continue  # its code is over: the report's table has no such case
        yield (row.exit_frame is not None, row.enter_frame is not None), situation(row, at_work)


@pytest.mark.parametrize("program", PROGRAMS)
def test_frames_that_are_null_say_where_a_task_is(program: str) -> None:
    seen = list(found(program))
    assert seen
    assert {cell for cell in seen if cell[1] not in TABLE[cell[0]]} == set()


def test_programs_are_in_all_cases_of_the_table() -> None:
    seen = {cell for program in PROGRAMS for cell in found(program)}
    assert seen == {(nulls, case) for nulls, cases in TABLE.items() for case in cases}
