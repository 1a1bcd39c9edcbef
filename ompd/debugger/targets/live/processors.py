"""The processors that the threads of a live process may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ompd.binary.core.procfs import parse_status
from ompd.errors import Unavailable

_PROC = Path("/proc")
_MAX_CPU = 1 << 16
_MAX_THREADS = 1 << 12


def allowed_processors(process_id: int, proc: Path = _PROC) -> frozenset[int]:
    """Return the processors that the threads of the process with that number may use (``Cpus_allowed_list``).

    :raises Unavailable: if they are unknown
    """
    folder = proc / str(process_id)
    cpus: set[int] = set()
    for status in _statuses(folder):
        cpus |= parse_cpu_list(status.get("Cpus_allowed_list", ""))
    if not cpus:
        raise Unavailable(f"which processors process {process_id} may use: {folder}/status does not say")
    return frozenset(cpus)


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
