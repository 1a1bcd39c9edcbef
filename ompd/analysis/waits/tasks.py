"""Nodes of tasks: the tasks that have to complete before a thread goes on, and the threads that execute them.

If it is unknown which tasks a wait is for, its node needs only the tasks that it waits for in any case. So a node that
is stuck in the graph is stuck for certain.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from ompd.analysis.graph import Need, Node, Outlook, View
from ompd.analysis.waits.threads import ThreadNodes
from ompd.analysis.words import counted
from ompd.model import SchedulingRecord, TaskRecord, ThreadRecord, Wait
from ompd.model.kinds import EdgeKind, Kind
from ompd.short_names import short_name


class _Ready(NamedTuple):
    # The nodes of a team's threads at scheduling points. Threads in ``any`` may execute any task. The keys of the
    # other two are ids of tasks: the threads may execute only children of this task, or only descendants of it.
    any: list[int]
    of_parent: dict[str | None, list[int]]
    of_ancestor: dict[str, list[int]]


class TaskNodes:
    """Adds the tasks of one moment to a graph. Queued tasks of one parent and region share a node."""

    def __init__(self, nodes: ThreadNodes) -> None:
        self._nodes, self._graph = nodes, nodes.graph
        self._tasks = nodes.moment.tasks or ()
        self._new: list[tuple[int, TaskRecord]] = []
        self._ready: dict[str | None, _Ready] = {}
        self._open: dict[str, list[tuple[int, int]]] = {}  # by region: needs for unfound tasks, as node and index

    @cached_property
    def _by_id(self) -> dict[str, TaskRecord]:
        return {task.id: task for task in self._tasks}

    @cached_property
    def _children(self) -> dict[str, list[TaskRecord]]:
        children: dict[str, list[TaskRecord]] = {}
        for task in self._tasks:
            if task.generating is not None and task.kind == "explicit" and task.status != "complete":
                children.setdefault(task.generating, []).append(task)
        return children

    @cached_property
    def _of_regions(self) -> dict[str | None, list[TaskRecord]]:
        regions: dict[str | None, list[TaskRecord]] = {}
        for task in self._tasks:
            if task.kind == "explicit" and task.status != "complete":
                regions.setdefault(task.parallel, []).append(task)
        return regions

    def wait(self, row: ThreadRecord, wait: Wait) -> int:
        """Return the node for the wait of one thread: a taskwait, the end of a taskgroup, or a wait for dependences."""
        kind = wait.kind
        node = self._graph.add(Node(f"{kind}:{row.task or row.native_thread_id}", kind, kind.noun or kind))
        point = self._nodes.moment.points.get(row.native_thread_id or 0)
        if point is not None and (point.tasks or point.is_whole):
            self._at(node, point, row)
            return node
        task = self._by_id.get(row.task) if row.task is not None else None
        children = self._children.get(row.task or "", [])
        if kind is Kind.TASKWAIT and task is not None and task.unfinished_children is not None:
            self._all(node, children, task.unfinished_children - len(children), row.parallel)
        elif kind is Kind.TASKGROUP and children:
            # It is unknown which descendants of the waiting task belong to the group. But at least one does, so at
            # least one has to complete.
            self._graph.need(node, self._any(self._descendants(children)))
        else:
            self._graph.need(node, self._nodes.unknown("which tasks it waits for is not known"))
        return node

    def _at(self, node: int, point: SchedulingRecord, row: ThreadRecord) -> None:
        # Let the wait need the tasks that its scheduling point lists. The task that began a group is left out: libomp
        # counts it among the group's tasks, but no task waits for itself.
        around = self._with_ancestors(row.task)
        incomplete = [self._by_id[task] for task in point.tasks if task in self._by_id and task not in around]
        incomplete = [task for task in incomplete if task.status != "complete"]
        missing = 0 if point.is_whole and len(incomplete) == len(set(point.tasks) - around) else 1
        if point.count is not None:
            missing = max(0, point.count - len(incomplete))
        self._all(node, incomplete, missing, row.parallel)
        needs = self._graph.needs[node]
        needs[:] = [replace(need, address=point.address, value=point.value) for need in needs]

    def _with_ancestors(self, task: str | None) -> set[str]:
        ids: set[str] = set()
        while task is not None and task not in ids:
            ids.add(task)
            record = self._by_id.get(task)
            task = record.generating if record is not None else None
        return ids

    def _descendants(self, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
        descendants, ids = list(tasks), {task.id for task in tasks}
        for task in descendants:
            for child in self._children.get(task.id, ()):
                if child.id not in ids:
                    ids.add(child.id)
                    descendants.append(child)
        return descendants

    @cached_property
    def are_whole(self) -> bool:
        """Whether all incomplete explicit tasks were found."""
        counts = ((task.unfinished_children, len(self._children.get(task.id, ()))) for task in self._tasks)
        return self._nodes.moment.tasks is not None and all(
            count is not None and count <= children for count, children in counts
        )

    def unfinished_in(self, region: str | None) -> int:
        """Return the number of incomplete explicit tasks that were found in a region."""
        return len(self._of_regions.get(region, ()))

    def of_region(self, node: int, row: ThreadRecord, count: int) -> None:
        """Let the node of a barrier need the region's tasks. For barriers that all threads have reached.

        :param count: the least number of incomplete tasks
        """
        tasks = self._of_regions.get(row.parallel, [])
        self._all(node, tasks, count - len(tasks), row.parallel)

    def _all(self, node: int, tasks: Sequence[TaskRecord], missing: int, region: str | None) -> None:
        targets = tuple(dict.fromkeys(self.node(task) for task in tasks))
        if targets:
            text = f"{counted(len(tasks), 'task')} not complete"
            self._graph.need(node, Need(targets, len(targets), EdgeKind.CHILD, "runtime", text))
        if missing > 0:
            self._loose(node, region, f"{counted(missing, 'task')} more that nothing leads to")

    def _any(self, tasks: Sequence[TaskRecord]) -> Need:
        targets = tuple(dict.fromkeys(self.node(task) for task in tasks))
        return Need(targets, 1, EdgeKind.CHILD, "derived", "a task of the group is not complete")

    def node(self, task: TaskRecord) -> int:
        """Return the node of an incomplete task. Adds it, and the nodes that it needs, if the graph lacks them."""
        index = self._add(task)
        # A loop instead of recursion, because the target program decides how long a chain of dependences is.
        while self._new:
            self._needs(*self._new.pop())
        return index

    def _add(self, task: TaskRecord) -> int:
        graph = self._graph
        if task.status == "queued":
            # A thread at a taskwait executes only children of its task; the other threads execute any task of the
            # team. So for all queued children of one parent, the same threads come into question.
            key, name = f"queue:{task.parallel}:{task.generating}", "tasks in a queue"
        else:
            key, name = f"task:{task.id}", _name(task)
        is_new = graph.find(key) is None
        index = graph.add(Node(key, Kind.TASK, name))
        if is_new:
            self._new.append((index, task))
        return index

    def _needs(self, index: int, task: TaskRecord) -> None:
        nodes, graph = self._nodes, self._graph
        if task.status in ("executing", "suspended") and task.thread is not None:
            graph.need(index, Need((nodes.thread(task.thread),), 1, EdgeKind.EXECUTES, "runtime"))
        elif task.status == "queued":
            graph.need(index, self._executors(task))
        elif task.status == "waiting" and task.waits_for is not None:
            predecessors = [self._by_id[id] for id in task.waits_for.tasks if id in self._by_id]
            targets = tuple(dict.fromkeys(map(self._add, predecessors)))
            if targets:
                graph.need(index, Need(targets, len(targets), EdgeKind.DEPENDS_ON, "runtime"))
            if task.waits_for.count is None or task.waits_for.count > len(predecessors):
                graph.need(index, nodes.unknown("the tasks that it depends on were not all found"))
                nodes.has_loose_tasks = True
        elif task.status == "detached":
            event = task.waits_for.event if task.waits_for is not None else None
            name = f"event {event:#x}" if event is not None else "an event"
            node = graph.add(Node(f"event:{task.id}", Kind.EVENT, name, object=event))
            graph.need(node, nodes.unknown("nothing records who fulfils an event"))
            graph.need(index, Need((node,), 1, EdgeKind.WAITS_FOR, "runtime"))
        else:
            reason = task.unavailable.get("status") or task.unavailable.get("thread", "it is on no thread")
            self._loose(index, task.parallel, f"who executes the task is not known: {reason}")
            nodes.has_loose_tasks = True

    def _loose(self, index: int, region: str | None, evidence: str) -> None:
        # Let a node need a task that was not found, or whose thread is unknown. settle() looks for likely threads.
        self._graph.need(index, self._nodes.unknown(evidence))
        if region is not None:
            self._open.setdefault(region, []).append((index, len(self._graph.needs[index]) - 1))

    def settle(self) -> None:
        """Find the likely threads of tasks that were not found. To be called when the graph is complete.

        An unfound task is below another task on the stack of a team's thread, or a thread is about to take it. It
        likely goes on if some members of the team go on for certain, and if nothing but tasks holds up the others.
        """
        if not self._open:
            return
        going = self._graph.released(View.PESSIMISTIC)
        for region, loose in self._open.items():
            movers = self._going(region, going)
            if not movers:
                continue
            name = f"{counted(len(movers), 'thread')} of its team"
            team = self._graph.add(Node(f"going:{region}", Kind.TEAM, name))
            self._graph.need(team, Need(movers, 1, EdgeKind.MEMBER, "derived"))
            reason = f"{name} {'goes' if len(movers) == 1 else 'go'} on, and nothing holds up the others but tasks"
            for index, number in loose:
                need = self._graph.needs[index][number]
                self._graph.needs[index][number] = replace(need, reasoned=(team,), reasoning=reason)

    def _going(self, region: str, going: Set[int]) -> tuple[int, ...]:
        # Return the members of the region's team that go on, none if something other than tasks holds up a member.
        nodes = self._nodes
        members = nodes.by_region.get(region, [])
        if not members or len(members) < (nodes.rows[members[0]].team_size or len(members) + 1):
            return ()  # the other members are in inner regions
        has_runtime_moving = any(nodes.is_inside_runtime(index) for index in members)
        for index in members:
            row = nodes.rows[index]
            if row.wait is None and self._graph.nodes[index].outlook is Outlook.RUNS:
                continue
            if row.wait is not None and row.wait.kind is Kind.INTERNAL_LOCK and has_runtime_moving:
                continue
            task = self._by_id.get(row.task or "")
            kind = row.wait.kind if row.wait is not None else None
            if kind is None or not kind.is_scheduling_point:
                return ()
            if kind is Kind.BARRIER and (task is None or task.kind != "implicit"):
                return ()
        return tuple(index for index in members if index in going)

    def _executors(self, task: TaskRecord) -> Need:
        # Return the need for a thread of the team that is at a scheduling point, or comes to one.
        nodes, members = self._nodes, self._nodes.by_region.get(task.parallel, [])
        if not members:
            return nodes.unknown("no thread of the task's team was found")
        ready = self._ready_node(task)
        if ready is not None:
            return Need((ready,), 1, EdgeKind.MAY_RUN, "derived")
        if len(members) < (nodes.rows[members[0]].team_size or len(members) + 1):
            return nodes.unknown("threads of the task's team are in other regions")
        # One node stands for the whole team. There may be as many queues as threads, so edges from each queue to each
        # thread would be too many.
        team = self._graph.add(Node(f"team:{task.parallel}", Kind.TEAM, "a thread of the team"))
        if not self._graph.needs[team]:
            self._graph.need(team, Need(tuple(members), 1, EdgeKind.MAY_RUN, "derived"))
        return Need((team,), 1, EdgeKind.MAY_RUN, "derived")

    def _ready_node(self, task: TaskRecord) -> int | None:
        # Return the node for the threads that may execute a queued task where they are now, None if there are none.
        count, first = self._free(task)
        if not count:
            return None
        key = f"executor:{task.parallel}:{task.generating}"
        name = f"{counted(count, 'thread')} that may execute tasks"
        return self._graph.add(Node(key, Kind.TEAM, name, Outlook.RUNS, self._nodes.rows[first].native_thread_id))

    def add_others(self) -> None:
        """Add the threads that may execute tasks for which no thread waits, because such a task may set threads free.

        Also note whether the thread or the wait of any task is unknown.
        """
        queues = set()
        for task in self._tasks:
            if task.kind != "explicit" or task.status == "complete":
                continue
            if task.status == "queued":
                queue = task.parallel, task.generating
                if queue not in queues:
                    queues.add(queue)
                    self._ready_node(task)
            elif not self._is_settled(task):
                self._nodes.has_loose_tasks = True

    def _is_settled(self, task: TaskRecord) -> bool:
        # Return whether the thread of a task, or what the task waits for, is known.
        if task.status in ("executing", "suspended"):
            return task.thread is not None
        return task.status in ("waiting", "detached")

    def _free(self, task: TaskRecord) -> tuple[int, int]:
        # Return how many threads of the team may execute a queued task where they are now, and the lowest of their
        # nodes.
        if task.parallel not in self._ready:
            self._ready[task.parallel] = self._ready_in(task.parallel)
        ready, parent = self._ready[task.parallel], task.generating
        if parent is None:
            return _counted([ready.any, *ready.of_parent.values(), *ready.of_ancestor.values()])
        of_parent = ready.of_parent.get(parent, [])
        if not ready.of_ancestor:
            return _counted([ready.any, of_parent])
        return _counted([ready.any, of_parent, *self._of_ancestors(ready, parent)])

    def _of_ancestors(self, ready: _Ready, parent: str) -> Sequence[Sequence[int]]:
        # Some threads may execute only descendants of their own task. Return those whose own task is *parent* or one of
        # its ancestors: they may execute children of *parent*.
        threads: list[Sequence[int]] = []
        visited: set[str] = set()
        ancestor: str | None = parent
        while ancestor is not None and ancestor not in visited:
            visited.add(ancestor)
            record = self._by_id.get(ancestor)
            if record is None:
                return [*ready.of_ancestor.values()]  # not all ancestors are known: any of these threads may
            threads.append(ready.of_ancestor.get(ancestor, ()))
            ancestor = record.generating
        return threads

    def _ready_in(self, region: str | None) -> _Ready:
        ready = _Ready([], {}, {})
        for index in self._nodes.by_region.get(region, ()):
            row = self._nodes.rows[index]
            if row.wait is None or not row.wait.kind.is_scheduling_point:
                continue
            point = self._nodes.moment.points.get(row.native_thread_id or 0)
            if point is None or point.task is None:
                ready.any.append(index)
            elif point.takes == "children":
                ready.of_parent.setdefault(point.task, []).append(index)
            elif point.takes == "group" and point.is_whole:
                members = (self._by_id.get(member) for member in point.tasks)
                for parent in {point.task, *(member.generating for member in members if member is not None)}:
                    ready.of_parent.setdefault(parent, []).append(index)
            elif point.takes == "descendants":
                ready.of_ancestor.setdefault(point.task, []).append(index)
            else:
                ready.any.append(index)
        return ready


def _counted(groups: Sequence[Sequence[int]]) -> tuple[int, int]:
    # Return the number of nodes in all sequences, and the lowest node, 0 without any. Each sequence is ascending.
    return sum(map(len, groups)), min((group[0] for group in groups if group), default=0)


def _name(task: TaskRecord) -> str:
    function = task.function
    if function is not None and function.function is not None:
        line = f":{function.line}" if function.line is not None else ""
        return f"a task of {short_name(function.function)}{line}"
    return f"task {task.id}"
