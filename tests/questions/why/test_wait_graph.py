"""The wait-for graph against a model that tries all orders of events, and the growth of its cost."""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import pytest

from ompd.analysis.graph import Need, Node, Outlook, Release, View, WaitGraph, components
from ompd.analysis.moment import Moment
from ompd.analysis.roots import Solved
from ompd.analysis.waits.threads import ThreadNodes
from ompd.model.kinds import Kind
from tests.support.machine import FULL

_GRAPHS = 4_000 if FULL else 400


def _random_graph(seed: int) -> WaitGraph:
    choose = random.Random(seed)
    graph, size = WaitGraph(), choose.randint(1, 8)
    outlooks = [Outlook.WAITS] * 5 + [Outlook.RUNS, Outlook.NEVER, Outlook.UNKNOWN]
    for index in range(size):
        graph.add(Node(str(index), Kind.THREAD, str(index), choose.choice(outlooks)))
    for index in range(size):
        for _ in range(choose.randint(0, 3)):
            targets = tuple(choose.sample(range(size), choose.randint(0, min(size, 3))))
            is_known = choose.random() < 0.7
            reasoned = () if is_known or choose.random() < 0.5 else tuple(choose.sample(range(size), 1))
            count = choose.randint(1, max(1, len(targets))) if is_known else 1
            graph.need(index, Need(targets, count, is_known=is_known, reasoned=reasoned))
        if choose.random() < 0.3:
            graph.rescue(index, choose.randrange(size), "it might")
    return graph


class _World(NamedTuple):
    # One choice for all unknowns: the unknown nodes that go on; for each uncertain need, the one target that meets it,
    # if any; for each node, the rescuers that do free it.
    runs: list[bool]
    needs: list[list[tuple[tuple[int, ...], int] | None]]
    rescues: dict[int, set[int]]


def _worlds(graph: WaitGraph) -> list[_World]:
    unknown = [index for index, node in enumerate(graph.nodes) if node.outlook is Outlook.UNKNOWN]
    open_needs = [(i, k) for i, needs in enumerate(graph.needs) for k, need in enumerate(needs) if not need.is_known]
    worlds = []
    ways = [[None, *graph.needs[i][k].targets] for i, k in open_needs]
    rescues = [(index, rescue.by) for index, some in graph.rescues.items() for rescue in some]
    for goes_on, does in product(
        product((True, False), repeat=len(unknown)), product((True, False), repeat=len(rescues))
    ):
        for chosen in product(*ways):
            runs = [node.outlook is Outlook.RUNS for node in graph.nodes]
            for index, value in zip(unknown, goes_on, strict=True):
                runs[index] = value
            needs: list[list[tuple[tuple[int, ...], int] | None]] = [
                [(need.targets, need.count) for need in some] for some in graph.needs
            ]
            for (i, k), target in zip(open_needs, chosen, strict=True):
                needs[i][k] = None if target is None else ((target,), 1)
            by: dict[int, set[int]] = {}
            for (index, rescuer), is_so in zip(rescues, does, strict=True):
                by.setdefault(index, set()).update([rescuer] if is_so else [])
            worlds.append(_World(runs, needs, by))
    return worlds


def _can_go_on(graph: WaitGraph, world: _World) -> set[int]:
    # All nodes that go on in some order of events; one node goes on at a time.
    runs, needs, rescues = world
    first = frozenset(index for index, value in enumerate(runs) if value)
    seen, waiting, reached = {first}, [first], set(first)
    while waiting:
        state = waiting.pop()
        for index, node in enumerate(graph.nodes):
            if index in state or node.outlook is not Outlook.WAITS:
                continue
            has_all = all(need is not None and sum(t in state for t in need[0]) >= need[1] for need in needs[index])
            if has_all or not state.isdisjoint(rescues.get(index, ())):
                further = state | {index}
                reached.add(index)
                if further not in seen:
                    seen.add(further)
                    waiting.append(further)
    return reached


@pytest.mark.parametrize("part", range(8))
@pytest.mark.quick("1", "2", "3", "4", "6", "7")
def test_proofs_hold_in_every_world(part: int) -> None:
    proofs = 0
    for seed in range(part, _GRAPHS, 8):
        graph = _random_graph(seed)
        worlds = _worlds(graph)
        if len(worlds) > 600:
            continue
        ever = set().union(*(_can_go_on(graph, world) for world in worlds))
        always = set.intersection(*(_can_go_on(graph, world) for world in worlds))
        stuck = graph.stuck(View.OPTIMISTIC)
        assert not stuck & ever, f"graph {seed}: called stuck, and one world sets it free"
        # A node that goes on even in the worst case goes on in every world.
        assert graph.released(View.PESSIMISTIC) <= always
        proofs += len(stuck)
    assert proofs > 20


def test_what_is_proven_is_all_that_can_be_where_everything_is_known() -> None:
    for seed in range(_GRAPHS):
        graph = _random_graph(seed)
        if any(node.outlook is Outlook.UNKNOWN for node in graph.nodes):
            continue
        if any(not need.is_known for needs in graph.needs for need in needs):
            continue
        graph.rescues.clear()
        runs = [node.outlook is Outlook.RUNS for node in graph.nodes]
        known = _can_go_on(
            graph, _World(runs, [[(need.targets, need.count) for need in some] for some in graph.needs], {})
        )
        for view in View:
            assert graph.released(view) == known


def test_views_are_ordered() -> None:
    for seed in range(_GRAPHS):
        graph = _random_graph(seed)
        assert graph.released(View.PESSIMISTIC) <= graph.released(View.OPTIMISTIC)


def test_releasing_a_node_releases_no_less() -> None:
    for seed in range(_GRAPHS):
        graph = _random_graph(seed)
        before = graph.released(View.REASONED)
        for node in range(len(graph)):
            assert before | {node} <= graph.released(View.REASONED, (node,))


def test_what_a_simulation_sets_free_is_what_is_free_in_the_whole_graph() -> None:
    for seed in range(_GRAPHS):
        choose = random.Random(seed)
        graph = _random_graph(seed)
        size = len(graph)
        for view in View:
            release = Release(graph, view)
            before = graph.released(view)
            for _ in range(6):
                nodes = choose.sample(range(size), choose.randint(0, min(3, size)))
                more = graph.released(view, nodes) - before
                found = release.more(nodes)
                assert found is not None and len(found) == len(more) and set(found) == more
                stop = choose.randrange(size)
                stopped = release.more(nodes, stop=stop)
                assert (stopped is None) == (stop in more) and (stopped is None or set(stopped) == more)
            assert release.released == before


def test_how_many_are_set_free_is_what_the_whole_graph_has() -> None:
    for seed in range(_GRAPHS):
        choose = random.Random(seed)
        graph = _random_graph(seed)
        nodes = ThreadNodes(Moment(threads=()))
        nodes.graph, nodes.everybody = graph, choose.randrange(len(graph))
        nodes.waiting = {n: n for n, node in enumerate(graph.nodes) if node.outlook is Outlook.WAITS}
        solved, before = Solved(nodes), graph.released(View.REASONED)
        for _ in range(6):
            wanted = choose.sample(range(len(graph)), choose.randint(1, min(3, len(graph))))
            more = (graph.released(View.REASONED, wanted) - before) & nodes.waiting.keys()
            assert solved.freed(wanted) == len(more)


def test_a_simulation_takes_no_more_work_than_what_it_sets_free() -> None:
    # Pairs of threads that wait for each other; each pair is freed by itself.
    graph, pairs = WaitGraph(), 4_000
    for index in range(2 * pairs):
        graph.add(Node(str(index), Kind.THREAD, str(index)))
    for index in range(2 * pairs):
        graph.need(index, Need((index ^ 1,), 1))
    release = Release(graph, View.REASONED)
    assert all(release.more((2 * pair,)) == [2 * pair, 2 * pair + 1] for pair in range(pairs))
    assert release.steps == 4 * pairs


def test_components_are_those_of_reachability() -> None:
    for seed in range(_GRAPHS):
        choose = random.Random(seed)
        size = choose.randint(1, 8)
        successors = [choose.sample(range(size), choose.randint(0, min(3, size))) for _ in range(size)]
        reach = [_reached(start, successors) for start in range(size)]
        found = list(components(range(size), successors))
        assert sorted(node for part in found for node in part) == list(range(size))
        for part in found:
            for a, b in product(part, range(size)):
                assert (b in part) == (a == b or (b in reach[a] and a in reach[b]))
        place = {node: index for index, part in enumerate(found) for node in part}
        assert all(place[target] <= place[node] for node in range(size) for target in successors[node])


def _reached(start: int, successors: list[list[int]]) -> set[int]:
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        for target in successors[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def test_a_chain_of_a_hundred_thousand_links_needs_no_recursion() -> None:
    graph, length = WaitGraph(), 100_000
    for index in range(length):
        graph.add(Node(str(index), Kind.THREAD, str(index)))
    for index in range(length):
        graph.need(index, Need(((index + 1) % length,), 1))
    assert len(graph.stuck(View.OPTIMISTIC)) == length
    (ring,) = components([0], [[(index + 1) % length] for index in range(length)])
    assert len(ring) == length
