"""The control groups of a process, of versions 1 and 2: quotas, processors, and the number of threads."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ompd.debugger.targets.live.processors import parse_cpu_list
from ompd.errors import Unavailable
from ompd.machine.supply.files import Roots, number, read, read_limit, table
from ompd.model.supply import Quota, RoomForThreads

_MAX_DEPTH = 64
_FOLDERS_2 = ("unified", "")  # where version 2 is mounted: beside version 1, or alone


class QuotaCount(NamedTuple):
    """The quota of one control group, and its counters so far, None if unknown."""

    file: str
    processors: float
    periods: int | None
    throttled_periods: int | None
    throttled_ns: int | None


def quotas(process_id: int, roots: Roots) -> list[QuotaCount]:
    """Return the quotas of the process's control group and of those around it, the innermost first.

    :raises Unavailable: if the groups of the process are unknown, or a limit cannot be read
    """
    counts = []
    for folder, version in _folders(process_id, "cpu", roots):
        count = _quota_1(folder) if version == 1 else _quota_2(folder)
        if count is not None:
            counts.append(count)
    return counts


def between(earlier: list[QuotaCount], later: list[QuotaCount]) -> tuple[Quota, ...]:
    """Return the quotas at the later look, with what was counted since the earlier one."""
    before = {count.file: count for count in earlier}
    return tuple(
        Quota(
            file=count.file,
            processors=count.processors,
            periods=_more(old.periods, count.periods),
            throttled_periods=_more(old.throttled_periods, count.throttled_periods),
            throttled_ns=_more(old.throttled_ns, count.throttled_ns),
        )
        for count in later
        if (old := before.get(count.file)) is not None
    )


def _more(before: int | None, after: int | None) -> int | None:
    return after - before if before is not None and after is not None and after >= before else None


def _quota_1(folder: Path) -> QuotaCount | None:
    quota, period = number(read_limit(folder / "cpu.cfs_quota_us")), number(read_limit(folder / "cpu.cfs_period_us"))
    if not quota or not period:
        return None  # -1 is no quota
    counts = table(read(folder / "cpu.stat"))
    return QuotaCount(
        str(folder / "cpu.cfs_quota_us"),
        quota / period,
        counts.get("nr_periods"),
        counts.get("nr_throttled"),
        counts.get("throttled_time"),
    )


def _quota_2(folder: Path) -> QuotaCount | None:
    words = (read_limit(folder / "cpu.max") or "").split()
    quota, period = map(number, words) if len(words) == 2 else (None, None)
    if not quota or not period:
        return None
    counts = table(read(folder / "cpu.stat"))
    throttled_us = counts.get("throttled_usec")
    return QuotaCount(
        str(folder / "cpu.max"),
        quota / period,
        counts.get("nr_periods"),
        counts.get("nr_throttled"),
        throttled_us * 1000 if throttled_us is not None else None,
    )


def processors(process_id: int, roots: Roots) -> tuple[frozenset[int], str] | None:
    """Return the processors of the process's control group, and the file that has them. None without such a file.

    :raises Unavailable: if the groups of the process are unknown
    """
    for folder, version in _folders(process_id, "cpuset", roots):
        for name in ("cpuset.cpus.effective",) if version == 2 else ("cpuset.effective_cpus", "cpuset.cpus"):
            cpus = parse_cpu_list(read(folder / name) or "")
            if cpus:
                return frozenset(cpus), str(folder / name)
    return None


def rooms(process_id: int, roots: Roots) -> list[RoomForThreads]:
    """Return the limits of the process's control groups on the number of threads (``pids.max``).

    :raises Unavailable: if the groups of the process are unknown
    """
    records = []
    for folder, _ in _folders(process_id, "pids", roots):
        most, used = number(read(folder / "pids.max")), number(read(folder / "pids.current"))
        if most is not None and used is not None:
            file = str(folder / "pids.max")
            name = "the control group's number of threads"
            records.append(RoomForThreads(name=name, setting=file, most=most, used=used, threads=max(0, most - used)))
    return records


def _folders(process_id: int, controller: str, roots: Roots) -> list[tuple[Path, int]]:
    # Return the folders of the process's groups with this controller, the innermost first, and their version. A
    # container may show the group of the process as the root of its mount: then that is the only folder.
    text = read(roots.proc / str(process_id) / "cgroup")
    if text is None:
        raise Unavailable(f"the control groups of process {process_id} cannot be read")
    folders: list[tuple[Path, int]] = []
    for line in text.split("\n"):
        hierarchy, _, rest = line.partition(":")
        controllers, colon, name = rest.partition(":")
        if not colon or not name.startswith("/"):
            continue
        if controller in controllers.split(","):
            mounts, version = (controllers, controller), 1
        elif hierarchy == "0" and not controllers:
            mounts, version = _FOLDERS_2, 2
        else:
            continue
        if ".." in PurePosixPath(name).parts:
            raise Unavailable(f"the control group {name} of process {process_id} is not visible from here")
        mount = next((folder for each in mounts if (folder := roots.groups / each).is_dir()), None)
        if mount is not None:
            folders += [(folder, version) for folder in _upwards(mount, PurePosixPath(name))]
    return folders


def _upwards(mount: Path, name: PurePosixPath) -> list[Path]:
    if not (mount / str(name).lstrip("/")).is_dir():
        return [mount]
    return [mount / str(part).lstrip("/") for part in (name, *name.parents)][:_MAX_DEPTH]
