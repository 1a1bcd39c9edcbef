"""Which explicit tasks there are: a walk over all lists that lead to some.

A task that its parent generated is in that parent's list of children, until the parent is over: then it has no parent
any more, and only its team's queue and its task group's have it. One that waits for a dependence is in none of these
lists; those that it waits for have it in theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ompd.errors import CorruptState, OmpdError
from ompd.runtimes.libgomp.tasks import IN_GROUP, IN_TEAM, MAX_TASKS, Task, tasks_in

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime


class Walk(NamedTuple):
    """What a walk has found: the ``explicit`` tasks that are not over, by address; the ``predecessors`` of those that
    wait for a dependence; and the ``teams`` that have those in their lists that have no parent. ``faults`` are why
    lists, or what they lead to, are not followed further: a core may show one that is being changed.
    """

    explicit: dict[int, Task]
    predecessors: dict[int, list[Task]]
    teams: dict[int, int]
    faults: list[OmpdError]


def walk(runtime: Runtime) -> Walk:
    """Return all explicit tasks that are not over.

    :raises CorruptState: if they do not end
    """
    found = Walk({}, {}, {}, [])
    seen: dict[int, None] = {}
    for tasks in _first(runtime, found):
        for task in _readable(tasks, found):
            seen.setdefault(task.address)
    waiting = [runtime.task_at(address) for address in seen]
    groups: set[int] = set()
    while waiting:
        task = waiting.pop()
        if task.address not in runtime.implicit_tasks and task.kind() == "explicit":
            found.explicit[task.address] = task
        for lists in _from(runtime, task, groups, found):
            for other in _readable(lists, found):
                if other.address not in seen:
                    if len(seen) >= MAX_TASKS:
                        raise CorruptState(other.address, "there are more tasks than any program has")
                    seen[other.address] = None
                    waiting.append(other)
    return found


def _readable(tasks: Iterable[Task], found: Walk) -> Iterator[Task]:
    # Those of *tasks* that are tasks, as far as their list goes.
    try:
        for task in tasks:
            try:
                task.kind(), task.parent
            except OmpdError as error:
                found.faults.append(error)
            else:
                yield task
    except OmpdError as error:
        found.faults.append(error)


def _first(runtime: Runtime, found: Walk) -> Iterator[Iterable[Task]]:
    known: set[int] = set()
    for address in runtime.current_tasks:
        yield _lineage(runtime.task_at(address), known)
    yield (runtime.task_at(at) for at, (region, number) in runtime.implicit_tasks.items() if region.has_task(number))
    for team in runtime.live_teams:
        yield _of_team(runtime, team, found)


def _lineage(task: Task, known: set[int]) -> Iterator[Task]:
    # No way is gone twice.
    for here in task.lineage():
        if here.address in known:
            return
        known.add(here.address)
        yield here


def _of_team(runtime: Runtime, team: int, found: Walk) -> Iterator[Task]:
    for task in tasks_in(runtime, runtime.team_at(team).view.address_of("task_queue"), IN_TEAM):
        found.teams[task.address] = team
        yield task


def _from(runtime: Runtime, task: Task, groups: set[int], found: Walk) -> Iterator[Iterable[Task]]:
    yield _children(task)
    yield _dependers(task, found)
    layout = runtime.layouts["gomp_taskgroup"].field("taskgroup_queue").offset
    yield _of_groups(runtime, task, groups, layout, found)


def _children(task: Task) -> Iterator[Task]:
    for child in task.children():
        if child.parent not in (task.address, None):
            raise CorruptState(child.address, f"a child of task {task.id} has another parent: its list is changing")
        yield child


def _dependers(task: Task, found: Walk) -> Iterator[Task]:
    team = found.teams.get(task.address)
    for later in task.dependers():
        found.predecessors.setdefault(later.address, []).append(task)
        if team is not None:
            found.teams.setdefault(later.address, team)
        yield later


def _of_groups(runtime: Runtime, task: Task, groups: set[int], offset: int, found: Walk) -> Iterator[Task]:
    team = found.teams.get(task.address)
    for group in task.groups():
        if group in groups:
            return
        groups.add(group)
        for other in tasks_in(runtime, group + offset, IN_GROUP):
            if team is not None:
                found.teams.setdefault(other.address, team)
            yield other
