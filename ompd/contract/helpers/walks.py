"""Walks through a runtime's structures. Each ends: what leads back to itself, or on and on, is damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from ompd.contract.process import Process
from ompd.errors import CorruptState

MAX_NESTING = 1 << 20
"""Each region takes some of the stack of its primary thread, and of the heap; a chain has each team once."""

MAX_TASKS = 1 << 22
"""More tasks than any program has."""

# OpenMP threads are threads of the process, but for those that have ended and the runtime still has.
_MAX_THREADS, _MAX_THREADS_EACH = 1 << 16, 8


def most_threads(process: Process) -> int:
    """Return a number that is larger than that of the threads that a runtime, or one team of it, can have."""
    return _MAX_THREADS + _MAX_THREADS_EACH * len(process.threads())


def chain(first: int | None, following: Callable[[int], int | None], bound: int, what: str) -> Iterator[int]:
    """Yield the address *first*, the one that *following* returns for it, and so on, up to a None.

    :param what: what the chain is called in the exception
    :raises CorruptState: if it comes to an address again, or is longer than *bound*
    """
    seen: set[int] = set()
    while first is not None:
        if first in seen or len(seen) >= bound:
            raise CorruptState(first, f"{what} does not end")
        seen.add(first)
        yield first
        first = following(first)


class _Task(Protocol):
    @property
    def address(self) -> int: ...


_T = TypeVar("_T", bound=_Task)


def all_tasks(first: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Yield the tasks *first*, and all that they lead to, each address once.

    :param following: returns the tasks that one leads to
    :raises CorruptState: if there are more than :data:`MAX_TASKS`
    """
    found = {task.address: task for task in first}
    seen, waiting = set(found), list(found.values())
    while waiting:
        task = waiting.pop()
        yield task
        for other in following(task):
            if other.address not in seen:
                if len(seen) >= MAX_TASKS:
                    raise CorruptState(other.address, "there are more tasks than any program has")
                seen.add(other.address)
                waiting.append(other)
