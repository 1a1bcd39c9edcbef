"""The mark ``quick``, which names the cases of a slow test that `make test` runs, by id.

A name that ends with ``*`` stands for all ids that begin so. A mark without names leaves the whole test to ``make
test-full``. That run ignores the marks, as do runs of named tests or with ``-k``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def is_run_of_named_tests(config: pytest.Config) -> bool:
    """Return whether the user has named the tests to run."""
    return bool(config.getoption("keyword")) or any("::" in argument for argument in config.args)


def without_slow_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return *items* without the cases that marks leave out."""
    return [item for item in items if _names(item) is None or any(_is_named(item, name) for name in _names(item) or ())]


def names_of_no_case(items: Sequence[pytest.Item]) -> set[str]:
    """Return the names in marks of *items* that match no case, each preceded by its test's name."""
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
