"""Many cores for ``triage``, made of few: of programs that say themselves what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.why import GNU, WHYS, Hung, hung

PROGRAMS = (
    *("lock_cycle-two", "lock_cycle-section", "self_lock-lock", "self_lock-mutex", "lock_abandoned-returned"),
    *("barrier_absent-exited", "barrier_mismatch-branch", "laggard-barrier", "external_wait-semaphore"),
    *("orphaned_worksharing-single", "lost_wakeup-lock", "no_stall-parallel"),
)
"""Twelve programs of ``fixtures/programs/why``, none of which hangs like another one."""


def cores() -> list[Hung]:
    """Return a core of each of the programs."""
    return [hung(WHYS[name], "gcc", GNU) for name in PROGRAMS]


def spread(found: Sequence[Hung], counts: Sequence[int], folder: Path) -> dict[str, set[str]]:
    """Put so many links to each core into the folder, and return the names of each program's."""
    names: dict[str, set[str]] = {}
    numbers = _numbers()
    for one, count in zip(found, counts, strict=True):
        assert one.core is not None
        for _ in range(count):
            path = folder / f"core.{next(numbers)}"
            os.link(one.core, path)
            names.setdefault(one.why.name, set()).add(str(path))
    return names


def _numbers() -> Iterator[int]:
    # Those of one program are not beside each other: every number below 10,007 once, in another order.
    number = 0
    while True:
        number = (number + 7919) % 10_007
        yield number


def damaged(core: Path, folder: Path, count: int) -> dict[str, str]:
    """Put damaged copies of a core, and files that are none, into the folder; return how the reason of each begins."""
    raw = core.read_bytes()
    found: dict[str, str] = {}
    for number in range(count):
        path = folder / f"damaged.{number}"
        path.write_bytes(raw[: 20 + number * 40])  # what is left of the headers says nothing
        found[str(path)] = str(path)
    return found
