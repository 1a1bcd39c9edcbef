"""``snapshot``: a small core with the memory that queries read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ompd.errors import BadFile, OmpdError
from ompd.model import Answer, SnapshotRecord
from ompd.naming import JOB, RANK, RUN, SIZE
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads, why
from ompd.questions.facts.damage import changes
from ompd.questions.source_lines import read_around_places
from ompd.safety.writing import Destination
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.snapshot import Snapshot

DATA_LIMIT = 1 << 20
"""Bytes of writable data that are kept of each of the user's modules, unless configured otherwise."""

# The environment variables that a snapshot keeps, by the start of their names: those that configure OpenMP runtimes,
# and those with the rank of the process.
_KEPT_VARIABLES = ("OMP_", "KMP_", "GOMP_", "LIBOMP_", *RANK, *SIZE, *JOB, *RUN)

_QUESTIONS: Mapping[str, Callable[[Session], Answer[Any]]] = {
    "runtimes": runtimes.ask,
    "threads": threads.ask,
    "parallel": regions.ask,
    "tasks": tasks.ask,
    "icvs": icvs.ask,
    "stack": partial(stacks.ask, locals=True),
    "why": why.ask,
}


def take_snapshot(
    session: Session,
    path: str | os.PathLike[str],
    *,
    data_limit: int = DATA_LIMIT,
    keep_environment: bool = False,
    keep_source: bool = False,
) -> SnapshotRecord:
    """Write an ELF core to *path* with the memory that the queries read, and return a summary of it.

    An existing file is replaced once the new one is complete. A live process is stopped only while its memory is
    copied.

    :param keep_source: keep some lines of source around the places of threads, tasks and verdicts
    :raises BadFile: if the file cannot be written
    """
    with Destination(path) as place:
        _check_is_other(session, place)
        snapshot = session.ask(
            partial(_take, data_limit=data_limit, keep_environment=keep_environment, keep_source=keep_source)
        )
        with place.written() as file:
            snapshot.write(file)
            file.flush()
            size = os.fstat(file.fileno()).st_size
    return SnapshotRecord(
        file=str(path),
        size=size,
        threads=snapshot.threads,
        memory_bytes=snapshot.memory_bytes,
        extract_bytes=snapshot.extract_bytes,
        modules=snapshot.modules,
        problems=(*session.shortfalls, *snapshot.problems),
    )


def _check_is_other(session: Session, place: Destination) -> None:
    # A snapshot must not replace its own target.
    try:
        status = os.stat(session.target.name)  # noqa: PTH116  a target that is no file has a name, too
    except (OSError, ValueError):
        return
    if place.replaced is not None and os.path.samestat(place.replaced, status):
        raise BadFile(place.path, "is what the snapshot would be taken of", hint="name another file for the snapshot")


def _take(session: Session, *, data_limit: int, keep_environment: bool, keep_source: bool) -> Snapshot:
    # The queries run in a new session, because memory that the old session has cached would not be read again, and so
    # would not be noted.
    session.runtimes  # noqa: B018  raises if the session was closed
    process = session.process.at_another_stop(session.target)
    rehearsal = Session(
        session.target,
        process.finder,
        process=process,
        plugins=session.plugin_folders,
        ompd_library=session.ompd_library,
    )
    pages = process.memory.note_reads()
    if keep_source:
        process.source_code.note_reads()
    problems, answers = [], {}
    for name, ask in _QUESTIONS.items():
        try:
            answer = answers[name] = ask(rehearsal)
            problems += [f"{name}: {answer.warnings[0]}"] if not answer.complete else []
        except OmpdError as error:
            problems.append(f"{name}: {error}")
    if keep_source:
        read_around_places(rehearsal, answers)
    process.memory.begin_question()
    for runtime in rehearsal.runtimes:
        with suppress(OmpdError):
            for address, size in runtime.space.threadprivate_copies() if runtime.space is not None else ():
                process.memory.read(address, size)
    snapshot = process.take_snapshot(
        pages,
        data_limit=data_limit,
        keep_environment=keep_environment,
        kept_variables=_KEPT_VARIABLES,
    )
    return replace(snapshot, problems=(*changes(session), *problems, *snapshot.problems))
