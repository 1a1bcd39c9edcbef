"""Reads small files of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ompd.binary.core.procfs import parse_status
from ompd.errors import Unavailable

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
NANOSECONDS = 1_000_000_000


class Roots(NamedTuple):
    """The folders where the kernel shows processes, and control groups."""

    proc: Path = PROC
    groups: Path = CGROUPS


def read(path: Path) -> str | None:
    """Return the text of a file, None if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def read_limit(path: Path) -> str | None:
    """Return the text of a file with a limit, None if there is no such file, and so no limit.

    :raises Unavailable: if the file cannot be read
    """
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error


def number(text: str | None) -> int | None:
    """Return the number that a file consists of, None for any other text."""
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 24 else None


def table(text: str | None) -> dict[str, int]:
    """Return the lines ``name number`` of a file, without other lines."""
    pairs = (line.split() for line in (text or "").split("\n"))
    numbers = {pair[0]: number(pair[1]) for pair in pairs if len(pair) == 2}
    return {name: value for name, value in numbers.items() if value is not None}


def status(folder: Path) -> dict[str, str]:
    """Return the lines of ``status`` of a process or thread, empty if it cannot be read."""
    try:
        return parse_status((folder / "status").read_bytes())
    except OSError:
        return {}
