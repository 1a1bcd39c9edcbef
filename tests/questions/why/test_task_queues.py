"""Threads that may execute a queued task, compared with a definition for single threads; and the graph's growth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from bench.once.graph import moment, task_of, thread_of
from ompd.analysis.answers import concluded
from ompd.analysis.graph import Outlook
from ompd.analysis.moment import Moment
from ompd.analysis.waits.build import build
from ompd.model import SchedulingRecord, TaskRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind
from tests.support.machine import FULL

_MOMENTS = 3_000 if FULL else 300
_TAKES = ("any", "children", "group", "descendants", "tied_descendants")


def may_run(
    row: ThreadRecord, one: TaskRecord, points: Mapping[int, SchedulingRecord], tasks: Sequence[TaskRecord]
) -> bool:
    """Return whether a thread may execute a queued task at its present place."""
    by_id = {each.id: each for each in tasks}
    if row.wait is None or row.wait.kind == "lock":
        return False
    point = points.get(row.native_thread_id or 0)
    if point is None or point.task is None or one.generating is None or point.takes in ("any", "tied_descendants"):
        return True
    if point.takes == "children":
        return one.generating == point.task
    if point.takes == "group":
        members = [by_id[each].generating for each in point.tasks if each in by_id]
        return not point.is_whole or one.generating in (point.task, *members)
    parent, seen = one.generating, set()
    while parent != point.task:
        if parent not in by_id:
            return True
        seen.add(parent)
        parent = by_id[parent].generating or ""
        if not parent or parent in seen:
            return False
    return True


def random_moment(choose: random.Random) -> Moment:
    size = choose.randint(1, 5)
    tasks = [replace(task_of(f"task{n}", None, n, "executing"), unfinished_children=1) for n in range(size)]
    for index in range(choose.randint(0, 4)):
        generating = choose.choice([*(each.id for each in tasks), "nobody", f"more{index}"])
        tasks.append(task_of(f"more{index}", generating, choose.randrange(size), "suspended"))
    names = [each.id for each in tasks]
    tasks += [
        task_of(f"q{index}", choose.choice([*names, "nobody"]), None, "queued") for index in range(choose.randint(1, 4))
    ]
    rows, points = [], {}
    for number in range(size):
        kind = choose.choice([Kind.TASKWAIT, Kind.TASKGROUP, Kind.BARRIER, Kind.LOCK])
        wait = Wait(kind, object=0x10, owner=choose.randrange(size), owner_source="runtime", how="blocked")
        if kind is Kind.BARRIER:
            wait = Wait(kind, arrived=size, expected=size, missing=(), unfinished_tasks=len(tasks), how="blocked")
        rows.append(thread_of(number, number, choose.choice([size, size + 1]), f"task{number}", wait))
        if kind is not Kind.LOCK and choose.random() < 0.8:
            points[number] = SchedulingRecord(
                native_thread_id=number,
                kind=kind,
                task=choose.choice([*names, None]),
                takes=choose.choice(_TAKES),
                tasks=tuple(choose.sample([each.id for each in tasks], choose.randint(0, len(tasks)))),
                is_whole=choose.random() < 0.7,
            )
    return Moment(threads=tuple(rows), tasks=tuple(tasks), points=points)


@pytest.mark.parametrize("part", range(3))
def test_who_may_execute_a_queued_task(part: int) -> None:
    compared = 0
    for seed in range(part, _MOMENTS, 3):
        made = random_moment(random.Random(seed))
        graph = build(made).graph
        for one in made.tasks or ():
            node = graph.find(f"queue:{one.parallel}:{one.generating}") if one.status == "queued" else None
            if node is None:
                continue  # no thread waits for it
            free = [row for row in made.threads if may_run(row, one, made.points, made.tasks or ())]
            (need,) = graph.needs[node]
            targets = [graph.nodes[each] for each in need.targets]
            if free:
                assert [each.outlook for each in targets] == [Outlook.RUNS], seed
                assert (
                    targets[0].name.partition(" ")[0] == str(len(free))
                    and targets[0].thread == free[0].native_thread_id
                )
            elif (made.threads[0].team_size or 0) > len(made.threads):
                assert not need.is_known
            else:
                assert [each.kind for each in targets] == ["team"]
                (members,) = graph.needs[need.targets[0]]
                assert len(members.targets) == len(made.threads) and members.count == 1
            compared += 1
    assert compared > _MOMENTS // 10


def test_a_graph_of_many_queues_is_linear_in_threads_and_tasks() -> None:
    sizes = {}
    for threads in (100, 400):
        verdicts, nodes, edges = concluded(moment(threads, 10 * threads))
        assert verdicts[0].stuck == "proven" and len(verdicts[0].explains) == threads
        sizes[threads] = len(nodes) + len(edges)
    assert sizes[400] < 4.1 * sizes[100]
