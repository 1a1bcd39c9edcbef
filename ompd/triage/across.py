"""Waits across ranks: finds ranks that wait for others in MPI calls, and the ranks on which these depend in the end.

A collective call waits for the ranks of its communicator that are not in the same call. Only the ranks of
MPI_COMM_WORLD are known: all ranks of the job. A call that names a rank waits for that rank. Other calls wait for
unknown ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ompd.analysis.graph import components
from ompd.model.triage import JobRecord, RankEnd, RankWait

# The collective calls that return on no rank before all ranks have entered. A broadcast, for example, may return
# earlier.
_COLLECTIVE = frozenset(
    f"MPI_{name}"
    for name in (
        "Barrier",
        "Allreduce",
        "Allgather",
        "Allgatherv",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
        "Reduce_scatter",
        "Reduce_scatter_block",
        "Finalize",
        "Comm_dup",
        "Comm_split",
        "Comm_create",
    )
)
_FINALIZE = "MPI_Finalize"  # the call has no communicator: it waits for all ranks
_NOT_SHOWN = "the code does not show which rank or communicator the call is about"
_MOST_MISSING = 1 << 20  # limit of ranks that were not inspected: an environment may claim any size
_MOST_ENDS = 64  # limit of ends: each one lists all ranks that wait for it
_ANOTHER = "which ranks another communicator has is not known"


class _Rank(NamedTuple):
    target: str
    verdict: str
    summary: str
    calls: tuple[tuple[str, str | None, int | None, bool | None], ...]
    size: int | None


class Jobs:
    """The jobs so far, each with its ranks."""

    def __init__(self) -> None:
        self._jobs: dict[str | None, dict[int, _Rank]] = {}

    def add(self, result: Mapping[str, Any], summary: str) -> None:
        """Add a result if its target is a rank. If several targets are the same rank, the last one by name is kept."""
        if result["rank"] is None:
            return
        calls = tuple((c["routine"], c["link"], c["rank"], c["world"]) for c in result.get("mpi", ()))
        rank = _Rank(result["target"], result["verdict"], summary, calls, result["size"])
        ranks = self._jobs.setdefault(result["job"], {})
        before = ranks.get(result["rank"])
        if before is None or before.target < rank.target:
            ranks[result["rank"]] = rank

    def records(self) -> tuple[JobRecord, ...]:
        """Return the jobs in which a rank is in an MPI call."""
        names = sorted(self._jobs, key=lambda job: (job is not None, job or ""))
        return tuple(
            _job(job, self._jobs[job]) for job in names if any(rank.calls for rank in self._jobs[job].values())
        )


def _job(job: str | None, ranks: Mapping[int, _Rank]) -> JobRecord:
    size = next((rank.size for _, rank in sorted(ranks.items()) if rank.size is not None), None)
    if size is not None and not len(ranks) <= size <= _MOST_MISSING + len(ranks):
        size = None
    waits = tuple(_waits(ranks, size))
    ends = tuple(_ends(ranks, waits))
    return JobRecord(job, size, tuple(sorted(ranks)), waits, ends[:_MOST_ENDS], max(0, len(ends) - _MOST_ENDS))


def _waits(ranks: Mapping[int, _Rank], size: int | None) -> Iterator[RankWait]:
    inside: dict[tuple[str, str | None, int | None, bool | None], set[int]] = {}
    for number, rank in ranks.items():
        for call in rank.calls:
            inside.setdefault(call, set()).add(number)
    everyone = set(ranks) | set(range(size or 0))
    for (routine, link, peer, is_world), members in sorted(
        inside.items(), key=lambda item: (str(item[0]), len(item[1]))
    ):
        callers = tuple(sorted(members))
        if link and peer is not None:
            yield RankWait(f"{routine} {link} rank {peer}", callers, (peer,))
        elif (routine in _COLLECTIVE and is_world) or routine == _FINALIZE:
            yield RankWait(routine, callers, tuple(sorted(everyone - members)))
        else:
            yield RankWait(routine, callers, (), _ANOTHER if is_world is False else _NOT_SHOWN)


def _ends(ranks: Mapping[int, _Rank], waits: Sequence[RankWait]) -> Iterator[RankEnd]:
    # Yield the ranks on which others depend in the end. The nodes of the graph are ranks, and MPI calls as negative
    # numbers. A call's node saves edges: its callers have one to it, and it has one to each missing rank.
    edges: dict[int, list[int]] = {}
    for number, wait in enumerate(waits):
        if wait.missing:
            edges[-1 - number] = list(wait.missing)
            for rank in wait.ranks:
                edges.setdefault(rank, []).append(-1 - number)
    if not edges:
        return
    nodes = sorted({*edges, *(target for targets in edges.values() for target in targets)})
    circles = list(components(nodes, {node: edges.get(node, ()) for node in nodes}))
    circle_of = {node: index for index, circle in enumerate(circles) for node in circle}
    has_exit = {
        circle_of[node] for node, targets in edges.items() for target in targets if circle_of[target] != circle_of[node]
    }
    callers: dict[int, list[int]] = {}
    for node, targets in edges.items():
        for target in targets:
            callers.setdefault(target, []).append(node)
    # The nodes that reach an end, by the end's direct callers. They are kept, because many ranks are often missing in
    # the same call, so that many ends have the same callers.
    reaching: dict[tuple[int, ...], tuple[int, ...]] = {}
    joined: dict[tuple[str, str | None, str | None, tuple[int, ...]], list[int]] = {}
    ends = []
    for index, circle in enumerate(circles):
        members = tuple(sorted(node for node in circle if node >= 0))
        if index in has_exit or not members or (len(members) == 1 and members[0] not in callers):
            continue
        outside = tuple(sorted({caller for node in circle for caller in callers.get(node, ())} - set(circle)))
        if outside not in reaching:
            reaching[outside] = tuple(sorted(node for node in _reaching(outside, callers) if node >= 0))
        waiting = reaching[outside]
        single = ranks.get(members[0]) if len(members) == 1 else None
        if len(circle) > 1:
            ends.append(RankEnd(members, "cycle", waiting))
        elif single is not None:
            joined.setdefault(("rank", single.verdict, single.summary, outside), []).append(members[0])
        else:
            joined.setdefault(("not_inspected", None, None, outside), []).append(members[0])
    for (kind, verdict, summary, outside), alike in joined.items():
        ends.append(RankEnd(tuple(sorted(alike)), kind, reaching[outside], verdict, summary))
    yield from sorted(ends, key=lambda end: (-len(end.waiting), end.ranks))


def _reaching(circle: Sequence[int], callers: Mapping[int, Sequence[int]]) -> set[int]:
    reached = set(circle)
    waiting = list(circle)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            if caller not in reached:
                reached.add(caller)
                waiting.append(caller)
    return reached
