"""Reads what a process gets from its machine at one look, and compares two looks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ompd.binary.core.procfs import ThreadStat, parse_stat
from ompd.debugger.targets.live.processors import parse_cpu_list
from ompd.errors import MalformedFile, Unavailable
from ompd.machine.supply import groups, limits
from ompd.machine.supply.files import Roots, read, status
from ompd.machine.supply.groups import QuotaCount
from ompd.machine.supply.others import (
    busy_processes,
    count_processes,
    count_processors,
    use_between,
)
from ompd.model.supply import ProcessorUse, Settings, Supply, ThreadSupply

_MAX_THREADS = 4096  # of the process. One costs 30 microseconds


class ThreadCount(NamedTuple):
    """Counters of a thread since its start, None if unknown: times in nanoseconds, and page faults."""

    ran_ns: int | None
    delayed_ns: int | None
    major_faults: int | None


class Reading(NamedTuple):
    """The counters at one look. ``moment`` is when it was, in seconds of a clock that only runs forward."""

    moment: float
    threads: Mapping[int, ThreadCount]
    processes: Mapping[int, ThreadStat]
    processors: Mapping[int, ProcessorUse]
    quotas: list[QuotaCount]
    unknowns: tuple[str, ...]


def take_reading(process_id: int, roots: Roots = Roots()) -> Reading:  # noqa: B008
    """Return the counters of a process and of its machine now."""
    unknowns = []
    begin = time.monotonic()
    threads = {thread: _count(folder) for thread, folder in _threads(process_id, roots)}
    moment = (begin + time.monotonic()) / 2  # on a busy machine reading takes long, and threads run meanwhile
    if any(count.delayed_ns is None for count in threads.values()):
        unknowns.append("how long threads were ready to run and did not: the kernel does not say (schedstat)")
    processes, is_whole = count_processes(roots.proc)
    if not is_whole:
        unknowns.append("what some processes used: only a part of them was examined")
    quotas: list[QuotaCount] = []
    try:
        quotas = groups.quotas(process_id, roots)
    except Unavailable as error:
        unknowns.append(f"the quota of processor time: {error}")
    return Reading(moment, threads, processes, count_processors(roots.proc), quotas, tuple(unknowns))


def _threads(process_id: int, roots: Roots) -> list[tuple[int, Path]]:
    try:
        folders = [entry for entry in (roots.proc / str(process_id) / "task").iterdir() if entry.name.isdecimal()]
    except OSError:  # the process has ended
        return []
    return sorted((int(folder.name), folder) for folder in folders)[:_MAX_THREADS]


def _count(folder: Path) -> ThreadCount:
    times = (read(folder / "schedstat") or "").split()
    is_known = len(times) == 3 and all(map(str.isdecimal, times))
    faults = None
    with suppress(OSError, MalformedFile):
        faults = parse_stat((folder / "stat").read_bytes()).major_faults
    return ThreadCount(int(times[0]) if is_known else None, int(times[1]) if is_known else None, faults)


def supply_between(
    process_id: int,
    earlier: Reading,
    later: Reading,
    settings: Settings = Settings(),  # noqa: B008
    roots: Roots = Roots(),  # noqa: B008
) -> Supply:
    """Return what a process got between two looks. The processors that threads may use are read now.

    :param settings: the settings of the process's runtimes
    """
    seconds = later.moment - earlier.moment
    unknowns = [*earlier.unknowns, *later.unknowns]
    try:
        cpuset = groups.processors(process_id, roots)
    except Unavailable as error:
        cpuset = None
        unknowns.append(f"the processors of the control group: {error}")
    parent = later.processes.get(own.parent) if (own := later.processes.get(process_id)) is not None else None
    try:
        rooms = limits.rooms(process_id, later.processes, settings.variables, roots)
        rooms += groups.rooms(process_id, roots)
    except (Unavailable, OSError) as error:
        rooms = []
        unknowns.append(f"limits on threads: {error}")
    return Supply(
        process_id=process_id,
        seconds=seconds,
        threads=tuple(
            _thread_between(folder, thread, earlier.threads.get(thread), later.threads.get(thread))
            for thread, folder in _threads(process_id, roots)
        ),
        online=frozenset(later.processors),
        use=use_between(earlier.processors, later.processors),
        others=busy_processes(earlier.processes, later.processes, process_id, roots.proc),
        quotas=groups.between(earlier.quotas, later.quotas),
        cpuset=cpuset[0] if cpuset is not None else None,
        cpuset_file=cpuset[1] if cpuset is not None else None,
        parent=parent.name if parent is not None else None,
        parent_processors=_allowed(roots.proc / str(own.parent)) if own is not None else None,
        rooms=tuple(rooms),
        pressure=_pressure(roots.proc),
        settings=settings,
        unknowns=tuple(dict.fromkeys(unknowns)),
    )


def _thread_between(folder: Path, thread: int, old: ThreadCount | None, new: ThreadCount | None) -> ThreadSupply:
    def more(before: int | None, after: int | None) -> int | None:
        return after - before if before is not None and after is not None else None

    if old is None or new is None:
        return ThreadSupply(native_thread_id=thread, processors=_allowed(folder))
    return ThreadSupply(
        native_thread_id=thread,
        processors=_allowed(folder),
        ran_ns=more(old.ran_ns, new.ran_ns),
        delayed_ns=more(old.delayed_ns, new.delayed_ns),
        major_faults=more(old.major_faults, new.major_faults),
    )


def _allowed(folder: Path) -> frozenset[int] | None:
    cpus = parse_cpu_list(status(folder).get("Cpus_allowed_list", ""))
    return frozenset(cpus) if cpus else None


def _pressure(proc: Path) -> float | None:
    words = (read(proc / "pressure" / "memory") or "").split()
    share = next((word.removeprefix("avg10=") for word in words if word.startswith("avg10=")), "")
    try:
        return float(share) / 100
    except ValueError:
        return None
