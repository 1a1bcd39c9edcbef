"""What is said to a person who waits: unpacking, fetching, reading takes its time."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a line to show, as often as there is something new."""


def format_size(size: int) -> str:
    """Return a number of bytes as people write it: ``1.5 GB``, the units of which are powers of 1024."""
    for power, unit in ((40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
