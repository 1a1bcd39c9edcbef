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
    region: ParallelRecord | None
    row = _row_of(session, native)
    if row is not None and row.thread_num is not None:
        region = regions.get((row.runtime or "", row.parallel or ""))
        if level == 0:
            raise BadInput("regions have levels from 1 on")
    elif len(regions) == 1:
        (region,) = regions.values()
    else:
        raise BadInput(
            f"the selected thread, {native}, is in no team", hint="select one that is: ompd threads shows them"
        )
    if level is None:
        return region
    while region is not None and region.level != level:
        region = regions.get((region.runtime, region.enclosing or ""))
    if region is None:
        raise BadInput(f"thread {native} is in no region of level {level}")
    return region


def _row_of(session: Inspection, native: int) -> ThreadRecord | None:
    return next((row for row in session.ask_threads().rows if row.native_thread_id == native), None)


def member_of(region: ParallelRecord | None, native: int, number: int) -> int:
    """Return the native id of the thread with *number* in *region*. Outside all regions, *native* is thread 0.

    :raises BadInput: if there is no such thread
    :raises NoAnswer: if its id is unknown
    """
    members = region.threads if region is not None else (native,)
    if number >= len(members):
        size = format_count(len(members), "thread")
        raise BadInput(f"the team has {size}, 0 to {len(members) - 1}, and no {number}")
    member = members[number]
    if member is None:
        raise NoAnswer(f"which thread has number {number} could not be read")
    return member


def innermost_of_users(session: Inspection, native: int) -> StackFrame | None:
    """Return the innermost user frame on the thread's own stack, None if no such frame is certain."""
    (row,) = session.ask_stacks(thread=native).rows
    for frame in row.frames:
        is_certain = frame.cfa is not None and not frame.guessed
        if frame.thread == native and frame.kind == "user" and is_certain:
            return frame
    return None


def native_of(session: Inspection, native: int, number: int | None) -> int:
    """Return the native id of the thread *number*, a native id or a number in the team of the thread *native*.

    Return *native* if *number* is None.

    :raises BadInput: if there is no such thread
    """
    if number is None:
        return native
    if number in session.process.threads.ids():
        return number
    return member_of(region_of(session, native, None), native, number)


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
    row = _row_of(session, native)
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
    size, level = (region.team_size, region.level) if region is not None else (1, 0)
    note = ", which is about to begin the region" if begins else "" if has_frame else ", in none of your code"
    return f"OpenMP thread {number}/{size} at level {level} is {name}{note}"


def names_of(session: Inspection) -> dict[int, str]:
    """Return the names of OpenMP threads in a debugger's or editor's own list, by native id.

    ``OMP 1/4`` is a thread of a team, ``OMP pool`` an idle thread of the pool. Other threads have no name. The result
    is empty if no runtime can be read.
    """
    try:
        rows = session.ask_threads().rows
    except OmpdError:
        return {}
    names: dict[int, str] = {}
    for row in rows:
        has_number = row.runtime is not None and "thread_num" not in row.unavailable
        if row.native_thread_id is not None and has_number:
            path = path_of(row)
            number = format_numbers([path], row.team_size) if path is not None else "pool"
            names[row.native_thread_id] = f"OMP {number}"
    return names
