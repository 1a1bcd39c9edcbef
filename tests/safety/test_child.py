"""Work in a child process with limits: however the child ends, the parent goes on and knows the reason."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ompd.safety.child import GivenUp, end_with, run

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
@pytest.mark.quick(
    "endless-it takes more than 1 s",
    "<lambda>-ZeroDivisionError",
    "<lambda>-^.{1,200}$",
    "leaves-SystemExit: left",
    "ends-signal 9 ended it",
)
def test_why_there_is_no_result(work: Callable[[], object], reason: str) -> None:
    with pytest.raises(GivenUp, match=reason):
        run(work, seconds=1, memory=128 * MB)


def test_a_system_that_starts_no_process_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(GivenUp, match=f"no process can be started for it: {os.strerror(errno.EAGAIN)}"):
        run(lambda: 1, seconds=1, memory=MB)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize("within", [None, 60.0])
def test_a_process_that_ignores_the_end_of_children_gets_results(within: float | None) -> None:
    usual = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run(lambda: [1], seconds=10, memory=64 * MB, within=within) == [1]
        with pytest.raises(GivenUp, match="it said nothing that can be read"):
            run(ends, seconds=10, memory=64 * MB, within=within)
    finally:
        signal.signal(signal.SIGCHLD, usual)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_process_ends_with_whoever_has_the_pipe_also_if_that_was_first(is_late: bool) -> None:
    reading, writing = os.pipe()
    if is_late:
        os.close(writing)
    child = os.fork()
    if child == 0:
        try:
            if not is_late:
                os.close(writing)
            end_with(reading, os.getpid())
            signal.pause()
        finally:
            os._exit(1)
    if not is_late:
        os.close(writing)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGIO
