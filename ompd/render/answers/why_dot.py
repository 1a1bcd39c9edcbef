"""The wait-for graph in the language of graphviz: a box for each cycle, and one node for many similar nodes.

Nodes named in a verdict stay separate. All other nodes are folded: nodes of one kind become one node if they wait for
similar nodes and similar nodes need them. So thousands of threads at a barrier become two nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ompd.model import GraphEdge, GraphNode, Link, VerdictRecord, WhyAnswer
from ompd.model.kinds import Confidence, EdgeKind, Kind
from ompd.render.words import clean, format_place

_CYCLES = 32  # verdicts whose nodes stay apart
_APART = 64  # nodes of each of these verdicts that stay apart
_NAMED = 100  # with more kinds of nodes than this, nodes with different names are folded, too
_ROUNDS = 12
_LONGEST = 80  # characters of a name
# The id of the node that stands for any thread. Edges to it are not drawn, because they only mean that no record shows
# which thread has to act.
_ANYBODY = "everybody"
_SHAPES = {Kind.THREAD: "box", Kind.TASK: "note", Kind.TEAM: "box", Kind.OUTSIDE: "cloud"}
_COLOURS = {Confidence.PROVEN: "#f4a6a0", Confidence.LIKELY: "#f9cf9c", Confidence.POSSIBLE: "#fbf0b2"}
_LINES = {"runtime": "solid", "derived": "dashed", "stack": "dotted"}
_MOST_INSIDE = 1 << 10
_WORDS: Mapping[str, str] = {
    EdgeKind.MEMBER: "misses",
    EdgeKind.EXECUTES: "executed by",
    EdgeKind.CHILD: "needs its child",
    EdgeKind.MAY_RUN: "may be run by",
}


def format_dot(answer: WhyAnswer) -> str:
    """Return the graph as text for ``dot``."""
    graph = _Graph(answer)
    return "\n".join(["digraph why {", *(f"  {line}" for line in graph.lines()), "}"])


class _Graph:
    # The graph to draw. A node is given by its index in ``_nodes``, the nodes of the answer without the node that
    # stands for any thread. ``_class`` has the class of each node: all nodes of a class are drawn as one.

    def __init__(self, answer: WhyAnswer) -> None:
        self._verdicts = answer.rows
        self._nodes = [node for node in answer.graph.nodes if node.id != _ANYBODY]
        self._index = {node.id: number for number, node in enumerate(self._nodes)}
        self._edges = [e for e in answer.graph.edges if e.origin in self._index and e.target in self._index]
        self._open = {e.origin: e.evidence for e in answer.graph.edges if e.target == _ANYBODY}
        self._out: list[list[tuple[int, GraphEdge]]] = [[] for _ in self._nodes]
        self._in: list[list[tuple[int, GraphEdge]]] = [[] for _ in self._nodes]
        for edge in self._edges:
            origin, target = self._index[edge.origin], self._index[edge.target]
            self._out[origin].append((target, edge))
            self._in[target].append((origin, edge))
        self._threads = {node.thread: n for n, node in enumerate(self._nodes) if node.kind is Kind.THREAD}
        self._roots = {self._threads[r] for v in answer.rows for r in v.roots if r in self._threads}
        self._places = {
            self._threads[link.thread]: format_place(link.where)
            for verdict in answer.rows[:_CYCLES]
            for link in verdict.cycle
            if link.where is not None and link.thread in self._threads
        }
        self._rings = [self._way(verdict) for verdict in answer.rows[:_CYCLES]]
        # For each thread that waits at the same place as a thread named in a verdict: the named thread. All threads at
        # such a place are drawn as one.
        self._beside = {
            self._threads[other]: self._threads[link.thread]
            for verdict in answer.rows[:_CYCLES]
            for link in verdict.cycle[:_APART]
            if link.thread in self._threads
            for other in link.threads
            if other in self._threads
        }
        self._class = self._classes()

    def _way(self, verdict: VerdictRecord) -> list[int]:
        # Return the nodes of a cycle or chain: its threads, and the nodes between consecutive threads.
        links, nodes = verdict.cycle[:_APART], []
        following: Sequence[Link | None] = (*links[1:], links[0] if _is_cycle(verdict) else None) if links else ()
        for link, after in zip(links, following, strict=True):
            node = self._threads.get(link.thread)
            goal = self._threads.get(after.thread) if after is not None else None
            if node is not None:
                nodes += [node, *self._between(node, goal)]
        return list(dict.fromkeys(nodes))

    def _between(self, start: int, goal: int | None) -> list[int]:
        # Return the nodes of a shortest way from *start* to *goal* that passes no threads. Without a goal, return the
        # nodes behind *start* until the edges fork.
        before: dict[int, int] = {}
        front = [start]
        for node in front:
            if len(front) > _MOST_INSIDE:
                break
            targets = self._out[node][:_MOST_INSIDE]
            if goal is None and len(targets) != 1:
                break
            for target, _ in targets:
                if target == goal:
                    path: list[int] = []
                    while node != start:
                        path.append(node)
                        node = before[node]
                    return path[::-1]
                if target not in before and target != start and self._nodes[target].kind is not Kind.THREAD:
                    before[target] = node
                    front.append(target)
        return front[1:] if goal is None else []

    # Folding

    def _classes(self) -> list[int]:
        apart = {node: node for ring in self._rings for node in ring}
        apart |= {node: beside for node, beside in self._beside.items() if node not in apart}
        classes: list[int] = []
        for with_names in (True, False):
            keys: list[object] = [
                ("apart", apart[number])
                if number in apart
                else (node.kind, node.stuck, number in self._roots, self._name(node) if with_names else "")
                for number, node in enumerate(self._nodes)
            ]
            classes = _numbered(keys)
            for _ in range(_ROUNDS):
                refined = _numbered([self._signature(number, classes) for number in range(len(classes))])
                if max(refined, default=0) == max(classes, default=0):
                    break
                classes = refined
            if max(classes, default=0) < _NAMED:
                break
        return classes

    def _name(self, node: GraphNode) -> str:
        return "" if node.kind is Kind.THREAD else node.name

    def _signature(self, number: int, classes: Sequence[int]) -> object:
        to = frozenset((edge.kind, edge.source, classes[target]) for target, edge in self._out[number])
        by = frozenset((edge.kind, edge.source, classes[origin]) for origin, edge in self._in[number])
        return classes[number], to, by

    # Text

    def lines(self) -> Iterator[str]:
        yield "rankdir=LR;"
        yield 'node [fontname="sans-serif", style="filled", fillcolor="white"];'
        yield 'edge [fontname="sans-serif", fontsize=10];'
        members: dict[int, list[int]] = {}
        for number, group in enumerate(self._class):
            members.setdefault(group, []).append(number)
        cluster_of: dict[int, int] = {}
        for number, (verdict, ring) in enumerate(zip(self._verdicts, self._rings, strict=False)):
            if not _is_cycle(verdict):
                continue
            groups = [self._class[node] for node in ring if self._class[node] not in cluster_of]
            cluster_of.update(dict.fromkeys(groups, number))
            if groups:
                label = f"{verdict.kind}, stuck: {verdict.stuck}"
                yield f'subgraph cluster_{number} {{ label={_quoted(label)}; color="#b03030";'
                yield from (f"  {self._node(group, members[group])}" for group in groups)
                yield "}"
        yield from (self._node(group, nodes) for group, nodes in members.items() if group not in cluster_of)
        yield from self._arrows()

    def _node(self, group: int, members: Sequence[int]) -> str:
        first = self._nodes[members[0]]
        names = {self._nodes[number].name for number in members}
        label = first.name if len(names) == 1 else _plural(first.kind)
        words = [label[:_LONGEST] + (f"  x {len(members)}" if len(members) > 1 else "")]
        words += [self._places[number] for number in members[:1] if number in self._places]
        if first.id in self._open and first.kind is not Kind.THREAD:
            words.append("nobody is known to end this wait")
        style = ""
        if any(number in self._roots for number in members):
            words.append("root")
            style = ', penwidth=3, color="#b03030"'
        shape = _SHAPES.get(first.kind, "ellipse")
        colour = f', fillcolor="{_COLOURS[first.stuck]}"' if first.stuck in _COLOURS else ""
        return f"n{group} [label={_quoted(*words)}, shape={shape}{colour}{style}];"

    def _arrows(self) -> Iterator[str]:
        arrows: dict[tuple[int, int, str, str], None] = {}
        for edge in self._edges:
            ends = self._class[self._index[edge.origin]], self._class[self._index[edge.target]]
            arrows.setdefault((*ends, edge.kind, edge.source), None)
        for origin, target, kind, source in arrows:
            label = _quoted(_WORDS.get(kind, kind.replace("_", " ")))
            yield f"n{origin} -> n{target} [label={label}, style={_LINES.get(source, 'solid')}];"


def _is_cycle(verdict: VerdictRecord) -> bool:
    return bool(verdict.cycle) and verdict.cycle[-1].holder is not None


def _numbered(keys: Sequence[object]) -> list[int]:
    numbers: Mapping[object, int]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def _plural(kind: str) -> str:
    return f"{kind.replace('_', ' ')}s"


def _quoted(*lines: str) -> str:
    # Return lines as a string of graphviz. Names come from the target, so quotes and backslashes are escaped.
    texts = (clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(texts) + '"'
