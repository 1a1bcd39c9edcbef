"""The chain of waits from a waiting thread to its root, link by link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ompd.analysis.graph import Need
from ompd.analysis.roots import End, Root, Solved
from ompd.analysis.words import plural
from ompd.model import Evidence, Link, Place
from ompd.model.kinds import EdgeKind, Kind

_MOST_LINKS = 64
_VERBS = {
    EdgeKind.WAITS_FOR: "waits for",
    EdgeKind.HELD_BY: "is held by",
    EdgeKind.MEMBER: "misses",
    EdgeKind.EXECUTES: "is executed by",
    EdgeKind.CHILD: "needs",
    EdgeKind.DEPENDS_ON: "depends on",
    EdgeKind.MAY_RUN: "can be executed by",
}


class Chains:
    """The chains of waits in one solved graph."""

    def __init__(self, solved: Solved) -> None:
        self._solved, self._graph, self._nodes = solved, solved.graph, solved.nodes
        self._ways: dict[Root, tuple[int, ...]] = {}
        self._waiters: dict[int, list[int]] = {}
        for thread, target in self._nodes.waiting.items():
            self._waiters.setdefault(target, []).append(thread)

    def way(self, root: Root) -> tuple[int, ...]:
        """Return the nodes from a waiting thread to *root*. The thread is one at the object with the most waiters.

        If the root is a cycle, return the nodes of the cycle in order.
        """
        if root.end is End.CYCLE:
            return root.nodes
        way = self._ways.get(root)
        if way is None:
            way = self._ways[root] = self._way(root)
        return way

    def _way(self, root: Root) -> tuple[int, ...]:
        towards = self._towards(root)
        starts = [thread for thread in root.threads if thread in towards]
        if not starts:
            return root.nodes
        start = max(starts, key=lambda t: (len(self._waiters.get(self._nodes.waiting[t], ())), -t))
        way = [start]
        while way[-1] not in root.nodes:
            way.append(towards[way[-1]])
        return tuple(way)

    def _towards(self, root: Root) -> dict[int, int]:
        # Return the next node on a shortest path to the root, for each node that has a path.
        before: dict[int, list[int]] = {}
        members = set(root.threads)
        visited = set(members)
        front = list(members)
        for node in front:
            for target in self._solved.next[node]:
                before.setdefault(target, []).append(node)
                if target not in visited:
                    visited.add(target)
                    front.append(target)
        towards: dict[int, int] = {}
        reached = list(root.nodes)
        visited_origins = set(reached)
        for node in reached:
            for origin in before.get(node, ()):
                if origin not in visited_origins:
                    visited_origins.add(origin)
                    towards[origin] = node
                    reached.append(origin)
        return towards

    def before(self, root: Root) -> int | None:
        """Return the last object on the way before *root*, None if there is none."""
        way = self.way(root)
        return next((node for node in reversed(way) if node not in self._nodes.rows and node not in root.nodes), None)

    def root_threads(self, root: Root) -> tuple[int, ...]:
        """Return the nodes of the threads on which the others depend."""
        if root.end is End.CYCLE:
            return tuple(node for node in root.nodes if self._is_thread(node))
        if root.end is End.OPEN:
            threads = [node for node in self.way(root) if self._is_thread(node)]
            return tuple(threads[-1:]) if len(threads) > 1 else tuple(self._waiters.get(root.nodes[0], threads))
        return tuple(node for node in root.nodes if self._is_thread(node))

    def _is_thread(self, node: int) -> bool:
        return self._graph.nodes[node].kind is Kind.THREAD

    def links(self, root: Root) -> tuple[Link, ...]:
        """Return the links of the cycle at *root*, or of the chain that ends there."""
        way = self.way(root)
        if root.end is End.CYCLE:
            first_thread = next((place for place, node in enumerate(way) if self._is_thread(node)), 0)
            way = (*way[first_thread:], *way[:first_thread])
        links: list[Link] = []
        for place, node in enumerate(way[: 2 * _MOST_LINKS]):
            if not self._is_thread(node):
                continue
            behind = way[place + 1 :] if root.end is not End.CYCLE else (*way[place + 1 :], *way[: place + 1])
            if node in self._nodes.waiting:
                links.append(self._link(node, behind))
            else:
                links += self._ends(root, node)
        return tuple(links)

    def _ends(self, root: Root, end: int) -> Iterator[Link]:
        # Yield links for the threads of the root that do not wait, one for each place. The place of *end* comes first.
        rows = self._nodes.rows
        places: dict[tuple[Place | None, str | None], list[int]] = {}
        for node in dict.fromkeys((end, *root.nodes)):
            if self._is_thread(node) and node not in self._nodes.waiting:
                where = rows[node].where if node in rows else None
                places.setdefault((where, self._graph.nodes[node].reason), []).append(node)
        for (where, reason), nodes in places.items():
            row = rows.get(nodes[0])
            doing = reason or ""
            yield Link(
                thread=self._graph.nodes[nodes[0]].thread,
                threads=tuple(sorted(t for t in (self._graph.nodes[n].thread for n in nodes) if t is not None)),
                object=plural(doing) if len(nodes) > 1 else doing,
                kind=Kind.THREAD,
                where=where,
                thread_num=row.thread_num if row is not None else None,
                ancestors=row.ancestors if row is not None else (),
            )

    def _link(self, node: int, behind: Sequence[int]) -> Link:
        graph, row = self._graph, self._nodes.rows.get(node)
        target = self._nodes.waiting[node]
        alike = [t for t in self._waiters.get(target, ()) if self._nodes.rows[t].where == (row.where if row else None)]
        objects = []
        for other in behind:
            if self._is_thread(other):
                break
            objects.append(other)
        holder = None
        need = self._need(objects[-1], behind[len(objects)]) if objects and len(behind) > len(objects) else None
        if need is not None:
            holder = need.reasoning if not need.is_known else need.kind
        name, counts = graph.nodes[target].name, graph.nodes[target].counts
        return Link(
            thread=graph.nodes[node].thread,
            threads=tuple(sorted(t for t in (graph.nodes[n].thread for n in alike) if t is not None)),
            object=name if counts is None else f"{name} ({counts})",
            kind=graph.nodes[target].kind,
            where=row.where if row is not None else None,
            holder=holder,
            thread_num=row.thread_num if row is not None else None,
            ancestors=row.ancestors if row is not None else (),
        )

    def _need(self, origin: int, target: int) -> Need | None:
        return next((n for n in self._graph.needs[origin] if target in self._solved.targets(n)), None)

    def _steps(self, root: Root) -> Iterator[tuple[int, int, Need]]:
        way = self.way(root)
        pairs = list(pairwise(way))
        if root.end is End.CYCLE:
            pairs.append((way[-1], way[0]))
        for origin, target in pairs:
            need = self._need(origin, target)
            if need is not None:
                yield origin, target, need

    def evidence(self, root: Root) -> tuple[Evidence, ...]:
        """Return the evidence for each step from node to node on the way to *root*. Each is read or reasoned."""
        steps = []
        for origin, target, need in self._steps(root):
            names = self._graph.nodes[origin].name, self._graph.nodes[target].name
            text = f"{names[0]} {_VERBS[need.kind]} {names[1]}"
            why = need.reasoning if not need.is_known else need.evidence
            source = need.source if need.is_known else "stack" if need.reasoning is not None else "derived"
            steps.append(Evidence(f"{text}: {why}" if why else text, source, need.address, need.value))
        return tuple(steps)

    def open_needs(self, root: Root) -> list[str]:
        """Return a text for each unknown need, and for each rescue, of the nodes on the way to *root*."""
        way, graph = self.way(root), self._graph
        needs = (need for node in way for need in graph.needs[node])
        open_ = [need.evidence for need in needs if not need.is_known and need.evidence is not None]
        return open_ + [rescue.reason for node in way for rescue in graph.rescues.get(node, ())]

    def place(self, root: Root) -> Place | None:
        """Return the place that the user should look at first."""
        rows = [self._nodes.rows[node] for node in self.root_threads(root) if node in self._nodes.rows]
        if all(row.where is None for row in rows):  # these threads have ended, are idle, or are in another process
            rows = [self._nodes.rows[node] for node in self.way(root) if node in self._nodes.rows]
        # Threads at the end of a region show no place inside of its code. So the places of other threads come first.
        rows.sort(key=lambda row: row.state in ("wait_barrier_implicit_parallel", "wait_barrier_implicit"))
        return next((row.where for row in rows if row.where is not None), None)
