"""Which cases `make test` runs of a test with the mark ``quick``: those that the mark names by their ids.

An id that ends with ``*`` stands for all that begin so. ``make test-full`` runs all cases, and so does a run of named
tests or with ``-k``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def is_run_of_named_tests(config: pytest.Config) -> bool:
    """Return whether the user has named the tests to run."""
    return bool(config.getoption("keyword")) or any("::" in argument for argument in config.args)


def without_slow_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return *items* without the cases that their test's mark does not name."""
    return [item for item in items if _names(item) is None or any(_is_named(item, name) for name in _names(item) or ())]


def names_of_no_case(items: Sequence[pytest.Item]) -> set[str]:
    """Return which names in the marks of *items* are those of no case, each behind its test's name."""
    named = {f"{_test(item)}: {name}" for item in items for name in _names(item) or ()}
    return named - {f"{_test(item)}: {name}" for item in items for name in _names(item) or () if _is_named(item, name)}


def _names(item: pytest.Item) -> tuple[str, ...] | None:
    mark = item.get_closest_marker("quick")
    return mark.args if mark is not None else None


def _is_named(item: pytest.Item, name: str) -> bool:
    case: str = item.callspec.id  # type: ignore[attr-defined]
    return case.startswith(name[:-1]) if name.endswith("*") else case == name


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
