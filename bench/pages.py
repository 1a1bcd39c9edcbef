"""How large pages of very many threads and ranks are, and how long a browser takes to open them.

``python -m bench.pages``, also part of ``make bench``. The pages are of records that are made up, so that no process of
10,000 threads is needed. They are opened in a browser without a screen that runs already, as a person's does. What it
says itself counts: from the start of the navigation until something is painted, and until the page's own script has run
and all is there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import report
from ompd.report.triage.page import make_triage_page
from tests.support import Missing
from tests.support.browser import Browser
from tests.support.report_pages import large, source_of
from tests.support.triage_pages import of_job

COUNT = 10_000
MOST_BYTES, MOST_SECONDS = 5_000_000, 1.0
_ROUNDS = 7
# When something was painted first, and when all was there, in milliseconds; the first may be known after the second.
_BOTH = """new Promise(done => new PerformanceObserver(list => done([
    list.getEntriesByName('first-contentful-paint')[0].startTime,
    performance.getEntriesByType('navigation')[0].loadEventEnd,
])).observe({type: 'paint', buffered: true}))"""


@dataclass(frozen=True)
class Opened:
    """A page: its bytes, the processor seconds of making it, and the seconds until it is painted and complete."""

    size: int
    made: float
    painted: float
    loaded: float

    def missed(self, name: str) -> list[str]:
        """Return a sentence for each demand that is not kept."""
        found = []
        if self.size >= MOST_BYTES:
            found.append(f"the page of {name} has {self.size / 1e6:.1f} MB, {MOST_BYTES / 1e6:.0f} are demanded")
        if max(self.painted, self.loaded) > MOST_SECONDS:
            found.append(f"the page of {name} opens in {self.loaded:.2f} s, {MOST_SECONDS} are demanded")
        return found


def _of_threads() -> Callable[[], str]:
    found = large(COUNT)
    return lambda: source_of(found)


def _of_ranks() -> Callable[[], str]:
    answer = of_job(COUNT, failed=COUNT // 100)
    return lambda: make_triage_page(answer, ["ompd", "triage"], "now")


_PAGES: Mapping[str, Callable[[], Callable[[], str]]] = {
    f"ompd report, {COUNT:,} threads": _of_threads,
    f"ompd triage, {COUNT:,} ranks": _of_ranks,
}


def measure(rounds: int = _ROUNDS) -> dict[str, Opened]:
    """Return the figures of each page.

    :raises Missing: if there is no browser
    """
    found = {}
    with Browser() as browser, tempfile.TemporaryDirectory() as folder:
        for number, (name, prepare) in enumerate(_PAGES.items()):
            make, made = prepare(), []
            for _ in range(min(rounds, 3)):
                begin = time.process_time()
                source = make()
                made.append(time.process_time() - begin)
            file = Path(folder) / f"{number}.html"
            file.write_text(source, encoding="utf-8")
            times = [_open(browser, file) for _ in range(rounds + 1)][1:]
            painted, loaded = (median(each) / 1e3 for each in zip(*times, strict=True))
            found[name] = Opened(file.stat().st_size, min(made), painted, loaded)
    return found


def _open(browser: Browser, file: Path) -> tuple[float, float]:
    with browser.page(file) as shown:
        painted, loaded = shown.evaluate(_BOTH)
        return painted, loaded


def table(found: Mapping[str, Opened]) -> list[str]:
    """Return the lines of the section."""
    header = ["page", "KB", "made, processor s", "painted after s", "complete after s", "demanded"]
    demanded = f"< {MOST_BYTES / 1e6:.0f} MB, ≤ {MOST_SECONDS:.0f} s"
    rows = [
        [
            f"`{name.partition(',')[0]}`{name[name.index(',') :]}",
            f"{each.size / 1e3:.0f}",
            f"{each.made:.2f}",
            f"{each.painted:.2f}",
            f"{each.loaded:.2f}",
            f"{demanded}: {'MISSED' if each.missed(name) else 'kept'}",
        ]
        for name, each in found.items()
    ]
    return ["### Pages of very many", "", *report.table(header, rows)]


def main() -> int:
    """Measure and print; returns the exit status: 1 if a demand is missed."""
    try:
        found = measure()
    except Missing as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print("\n".join(table(found)))
    missed = [sentence for name, each in found.items() for sentence in each.missed(name)]
    for sentence in missed:
        print(f"bench: missed: {sentence}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
