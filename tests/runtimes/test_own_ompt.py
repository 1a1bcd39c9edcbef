"""The OMPT data of a runtime: identifiers, numbers of states and types of tasks.

The tests compare them with what the program read by its own compiler's layout, or with what OMPT told the program.
"""

from __future__ import annotations

import pytest

from ompd.contract.ompt import State, State2015
from ompd.questions import regions, tasks, threads
from ompd.session import Session
from tests.stub.programs import built, core_of
from tests.stub.structures import written
from tests.support import Stopped, stopped
from tests.support.command import run

TYPES = {1: "serial", 2: "implicit", 3: "explicit", 4: "target", 5: "degenerate"}  # ompt_task_type_t of 2015


def on_stub(program: str, mode: str = "debug") -> Stopped:
    return stopped(program, mode=mode, runtime="stub")


@pytest.mark.parametrize("mode", ["debug", "neither"])
@pytest.mark.parametrize("program", ["nested", "nest_lock", "task_if0", "task_queued", "two_initial"])
def test_the_stubs_are_those_that_it_keeps(program: str, mode: str) -> None:
    core = on_stub(program, mode)
    raw = written(core)
    with Session.open_core(core.core) as session:
        of_threads, of_regions, of_tasks = (question.ask(session) for question in (threads, regions, tasks))
    known = {thread["native_id"]: thread for thread in raw["threads"]}
    rows = [row for row in of_threads.rows if row.runtime is not None]
    assert {row.native_thread_id: row.ompt_id for row in rows} == {native: one["id"] for native, one in known.items()}
    teams = {team["address"]: team["id"] for team in raw["teams"] if team["level"]}
    assert {int(row.id, 16): row.ompt_id for row in of_regions.rows} == teams
    by_address = {task["address"]: task for task in raw["tasks"]}
    assert len(of_tasks.rows) >= len(rows)
    for row in of_tasks.rows:
        task = by_address[int(row.id, 16)]
        assert (row.ompt_id, row.ompt_type) == (task["id"], TYPES[task["type"]])
    assert len({row.ompt_id for row in of_tasks.rows}) == len(of_tasks.rows)
    for row in rows:
        if mode == "neither":
            assert row.ompt_state is None and "OMP_DEBUG" in row.unavailable["ompt_state"]
            continue
        assert row.ompt_state is not None
        number = known[row.native_thread_id or 0]["state"]
        assert (row.ompt_state.number, row.ompt_state.name) == (number, State2015(number).name.lower())


def shown(*words: str) -> str:
    done = run(*words, COLUMNS="400")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_openmp_5_has_no_name_for_survives() -> None:
    core = on_stub("nest_lock")
    with Session.open_core(core.core) as session:
        waiting = [row for row in threads.ask(session).rows if row.wait is not None and row.wait.kind == "lock"]
    assert len(waiting) == 3
    for row in waiting:
        assert row.state == "wait_lock" and row.ompt_state is not None
        assert (row.ompt_state.number, row.ompt_state.name) == (0x61, "wait_nest_lock")
    text = shown("threads", "-v", str(core.core))
    assert "wait_lock (runtime: wait_nest_lock)" in text and "OMPT ID" in text
    assert "nest_lock)" not in shown("threads", str(core.core)) and "OMPT" not in shown("threads", str(core.core))
    core = on_stub("task_if0")
    with Session.open_core(core.core) as session:
        rows = tasks.ask(session).rows
    assert {row.ompt_type for row in rows if row.kind == "explicit"} == {"explicit", "degenerate"}
    assert {row.ompt_type for row in rows if row.kind == "initial"} == {"serial"}
    verbose = shown("tasks", "-v", "--all", str(core.core))
    assert "OMPT type degenerate" in verbose and "OMPT id" in verbose
    assert "OMPT" not in shown("tasks", "--all", str(core.core))
    assert "OMPT id" in shown("parallel", "-v", str(core.core))


def test_a_number_that_is_no_state_is_damage() -> None:
    core = core_of(built("faults.c"), "bad_state")
    with Session.open_core(core) as session:
        answer = threads.ask(session)
    (row,) = (row for row in answer.rows if "thread in state 0xffff" in row.unavailable.get("ompt_state", ""))
    assert row.ompt_state is None and row.ompt_id is not None and not answer.complete


@pytest.mark.parametrize("runtime", ["intel", "libomp-19"])
def test_with_openmp_5_there_are_states_and_types_but_no_identifiers(runtime: str) -> None:
    core = stopped("nested", mode="tool", runtime=runtime)
    truth = {thread["native_thread_id"]: thread for thread in core.truth["threads"]}
    with Session.open_core(core.core) as session:
        rows = [row for row in threads.ask(session).rows if row.runtime is not None]
        of_tasks, of_regions = tasks.ask(session), regions.ask(session)
    told = 0
    for row in rows:
        thread = truth[row.native_thread_id or 0]
        assert row.ompt_id is None and "tool_data" in row.unavailable["ompt_id"]
        assert row.ompt_state is not None
        assert State(row.ompt_state.number).name.lower() == row.ompt_state.name
        if thread["role"] != "idle":  # the program's own result of ompt_get_state()
            assert row.ompt_state.name == thread["state"]
            told += 1
    assert told >= 4
    assert {row.kind for row in of_tasks.rows} == {row.ompt_type for row in of_tasks.rows} >= {"initial", "implicit"}
    assert of_tasks.complete and of_regions.complete
    assert all("ompt_id" in row.unavailable for row in (*of_tasks.rows, *of_regions.rows))


def test_libgomp_has_none_and_says_so() -> None:
    core = stopped("nested", mode="neither", runtime="libgomp")
    with Session.open_core(core.core) as session:
        for question, keys in ((threads, ("ompt_id", "ompt_state")), (regions, ("ompt_id",))):
            answer = question.ask(session)
            assert answer.complete
            for row in answer.rows:
                if row.runtime is not None:
                    assert all("libgomp has no OMPT" in row.unavailable[key] for key in keys)
        answer = tasks.ask(session)
        assert answer.complete and all("libgomp has no OMPT" in row.unavailable["ompt_type"] for row in answer.rows)
