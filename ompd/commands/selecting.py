"""Which thread a person means who names it by its OpenMP number, at a debugger's prompt."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.errors import BadInput, NoAnswer
from ompd.inspection import Inspection
from ompd.model import ParallelRecord, ThreadRecord
from ompd.render.words import format_count


def without_library(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the other words, and the OMPD library that is to answer, None if none is named.

    :raises BadInput: if its name is missing
    """
    rest, library = [], None
    waiting = list(words)
    while waiting:
        word, equals, value = waiting.pop(0).partition("=")
        if word != "--ompd-library":
            rest.append(word + equals + value)
        elif equals or waiting:
            library = value if equals else waiting.pop(0)
        else:
            raise BadInput("--ompd-library needs a value: --ompd-library FILE|named")
    return rest, library


def parse_thread(words: Sequence[str]) -> tuple[int, int | None]:
    """Return the thread number and the level, None for no level, in the words of ``thread``.

    :raises BadInput: if they say something else
    """
    rest, level = list(words), None
    for word in ("--level", "-l"):
        if word in rest:
            at = rest.index(word)
            level = _number(rest[at + 1] if at + 1 < len(rest) else "", "a level")
            del rest[at : at + 2]
    rest = [word for word in rest if word != "--debug"]
    if len(rest) != 1:
        raise BadInput("thread takes the OpenMP number of a thread", hint="ompd thread 2; ompd threads shows them")
    return _number(rest[0], "an OpenMP thread number"), level


def _number(word: str, what: str) -> int:
    if not word.isdecimal():
        raise BadInput(f"{word!r} is not {what}")
    return int(word)


def region_of(session: Inspection, native: int, level: int | None) -> ParallelRecord | None:
    """Return the innermost region of the thread *native*, None outside of all, or the one at *level* around it. From a
    thread that is in no team there is no other way to go than to the only one.

    :raises BadInput: if it is in no such region
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
    # That of a thread of a team.
    rows = session.ask_threads().rows
    return next((row for row in rows if row.native_thread_id == native and row.thread_num is not None), None)


def member_of(region: ParallelRecord | None, native: int, number: int) -> int:
    """Return the native id of the thread that has the *number* in *region*; outside of all *native* is the only one.

    :raises BadInput: if there is none
    :raises NoAnswer: if it is unknown
    """
    members = region.threads if region is not None else (native,)
    if number >= len(members):
        size = format_count(len(members), "thread")
        raise BadInput(f"the team has {size}, 0 to {len(members) - 1}, and no {number}")
    found = members[number]
    if found is None:
        raise NoAnswer(f"which thread has number {number} could not be read")
    return found
