"""A tool of 2015 keeps what it is told where a debugger finds it (``stub/ompt/mirror.c``): in every program on the stub
that is what ompd reads of the same process.

``tests/test_stub.py`` does so with a tool of OpenMP 5, which the programs have in them.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from ompd_stub.runtime import Runtime
from ompd_stub.tasks import Task
from ompd_stub.threads import Thread

from ompd.questions import variables
from ompd.runtimes.guarded import original
from ompd.session import Session
from tests.stub.tools import compiled
from tests.support import FULL
from tests.support.programs import ALL_PROGRAMS
from tests.support.spaces import without_spaces
from tests.support.stub_cores import on_stub

# Their threads never meet OpenMP, or meet it when the tool's library is no longer asked.
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
    """What the tool keeps of a thread, ``struct mirrored``."""

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
    raw = session.process.read(address, int(str(count)) * words * 8)
    numbers = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    rows = [Told(*numbers[at : at + words]) for at in range(0, len(numbers), words)]
    return {row.native: row for row in rows if row.native}


def existing(task: Task) -> Task:
    # What a tool knows instead of a degenerate task.
    while task.view.unsigned("type") == _DEGENERATE:
        parent = task.generating()
        assert isinstance(parent, Task)
        task = parent
    return task


def read(thread: Thread) -> Told:
    """Return what the structures of the runtime say of a thread."""
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


@pytest.mark.parametrize(("program", "compiler"), PROGRAMS if FULL else PROGRAMS[::3], ids="-".join)
def test_what_a_tool_of_2015_is_told_is_what_we_read(program: str, compiler: str) -> None:
    library = compiled("mirror.c", name="mirror.so", links=())
    core = on_stub(program, compiler, "neither", env={"LD_PRELOAD": str(without_spaces(library))})
    with Session.open_core(core.core) as session:
        space = original(session.runtimes[0].space)
        assert isinstance(space, Runtime)
        threads = space.threads()
        ours = {thread.native: read(thread) for thread in threads}
        true = told(session)
    assert ours == true
    assert len(true) == len(threads) > 0
