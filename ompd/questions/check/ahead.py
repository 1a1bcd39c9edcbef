"""Calls of a library that are made before their results are wanted.

An exchange with the library's process costs more than the call that it is for. Whoever knows what will be wanted next
records it, and the first result that is wanted has all of them made::

    calls = Ahead(library)
    states = [calls.call(Batch.get_state, thread) for thread in threads]
    states[0].value()  # sends all

So what is expected decides how long an answer takes, and never what it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ompd.runtimes.hosted.api import Batch, Pending, Ref
from ompd.runtimes.hosted.client import HostedLibrary

_P = ParamSpec("_P")
_T = TypeVar("_T")
# So many results are kept. Of what is dropped nothing is lost but time.
_MOST_KEPT = 1 << 15


class Ahead:
    """Calls of one library. Each is made once, as long as its result is kept."""

    def __init__(self, library: HostedLibrary) -> None:
        self.client = library
        self._batch = library.batch()
        self._kept: OrderedDict[tuple[Any, ...], Pending[Any]] = OrderedDict()

    def call(
        self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **named: _P.kwargs
    ) -> Pending[_T]:
        """Return the result of a call, which is made with all that are recorded when the first result is wanted.

        :param routine: a method of :class:`Batch`
        """
        key = routine, *map(_number, arguments)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = routine(self._batch, *arguments, **named)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def has(self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **_: _P.kwargs) -> bool:
        """Return whether a call is recorded, or its result kept."""
        return (routine, *map(_number, arguments)) in self._kept


def _number(argument: object) -> object:
    # A handle's stands for it, also of one that is still to be made.
    handle = argument.handle if isinstance(argument, Pending) else argument
    return handle.number if isinstance(handle, Ref) else handle
