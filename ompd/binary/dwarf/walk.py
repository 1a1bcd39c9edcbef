"""Iteration over the entries of a unit, and their nesting (DWARF 5, 2.3 and 7.5.2)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Abbreviation, Steps, Value
from ompd.binary.dwarf.units import Unit
from ompd.errors import MalformedFile

T = TypeVar("T")

_MAX_DEPTH = 1 << 12


class EntryWalk(Generic[T]):
    """Iterates over chosen entries of a unit, in file order.

    :param choose: called once per abbreviation. The walk yields the result for each entry with this abbreviation, and
        skips the entries if the result is None
    :param begin: offset of the first entry from the unit's start. The walk ends after this entry's children. None for
        the unit's own entry
    :param leaps: returns whether to skip the children of entries with a tag, if they have ``DW_AT_sibling``
    :param on_leaving: called with an entry's offset once the walk has passed its children
    """

    __slots__ = ("_begin", "_choose", "_leaps", "_on_leaving", "around", "following", "offset", "position", "unit")

    def __init__(
        self,
        unit: Unit,
        choose: Callable[[Abbreviation], T | None],
        *,
        begin: int | None = None,
        leaps: Callable[[int], bool] | None = None,
        on_leaving: Callable[[int], None] | None = None,
    ) -> None:
        self.unit = unit
        self.offset = 0
        """Offset of the current entry from the unit's start."""
        self.position = 0
        """Position of the current entry's attributes in the unit's buffer, or of their end once they have been read."""
        self.around: list[int] = []
        """Offsets of the enclosing entries, outermost first."""
        self._choose = choose
        self._begin = begin
        self._leaps = leaps
        self._on_leaving = on_leaving
        self.following: int | None = None
        """Position after the current entry's children if these are skipped, else None."""

    def __iter__(self) -> Iterator[T]:
        # One long function: a search spends nearly all its time here.
        unit, around, on_leaving, passed = self.unit, self.around, self._on_leaving, self.unit.forms.passed
        start, first, end = unit.bounds
        cursor = unit.cursor(first - start if self._begin is None else self._begin)
        data, position = cursor.data, cursor.position
        shapes: dict[int, tuple[T | None, bool, Steps, tuple[Steps, int] | None]] = {}
        while position < end:
            entry = position
            code = data[position]
            position += 1
            if code == 0:
                if around:
                    inner = around.pop()
                    if on_leaving is not None:
                        self.position = position
                        on_leaving(inner)
                if not around and self._begin is not None:
                    break
                continue
            if code >= 0x80:
                cursor.position = entry
                code, position = cursor.uleb(), cursor.position
            chosen, enters, steps, leap = shapes.get(code) or self._shape(shapes, code)
            following = unit.sibling(position, *leap) if leap is not None and around else None
            begin = position
            if chosen is not None:
                self.offset, self.position, self.following = entry - start, position, following
                yield chosen
                following, position = self.following, self.position
            if following is not None:
                position = following
            elif position == begin:  # otherwise the attributes have been read
                position = position + steps if isinstance(steps, int) else passed(cursor, position, steps)
            if enters and following is None:
                if len(around) > _MAX_DEPTH:
                    cursor.fail("entries are too deep in each other")
                around.append(entry - start)
            if not around and self._begin is not None:
                break
        self.position = position
        if position > end:
            cursor.position = end
            cursor.fail("an entry does not fit")

    def _shape(
        self, shapes: dict[int, tuple[T | None, bool, Steps, tuple[Steps, int] | None]], code: int
    ) -> tuple[T | None, bool, Steps, tuple[Steps, int] | None]:
        abbreviation, steps, sibling = self.unit.shape(code)
        leap = sibling if self._leaps is not None and self._leaps(abbreviation.tag) else None
        shapes[code] = self._choose(abbreviation), abbreviation.has_children, steps, leap
        return shapes[code]

    def skip(self) -> None:
        """Skip the children of the current entry."""
        if self.following is not None:
            return
        cursor = self.unit.cursor_at(self.unit.bounds[0] + self.offset)
        sibling = self.unit.shape(cursor.uleb()).sibling
        if sibling is not None:
            self.following = self.unit.sibling(cursor.position, *sibling)
        else:
            walk: EntryWalk[None] = EntryWalk(self.unit, lambda _: None, begin=self.offset, leaps=lambda _: True)
            for _ in walk:
                pass
            self.following = walk.position

    def is_in(self, depth: int, offset: int) -> bool:
        """Return whether the walk is inside the entry at *offset*, which is itself inside *depth* entries."""
        return depth < len(self.around) and self.around[depth] == offset

    def attributes(self, abbreviation: Abbreviation) -> dict[int, Value]:
        """Read and return the attributes of the current entry."""
        cursor = self.unit.cursor_at(self.position)
        attributes = self.unit.attributes(cursor, abbreviation)
        self.position = cursor.position
        return attributes


# The attributes of an abbreviation that are read, each with the steps that skip the values before it; and the steps
# that skip the values after the last.
_Selection = tuple[list[tuple[Steps, int, int, int]], Steps]


class Entry(NamedTuple):
    """An entry that a walk yields: its offset from the unit's start, and its attributes."""

    offset: int
    attributes: Mapping[int, Value]


class NestedEntry(NamedTuple):
    """An entry that :func:`iter_inside` yields. ``depth`` is the number of entries around it in the walk, ``offset``
    counts from the unit's start.

    ``enters`` is True if its children follow.
    """

    depth: int
    offset: int
    tag: int
    attributes: Mapping[int, Value]
    enters: bool


# Units, modules and namespaces: the entries that hold functions, except nested functions
_SCOPES = frozenset((dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT, dw.DW_TAG_MODULE, dw.DW_TAG_NAMESPACE))


def with_tag(tag: int) -> Callable[[Abbreviation], Abbreviation | None]:
    """Return a ``choose`` function for entries with *tag*."""
    return lambda abbreviation: abbreviation if abbreviation.tag == tag else None


def iter_entries(
    unit: Unit, tag: int, *, below: int | None = None, outer: bool = False, only: Collection[int]
) -> Iterator[Entry]:
    """Yield every entry with *tag*, in the unit's order.

    :param below: offset of an entry; only this entry and its descendants are searched
    :param outer: skip the children of entries that are not scopes, if these entries have ``DW_AT_sibling``
    :param only: the attributes to read
    :raises MalformedFile: at a malformed entry
    """
    forms, cursor = unit.forms, unit.cursor_at(unit.bounds[1])

    def choose(abbreviation: Abbreviation) -> _Selection | None:
        if abbreviation.tag != tag:
            return None
        before: list[tuple[int, int, int]] = []
        steps_to_wanted = []
        for row in abbreviation.attributes:
            if row[0] in only:
                steps_to_wanted.append((forms.steps(cursor, before), *row))
                before = []
            else:
                before.append(row)
        return steps_to_wanted, forms.steps(cursor, before)

    walk = EntryWalk(unit, choose, begin=below, leaps=(lambda tag: tag not in _SCOPES) if outer else None)
    for steps_to_wanted, other_steps in walk:
        values, position = {}, walk.position
        for steps, attribute, form, implicit in steps_to_wanted:
            cursor.position = forms.passed(cursor, position, steps)
            values[attribute] = forms.read(cursor, form, implicit)
            position = cursor.position
        walk.position = forms.passed(cursor, position, other_steps)
        yield Entry(walk.offset, values)


def iter_inside(unit: Unit, offset: int, enters: Callable[[int, Mapping[int, Value]], bool]) -> Iterator[NestedEntry]:
    """Yield the entry at *offset* and its descendants, in order.

    :param enters: called with tag and attributes of a descendant. If it returns False, the descendant's children are
        skipped
    :raises MalformedFile: at a malformed entry, or if entries are nested too deep
    """
    walk = EntryWalk(unit, lambda abbreviation: abbreviation, begin=offset)
    for abbreviation in walk:
        depth, attributes = len(walk.around), walk.attributes(abbreviation)
        entered = abbreviation.has_children and (depth == 0 or enters(abbreviation.tag, attributes))
        if abbreviation.has_children and not entered:
            walk.skip()
        yield NestedEntry(depth, walk.offset, abbreviation.tag, attributes, entered)


_MAX_PASSES = 64


class Nesting:
    """The nesting of one unit's entries, read on demand.

    If an entry has ``DW_AT_sibling`` (gcc writes it), its children are only read once one of them is requested.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        # For each entry, begin and end of those children that have children, in order
        self._inside: dict[int, list[tuple[int, int]]] = {}
        start, first, end = unit.bounds
        self._top = first - start
        # The bytes that may still be read. With contradictory ends, the same entries could be read again and again.
        self._left = _MAX_PASSES * (end - start)

    def around(self, offset: int) -> int | None:
        """Return the offset of the parent of the entry at *offset*, None for the unit's own entry.

        Offsets are from the unit's start.

        :raises MalformedFile: if entries on the way are malformed, or nested too deep
        """
        parent, entry = None, self._top
        while entry != offset:
            parent = entry
            rows = self._rows(parent)
            index = bisect_right(rows, (offset, 1 << 63)) - 1
            if index < 0 or offset >= rows[index][1]:
                break
            entry = rows[index][0]
        return parent

    def _rows(self, offset: int) -> list[tuple[int, int]]:
        if offset not in self._inside:
            end = self._read(offset)
            self._left -= end - offset
            if self._left < 0:
                raise MalformedFile(".debug_info: ends of entries that contradict each other", offset=offset)
        return self._inside[offset]

    def _read(self, offset: int) -> int:
        # Reads the children of an entry, and those of descendants without DW_AT_sibling.
        unit = self._unit
        start, _, end = unit.bounds
        children: dict[int, list[tuple[int, int]]] = {offset: []}

        def note_end(inner: int) -> None:
            if walk.around:
                children[walk.around[-1]].append((inner, walk.position - start))

        walk = EntryWalk(
            unit,
            lambda abbreviation: abbreviation.has_children or None,
            begin=offset,
            leaps=lambda _: True,
            on_leaving=note_end,
        )
        for _ in walk:
            if walk.following is not None:
                children[walk.around[-1]].append((walk.offset, walk.following - start))
            else:
                children[walk.offset] = []
        while walk.around:  # entries whose lists of children are cut off at the unit's end
            inner = walk.around.pop()
            if walk.around:
                children[walk.around[-1]].append((inner, end - start))
        self._inside.update(children)
        return walk.position - start
