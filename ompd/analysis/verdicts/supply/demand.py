"""How much time on processors the threads of a process wanted between two looks, and how much they got."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ompd.analysis.words import counted, of_thread
from ompd.model import ThreadRecord
from ompd.model.supply import OtherProcess, Supply, ThreadSupply

# The kernel counts the time of other processes in ticks of 10 ms, and lets threads take turns of some milliseconds. In
# a shorter span a healthy thread may seem to have waited all the time.
SHORTEST = 0.25
# A thread wants a processor if it ran, or was ready to run, for half of the time. Pool threads that sleep between
# regions, and threads that wait for files, want none.
WANTS = 0.5
# A fifth of the wanted time: on a machine that is not crowded, threads lose less than a twentieth.
LOST = 0.2
_NAMED = 3
_LONGEST = 60  # characters of a variable's value


class Demand:
    """The demand of one process.

    :param rows: the rows of the process's threads at the later look
    """

    def __init__(self, supply: Supply, rows: Sequence[ThreadRecord]) -> None:
        self.supply = supply
        self.rows = {row.native_thread_id: row for row in rows if row.native_thread_id is not None}

    @cached_property
    def threads(self) -> list[ThreadSupply]:
        """The threads that want a processor. Empty if the looks are too close together.

        Idle threads of a pool that spin are left out: they lose nothing.
        """
        if self.supply.seconds < SHORTEST:
            return []
        least = WANTS * self.supply.seconds * 1e9
        return [
            thread
            for thread in self.supply.threads
            if wanted_ns(thread) >= least and thread.processors and not self._is_idle(thread)
        ]

    def _is_idle(self, thread: ThreadSupply) -> bool:
        row = self.rows.get(thread.native_thread_id)
        return row is not None and row.state == "idle"

    @cached_property
    def of_openmp(self) -> list[ThreadSupply]:
        """Those threads of :attr:`threads` that belong to an OpenMP runtime."""
        return [thread for thread in self.threads if self.is_of_openmp(thread)]

    def is_of_openmp(self, thread: ThreadSupply) -> bool:
        """Return whether a thread belongs to an OpenMP runtime."""
        row = self.rows.get(thread.native_thread_id)
        return row is not None and row.runtime is not None

    @cached_property
    def processors(self) -> frozenset[int]:
        """The processors that any of :attr:`threads` may use."""
        return frozenset().union(*(thread.processors or () for thread in self.threads))

    def share(self, nanoseconds: float) -> float:
        """Return a time as a number of processors."""
        return nanoseconds / 1e9 / self.supply.seconds

    def name(self, thread: ThreadSupply) -> str:
        """Return the name of a thread in texts."""
        row = self.rows.get(thread.native_thread_id)
        return of_thread(row) if row is not None else f"thread {thread.native_thread_id}"


def wanted_ns(thread: ThreadSupply) -> int:
    """Return how long a thread ran or was ready to run, 0 if that is unknown."""
    return (thread.ran_ns or 0) + thread.delayed_ns if thread.delayed_ns is not None else 0


def lost(threads: Iterable[ThreadSupply]) -> float:
    """Return which part of the time that threads wanted they did not get, from 0 to 1."""
    some = list(threads)
    wanted = sum(map(wanted_ns, some))
    return sum(thread.delayed_ns or 0 for thread in some) / wanted if wanted else 0.0


def percent(share: float) -> str:
    """Return a share in percent: ``52 %``."""
    return f"{share * 100:.0f} %"


def processors_in_words(cpus: Collection[int]) -> str:
    """Return processors by their numbers: ``processor 3``, ``processors 0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return f"processor{'s' * (len(cpus) != 1)} {text}"


def settings_in_words(variables: Mapping[str, str]) -> str:
    """Return variables with their values, as a shell takes them. Long values are cut."""
    cut = {name: f"{value[:_LONGEST]}…" if len(value) > _LONGEST else value for name, value in variables.items()}
    return " ".join(f"{name}={value}" for name, value in cut.items())


def processes_in_words(others: Sequence[OtherProcess]) -> str:
    """Return other processes by number and program: ``process 12 (one)``, ``3 processes (12 one, 13 one, 14 one)``."""
    if len(others) == 1:
        return f"process {others[0].process_id} ({others[0].program})"
    named = [f"{other.process_id} {other.program}" for other in others[:_NAMED]]
    more = ["…"] if len(others) > _NAMED else []
    return f"{counted(len(others), 'processe')} ({', '.join((*named, *more))})"
