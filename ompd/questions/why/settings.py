"""The settings of OpenMP runtimes that decide about processors, waiting and the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ompd.contract.plugin import AddressSpace, ThreadHandle
from ompd.errors import OmpdError
from ompd.model.supply import Settings
from ompd.questions.facts.processors import counted_processors
from ompd.session import Session


def settings_of(session: Session) -> Settings:
    """Return the settings of the process's runtimes. Of several runtimes, the first that knows a setting counts."""
    variables = None
    with suppress(OmpdError):
        variables, _ = session.process.environment.current()
    displayed: dict[str, str] = {}
    counted = counted_processors(session)
    spaces = [runtime.space for runtime in session.runtimes if runtime.space is not None]
    for space in spaces:
        with suppress(OmpdError):
            displayed = {**space.display_control_vars(), **displayed}
    return Settings(
        kinds={runtime.id: runtime.found.kind for runtime in session.runtimes},
        variables=variables,
        displayed=displayed,
        bind=next((str(value) for space in spaces for value in _of_task(space, "bind-var")), None),
        processors=counted.number if counted is not None else None,
        team_size=next((size for space in spaces for value in _of_thread(space) if (size := _first(value))), None),
    )


def _initial_thread(space: AddressSpace) -> ThreadHandle | None:
    with suppress(OmpdError):
        return next(iter(space.threads()), None)
    return None


def _of_thread(space: AddressSpace) -> Iterator[int | str]:
    thread = _initial_thread(space)
    if thread is not None:
        with suppress(OmpdError):
            yield space.icv("nthreads-var", thread)


def _of_task(space: AddressSpace, name: str) -> Iterator[int | str]:
    thread = _initial_thread(space)
    if thread is not None:
        with suppress(OmpdError):
            task = thread.current_task()
            if task is not None:
                yield space.icv(name, task)


def _first(value: int | str) -> int | None:
    # The size of a region at the next level. A list has one for each level.
    word = str(value).partition(",")[0]
    return int(word) if word.isdecimal() else None
