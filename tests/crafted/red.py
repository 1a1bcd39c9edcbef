"""Crafted cases that are known not to hold yet, and why; each has to fail, or it belongs here no longer."""

from __future__ import annotations

_HOLES = "what is a hole on the disk is read, or held"
_SHARED = "bytes that many share are read, or held, once for each"
RED = {
    "cores/notes_that_share_a_megabyte": _SHARED,
    "cores/a_note_over_a_hole": _HOLES,
    "cores/a_file_note_over_a_hole": _HOLES,
    "cores/segments_over_a_hole": _HOLES,
    "compression/members_without_bytes-zstd": "each member is paid for, however empty",
    "compression/nothing_but_members_without_bytes-zstd": "each member is paid for, however empty",
    "compression/nothing_but_members_without_bytes-lz4": "each member is paid for, however empty",
    "modules/one_name_for_20000_sections": _SHARED,
    "modules/names_that_share_their_ends": _SHARED,
    "modules/section_names_of_an_odd_size-names-hole": _HOLES,
    "modules/symbols_over_a_hole": _HOLES,
    "modules/build_ids_60000_times": _SHARED,
    "modules/note_segments_60000_times": _SHARED,
    "modules/a_minidebuginfo_bomb": "what it inflates to is held",
    "dwarf/units_without_number": "2 KB are held for each unit",
    "dwarf/one_name_100000_times": "each variable of a name reads its unit again",
    "dwarf/ranges_that_are_shared": _SHARED,
    "dwarf/lists_of_locations_that_are_shared": _SHARED,
    "dwarf/rows_without_number-10M": "all rows of a line table are held",
    "dwarf/rows_without_number-60M": "all rows of a line table are held",
    "stored/a_snapshot_that_lies-lines": "all rows of a line table are held",
    "unwinding/entries_over_a_hole-1G": _HOLES,
}
