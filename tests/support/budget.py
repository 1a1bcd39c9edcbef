"""What may be used of the machine: processor time, which does not grow while others keep it busy, as a clock's does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def processor_seconds() -> float:
    """Return what this process, and those of its children that have ended, have used of the processors, in seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Make sure that what is done takes at most so much of the processors' time."""
    started = processor_seconds()
    yield
    used = processor_seconds() - started
    assert used <= seconds, f"{used:.1f} seconds of processor time, at most {seconds} expected"
