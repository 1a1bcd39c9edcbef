"""The function at an address, and the functions that were inlined there.

All addresses are link-time addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import INFO, DebugFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.lists import OF_RANGES, ranges_of, read_aranges
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import Entry, EntryWalk, iter_entries, with_tag
from ompd.errors import MalformedFile

_MAX_RANGES = 1 << 21
_MAX_INLINED = 1 << 16


class _UnitFunctions(NamedTuple):
    # The functions of a unit that have been read, and the walk that reads the others.

    ranges: list[tuple[int, int, int]]  # start, end, offset of the entry
    remaining: Iterator[Entry]


class _Inlined(NamedTuple):
    # An inlined function. depth is the number of inlined functions around it.

    depth: int
    outer: _Inlined | None
    offset: int
    attributes: Mapping[int, Value]


class FunctionFinder:
    """Finds the entries of functions in one module's debug information by code address."""

    def __init__(self, files: DebugFiles) -> None:
        self._files = files
        self._functions: dict[tuple[str, int, bool], _UnitFunctions] = {}
        self._inlined: dict[tuple[str, int, int], list[tuple[int, int, _Inlined]]] = {}

    def entry_at(self, link_address: int) -> tuple[Unit, int] | None:
        """Return unit and offset of the entry of the function at *link_address*, None without debug information.

        :raises MalformedFile: if the entries on the way are malformed
        """
        skeleton = self.unit_at(link_address)
        unit = None if skeleton is None else self._files.whole(skeleton)
        offset = None if unit is None else self._function_at(unit, link_address)
        return None if unit is None or offset is None else (unit, offset)

    def entries_at(self, link_address: int) -> list[tuple[Unit, int, Mapping[int, Value] | None]]:
        """Return the functions at *link_address*, innermost first: unit and offset of each entry, and the attributes,
        None for a function that is not inlined.

        :raises MalformedFile: if the entries on the way are malformed
        """
        entry = self.entry_at(link_address)
        if entry is None:
            return []
        unit, offset = entry
        covering = [row[2] for row in self._inlined_in(unit, offset) if row[0] <= link_address < row[1]]
        functions: list[tuple[Unit, int, Mapping[int, Value] | None]] = []
        inlined = max(covering, key=lambda inlined: inlined.depth, default=None)
        while inlined is not None:
            functions.append((unit, inlined.offset, inlined.attributes))
            inlined = inlined.outer
        return [*functions, (unit, offset, None)]

    def unit_at(self, address: int) -> Unit | None:
        """Return the unit of the code at *address*, None if there is none.

        :raises MalformedFile: if the tables of addresses are malformed
        """
        for ranges in ("_aranges", "_unit_ranges"):
            rows: list[tuple[int, int, int]] = getattr(self, ranges)
            index = bisect_right(rows, address, key=lambda row: row[0]) - 1
            if index >= 0 and address < rows[index][1]:
                return self._files.unit(self._files.main, rows[index][2])
        return None

    @cached_property
    def _aranges(self) -> list[tuple[int, int, int]]:
        return read_aranges(self._files.main)

    @cached_property
    def _unit_ranges(self) -> list[tuple[int, int, int]]:
        # Like _aranges, for the units that are missing there. clang writes no .debug_aranges.
        with_aranges = {offset for _, _, offset in self._aranges}
        rows = []
        for unit in self._files.units(self._files.main, INFO):
            if unit.has_code and unit.offset not in with_aranges:
                rows += [(start, end, unit.offset) for start, end in ranges_of(unit, unit.top)]
                if len(rows) > _MAX_RANGES:
                    raise MalformedFile(".debug_info: units have too many ranges")
        rows.sort()
        return rows

    def _function_at(self, unit: Unit, address: int) -> int | None:
        # The offset of the entry of the function at an address. Walking through a large unit takes long, so the walk
        # stops at the function. If it finds none, a second walk also looks inside functions, because Fortran nests
        # functions.
        for outer in (True, False):
            key = unit.section, unit.offset, outer
            if key not in self._functions:
                self._functions[key] = _UnitFunctions(
                    [], iter_entries(unit, dw.DW_TAG_SUBPROGRAM, outer=outer, only=OF_RANGES)
                )
            known_ranges, remaining = self._functions[key]
            for start, end, offset in known_ranges:
                if start <= address < end:
                    return offset
            for offset, attributes in remaining:
                ranges = ranges_of(unit, attributes)
                known_ranges += [(start, end, offset) for start, end in ranges]
                if any(start <= address < end for start, end in ranges):
                    return offset
        return None

    def _inlined_in(self, unit: Unit, offset: int) -> list[tuple[int, int, _Inlined]]:
        # Start and end of each function inlined in one function.
        key = unit.section, unit.offset, offset
        if key not in self._inlined:
            rows: list[tuple[int, int, _Inlined]] = []
            around: list[tuple[int, _Inlined]] = []
            walk = EntryWalk(unit, with_tag(dw.DW_TAG_INLINED_SUBROUTINE), begin=offset)
            for count, abbreviation in enumerate(walk):
                if count >= _MAX_INLINED:
                    raise MalformedFile(".debug_info: too many functions are inlined into one", offset=offset)
                while around and not walk.is_in(around[-1][0], around[-1][1].offset):
                    around.pop()
                outer = around[-1][1] if around else None
                inlined = _Inlined(len(around), outer, walk.offset, walk.attributes(abbreviation))
                around.append((len(walk.around), inlined))
                rows += [(start, end, inlined) for start, end in ranges_of(unit, inlined.attributes)]
            self._inlined[key] = rows
        return self._inlined[key]
