"""The order of tests. With ``OMPD_ORDER=SEED`` it is random, so that no test can depend on an earlier one."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable

import pytest

VARIABLE = "OMPD_ORDER"


def chosen_seed() -> str:
    """Return the seed of this run, or "" for the order of the files. ``OMPD_ORDER=random`` draws a seed for all
    processes.
    """
    if os.environ.get(VARIABLE) == "random":
        # Workers inherit the variable: all must collect the tests in the same order.
        os.environ[VARIABLE] = str(random.SystemRandom().randrange(1_000_000))
    return os.environ.get(VARIABLE, "")


def in_random_order(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return *items* with the files, and the tests of each file, in the random order of *seed*.

    Files stay together, because a module's fixtures end with its last test. The order of two tests depends only on the
    seed and their names, so a part of the tests fails as all tests did.
    """

    def key(text: str) -> bytes:
        return hashlib.sha256(f"{seed} {text}".encode()).digest()

    def place(item: pytest.Item) -> tuple[bytes, bytes]:
        # The key leaves out the end of the id, where xdist adds its groups.
        file = item.nodeid.partition("::")[0]
        return key(file), key(f"{file} {item.name}")

    return sorted(items, key=place)
