"""Work in a child process with limits: whatever it does, the parent goes on and knows why there is no result."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from ompd.safety.child import GivenUp, run

MB = 1 << 20


def endless() -> None:
    while True:
        pass


def ends() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leaves() -> None:
    sys.exit("left")


def test_the_result_is_passed_on() -> None:
    own = os.getpid()
    assert run(lambda: {"a": [1, None, "ä"], "own": os.getpid() == own}, seconds=10, memory=64 * MB) == {
        "a": [1, None, "ä"],
        "own": False,
    }


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (endless, "it takes more than 1 s"),
        (lambda: len(bytearray(512 * MB)), "it takes too much memory"),
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: [].index("x" * 10_000), "^.{1,200}$"),
        (leaves, "SystemExit: left"),
        (ends, "signal 9 ended it"),
        (lambda: object(), "it said nothing that can be read"),
        (lambda: "x" * (9 * MB), "it said nothing that can be read"),
    ],
)
def test_why_there_is_no_result(work: Callable[[], object], reason: str) -> None:
    with pytest.raises(GivenUp, match=reason):
        run(work, seconds=1, memory=128 * MB)
