"""The query ``why``."""

from __future__ import annotations

from dataclasses import replace

from ompd.analysis.answers import concluded
from ompd.errors import NoAnswer
from ompd.model import GraphRecord, WhyAnswer
from ompd.model.kinds import Confidence
from ompd.questions.facts.answers import program_faults
from ompd.questions.facts.damage import changes, is_damaged
from ompd.questions.why.branches import Branches
from ompd.questions.why.collect import collect
from ompd.questions.why.looks import Look
from ompd.questions.why.stacks import add_stacks
from ompd.questions.why.unloaded import unloaded
from ompd.session import Session

_SPARED = "a thread missed its wake-up; stopping the process would wake it, so it was not stopped"


def ask(session: Session, earlier: Look | None = None) -> WhyAnswer:
    """Return the reasons why threads of the process do not go on, the one to read first in front.

    :param earlier: an earlier look at the same process
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    gone = unloaded(session)
    try:
        moment, threads = collect(session, has_times=earlier is not None)
    except NoAnswer as error:
        if gone is None:
            raise
        return WhyAnswer(session.stop.record, (), (gone,), True, (str(error),))
    branches = Branches(session, moment.threads)
    moment = replace(moment, alone=branches.of_primary_threads())
    found, nodes, edges = (
        concluded(moment, earlier.moments, earlier.seconds) if earlier is not None else concluded(moment)
    )
    verdicts, stacks = add_stacks(session, branches.added_to(found))
    complete, warnings = threads.complete, threads.warnings
    if stacks is not None:
        complete = complete and stacks.complete
        warnings = tuple(dict.fromkeys((*warnings, *stacks.warnings)))
    # A proof needs no unreadable fact, but without the program's file its places are unknown.
    is_proven = verdicts[0].stuck is verdicts[0].confidence is Confidence.PROVEN
    complete = complete or (is_proven and not is_damaged(session) and not program_faults(session))
    changed = changes(session)
    complete, warnings = complete and not changed, tuple(dict.fromkeys((*changed, *warnings)))
    if earlier is not None and not earlier.may_stop:
        warnings = (*warnings, _SPARED)
    if gone is not None:
        verdicts = (gone, *verdicts) if gone.confidence is Confidence.LIKELY else (*verdicts, gone)
    return WhyAnswer(threads.target, threads.runtimes, verdicts, complete, warnings, GraphRecord(nodes, edges))
