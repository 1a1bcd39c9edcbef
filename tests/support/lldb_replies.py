"""LLDB's replies to commands."""

from __future__ import annotations

import re
from pathlib import Path

from ompd.commands.table import COMMANDS
from tests.support.lldb import LOAD, batch, build_regions, lldb, target_create

DEBUG = "settings set target.env-vars OMP_DEBUG=enabled"
SOURCE = Path(__file__).parents[1] / "lldb" / "regions.c"
# A variable in every program of the fixtures.
NAMED = "truth_held"
WORDS = {c.name: f"{c.name} {NAMED}" if c.argument is not None else c.name for c in COMMANDS}
LOOKING = (*(f"ompd {words}" for words in WORDS.values()), "ompd status")


class Replies:
    """LLDB's output for each command, in order."""

    def __init__(self, printed: str) -> None:
        pieces = re.split(r"^\(lldb\) (.*)\n", printed, flags=re.MULTILINE)
        self.pairs = list(zip(pieces[1::2], pieces[2::2], strict=True))

    def all(self, *commands: str) -> list[str]:
        """Return the replies to every use of any of *commands*."""
        return [text for command, text in self.pairs if command in commands]

    def __getitem__(self, command: str) -> str:
        """Return the reply to a command that was used once."""
        (text,) = self.all(command)
        return text


def replies(version: int, *commands: str, cwd: Path = Path("/tmp")) -> Replies:
    """Return LLDB's replies to *commands* after loading ours."""
    return Replies(batch(lldb(version), [LOAD, *commands], cwd=cwd))


def line_with(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def stop_at(text: str) -> str:
    return f"breakpoint set -f regions.c -l {line_with(text)}"


INNER = stop_at("sum += x +")


def create_live(pie: bool = True) -> str:
    return target_create(build_regions(pie=pie) / "regions")
