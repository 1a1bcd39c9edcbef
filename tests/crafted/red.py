"""Crafted cases that are known not to hold yet, and why; each has to fail, or it belongs here no longer."""

from __future__ import annotations

RED = {
    "dwarf/units_without_number": "more than 2 KB are held for each unit",
    "dwarf/one_name_100000_times": "each variable of a name reads its unit again",
}
