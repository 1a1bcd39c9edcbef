"""Groups of equal stacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ompd.model import LocalRecord, StackRecord


def folded(rows: Iterable[StackRecord]) -> Iterator[StackRecord]:
    """Yield one row for all threads with equal stacks, in the order of their first threads.

    Stacks are equal that differ in addresses only. ``threads``, ``thread_nums`` and ``ancestors`` of a row name the
    threads; all else is from the first one.
    """
    groups: dict[object, list[StackRecord]] = {}
    for row in rows:
        frames = tuple(
            (f.function, f.file, f.line, f.kind, f.construct, f.inlined, _values(f.locals)) for f in row.frames
        )
        # The stack of a failed thread is not grouped with others.
        failed = row.native_thread_id if row.failed is not False and row.signal is not None else None
        key = (
            row.runtime,
            row.idle,
            row.level,
            row.team_size,
            row.thread_num is None,
            row.stopped,
            row.about_to_begin,
            frames,
            failed,
        )
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        yield replace(
            group[0],
            threads=tuple(native for row in group for native in row.threads),
            thread_nums=tuple(number for row in group for number in row.thread_nums),
            ancestors=tuple(around for row in group for around in row.ancestors),
        )


def _values(variables: tuple[LocalRecord, ...] | None) -> object:
    return None if variables is None else tuple((v.name, v.text, v.sharing, v.iteration) for v in variables)
