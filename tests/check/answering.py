"""A library whose calls a test answers one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ompd.runtimes.hosted.api import Batch, Call, Outcome


class Answering:
    """Stands for a hosted library.

    :param answer: returns the outcome of a call
    """

    name = "answering.so"

    def __init__(self, answer: Callable[[Call], Outcome]) -> None:
        self._answer, self._numbers = answer, itertools.count(1000)
        self.exchanges = 0
        """The number of exchanges, each with one or more calls."""
        self.calls = 0
        """The number of calls."""

    def batch(self) -> Batch:
        return Batch(self)

    def run(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        self.exchanges += 1
        self.calls += len(calls)
        return [self._answer(call) for call in calls]

    def new_number(self) -> int:
        return next(self._numbers)

    def release(self, number: int) -> None:
        pass

    def add_context(self, callbacks: Any, ahead: int) -> int:
        return self.new_number()
