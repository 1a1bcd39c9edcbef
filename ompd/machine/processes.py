"""The OpenMP processes on this machine, as /proc shows them. No process is stopped."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ompd.binary.core.procfs import parse_stat
from ompd.errors import MalformedFile
from ompd.records import record

PROC = Path("/proc")
"""Where the kernel shows processes."""
# File names of runtimes, as distributions, wheels and vendors use them. A line of the mappings ends with the file.
_RUNTIME = re.compile(rb"/(lib(?:gomp|omp|iomp5)(?:-(?!plugin)[^/\s]*)?\.so[.0-9]*)(?: \(deleted\))?$", re.MULTILINE)
_SECONDS = 0.2
_MAX_DESCENDANTS = 256


@record
class OpenMpProcess:
    """A process that has loaded an OpenMP runtime.

    ``program`` is the name of its program's file. ``runtimes`` are the names of the runtimes' files. ``threads`` is the
    number of its threads, ``asleep`` the number of threads that slept at that moment. ``processors`` is the processor
    time that the process used, as a number of processors.
    """

    process_id: int
    program: str
    runtimes: tuple[str, ...]
    threads: int
    asleep: int
    processors: float


def find_processes(folder: Path = PROC, seconds: float = _SECONDS) -> tuple[OpenMpProcess, ...]:
    """Return the OpenMP processes that this user may read, by number. Programs with a statically linked runtime are not
    found.

    :param folder: where the kernel shows processes
    :param seconds: how long their use of processors is measured
    """
    processes = [
        (number, runtimes) for number in process_numbers(folder) if (runtimes := runtimes_of(folder / str(number)))
    ]
    begin, before = time.monotonic(), {number: _ticks(folder / str(number)) for number, _ in processes}
    if processes:
        time.sleep(seconds)
    rows = []
    for number, runtimes in processes:
        with suppress(OSError, MalformedFile):  # the process has ended
            place = folder / str(number)
            used, elapsed = _ticks(place), time.monotonic() - begin
            states = [parse_stat((thread / "stat").read_bytes()).state for thread in (place / "task").iterdir()]
            earlier = before[number]
            if used is None or earlier is None or not states:
                continue
            processors = (used - earlier) / os.sysconf("SC_CLK_TCK") / elapsed
            program = (place / "exe").readlink().name.removesuffix(" (deleted)")
            rows.append(OpenMpProcess(number, program, runtimes, len(states), states.count("S"), processors))
    return tuple(rows)


def openmp_descendants(process_id: int, folder: Path = PROC) -> tuple[int, ...]:
    """Return the children of a process, and theirs, that have loaded an OpenMP runtime and that this user may read.

    :param folder: where the kernel shows processes
    """
    numbers = [process_id]
    for number in numbers:
        with suppress(OSError):  # the process has ended
            for thread in (folder / str(number) / "task").iterdir():
                numbers += [int(child) for child in (thread / "children").read_text().split()]
        if len(numbers) > _MAX_DESCENDANTS:
            break
    return tuple(number for number in numbers[1:_MAX_DESCENDANTS] if runtimes_of(folder / str(number)))


def process_numbers(folder: Path = PROC) -> Iterator[int]:
    """Yield the numbers of all processes except this one, in order."""
    own_number = os.getpid()
    yield from sorted(
        number for entry in folder.iterdir() if entry.name.isdecimal() and (number := int(entry.name)) != own_number
    )


def runtimes_of(place: Path) -> tuple[str, ...]:
    """Return the names of the files of OpenMP runtimes that a process has loaded, none if it may not be read.

    :param place: the process's folder in /proc
    """
    try:
        maps = (place / "maps").read_bytes()
    except OSError:
        return ()  # the process belongs to another user, or has ended
    return tuple(sorted({os.fsdecode(name) for name in _RUNTIME.findall(maps)}))


def _ticks(place: Path) -> int | None:
    try:
        return parse_stat((place / "stat").read_bytes()).ticks
    except (OSError, MalformedFile):
        return None
