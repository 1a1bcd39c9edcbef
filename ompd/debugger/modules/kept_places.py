"""Lines and functions at addresses of one file, and what was found of them before: of the same file, in another process
that stopped in the same place, or the same one asked again.

Only what its debug information told in whole is kept, not what a damaged file or one that is missing (split,
supplementary) left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ompd.binary.dwarf.source.lines import Function, LineInfo
from ompd.binary.dwarf.units import Unit
from ompd.debugger.files.cache import FileCache

if TYPE_CHECKING:
    from ompd.binary.dwarf.source.calls import Call

_WHAT = "places-2"  # another one where what is known changes
# A stack has some dozen addresses, a process with many threads some thousand.
_MAX_KEPT = 1 << 14

Place = tuple[str, int]


class KeptPlaces:
    """What :class:`LineInfo` says, from memory where it was found before: its methods are those of that class.

    :param kept: what is kept of the file on disk, None for nothing
    """

    def __init__(self, lines: LineInfo, kept: FileCache | None) -> None:
        self._lines = lines
        self._kept = kept
        self._is_new = False
        rows = _read(kept.get(_WHAT)) if kept is not None else {}
        self._rows: dict[str, Any] = rows if len(rows) < _MAX_KEPT else {}

    def locate(self, link_address: int, *, entry: bool = False) -> Place | None:
        key = f"{'entry' if entry else 'line'} {link_address:x}"
        if key in self._rows:
            row = self._rows[key]
            if row is None or _is_place(row):
                return None if row is None else (row[0], row[1])
        found = self._lines.locate(link_address, entry=entry)
        self._keep(key, found)
        return found

    def construct(self, link_address: int) -> Place | None:
        key = f"construct {link_address:x}"
        row = self._rows.get(key, 0)
        if row is None or _is_place(row):
            return None if row is None else (row[0], row[1])
        found = self._lines.construct(link_address)
        self._keep(key, found)
        return found

    def functions(self, link_address: int) -> Sequence[Function]:
        key = f"functions {link_address:x}"
        rows = self._rows.get(key)
        if isinstance(rows, list) and all(map(_is_function, rows)):
            return [
                Function(name, inlined, None if call is None else (call[0], call[1])) for name, inlined, call in rows
            ]
        found = self._lines.functions(link_address)
        self._keep(key, found)
        return found

    def has_parameter(self, link_address: int, name: str) -> bool:
        key = f"parameter {link_address:x} {name}"
        found = self._rows.get(key)
        if not isinstance(found, bool):
            found = self._lines.has_parameter(link_address, name)
            self._keep(key, found)
        return found

    def declared_inside(self, link_address: int) -> str | None:
        key = f"inside {link_address:x}"
        found = self._rows.get(key, 0)
        if found is not None and not isinstance(found, str):
            found = self._lines.declared_inside(link_address)
            self._keep(key, found)
        return found

    def function_around(self, link_address: int, linkage: str) -> str | None:
        key = f"around {link_address:x} {linkage}"
        found = self._rows.get(key, 0)
        if found is not None and not isinstance(found, str):
            found = self._lines.function_around(link_address, linkage)
            self._keep(key, found)
        return found

    def function_entry(self, link_address: int) -> tuple[Unit, int] | None:
        return self._lines.function_entry(link_address)

    def calls(self, link_address: int) -> Sequence[Call]:
        return self._lines.calls(link_address)

    def passed(self, inside: int) -> Sequence[int]:
        return self._lines.passed(inside)

    def _keep(self, key: str, value: object) -> None:
        if self._lines.is_whole and len(self._rows) < _MAX_KEPT:
            self._rows[key] = value
            self._is_new = True

    def save(self) -> None:
        """Keep on disk what was found, if anything was that is not there yet."""
        if self._is_new and self._kept is not None:
            self._kept.put(_WHAT, json.dumps(self._rows, separators=(",", ":")).encode())
            self._is_new = False


def _read(raw: bytes | None) -> dict[str, Any]:
    try:
        rows = json.loads(raw) if raw is not None else {}
    except (ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}


def _is_place(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], int)
        and value[1] > 0
    )


def _is_function(value: object) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return False
    name, is_inlined, call = value
    return (
        (name is None or isinstance(name, str)) and isinstance(is_inlined, bool) and (call is None or _is_place(call))
    )
