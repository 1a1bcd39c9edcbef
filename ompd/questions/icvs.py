"""``icvs``: the internal control variables, with their scopes and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ompd.contract.ompd import Scope
from ompd.contract.plugin import AddressSpace, IcvDescription, TaskHandle, ThreadHandle
from ompd.errors import OmpdError
from ompd.model import Answer, IcvRecord
from ompd.questions.facts.answers import answer, begin, each, name_thread, native_thread, readable_runtimes, threads_of
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.regions import live_regions
from ompd.questions.runtimes import records
from ompd.session import LoadedRuntime, Session

_SCOPES = {scope: scope.name.lower() for scope in Scope}


def ask(session: Session) -> Answer[IcvRecord]:
    """Return each internal control variable for each handle of its scope.

    The handles are the threads of teams, the regions and the tasks that are being executed, and the runtime. The
    display control variables come last, with the scope ``display``.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    problems = begin(session)
    rows: list[IcvRecord] = []
    for runtime in readable_runtimes(session, problems):
        if runtime.space is not None:
            rows += _rows(session, runtime, runtime.space, problems)
    return answer(session, rows, records(session, problems), problems)


DISPLAY = "display"
"""The scope of settings that are no ICVs: the runtime displays them by the names of their environment variables."""


def changed(answer: Answer[IcvRecord]) -> Answer[IcvRecord]:
    """Return *answer* with only those variables whose value differs between handles."""
    values: dict[tuple[str, str], set[int | str | None]] = {}
    for row in answer.rows:
        values.setdefault((row.runtime, row.name), set()).add(row.value)
    different = {key for key, distinct in values.items() if len(distinct) > 1}
    return replace(answer, rows=tuple(row for row in answer.rows if (row.runtime, row.name) in different))


def _rows(session: Session, runtime: LoadedRuntime, space: AddressSpace, problems: Problems) -> Iterator[IcvRecord]:
    handles: dict[Scope, list[tuple[str, object]]] = {Scope.ADDRESS_SPACE: [(runtime.id, space)]}
    handles[Scope.GLOBAL] = handles[Scope.ADDRESS_SPACE]
    regions = live_regions(session, runtime, space, problems)
    handles[Scope.PARALLEL] = handles[Scope.TEAMS] = handles[Scope.TARGET] = list(regions.items())
    threads, tasks = _threads_and_tasks(session, runtime, space, problems)
    handles[Scope.THREAD], handles[Scope.TASK] = list(threads), tasks

    def record(variable: tuple[IcvDescription, tuple[str, object]]) -> IcvRecord:
        description, (identifier, handle) = variable
        facts = Facts(f"{description.name} of {identifier}", problems)
        value = facts.get("value", space.icv, description.name, handle)
        scope = _SCOPES[description.scope]
        return IcvRecord(runtime.id, description.name, scope, value, identifier, facts.unavailable)

    try:
        descriptions = space.icvs()
    except OmpdError as error:
        problems.missing(f"{runtime.id}: variables", error)
        descriptions = ()
    if any(description.scope == Scope.IMPLICIT_TASK for description in descriptions):
        handles[Scope.IMPLICIT_TASK] = _implicit_tasks(runtime, threads, problems)
    pairs = ((description, pair) for description in descriptions for pair in handles.get(description.scope, ()))
    yield from each(session, pairs, record)
    try:
        displayed = space.display_control_vars()
    except OmpdError as error:
        problems.missing(f"{runtime.id}: display control variables", error)
    else:
        for name, value in displayed.items():
            yield IcvRecord(runtime.id, name, DISPLAY, value, runtime.id)


def _implicit_tasks(
    runtime: LoadedRuntime, threads: Sequence[tuple[str, ThreadHandle]], problems: Problems
) -> list[tuple[str, object]]:
    # Return the implicit task of each thread in its region or, outside of all regions, its current task.
    implicit: dict[str, object] = {}
    for native, handle in threads:
        try:
            region, number = handle.current_parallel(), handle.thread_num()
            if region is not None and number is not None:
                task: TaskHandle | None = region.implicit_task(number)
            else:
                task = handle.current_task()
            if task is not None:
                implicit.setdefault(task.id, task)
        except OmpdError as error:
            problems.missing(f"{runtime.id}: the implicit task of thread {native}", error)
    return list(implicit.items())


def _threads_and_tasks(
    session: Session, runtime: LoadedRuntime, space: AddressSpace, problems: Problems
) -> tuple[list[tuple[str, ThreadHandle]], list[tuple[str, object]]]:
    threads: list[tuple[str, ThreadHandle]] = []
    tasks: dict[str, object] = {}
    for handle in threads_of(runtime, problems):
        try:
            if handle.thread_num() is None:
                continue  # an idle thread has no task, and so no control variables
            task = handle.current_task()
            if task is not None:
                tasks.setdefault(task.id, task)
            threads.append((str(native_thread(session, handle)), handle))
        except OmpdError as error:
            problems.missing(f"{runtime.id}: variables of {name_thread(session, handle)}", error)
    return threads, list(tasks.items())
