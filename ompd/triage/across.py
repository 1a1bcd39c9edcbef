"""Across ranks: who of a job waits for whom in calls of MPI, and on which ranks all that depends in the end.

A call of all ranks waits for those of its communicator that are not in the same call; this is known of MPI_COMM_WORLD,
whose ranks are the job's. A call that names a rank waits for that one. What a call waits for that names any rank, or
another communicator, is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ompd.model.triage import JobRecord, RankEnd, RankWait

# Each rank of a collective call has all others in it before it returns; the root of a broadcast need not wait.
_COLLECTIVE = frozenset(
    f"MPI_{name}"
    for name in (
        *("Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"),
        *("Reduce_scatter", "Reduce_scatter_block", "Finalize", "Comm_dup", "Comm_split", "Comm_create"),
    )
)
_FINALIZE = "MPI_Finalize"  # which has no communicator, and is about all ranks
_NOT_SHOWN = "the code does not show which rank or communicator the call is about"
_MOST_MISSING = 1 << 20  # ranks that were not inspected: a size is whatever an environment says
_MOST_ENDS = 64  # each with all ranks that wait for it
_ANOTHER = "which ranks another communicator has is not known"


class _Rank(NamedTuple):
    target: str
    verdict: str
    summary: str
    calls: tuple[tuple[str, str | None, int | None, bool | None], ...]
    size: int | None


class Jobs:
    """The ranks of jobs so far."""

    def __init__(self) -> None:
        self._jobs: dict[str | None, dict[int, _Rank]] = {}

    def add(self, result: Mapping[str, Any], summary: str) -> None:
        """Take a result whose target is a rank; of several of one rank the last one by name."""
        if result["rank"] is None:
            return
        calls = tuple((c["routine"], c["link"], c["rank"], c["world"]) for c in result.get("mpi", ()))
        found = _Rank(result["target"], result["verdict"], summary, calls, result["size"])
        ranks = self._jobs.setdefault(result["job"], {})
        before = ranks.get(result["rank"])
        if before is None or before.target < found.target:
            ranks[result["rank"]] = found

    def records(self) -> tuple[JobRecord, ...]:
        """Return the jobs of which a rank is in a call of MPI."""
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
        own = tuple(sorted(members))
        if link and peer is not None:
            yield RankWait(f"{routine} {link} rank {peer}", own, (peer,))
        elif (routine in _COLLECTIVE and is_world) or routine == _FINALIZE:
            yield RankWait(routine, own, tuple(sorted(everyone - members)))
        else:
            yield RankWait(routine, own, (), _ANOTHER if is_world is False else _NOT_SHOWN)


def _ends(ranks: Mapping[int, _Rank], waits: Sequence[RankWait]) -> Iterator[RankEnd]:
    # Nodes are ranks, and calls as negative numbers: so there are few edges, however many ranks wait for however many.
    edges: dict[int, list[int]] = {}
    for number, wait in enumerate(waits):
        if wait.missing:
            edges[-1 - number] = list(wait.missing)
            for rank in wait.ranks:
                edges.setdefault(rank, []).append(-1 - number)
    if not edges:
        return
    circles = _circles(edges)
    circle_of = {node: index for index, circle in enumerate(circles) for node in circle}
    leads_on = {
        circle_of[node] for node, others in edges.items() for other in others if circle_of[other] != circle_of[node]
    }
    callers: dict[int, list[int]] = {}
    for node, others in edges.items():
        for other in others:
            callers.setdefault(other, []).append(node)
    # Most have the same callers: many ranks have not come to the call in which all others are.
    reaching: dict[tuple[int, ...], tuple[int, ...]] = {}
    joined: dict[tuple[str, str | None, str | None, tuple[int, ...]], list[int]] = {}
    found = []
    for index, circle in enumerate(circles):
        own = tuple(sorted(node for node in circle if node >= 0))
        if index in leads_on or not own or (len(own) == 1 and own[0] not in callers):
            continue
        outside = tuple(sorted({caller for node in circle for caller in callers.get(node, ())} - set(circle)))
        if outside not in reaching:
            reaching[outside] = tuple(sorted(node for node in _reaching(outside, callers) if node >= 0))
        waiting = reaching[outside]
        single = ranks.get(own[0]) if len(own) == 1 else None
        if len(circle) > 1:
            found.append(RankEnd(own, "cycle", waiting))
        elif single is not None:
            joined.setdefault(("rank", single.verdict, single.summary, outside), []).append(own[0])
        else:
            joined.setdefault(("not_inspected", None, None, outside), []).append(own[0])
    for (kind, verdict, summary, outside), alike in joined.items():
        found.append(RankEnd(tuple(sorted(alike)), kind, reaching[outside], verdict, summary))
    yield from sorted(found, key=lambda end: (-len(end.waiting), end.ranks))


def _reaching(circle: Sequence[int], callers: Mapping[int, Sequence[int]]) -> set[int]:
    seen = set(circle)
    waiting = list(circle)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            if caller not in seen:
                seen.add(caller)
                waiting.append(caller)
    return seen


def _circles(edges: Mapping[int, Sequence[int]]) -> list[list[int]]:
    # Tarjan's strongly connected components, without recursion: a node that is in no circle is one of its own.
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_path: dict[int, None] = {}
    found: list[list[int]] = []
    for start in sorted({*edges, *(other for others in edges.values() for other in others)}):
        if start in index:
            continue
        work = [(start, iter(edges.get(start, ())))]
        index[start] = low[start] = len(index)
        on_path[start] = None
        while work:
            node, others = work[-1]
            other = next((each for each in others if each not in index or each in on_path), None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle: list[int] = []
                    while not circle or circle[-1] != node:
                        circle.append(on_path.popitem()[0])
                    found.append(circle)
            elif other in index:
                low[node] = min(low[node], index[other])
            else:
                index[other] = low[other] = len(index)
                on_path[other] = None
                work.append((other, iter(edges.get(other, ()))))
    return found
