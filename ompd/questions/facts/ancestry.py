"""The ancestors' numbers of a thread: in each enclosing team, the thread that began the next team."""

from __future__ import annotations

from contextlib import suppress

from ompd.contract.plugin import ParallelHandle
from ompd.errors import CorruptState, OmpdError, Unavailable

_MAX_LEVELS = 100_000


class Ancestry:
    """Numbers of ancestors, as ``omp_get_ancestor_thread_num`` returns them; those of each team are found once."""

    def __init__(self) -> None:
        self._members: dict[str, dict[int, int]] = {}
        self._begun_by: dict[str, tuple[ParallelHandle, int] | None] = {}

    def of(self, region: ParallelHandle | None) -> tuple[int, ...]:
        """Return the thread numbers of the ancestors of *region*'s threads, from level 1 inwards.

        Empty at level 1 and outside of all regions.

        :raises OmpdError: if an enclosing region, or the members of its team, cannot be read
        """
        found: list[int] = []
        seen: set[str] = set()
        while region is not None:
            if region.id in seen or len(seen) > _MAX_LEVELS:
                raise CorruptState(0, f"{region.id}: the chain of enclosing regions does not end")
            seen.add(region.id)
            around = self._around(region)
            if around is None:
                break
            region, number = around
            found.append(number)
        return tuple(reversed(found))

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
    found: dict[int, int] = {}
    for number in range(size):
        with suppress(OmpdError):  # its own row complains
            found.setdefault(region.thread(number).address, number)
    return found
