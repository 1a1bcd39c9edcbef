"""Writes docs/scoreboard.md: what ``ompd conformance`` finds in the libraries that there are here.

``make scoreboard``; a library that cannot be loaded or is not here has a line that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ompd.conformance.asking import ask
from ompd.errors import OmpdError
from ompd.model.conformance import ConformanceAnswer, ConformanceFinding
from tests.conformance.trying import tried_stub
from tests.support import stopped
from tests.support.machine import Missing
from tests.support.ompd_libraries import ompd_library

PAGE = Path(__file__).parents[2] / "docs" / "scoreboard.md"
LIBRARIES = {
    "llvm-14": "LLVM 14",
    "llvm-16": "LLVM 16",
    "llvm-19": "LLVM 19",
    "llvm-22": "LLVM 22",
    "intel-2026": "Intel 2026",
}
_HEAD = """# Scoreboard of OMPD libraries

What `ompd conformance` ([conformance.md](conformance.md)) finds in the OMPD libraries that the tests use: LLVM's as
Debian 12 ships them, Intel's of the wheel intel-openmp, and that of the [stub runtime](../runtime_stub/README.md).
All are tried on one core: four threads of a region on Intel's runtime, clang, `OMP_DEBUG=enabled`; the stub's on its
own runtime. `make scoreboard` writes this page.
"""


def answers() -> Mapping[str, ConformanceAnswer | str]:
    """Return what comes of each library, or why nothing does."""
    found: dict[str, ConformanceAnswer | str] = {}
    core = str(stopped("lock", compiler="clang", mode="debug").core)
    for name, title in LIBRARIES.items():
        try:
            found[title] = ask(str(ompd_library(name)), [core]).answer
        except Missing:
            found[title] = "it is not here"
        except OmpdError as error:
            found[title] = str(error).replace(str(ompd_library(name)), "libompd.so")
    found["stub"] = tried_stub().answer
    return found


def page(found: Mapping[str, ConformanceAnswer | str]) -> str:
    """Return the page."""
    lines = [_HEAD, "| library | cases | demanded | suggested | could not be tested |", "|---|---|---|---|---|"]
    tried = {name: answer for name, answer in found.items() if not isinstance(answer, str)}
    for name, answer in found.items():
        if isinstance(answer, str):
            lines.append(f"| {name} | - | - | - | {answer} |")
            continue
        demanded = sum(row.level == "demands" for row in answer.rows)
        lines.append(f"| {name} | {answer.tried} | {demanded} | {len(answer.rows) - demanded} | - |")
    for level, title in (("demands", "What the standard demands"), ("suggests", "What it suggests")):
        rows: dict[str, ConformanceFinding] = {}
        for answer in tried.values():
            rows.update((row.key, row) for row in answer.rows if row.level == level)
        lines += ["", f"## {title}", "", f"| routine | tried | OpenMP 5.2 | seen | {' | '.join(tried)} |"]
        lines.append("|---" * (4 + len(tried)) + "|")
        for key in sorted(rows, key=lambda key: (rows[key].function, key)):
            row = rows[key]
            marks = [_mark(answer, key) for answer in tried.values()]
            cells = (f"`{row.function}`", row.title, row.section, row.seen, *marks)
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _mark(answer: ConformanceAnswer, key: str) -> str:
    return "finding" if any(row.key == key for row in answer.rows) else ""


if __name__ == "__main__":
    PAGE.write_text(page(answers()))
