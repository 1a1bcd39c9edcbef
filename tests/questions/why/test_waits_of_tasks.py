"""A thread that is woken up at a barrier to look for tasks has not passed the barrier."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ompd.contract.ompt import State
from ompd.contract.plugin import ThreadState
from ompd.contract.waits import BarrierState
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.threads.waits import Waits

TEAM = (11, 12)


@pytest.mark.parametrize(("tasks", "how"), [(0, "released"), (2, "blocked")])
def test_a_barrier_with_tasks_left_has_released_nobody(tasks: int, how: str) -> None:
    waiting = SimpleNamespace(progress=lambda thread, flags=0: "released")
    session: Any = SimpleNamespace(process=SimpleNamespace(waiting=waiting))
    gathered = (BarrierState.gathering(TEAM, TEAM),)
    region: Any = SimpleNamespace(id="0x1", barriers=lambda: gathered, unfinished_tasks=lambda: tasks)
    state = ThreadState(State.WAIT_BARRIER_IMPLICIT_PARALLEL, None, "runtime")
    facts, handle = Facts("thread 11", Problems()), SimpleNamespace()
    wait = Waits(session).of(state, handle, region, facts, 11)  # type: ignore[arg-type]
    assert wait is not None and (wait.arrived, wait.unfinished_tasks, wait.how) == (2, tasks, how)
