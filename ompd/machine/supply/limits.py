"""The limits of a process on threads and on its address space, and the room that is left below them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ompd.binary.core.procfs import ThreadStat
from ompd.machine.supply.files import Roots, number, read, status
from ompd.model.supply import RoomForThreads

_CAP_SYS_ADMIN, _CAP_SYS_RESOURCE = 1 << 21, 1 << 24
_ROW = re.compile(r"^(Max [a-z ]+?) {2,}(\S+) ", re.MULTILINE)
_PAGE = 4096  # of a guard below a thread's stack
_DEFAULT_STACK = 8 << 20  # of glibc's threads if RLIMIT_STACK is unlimited, and no less is known to suffice
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def soft_limits(folder: Path) -> dict[str, int]:
    """Return the soft limits of a process that are numbers, by their names in ``limits``."""
    rows = _ROW.findall(read(folder / "limits") or "")
    limits = {name: number(value) for name, value in rows}
    return {name: value for name, value in limits.items() if value is not None}


def rooms(
    process_id: int, counts: Mapping[int, ThreadStat], variables: Mapping[str, str] | None, roots: Roots
) -> list[RoomForThreads]:
    """Return the limits of the process that a further thread may exceed.

    :param counts: all processes that can be seen
    :param variables: the process's environment, which may set the size of stacks
    """
    folder = roots.proc / str(process_id)
    limits, lines = soft_limits(folder), status(folder)
    records = []
    most = limits.get("Max processes")
    if most is not None and not _is_exempt(lines):
        used = _threads_of_user(folder, counts, roots.proc)
        records.append(
            RoomForThreads(
                name="the user's number of threads",
                setting="ulimit -u",
                most=most,
                used=used,
                threads=max(0, most - used),
            )
        )
    space, size = limits.get("Max address space"), number(lines.get("VmSize", "").removesuffix("kB"))
    if space is not None and size is not None:
        stack = stack_size(variables or {}) or limits.get("Max stack size", _DEFAULT_STACK)
        used = size << 10
        records.append(
            RoomForThreads(
                name="the process's address space",
                setting="ulimit -v",
                most=space,
                used=used,
                threads=max(0, space - used) // (stack + _PAGE),
            )
        )
    return records


def stack_size(variables: Mapping[str, str]) -> int | None:
    """Return the size of workers' stacks that the environment sets, in bytes, None if it sets none."""
    for name in ("OMP_STACKSIZE", "KMP_STACKSIZE", "GOMP_STACKSIZE"):
        words = re.fullmatch(r"\s*(\d{1,15})\s*([bkmgt]?)b?\s*", variables.get(name, "").lower())
        if words is not None:
            return int(words[1]) * _UNITS[words[2] or "k"]
    return None


def _is_exempt(lines: Mapping[str, str]) -> bool:
    # Root, and processes with these capabilities, may exceed the user's number of threads (kernel/fork.c).
    with suppress(ValueError, KeyError, IndexError):
        capabilities = int(lines["CapEff"], 16)
        return lines["Uid"].split()[0] == "0" or bool(capabilities & (_CAP_SYS_ADMIN | _CAP_SYS_RESOURCE))
    return True


def _threads_of_user(folder: Path, counts: Mapping[int, ThreadStat], proc: Path) -> int:
    user = folder.stat().st_uid if folder.exists() else None
    total = 0
    for process_id, count in counts.items():
        with suppress(OSError):  # the process has ended
            total += count.threads if (proc / str(process_id)).stat().st_uid == user else 0
    return total
