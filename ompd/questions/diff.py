"""``diff``: what differs between two moments, as records of both."""

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
    """One moment: what is compared of it, and what is said of it besides."""

    sight: Sight
    answer: Answer[ThreadRecord] | Answer[TaskRecord] | Answer[ParallelRecord]
    complete: bool
    warnings: tuple[str, ...]


_Found = tuple[Answer[ThreadRecord], Answer[TaskRecord], Answer[ParallelRecord], Mapping[int, int]]


def look(session: Session) -> Look:
    """Return what is compared of the session's target at a moment.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    found: _Found = session.ask(_records)
    answers = found[:3]
    return Look(
        Sight(threads=found[0].rows, tasks=found[1].rows, regions=found[2].rows, processor_ns=found[3]),
        found[0],
        all(answer.complete for answer in answers),
        tuple(dict.fromkeys(warning for answer in answers for warning in answer.warnings)),
    )


def _records(session: Session) -> _Found:
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
    """Return what two targets say by themselves: False if they are of different processes, else None."""
    known = [(earlier.process_id, later.process_id), (earlier.executable, later.executable)]
    if any(a is not None and b is not None and a != b for a, b in known):
        return False
    return None if earlier.process_id is not None and later.process_id is not None else False


def _other_program(earlier: TargetRecord, later: TargetRecord) -> Iterator[str]:
    # A program may be in another folder, and may have been compiled anew.
    names = [(target.executable or "").rpartition("/")[2].removesuffix(" (deleted)") for target in (earlier, later)]
    if all(names) and names[0] != names[1]:
        yield f"A is the program {names[0]}, B is {names[1]}: equal facts of different programs are a coincidence"


def compared(earlier: Look, later: Look, *, same_process: bool | None) -> DiffAnswer:
    """Return what differs from *earlier* to *later*."""
    found = compare(earlier.sight, later.sight, same_process=same_process)
    warnings = [*_other_program(earlier.answer.target, later.answer.target)]
    warnings += [f"of the earlier one: {warning}" for warning in earlier.warnings]
    return DiffAnswer(
        later.answer.target,
        later.answer.runtimes,
        found.threads,
        earlier.complete and later.complete,
        (*warnings, *later.warnings),
        earlier_target=earlier.answer.target,
        same_process=same_process,
        differs=found.differs,
        tasks=found.tasks,
        counters=found.counters,
        query="diff",
    )


def ask(session: Session, earlier: Session) -> DiffAnswer:
    """Return what differs from *earlier*, another session, to *session*.

    :raises NoAnswer: if no OpenMP runtime of one of the two can be read
    """
    before, after = look(earlier), look(session)
    return compared(before, after, same_process=are_one_process(earlier, session))
