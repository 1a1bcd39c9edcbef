"""Who else might do what the recorded one has to: what keeps a wait from being proven to last."""

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
_ENDED = ("executing", "suspended", "detached", "complete")  # whose code runs, or has ended


class Others:
    """Who else might release a lock whose owner is recorded."""

    def __init__(self, nodes: ThreadNodes, tasks: TaskNodes) -> None:
        self._nodes, self._tasks = nodes, tasks

    def release(self, node: int, owner: int) -> None:
        """Note who else might release the lock with a node.

        A thread that waits at a scheduling point executes tasks there, and what these release, it does.

        :param owner: the node of the thread that is recorded to hold it
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
            members = [nodes.everybody]  # some are in regions of their own, and come back
        member = graph.add(Node(f"member:{row.parallel}", Kind.TEAM, "a thread of the team"))
        if not graph.needs[member]:
            graph.need(member, Need(tuple(members), 1, EdgeKind.MEMBER, "derived"))
        graph.rescue(node, member, _BY_NEW_TASK)

    def release_by_untied(self, node: int) -> None:
        """Note which untied tasks may hold a lock of OpenMP whose owner the runtime records by the thread's number."""
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
        # One node for all of them: there may be as many locks as threads.
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
