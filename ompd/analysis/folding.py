"""Groups of equal stacks and of equal threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ompd.model import LocalRecord, StackRecord, ThreadRecord


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


def folded_threads(rows: Iterable[ThreadRecord]) -> Iterator[ThreadRecord]:
    """Yield one row for all equal threads of a team, in the order of their first threads.

    ``threads`` and ``thread_nums`` of a row name the threads; all else is from the first one.
    """
    groups: dict[Any, list[ThreadRecord]] = {}
    for row in rows:
        groups.setdefault((likeness(row), row.ancestors), []).append(row)
    for group in groups.values():
        yield replace(
            group[0],
            threads=tuple(row.native_thread_id for row in group),
            thread_nums=tuple(row.thread_num for row in group),
        )


def likeness(row: ThreadRecord, *, verbose: bool = False) -> tuple[Any, ...]:
    """Return what is the same in rows that differ only in number.

    :param verbose: also distinguish addresses, and all reasons for unknown facts
    """
    place = row.where or row.innermost
    address = place.address if place is not None and verbose else None
    where: Any = place and (place.function, place.file, place.line, address, row.where is None)
    if row.at_end_of is not None and not verbose:
        where = row.at_end_of
    reasons = tuple(sorted(key for key in row.unavailable if verbose or not key.startswith("ompt_")))
    in_team = row.thread_num is not None
    # Teams of the same shape in nested regions do the same work: fold their threads with equal numbers.
    number = row.thread_num if row.level is not None and row.level > 1 else in_team
    team = (row.runtime, in_team, number, row.level, row.team_size, row.parallel if row.level == 1 else None)
    # Ignore the ids of the threads that are missing at a barrier: they differ between teams.
    how = "released" if row.wait is not None and row.wait.how == "released" else None
    wait = row.wait and replace(row.wait, missing=row.wait.missing and len(row.wait.missing) * (0,), how=how)
    if wait is not None and wait.kind == "barrier":
        wait = replace(wait, object=None, value=None, generation=None)
    # The thread that ended the program gets its own row.
    may_have_failed = row.failed is not False and (row.failed or "si_addr" in row.unavailable)
    failed = row.native_thread_id if row.signal is not None and may_have_failed else None
    outside = row.outside_of_target and (row.outside_of_target.parallel, row.outside_of_target.team_size)
    own = row.ompt_state if verbose else None
    return (team, row.state, row.state_source, own, wait, where, row.about_to_begin, reasons, failed, outside)
