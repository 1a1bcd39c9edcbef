"""What ``ompd`` tells of damaged cores, beside gdb: the table of docs/damaged.md.

``python -m bench.damaged`` prints it, ``--write`` puts it into the page too.
The cores are the kernel's and gdb's of one and the same process, the program ``deadlock`` of the fixtures.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench import report
from bench.commands import gdb, ompd
from tests.support import Missing, NotReady, Stopped, clean_environment, stopped_twice
from tests.support.damage import DAMAGES, Told, ask_all

PROGRAM = "deadlock"
PAGE = Path(__file__).parents[1] / "docs" / "damaged.md"
_ROUNDS = 3
_FRAME = re.compile(r"^#\d+ ", re.MULTILINE)
_HEADER = (
    *("core", "damage", "exit", "threads", "places", "facts", "wrong", "seconds"),
    *("gdb: exit", "threads", "frames", "seconds"),
)


def _timed(words: tuple[str, ...]) -> tuple[subprocess.CompletedProcess[str], float]:
    seconds = []
    for _ in range(_ROUNDS):
        started = time.monotonic()
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=clean_environment(),
            check=False,
        )
        seconds.append(time.monotonic() - started)
    return done, median(seconds)


def _row(original: Stopped, intact: Told, damage: str, core: Path) -> list[str]:
    # gdb is given the program, and so is ompd.
    told = ask_all(core, exe=original.executable)
    compared = told.compared(intact).values()
    rows = told.answers["threads"]["threads"] if "threads" in told.answers else []
    ours, seconds = _timed(ompd(core, "threads", "--json", "--exe", str(original.executable)).words)
    if ours.returncode != told.exit_code("threads"):
        raise AssertionError(f"{core}: exit status {ours.returncode}, in-process {told.exit_code('threads')}")
    damaged = Stopped(original.executable, core, original.truth, PROGRAM, "gcc", "debug", original.kind)
    peer, peer_seconds = _timed(gdb(damaged, "thread apply all bt").words)
    threads = len(re.findall(r"^Thread \d+ \(", peer.stdout, re.MULTILINE))
    return [
        *(original.kind, damage, str(ours.returncode), f"{len(rows)} of {len(intact.answers['threads']['threads'])}"),
        str(sum(bool(row["where"] or row["innermost"]) for row in rows)),
        f"{sum(c.told for c in compared)} of {sum(c.of for c in compared)}",
        str(sum(len(c.wrong) for c in compared)),
        f"{seconds:.2f}",
        *(str(peer.returncode), str(threads), str(len(_FRAME.findall(peer.stdout))), f"{peer_seconds:.2f}"),
    ]


def _rows(folder: Path) -> Iterator[list[str]]:
    by_gdb, by_kernel = stopped_twice(PROGRAM)
    for original in (by_kernel, by_gdb):
        intact = ask_all(original.core, exe=original.executable)
        damages: dict[str, Callable[[Path, Path], Path]] = {"none": lambda core, _: core, **DAMAGES}
        for name, damage in damages.items():
            to = folder / "core"
            yield _row(original, intact, name, damage(original.core, to))
            to.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with ``--write`` put into the page; returns the exit status: 1 if a fact was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.damaged", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/damaged.md too")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = list(_rows(Path(folder)))
    except (Missing, NotReady) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    text = "\n".join([report.machine(_ROUNDS), "", *report.table(_HEADER, rows)])
    print(text)
    if options.write:
        report.write(text, PAGE)
    return int(any(row[_HEADER.index("wrong")] != "0" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
