"""Whether the stub's structures agree with each other: all of them, whatever a question asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ompd.errors import CorruptState, OmpdError
from ompd_stub.tasks import Task
from ompd_stub.teams import Team
from ompd_stub.threadprivate import Threadprivate
from ompd_stub.threads import Thread, Threads

_MOST = 8


def damage(runtime: Threads, threadprivate: Threadprivate) -> Sequence[CorruptState]:
    """Return what contradicts itself, each once, at most some."""
    found: dict[str, CorruptState] = {}
    for check in _checks(runtime, threadprivate):
        try:
            check()
        except CorruptState as error:
            found.setdefault(str(error), error)
            if len(found) >= _MOST:
                break
        except OmpdError:
            continue  # what cannot be read, or is not kept, contradicts nothing
    return tuple(found.values())


def _checks(runtime: Threads, threadprivate: Threadprivate) -> Iterator[Callable[[], object]]:
    yield lambda: runtime.threads()
    yield lambda: runtime.teams
    yield lambda: runtime.all_tasks()
    yield lambda: threadprivate.records()
    try:
        threads, teams = runtime.threads(), runtime.teams
    except OmpdError:
        return  # said already
    for team in teams.values():
        yield from _of_team(team)
        yield partial(runtime.check_queue, team)
    for thread in threads:
        yield from _of_thread(thread)
        yield thread.lock
    try:
        tasks = runtime.all_tasks()
    except OmpdError:
        return
    for task in tasks:
        yield from _of_task(task)


def _of_team(team: Team) -> Iterator[Callable[[], object]]:
    yield lambda: team.level
    yield lambda: (team.threads, team.implicit)
    yield lambda: team.region is not None and team.region.active_level()
    yield lambda: team.region is not None and team.region.barriers()


def _of_thread(thread: Thread) -> Iterator[Callable[[], object]]:
    yield thread.thread_type
    yield thread.current_parallel
    yield thread.current_task
    yield thread.state
    yield thread.stack_bounds


def _of_task(task: Task) -> Iterator[Callable[[], object]]:
    yield task.kind
    yield task.status
    yield task.thread
    yield task.function
    yield task.frames
