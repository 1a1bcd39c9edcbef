"""What Intel's OMPD library answers of the programs of the fixtures is what our own plugin answers, row by row.

Left out is where the library is known to tell something else: regions that are serialized inside of one another, of
which it has one too few. What the runtime does not note (that a thread waits for tasks, or at a critical section and
not a lock) our own plugin knows by stacks and locks. Tasks in queues OMPD does not list.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.inspection import Inspection
from ompd.model import RegionFunction, TaskFrame
from tests.support import ALL_PROGRAMS, FULL, stopped
from tests.support.products import sample

SAMPLED = (
    "nested",
    "uneven",
    "two_initial",
    "task_tree",
    "task_if0",
    "lock",
    "closing_barrier",
    "shrunk_pool",
    "icvs_env",
)
TELLS_OTHER = ("serialized_three", "serialized_initial")
# Without any region or task; of hundreds of threads; with a task whose function the compiler's note alone says.
LEFT_OUT = ("not_initialised", "many", "cplusplus")
PROGRAMS = [name for name in ALL_PROGRAMS if name not in (*TELLS_OTHER, *LEFT_OUT)] if FULL else SAMPLED
CASES = [(name, compiler) for name in PROGRAMS for compiler in ALL_PROGRAMS[name].compilers]
NOT_NOTED = ("wait_taskwait", "wait_taskgroup")
# How a library has them is a matter of taste, or it does not have them.
OTHERWISE = ("tool-var", "wait-policy-var", "target-offload-var")


class Named:
    """Names of regions and tasks that do not depend on who answers."""

    def __init__(self, session: Inspection) -> None:
        self.regions: dict[str | None, Any] = {None: None}
        self.tasks: dict[str | None, Any] = {None: None}
        self.region_rows, self.task_rows = session.ask_parallel().rows, session.ask_tasks().rows
        for region in self.region_rows:
            self.regions[region.id] = (region.threads, region.level, self.regions[region.enclosing])
        for task in self.task_rows:
            self.tasks[task.id] = (
                *(task.kind, task.thread, self.regions[task.parallel], _address(task.exit_frame)),
                *(_address(task.enter_frame), self.tasks[task.generating]),
            )


def _address(frame: TaskFrame | None) -> int | None:
    return frame.address if frame is not None else None


def answers(core: Path, library: str | None) -> dict[str, dict[object, Any]]:
    """Return what is told of threads, regions, tasks, stacks and variables, by names that both have."""
    with ompd.open_core(core, ompd_library=library) as session:
        named = Named(session)
        found: dict[str, dict[object, Any]] = {"threads": {}, "regions": {}, "tasks": {}, "stacks": {}, "icvs": {}}
        for row in session.ask_threads().rows:
            state = "work_parallel" if row.state in NOT_NOTED else row.state
            found["threads"][row.native_thread_id] = (
                *(
                    row.runtime,
                    row.thread_num,
                    row.team_size,
                    row.level,
                    row.active_level,
                    row.ancestors,
                    row.thread_type,
                ),
                *(state, row.wait_id, row.tool_data, row.where, row.at_end_of),
                *(named.regions[row.parallel], named.tasks[row.task]),
            )
        for region in named.region_rows:
            told: tuple[RegionFunction | None, object, object] = (
                region.function,
                region.active_level,
                region.tool_data,
            )
            found["regions"][named.regions[region.id]] = told
        for task in named.task_rows:
            if task.status not in ("queued", "waiting", "detached", "complete"):
                found["tasks"][named.tasks[task.id]] = (
                    *(task.status, task.final, task.tool_data, task.function, named.tasks[task.scheduling]),
                )
        for stack in session.ask_stacks().rows:
            found["stacks"][stack.native_thread_id] = (
                (stack.boundaries, stack.stopped),
                [
                    (frame.function, frame.file, frame.line, frame.address, frame.construct, named.tasks[frame.task])
                    for frame in stack.frames
                ],
            )
        for icv in session.ask_icvs().rows:
            if icv.name not in OTHERWISE:
                handle = named.regions.get(icv.handle) or named.tasks.get(icv.handle) or icv.handle
                found["icvs"][icv.name, icv.scope, handle] = icv.value
        return found


@pytest.mark.parametrize(("program", "compiler"), sample(CASES))
def test_it_is_what_our_own_plugin_answers(program: str, compiler: str) -> None:
    core = stopped(program, compiler=compiler).core
    ours, theirs = answers(core, None), answers(core, "named")
    for what, rows in ours.items():
        assert theirs[what] == rows, what
    assert ours["threads"] and ours["icvs"]
