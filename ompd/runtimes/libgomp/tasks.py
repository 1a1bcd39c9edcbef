"""The tasks of one process. A walk over all lists finds the explicit tasks.

A task has a list of its children. When the parent has ended, the children are only in the queues of their team and of
their task group. A task that waits for a dependence is in neither of these, but in the list ``dependers`` of each task
on which it depends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from ompd.contract.helpers.walks import all_tasks
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Parallel, Task, Thread
from ompd.runtimes.libgomp.structures import IMPLICIT, IN_GROUP, IN_TEAM, TIED

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.runtime import Runtime


class TaskWalk:
    """The result of a walk over the lists of tasks.

    ``explicit`` are the explicit tasks that are not over, by address. ``predecessors`` are the tasks on which a task
    waits, by the waiting task's address. ``teams`` are the addresses of teams, by the addresses of the tasks in the
    teams' lists. ``faults`` are the reasons why lists could not be followed to their end; a core may show a list that
    is being changed.

    :param current: the addresses of the tasks that threads execute
    :param implicit: the region and the thread number of each implicit task, by the task's address
    :raises CorruptState: if there are more tasks than any program has
    """

    def __init__(self, runtime: Runtime, current: Iterable[int], implicit: Mapping[int, tuple[Parallel, int]]) -> None:
        self._runtime = runtime
        self._groups: set[int] = set()
        self.predecessors: dict[int, list[Task]] = {}
        self.teams: dict[int, int] = {}
        self.faults: list[OmpdError] = []
        visited: set[int] = set()
        lists: list[Iterable[int]] = [self._lineage(address, visited) for address in current]
        lists.append(address for address, (region, number) in implicit.items() if region.has_task(number))
        lists += map(self._of_team, runtime.roster.live_teams)
        tasks = all_tasks(chain.from_iterable(map(self._readable, lists)), self._from)
        self.explicit = {
            task.address: task for task in tasks if task.address not in implicit and task.kind() == "explicit"
        }

    def _readable(self, addresses: Iterable[int]) -> Iterator[Task]:
        # The readable tasks of a list, up to the place where the list cannot be followed.
        try:
            for address in addresses:
                task = self._runtime.task_at(address)
                try:
                    task.kind(), task.parent
                except OmpdError as error:
                    self.faults.append(error)
                else:
                    yield task
        except OmpdError as error:
            self.faults.append(error)

    def _lineage(self, task: int, visited: set[int]) -> Iterator[int]:
        for ancestor in self._runtime.lineage(task):
            if ancestor in visited:
                return
            visited.add(ancestor)
            yield ancestor

    def _of_team(self, team: int) -> Iterator[int]:
        queue = self._runtime.team_at(team).view.address_of("task_queue")
        for task in self._runtime.tasks_in(queue, IN_TEAM):
            self.teams[task] = team
            yield task

    def _from(self, task: Task) -> Iterator[Task]:
        for addresses in (self._children(task), self._dependers(task), self._of_groups(task)):
            yield from self._readable(addresses)

    def _children(self, task: Task) -> Iterator[int]:
        for address in task.children():
            child = self._runtime.task_at(address)
            if child.parent not in (task.address, None):
                raise CorruptState(address, f"a child of task {task.id} has another parent: its list is changing")
            yield address

    def _dependers(self, task: Task) -> Iterator[int]:
        team = self.teams.get(task.address)
        for depender in task.dependers():
            self.predecessors.setdefault(depender, []).append(task)
            if team is not None:
                self.teams.setdefault(depender, team)
            yield depender

    def _of_groups(self, task: Task) -> Iterator[int]:
        offset = self._runtime.layouts["gomp_taskgroup"].field("taskgroup_queue").offset
        team = self.teams.get(task.address)
        for group in task.groups():
            if group in self._groups:
                return
            self._groups.add(group)
            for member in self._runtime.tasks_in(group + offset, IN_GROUP):
                if team is not None:
                    self.teams.setdefault(member, team)
                yield member


class Tasks:
    """The tasks of one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # The region of each task by the task's address, or the error if the region is unknown.
        self._regions: dict[int, Parallel | OmpdError | None] = {}

    # Implicit tasks, and tasks that threads execute

    @property
    def implicit(self) -> Mapping[int, tuple[Parallel, int]]:
        """The region and thread number of each implicit task, by the task's address.

        It has the implicit tasks of all readable live teams.
        """
        return self._implicit[0]

    @cached_property
    def _implicit(self) -> tuple[Mapping[int, tuple[Parallel, int]], OmpdError | None]:
        # The region and the thread number of each implicit task, by the task's address. Then the error of an unreadable
        # team, None if all live teams are readable.
        size = self._runtime.layouts.size("gomp_task")
        places: dict[int, tuple[Parallel, int]] = {}
        fault = None
        for address in self._runtime.roster.live_teams:
            region = self._runtime.team_at(address)
            try:
                for number in range(region.nthreads):
                    places[region.first_task + number * size] = region, number
            except OmpdError as error:
                fault = error  # the row of the region reports the error
        return places, fault

    def place_of(self, task: int) -> tuple[Parallel, int] | None:
        """Return the region whose implicit task is at *task*, and the number of the task's thread. None if *task* is no
        region's implicit task.

        :raises OmpdError: if a team to which the task may belong cannot be read
        """
        places, unplaced = self._implicit
        place = places.get(task)
        fault = self._runtime.roster.unread or unplaced
        if place is None and fault is not None:
            raise fault
        return place

    @property
    def current(self) -> Mapping[int, Thread]:
        """The thread that executes each task, by the task's address. Unreadable threads are left out."""
        return self._current[0]

    @cached_property
    def _current(self) -> tuple[Mapping[int, Thread], OmpdError | None]:
        # The thread that executes each task, by the task's address. Then the error of a thread whose task is unknown,
        # None if all are known.
        threads: dict[int, Thread] = {}
        fault = None
        for thread in self._runtime.threads():
            try:
                task = thread.kept_task()
            except OmpdError as error:
                fault = error  # the row of the thread reports the error
            else:
                if task is not None:
                    threads[task.address] = thread
        return threads, fault

    def is_executing(self, task: Task) -> bool:
        """Return whether a thread executes *task*.

        :raises OmpdError: if no known thread executes *task*, but it is unknown what another thread executes
        """
        current, unknown = self._current
        if task.address in current:
            return True
        if task.place is not None:
            region, number = task.place
            region.thread(number).current_task()  # only this thread can execute the task
        elif unknown is not None:
            raise unknown
        return False

    @cached_property
    def initial(self) -> Mapping[int, Thread]:
        """The threads whose initial task has a ``gomp_task``, by the task's address.

        :raises OmpdError: if the task of a thread cannot be read
        """
        threads: dict[int, Thread] = {}
        for thread in self._runtime.threads():
            if thread.thread_type() == "worker":
                continue
            claims = thread.claims
            first = self._runtime.implicit_task_at(claims[-1].team, 0) if claims else None
            initial = self._runtime.task_at(first).parent if first is not None else thread.view.pointer("task")
            if initial is not None and self._runtime.task_at(initial).gomp_kind == IMPLICIT:
                threads.setdefault(initial, thread)
        return threads

    def check_all_are_known(self) -> None:
        """Check that every task that has begun and is not over is known, including tasks that a thread has suspended
        for others.

        :raises OmpdError: if some tasks cannot be found
        """
        self._check()
        for thread in self._runtime.threads():
            if len(thread.contexts) > 1 or (thread.stack.stopped is not None and not thread.is_idle):
                raise Unavailable("what tasks a thread has left for others is not known")
            if any(code.task is None and code.kind != "parallel" for code in thread.construct_code()):
                raise Unavailable("whose code is on a thread's stack is not known")

    def _check(self) -> None:
        for fault in (*self.faults, self._current[1], self._implicit[1], self._runtime.roster.unread):
            if fault is not None:
                raise fault

    # Explicit tasks

    @cached_property
    def _walk(self) -> TaskWalk:
        return TaskWalk(self._runtime, self.current, self.implicit)

    @property
    def reachable(self) -> Mapping[int, Task]:
        """The reachable explicit tasks that are not over, by address.

        The walk starts from the tasks that threads execute, from their ancestors, and from the live teams.
        """
        return self._walk.explicit

    @property
    def faults(self) -> Sequence[OmpdError]:
        """The reasons why some explicit tasks may be missing."""
        return self._walk.faults

    def explicit(self) -> Mapping[int, Task]:
        """Return all explicit tasks that are not over.

        :raises OmpdError: if some of these tasks may be missing
        """
        for fault in self.faults:
            raise fault
        return self.reachable

    @cached_property
    def undeferred(self) -> Sequence[int]:
        """The addresses of undeferred tasks, in order.

        :raises OmpdError: as :meth:`explicit`
        """
        return sorted(address for address, task in self.explicit().items() if task.is_undeferred)

    @cached_property
    def begun(self) -> Mapping[int, Task]:
        """The deferred tasks that have begun and that no thread executes now, by address.

        :raises OmpdError: as :meth:`explicit`
        """
        return {
            address: task
            for address, task in self.explicit().items()
            if task.gomp_kind == TIED and address not in self.current
        }

    def predecessors_of(self, task: Task) -> Sequence[Task]:
        """Return the tasks on which a waiting task depends."""
        return self._walk.predecessors.get(task.address, ())

    def region_of(self, task: Task) -> Parallel | None:
        """Return the region of the nearest implicit task among a task and its ancestors.

        The chain of ancestors ends early if an ancestor is over. Then this is the region of the team whose lists have
        the last task of the chain, or else the region of the thread that executes the last task. None outside of all
        regions, or if neither is known.
        """
        # All tasks of the chain have the same region, which is cached for all of them, so that no chain is walked
        # twice.
        ancestors: list[int] = []
        region: Parallel | OmpdError | None = None
        try:
            for address in self._runtime.lineage(task.address):
                if address in self._regions:
                    region = self._regions[address]
                    break
                ancestors.append(address)
                outermost = self._runtime.task_at(address)
                if outermost.place is not None:
                    region = outermost.place[0]
                    break
            else:
                region = self._region_of_orphan(outermost) if outermost.gomp_kind != IMPLICIT else None
        except OmpdError as error:
            region = error
        self._regions.update(dict.fromkeys(ancestors, region))
        if isinstance(region, OmpdError):
            raise region
        return region

    def _region_of_orphan(self, task: Task) -> Parallel | None:
        # The region of a task whose parent is over.
        team = self._walk.teams.get(task.address)
        if team is not None:
            return self._runtime.team_at(team)
        thread = self.current.get(task.address)
        return thread.current_parallel() if thread is not None else None

    # Children

    def count_children(self, parent: int | str) -> int:
        """Return the number of unfinished explicit tasks that a task has generated.

        :param parent: the generating task's address, or its id if it has no ``gomp_task``
        :raises OmpdError: if some of these tasks may be missing
        """
        self._check()
        return self._child_counts.get(parent, 0)

    @cached_property
    def _child_counts(self) -> Mapping[int | str, int]:
        counts: dict[int | str, int] = {}
        for task in self.reachable.values():
            parent: int | str | None = task.parent
            if parent is None and task.is_undeferred:
                generating = task.generating()
                parent = generating.id if generating is not None else None
            if parent is not None:
                counts[parent] = counts.get(parent, 0) + 1
        return counts

    def children_of(self, parent: int) -> Sequence[Task]:
        """Return the :attr:`reachable` deferred tasks that the task at address *parent* has generated."""
        return self._children.get(parent, ())

    @cached_property
    def _children(self) -> Mapping[int, Sequence[Task]]:
        children: dict[int, list[Task]] = {}
        for task in self.reachable.values():
            if task.parent is not None and not task.is_undeferred:
                children.setdefault(task.parent, []).append(task)
        return children

    def unlisted(self) -> Mapping[str, int]:
        """Return the number of tasks that a team counts (``task_count``) but has in no list, by the id of the team's
        region.

        Teams without such tasks are left out, and teams whose lists are locked by a thread.
        """
        listed: dict[str, int] = {}
        for task in self.reachable.values():
            region = task.parallel() if task.is_counted else None
            if region is not None:
                listed[region.id] = listed.get(region.id, 0) + 1
        unlisted: dict[str, int] = {}
        for team in self._runtime.roster.live_teams if not self.faults else ():
            view, name = self._runtime.view("gomp_team", team), self._runtime.team_at(team).id
            if not view.unsigned("task_lock") and view.unsigned("task_count") > listed.get(name, 0):
                unlisted[name] = view.unsigned("task_count") - listed.get(name, 0)
        return unlisted
