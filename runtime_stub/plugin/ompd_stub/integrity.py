"""Check all of the stub's structures against each other, not only those that a query needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ompd.errors import CorruptState, OmpdError

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime
    from ompd_stub.teams import Team

_MOST = 8


def damage(runtime: Runtime) -> Sequence[CorruptState]:
    """Return at most eight contradictions, each once."""
    contradictions: dict[str, CorruptState] = {}
    for check in _checks(runtime):
        try:
            check()
        except CorruptState as error:
            contradictions.setdefault(str(error), error)
            if len(contradictions) >= _MOST:
                break
        except OmpdError:
            continue  # an unreadable fact, or one that the runtime does not keep, is no contradiction
    return tuple(contradictions.values())


def _checks(runtime: Runtime) -> Iterator[Callable[[], object]]:
    yield runtime.threads
    yield partial(_teams, runtime)
    yield runtime.all_tasks
    yield runtime.threadprivate.records
    try:
        threads, teams = runtime.threads(), runtime.teams
    except OmpdError:
        return  # one of the checks above reports this error
    for team in teams.values():
        for check in (_level, _members, _active_level, _barriers):
            yield partial(check, team)
        yield partial(runtime.check_queue, team)
    for thread in threads:
        yield thread.thread_type
        yield thread.current_parallel
        yield thread.current_task
        yield thread.state
        yield thread.stack_bounds
        yield thread.lock
    try:
        tasks = runtime.all_tasks()
    except OmpdError:
        return
    for task in tasks:
        yield task.kind
        yield task.status
        yield task.thread
        yield task.function
        yield task.frames


def _teams(runtime: Runtime) -> object:
    return runtime.teams


def _level(team: Team) -> object:
    return team.level


def _members(team: Team) -> object:
    return team.threads, team.implicit


def _active_level(team: Team) -> object:
    return team.region is not None and team.region.active_level()


def _barriers(team: Team) -> object:
    return team.region is not None and team.region.barriers()
