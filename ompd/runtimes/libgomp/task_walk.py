"""Which tasks there are: a walk over all lists that lead to explicit ones, and what follows from all of them.

A task that its parent generated is in that parent's list of children, until the parent is over: then it has no parent
any more, and only its team's queue and its task group's have it. One that waits for a dependence is in none of these
lists; those that it waits for have it in theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from ompd.contract.helpers.walks import all_tasks
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Region, Registry, Task, Tasks, Thread
from ompd.runtimes.libgomp.structures.gomp import IMPLICIT, IN_GROUP, IN_TEAM, TIED


class Walk:
    """What a walk has found: the ``explicit`` tasks that are not over, by address; the ``predecessors`` of those that
    wait for a dependence; and the ``teams`` that have those in their lists that have no parent. ``faults`` are why
    lists, or what they lead to, are not followed further: a core may show one that is being changed.

    :param current: the addresses of the tasks that threads execute
    :param implicit: the regions and numbers of implicit tasks, by address
    :raises CorruptState: if the tasks do not end
    """

    def __init__(self, runtime: Registry, current: Iterable[int], implicit: Mapping[int, tuple[Region, int]]) -> None:
        self._runtime = runtime
        self._groups: set[int] = set()
        self.predecessors: dict[int, list[Task]] = {}
        self.teams: dict[int, int] = {}
        self.faults: list[OmpdError] = []
        known: set[int] = set()
        lists: list[Iterable[int]] = [self._lineage(address, known) for address in current]
        lists.append(at for at, (region, number) in implicit.items() if region.has_task(number))
        lists += map(self._of_team, runtime.roster.live_teams)
        found = all_tasks(chain.from_iterable(map(self._readable, lists)), self._from)
        self.explicit = {at.address: at for at in found if at.address not in implicit and at.kind() == "explicit"}

    def _readable(self, tasks: Iterable[int]) -> Iterator[Task]:
        # Those of *tasks* that are tasks, as far as their list goes.
        try:
            for address in tasks:
                task = self._runtime.task_at(address)
                try:
                    task.kind(), task.parent
                except OmpdError as error:
                    self.faults.append(error)
                else:
                    yield task
        except OmpdError as error:
            self.faults.append(error)

    def _lineage(self, task: int, known: set[int]) -> Iterator[int]:
        # No way is gone twice.
        for here in self._runtime.lineage(task):
            if here in known:
                return
            known.add(here)
            yield here

    def _of_team(self, team: int) -> Iterator[int]:
        queue = self._runtime.team_at(team).view.address_of("task_queue")
        for task in self._runtime.tasks_in(queue, IN_TEAM):
            self.teams[task] = team
            yield task

    def _from(self, task: Task) -> Iterator[Task]:
        for lists in (self._children(task), self._dependers(task), self._of_groups(task)):
            yield from self._readable(lists)

    def _children(self, task: Task) -> Iterator[int]:
        for address in task.children():
            child = self._runtime.task_at(address)
            if child.parent not in (task.address, None):
                raise CorruptState(address, f"a child of task {task.id} has another parent: its list is changing")
            yield address

    def _dependers(self, task: Task) -> Iterator[int]:
        team = self.teams.get(task.address)
        for later in task.dependers():
            self.predecessors.setdefault(later, []).append(task)
            if team is not None:
                self.teams.setdefault(later, team)
            yield later

    def _of_groups(self, task: Task) -> Iterator[int]:
        offset = self._runtime.layouts["gomp_taskgroup"].field("taskgroup_queue").offset
        team = self.teams.get(task.address)
        for group in task.groups():
            if group in self._groups:
                return
            self._groups.add(group)
            for other in self._runtime.tasks_in(group + offset, IN_GROUP):
                if team is not None:
                    self.teams.setdefault(other, team)
                yield other


class AllTasks(Tasks):
    """The tasks of one process; see :class:`Tasks`."""

    def __init__(self, runtime: Registry) -> None:
        self._runtime = runtime
        # The regions of tasks, or why they are not known, by the task's address.
        self._regions: dict[int, Region | OmpdError | None] = {}

    # Implicit tasks, and those that are being executed

    @property
    def implicit(self) -> Mapping[int, tuple[Region, int]]:
        """Region and thread number of each implicit task of the live teams, by its address, as far as teams can be
        read.
        """
        return self._placed[0]

    @cached_property
    def _placed(self) -> tuple[Mapping[int, tuple[Region, int]], OmpdError | None]:
        # And why those of a team are not known.
        size = self._runtime.layouts.size("gomp_task")
        found: dict[int, tuple[Region, int]] = {}
        fault = None
        for address in self._runtime.roster.live_teams:
            region = self._runtime.team_at(address)
            try:
                for number in range(region.nthreads):
                    found[region.first_task + number * size] = region, number
            except OmpdError as error:
                fault = error
                continue  # reported in the region's row
        return found, fault

    def place_of(self, task: int) -> tuple[Region, int] | None:
        """See :meth:`Tasks.place_of`."""
        places, unplaced = self._placed
        place = places.get(task)
        fault = self._runtime.roster.unread or unplaced
        if place is None and fault is not None:
            raise fault
        return place

    @property
    def current(self) -> Mapping[int, Thread]:
        """See :attr:`Tasks.current`."""
        return self._executed[0]

    @cached_property
    def _executed(self) -> tuple[Mapping[int, Thread], OmpdError | None]:
        # And why the task of a thread is not known.
        found: dict[int, Thread] = {}
        fault = None
        for thread in self._runtime.threads():
            try:
                task = thread.current_task()
            except OmpdError as error:
                fault = error
                continue  # reported in that thread's row
            if isinstance(task, Task):
                found[task.address] = thread
        return found, fault

    def is_executing(self, task: Task) -> bool:
        """See :meth:`Tasks.is_executing`."""
        executed, unknown = self._executed
        if task.address in executed:
            return True
        if task.place is not None:
            region, number = task.place
            region.thread(number).current_task()  # an implicit task is executed by its own thread alone
        elif unknown is not None:
            raise unknown
        return False

    @cached_property
    def initial(self) -> Mapping[int, Thread]:
        """The threads whose initial task is at some address: what met their outermost region, or what they execute
        outside of all.

        :raises OmpdError: if that of a thread cannot be read
        """
        found: dict[int, Thread] = {}
        for thread in self._runtime.threads():
            if thread.thread_type() == "worker":
                continue
            claims = thread.claims
            first = self._runtime.implicit_task_at(claims[-1].team, 0) if claims else None
            at = self._runtime.task_at(first).parent if first is not None else thread.view.pointer("task")
            if at is not None and self._runtime.task_at(at).gomp_kind == IMPLICIT:
                found.setdefault(at, thread)
        return found

    def check_all_are_known(self) -> None:
        """Make sure that each task that has begun and is not over is found: those that some thread executes, and those
        that it has left for others.

        :raises OmpdError: what keeps some from being found
        """
        self._check()
        for thread in self._runtime.threads():
            if len(thread.contexts) > 1 or (thread.stack.stopped is not None and not thread.is_idle):
                raise Unavailable("what tasks a thread has left for others is not known")
            if any(code.task is None and code.kind != "parallel" for code in thread.construct_code()):
                raise Unavailable("whose code is on a thread's stack is not known")

    def _check(self) -> None:
        for fault in (*self.faults, self._executed[1], self._placed[1], self._runtime.roster.unread):
            if fault is not None:
                raise fault

    # Explicit tasks

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self._runtime, self.current, self.implicit)

    @property
    def found(self) -> Mapping[int, Task]:
        """The explicit tasks that are not over, as far as they are found: those that threads execute, those that
        generated them, and all that tasks of live regions have generated, by address.
        """
        return self._walk.explicit

    @property
    def faults(self) -> Sequence[OmpdError]:
        """Why not all of them may have been found."""
        return self._walk.faults

    def explicit(self) -> Mapping[int, Task]:
        """Return :attr:`found`.

        :raises OmpdError: what keeps others from being found
        """
        for fault in self.faults:
            raise fault
        return self.found

    @cached_property
    def undeferred(self) -> Sequence[int]:
        """The addresses of those of them that are not deferred, in order.

        :raises OmpdError: as :meth:`explicit`
        """
        return sorted(address for address, task in self.explicit().items() if task.is_undeferred)

    @cached_property
    def begun(self) -> Mapping[int, Task]:
        """Those of them that were begun and that no thread executes now, undeferred ones aside.

        :raises OmpdError: as :meth:`explicit`
        """
        return {at: task for at, task in self.explicit().items() if task.gomp_kind == TIED and at not in self.current}

    def predecessors_of(self, task: Task) -> Sequence[Task]:
        """See :meth:`Tasks.predecessors_of`."""
        return self._walk.predecessors.get(task.address, ())

    def region_of(self, task: Task) -> Region | None:
        """See :meth:`Tasks.region_of`."""
        # What is found for one task is so for all on the way to it, and no way is gone twice.
        way: list[int] = []
        found: Region | OmpdError | None = None
        try:
            for address in self._runtime.lineage(task.address):
                if address in self._regions:
                    found = self._regions[address]
                    break
                way.append(address)
                outermost = self._runtime.task_at(address)
                if outermost.place is not None:
                    found = outermost.place[0]
                    break
            else:
                found = self._region_around(outermost) if outermost.gomp_kind != IMPLICIT else None
        except OmpdError as error:
            found = error
        self._regions.update(dict.fromkeys(way, found))
        if isinstance(found, OmpdError):
            raise found
        return found

    def _region_around(self, task: Task) -> Region | None:
        # That of a task that has lost the one that generated it.
        team = self._walk.teams.get(task.address)
        if team is not None:
            return self._runtime.team_at(team)
        thread = self.current.get(task.address)
        return thread.current_parallel() if thread is not None else None

    def count_children(self, parent: int | str) -> int:
        """See :meth:`Tasks.count_children`."""
        self._check()
        return self._child_counts.get(parent, 0)

    @cached_property
    def _child_counts(self) -> Mapping[int | str, int]:
        # How many explicit tasks that are not over each has generated, by its address; by its id where it has none.
        found: dict[int | str, int] = {}
        for task in self.found.values():
            parent: int | str | None = task.parent
            if parent is None and task.is_undeferred:
                generating = task.generating()
                parent = generating.id if generating is not None else None
            if parent is not None:
                found[parent] = found.get(parent, 0) + 1
        return found

    def children_of(self, parent: int) -> Sequence[Task]:
        """Return those of :attr:`found` that the task at an address has generated and that are deferred."""
        return self._children.get(parent, ())

    @cached_property
    def _children(self) -> Mapping[int, Sequence[Task]]:
        found: dict[int, list[Task]] = {}
        for task in self.found.values():
            if task.parent is not None and not task.is_undeferred:
                found.setdefault(task.parent, []).append(task)
        return found

    def unlisted(self) -> Mapping[str, int]:
        """See :meth:`AddressSpace.unlisted_tasks`: by ``task_count``, of teams that nobody is changing it of."""
        known: dict[str, int] = {}
        for task in self.found.values():
            region = task.parallel() if task.is_counted else None
            if region is not None:
                known[region.id] = known.get(region.id, 0) + 1
        found: dict[str, int] = {}
        for team in self._runtime.roster.live_teams if not self.faults else ():
            view, name = self._runtime.view("gomp_team", team), self._runtime.team_at(team).id
            if not view.unsigned("task_lock") and view.unsigned("task_count") > known.get(name, 0):
                found[name] = view.unsigned("task_count") - known.get(name, 0)
        return found
