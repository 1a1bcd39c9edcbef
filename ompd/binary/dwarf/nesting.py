"""Which entry of a unit is in which: the functions, blocks, types and namespaces around it."""

from __future__ import annotations

from bisect import bisect_right

from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import Walk
from ompd.errors import MalformedFile

_MAX_PASSES = 64


class Nesting:
    """Which entry of one unit is in which, as far as that was requested.

    Where the file gives an entry's end (gcc does), nothing in it is looked at before something there is needed.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        # Of an entry where those begin and end, in order, that are right in it and have others in them
        self._inside: dict[int, list[tuple[int, int]]] = {}
        start, first, end = unit.bounds
        self._top = first - start
        # Entries whose ends are about each other may be walked through again and again.
        self._left = _MAX_PASSES * (end - start)

    def around(self, offset: int) -> int | None:
        """Return the entry in which the one at *offset* is, None for the unit's own. Offsets are from the unit's start.

        :raises MalformedFile: if the entries that lead there are malformed, or too deep in each other
        """
        parent, found = None, self._top
        while found != offset:
            parent = found
            rows = self._rows(parent)
            index = bisect_right(rows, (offset, 1 << 63)) - 1
            if index < 0 or offset >= rows[index][1]:
                break
            found = rows[index][0]
        return parent

    def _rows(self, offset: int) -> list[tuple[int, int]]:
        if offset not in self._inside:
            end = self._read(offset)
            self._left -= end - offset
            if self._left < 0:
                raise MalformedFile(".debug_info: ends of entries that contradict each other", offset=offset)
        return self._inside[offset]

    def _read(self, offset: int) -> int:
        # Of those in the entry that do not say their ends, what is in them is known then, too.
        unit = self._unit
        start, _, end = unit.bounds
        found: dict[int, list[tuple[int, int]]] = {offset: []}

        def left(inner: int) -> None:
            if walk.around:
                found[walk.around[-1]].append((inner, walk.position - start))

        walk = Walk(
            unit, lambda abbreviation: abbreviation.has_children or None, begin=offset, leaps=lambda _: True, left=left
        )
        for _ in walk:
            if walk.following is not None:
                found[walk.around[-1]].append((walk.offset, walk.following - start))
            else:
                found[walk.offset] = []
        while walk.around:  # the lists of children that the unit's end cuts off
            inner = walk.around.pop()
            if walk.around:
                found[walk.around[-1]].append((inner, end - start))
        self._inside.update(found)
        return walk.position - start
