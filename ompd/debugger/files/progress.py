"""Progress messages while files are unpacked, fetched or read."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with each new line to show."""


def format_size(size: int) -> str:
    """Return a number of bytes with a unit, as in ``1.5 GB``. The units are powers of 1024."""
    for power, unit in ((40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
