"""What the campaign knows of a program: how it is run, and what its result has to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

KINDS = ("libgomp", "libomp-19", "intel")
"""The runtimes of the campaign, as tests/support/runtimes.py names them."""
THREADS = 4

Check = Callable[[int, str], str | None]


@dataclass(frozen=True)
class Built:
    """A program that is there to be run.

    *compiler* and *level* say how it was built, *words* are its whole command line, *environment* is added to a clean
    one. *check* takes the exit status and the output of a run that ended by itself, and returns what is wrong with its
    result, None if it is right. *file* is the executable that a core of it belongs to.
    """

    name: str
    runtime: str
    compiler: str
    level: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    check: Check
    file: Path

    @property
    def title(self) -> str:
        """What tells it from all other programs, fit for a file's name."""
        return f"{self.name}-{self.compiler}-{self.level}.{self.runtime}"


def has_runtime(process_id: int) -> bool:
    """Tell whether a process has loaded an OpenMP runtime; what imports libraries does so after some seconds."""
    try:
        return re.search(r"/lib[gi]?omp5?\b[^/\n]*\.so", Path(f"/proc/{process_id}/maps").read_text()) is not None
    except OSError:
        return False


def ends_well(pattern: str = "", least: int = 1) -> Check:
    """Return a check of programs that end with 0 and print what fits *pattern* at least so many times."""

    def check(status: int, output: str) -> str | None:
        if status:
            return f"it ended with {status}"
        times = len(re.findall(pattern, output)) if pattern else least
        return None if times >= least else f"it printed {pattern} {times} times"

    return check
