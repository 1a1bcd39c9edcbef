"""Show the results of campaigns: as a table on the terminal, and in ``docs/dev/campaign.md``.

``python -m tests.campaign.page FILE…`` rewrites the page from the results of several campaigns (``seen-SEED.json``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "campaign.md"
BEGIN, END = "<!-- made by the command: begin -->", "<!-- made by the command: end -->"
Seen = Mapping[str, Any]
_SUMS = ("moments", "answers", "codes", "broken", "reasons")
_HEADS = (
    *("program", "runtime", "live", "stopped", "abort", "ompt", "answers", "exit 3", "exit 1", "ended"),
    *("stop ms", "slowest s", "MiB", "busy", "no state", "results", "laws broken"),
)


def keep(seen: Seen, file: Path) -> None:
    """Write the results of a campaign to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(seen, indent=1))


def merged(all_seen: Iterable[Seen]) -> list[dict[str, Any]]:
    """Return the rows of several campaigns, one for each program and runtime."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for seen in all_seen:
        for row in seen["rows"]:
            mine = rows.setdefault(
                (row["program"], row["runtime"]),
                {"program": row["program"], "runtime": row["runtime"], **{name: Counter() for name in _SUMS}},
            )
            for name, value in row.items():
                if name in _SUMS:
                    mine[name].update(value)
                elif name in ("longest_stop", "slowest", "grown"):
                    mine[name] = max(mine.get(name, 0), value)
                elif name not in ("program", "runtime"):
                    mine[name] = mine.get(name, 0) + value
    return [rows[key] for key in sorted(rows)]


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row as text."""
    moments = (str(row["moments"].get(name, 0)) for name in ("live", "stopped", "abort", "ompt"))
    codes = (str(row["codes"].get(name, 0)) for name in ("3", "1", "ended"))
    counts = (str(sum(row["answers"].values())), *codes, f"{row['longest_stop']:.1f}", f"{row['slowest']:.1f}")
    last = (row["grown"] >> 20, row["busy"], row["no_state"], row["ended"], sum(row["broken"].values()))
    return (row["program"], row["runtime"], *moments, *counts, *map(str, last))


def report(seen: Seen) -> None:
    """Print a row for each program and runtime, then the broken laws, the reasons, and the missing parts."""
    rows = [_HEADS, *map(cells, merged([seen]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for line in _counted(seen):
        print(line)


def _counted(seen: Seen) -> Iterator[str]:
    for title in ("broken", "reasons"):
        yield f"\n{title}:"
        for row in seen["rows"]:
            for text, times in Counter(row[title]).most_common():
                yield f"  {times:4} {row['program']} {row['runtime']}: {text}"
    for text, times in seen["missing"].items():
        yield f"not done {times} times: {text}"


def made(all_seen: Sequence[Seen]) -> str:
    """Return the part of the page with the results."""
    rows = merged(all_seen)
    moments = sum(sum(row["moments"].values()) for row in rows)
    answers = sum(sum(row["answers"].values()) for row in rows)
    broken = sum(sum(row["broken"].values()) for row in rows)
    programs, runtimes = {row["program"] for row in rows}, {row["runtime"] for row in rows}
    seeds = ", ".join(seen["seed"] for seen in all_seen)
    laws = "No law was broken." if not broken else f"Laws were broken {broken} times; they are listed below the table."
    lines = [
        f"{moments:,} moments of {len(programs)} programs on {len(runtimes)} runtimes (seeds: {seeds}), with"
        f" {answers:,} answers. {laws}",
        "",
        f"| {' | '.join(_HEADS)} |",
        f"|{'---|' * len(_HEADS)}",
        *(f"| {' | '.join(cells(row))} |" for row in rows),
    ]
    for title, heading in (("broken", "Broken laws"), ("reasons", "Why answers were not complete")):
        texts: Counter[str] = Counter()
        for row in rows:
            texts.update(row[title])
        if texts:
            lines += ["", f"{heading}, with how often:", ""]
            lines += [f"- {times:,} times: {' '.join(text.split())}" for text, times in texts.most_common()]
    return "\n".join(lines)


def write(all_seen: Sequence[Seen], page: Path = PAGE) -> None:
    """Replace the generated part of the page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{made(all_seen)}\n\n{END}{after}")


def main() -> int:
    """Rewrite the page from the given files."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.page", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    write([json.loads(file.read_text()) for file in given.files])
    return 0


if __name__ == "__main__":
    sys.exit(main())
