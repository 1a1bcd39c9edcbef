"""Write docs/scoreboard.md: the findings of ``ompd conformance`` in the libraries of vendors and of the stub.

``make scoreboard`` runs this module, which fetches libraries that no test uses. A library that cannot be fetched or
loaded has a line with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from ompd.conformance.asking import ask
from ompd.errors import OmpdError
from ompd.model.conformance import ConformanceAnswer, ConformanceFinding
from tests.conformance.trying import tried_stub
from tests.support import stopped
from tests.support.cache import CACHE
from tests.support.command import OMPD
from tests.support.debs import unpack_debs
from tests.support.machine import Missing, clean_environment, fetch_intel
from tests.support.ompd_libraries import ompd_library

PAGE = Path(__file__).parents[2] / "docs" / "scoreboard.md"
LIBRARIES = {
    "llvm-14": "LLVM 14",
    "llvm-16": "LLVM 16",
    "llvm-19": "LLVM 19",
    "llvm-22": "LLVM 22",
    "intel-2024": "Intel 2024",
    "intel-2025": "Intel 2025",
    "intel-2026": "Intel 2026",
}
FOUND = 10  # the exit code if there are findings
OTHER_WHEELS = {"intel-2024": "2024.2.1", "intel-2025": "2025.0.4"}
_HEAD = """# Scoreboard of OMPD libraries

What `ompd conformance` ([conformance.md](conformance.md)) finds in OMPD libraries: LLVM's as Debian ships them, Intel's
of the wheels intel-openmp 2024.2.1, 2025.0.4 and 2026.2.0, and that of the [stub runtime](../runtime_stub/README.md).
All are tried on one core: four threads of a region on Intel's runtime of 2026, clang, `OMP_DEBUG=enabled`; the stub's
on its own runtime. All find what they need in the runtime by names, so they read this one, too.
LLVM 16's is itself linked with a runtime, and is refused where the system has none: it is tried by a process that sees
that of LLVM 16 there.
`make scoreboard` writes this page.

A *finding* in the first table is against a sentence of OpenMP 5.2, one in the second is advice;
[which sentences](conformance.md#what-the-standard-has-to-say) these are.
"""


def answers() -> Mapping[str, ConformanceAnswer | str]:
    """Return the answer about each library, or the reason why there is none."""
    found: dict[str, ConformanceAnswer | str] = {}
    core = str(stopped("lock", compiler="clang", mode="debug").core)
    for name, title in LIBRARIES.items():
        try:
            file = str(library(name))
        except Missing as missing:
            found[title] = f"{missing.tool} could not be fetched"
            continue
        try:
            found[title] = ask(file, [core]).answer if name != "llvm-16" else _of_llvm_16(Path(file), core)
        except OmpdError as error:
            found[title] = str(error).replace(file, "libompd.so")
    found["stub"] = tried_stub().answer
    return found


def library(name: str) -> Path:
    """Return the library called *name* in :data:`LIBRARIES`, after fetching it if no test uses it.

    :raises Missing: if it cannot be fetched
    """
    if name == "llvm-16":
        unpack_debs("libompd-16", ("libomp-16-dev", "libomp5-16"), CACHE / "debs" / "libompd-16", alone=True)
    if name in OTHER_WHEELS:
        return fetch_intel(OTHER_WHEELS[name]) / "lib" / "libiomp5_db.so"
    return ompd_library(name)


def _of_llvm_16(file: Path, core: str) -> ConformanceAnswer | str:
    # Only this library is linked with a runtime, which the system's loader must find. So ``ompd`` runs in a process
    # whose view of the system's folder also has the runtime of the same release.
    (link,) = file.parents[4].glob("usr/lib/*-linux-gnu/libomp.so.5")
    system = Path("/usr/lib") / link.parent.name
    script = """mount -t overlay overlay -o "lowerdir=$1/lib:$2" "$2" && ldconfig -C "$1/cache" &&
        mount --bind "$1/cache" /etc/ld.so.cache && shift 2 && exec "$@\""""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lib").mkdir()
        shutil.copy(file.with_name(link.name), Path(folder) / "lib")
        words = ["unshare", "--mount", "sh", "-c", script, "sh", folder, str(system)]
        command = [*words, str(OMPD), "conformance", str(file), core, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    if done.returncode not in (0, FOUND):
        return done.stderr.strip().splitlines()[0].replace(str(file), file.name)
    answer = json.loads(done.stdout)
    names = [field.name for field in fields(ConformanceFinding)]
    rows = [ConformanceFinding(**{name: row[name] for name in names}) for row in answer["conformance"]]
    rest = {f.name: answer.get(f.name, ()) for f in fields(ConformanceAnswer) if f.name != "rows"}
    return ConformanceAnswer(rows=tuple(rows), **rest)


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
