"""Where the bytes of a name are in a module's debug information: in its sections of strings, and in which units.

A large program's debug information has millions of entries, of which a handful is needed. So the name is searched as
bytes: in the strings, then its offset there in the units. That says which units may hold it, and where. Section numbers
in comments are those of DWARF 5.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterator, Set

from ompd.binary.cursor import Bytes
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import INFO, TYPES, DebugFiles
from ompd.binary.dwarf.forms import STRING_INDEXES, SUPPLEMENTARY_REFERENCES, SUPPLEMENTARY_STRINGS
from ompd.binary.dwarf.sections import Sections
from ompd.binary.dwarf.units import Unit
from ompd.errors import MalformedFile

_MAX_STRINGS = 1 << 10
_MAX_PLACES = 1 << 20
_MAX_HITS = 64
_PIECE = 1 << 20
_FEW = 64  # strings for each of which a section is searched: more are looked for together
_REFERRING = (dw.DW_AT_ABSTRACT_ORIGIN, dw.DW_AT_SPECIFICATION, dw.DW_AT_TYPE)
_FAR_REFERENCES = frozenset((dw.DW_FORM_REF_ADDR, *SUPPLEMENTARY_REFERENCES))
_OTHER_STRINGS = ".debug_str of the supplementary file"

Key = tuple[str, int | bytes]
"""A section of strings, and an offset or index in it; ``""`` and the name itself."""
Hit = tuple[str, int | bytes, list[int] | None]
"""A key, and where its bytes were found, from the unit's start; None for not looked for, or too often."""
Hits = dict[tuple[str, int], tuple[Unit, list[Hit]]]


class NameSearch:
    """The search for names in the debug information of one module."""

    def __init__(self, files: DebugFiles) -> None:
        self.files = files
        self._all_open = False
        self._bases: dict[str, list[tuple[int, Unit]]] = {}

    def _each_section(self) -> Iterator[tuple[Sections, str]]:
        # All that types may be in, of all files: any may define the one that is looked for.
        if not self._all_open:
            self.files.open_all()
            self._all_open = True
        for sections in self.files.files:
            yield from ((sections, INFO), (sections, TYPES))

    def is_ours(self, unit: Unit) -> bool:
        """Return whether *unit* is of this program: a package may have the units of others, too."""
        return not unit.sections.split or not unit.has_code or unit.skeleton is not None

    def units_with(self, names: Collection[str]) -> list[Unit]:
        """Return the units of ``.debug_info`` that may hold one of *names*, or use what another unit has of them.

        :raises MalformedFile: if the file is malformed
        """
        places: Hits = {}
        for name in names:
            raw = name.encode("utf-8", "replace")
            places |= self.hits_of_string(raw) | self.hits_of_entry(raw)
        units = (places[key][0] for key in sorted(places))
        found = [unit for unit in units if unit.has_code and self.is_ours(unit)]
        others = self._referring() if places else ()
        return found + [unit for unit in others if key_of(unit) not in places]

    def _referring(self) -> Iterator[Unit]:
        # Units with references into others, as link-time optimisers and dwz make them.
        pairs = {(attribute, form) for attribute in _REFERRING for form in _FAR_REFERENCES}
        for sections in self.files.files:
            if not any(_find(sections, ".debug_abbrev", bytes((a,)) + uleb_bytes(form)) for a, form in pairs):
                continue
            for unit in self.files.units(sections, INFO):
                given = {pair[:2] for row in unit.abbreviations.all().values() for pair in row.attributes}
                if unit.has_code and self.is_ours(unit) and given & pairs:
                    yield unit

    def hits_of_entry(self, raw: bytes) -> Hits:
        """Return the units that may have the name *raw* in an entry itself.

        :raises MalformedFile: if the file is malformed
        """
        hits: Hits = {}
        for sections, section in self._each_section():
            self._add_hits(hits, sections, section, raw + b"\0", ("", raw))
        return hits

    def hits_of_string(self, raw: bytes) -> Hits:
        """Return the units that may refer to the name *raw* in a section of strings, and those of which an index may.

        :raises MalformedFile: if the file is malformed, or has the name too many times
        """
        hits: Hits = {}
        elsewhere = self._string_offsets(self.files.supplementary, ".debug_str", raw)
        offsets: dict[str, list[Key]] = {}
        for sections, section in self._each_section():
            if sections.tag not in offsets:
                kinds = (".debug_str", ".debug_line_str")
                keys: list[Key] = [(kind, at) for kind in kinds for at in self._string_offsets(sections, kind, raw)]
                if sections is self.files.main:
                    keys += [(_OTHER_STRINGS, at) for at in elsewhere]
                offsets[sections.tag] = keys
            for size in self.files.offset_sizes(sections, section):
                every = {offset for _, offset in offsets[sections.tag] if isinstance(offset, int)}
                present = _numbers_in(sections, section, size, every) if len(every) > _FEW else every
                for kind, offset in offsets[sections.tag]:
                    if isinstance(offset, int) and offset in present and offset < 1 << 8 * size:
                        pattern = offset.to_bytes(size, sections.byte_order)
                        self._add_hits(hits, sections, section, pattern, (kind, offset))
        for sections in self.files.files:
            strings = [at for kind, at in offsets.get(sections.tag, ()) if kind == ".debug_str"]
            for unit, index in self._indexed(sections, strings):
                hits.setdefault(key_of(unit), (unit, []))[1].append((".debug_str_offsets", index, None))
        return hits

    def _add_hits(self, hits: Hits, sections: Sections, section: str, pattern: bytes, key: Key) -> None:
        span = sections.span(section)
        starts = self.files.starts(sections, section)
        if span is None or not starts:
            return
        data, base, end = span
        position = data.find(pattern, base, end)
        while position >= 0:
            following = bisect_right(starts, position - base)
            start = base + starts[following - 1]
            limit = base + starts[following] if following < len(starts) else end
            found: list[int] | None = []
            while 0 <= position < limit and found is not None:
                found.append(position - start)
                position = data.find(pattern, position + 1, end)
                if len(found) > _MAX_HITS:
                    found = None  # bytes as those of small numbers, which are everywhere: the unit is walked instead
            unit = self.files.unit(sections, starts[following - 1], section)
            hits.setdefault(key_of(unit), (unit, []))[1].append((*key, found))
            if 0 <= position < limit:
                position = data.find(pattern, limit, end)

    def _string_offsets(self, sections: Sections | None, section: str, raw: bytes) -> list[int]:
        # Linkers let a name share the tail of a longer one, so each place where it ends a string counts.
        offsets = _find(sections, section, raw + b"\0") if sections is not None else []
        if len(offsets) > _MAX_STRINGS:
            raise MalformedFile(f"{section}: the same name too many times")
        return offsets

    def _indexed(self, sections: Sections, offsets: list[int | bytes]) -> Iterator[tuple[Unit, int]]:
        # 7.26: units that have one of these strings in their array of strings, and its index there.
        name = ".debug_str_offsets"
        if not offsets or not sections.size(name):
            return
        bases = self._string_bases(sections)
        starts = [base for base, _ in bases]
        for offset in offsets:
            if not isinstance(offset, int) or offset >= 1 << 32:
                continue
            for size in (4, 8):
                for position in _find(sections, name, offset.to_bytes(size, sections.byte_order)):
                    last = bisect_right(starts, position) - 1
                    base = starts[last] if last >= 0 else 0
                    while last >= 0 and starts[last] == base:
                        unit = bases[last][1]
                        if unit.offset_size == size and (position - base) % size == 0:
                            yield unit, (position - base) // size
                        last -= 1

    def _string_bases(self, sections: Sections) -> list[tuple[int, Unit]]:
        if sections.tag not in self._bases:
            every = (unit for section in (INFO, TYPES) for unit in self.files.units(sections, section))
            bases = [(unit.string_offsets_base, unit) for unit in every if unit.has_string_offsets]
            self._bases[sections.tag] = sorted(bases, key=lambda row: (row[0], row[1].section, row[1].offset))
        return self._bases[sections.tag]


def key_of(unit: Unit) -> tuple[str, int]:
    """Return what distinguishes a unit from all others of its module."""
    return unit.section, unit.offset


def _find(sections: Sections, section: str, pattern: bytes) -> list[int]:
    span = sections.span(section)
    return [] if span is None else [at - span[1] for at in find_all(*span, pattern)]


def _numbers_in(sections: Sections, section: str, size: int, wanted: Set[int]) -> set[int]:
    """Return which of *wanted* are anywhere in *section*, aligned or not, as numbers of *size* bytes.

    A short name ends hundreds of strings, and nobody refers to most of them there: to pass through the section for
    each would take seconds.
    """
    span = sections.span(section)
    if span is None:
        return set()
    data, start, end = span
    raw = {number.to_bytes(size, sections.byte_order): number for number in wanted if number < 1 << 8 * size}
    ours = {int.from_bytes(pattern, sys.byteorder): number for pattern, number in raw.items()}
    keys = set(ours)
    found: set[int] = set()
    for at in range(start, end, _PIECE):
        view = memoryview(data[at : min(at + _PIECE + size - 1, end)])
        for first in range(min(size, len(view))):
            last = len(view) - (len(view) - first) % size
            found |= keys.intersection(view[first:last].cast("I" if size == 4 else "Q"))
    return {ours[number] for number in found}


def find_all(data: Bytes, start: int, end: int, pattern: bytes) -> list[int]:
    """Return where *pattern* is from *start* to *end* of *data*.

    :raises MalformedFile: if it is there too many times
    """
    found: list[int] = []
    position = data.find(pattern, start, end)
    while position >= 0:
        found.append(position)
        if len(found) > _MAX_PLACES:
            raise MalformedFile("the same bytes too many times")
        position = data.find(pattern, position + 1, end)
    return found


def string_section(form: int) -> str | None:
    """Return the section that strings of a form are in, ``""`` for the entry itself, None for what is no string."""
    if form == dw.DW_FORM_STRP:
        return ".debug_str"
    if form == dw.DW_FORM_LINE_STRP:
        return ".debug_line_str"
    if form in STRING_INDEXES:
        return ".debug_str_offsets"
    if form in SUPPLEMENTARY_STRINGS:
        return _OTHER_STRINGS
    return "" if form == dw.DW_FORM_STRING else None


def uleb_bytes(value: int) -> bytes:
    """Return *value* as an unsigned LEB128 number in as few bytes as it takes."""
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)
