"""``diff``: the differences between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from ompd.analysis.differences import Sight, compare
from ompd.errors import OmpdError
from ompd.model import Answer, DiffAnswer, ParallelRecord, TargetRecord, TaskRecord, ThreadRecord
from ompd.questions import regions, tasks, threads
from ompd.records import record
from ompd.session import Session


@record
class Look:
    """One moment: its records to compare, its answer, and its warnings."""

    sight: Sight
    answer: Answer[ThreadRecord] | Answer[TaskRecord] | Answer[ParallelRecord]
    complete: bool
    warnings: tuple[str, ...]


_Records = tuple[Answer[ThreadRecord], Answer[TaskRecord], Answer[ParallelRecord], Mapping[int, int]]


def look(session: Session) -> Look:
    """Return the records of the session's target at this moment.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    records: _Records = session.ask(_records)
    of_threads, of_tasks, of_regions, times = records
    answers = of_threads, of_tasks, of_regions
    return Look(
        Sight(threads=of_threads.rows, tasks=of_tasks.rows, regions=of_regions.rows, processor_ns=times),
        of_threads,
        all(answer.complete for answer in answers),
        tuple(dict.fromkeys(warning for answer in answers for warning in answer.warnings)),
    )


def _records(session: Session) -> _Records:
    times: dict[int, int] = {}
    for thread in session.process.threads.ids():
        with suppress(OmpdError):
            times[thread] = session.process.system.cpu_time_ns(thread)
    return threads.ask(session), tasks.ask(session), regions.ask(session), times


def are_one_process(earlier: Session, later: Session) -> bool | None:
    """Return whether two sessions are on one process, None if that is unknown."""
    return earlier.ask(
        lambda earlier: later.ask(lambda later: earlier.process.system.is_same_process(later.process.system))
    )


def may_be_one_process(earlier: TargetRecord, later: TargetRecord) -> bool | None:
    """Return False if the targets are of different processes or a process number is unknown, otherwise None."""
    if earlier.process_id is None or earlier.process_id != later.process_id:
        return False
    programs = {earlier.executable, later.executable} - {None}
    return False if len(programs) > 1 else None


def _other_program(earlier: TargetRecord, later: TargetRecord) -> Iterator[str]:
    # A program may be in another folder, and may have been compiled anew.
    names = [(target.executable or "").rpartition("/")[2].removesuffix(" (deleted)") for target in (earlier, later)]
    if all(names) and names[0] != names[1]:
        yield f"A is the program {names[0]}, B is {names[1]}: equal facts of different programs are a coincidence"


def compared(earlier: Look, later: Look, *, same_process: bool | None) -> DiffAnswer:
    """Return what differs from *earlier* to *later*."""
    differences = compare(earlier.sight, later.sight, same_process=same_process)
    warnings = [*_other_program(earlier.answer.target, later.answer.target)]
    warnings += [f"of the earlier one: {warning}" for warning in earlier.warnings]
    return DiffAnswer(
        later.answer.target,
        later.answer.runtimes,
        differences.threads,
        earlier.complete and later.complete,
        (*warnings, *later.warnings),
        earlier_target=earlier.answer.target,
        same_process=same_process,
        differs=differences.differs,
        tasks=differences.tasks,
        counters=differences.counters,
        query="diff",
    )


def ask(session: Session, earlier: Session) -> DiffAnswer:
    """Return the differences from the session *earlier* to *session*.

    :raises NoAnswer: if one of the two has no OpenMP runtime that can be read
    """
    before, after = look(earlier), look(session)
    return compared(before, after, same_process=are_one_process(earlier, session))
