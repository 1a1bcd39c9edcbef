"""The processors that a live process may use: its threads' affinity masks, and the quota of its control group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ompd.binary.core.procfs import parse_status
from ompd.errors import Unavailable

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_MAX_CPU = 1 << 16
_MAX_DEPTH = 64
_MAX_THREADS = 1 << 12


class Processors(NamedTuple):
    """The processors of one process.

    ``cpus`` is the union of its threads' affinity masks (``Cpus_allowed_list``). ``quota`` is the processor time of its
    control group, in processors (``cpu.max``), None if there is no limit; ``quota_file`` is the file with that limit.
    ``quota_fault`` is why the quota is unknown, None if it is known.
    """

    cpus: frozenset[int]
    quota: float | None = None
    quota_file: str | None = None
    quota_fault: str | None = None

    @property
    def usable(self) -> float:
        """The most processor time that the process can get, in processors."""
        return float(len(self.cpus)) if self.quota is None else min(float(len(self.cpus)), self.quota)


def usable_processors(process_id: int, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Processors:
    """Return the processors of the process with that number.

    :raises Unavailable: if they are unknown
    """
    folder = proc / str(process_id)
    cpus: set[int] = set()
    for status in _statuses(folder):
        cpus |= parse_cpu_list(status.get("Cpus_allowed_list", ""))
    if not cpus:
        raise Unavailable(f"which processors process {process_id} may use: {folder}/status does not say")
    try:
        quota, file = _quota(folder, cgroups)
    except OSError as error:
        return Processors(frozenset(cpus), quota_fault=f"its control group cannot be read: {error.strerror}")
    except Unavailable as error:
        return Processors(frozenset(cpus), quota_fault=str(error))
    return Processors(frozenset(cpus), quota, file)


def _statuses(folder: Path) -> Iterator[dict[str, str]]:
    # Yield the status of each thread, because each thread may be bound to other processors.
    try:
        threads = sorted((folder / "task").iterdir())[:_MAX_THREADS]
    except OSError:
        threads = []
    for path in threads or [folder]:
        try:
            yield parse_status((path / "status").read_bytes())
        except OSError:
            continue


def parse_cpu_list(text: str) -> set[int]:
    """Return the processors in the kernel's list format, ``0-3,8``; empty if *text* is malformed."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (not last or last.isdecimal())):
            return set()
        low, high = int(first), int(last or first)
        if not low <= high < _MAX_CPU:
            return set()
        cpus.update(range(low, high + 1))
    return cpus


def _quota(folder: Path, cgroups: Path) -> tuple[float | None, str | None]:
    # Return the least quota, in processors, of the process's control groups of version 2, and the file that has it.
    # Each group on the path to the root may have a limit. (None, None) without one.
    lines = (folder / "cgroup").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    name = next((line[3:] for line in lines if line.startswith("0::/")), None)
    if name is None or ".." in PurePosixPath(name).parts:
        raise Unavailable("its control group is not one of version 2 that is visible from here")
    least: tuple[float, str] | None = None
    path = PurePosixPath(name)
    for _ in range(_MAX_DEPTH):
        file = cgroups / str(path).lstrip("/") / "cpu.max"
        try:
            words = file.read_text().split()
        except FileNotFoundError:
            words = []  # neither the root group has such a file, nor a group whose controller is off
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
            quota = int(words[0]) / int(words[1])
            least = (quota, str(file)) if least is None or quota < least[0] else least
        if path == path.parent:
            break
        path = path.parent
    return least if least is not None else (None, None)
