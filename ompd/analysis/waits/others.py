"""Finds tasks that may release a lock in place of its recorded owner. A wait for such a lock may end after all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ompd.analysis.graph import Need, Node
from ompd.analysis.waits.tasks import TaskNodes
from ompd.analysis.waits.threads import ThreadNodes
from ompd.model import TaskRecord
from ompd.model.kinds import EdgeKind, Kind

_BY_TASK = "a task that the lock's owner executes where it waits may let go of the lock"
_BY_NEW_TASK = "the lock's owner executes tasks where it waits, and a thread that goes on may create one"
_UNTIED = "an untied task may have set the lock on its owner's thread, and gone on on another one"
_ENDED = ("executing", "suspended", "detached", "complete")  # their code runs, or has ended


class Others:
    """Adds rescues to locks with a recorded owner: tasks that may release the lock."""

    def __init__(self, nodes: ThreadNodes, tasks: TaskNodes) -> None:
        self._nodes, self._tasks = nodes, tasks

    def release(self, node: int, owner: int) -> None:
        """Add the tasks that may release the lock of a node.

        An owner that waits at a scheduling point may execute tasks there, and these tasks may release its locks.

        :param owner: the node of the lock's recorded holder
        """
        nodes, graph, row = self._nodes, self._nodes.graph, self._nodes.rows.get(owner)
        if row is None or row.wait is None or not row.wait.kind.is_scheduling_point:
            return
        begins = [task for task in self._explicit if task.parallel == row.parallel and task.status not in _ENDED]
        if begins:
            graph.rescue(node, self._any_of(f"begins:{row.parallel}", begins), _BY_TASK)
        if not nodes.moment.makes_tasks:
            return
        members = nodes.by_region.get(row.parallel, [])
        if row.team_size is None or len(members) < row.team_size:
            members = [nodes.everybody]  # the other members are in inner regions, from which they return
        member = graph.add(Node(f"member:{row.parallel}", Kind.TEAM, "a thread of the team"))
        if not graph.needs[member]:
            graph.need(member, Need(tuple(members), 1, EdgeKind.MEMBER, "derived"))
        graph.rescue(node, member, _BY_NEW_TASK)

    def release_by_untied(self, node: int) -> None:
        """Add the untied tasks that may hold an OpenMP lock.

        The runtime records a lock's owner by its thread number, and an untied task may have moved to another thread.
        """
        nodes, graph = self._nodes, self._nodes.graph
        if not nodes.moment.moves_tasks:
            return
        if not self._tasks.are_whole:
            nodes.has_loose_tasks = True
            graph.rescue(node, nodes.everybody, _UNTIED)
        untied = [task for task in self._explicit if not task.tied]
        if untied:
            graph.rescue(node, self._any_of("untied", untied), _UNTIED)

    def _any_of(self, key: str, tasks: Sequence[TaskRecord]) -> int:
        # Return the node that any of *tasks* releases. All locks share it, because there may be as many locks as
        # threads.
        graph = self._nodes.graph
        node = graph.add(Node(key, Kind.TASK, "any of some tasks"))
        if not graph.needs[node]:
            targets = tuple(dict.fromkeys(self._tasks.node(task) for task in tasks))
            graph.need(node, Need(targets, 1, EdgeKind.CHILD, "derived"))
        return node

    @cached_property
    def _explicit(self) -> list[TaskRecord]:
        tasks = self._nodes.moment.tasks or ()
        return [task for task in tasks if task.kind == "explicit" and task.status != "complete"]
