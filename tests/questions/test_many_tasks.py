"""Thousands of queued tasks: equal ones are asked about once, and their first fields are read for many at once. The
answers equal those about each task by itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ompd_stub.tasks import Task as TaskOfStub

from ompd.debugger.memory import TargetMemory
from ompd.inspection import Inspection
from ompd.model import Answer, TaskRecord
from ompd.model import json as rendering
from ompd.render.json import format_answer
from ompd.runtimes.libgomp.handles import Task as TaskOfLibgomp
from ompd.runtimes.libomp.handles import Task as TaskOfLibomp
from ompd.runtimes.libomp.task_heads import Heads
from ompd.runtimes.libomp.waits.queues import Queues
from tests.support import Stopped, stopped

RUNTIMES = ("intel", "libomp-19", "libomp-13", "libgomp", "stub")
PROGRAMS = ("task_queued", "task_tree", "task_stack")
TASKS = 200  # with more queued tasks, libgomp executes new ones at once


def core_of(program: str, runtime: str, mode: str = "neither") -> Stopped:
    env = {"TASKS": str(TASKS)} if program == "task_queued" else {}
    return stopped(program, mode=mode, runtime=runtime, env=env)


def tasks_of(core: Path) -> Answer[TaskRecord]:
    with Inspection.open_core(core) as session:
        return session.ask_tasks()


@contextmanager
def each_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in (TaskOfLibomp, TaskOfLibgomp, TaskOfStub):
            patch.setattr(kind, "likeness", lambda task: None)
        patch.setattr(Heads, "read", lambda heads, addresses: None)
        patch.setattr(rendering, "_pieces", lambda rows: rendering._separated(map(rendering._plain, rows)))
        yield


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.quick(
    "intel-task_tree",
    "intel-task_stack",
    "libomp-19-task_queued",
    "libomp-19-task_stack",
    "libomp-13-task_queued",
    "libomp-13-task_tree",
    "libgomp-task_queued",
    "libgomp-task_tree",
    "libgomp-task_stack",
    "stub-task_queued",
    "stub-task_tree",
    "stub-task_stack",
)
def test_they_are_told_as_each_alone(runtime: str, program: str) -> None:
    core = core_of(program, runtime).core
    with each_alone():
        alone = tasks_of(core)
        text = format_answer("tasks", alone)
    together = tasks_of(core)
    assert together == alone
    assert format_answer("tasks", together) == text
    assert [row["id"] for row in json.loads(text)["tasks"]] == [row.id for row in together.rows]


@pytest.mark.parametrize("mode", ["debug", "tool"])
def test_what_tools_keep_of_each_is_its_own(mode: str) -> None:
    core = core_of("task_queued", "intel", mode).core
    with each_alone():
        alone = tasks_of(core)
    together = tasks_of(core)
    assert together == alone
    queued = [row for row in together.rows if row.status == "queued"]
    assert len({row.tool_data for row in queued}) == len(queued) >= TASKS


def test_they_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    core, reads = stopped("task_queued", mode="neither", env={"TASKS": "5000"}).core, 0
    read = TargetMemory.read

    def counted(memory: TargetMemory, address: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return read(memory, address, size)

    monkeypatch.setattr(TargetMemory, "read", counted)
    answer = tasks_of(core)
    assert len(answer.rows) > 5000 > reads


def test_equal_rows_are_put_into_words_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, plain, put = tasks_of(core_of("task_queued", "intel").core), rendering._plain, []

    def counted(record: Any) -> dict[str, Any]:
        put.append(record)
        return plain(record)

    monkeypatch.setattr(rendering, "_plain", counted)
    format_answer("tasks", answer)
    assert len([record for record in put if isinstance(record, TaskRecord)]) < TASKS / 2


@pytest.mark.parametrize("runtime", ["intel", "libomp-19"])
def test_a_page_that_is_lost_is_told_as_of_each_alone(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tmp_path / "core"
    shutil.copy(core_of("task_queued", runtime).core, core)
    found: list[int] = []
    tasks = Queues._tasks_at

    def noted(queues: Queues, addresses: Any) -> Any:
        found.extend(addresses)
        return tasks(queues, addresses)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Queues, "_tasks_at", noted)
        whole = tasks_of(core)
    page = sorted(found)[len(found) // 2] & -4096
    with Inspection.open_core(core) as session:
        target: Any = session.target
        segment = next(s for s in target._loads if s.p_vaddr <= page < s.p_vaddr + s.p_filesz)
    with core.open("r+b") as file:
        file.seek(segment.p_offset + page - segment.p_vaddr)
        file.write(bytes(4096))
    with each_alone():
        alone = tasks_of(core)
    together = tasks_of(core)
    assert (together.rows, together.warnings) == (alone.rows, alone.warnings)
    assert whole.complete and not together.complete and not alone.complete
