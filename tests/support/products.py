"""Choose the combinations of a product to test: all with ``OMPD_FULL=1``, otherwise a sample that has each value.

The sample depends only on the cases, so a failed test runs again the next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import pytest

from tests.support.gdb import NAMES as GDBS
from tests.support.lldb import VERSIONS
from tests.support.machine import FULL

T = TypeVar("T")


def _values(case: Any) -> Sequence[Any]:
    values = getattr(case, "values", case)  # values of a pytest.param
    return values if isinstance(values, tuple) else (values,)


def sample(cases: Iterable[T], axes: Callable[..., Sequence[Hashable]] | None = None) -> list[T]:
    """Return the *cases* to run, in their order: all with ``OMPD_FULL=1``, otherwise a few in which each value occurs.

    :param axes: returns the values of a case that must occur in the sample; a tuple stands for values that must occur
        together. By default all values of each case must occur
    """
    left = list(cases)
    if FULL:
        return left
    wanted = {
        number: [(axis, repr(value)) for axis, value in enumerate(axes(*_values(case)) if axes else _values(case))]
        for number, case in enumerate(left)
    }
    missing = {value for values in wanted.values() for value in values}
    taken: Counter[tuple[int, str]] = Counter()
    chosen = []
    while missing:
        # Take the case with the most missing values; among equals the first with the rarest values so far.
        best = max(wanted, key=lambda n: (sum(v in missing for v in wanted[n]), -sum(taken[v] for v in wanted[n]), -n))
        values = wanted.pop(best)
        missing.difference_update(values)
        taken.update(values)
        chosen.append(best)
    return [left[number] for number in sorted(chosen)]


def in_turn(
    name: str, values: Sequence[Any], *, most: int = 1, indirect: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize a test with each of *values* as *name*; without ``OMPD_FULL=1`` with only *most* of them.

    The test's name decides which, so each value is used by many tests.
    """

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        first = crc32(test.__name__.encode())
        chosen = values if FULL else [values[(first + turn) % len(values)] for turn in range(most)]
        return pytest.mark.parametrize(name, chosen, indirect=indirect)(test)

    return mark


def each_version(name: str = "version", *, of: Sequence[int] = VERSIONS, indirect: bool = False) -> Any:
    """Parametrize a test with the LLDB versions *of*, see :func:`in_turn`."""
    return in_turn(name, of, indirect=indirect)


def each_gdb(name: str = "found") -> Any:
    """Parametrize a test with the gdbs of ``tests.support.gdb``, see :func:`in_turn`."""
    return in_turn(name, GDBS)
