"""The walk over the entries of a unit. DWARF 5, 2.3 and 7.5.2."""

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
    """One walk over the entries of a unit, in their order, which stops at those that are chosen.

    :param choose: called with each abbreviation once; what it returns is yielded at each of its entries, which are
        passed over where that is None
    :param begin: offset of the entry to begin with, from the unit's start: the walk ends behind what is in that. The
        unit's own, if None
    :param leaps: tells by an entry's tag whether what is in it is passed over, where the file says where that ends
    :param left: called with the offset of each entry that has others in it, behind these
    """

    __slots__ = ("_begin", "_choose", "_leaps", "_left", "around", "following", "offset", "position", "unit")

    def __init__(
        self,
        unit: Unit,
        choose: Callable[[Abbreviation], T | None],
        *,
        begin: int | None = None,
        leaps: Callable[[int], bool] | None = None,
        left: Callable[[int], None] | None = None,
    ) -> None:
        self.unit = unit
        self.offset = 0
        """Where the entry is at which the walk stands, from the unit's start."""
        self.position = 0
        """Where its attributes begin in the unit's buffer, or their end once they were read; where the walk is."""
        self.around: list[int] = []
        """The offsets of the entries that it is in, outermost first."""
        self._choose = choose
        self._begin = begin
        self._leaps = leaps
        self._left = left
        self.following: int | None = None
        """Where the walk goes on behind what is in the entry, in the unit's buffer; None if it enters that."""

    def __iter__(self) -> Iterator[T]:
        # One long function, because this is where all the time of a search goes.
        unit, around, left, passed = self.unit, self.around, self._left, self.unit.forms.passed
        start, first, end = unit.bounds
        cursor = unit.cursor(first - start if self._begin is None else self._begin)
        data, position = cursor.data, cursor.position
        shapes: dict[int, tuple[T | None, bool, Steps, tuple[Steps, int] | None]] = {}
        while position < end:
            at = position
            code = data[position]
            position += 1
            if code == 0:
                if around:
                    inner = around.pop()
                    if left is not None:
                        self.position = position
                        left(inner)
                if not around and self._begin is not None:
                    break
                continue
            if code >= 0x80:
                cursor.position = at
                code, position = cursor.uleb(), cursor.position
            chosen, enters, steps, leap = shapes.get(code) or self._shape(shapes, code)
            following = unit.sibling(position, *leap) if leap is not None and around else None
            begin = position
            if chosen is not None:
                self.offset, self.position, self.following = at - start, position, following
                yield chosen
                following, position = self.following, self.position
            if following is not None:
                position = following
            elif position == begin:  # else its attributes were read
                position = position + steps if isinstance(steps, int) else passed(cursor, position, steps)
            if enters and following is None:
                if len(around) > _MAX_DEPTH:
                    cursor.fail("entries are too deep in each other")
                around.append(at - start)
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
        """Pass over what is in the entry at which the walk stands."""
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
        """Return whether the walk is in the entry at *offset*, which *depth* others are around."""
        return depth < len(self.around) and self.around[depth] == offset

    def attributes(self, abbreviation: Abbreviation) -> dict[int, Value]:
        """Read the attributes of the entry at which the walk stands."""
        cursor = self.unit.cursor_at(self.position)
        found = self.unit.attributes(cursor, abbreviation)
        self.position = cursor.position
        return found


# Those of an abbreviation's attributes that are read, each with the steps over what is before it; and the steps over
# what is behind the last.
_Selection = tuple[list[tuple[Steps, int, int, int]], Steps]


class Entry(NamedTuple):
    """An entry that a walk found: where from the unit's start, and its attributes."""

    offset: int
    attributes: Mapping[int, Value]


class NestedEntry(NamedTuple):
    """An entry that :func:`iter_inside` found: how many it is in, where from the unit's start, tag, attributes.

    ``enters`` says whether those in it follow.
    """

    depth: int
    offset: int
    tag: int
    attributes: Mapping[int, Value]
    enters: bool


# Units, modules and namespaces: what functions are in, apart from those of languages that have functions in functions
_SCOPES = frozenset((dw.DW_TAG_COMPILE_UNIT, dw.DW_TAG_PARTIAL_UNIT, dw.DW_TAG_MODULE, dw.DW_TAG_NAMESPACE))


def with_tag(tag: int) -> Callable[[Abbreviation], Abbreviation | None]:
    """Return what chooses the entries with *tag*."""
    return lambda abbreviation: abbreviation if abbreviation.tag == tag else None


def iter_entries(
    unit: Unit, tag: int, *, below: int | None = None, outer: bool = False, only: Collection[int]
) -> Iterator[Entry]:
    """Yield every entry with *tag*, in the unit's order.

    :param below: only those in the entry that is there, this one among them
    :param outer: pass over what is in entries that are no scopes, where the file says where these end
    :param only: the attributes to read
    :raises MalformedFile: when it reaches an entry that is malformed
    """
    forms, cursor = unit.forms, unit.cursor_at(unit.bounds[1])

    def choose(abbreviation: Abbreviation) -> _Selection | None:
        if abbreviation.tag != tag:
            return None
        before: list[tuple[int, int, int]] = []
        wanted = []
        for row in abbreviation.attributes:
            if row[0] in only:
                wanted.append((forms.steps(cursor, before), *row))
                before = []
            else:
                before.append(row)
        return wanted, forms.steps(cursor, before)

    walk = EntryWalk(unit, choose, begin=below, leaps=(lambda tag: tag not in _SCOPES) if outer else None)
    for wanted, rest in walk:
        found, position = {}, walk.position
        for steps, attribute, form, implicit in wanted:
            cursor.position = forms.passed(cursor, position, steps)
            found[attribute] = forms.read(cursor, form, implicit)
            position = cursor.position
        walk.position = forms.passed(cursor, position, rest)
        yield Entry(walk.offset, found)


def iter_inside(unit: Unit, offset: int, enters: Callable[[int, Mapping[int, Value]], bool]) -> Iterator[NestedEntry]:
    """Yield the entry at *offset* and those in it, in order, but what is in entries for which *enters*, which is given
    tag and attributes, is False. The one at *offset* is entered in any case.

    :raises MalformedFile: when it reaches an entry that is malformed, or they are too deep in each other
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

        walk = EntryWalk(
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
