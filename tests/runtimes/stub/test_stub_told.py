"""Tools of each generation on the stub: what they are told equals what ompd reads of cores, live, and in LLDB.

The tool ``tests/stub/ompt/mirror.c`` keeps what it is told in variables that a debugger finds.
``tests/runtimes/stub/test_stub.py`` makes the same comparison with the tool of OpenMP 5 in the programs, which asks.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from ompd_stub.runtime import Runtime
from ompd_stub.tasks import Task
from ompd_stub.threads import Thread

import ompd
from ompd.questions import variables
from ompd.runtimes.guarded import original
from ompd.session import Session
from tests.stub.tools import GENERATIONS, mirror
from tests.support import FULL, running
from tests.support.lldb import VERSIONS, target_create
from tests.support.lldb_replies import replies
from tests.support.programs import ALL_PROGRAMS
from tests.support.stub_cores import SPECIAL, on_stub

# Their threads never meet OpenMP, or meet it only after the tool's library was last asked.
UNTOLD = ("no_region", "not_initialised")
PROGRAMS = [
    (name, compiler)
    for name, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    if not compiler.startswith("clang") and name not in UNTOLD
]
_DEGENERATE = 5
_MUTEXES = range(0x60, 0x65)
_BARRIERS = range(0x40, 0x43)
_TASKWAIT, _TASKGROUP = 0x50, 0x51


class Told(NamedTuple):
    """The words that the tool keeps of a thread: ``struct mirrored``."""

    native: int
    thread: int
    type: int
    idle: int
    region: int
    task: int
    mutex: int
    barrier: int
    taskwait: int
    taskgroup: int


def told(session: Session) -> dict[int, Told]:
    words = len(Told._fields)
    (count,) = {row.value for row in variables.ask(session, "mirrored_count").rows}
    (address,) = {row.address for row in variables.ask(session, "mirrored").rows}
    assert address is not None
    raw = session.process.memory.read(address, int(str(count)) * words * 8)
    numbers = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    rows = [Told(*numbers[at : at + words]) for at in range(0, len(numbers), words)]
    return {row.native: row for row in rows if row.native}


def existing(task: Task) -> Task:
    # Returns the task that a tool knows in place of a degenerate task.
    while task.view.unsigned("type") == _DEGENERATE:
        parent = task.generating()
        assert isinstance(parent, Task)
        task = parent
    return task


def read(thread: Thread) -> Told:
    """Return what the runtime's structures hold of a thread, in the terms of the report of 2015."""
    state, wait, task = thread.view.unsigned("state"), thread.view.unsigned("wait_id"), thread.current_task()
    number = thread.view.unsigned("id")
    known = (thread.native, number, thread.view.unsigned("type"))
    if task is None:
        return Told(*known, idle=number, region=0, task=0, mutex=0, barrier=0, taskwait=0, taskgroup=0)
    here = existing(task)
    identifier = here.view.unsigned("id")
    return Told(
        *known,
        idle=0,
        region=here.team.view.unsigned("id") if here.team.level else 0,
        task=identifier,
        mutex=wait if state in _MUTEXES else 0,
        barrier=identifier if state in _BARRIERS else 0,
        taskwait=identifier if state == _TASKWAIT else 0,
        taskgroup=identifier if state == _TASKGROUP else 0,
    )


def read_5(thread: Thread) -> Told:
    """Return the same for OpenMP 5: the words that the tool has written and the runtime keeps for it.

    Undeferred tasks count as tasks, and no callback tells that a thread is idle.
    """
    told_of = read(thread)
    word, task = thread.tool_data(), thread.current_task()
    if task is None:
        return told_of._replace(thread=word, idle=0)
    own = task.tool_data()
    waits = {name: own if getattr(told_of, name) else 0 for name in ("barrier", "taskwait", "taskgroup")}
    return told_of._replace(thread=word, region=task.team.view.unsigned("tool_data"), task=own, **waits)


def check(session: Session, generation: int) -> dict[int, Told]:
    """Compare the tool's words with the runtime's structures. Return the tool's words of each thread, by native id."""
    space = original(session.runtimes[0].space)
    assert isinstance(space, Runtime)
    assert space.root.signed("tool") == generation
    threads = space.threads()
    ours = {thread.native: (read_5 if generation == 5 else read)(thread) for thread in threads}
    true = told(session)
    assert ours == true
    assert len(true) == len(threads) > 0
    return true


def cases(every: int) -> list[tuple[str, str, int]]:
    """Return programs and generations: all pairs in the full run, else each *every*-th program, generations in turn."""
    if FULL:
        return [(*known, generation) for known in PROGRAMS for generation in GENERATIONS]
    return [(*known, GENERATIONS[at % len(GENERATIONS)]) for at, known in enumerate(PROGRAMS[::every])]


@pytest.mark.parametrize(("program", "compiler", "generation"), cases(3))
@pytest.mark.quick(
    "nested-gcc-1", "task_if0-gcc-2", "sections_barrier-gcc-2", "atomic_region-gcc-5", "deep-gcc-1", "inlined-gcc-5"
)
def test_what_a_tool_is_told_is_what_we_read(program: str, compiler: str, generation: int) -> None:
    core = on_stub(program, compiler, "neither", env=mirror(generation))
    with Session.open_core(core.core) as session:
        check(session, generation)


@pytest.mark.parametrize(("program", "compiler", "generation"), cases(14))
def test_so_we_read_in_a_live_process(program: str, compiler: str, generation: int, tmp_path: Path) -> None:
    env = {**SPECIAL.get(program, {}), **mirror(generation)}
    with (
        running(program, compiler=compiler, mode="neither", runtime="stub", env=env, folder=tmp_path) as live,
        ompd.attach(live.pid) as attached,
    ):
        attached.ask(partial(check, generation=generation))


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(("program", "compiler", "generation"), cases(20))
@pytest.mark.quick("nested-gcc-1")
def test_so_it_is_shown_in_lldb(program: str, compiler: str, generation: int) -> None:
    core = on_stub(program, compiler, "neither", env=mirror(generation))
    with Session.open_core(core.core) as session:
        true = check(session, generation)
    questions = {name: f"ompd {name} --json --all" for name in ("threads", "tasks")}
    answers = replies(VERSIONS[-1], target_create(core.executable, core.core), *questions.values())
    rows = {name: json.loads(answers[question])[name] for name, question in questions.items()}
    known = {task["id"]: task for task in rows["tasks"]}
    for row in (row for row in rows["threads"] if row["runtime"] is not None):
        one = true[row["native_thread_id"]]
        by = "tool_data" if generation == 5 else "ompt_id"
        assert number_of(row[by]) == one.thread
        assert row["wait_id"] is None or one.mutex in (0, int(row["wait_id"], 16))
        if row["task"] is None:
            assert one.task == 0 and row["state"] == "idle"
            continue
        task = known[row["task"]]
        while generation != 5 and task["ompt_type"] == "degenerate":
            task = known[task["generating"]]
        assert number_of(task[by]) == one.task


def number_of(value: int | str) -> int:
    return value if isinstance(value, int) else int(value, 16)
