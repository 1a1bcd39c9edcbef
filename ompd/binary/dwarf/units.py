"""Units of DWARF 2 to 5: what ``.debug_info`` says at its top about each, and which addresses belong to it.

As little of DWARF as line lookup needs, read as quickly as that has to be. Section numbers in comments are those of
DWARF 5. All addresses are link-time addresses. Offsets are checked before use; what does not fit raises MalformedFile.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping
from sys import intern
from typing import NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.sections import WHOLE, Contribution, Sections, order_struct
from ompd.errors import MalformedFile
from ompd.safety import limits

DW_TAG_COMPILE_UNIT, DW_TAG_INLINED_SUBROUTINE, DW_TAG_SUBPROGRAM = 0x11, 0x1D, 0x2E
# Units, modules and namespaces: what functions are in, apart from those of languages that have functions in functions
_SCOPES = frozenset((DW_TAG_COMPILE_UNIT, 0x1E, 0x39, 0x3C))

DW_AT_NAME, DW_AT_STMT_LIST, DW_AT_LOW_PC, DW_AT_HIGH_PC, DW_AT_COMP_DIR = 0x03, 0x10, 0x11, 0x12, 0x1B
DW_AT_ABSTRACT_ORIGIN, DW_AT_SPECIFICATION = 0x31, 0x47
DW_AT_RANGES, DW_AT_STR_OFFSETS_BASE, DW_AT_ADDR_BASE, DW_AT_RNGLISTS_BASE = 0x55, 0x72, 0x73, 0x74
DW_AT_LOCLISTS_BASE = 0x8C
DW_AT_SIBLING, DW_AT_LINKAGE_NAME, DW_AT_MIPS_LINKAGE_NAME, DW_AT_SIGNATURE = 0x01, 0x6E, 0x2007, 0x69
DW_AT_CALL_FILE, DW_AT_CALL_LINE, DW_AT_LANGUAGE = 0x58, 0x59, 0x13
# Of units whose entries are in a split file; GNU's numbers are those of DWARF 4
_DW_AT_DWO_NAME, _DW_AT_GNU_DWO_NAME, _DW_AT_GNU_DWO_ID = 0x76, 0x2130, 0x2131
_DW_AT_GNU_RANGES_BASE, _DW_AT_GNU_ADDR_BASE = 0x2132, 0x2133

DW_FORM_ADDR, DW_FORM_BLOCK2, DW_FORM_BLOCK4, DW_FORM_STRING, DW_FORM_BLOCK, DW_FORM_BLOCK1 = (
    0x01,
    0x03,
    0x04,
    0x08,
    0x09,
    0x0A,
)
DW_FORM_SDATA, DW_FORM_STRP, DW_FORM_REF_ADDR, DW_FORM_INDIRECT, DW_FORM_SEC_OFFSET = 0x0D, 0x0E, 0x10, 0x16, 0x17
DW_FORM_EXPRLOC, DW_FORM_STRX, DW_FORM_ADDRX, DW_FORM_LINE_STRP, DW_FORM_IMPLICIT_CONST = 0x18, 0x1A, 0x1B, 0x1F, 0x21
DW_FORM_LOCLISTX, DW_FORM_RNGLISTX, DW_FORM_GNU_ADDR_INDEX, DW_FORM_GNU_STR_INDEX = 0x22, 0x23, 0x1F01, 0x1F02

# Forms (7.5.6) by how they are read: bytes of a fixed size, an offset of the unit's format, LEB128, or a counted block
_FIXED = {
    **{0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16},  # data1 … data16
    **{0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x20: 8, 0x1C: 4, 0x24: 8},  # ref1 … ref8, ref_sig8, ref_sup4, ref_sup8
    **{0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4},  # strx1 … addrx4
    **{0x0C: 1, 0x19: 0, DW_FORM_IMPLICIT_CONST: 0},  # flag, flag_present
}
SUPPLEMENTARY_STRINGS = frozenset((0x1D, 0x1F21))  # strp_sup, GNU_strp_alt: in another file (dwz's)
_OFFSETS = frozenset((DW_FORM_STRP, DW_FORM_LINE_STRP, DW_FORM_SEC_OFFSET, 0x1F20)) | SUPPLEMENTARY_STRINGS
_ULEB = frozenset(
    (
        *(0x0F, 0x15, DW_FORM_STRX, DW_FORM_ADDRX, DW_FORM_LOCLISTX, DW_FORM_RNGLISTX),
        *(DW_FORM_GNU_ADDR_INDEX, DW_FORM_GNU_STR_INDEX),
    )
)
UNIT_REFERENCES = frozenset((0x11, 0x12, 0x13, 0x14, 0x15))  # ref1 … ref8, ref_udata: from the unit's start
SUPPLEMENTARY_REFERENCES = frozenset((0x1C, 0x24, 0x1F20))  # ref_sup4, ref_sup8, GNU_ref_alt
DW_FORM_REF_SIG8 = 0x20  # to the type unit with that signature
_BLOCKS = {DW_FORM_BLOCK1: 1, DW_FORM_BLOCK2: 2, DW_FORM_BLOCK4: 4}
STRING_INDEX_FORMS = frozenset((DW_FORM_STRX, DW_FORM_GNU_STR_INDEX, 0x25, 0x26, 0x27, 0x28))
_ADDRESS_INDEXES = frozenset((DW_FORM_ADDRX, DW_FORM_GNU_ADDR_INDEX, 0x29, 0x2A, 0x2B, 0x2C))

_DW_UT_SKELETON = 0x04
_UNIT_TYPES_WITH_ID = (_DW_UT_SKELETON, 0x05)  # and DW_UT_split_compile: eight bytes more in the header
_UNIT_TYPES_OF_TYPES = (0x02, 0x06)
# Steps of Unit.steps that are no number of bytes
_PASS_ULEB, _PASS_STRING, _PASS_BLOCK, _PASS_INDIRECT = -1, -2, -3, -4  # below that, -4 - n: a length of n bytes

_MAX_RANGES = 1 << 18
_MAX_ABBREVIATIONS = 1 << 16
_MAX_ATTRIBUTES = 128
_MAX_DEPTH = 1 << 12


class Abbreviation(NamedTuple):
    """What entries of one abbreviation code hold (7.5.3): ``(attribute, form, implicit constant)`` in order."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]


class Entry(NamedTuple):
    """An entry that a walk found: how many it is in, where from the unit's start, and its attributes.

    ``shared`` is how many of those in which it is the entry found before is in too, or is.
    """

    depth: int
    shared: int
    offset: int
    attributes: Mapping[int, Value]


class _Shape(NamedTuple):
    # What the walk has to know of an abbreviation.
    abbreviation: Abbreviation
    has_children: bool
    steps: int | tuple[int, ...]  # Unit.steps of all attributes
    # Where the entry behind its children is known: steps to DW_AT_sibling and its form
    sibling: tuple[int | tuple[int, ...], int] | None


# What :meth:`Unit.ranges` looks at.
OF_RANGES = frozenset((DW_AT_RANGES, DW_AT_LOW_PC, DW_AT_HIGH_PC))

# Of an abbreviation's attributes those that are read, each with the steps over what is before it, and the steps over
# what is behind the last.
_Chosen = tuple[list[tuple[int | tuple[int, ...], int, int, int]], int | tuple[int, ...]]


class Inside(NamedTuple):
    """An entry that :meth:`Unit.iter_inside` found: how many it is in, where from the unit's start, tag, attributes.

    ``enters`` says whether those in it follow.
    """

    depth: int
    offset: int
    tag: int
    attributes: Mapping[int, Value]
    enters: bool


class Value(NamedTuple):
    """An attribute's value as it is in the file: a number, or the bytes of a string or block."""

    form: int
    raw: int | bytes


class Abbreviations:
    """The table of abbreviations at one offset of ``.debug_abbrev``, read as far as its codes are requested."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor: Cursor | None = cursor
        self._known: dict[int, Abbreviation] = {}

    def get(self, code: int) -> Abbreviation:
        """Return the abbreviation of *code*.

        :raises MalformedFile: if there is none, or the table is malformed
        """
        while code not in self._known:
            if self._cursor is None or len(self._known) >= _MAX_ABBREVIATIONS:
                raise MalformedFile(f".debug_abbrev: no abbreviation {code}")
            self._read_one(self._cursor)
        return self._known[code]

    def _read_one(self, cursor: Cursor) -> None:
        code = cursor.uleb()
        if code == 0:
            self._cursor = None
            return
        tag, has_children = cursor.uleb(), cursor.byte()
        attributes: list[tuple[int, int, int]] = []
        for _ in range(_MAX_ATTRIBUTES):
            attribute, form = cursor.uleb(), cursor.uleb()
            implicit = cursor.sleb() if form == DW_FORM_IMPLICIT_CONST else 0
            if attribute == 0 and form == 0:
                self._known.setdefault(code, Abbreviation(tag, bool(has_children), tuple(attributes)))
                return
            attributes.append((attribute, form, implicit))
        cursor.fail("an abbreviation has too many attributes")


class Unit:
    """One unit of ``.debug_info``, or of DWARF 4's ``.debug_types``: header and top entry (7.5.1).

    ``signature`` is that of a type unit, and ``type_offset`` where in it the type's entry is; None for others.
    ``section`` distinguishes units of one offset in different files, too.

    :param skeleton: of a unit of a split file, the one that stands for it in the module itself
    :param contribution: of a unit of a package, where its parts of other sections begin
    """

    # A file may have a unit for each twenty of its bytes.
    __slots__ = (
        *("_abbreviations", "_contribution", "_cursor", "_dwo_id", "_end", "_first", "_ranges_left", "_section"),
        *("_shapes", "_start", "_top", "abbreviations_offset", "address_size", "has_code", "offset", "offset_size"),
        *("section", "sections", "signature", "skeleton", "type_offset", "version"),
    )

    def __init__(
        self,
        sections: Sections,
        offset: int,
        section: str = ".debug_info",
        *,
        skeleton: Unit | None = None,
        contribution: Contribution = WHOLE,
    ) -> None:
        self.sections = sections
        self._section = section
        self.section = intern(section + sections.tag)
        self.offset = offset
        self.skeleton = skeleton
        self._contribution = contribution
        cursor = sections.cursor(section, offset)
        self.offset_size, length = read_length(cursor)
        self._start = cursor.position - (4 if self.offset_size == 4 else 12)
        if length > cursor.end - cursor.position:
            cursor.fail("a unit does not fit")
        self._end = cursor.end = cursor.position + length
        self.version = cursor.unsigned(2)
        if not 2 <= self.version <= 5:
            cursor.fail(f"a unit of unknown version {self.version}")
        unit_type = cursor.byte() if self.version >= 5 else 0
        if self.version >= 5:
            self.address_size = cursor.byte()
        self.abbreviations_offset = cursor.unsigned(self.offset_size) + contribution.get(".debug_abbrev", 0)
        if self.version < 5:
            self.address_size = cursor.byte()
        self._dwo_id = cursor.unsigned(8) if unit_type in _UNIT_TYPES_WITH_ID else None
        self.has_code = unit_type not in _UNIT_TYPES_OF_TYPES and section == ".debug_info"
        self.signature = None if self.has_code else cursor.unsigned(8)
        self.type_offset = None if self.has_code else cursor.unsigned(self.offset_size)
        if self.address_size not in (4, 8):
            cursor.fail(f"a unit with addresses of {self.address_size} bytes")
        self._cursor = cursor
        self._first = cursor.position
        self._abbreviations: Abbreviations | None = None
        self._shapes: dict[int, _Shape] = {}
        self._ranges_left: limits.Budget | None = None
        self._top: Mapping[int, Value] | None = None

    @property
    def dwo_id(self) -> int | None:
        """By what a skeleton and its unit in a split file know each other; None for a unit that is neither."""
        return self._dwo_id if self.version >= 5 else self.number(self.top.get(_DW_AT_GNU_DWO_ID))

    @property
    def split_name(self) -> str | None:
        """The name of the split file that has this unit's entries, None if it is no skeleton."""
        if self.sections.split:
            return None
        return self.string(self.top.get(_DW_AT_DWO_NAME if self.version >= 5 else _DW_AT_GNU_DWO_NAME))

    @property
    def span(self) -> tuple[bytes | mmap.mmap, int, int]:
        """A buffer with the section that the unit is in, its start and its end there."""
        return self.sections.span(self._section) or (b"", 0, 0)

    @property
    def section_base(self) -> int:
        """What offsets of whole sections count from: 0, but in a package, which has many units' sections in one."""
        return self._contribution.get(self._section, 0)

    @property
    def next_offset(self) -> int:
        """Offset of the unit behind this one."""
        return self.offset + self._end - self._start

    # Entries

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Where in the section's buffer the unit, its first entry and its end are."""
        return self._start, self._first, self._end

    def cursor(self, offset: int) -> Cursor:
        """Return a cursor *offset* bytes from the unit's start, up to its end.

        :raises MalformedFile: if no entry can be there
        """
        if not self._first <= self._start + offset <= self._end:
            self._cursor.fail(f"no entry at {offset:#x} of a unit")
        cursor = self.sections.cursor(self._section, self.offset + offset)
        cursor.end = self._end
        return cursor

    @property
    def abbreviations(self) -> Abbreviations:
        if self._abbreviations is None:
            self._abbreviations = self.sections.once(".debug_abbrev", self.abbreviations_offset, Abbreviations)
        return self._abbreviations

    @property
    def top(self) -> Mapping[int, Value]:
        """Attributes of the unit's own entry."""
        if self._top is None:
            self._top = self.entry_at(self._first - self._start)[1]
        return self._top

    def entry_at(self, offset: int) -> tuple[int, Mapping[int, Value]]:
        """Return tag and attributes of the entry *offset* bytes from the unit's start.

        :raises MalformedFile: if there is none
        """
        cursor = self._cursor
        if not self._first <= self._start + offset < self._end:
            cursor.fail(f"no entry at {offset:#x} of a unit")
        cursor.position = self._start + offset
        code = cursor.uleb()
        if code == 0:
            return 0, {}
        abbreviation = self.abbreviations.get(code)
        return abbreviation.tag, self._attributes(cursor, abbreviation)

    def _attributes(self, cursor: Cursor, abbreviation: Abbreviation) -> dict[int, Value]:
        return {
            attribute: self.read_form(cursor, form, implicit) for attribute, form, implicit in abbreviation.attributes
        }

    def iter_entries(
        self, tag: int, *, below: int | None = None, outer: bool = False, only: Collection[int] | None = None
    ) -> Iterator[Entry]:
        """Yield every entry with *tag*, in the unit's order.

        :param below: only those in the entry that is there, this one among them; their depth counts from it
        :param outer: pass over what is in entries that are no scopes, where the file says where these end
        :param only: the attributes to read, all if None
        :raises MalformedFile: when it reaches an entry that is malformed
        """
        # One long function, because this is where all the time of the first lookup in a unit goes.
        cursor = self._cursor if below is None else self.cursor(below)
        data, shapes, end = cursor.data, self._shapes, self._end
        position = self._first if below is None else cursor.position
        depth = shared = 0
        chosen: dict[int, _Chosen] = {}
        while position < end:
            at = position
            code = data[position]
            position += 1
            if code == 0:
                depth -= 1
                shared = min(shared, depth)
                if depth <= 0 and below is not None:
                    return
                continue
            if code >= 0x80:
                cursor.position = at
                code, position = cursor.uleb(), cursor.position
            abbreviation, inside, steps, sibling = shapes.get(code) or self._shape(code)
            following = None
            if outer and sibling is not None and abbreviation.tag not in _SCOPES:
                following, inside = self._sibling(position, *sibling), False
            if abbreviation.tag == tag:
                cursor.position = position
                if only is None:
                    attributes = self._attributes(cursor, abbreviation)
                else:
                    if code not in chosen:
                        chosen[code] = self._choose(abbreviation, only)
                    attributes = self._chosen_attributes(cursor, chosen[code])
                position = cursor.position if following is None else following
                yield Entry(depth, shared, at - self._start, attributes)
                shared = depth + inside
            elif following is not None:
                position = following
            else:
                position = position + steps if isinstance(steps, int) else self.passed(position, steps)
            if inside:
                depth += 1
            elif depth == 0 and below is not None:
                return

    def _choose(self, abbreviation: Abbreviation, only: Collection[int]) -> _Chosen:
        before: list[tuple[int, int, int]] = []
        wanted = []
        for told in abbreviation.attributes:
            if told[0] in only:
                wanted.append((self.steps(tuple(before)), *told))
                before = []
            else:
                before.append(told)
        return wanted, self.steps(tuple(before))

    def _chosen_attributes(self, cursor: Cursor, chosen: _Chosen) -> dict[int, Value]:
        wanted, rest = chosen
        found = {}
        for steps, attribute, form, implicit in wanted:
            position = cursor.position
            cursor.position = position + steps if isinstance(steps, int) else self.passed(position, steps)
            found[attribute] = self.read_form(cursor, form, implicit)
        position = cursor.position
        cursor.position = position + rest if isinstance(rest, int) else self.passed(position, rest)
        return found

    def iter_inside(self, offset: int, enters: Callable[[int, Mapping[int, Value]], bool]) -> Iterator[Inside]:
        """Yield the entry at *offset* and those in it, in order, but what is in entries for which *enters*, which is
        given tag and attributes, is False. The one at *offset* is entered in any case.

        :raises MalformedFile: when it reaches an entry that is malformed, or they are too deep in each other
        """
        cursor = self.cursor(offset)
        data, shapes, end = cursor.data, self._shapes, self._end
        position = cursor.position
        depth = 0
        passing: int | None = None  # the depth of an entry that is not entered
        while position < end:
            at = position
            code = data[position]
            position += 1
            if code == 0:
                depth -= 1
                if depth <= 0:
                    return
                if passing is not None and depth <= passing:
                    passing = None
                continue
            if code >= 0x80:
                cursor.position = at
                code, position = cursor.uleb(), cursor.position
            abbreviation, has_children, steps, sibling = shapes.get(code) or self._shape(code)
            following: int | None = None
            if passing is None:
                cursor.position = position
                attributes = self._attributes(cursor, abbreviation)
                entered = has_children and (depth == 0 or enters(abbreviation.tag, attributes))
                yield Inside(depth, at - self._start, abbreviation.tag, attributes, entered)
                if has_children and not entered:
                    following = self._sibling(position, *sibling) if sibling is not None else None
                    passing = depth if following is None else None
                position = cursor.position if following is None else following
            elif sibling is not None:
                following = position = self._sibling(position, *sibling)
            else:
                position = position + steps if isinstance(steps, int) else self.passed(position, steps)
            if has_children and following is None:
                depth += 1
                if depth > _MAX_DEPTH:
                    self._cursor.fail("entries are too deep in each other")
            elif depth == 0:
                return

    def nesting(self, offset: int) -> tuple[dict[int, list[tuple[int, int]]], int]:
        """Return where those entries begin and end, in order, that are right in the one at *offset* and have entries
        in them; and the same of each of these that does not say its end, since it had to be walked through. The
        number is where the entry ends itself.

        :raises MalformedFile: if the entries are malformed, or too deep in each other
        """
        data, shapes, end = self._cursor.data, self._shapes, self._end
        position = self.cursor(offset).position
        found: dict[int, list[tuple[int, int]]] = {}
        around: list[tuple[int, list[tuple[int, int]]]] = []
        while position < end:
            at = position
            code = data[position]
            position += 1
            if code == 0:
                inner, rows = around.pop()
                found[inner] = rows
                if not around:
                    return found, position - self._start
                around[-1][1].append((inner, position - self._start))
                continue
            if code >= 0x80:
                self._cursor.position = at
                code, position = self._cursor.uleb(), self._cursor.position
            _, has_children, steps, sibling = shapes.get(code) or self._shape(code)
            if has_children and sibling is not None and around:
                position = self._sibling(position, *sibling)
                around[-1][1].append((at - self._start, position - self._start))
                continue
            position = position + steps if isinstance(steps, int) else self.passed(position, steps)
            if has_children:
                if len(around) > _MAX_DEPTH:
                    self._cursor.fail("entries are too deep in each other")
                around.append((at - self._start, []))
            elif not around:
                return {offset: []}, position - self._start
        # The lists of children that the unit's end cuts off
        while around:
            inner, rows = around.pop()
            found[inner] = rows
            if around:
                around[-1][1].append((inner, end - self._start))
        return found, end - self._start

    def _shape(self, code: int) -> _Shape:
        if code not in self._shapes:
            abbreviation = self.abbreviations.get(code)
            _, has_children, attributes = abbreviation
            sibling = None
            for index, (attribute, form, _) in enumerate(attributes):
                if attribute == DW_AT_SIBLING and form in UNIT_REFERENCES and has_children:
                    sibling = self.steps(attributes[:index]), form
            self._shapes[code] = _Shape(abbreviation, has_children, self.steps(attributes), sibling)
        return self._shapes[code]

    def _sibling(self, position: int, steps: int | tuple[int, ...], form: int) -> int:
        # Where the entry is that follows the one whose attributes begin at *position*, and all that is in that.
        cursor = self._cursor
        cursor.position = position + steps if isinstance(steps, int) else self.passed(position, steps)
        raw = self.read_form(cursor, form).raw
        following = self._start + raw if isinstance(raw, int) else 0
        if not cursor.position <= following <= self._end:
            cursor.fail("an entry is followed by one before it")
        return following

    def size_of(self, form: int) -> int | None:
        """Return how many bytes a value of *form* takes, None if that differs or the form is unknown."""
        if form in _OFFSETS:
            return self.offset_size
        if form == DW_FORM_ADDR:
            return self.address_size
        if form == DW_FORM_REF_ADDR:  # had the size of an address in DWARF 2
            return self.address_size if self.version == 2 else self.offset_size
        return _FIXED.get(form)

    def read_form(self, cursor: Cursor, form: int, implicit: int = 0, offset_size: int | None = None) -> Value:
        """Return the value of *form* at *cursor*.

        :param offset_size: of the table that *cursor* is in, where that is not the unit's
        :raises MalformedFile: if the form is unknown or does not fit
        """
        if form == DW_FORM_INDIRECT:
            form = cursor.uleb()
        if form == DW_FORM_IMPLICIT_CONST:
            return Value(form, implicit)
        size = offset_size if offset_size is not None and form in _OFFSETS else self.size_of(form)
        if size is not None:
            return Value(form, cursor.unsigned(size))
        if form in _ULEB:
            return Value(form, cursor.uleb())
        if form == DW_FORM_SDATA:
            return Value(form, cursor.sleb())
        if form == DW_FORM_STRING:
            return Value(form, cursor.string())
        if form in _BLOCKS:
            return Value(form, cursor.take(cursor.unsigned(_BLOCKS[form])))
        if form in (DW_FORM_BLOCK, DW_FORM_EXPRLOC):
            return Value(form, cursor.take(cursor.uleb()))
        cursor.fail(f"unknown form {form:#x}")

    def steps(self, attributes: tuple[tuple[int, int, int], ...]) -> int | tuple[int, ...]:
        """Return how to pass over the values of *attributes*: how many bytes, or steps for :func:`passed`.

        :raises MalformedFile: if a form is unknown
        """
        steps = [0]
        for _, form, _ in attributes:
            size = self.size_of(form)
            if size is not None and steps[-1] >= 0:
                steps[-1] += size
            elif size is not None:
                steps.append(size)
            elif form in _ULEB or form == DW_FORM_SDATA:
                steps.append(_PASS_ULEB)
            elif form == DW_FORM_STRING:
                steps.append(_PASS_STRING)
            elif form in (DW_FORM_BLOCK, DW_FORM_EXPRLOC):
                steps.append(_PASS_BLOCK)
            elif form in _BLOCKS:
                steps.append(_PASS_INDIRECT - _BLOCKS[form])
            elif form == DW_FORM_INDIRECT:
                steps.append(_PASS_INDIRECT)
            else:
                self._cursor.fail(f"unknown form {form:#x}")
        return steps[0] if len(steps) == 1 else tuple(steps)

    def passed(self, position: int, steps: tuple[int, ...]) -> int:
        """Return the position in the section's buffer behind values that :meth:`steps` describe, from *position* on.

        :raises MalformedFile: if they do not fit
        """
        cursor = self._cursor
        data, end = cursor.data, self._end
        for step in steps:
            if step >= 0:
                position += step
            elif position < end and data[position] < 0x80 and step in (_PASS_ULEB, _PASS_BLOCK):
                position += 1 if step == _PASS_ULEB else 1 + data[position]
            else:
                position = self._passed_one(position, step)
        return position

    def _passed_one(self, position: int, step: int) -> int:
        cursor = self._cursor
        cursor.position = position
        if step == _PASS_ULEB:
            cursor.uleb()
        elif step == _PASS_STRING:
            cursor.string()
        elif step == _PASS_BLOCK:
            cursor.take(cursor.uleb())
        elif step == _PASS_INDIRECT:
            self.read_form(cursor, DW_FORM_INDIRECT)
        else:
            cursor.take(cursor.unsigned(_PASS_INDIRECT - step))
        return cursor.position

    # Values

    def number(self, value: Value | None) -> int | None:
        """Return a constant or offset, None if there is none."""
        return value.raw if value is not None and isinstance(value.raw, int) else None

    def string(self, value: Value | None) -> str | None:
        """Return a string, None if there is none, or it is kept in another file (dwz's) that is not available."""
        if value is None:
            return None
        form, raw = value
        if isinstance(raw, int):
            if form in STRING_INDEX_FORMS:
                offset = self.string_offsets_base + raw * self.offset_size
                raw = self.sections.cursor(".debug_str_offsets", offset).unsigned(self.offset_size)
                form = DW_FORM_STRP
            if form == DW_FORM_STRP:
                raw = self.sections.string(".debug_str", raw)
            elif form == DW_FORM_LINE_STRP:
                raw = self.sections.string(".debug_line_str", raw)
            elif form in SUPPLEMENTARY_STRINGS and self.sections.supplementary is not None:
                other = self.sections.supplementary()
                if other is None:
                    return None
                raw = other.string(".debug_str", raw)
            else:
                return None
        return raw.decode("utf-8", "replace")

    @property
    def has_string_offsets(self) -> bool:
        """Whether strings of the unit are given by indexes."""
        return DW_AT_STR_OFFSETS_BASE in self.top or (
            self.sections.split and self.sections.size(".debug_str_offsets") > 0
        )

    @property
    def string_offsets_base(self) -> int:
        """Where in ``.debug_str_offsets`` the unit's strings begin."""
        base = self.number(self.top.get(DW_AT_STR_OFFSETS_BASE))
        if base is None and self.sections.split and self.version >= 5:
            base = 16 if self.offset_size == 8 else 8  # 7.3.2.2: a split file has one table, behind its header
        return (base or 0) + self._contribution.get(".debug_str_offsets", 0)

    def address(self, value: Value | None) -> int | None:
        """Return an address, None if there is none."""
        if value is None or not isinstance(value.raw, int):
            return None
        return self.indexed_address(value.raw) if value.form in _ADDRESS_INDEXES else value.raw

    def indexed_address(self, index: int) -> int:
        """Return the address at *index* of the unit's table of addresses.

        :raises MalformedFile: if there is none
        """
        # Of a split file the linker fills in nothing: its addresses are in the module.
        home = self.skeleton or self
        attribute = DW_AT_ADDR_BASE if home.version >= 5 else _DW_AT_GNU_ADDR_BASE
        base = self.number(home.top.get(attribute)) or 0
        return home.sections.cursor(".debug_addr", base + index * self.address_size).unsigned(self.address_size)

    # Ranges

    def ranges(self, attributes: Mapping[int, Value]) -> list[tuple[int, int]]:
        """Return ``(start, end)`` of the code that an entry's *attributes* describe (2.17); empty if it has none.

        What begins at 0 is left out: linkers leave that behind where they dropped the code.
        """
        value = attributes.get(DW_AT_RANGES)
        if value is not None:
            pairs = self._rnglist(value) if self.version >= 5 else self._old_ranges(value)
            return [(start, end) for start, end in pairs if 0 < start < end]
        start, high = self.address(attributes.get(DW_AT_LOW_PC)), attributes.get(DW_AT_HIGH_PC)
        if not start or high is None:
            return []
        end = self.address(high)
        if end is not None and high.form != DW_FORM_ADDR and high.form not in _ADDRESS_INDEXES:
            end += start  # a constant counts from the start
        return [(start, end)] if end is not None and start < end else []

    @property
    def base_address(self) -> int:
        """What addresses in the unit's lists count from at first."""
        home = self.skeleton or self
        return home.address(home.top.get(DW_AT_LOW_PC)) or 0

    def _old_ranges(self, value: Value) -> Iterator[tuple[int, int]]:
        # DWARF 4, 2.17.3: pairs of addresses up to (0, 0); the largest address as start sets the base. A split file's
        # offsets count from a base that its skeleton says.
        offset, sections = self.number(value) or 0, self.sections
        if self.skeleton is not None:
            offset += self.number(self.skeleton.top.get(_DW_AT_GNU_RANGES_BASE)) or 0
            sections = self.skeleton.sections
        cursor = sections.cursor(".debug_ranges", offset)
        pair = order_struct(sections.byte_order, "QQ" if self.address_size == 8 else "II")
        base, largest = self.base_address, (1 << 8 * self.address_size) - 1
        for _ in self._range_steps(cursor):
            start, end = pair.unpack(cursor.take(pair.size))
            if start == largest:
                base = end
            elif start == end == 0:
                return
            else:
                yield base + start, base + end

    def _rnglist(self, value: Value) -> Iterator[tuple[int, int]]:
        # 7.25. rnglistx counts entries of an array of offsets, which is at the base and is what they count from.
        offset, start = self.number(value) or 0, self._contribution.get(".debug_rnglists", 0)
        if value.form == DW_FORM_RNGLISTX:
            base_offset = self.number(self.top.get(DW_AT_RNGLISTS_BASE))
            if base_offset is None:
                base_offset = (20 if self.offset_size == 8 else 12) if self.sections.split else 0
            start += base_offset
            entry = self.sections.cursor(".debug_rnglists", start + offset * self.offset_size)
            offset = entry.unsigned(self.offset_size)
        cursor = self.sections.cursor(".debug_rnglists", start + offset)
        base = self.base_address
        for _ in self._range_steps(cursor):
            kind = cursor.byte()
            if kind == 0x00:  # DW_RLE_end_of_list
                return
            if kind == 0x01:  # base_addressx
                base = self.indexed_address(cursor.uleb())
            elif kind == 0x02:  # startx_endx
                yield self.indexed_address(cursor.uleb()), self.indexed_address(cursor.uleb())
            elif kind == 0x03:  # startx_length
                start = self.indexed_address(cursor.uleb())
                yield start, start + cursor.uleb()
            elif kind == 0x04:  # offset_pair
                yield base + cursor.uleb(), base + cursor.uleb()
            elif kind == 0x05:  # base_address
                base = cursor.unsigned(self.address_size)
            elif kind == 0x06:  # start_end
                yield cursor.unsigned(self.address_size), cursor.unsigned(self.address_size)
            elif kind == 0x07:  # start_length
                start = cursor.unsigned(self.address_size)
                yield start, start + cursor.uleb()
            else:
                cursor.fail(f"unknown kind of range {kind:#x}")

    def loclist_cursor(self, value: Value) -> Cursor:
        """Return a cursor at the list of locations that an attribute's value gives (DWARF 5, 7.29; 4, 2.6.2).

        :raises MalformedFile: if there is none
        """
        offset = self.number(value) or 0
        if self.version < 5:
            return self.sections.cursor(".debug_loc", offset + self._contribution.get(".debug_loc", 0))
        section, start = ".debug_loclists", self._contribution.get(".debug_loclists", 0)
        if value.form == DW_FORM_LOCLISTX:
            base = self.number(self.top.get(DW_AT_LOCLISTS_BASE))
            if base is None:
                base = (20 if self.offset_size == 8 else 12) if self.sections.split else 0
            start += base
            offset = self.sections.cursor(section, start + offset * self.offset_size).unsigned(self.offset_size)
        return self.sections.cursor(section, start + offset)

    def _range_steps(self, cursor: Cursor) -> Iterator[None]:
        if self._ranges_left is None:
            # Lists may share their bytes. Before DWARF 5 a range is two addresses.
            new = self.version >= 5
            size = self.sections.size(".debug_rnglists" if new else ".debug_ranges")
            most = limits.list_steps(size if new else size // self.address_size)
            self._ranges_left = limits.Budget(most, f"{cursor.what}: the ranges of a unit's entries are too many")
        for _ in range(_MAX_RANGES):
            self._ranges_left.spend(1)
            yield
        cursor.fail("a list of ranges does not end")


def read_length(cursor: Cursor) -> tuple[int, int]:
    """Return the size of offsets, 4 or 8, and the length that follow from an initial length (7.4)."""
    length = cursor.unsigned(4)
    if length < 0xFFFFFFF0:
        return 4, length
    if length != 0xFFFFFFFF:
        cursor.fail(f"a length of {length:#x}")
    return 8, cursor.unsigned(8)


def read_aranges(sections: Sections) -> list[tuple[int, int, int]]:
    """Return ``(start, end, unit's offset)`` of ``.debug_aranges`` (6.1.2), sorted; empty if the file has none.

    :raises MalformedFile: if it is malformed
    """
    rows = []
    offset, size = 0, sections.size(".debug_aranges")
    while offset < size:
        cursor = sections.cursor(".debug_aranges", offset)
        start = cursor.position
        offset_size, length = read_length(cursor)
        if length > cursor.end - cursor.position:
            cursor.fail("a set of ranges does not fit")
        cursor.end = cursor.position + length
        cursor.unsigned(2)
        unit_offset = cursor.unsigned(offset_size)
        address_size, segment_size = cursor.byte(), cursor.byte()
        if address_size not in (4, 8) or segment_size:
            cursor.fail("a set of ranges with segments, or addresses of another size")
        pair = order_struct(sections.byte_order, "QQ" if address_size == 8 else "II")
        cursor.take(-(cursor.position - start) % pair.size)
        remaining = cursor.end - cursor.position
        for begin, count in pair.iter_unpack(cursor.take(remaining - remaining % pair.size)):
            if begin and count:
                rows.append((begin, begin + count, unit_offset))
        offset += cursor.end - start
    rows.sort()
    return rows
