"""Lines and functions at addresses of one file, kept on disk for the next process that stops at the same places.

They are kept only if the file's debug information is whole: not damaged, and with all its split and supplementary
files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ompd.binary.dwarf.lines import Function, LineInfo
from ompd.binary.dwarf.units import Unit
from ompd.debugger.files.cache import FileCache, KeptRows
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.binary.dwarf.calls import Call

_WHAT = "places-2"  # the name of the entry on disk; its number changes with the format of rows
# The most rows to keep. A stack has dozens of addresses, a process with many threads has thousands.
_MAX_KEPT = 1 << 14

_NOTHING = 0  # stands for a row that is not kept: no valid row is 0

SourceLine = tuple[str, int]
"""A file and a line."""


class KeptPlaces(KeptRows):
    """The lines and functions of one file. Its methods are those of :class:`LineInfo`.

    Most results are looked up once and kept; for these, damaged debug information counts as missing. The methods
    ``function_entry``, ``calls`` and ``passed`` keep nothing, and raise the errors of :class:`LineInfo`.

    :param kept: the file's cache on disk, None without one
    """

    def __init__(self, lines: LineInfo, kept: FileCache | None) -> None:
        super().__init__(kept, _WHAT, _MAX_KEPT)
        self._lines = lines

    def _kept_or_read(self, key: str, is_valid: Callable[[object], bool], read: Callable[[], Any]) -> Any:
        # The kept row, or the one that *read* returns. None if debug information is damaged.
        row = self._rows.get(key, _NOTHING)
        if not is_valid(row):
            try:
                row = read()
            except OmpdError:
                return None
            if self._lines.is_whole:
                self._keep(key, row)
        return row

    def locate(self, link_address: int, *, entry: bool = False) -> SourceLine | None:
        key = f"{'entry' if entry else 'line'} {link_address:x}"
        return _pair(self._kept_or_read(key, _may_be_place, lambda: self._lines.locate(link_address, entry=entry)))

    def digest(self, link_address: int, file: str) -> bytes | None:
        try:
            return self._lines.digest(link_address, file)
        except OmpdError:
            return None

    def construct(self, link_address: int) -> SourceLine | None:
        key = f"construct {link_address:x}"
        return _pair(self._kept_or_read(key, _may_be_place, lambda: self._lines.construct(link_address)))

    def functions(self, link_address: int) -> Sequence[Function]:
        rows = self._kept_or_read(
            f"functions {link_address:x}", _are_functions, lambda: self._lines.functions(link_address)
        )
        return [Function(name, inlined, _pair(call)) for name, inlined, call in rows or ()]

    def has_parameter(self, link_address: int, name: str) -> bool:
        key = f"parameter {link_address:x} {name}"
        return bool(self._kept_or_read(key, _is_bool, lambda: self._lines.has_parameter(link_address, name)))

    def declared_inside(self, link_address: int) -> str | None:
        return self._name(f"inside {link_address:x}", lambda: self._lines.declared_inside(link_address))

    def function_around(self, link_address: int, linkage: str) -> str | None:
        key = f"around {link_address:x} {linkage}"
        return self._name(key, lambda: self._lines.function_around(link_address, linkage))

    def _name(self, key: str, read: Callable[[], str | None]) -> str | None:
        return self._kept_or_read(key, _may_be_name, read)  # type: ignore[no-any-return]

    def function_entry(self, link_address: int) -> tuple[Unit, int] | None:
        return self._lines.function_entry(link_address)

    def calls(self, link_address: int) -> Sequence[Call]:
        return self._lines.calls(link_address)

    def passed(self, inside: int) -> Sequence[int]:
        return self._lines.passed(inside)


def _pair(row: Any) -> SourceLine | None:
    return None if row is None else (row[0], row[1])


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _may_be_name(value: object) -> bool:
    return value is None or isinstance(value, str)


def _may_be_place(value: object) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return value is None
    return isinstance(value[0], str) and isinstance(value[1], int) and value[1] > 0


def _is_function(value: object) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return False
    return _may_be_name(value[0]) and isinstance(value[1], bool) and _may_be_place(value[2])


def _are_functions(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_function, value))
