"""Write the column of minutes in ``docs/dev/testing.md``: ``python -m tests.support.minutes FILE.xml``.

``make test PYTEST_ARGS=--junitxml=FILE.xml`` writes FILE.xml.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.support.cache import CHECKOUT

PAGE = CHECKOUT / "docs" / "dev" / "testing.md"


def seconds_by_folder(report: Path) -> Counter[str]:
    """Return the seconds that the tests of each folder below ``tests`` took, from a JUnit report."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        *folder, _file = case.get("classname", "").removeprefix("tests.").split(".")
        seconds["/".join(folder)] += float(case.get("time", 0))
    return seconds


def with_minutes(page: str, seconds: Counter[str]) -> str:
    """Return *page* with the minutes of each folder in its table, whose rows are ``| `folder` | about | minutes |``."""

    def row(line: str) -> str:
        cells = re.fullmatch(r"(\| `([a-z_/]+)` \| .* \|)[^|]*\|", line)
        return line if cells is None else f"{cells[1]} {seconds[cells[2]] / 60:.1f} |"

    return "\n".join(map(row, page.split("\n")))


if __name__ == "__main__":
    PAGE.write_text(with_minutes(PAGE.read_text(), seconds_by_folder(Path(sys.argv[1]))))
