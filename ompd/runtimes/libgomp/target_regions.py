"""Target regions that a thread executes itself because there is no device.

``gomp_target_fallback`` (target.c) saves the thread's ``gomp_thread`` and clears it. While the thread executes the
target region, it is an initial thread outside of all regions. Afterwards the routine restores the structure.

The saved copy is in frames of the runtime. The compiler places each of its members independently, some of them in
registers, so the copy cannot be read as a structure. But one of the words is the address of the thread's team. A team
is accepted if this thread belongs to it: as the primary thread if the stack shows that the thread began the enclosing
region, otherwise as a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.libgomp.stacks import BEGIN, PARALLEL, TARGETS, TASK
from ompd.runtimes.libgomp.structures import TIED, UNDEFERRED

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.members import Member


class Target(NamedTuple):
    """A target region that a thread executes, and the thread's place outside of this region.

    ``group`` is the index of the runtime's frames that called the region's code (:attr:`ParsedStack.groups`). Outside
    the target region the thread is *number* in the team at *team*, and executes the ``gomp_task`` at *task*. ``team``
    is None outside of all regions. ``task`` is None if the thread has no ``gomp_task`` there, or if it is unknown.
    """

    group: int
    team: int | None
    number: int
    task: int | None


def around(thread: Member, start: int, inner: int) -> Target | None:
    """Return the target region that directly surrounds a thread's *inner* innermost regions, None if there is none.

    :param start: the index of the innermost group of frames that may belong to these regions
    :param inner: the number of regions inside the target region. *thread* is the primary thread of each
    :raises Unavailable: if there is a target region, but the thread's place outside of it is unknown
    """
    groups = thread.stack.groups
    for index in range(start, len(groups)):
        group = groups[index]
        if group.forks:
            if not inner:
                return None
            inner -= 1
        elif not inner and group.inner:
            named = group.entry is not None and group.entry.startswith(TARGETS)
            # A deferred target region is executed like any task, by a routine in which a thread waits. So no entry
            # point shows the target region, but only the saved copy.
            target = _target(thread, index, named) if named or group.code == TASK else None
            if target is not None:
                return target
    return None


def _target(thread: Member, index: int, named: bool) -> Target | None:
    groups = thread.stack.groups
    enclosing = next((outer for outer in range(index + 1, len(groups)) if groups[outer].forks), None)
    if enclosing is None:
        return Target(index, None, 0, None) if named else None
    is_worker = groups[enclosing].entry == BEGIN
    words = thread.stack.waiting_words(groups[index])
    candidates = (_place(thread, word, is_worker) for word in words)
    places = {place for place in candidates if place is not None}
    if len(places) > 1:
        over = thread.runtime.last_teams
        places = {place for place in places if place[0] not in over}
    if len(places) != 1:
        if not named:
            return None
        raise Unavailable(
            "what the thread is outside of the target region that it executes is not to be told from its stack"
        )
    ((team, number),) = places
    # The implicit task encountered the target region, unless a task's code is between them.
    is_implicit = all(groups[outer].code in (None, PARALLEL) for outer in range(index + 1, enclosing + 1))
    implicit = thread.runtime.implicit_task_at(team, number)
    task = implicit if is_implicit and named else _explicit(thread, words, implicit)
    return Target(index, team, number, task)


def _place(thread: Member, word: int, is_worker: bool) -> tuple[int, int] | None:
    # *word* and the thread's number, if a team to which the thread belongs is at *word*, else None. A team is
    # recognised by its list with the addresses of its threads' semaphores: the first semaphore is in the team itself. A
    # worker's own semaphore must be in this list, too.
    runtime = thread.runtime
    if not word or word % runtime.process.pointer_size:
        return None
    team = runtime.team_at(word)
    try:
        count = team.nthreads
        if team.barrier.unsigned("barrier.total") != count:
            return None
        semaphores = team.releases(count)
        if not semaphores or semaphores[0] != team.view.address_of("master_release"):
            return None
        if not is_worker:
            return word, 0
        own_semaphore = thread.view.address_of("release")
        return next(((word, number) for number in range(1, count) if semaphores[number] == own_semaphore), None)
    except OmpdError:
        return None  # no team is there


def _explicit(thread: Member, words: Iterable[int], implicit: int) -> int | None:
    # The explicit task that encountered the target region: the only descendant of the implicit task among the words.
    runtime = thread.runtime
    tasks = []
    for word in words:
        if not word or word == implicit or word % runtime.process.pointer_size:
            continue
        try:
            if runtime.task_at(word).gomp_kind in (UNDEFERRED, TIED) and implicit in runtime.lineage(word):
                tasks.append(word)
        except OmpdError:
            continue  # no task is there
    return tasks[0] if len(tasks) == 1 else None
