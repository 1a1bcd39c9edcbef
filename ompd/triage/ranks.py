"""The MPI rank and job of a process, from the variables that launchers put into its environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ompd.model.triage import RankSet
from ompd.naming import HOST, JOB, RANK, RUN, SIZE
from ompd.records import record

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_WORD = 64

Ranked = tuple[str | None, int]
"""The name of a job, and the number of a rank in it."""


@record
class RankOf:
    """The MPI rank of a process: its number, the number of ranks in the job, and the names of job and host.

    A field is None if no variable of the environment has it.
    """

    rank: int | None = None
    size: int | None = None
    job: str | None = None
    host: str | None = None


def rank_of(environment: Mapping[str, str]) -> RankOf:
    """Return the rank of the process that has this environment."""
    job = ".".join(word for names in (JOB, RUN) if (word := _word(environment, names)) is not None)
    return RankOf(_number(environment, RANK), _number(environment, SIZE), job or None, _word(environment, HOST))


def _number(environment: Mapping[str, str], names: Iterable[str]) -> int | None:
    values = (environment[name] for name in names if name in environment)
    return next((int(value) for value in values if _NUMBER.fullmatch(value)), None)


def _word(environment: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((environment[name][:_MOST_WORD] for name in names if environment.get(name)), None)


def rank_sets(ranks: Iterable[Ranked]) -> tuple[RankSet, ...]:
    """Return the ranks of each job, sorted."""
    jobs: dict[str | None, list[int]] = {}
    for job, rank in ranks:
        jobs.setdefault(job, []).append(rank)
    names = sorted(jobs, key=lambda job: (job is not None, job or ""))
    return tuple(RankSet(job, tuple(sorted(jobs[job]))) for job in names)
