"""The ends of waits: cycles, and nodes on which other nodes depend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum

from ompd.analysis.graph import Need, Outlook, Release, View, WaitGraph, components
from ompd.analysis.waits.threads import ThreadNodes
from ompd.model.kinds import Confidence, EdgeKind
from ompd.records import record

_MOST_STEPS = 1 << 22  # limit for the work of all simulations of released threads: some seconds


class End(Enum):
    """The kinds of nodes at which waits end."""

    CYCLE = "cycle"
    ENDED = "ended"  # a thread that has ended
    RUNS = "runs"  # a thread that goes on by itself
    OUTSIDE = "outside"  # something outside of the process
    OPEN = "open"  # no thread is known that would end the wait


@record(eq=False)
class Root:
    """An end of waits: a cycle, or nodes that end waits in the same way.

    ``nodes`` are these nodes. Those of a cycle are in order, unless the holder of one of its locks is uncertain.
    ``threads`` are the nodes of all threads whose waits end at this root.
    """

    end: End
    nodes: tuple[int, ...]
    threads: tuple[int, ...]


class Solved:
    """A graph with its solution in each view, and the ends of its waits.

    ``stuck`` maps a view to the nodes that never go on. ``next`` has the nodes that each node waits for in the reasoned
    view.
    """

    def __init__(self, nodes: ThreadNodes) -> None:
        self.nodes, self.graph = nodes, nodes.graph
        everything = set(range(len(nodes.graph)))
        self._releases = {view: Release(nodes.graph, view) for view in View}
        self.stuck = {view: everything - release.released for view, release in self._releases.items()}
        self.next = [tuple(self._next(index)) for index in range(len(self.graph))]
        self._with_everybody = self._releases[View.REASONED]
        self._anybody: int | None = None  # how many waiting threads go on once any one thread goes on
        self.roots = tuple(_roots(self.graph, self.next, tuple(nodes.waiting), self.stuck))

    def _next(self, index: int) -> Iterable[int]:
        # Yield the nodes that a node waits for. A need with neither known nor likely targets adds none.
        if self.graph.nodes[index].outlook is not Outlook.WAITS:
            return
        for need in self.graph.needs[index]:
            targets = self.targets(need)
            running = (target for target in targets if self.graph.nodes[target].outlook is Outlook.RUNS)
            executor = next(running, None) if need.kind is EdgeKind.MAY_RUN else None
            # One running thread that may execute the task is enough: the task does not wait for the others.
            yield from targets if executor is None else (executor,)

    def targets(self, need: Need) -> tuple[int, ...]:
        """Return the nodes that can meet *need* in the reasoned view, an empty tuple if they are unknown."""
        if need.is_known:
            return need.targets if self.nodes.everybody not in need.targets else ()
        return need.reasoned

    def confidence(self, indices: Iterable[int]) -> Confidence:
        """Return how sure it is that none of the nodes ever goes on."""
        nodes = set(indices)
        if nodes and nodes <= self.stuck[View.OPTIMISTIC]:
            return Confidence.PROVEN
        if nodes and nodes <= self.stuck[View.REASONED]:
            return Confidence.LIKELY
        return Confidence.POSSIBLE if nodes and nodes <= self.stuck[View.PESSIMISTIC] else Confidence.UNKNOWN

    def freed(self, nodes: Iterable[int]) -> int | None:
        """Return how many waiting threads would go on if *nodes* went on.

        None if earlier calls have used up the limit of work.
        """
        release, everybody = self._releases[View.REASONED], self.nodes.everybody
        if release.steps + self._with_everybody.steps > _MOST_STEPS:
            return None
        started = tuple(nodes)
        going = release.more(started, stop=everybody)
        if going is not None:
            return self._waiting_of(going)
        # Needs that any thread can meet are all met as soon as one thread goes on. The nodes that this releases are
        # always the same, so they are counted once.
        if self._anybody is None:
            self._with_everybody = Release(self.graph, View.REASONED)
            self._anybody = self._waiting_of(self._with_everybody.keep((everybody,)))
        return self._anybody + self._waiting_of(self._with_everybody.more(started) or ())

    def _waiting_of(self, nodes: Iterable[int]) -> int:
        return sum(node in self.nodes.waiting for node in nodes)


def _roots(
    graph: WaitGraph, successors: Sequence[Sequence[int]], waiting: Sequence[int], stuck: Mapping[View, Set[int]]
) -> list[Root]:
    # components() yields a component after all components that it can reach, so the ends of those are known already. A
    # cycle is an end if no edges lead from it to another end. If some do, it still is one if all its nodes are stuck in
    # the reasoned view.
    reachable: dict[int, int] = {}  # the ends that each node can reach: bit n stands for ends[n]
    ends: list[tuple[End, tuple[int, ...]]] = []
    merged: dict[tuple[End, str], int] = {}
    for component in components(waiting, successors):
        members = set(component)
        bits = 0
        for node in component:
            for target in successors[node]:
                if target not in members:
                    bits |= reachable[target]
        is_cycle = len(component) > 1 or component[0] in successors[component[0]]
        if is_cycle and (not bits or members <= stuck[View.REASONED]):
            bits |= 1 << len(ends)
            is_open = any(len(need.reasoned) > 1 for node in component for need in graph.needs[node])
            ends.append((End.CYCLE, tuple(sorted(component)) if is_open else _in_order(component, successors)))
        elif not bits:
            end = _end(graph, component[0], stuck[View.PESSIMISTIC])
            # Threads that compute share one end. Threads in the same call share one, too.
            key = (end, graph.nodes[component[0]].reason or "" if end is not End.OPEN else str(component[0]))
            place = merged.setdefault(key, len(ends))
            if place == len(ends):
                ends.append((end, tuple(component)))
            else:
                ends[place] = end, (*ends[place][1], component[0])
            bits = 1 << place
        for node in component:
            reachable[node] = bits
    threads: list[list[int]] = [[] for _ in ends]
    for index in waiting:
        bits = reachable[index]
        while bits:
            bit = bits & -bits
            threads[bit.bit_length() - 1].append(index)
            bits ^= bit
    return [Root(end, nodes, tuple(waiters)) for (end, nodes), waiters in zip(ends, threads, strict=True)]


def _end(graph: WaitGraph, index: int, stuck: Set[int]) -> End:
    outlook = graph.nodes[index].outlook
    if outlook is Outlook.WAITS and index not in stuck:
        return End.RUNS  # all needs of the node are met: for example a taskwait whose last child is complete
    return {
        Outlook.RUNS: End.RUNS,
        Outlook.NEVER: End.ENDED,
        Outlook.UNKNOWN: End.OUTSIDE,
        Outlook.WAITS: End.OPEN,
    }[outlook]


def _in_order(component: Sequence[int], successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    # Return the shortest cycle in the component that begins at its node with the lowest index.
    members = set(component)
    start = min(component)
    before: dict[int, int] = {}
    front = [start]
    visited = {start}
    for node in front:
        for target in successors[node]:
            if target == start:
                ring = [node]
                while ring[-1] != start:
                    ring.append(before[ring[-1]])
                return tuple(reversed(ring))
            if target in members and target not in visited:
                visited.add(target)
                before[target] = node
                front.append(target)
    return (start,)
