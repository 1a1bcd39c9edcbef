"""Which cases of dear tests ``make test`` runs: so many as ``tests/thinned.toml`` says.

``make test-full`` runs all, and so does whoever names a test or chooses by ``-k``. What stays depends on the cases
alone: first those that together have as many values of the test's parameters as possible.

    python -m tests.support.thinning REPORT.xml     rows for the table, of what a run of all tests has measured
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from xml.etree import ElementTree
from zlib import crc32

import pytest

from tests.support.cache import CHECKOUT
from tests.support.machine import tomllib

TABLE = CHECKOUT / "tests" / "thinned.toml"
SECONDS = 1.0  # of all cases of one test
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def counts() -> dict[str, int]:
    """Return how many cases of each test in the table are run, by the test's name as ``file::function``."""
    return {
        f"{file}.py::{name}": count
        for file, tests in tomllib.loads(TABLE.read_text()).items()
        for name, count in tests.items()
    }


def function_of(item: pytest.Item) -> str:
    """Return ``file::function`` of a test, the file below ``tests``."""
    return item.nodeid.partition("[")[0].removeprefix("tests/")


def _values(item: pytest.Item) -> list[tuple[str, str]]:
    call = getattr(item, "callspec", None)
    # Each process has its own addresses, and all have to choose the same.
    return [] if call is None else [(name, _ADDRESS.sub("", repr(value))) for name, value in call.params.items()]


def chosen(cases: Sequence[tuple[str, Iterable[tuple[str, str]]]], count: int) -> list[int]:
    """Return which *count* of *cases* stay, as their indices in rising order.

    :param cases: of each its name, and the pairs of parameter and value
    """
    left = {at: tuple(values) for at, (_, values) in enumerate(cases)}
    taken: Counter[tuple[str, str]] = Counter()
    result: list[int] = []
    while left and len(result) < count:
        # The one with most that no other has; then the one whose values are rarest so far; then any, by its name.
        best = max(
            left,
            key=lambda at: (
                sum(not taken[value] for value in left[at]),
                -sum(taken[value] for value in left[at]),
                crc32(cases[at][0].encode()),
            ),
        )
        taken.update(left.pop(best))
        result.append(best)
    return sorted(result)


def thinned(items: Sequence[pytest.Item], table: Mapping[str, int]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that stay and those that do not, both in the order of *items*."""
    dear: dict[str, list[int]] = defaultdict(list)
    for at, item in enumerate(items):
        if function_of(item) in table:
            dear[function_of(item)].append(at)
    gone = set()
    for name, places in dear.items():
        cases = [(items[at].name.partition("@")[0], _values(items[at])) for at in places]
        stay = {places[at] for at in chosen(cases, table[name])}
        gone.update(at for at in places if at not in stay)
    return (
        [item for at, item in enumerate(items) if at not in gone],
        [item for at, item in enumerate(items) if at in gone],
    )


def is_chosen_by_name(config: pytest.Config) -> bool:
    """Tell whether a run is of tests that somebody has named."""
    return bool(config.getoption("keyword")) or any("::" in argument for argument in config.args)


def proposed(report: Path) -> dict[str, dict[str, int]]:
    """Return rows of the table for all tests that took longer than ``SECONDS`` in a run."""
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].removeprefix("tests.").replace(".", "/")
        measured[file, re.sub(r"\[.*", "", case.attrib["name"])].append(float(case.attrib["time"]))
    rows: dict[str, dict[str, int]] = defaultdict(dict)
    for (file, name), seconds in sorted(measured.items()):
        count = ceil(len(seconds) * SECONDS / max(sum(seconds), SECONDS))
        if count < len(seconds):
            rows[file][name] = count
    return rows


if __name__ == "__main__":
    for part, tests in proposed(Path(sys.argv[1])).items():
        print(f'\n["{part}"]')
        print("\n".join(f"{name} = {count}" for name, count in tests.items()))
