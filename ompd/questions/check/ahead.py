"""Calls of a library that are made before their results are wanted.

An exchange with the library's process costs more than the call itself. A caller records the calls that it will need;
the first request for a result sends all of them::

    calls = CallQueue(library)
    states = [calls.call(Batch.get_state, thread) for thread in threads]
    states[0].value()  # sends all

Recorded calls make an answer faster, and never change it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ompd.runtimes.hosted.api import Batch, Pending, Ref
from ompd.runtimes.hosted.client import HostedLibrary

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Results that are kept. A call whose result was dropped is made again.
_MOST_KEPT = 1 << 15


class CallQueue:
    """The calls of one library. Each is made once, as long as its result is kept."""

    def __init__(self, library: HostedLibrary) -> None:
        self.client = library
        self._batch = library.batch()
        self._kept: OrderedDict[tuple[Any, ...], Pending[Any]] = OrderedDict()

    def call(
        self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **named: _P.kwargs
    ) -> Pending[_T]:
        """Record a call, and return its pending result.

        :param routine: a method of :class:`Batch`
        """
        key = routine, *map(_number, arguments)
        pending = self._kept.get(key)
        if pending is None:
            pending = self._kept[key] = routine(self._batch, *arguments, **named)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return pending

    def has(self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **_: _P.kwargs) -> bool:
        """Return whether a call is recorded, or its result kept."""
        return (routine, *map(_number, arguments)) in self._kept


def _number(argument: object) -> object:
    # A handle is identified by its number, which a pending handle has already.
    handle = argument.handle if isinstance(argument, Pending) else argument
    return handle.number if isinstance(handle, Ref) else handle
