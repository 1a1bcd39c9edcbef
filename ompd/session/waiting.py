"""Waits until a predicate holds in a process, several times in a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ompd.errors import BadInput, NoAnswer, OmpdError, TimeLimit
from ompd.session.session import Session

STABLE, INTERVAL, SECONDS = 3, 0.1, 60.0
_STANDING = ("core", "gdb")  # kinds of targets that a session cannot run

_T = TypeVar("_T")
_S = TypeVar("_S", bound=Session)


def wait_until(
    session: _S,
    predicate: Callable[[_S], _T],
    let_run: Callable[[float], None],
    *,
    stable: int,
    interval: float,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """Return the result of *predicate*, called with *session*, after it was true *stable* times in a row.

    :param let_run: lets the process run for a number of seconds, then returns
    :param clock: returns the time in seconds
    :raises BadInput: if a number is out of range
    :raises TimeLimit: if *seconds* have passed
    """
    from ompd.debugger.targets.live.tracer import NotStopped

    if stable < 1 or not 0 < interval < float("inf") or not seconds >= 0:
        raise BadInput("stable is at least 1, interval more than 0 seconds, and seconds not negative")
    deadline, looks, true_in_a_row = clock() + seconds, 0, 0
    fault: OmpdError | None = None
    while True:
        looks += 1
        try:
            result, fault = session.ask(predicate), None
        except (NoAnswer, NotStopped) as error:
            fault, true_in_a_row = error, 0
        else:
            true_in_a_row = true_in_a_row + 1 if result else 0
            if true_in_a_row and (true_in_a_row >= stable or session.target.kind in _STANDING):
                return result
        seconds_left = deadline - clock()
        if seconds_left <= 0 and session.target.kind not in _STANDING:
            last = str(fault) if fault is not None else f"it was so {true_in_a_row} times in a row, {stable} are needed"
            raise TimeLimit(
                f"what is waited for was not so within {seconds:g} seconds and {looks} looks: {last}"
            ) from fault
        let_run(min(interval, max(seconds_left, 0)))
