"""What OMPT costs on the stub runtime: the table of docs/dev/ompt-events.md, also part of ``make bench``.

``python -m bench.tools`` prints it, ``--write`` puts it into the page too. It counts instructions, by valgrind's
callgrind: they are the same in each run and on each machine with the same compiler and C library.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import report
from tests.stub.costs import MOST, costs
from tests.support import Missing, require
from tests.support.build import compiler

PAGE = Path(__file__).parents[1] / "docs" / "dev" / "ompt-events.md"
_HEADER = ("the stub", "instructions of an empty region", "without OMPT = 1", "demanded")


@dataclass(frozen=True)
class Costs:
    """Instructions of a region whose code is empty, on three builds or runs of the stub."""

    without: float
    unused: float
    empty: float

    def rows(self) -> list[list[str]]:
        """Return the lines of the table."""
        verdict = f"≤ {MOST}: {'MISSED' if self.missed() else 'kept'}"
        named = (
            ("built without OMPT (`make WITHOUT_OMPT=1`)", self.without, ""),
            ("with OMPT, no tool", self.unused, verdict),
            ("with a tool that registers no callback", self.empty, ""),
        )
        return [[what, f"{count:,.0f}", f"{count / self.without:.3f}", said] for what, count, said in named]

    def missed(self) -> list[str]:
        """Return a sentence if OMPT costs more than it may where no tool uses it."""
        if self.unused <= MOST * self.without:
            return []
        return [f"a region takes {self.unused / self.without:.3f} of what it takes without OMPT, {MOST} is demanded"]


def measure() -> Costs:
    """Return the three figures.

    :raises Missing: if valgrind or the compiler is not there
    """
    return Costs(*costs())


def table(found: Costs) -> list[str]:
    """Return the lines of the section."""
    return ["### What OMPT costs on the stub runtime", "", *report.table(_HEADER, found.rows())]


def _counted_by() -> str:
    version = subprocess.run([require("valgrind"), "--version"], capture_output=True, text=True, check=True).stdout
    gcc = re.search(r"\d+\.\d+\.\d+", compiler("gcc").version)
    return f"Counted by callgrind of {version.strip()}; gcc {gcc[0] if gcc else '?'}."


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with ``--write`` put into the page; returns the exit status: 1 if the demand is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.tools", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/dev/ompt-events.md too")
    options = parser.parse_args(arguments)
    try:
        found = measure()
        text = "\n".join([_counted_by(), "", *report.table(_HEADER, found.rows())])
    except Missing as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(text)
    if options.write:
        report.write(text, PAGE)
    for sentence in found.missed():
        print(f"bench: missed: {sentence}", file=sys.stderr)
    return int(bool(found.missed()))


if __name__ == "__main__":
    sys.exit(main())
