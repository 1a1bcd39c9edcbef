"""Range lists (2.17.3, 7.25), location lists (2.6.2, 7.29) and address ranges of units (6.1.2), in DWARF 2 to 5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import ADDRESS_INDEXES, Value
from ompd.binary.dwarf.sections import Sections, order_struct
from ompd.binary.dwarf.units import Unit, read_length
from ompd.errors import MalformedFile
from ompd.safety import limits

OF_RANGES = frozenset((dw.DW_AT_RANGES, dw.DW_AT_LOW_PC, dw.DW_AT_HIGH_PC))
"""The attributes that :func:`ranges_of` reads."""
_MAX_RANGES, _MAX_LOCATIONS = 1 << 18, 1 << 16
_EVERYWHERE = (-1, -1)


def ranges_of(unit: Unit, attributes: Mapping[int, Value]) -> list[tuple[int, int]]:
    """Return ``(start, end)`` of each range of code that an entry's *attributes* describe (2.17). Empty without code.

    Ranges at 0 are left out: they belong to code that the linker dropped.

    :raises MalformedFile: if the ranges are malformed, or the lists of the unit are too long
    """
    value = attributes.get(dw.DW_AT_RANGES)
    if value is not None:
        pairs = _new_ranges(unit, value) if unit.version >= 5 else _old_ranges(unit, value)
        return [(start, end) for start, end in pairs if 0 < start < end]
    start, high = unit.address(attributes.get(dw.DW_AT_LOW_PC)), attributes.get(dw.DW_AT_HIGH_PC)
    if not start or high is None:
        return []
    end = unit.address(high)
    if end is not None and high.form != dw.DW_FORM_ADDR and high.form not in ADDRESS_INDEXES:
        end += start  # a constant is relative to the start
    return [(start, end)] if end is not None and start < end else []


def _old_ranges(unit: Unit, value: Value) -> Iterator[tuple[int, int]]:
    # Offsets in a split unit are relative to a base in its skeleton.
    offset, sections = unit.number(value) or 0, unit.sections
    if unit.skeleton is not None:
        offset += unit.number(unit.skeleton.top.get(dw.DW_AT_GNU_RANGES_BASE)) or 0
        sections = unit.skeleton.sections
    cursor = sections.cursor(".debug_ranges", offset)
    return _old_list(unit, cursor, _range_steps(unit, cursor))


def _new_ranges(unit: Unit, value: Value) -> Iterator[tuple[int, int]]:
    cursor = _list_cursor(unit, ".debug_rnglists", value, dw.DW_FORM_RNGLISTX, dw.DW_AT_RNGLISTS_BASE)
    return _new_list(unit, cursor, _range_steps(unit, cursor))


def _range_steps(unit: Unit, cursor: Cursor) -> Iterator[None]:
    if unit.ranges_left is None:
        # Lists may share their bytes, so steps are limited by the section's size. Before DWARF 5 the limit is lower,
        # because each range takes two addresses.
        is_dwarf5 = unit.version >= 5
        size = unit.sections.size(".debug_rnglists" if is_dwarf5 else ".debug_ranges")
        most = limits.list_steps(size if is_dwarf5 else size // unit.address_size)
        unit.ranges_left = limits.Budget(most, f"{cursor.what}: the ranges of a unit's entries are too many")
    for _ in range(_MAX_RANGES):
        unit.ranges_left.spend(1)
        yield
    cursor.fail("a list of ranges does not end")


def location_at(unit: Unit, value: Value, link_address: int) -> bytes | None:
    """Return the location expression at *link_address*, from the attribute itself or its list. None if there is no
    expression.

    :raises MalformedFile: if the list is malformed
    """
    if isinstance(value.raw, bytes):
        return value.raw
    default = None
    for (start, end), expression in _locations(unit, value):
        if (start, end) == _EVERYWHERE:
            default = expression
        elif start <= link_address < end:
            return expression
    return default


def _locations(unit: Unit, value: Value) -> Iterator[tuple[tuple[int, int], bytes]]:
    if unit.version >= 5:
        cursor = _list_cursor(unit, ".debug_loclists", value, dw.DW_FORM_LOCLISTX, dw.DW_AT_LOCLISTS_BASE)
        for bounds in _new_list(unit, cursor, _location_steps(unit), locations=True):
            yield bounds, cursor.take(cursor.uleb())
        return
    offset = (unit.number(value) or 0) + unit.contribution.get(".debug_loc", 0)
    cursor = unit.sections.cursor(".debug_loc", offset)
    # A split unit of DWARF 4 has a list in GNU's format, with other numbers for the kinds of entries.
    read = _split_list if unit.sections.split else _old_list
    for bounds in read(unit, cursor, _location_steps(unit)):
        yield bounds, cursor.take(cursor.unsigned(2))


def _location_steps(unit: Unit) -> Iterator[None]:
    for number in range(_MAX_LOCATIONS):
        if number > limits.LONG_LIST:
            unit.sections.long_lists.spend(1)
        yield
    raise MalformedFile("a list of locations does not end")


def _list_cursor(unit: Unit, section: str, value: Value, index_form: int, base_attribute: int) -> Cursor:
    # An index form selects an entry of the offset table at the base; offsets there are relative to the base.
    offset, start = unit.number(value) or 0, unit.contribution.get(section, 0)
    if value.form == index_form:
        base = unit.number(unit.top.get(base_attribute))
        if base is None:
            base = (20 if unit.offset_size == 8 else 12) if unit.sections.split else 0
        start += base
        offset = unit.sections.cursor(section, start + offset * unit.offset_size).unsigned(unit.offset_size)
    return unit.sections.cursor(section, start + offset)


# These functions yield the bounds of each entry. Before the next entry, the caller reads the location that follows.


def _old_list(unit: Unit, cursor: Cursor, steps: Iterable[None]) -> Iterator[tuple[int, int]]:
    # DWARF 4, 2.17.3 and 2.6.2: pairs of addresses up to (0, 0). A pair whose start is the largest address sets the
    # base.
    pair = order_struct(unit.sections.byte_order, "QQ" if unit.address_size == 8 else "II")
    base, largest = unit.base_address, (1 << 8 * unit.address_size) - 1
    for _ in steps:
        start, end = pair.unpack(cursor.take(pair.size))
        if start == largest:
            base = end
        elif start == end == 0:
            return
        else:
            yield base + start, base + end


def _split_list(unit: Unit, cursor: Cursor, steps: Iterable[None]) -> Iterator[tuple[int, int]]:
    # Before DWARF 5, gcc and gdb give split files these kinds of entries: 0 ends the list, 1 sets the base, 2 has two
    # indexes of addresses, 3 has such an index and a length, 4 has two offsets from the base.
    base = unit.base_address
    for _ in steps:
        kind = cursor.byte()
        if kind == 0:
            return
        if kind == 1:
            base = unit.indexed_address(cursor.uleb())
        elif kind == 2:
            yield unit.indexed_address(cursor.uleb()), unit.indexed_address(cursor.uleb())
        elif kind == 3:
            start = unit.indexed_address(cursor.uleb())
            yield start, start + cursor.unsigned(4)
        elif kind == 4:
            yield base + cursor.unsigned(4), base + cursor.unsigned(4)
        else:
            cursor.fail(f"unknown kind of location {kind:#x}")


def _new_list(
    unit: Unit, cursor: Cursor, steps: Iterable[None], *, locations: bool = False
) -> Iterator[tuple[int, int]]:
    # 7.25 and 7.29: location lists have an additional kind, DW_LLE_default_location, before the last three kinds.
    base, size = unit.base_address, unit.address_size
    for _ in steps:
        kind = cursor.byte()
        if locations and kind == dw.DW_LLE_DEFAULT_LOCATION:
            yield _EVERYWHERE
            continue
        if locations and kind > dw.DW_LLE_DEFAULT_LOCATION:
            kind -= 1
        if kind == dw.DW_RLE_END_OF_LIST:
            return
        if kind == dw.DW_RLE_BASE_ADDRESSX:
            base = unit.indexed_address(cursor.uleb())
        elif kind == dw.DW_RLE_STARTX_ENDX:
            yield unit.indexed_address(cursor.uleb()), unit.indexed_address(cursor.uleb())
        elif kind == dw.DW_RLE_STARTX_LENGTH:
            start = unit.indexed_address(cursor.uleb())
            yield start, start + cursor.uleb()
        elif kind == dw.DW_RLE_OFFSET_PAIR:
            yield base + cursor.uleb(), base + cursor.uleb()
        elif kind == dw.DW_RLE_BASE_ADDRESS:
            base = cursor.unsigned(size)
        elif kind == dw.DW_RLE_START_END:
            yield cursor.unsigned(size), cursor.unsigned(size)
        elif kind == dw.DW_RLE_START_LENGTH:
            start = cursor.unsigned(size)
            yield start, start + cursor.uleb()
        else:
            cursor.fail(f"unknown kind {kind:#x} of an entry in a list")


def read_aranges(sections: Sections) -> list[tuple[int, int, int]]:
    """Return ``(start, end, unit's offset)`` of each range in ``.debug_aranges`` (6.1.2), sorted. Empty without that
    section.

    :raises MalformedFile: if the section is malformed
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
