"""An AND-OR wait-for graph, and its nodes that can be released.

A node is released when each of its needs is met. A need is met when enough of its targets are released. The other nodes
can never go on: releasing is monotonic, so the order of events does not change the outcome. The work is linear in the
number of edges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from ompd.model.kinds import EdgeKind, Kind
from ompd.records import record


class Outlook(Enum):
    """Whether a node goes on by itself."""

    WAITS = "waits"  # the node goes on when its needs are met
    RUNS = "runs"  # the node goes on in any case
    NEVER = "never"  # the node never goes on, for example a thread that has ended
    UNKNOWN = "unknown"  # it depends on something outside of the process, or on something unreadable


class View(Enum):
    """How a solution treats unknowns."""

    OPTIMISTIC = "optimistic"  # each unknown turns out well: a node stuck in this view is stuck for certain
    REASONED = "reasoned"  # the likely holders are the holders
    PESSIMISTIC = "pessimistic"  # each unknown turns out badly: an unknown thread never goes on


@record
class Need:
    """What a node needs: the release of ``count`` of its ``targets`` (indices of nodes).

    ``is_known`` is False if the targets are only candidates, such as all threads for a lock without a recorded holder.
    In the pessimistic view a need with mere candidates is never met. ``reasoned`` has the likely ones among the
    candidates, and is empty if none is likelier than the others. ``kind``, ``source`` and ``evidence`` are those of
    :class:`~ompd.model.GraphEdge`. ``address`` and ``value`` belong to the word in memory from which the need was read.
    """

    targets: tuple[int, ...]
    count: int
    kind: EdgeKind = EdgeKind.WAITS_FOR
    source: str = "runtime"
    evidence: str | None = None
    is_known: bool = True
    reasoned: tuple[int, ...] = ()
    reasoning: str | None = None
    address: int | None = None
    value: int | None = None

    def seen(self, view: View) -> tuple[tuple[int, ...], int] | None:
        """Return the targets in *view*, and how many of them suffice; None if the need cannot be met."""
        if self.is_known or view is View.OPTIMISTIC:
            return self.targets, self.count
        if view is View.REASONED:
            return (self.reasoned, 1) if self.reasoned else (self.targets, self.count)
        return None


@record
class Node:
    """A node of the graph. ``kind`` and ``name`` are those of :class:`~ompd.model.GraphNode`.

    ``key`` is the node's id in answers, ``thread`` the native id of a thread, ``object`` an address. ``reason``
    explains the outlook. ``counts`` is a text for the threads that the object counts, such as ``2 of 3 arrived``.
    """

    key: str
    kind: Kind
    name: str
    outlook: Outlook = Outlook.WAITS
    thread: int | None = None
    object: int | None = None
    reason: str | None = None
    counts: str | None = None


@record
class Rescue:
    """A way to set a node free without meeting its needs: the node ``by`` goes on. ``reason`` is how this may help."""

    by: int
    reason: str


class WaitGraph:
    """Nodes by index, with their needs and rescues.

    A rescue counts in the optimistic view only: it turns ``proven`` into ``likely``.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.needs: list[list[Need]] = []
        self.rescues: dict[int, list[Rescue]] = {}
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def find(self, key: str) -> int | None:
        """Return the index of the node with a key, None if there is none."""
        return self._index.get(key)

    def add(self, node: Node) -> int:
        """Add a node if there is none with its key, and return the index of the node with this key."""
        index = self._index.setdefault(node.key, len(self.nodes))
        if index == len(self.nodes):
            self.nodes.append(node)
            self.needs.append([])
        return index

    def rename(self, index: int, name: str) -> None:
        """Give a node another name in texts."""
        self.nodes[index] = replace(self.nodes[index], name=name)

    def need(self, index: int, need: Need) -> None:
        """Add a need to a node. If the need can never be met, the node is stuck."""
        self.needs[index].append(need)

    def rescue(self, index: int, by: int, reason: str) -> None:
        """Let a node go on if the node *by* goes on, although no need of the node has *by* as a target."""
        self.rescues.setdefault(index, []).append(Rescue(by, reason))

    def released(self, view: View, also: Collection[int] = ()) -> set[int]:
        """Return the nodes that go on in *view*.

        :param also: nodes assumed to go on, although their needs may be unmet
        """
        return Release(self, view).also(also)

    def stuck(self, view: View, also: Collection[int] = ()) -> set[int]:
        """Return the nodes that never go on in *view*, even if the nodes *also* go on."""
        return set(range(len(self.nodes))) - self.released(view, also)


class Release:
    """The release of a graph's nodes in one view, by counters."""

    def __init__(self, graph: WaitGraph, view: View) -> None:
        nodes = graph.nodes
        self._unmet = [0] * len(nodes)  # unmet needs of each node; -1 if the node never goes on
        self._missing: list[int] = []  # for each need, how many more targets have to be released
        self._owner: list[int] = []  # for each need, its node
        self._users: list[list[int]] = [[] for _ in nodes]  # for each node, the needs that have it as a target
        self._rescued: dict[int, list[int]] = {}  # for each node, the nodes that it sets free by rescues
        if view is View.OPTIMISTIC:
            for index, rescues in graph.rescues.items():
                for rescue in rescues:
                    self._rescued.setdefault(rescue.by, []).append(index)
        going: list[int] = []
        for index, node in enumerate(nodes):
            if node.outlook is Outlook.RUNS or (node.outlook is Outlook.UNKNOWN and view is not View.PESSIMISTIC):
                going.append(index)
            elif node.outlook is not Outlook.WAITS:
                self._unmet[index] = -1
            else:
                self._unmet[index] = self._add_needs(index, graph.needs[index], view)
                if not self._unmet[index]:
                    going.append(index)
        self.released: set[int] = set()
        self.steps = 0  # the work of all simulations so far
        self.keep(going)

    def _add_needs(self, index: int, needs: Iterable[Need], view: View) -> int:
        unmet = 0
        for need in needs:
            visible = need.seen(view)
            targets, count = visible if visible is not None else ((), 1)
            if count <= 0:
                continue
            unmet += 1
            for target in targets:
                self._users[target].append(len(self._missing))
            self._missing.append(count)
            self._owner.append(index)
        return unmet

    def also(self, nodes: Collection[int]) -> set[int]:
        """Return all nodes that go on if *nodes* go on."""
        return self.released | set(self.more(nodes) or ())

    def more(self, nodes: Iterable[int], *, stop: int | None = None) -> list[int] | None:
        """Return *nodes*, and the nodes that go on only if *nodes* go on. Nodes already released are left out.

        The work grows with the length of the result, not with the size of the graph.

        :param stop: a node that ends the search: the result is None if this node would go on
        """
        freed: list[int] = []
        decided: list[int] = []
        is_stopped = not self._go_on(nodes, freed, decided, stop)
        self.steps += len(freed) + len(decided)
        for need in reversed(decided):
            if not self._missing[need]:
                self._unmet[self._owner[need]] += 1
            self._missing[need] += 1
        self.released.difference_update(freed)
        return None if is_stopped else freed

    def _go_on(self, nodes: Iterable[int], freed: list[int], decided: list[int], stop: int | None = None) -> bool:
        # Release *nodes* and all nodes that follow. Add these nodes to *freed*. Add a need to *decided* once for each
        # newly released target, so that the caller can undo the count. Return False if *stop* was released.
        released, missing, unmet = self.released, self._missing, self._unmet
        for index in nodes:
            if index not in released:
                released.add(index)
                freed.append(index)
        for node in freed:
            if node == stop:
                return False
            for index in self._rescued.get(node, ()):
                if index not in released and unmet[index] >= 0:
                    released.add(index)
                    freed.append(index)
            for need in self._users[node]:
                decided.append(need)
                missing[need] -= 1
                if missing[need]:
                    continue
                index = self._owner[need]
                unmet[index] -= 1
                if not unmet[index] and index not in released:
                    released.add(index)
                    freed.append(index)
        return True

    def keep(self, nodes: Iterable[int]) -> list[int]:
        """Release *nodes* for good. Return all nodes that this releases, including *nodes*."""
        freed: list[int] = []
        self._go_on(nodes, freed, [])
        return freed


def components(
    nodes: Iterable[int], successors: Sequence[Sequence[int]] | Mapping[int, Sequence[int]]
) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph (Tarjan). A component comes after all components it can reach.

    :param nodes: the nodes to begin with
    :param successors: the successors of each node, by node
    """
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for start in nodes:
        if start in order:
            continue
        # A loop instead of recursion, because the target program decides how long a chain is.
        work = [(start, iter(successors[start]))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, untried = work[-1]
            for target in untried:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(successors[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    yield component
