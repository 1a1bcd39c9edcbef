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


class _HasAddress(Protocol):
    @property
    def address(self) -> int: ...


_Node = TypeVar("_Node", bound="int | _HasAddress")
_Task = TypeVar("_Task", bound=_HasAddress)


def chain(first: _Node | None, following: Callable[[_Node], _Node | None], bound: int, what: str) -> Iterator[_Node]:
    """Yield *first*, the one that *following* returns for it, and so on, up to a None: addresses, or what has one.

    :param what: what the chain is called in the exception
    :raises CorruptState: if it comes to an address again, or is longer than *bound*
    """
    seen: set[int] = set()
    while first is not None:
        address = first if isinstance(first, int) else first.address
        if address in seen or len(seen) >= bound:
            raise CorruptState(address, f"{what} does not end")
        seen.add(address)
        yield first
        first = following(first)


def all_tasks(first: Iterable[_Task], following: Callable[[_Task], Iterable[_Task]]) -> Iterator[_Task]:
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
