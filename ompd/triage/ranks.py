"""Ranks of MPI jobs as they are listed: by job and number."""

from __future__ import annotations

from collections.abc import Iterable

from ompd.model.triage import RankSet

Ranked = tuple[str | None, int]
"""The name of a job, and the number of a rank in it."""


def rank_sets(ranks: Iterable[Ranked]) -> tuple[RankSet, ...]:
    """Return the ranks of each job, sorted."""
    jobs: dict[str | None, list[int]] = {}
    for job, rank in ranks:
        jobs.setdefault(job, []).append(rank)
    names = sorted(jobs, key=lambda job: (job is not None, job or ""))
    return tuple(RankSet(job, tuple(sorted(jobs[job]))) for job in names)
