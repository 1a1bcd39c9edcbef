"""Figures as Markdown, which also reads well in a terminal, and into the page that keeps them."""

from __future__ import annotations

import datetime
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure import CHECKOUT, Figures, NotMeasured
from bench.targets import (
    FEW,
    GRAPH_SECONDS,
    GRAPH_TASKS,
    GRAPH_THREADS,
    MANY,
    MOST,
    SOME,
    Conclusion,
    Group,
    Growth,
    Stops,
)
from tests.support import clean_environment, require

PAGE = CHECKOUT / "docs" / "performance.md"
_BEGIN, _END = "<!-- bench: begin -->", "<!-- bench: end -->"


def machine(rounds: int) -> str:
    """Return a line on when and on what was measured. It does not name the machine."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    kernel = re.match(r"[\d.]*\d", platform.release())
    gdb = subprocess.run(
        [require("gdb"), "-nx", "--version"], capture_output=True, text=True, env=clean_environment(), check=True
    ).stdout.splitlines()[0]
    parts = (
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        cpu[1] if cpu else platform.machine(),
        f"Linux {kernel[0] if kernel else ''}",
        gdb,
        f"Python {platform.python_version()}",
        f"{rounds} rounds",
    )
    return "; ".join(parts) + "."


def group_table(group: Group, figures: Mapping[str, Figures]) -> list[str]:
    """Return the lines of one group: its title and its table."""
    gdb = figures[group.gdb]
    read = ["MB read"] if group.cold else []
    base = "gdb = 1" if group.gdb.startswith("gdb") else "ours = 1"
    header = ["command", "processor s", base, "seconds (least to most)", "peak MB", *read, "demanded"]
    rows = []
    for row in group.rows:
        found = figures[row.command.label]
        kept = all(limit.missed(found, figures, group.gdb) is None for limit in row.limits)
        verdict = f"{', '.join(map(str, row.limits))}: {'kept' if kept else 'MISSED'}" if row.limits else ""
        rows.append(
            [
                f"`{row.command.label}`",
                f"{found.processor:.3f}",
                f"{found.processor / gdb.processor:.2f}",
                f"{found.seconds:.3f} ({found.least_seconds:.3f} to {found.most_seconds:.3f})",
                f"{found.peak_bytes / 1e6:.0f}",
                *([f"{found.read_bytes / 1e6:.1f}"] if group.cold else []),
                verdict,
            ]
        )
    return [f"### {group.title}", "", *table(header, rows)]


def growth_table(growth: Growth) -> list[str]:
    """Return the lines on how the time of an analysis grows with the number of threads."""
    rows = [[str(FEW), f"{growth.seconds[FEW] * 1e3:.1f}", "", ""]]
    for fewer, more in ((FEW, SOME), (SOME, MANY), (MANY, MOST)):
        one = growth.for_one_more(fewer, more)
        verdict = f"≤ {growth.most * 1e3:.3f} ms: {'kept' if one <= growth.most else 'MISSED'}" if more != SOME else ""
        rows.append([str(more), f"{growth.seconds[more] * 1e3:.1f}", f"{one * 1e3:.3f}", verdict])
    header = ["threads", "ms of processor time, least", "ms for one more thread", "demanded"]
    return ["### Growth with the number of threads", "", *table(header, rows)]


def conclusion_table(conclusion: Conclusion) -> list[str]:
    """Return the lines on how long verdicts on many threads and tasks take."""
    verdict = f"≤ {GRAPH_SECONDS:.1f} s: {'MISSED' if conclusion.missed() else 'kept'}"
    spread = f"{conclusion.least:.2f} to {conclusion.most:.2f}"
    rows = [[f"{GRAPH_THREADS:,}", f"{GRAPH_TASKS:,}", spread, verdict]]
    header = ["threads", "queued tasks", "seconds of processor time (least to most)", "demanded"]
    return ["### Verdicts on many threads and tasks", "", *table(header, rows)]


def stops_table(stops: Sequence[Stops]) -> list[str]:
    """Return the lines on how long a process is stopped."""
    rows = []
    for each in stops:
        limit = "" if each.most is None else f"≤ {each.most * 1e3:.0f} ms: {'MISSED' if each.missed() else 'kept'}"
        spread = f"{min(each.lengths) * 1e3:.1f} to {max(each.lengths) * 1e3:.1f}"
        rows.append([str(each.threads), f"{each.middle * 1e3:.1f} ({spread})", limit])
    return ["### How long a live process is stopped", "", *table(["threads", "ms (least to most)", "demanded"], rows)]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns as wide as they have to be."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]


def write(text: str, page: Path = PAGE) -> None:
    """Put *text* between the marks of *page*.

    :raises NotMeasured: if the page has no marks
    """
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise NotMeasured(f"{page} does not hold {_BEGIN} and {_END}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
