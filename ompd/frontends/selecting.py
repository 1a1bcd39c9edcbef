"""Finds and describes threads by their OpenMP numbers, for the commands at a debugger's prompt."""

from __future__ import annotations

from ompd.errors import BadInput, NoAnswer, OmpdError
from ompd.inspection import Inspection
from ompd.model import ParallelRecord, StackFrame, ThreadRecord
from ompd.render.answers.threads import path_of
from ompd.render.words import UNKNOWN, format_count, format_numbers


def region_of(session: Inspection, native: int, level: int | None) -> ParallelRecord | None:
    """Return the innermost region of the thread *native*, or its enclosing region at *level*, None outside all regions.

    For a thread in no team, return the only region of the process.

    :raises BadInput: if there is no such region, or the thread is in no team and there is not exactly one region
    """
    regions = {(region.runtime, region.id): region for region in session.ask_parallel().rows}
    row = _row(session, native)
    if row is None and len(regions) != 1:
        raise BadInput(
            f"the selected thread, {native}, is in no team", hint="select one that is: ompd threads shows them"
        )
    if row is None:
        (only,) = regions.values()
        if level not in (None, only.level):
            raise BadInput(f"thread {native} is in no region of level {level}")
        return only
    region = regions.get((row.runtime or "", row.parallel or ""))
    if level == 0:
        raise BadInput("regions have levels from 1 on")
    while level is not None and region is not None and region.level != level:
        region = regions.get((region.runtime, region.enclosing or ""))
    if level is not None and region is None:
        raise BadInput(f"thread {native} is in no region of level {level}")
    return region


def _row(session: Inspection, native: int) -> ThreadRecord | None:
    # Return the row of the thread *native*, None if it is in no team.
    rows = session.ask_threads().rows
    return next((row for row in rows if row.native_thread_id == native and row.thread_num is not None), None)


def member_of(region: ParallelRecord | None, native: int, number: int) -> int:
    """Return the native id of the thread with *number* in *region*. Outside all regions, *native* is thread 0.

    :raises BadInput: if there is no such thread
    :raises NoAnswer: if its id is unknown
    """
    members = region.threads if region is not None else (native,)
    if number >= len(members):
        size = format_count(len(members), "thread")
        raise BadInput(f"the team has {size}, 0 to {len(members) - 1}, and no {number}")
    found = members[number]
    if found is None:
        raise NoAnswer(f"which thread has number {number} could not be read")
    return found


def innermost_of_users(session: Inspection, native: int) -> StackFrame | None:
    """Return the innermost user frame on the thread's own stack, None if no such frame is certain."""
    (row,) = session.ask_stacks(thread=native).rows
    own = (f for f in row.frames if f.thread == native and f.kind == "user" and f.cfa is not None and not f.guessed)
    return next(own, None)


def native_of(session: Inspection, native: int, wanted: int | None) -> int:
    """Return the native id of the thread *wanted*, a native id or a number in the team of the thread *native*.

    Return *native* if *wanted* is None.

    :raises BadInput: if there is no such thread
    """
    if wanted is None or wanted in session.process.threads.ids():
        return native if wanted is None else wanted
    return member_of(region_of(session, native, None), native, wanted)


def numbers_of_team(session: Inspection, native: int) -> list[str]:
    """Return the thread numbers in the team of the thread *native*, or in the only team.

    :raises OmpdError: if the thread is in no team, and the process has no team or several
    """
    region = region_of(session, native, None)
    return [str(number) for number in range(len(region.threads) if region is not None else 1)]


def format_current(session: Inspection, native: int, name: str) -> str:
    """Return the description of the thread *native*, as ``thread`` without a number prints it.

    :param name: the debugger's name of the thread
    """
    rows = session.ask_threads().rows
    row = next((row for row in rows if row.native_thread_id == native), None)
    if row is None or row.runtime is None:
        unknown = row is not None and row.thread_type is None
        return f"{name} is selected: {'unknown to OpenMP as far as it can be read' if unknown else 'not OpenMP'}"
    if row.thread_num is None:
        return f"{name} is selected: an idle thread of the pool, in no team"
    begins = ", which is about to begin the region" if row.about_to_begin else ""
    size = row.team_size if row.team_size is not None else UNKNOWN
    level = row.level if row.level is not None else UNKNOWN
    return f"{name} is selected: OpenMP thread {row.thread_num}/{size} at level {level}{begins}"


def format_selected(region: ParallelRecord | None, number: int, name: str, begins: bool, has_frame: bool) -> str:
    """Return the line that describes the thread after it was selected.

    :param name: the debugger's name of the thread
    :param begins: whether the thread is about to begin its region
    :param has_frame: whether a user frame was selected
    """
    size = region.team_size if region is not None else 1
    at = region.level if region is not None else 0
    note = ", which is about to begin the region" if begins else "" if has_frame else ", in none of your code"
    return f"OpenMP thread {number}/{size} at level {at} is {name}{note}"


def names_of(session: Inspection) -> dict[int, str]:
    """Return the names of OpenMP threads in a debugger's or editor's own list, by native id.

    ``OMP 1/4`` is a thread of a team, ``OMP pool`` an idle thread of the pool. Other threads have no name. The result
    is empty if no runtime can be read.
    """
    try:
        rows = session.ask_threads().rows
    except OmpdError:
        return {}
    found: dict[int, str] = {}
    for row in rows:
        if row.native_thread_id is not None and row.runtime is not None and "thread_num" not in row.unavailable:
            path = path_of(row)
            number = format_numbers([path], row.team_size) if path is not None else "pool"
            found[row.native_thread_id] = f"OMP {number}"
    return found
