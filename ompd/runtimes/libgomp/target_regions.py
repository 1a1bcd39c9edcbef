"""Target regions on the host: where there is no device, the thread that meets one executes it itself.

``gomp_target_fallback`` (target.c) puts the thread's ``gomp_thread`` aside and clears it: for the region's code the
thread is an initial one, alone, outside of all regions. Afterwards it puts it back. What is put aside lies in the
frames of the runtime that called the region's code, member by member wherever the compiler had room, and in registers.
So what is there is not read as a structure. It has the address of the thread's team, and that is believed if the team
itself knows the thread, as the one that the rest of the stack shows it to be: its primary one if the region around is
one that was begun there, else one of its workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.libgomp.stacks import routines
from ompd.runtimes.libgomp.stacks.parsed import Parsed
from ompd.runtimes.libgomp.structures.gomp import TIED, UNDEFERRED, GompTask, GompThread

_UNTOLD = "what the thread is outside of the target region that it executes is not to be told from its stack"


class Target(NamedTuple):
    """A target region that a thread executes.

    ``group`` is the number of the runtime's frames that called its code, among those of the thread's stack. Outside of
    the target region the thread is *number* in *team* and executes *task*, which is the address of a ``gomp_task``;
    ``team`` is None outside of all regions, ``task`` where the thread has none there, or it is not known.
    """

    group: int
    team: int | None
    number: int
    task: int | None


def around(thread: GompThread, stack: Parsed, start: int, inner: int) -> Target | None:
    """Return the innermost target region that *thread* executes outside of *inner* regions of which it is the primary
    thread, None if there is none.

    :param start: the number of the group where those regions may begin, counted from the innermost
    :raises Unavailable: if there is one, and what the thread is outside of that cannot be told
    """
    groups = stack.groups
    for number in range(start, len(groups)):
        group = groups[number]
        if group.forks:
            if not inner:
                return None
            inner -= 1
        elif not inner and group.inner:
            named = group.entry is not None and group.entry.startswith(routines.TARGETS)
            # One that is deferred is executed where a thread waits, as any task is: what is put aside shows it.
            target = _target(thread, stack, number, named) if named or group.code == routines.TASK else None
            if target is not None:
                return target
    return None


def _target(thread: GompThread, stack: Parsed, number: int, named: bool) -> Target | None:
    groups = stack.groups
    region = next((at for at in range(number + 1, len(groups)) if groups[at].forks), None)
    if region is None:
        return Target(number, None, 0, None) if named else None
    is_worker = groups[region].entry == routines.BEGIN
    words = stack.waiting_words(groups[number])
    places = [_place(thread, word, is_worker) for word in words]
    found = {place for place in places if place is not None}
    if len(found) > 1:
        over = thread.space.last_teams
        found = {known for known in found if known[0] not in over}
    if len(found) != 1:
        if not named:
            return None
        raise Unavailable(_UNTOLD)
    ((team, place),) = found
    # The task is the region's, unless a task's code is between.
    is_implicit = all(groups[at].code in (None, routines.PARALLEL) for at in range(number + 1, region + 1))
    implicit = thread.space.implicit_task_at(team, place)
    task = implicit if is_implicit and named else _explicit(thread, words, implicit)
    return Target(number, team, place, task)


def _place(thread: GompThread, word: int, is_worker: bool) -> tuple[int, int] | None:
    # The team at *word*, and the thread's number in it. A team has the addresses of its threads' semaphores, of which
    # the primary one's is its own.
    space = thread.space
    if not word or word % space.process.pointer_size:
        return None
    team = space.team_at(word)
    try:
        count = team.nthreads
        if team.barrier.unsigned("barrier.total") != count:
            return None
        held = team.releases(count)
        if not held or held[0] != team.view.address_of("master_release"):
            return None
        if not is_worker:
            return word, 0
        own = thread.view.address_of("release")
        return next(((word, number) for number in range(1, count) if held[number] == own), None)
    except OmpdError:
        return None  # no team is there


def _explicit(thread: GompThread, words: Iterable[int], implicit: int) -> int | None:
    # The explicit task that met the target region, if the words lead to one alone that came of the implicit task, or
    # have none of the implicit one's.
    space = thread.space
    found = []
    for word in words:
        if not word or word == implicit or word % space.process.pointer_size:
            continue
        try:
            if GompTask(space, word).gomp_kind in (UNDEFERRED, TIED) and implicit in space.lineage(word):
                found.append(word)
        except OmpdError:
            continue  # no task is there
    return found[0] if len(found) == 1 else None
