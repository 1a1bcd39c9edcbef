"""The thread numbers of a thread's ancestors: the threads that began the teams around it."""

from __future__ import annotations

from contextlib import suppress

from ompd.contract.plugin import ParallelHandle
from ompd.errors import CorruptState, OmpdError, Unavailable

_MAX_LEVELS = 100_000


class Ancestry:
    """The thread numbers of ancestors, as ``omp_get_ancestor_thread_num`` returns them. Each team is read once."""

    def __init__(self) -> None:
        self._members: dict[str, dict[int, int]] = {}
        self._begun_by: dict[str, tuple[ParallelHandle, int] | None] = {}

    def of(self, region: ParallelHandle | None) -> tuple[int, ...]:
        """Return the thread numbers of the ancestors of *region*'s threads, from level 1 inwards.

        Empty at level 1 and outside of all regions.

        :raises OmpdError: if an enclosing region, or the members of its team, cannot be read
        """
        numbers: list[int] = []
        visited: set[str] = set()
        while region is not None:
            if region.id in visited or len(visited) > _MAX_LEVELS:
                raise CorruptState(0, f"{region.id}: the chain of enclosing regions does not end")
            visited.add(region.id)
            around = self._around(region)
            if around is None:
                break
            region, number = around
            numbers.append(number)
        return tuple(reversed(numbers))

    def _around(self, region: ParallelHandle) -> tuple[ParallelHandle, int] | None:
        if region.id not in self._begun_by:
            enclosing = region.enclosing()
            begun = None if enclosing is None else (enclosing, self._number(enclosing, region))
            self._begun_by[region.id] = begun
        return self._begun_by[region.id]

    def _number(self, enclosing: ParallelHandle, region: ParallelHandle) -> int:
        size = enclosing.size()
        if size == 1:
            return 0
        if enclosing.id not in self._members:
            self._members[enclosing.id] = _members(enclosing, size)
        try:
            return self._members[enclosing.id][region.thread(0).address]
        except KeyError:
            raise Unavailable("the primary thread of the team is not found in the team around it") from None


def _members(region: ParallelHandle, size: int) -> dict[int, int]:
    number_of: dict[int, int] = {}
    for number in range(size):
        with suppress(OmpdError):  # the thread's own row reports the error
            number_of.setdefault(region.thread(number).address, number)
    return number_of
