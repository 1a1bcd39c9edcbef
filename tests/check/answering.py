"""A library that a test answers for, call by call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ompd.runtimes.hosted.api import Batch, Call, Outcome


class Answering:
    """Stands for a hosted library.

    :param answer: returns what becomes of a call
    """

    name = "answering.so"

    def __init__(self, answer: Callable[[Call], Outcome]) -> None:
        self._answer, self._numbers = answer, itertools.count(1000)
        self.exchanges = 0
        """How often calls were made, many or few."""
        self.calls = 0
        """How many calls were made."""

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
