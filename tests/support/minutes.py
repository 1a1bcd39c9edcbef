"""Write the column of minutes in ``docs/dev/testing.md``: ``python -m tests.support.minutes FILE.xml``.

FILE.xml is what ``make test PYTEST_ARGS=--junitxml=FILE.xml`` has left.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.support.cache import CHECKOUT

PAGE = CHECKOUT / "docs" / "dev" / "testing.md"


def seconds_by_file(report: Path) -> Counter[str]:
    """Return how long the tests of each file took, by names as ``unit/elf``, of a report in JUnit's format."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        found[name.replace("test_", "", 1)] += float(case.get("time", 0))
    return found


def with_minutes(page: str, seconds: Counter[str]) -> str:
    """Return *page* with what the files of each row of its table took together."""

    def row(line: str) -> str:
        cells = line.split("|")
        if not line.startswith("| ") or len(cells) != 6 or "`" not in cells[3]:
            return line
        total = sum(seconds[name] for name in re.findall(r"`([a-z0-9_/]+)`", cells[3]))
        return "|".join([*cells[:4], f" {total / 60:.1f} ", cells[5]])

    return "\n".join(map(row, page.split("\n")))


if __name__ == "__main__":
    PAGE.write_text(with_minutes(PAGE.read_text(), seconds_by_file(Path(sys.argv[1]))))
