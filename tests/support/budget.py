"""Limits on processor time, which unlike clock time does not grow on a busy machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def processor_seconds(process_id: int | None = None) -> float:
    """Return the processor time, in seconds, of this process and its ended children, or of another running process."""
    if process_id is not None:
        words = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Check that the context takes at most *seconds* of processor time."""
    started = processor_seconds()
    yield
    used = processor_seconds() - started
    assert used <= seconds, f"{used:.1f} seconds of processor time, at most {seconds} expected"
