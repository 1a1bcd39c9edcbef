"""``OMPD_ORDER=SEED``: the same random order in each process, and the seed is printed."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import pytest

from tests.support.cache import CHECKOUT
from tests.support.order import VARIABLE

FILES = ("tests/debugger/snapshot/test_pages.py", "tests/contract/test_naming.py", "tests/commands/test_text_tables.py")


def run(seed: str, *arguments: str) -> str:
    """Return the output of pytest for *arguments* with *seed*."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=CHECKOUT, env={**environment, VARIABLE: seed}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def collected(seed: str, *files: str) -> list[str]:
    return [line for line in run(seed, "--collect-only", *files).splitlines() if "::" in line]


def test_a_seed_is_an_order_of_files_and_of_their_tests() -> None:
    usual, one, other = collected("", *FILES), collected("1", *FILES), collected("2", *FILES)
    assert sorted(usual) == sorted(one) == sorted(other)
    assert usual != one != other != usual
    # The tests of each file stay together.
    assert len(list(itertools.groupby(one, key=lambda name: name.partition("::")[0]))) == len(FILES)


@pytest.mark.quick()
def test_a_part_of_the_tests_keeps_its_order() -> None:
    among_all = [name for name in collected("1", *FILES) if not name.startswith(FILES[1])]
    assert collected("1", FILES[2], FILES[0]) == among_all


@pytest.mark.quick()
def test_processes_draw_one_order_and_print_its_seed() -> None:
    # xdist ends with an error if its processes collect different orders.
    printed = run("random", "-n", "2", "--dist", "loadgroup", *FILES[:2])
    (seed,) = re.findall(rf"^in random order; again with {VARIABLE}=(\d+)$", printed, re.MULTILINE)
    assert re.search(r"^\d+ passed", printed, re.MULTILINE), printed
    assert collected(seed, *FILES[:2])
