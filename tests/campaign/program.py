"""The campaign's record of a program: how to run it, and how to check its result."""

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
    """A program that is ready to run.

    *compiler* and *level* built it. *words* is its whole command line, *environment* is added to a clean environment.
    *check* takes the exit status and the output of a run that ended by itself, and returns the fault in its result,
    None if it is right. *file* is the executable for a core of it.
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
        """A unique title that is fit for a file name."""
        return f"{self.name}-{self.compiler}-{self.level}.{self.runtime}"


def has_runtime(process_id: int) -> bool:
    """Return whether a process has loaded an OpenMP runtime. Programs that import libraries need seconds to do so."""
    try:
        return re.search(r"/lib[gi]?omp5?\b[^/\n]*\.so", Path(f"/proc/{process_id}/maps").read_text()) is not None
    except OSError:
        return False


def ends_well(pattern: str = "", least: int = 1) -> Check:
    """Return a check that a program ends with 0 and that its output matches *pattern* at least *least* times."""

    def check(status: int, output: str) -> str | None:
        if status:
            return f"it ended with {status}"
        times = len(re.findall(pattern, output)) if pattern else least
        return None if times >= least else f"it printed {pattern} {times} times"

    return check
