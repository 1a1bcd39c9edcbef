"""Layouts of structures from one file's debug information, kept on disk for this and other processes.

To find a type in a runtime's debug information takes as long as all other queries of that information together. As in
:mod:`ompd.debugger.modules.kept_places`, layouts are kept only if the debug information is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ompd.contract.memory import Field, StructLayout
from ompd.debugger.files.cache import FileCache, KeptRows

SOURCE = "dwarf"
_WHAT = "layouts-1"  # the name of the entry on disk; its number changes with the content of rows
_MAX_KEPT = 1 << 10
_MAX_SIZE = 1 << 48  # bytes of a type


class KeptLayouts(KeptRows):
    """The kept layouts of one file.

    :param kept: the file's cache on disk, None without one
    """

    def __init__(self, kept: FileCache | None) -> None:
        super().__init__(kept, _WHAT, _MAX_KEPT)

    def get(self, name: str, members: Sequence[str]) -> StructLayout | None:
        """Return the kept layout of the structure *name* with *members*, None without one."""
        return _layout(name, frozenset(members), self._rows.get(_key(name, members)))

    def put(self, members: Sequence[str], layout: StructLayout) -> None:
        """Keep *layout*, the result of a search for *members*."""
        places = {path: (where.offset, where.size) for path, where in layout.fields.items()}
        self._keep(_key(layout.name, members), [layout.size, places, dict(layout.masks)])


def _key(name: str, members: Iterable[str]) -> str:
    return "\n".join((name, *members))


def _layout(name: str, members: frozenset[str], row: object) -> StructLayout | None:
    # The layout in a kept row, None if the row has another form.
    if not isinstance(row, (list, tuple)) or len(row) != 3:
        return None
    size, places, masks = row
    if not _is_number(size) or not _are_of(members, places) or not _are_of(members, masks):
        return None
    if not all(map(_is_place, places.values())) or not all(map(_is_mask, masks.values())):
        return None
    fields = {path: Field(offset, width) for path, (offset, width) in places.items()}
    return StructLayout(name, size, fields, SOURCE, dict(masks))


def _is_number(value: object) -> bool:
    return value.__class__ is int and isinstance(value, int) and 0 <= value < _MAX_SIZE


def _is_mask(value: object) -> bool:
    return value.__class__ is int and isinstance(value, int) and value > 0


def _is_place(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_number, value))


def _are_of(members: frozenset[str], value: object) -> bool:
    return isinstance(value, Mapping) and members.issuperset(value)
