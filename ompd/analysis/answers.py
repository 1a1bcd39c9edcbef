"""The verdicts on a moment, and its wait-for graph, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ompd.analysis.graph import View
from ompd.analysis.moment import Moment
from ompd.analysis.roots import Solved
from ompd.analysis.verdicts.advice import advice
from ompd.analysis.verdicts.samples import Progress, weighed
from ompd.analysis.verdicts.verdicts import Verdicts
from ompd.analysis.waits.build import build
from ompd.model import GraphEdge, GraphNode, VerdictRecord
from ompd.model.kinds import Confidence
from ompd.model.supply import Supply


def concluded(
    moment: Moment,
    earlier: Sequence[Moment] = (),
    seconds: float | None = None,
    supply: Supply | None = None,
) -> tuple[tuple[VerdictRecord, ...], tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
    """Return the verdicts on a moment, the most important one first, and the nodes and edges of its wait-for graph.

    :param earlier: other moments of the same process, the first one *seconds* before
    :param supply: what the process got from its machine since the first moment, None if that is unknown
    """
    solved = Solved(build(moment))
    verdicts = tuple(Verdicts(solved).all())
    if earlier:
        verdicts = weighed(verdicts, moment, Progress.over((*earlier, moment)), seconds)
    if supply is not None:
        from ompd.analysis.verdicts.supply.verdicts import placed

        verdicts = placed(verdicts, supply, [each.threads for each in (*earlier, moment)])
    advised = tuple(replace(verdict, advice=verdict.advice or advice(verdict)) for verdict in verdicts)
    return advised, _nodes(solved), _edges(solved)


def _nodes(solved: Solved) -> tuple[GraphNode, ...]:
    views = (
        (View.OPTIMISTIC, Confidence.PROVEN),
        (View.REASONED, Confidence.LIKELY),
        (View.PESSIMISTIC, Confidence.POSSIBLE),
    )
    return tuple(
        GraphNode(
            node.key,
            node.kind,
            node.name,
            node.object,
            node.thread,
            next((name for view, name in views if index in solved.stuck[view]), None),
        )
        for index, node in enumerate(solved.graph.nodes)
    )


def _edges(solved: Solved) -> tuple[GraphEdge, ...]:
    keys = [node.key for node in solved.graph.nodes]
    edges: list[GraphEdge] = []
    for index, needs in enumerate(solved.graph.needs):
        for group, need in enumerate(needs):
            targets = solved.targets(need) or need.targets
            count, source, why = 1, "derived", need.evidence
            if need.is_known:
                count, source = min(need.count, len(targets)), need.source
            elif need.reasoned:
                source, why = "stack", need.reasoning
            edges += [GraphEdge(keys[index], keys[t], need.kind, source, group, count, why) for t in targets]
    return tuple(edges)
