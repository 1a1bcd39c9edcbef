"""Bounded walks through a runtime's structures. A cycle, or a chain that is too long, is reported as damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from ompd.contract.process import Process
from ompd.errors import CorruptState

MAX_NESTING = 1 << 20
"""The largest number of enclosing regions. No program has so many, because each needs some stack and heap."""

MAX_TASKS = 1 << 22
"""The largest number of tasks. No program has so many."""

# The largest number of threads in a runtime: the first limit, plus the second for each thread of the process. A runtime
# may list more threads than the process has, because some have ended.
_MAX_THREADS, _MAX_THREADS_EACH = 1 << 16, 8


def most_threads(process: Process) -> int:
    """Return an upper bound of the number of threads in a runtime, or in one of its teams."""
    return _MAX_THREADS + _MAX_THREADS_EACH * len(process.threads())


class _HasAddress(Protocol):
    @property
    def address(self) -> int: ...


_Node = TypeVar("_Node", bound="int | _HasAddress")
_Task = TypeVar("_Task", bound=_HasAddress)


def chain(first: _Node | None, following: Callable[[_Node], _Node | None], bound: int, what: str) -> Iterator[_Node]:
    """Yield *first*, the node that *following* returns for it, and so on, until None. A node is an address or has one.

    :param what: the name of the chain in the exception's message
    :raises CorruptState: if the chain returns to an address, or is longer than *bound*
    """
    visited: set[int] = set()
    while first is not None:
        address = first if isinstance(first, int) else first.address
        if address in visited or len(visited) >= bound:
            raise CorruptState(address, f"{what} does not end")
        visited.add(address)
        yield first
        first = following(first)


def all_tasks(first: Iterable[_Task], following: Callable[[_Task], Iterable[_Task]]) -> Iterator[_Task]:
    """Yield the tasks *first*, the tasks that *following* returns for them, and so on, each address once.

    :param following: returns, for example, the children of a task
    :raises CorruptState: if there are more than :data:`MAX_TASKS`
    """
    by_address = {task.address: task for task in first}
    visited, waiting = set(by_address), list(by_address.values())
    while waiting:
        task = waiting.pop()
        yield task
        for other in following(task):
            if other.address not in visited:
                if len(visited) >= MAX_TASKS:
                    raise CorruptState(other.address, "there are more tasks than any program has")
                visited.add(other.address)
                waiting.append(other)
