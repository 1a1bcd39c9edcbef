"""Returns with a lock that the function set and releases on another way, held to the marks in the source."""

from __future__ import annotations

import re
from itertools import product

import pytest

from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.questions.threads.waits import lock_symbol
from ompd.questions.why.held import place_of_code
from ompd.session import Session
from tests.support.cache import CHECKOUT
from tests.support.odd import Odd, core_of

FOLDER = CHECKOUT / "tests" / "held"
FLAGS = ("-O0", "-O1", "-O2", "-O3")
MARK = re.compile(r"/\* (leaks|from) (\S+) \*/")


def leaks(compiler: str, *flags: str) -> list[tuple[str | None, int | None]]:
    """Return the names of the leaked locks, and the lines at which functions leave with them."""
    link = "libgomp" if compiler == "gcc" else "dynamic"
    of = core_of(Odd("leaks", flags=flags, link=link, folder=FOLDER), compiler)
    with Session.open_core(of.path) as session:
        found = places.followed_functions(session).releases.leaks("lock")
        return [
            (lock_symbol(session, Kind.LOCK, leak.held.passed), place_of_code(session, leak.leaves).line)
            for leak in found
        ]


def marked() -> dict[str, set[int]]:
    """Return the lines of the source that may be called a leak, by the lock."""
    lines: dict[str, set[int]] = {}
    for number, line in enumerate((FOLDER / "leaks.c").read_text().splitlines(), 1):
        for _, lock in MARK.findall(line):
            lines.setdefault(lock, set()).add(number)
    return lines


@pytest.mark.parametrize(("compiler", "flags"), [*product(("gcc", "clang"), FLAGS)])
@pytest.mark.quick("gcc--O0", "gcc--O2", "clang--O2")
def test_each_leak_is_found_and_nothing_else(compiler: str, flags: str) -> None:
    found, lines = leaks(compiler, flags), marked()
    assert {lock for lock, _ in found} == set(lines)
    for lock, line in found:
        assert line in lines[lock or ""], (lock, line)
    assert flags != "-O0" or len(found) == len(lines)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.quick("gcc")
def test_a_lock_that_is_handed_on_is_no_leak(compiler: str) -> None:
    assert {lock for lock, _ in leaks(compiler, "-O1", "-DHANDED_ON")} == set(marked())
