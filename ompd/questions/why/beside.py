"""Other processes beside a live one: its children, and the other ranks of its MPI job. No process is stopped for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePosixPath

from ompd.errors import OmpdError
from ompd.machine.processes import openmp_descendants
from ompd.machine.ranks import other_ranks, rank_number
from ompd.model import ChildRecord, OtherRanksRecord, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.session import Session

_MAX_CHILDREN = 8
_MAX_RANKS = 16
_SUREST = (Confidence.PROVEN, Confidence.LIKELY, Confidence.POSSIBLE, Confidence.UNKNOWN)


def descendants(session: Session) -> tuple[int, ...]:
    """Return the processes that a live process has started, and theirs, if they use OpenMP."""
    process_id = session.target.process_id
    return openmp_descendants(process_id) if process_id is not None else ()


def children_of(session: Session) -> tuple[ChildRecord, ...]:
    """Return the children of a live process in which threads wait for something else than threads at work.

    A parent that waits for such a child only shows the call in which it waits.
    """
    rows = []
    for number in descendants(session)[:_MAX_CHILDREN]:
        answer = _look_at(number)
        if answer is not None and _waits(answer[0]):
            rows.append(_record(number, *answer, rank_number(number)))
    return tuple(rows)


def ranks_beside(session: Session) -> OtherRanksRecord | None:
    """Return what is wrong in the other ranks of a live process's MPI job on this host, None if there are none.

    A rank that waits for another one only shows the call of MPI in which it waits.
    """
    process_id = session.target.process_id
    others = other_ranks(process_id) if process_id is not None else ()
    if not others:
        return None
    answers = [(other, answer) for other in others[:_MAX_RANKS] if (answer := _look_at(other.process_id)) is not None]
    rows = [_record(other.process_id, *answer, other.rank) for other, answer in answers if _waits(answer[0])]
    # A rank that waits for something outside may wait for the others. A rank that is stuck by itself comes first.
    rows.sort(key=lambda row: (row.kind is VerdictKind.EXTERNAL_WAIT, _SUREST.index(row.stuck), row.rank))
    return OtherRanksRecord(len(others), len(answers), tuple(rows))


def _look_at(process_id: int) -> tuple[VerdictRecord, str | None] | None:
    # Return the first verdict on a process and the file of its program, None if the process gives no answer.
    from ompd.questions.why.query import ask

    with suppress(OmpdError), Session.attach(process_id, nonblocking=True) as session:
        answer = session.ask(ask, may_stop=False)
        return answer.rows[0], answer.target.executable
    return None


def _waits(verdict: VerdictRecord) -> bool:
    # Of a process that runs, parts change while they are read: then it is undecided whether its threads go on.
    goes_on = (VerdictKind.NO_STALL, VerdictKind.SMALL_TEAM, VerdictKind.LAGGARD, VerdictKind.UNDECIDED)
    return verdict.kind not in goes_on


def _record(process_id: int, verdict: VerdictRecord, executable: str | None, rank: int | None) -> ChildRecord:
    program = PurePosixPath(executable).name if executable is not None else None
    return ChildRecord(process_id, program, verdict.kind, verdict.stuck, verdict.summary, rank)
