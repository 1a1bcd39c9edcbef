"""The MPI rank and job of a process, from the variables that launchers put into its environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ompd.binary.core.procfs import parse_stat
from ompd.errors import MalformedFile
from ompd.machine.processes import PROC, process_numbers, runtimes_of
from ompd.naming import HOST, JOB, NAMES_ITS_RUN, RANK, RUN, SIZE
from ompd.records import record

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_WORD = 64
_MOST_PROCESSES = 4096  # whose environments are read
_MOST_ENVIRONMENT = 1 << 20


@record
class RankOf:
    """The MPI rank of a process: its number, the number of ranks in the job, and the names of job and host.

    A field is None if no variable of the environment has it.
    """

    rank: int | None = None
    size: int | None = None
    job: str | None = None
    host: str | None = None


@record
class RankProcess:
    """A process that is an MPI rank and has loaded an OpenMP runtime."""

    process_id: int
    rank: int


def rank_of(environment: Mapping[str, str]) -> RankOf:
    """Return the rank of the process that has this environment."""
    job = ".".join(word for names in (JOB, RUN) if (word := _word(environment, names)) is not None)
    return RankOf(_number(environment, RANK), _number(environment, SIZE), job or None, _word(environment, HOST))


def _number(environment: Mapping[str, str], names: Iterable[str]) -> int | None:
    values = (environment[name] for name in names if name in environment)
    return next((int(value) for value in values if _NUMBER.fullmatch(value)), None)


def _word(environment: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((environment[name][:_MOST_WORD] for name in names if environment.get(name)), None)


def rank_number(process_id: int, folder: Path = PROC) -> int | None:
    """Return the MPI rank of a process, None if its environment has none or cannot be read.

    :param folder: where the kernel shows processes
    """
    return rank_of(_environment(folder / str(process_id))).rank


def other_ranks(process_id: int, folder: Path = PROC) -> tuple[RankProcess, ...]:
    """Return the other ranks of a process's MPI job that are on this host, use OpenMP, and that this user may read.

    The ranks whose threads are in states that few ranks share come first: if many ranks wait for one, it is different.
    Empty if the process is no rank. A process that a rank has forked is not returned if the rank is.

    :param folder: where the kernel shows processes
    """
    own_environment = _environment(folder / str(process_id))
    own_rank, own_run = rank_of(own_environment).rank, _run(own_environment, folder / str(process_id))
    if own_rank is None or own_run is None:
        return ()
    processes: dict[int, int] = {}
    # Processes of one job were started one after the other.
    near = sorted(process_numbers(folder), key=lambda number: abs(number - process_id))[:_MOST_PROCESSES]
    for number in sorted(near):
        place = folder / str(number)
        environment = _environment(place)
        rank = rank_of(environment).rank
        if rank is None or rank == own_rank or rank in processes:
            continue
        if _run(environment, place) == own_run and runtimes_of(place):
            processes[rank] = number
    states = {rank: _states(folder / str(number)) for rank, number in processes.items()}
    shared = Counter(states.values())
    order = sorted(processes, key=lambda rank: (shared[states[rank]], rank))
    return tuple(RankProcess(processes[rank], rank) for rank in order)


def _environment(place: Path) -> dict[str, str]:
    values: dict[str, str] = {}
    with suppress(OSError), (place / "environ").open("rb") as file:
        for variable in file.read(_MOST_ENVIRONMENT).split(b"\0"):
            name, _, value = variable.decode("utf-8", "replace").partition("=")
            values.setdefault(name, value)
    return values


def _run(environment: Mapping[str, str], place: Path) -> tuple[object, ...] | None:
    # Return what is equal in the ranks of one run of MPI, and differs in other runs. None if that is not known.
    variable = next((name for name in RANK if name in environment), None)
    if variable is None:
        return None
    names = tuple(environment.get(name) for name in (*JOB, *RUN))
    if any(environment.get(name) for name in NAMES_ITS_RUN.get(variable, ())):
        return names
    # Hydra and others give the run no name: its ranks on one host are the children of one process.
    with suppress(OSError, MalformedFile):
        return *names, parse_stat((place / "stat").read_bytes()).parent
    return None


def _states(place: Path) -> tuple[tuple[str, int], ...]:
    # Return how many threads of a process are in each state.
    counts: Counter[str] = Counter()
    with suppress(OSError, MalformedFile):
        for thread in (place / "task").iterdir():
            counts[parse_stat((thread / "stat").read_bytes()).state] += 1
    return tuple(sorted(counts.items()))
