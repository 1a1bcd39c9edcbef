"""The query ``why``."""

from __future__ import annotations

from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import GraphRecord, WhyAnswer
from ompd.questions.why.collect import collect
from ompd.questions.why.stacks import add_stacks
from ompd.session import Session


def ask(session: Session, earlier: Moment | None = None, seconds: float | None = None) -> WhyAnswer:
    """Return the reasons why threads of the process do not go on, the one to read first in front.

    :param earlier: what :func:`~ompd.questions.why.collect.collect` found of the same process *seconds* before
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    moment, threads = collect(session)
    found, nodes, edges = concluded(moment, earlier, seconds)
    verdicts, stacks = add_stacks(session, found)
    complete, warnings = threads.complete, threads.warnings
    if stacks is not None:
        complete = complete and stacks.complete
        warnings = tuple(dict.fromkeys((*warnings, *stacks.warnings)))
    return WhyAnswer(threads.target, threads.runtimes, verdicts, complete, warnings, GraphRecord(nodes, edges))
