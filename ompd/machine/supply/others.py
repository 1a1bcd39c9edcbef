"""The other processes of the machine, and the use of its processors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ompd.binary.core.procfs import ThreadStat, parse_stat
from ompd.debugger.targets.live.processors import parse_cpu_list
from ompd.errors import MalformedFile
from ompd.machine.processes import runtimes_of
from ompd.machine.supply.files import NANOSECONDS, read, status
from ompd.model.supply import OtherProcess, ProcessorUse

# A process costs 20 microseconds. Machines with more processes than this are compute servers with idle daemons.
_MAX_PROCESSES = 4096
# Only those that used most have their threads and mappings read, which costs up to some milliseconds each.
_MAX_BUSY = 32
_MAX_THREADS = 512
_TICK = os.sysconf("SC_CLK_TCK")


def count_processes(proc: Path) -> tuple[dict[int, ThreadStat], bool]:
    """Return the processes that can be seen, by number, and whether these are all."""
    try:
        numbers = [int(entry.name) for entry in os.scandir(proc) if entry.name.isdecimal()]
    except OSError:
        return {}, False
    counts = {}
    for process_id in numbers[:_MAX_PROCESSES]:
        with suppress(OSError, MalformedFile):  # the process has ended
            counts[process_id] = parse_stat((proc / str(process_id) / "stat").read_bytes())
    return counts, len(numbers) <= _MAX_PROCESSES


def busy_processes(
    earlier: Mapping[int, ThreadStat],
    later: Mapping[int, ThreadStat],
    process_id: int,
    proc: Path,
) -> tuple[OtherProcess, ...]:
    """Return the processes that used processors between two looks, those that used most first.

    :param process_id: the process that is examined. It is left out, as is this one
    """
    own = later.get(process_id)
    used: dict[int, int] = {}
    latest = max((stat.start_time for stat in earlier.values()), default=0)
    for number, stat in later.items():
        old = earlier.get(number)
        if old is None and stat.start_time < latest:
            continue  # it is older than the earlier look, which did not read it
        ticks = stat.ticks - (old.ticks if old is not None and old.start_time == stat.start_time else 0)
        if number not in (process_id, os.getpid()) and ticks > 0:
            used[number] = ticks
    others = []
    for number in sorted(used, key=lambda number: -used[number])[:_MAX_BUSY]:
        ready = _ready(proc / str(number))
        others.append(
            OtherProcess(
                process_id=number,
                program=later[number].name,
                used_ns=used[number] * NANOSECONDS // _TICK,
                ready=ready,
                is_related=own is not None and _are_related(process_id, own, number, later[number]),
                runtimes=runtimes_of(proc / str(number)) if ready else (),
            )
        )
    return tuple(others)


def _are_related(one_id: int, one: ThreadStat, other_id: int, other: ThreadStat) -> bool:
    # Process 1 adopts orphans, which does not relate them.
    return other.parent == one_id or one.parent == other_id or (one.parent == other.parent and one.parent > 1)


def _ready(folder: Path) -> tuple[frozenset[int], ...]:
    # The processors that each thread may use which runs or is ready to run.
    masks = []
    with suppress(OSError):  # the process has ended
        for entry in sorted(os.scandir(folder / "task"), key=lambda entry: entry.name)[:_MAX_THREADS]:
            lines = status(Path(entry.path))
            if lines.get("State", "").startswith("R"):
                masks.append(frozenset(parse_cpu_list(lines.get("Cpus_allowed_list", ""))))
    return tuple(masks)


def count_processors(proc: Path) -> dict[int, ProcessorUse]:
    """Return how each processor that is online was used so far. Empty if that is unknown."""
    uses = {}
    for line in (read(proc / "stat") or "").split("\n"):
        name, *words = line.split()[:9] or [""]
        if name.startswith("cpu") and name[3:].isdecimal() and len(words) == 8 and all(map(str.isdecimal, words)):
            ticks = [int(word) * NANOSECONDS // _TICK for word in words]
            # user, nice, system, idle, iowait, irq, softirq, steal
            uses[int(name[3:])] = ProcessorUse(idle_ns=ticks[3] + ticks[4], stolen_ns=ticks[7], total_ns=sum(ticks))
    return uses


def use_between(earlier: Mapping[int, ProcessorUse], later: Mapping[int, ProcessorUse]) -> dict[int, ProcessorUse]:
    """Return how the processors were used between two looks."""
    return {
        cpu: ProcessorUse(
            idle_ns=use.idle_ns - earlier[cpu].idle_ns,
            stolen_ns=use.stolen_ns - earlier[cpu].stolen_ns,
            total_ns=use.total_ns - earlier[cpu].total_ns,
        )
        for cpu, use in later.items()
        if cpu in earlier
    }
