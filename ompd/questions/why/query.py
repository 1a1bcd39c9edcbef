"""The query ``why``."""

from __future__ import annotations

from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import WhyAnswer
from ompd.questions.why.collect import collect
from ompd.session import Session


def ask(session: Session, earlier: Moment | None = None, seconds: float | None = None) -> WhyAnswer:
    """Return the reasons why threads of the process do not go on, the one to read first in front.

    :param earlier: what :func:`~ompd.questions.why.collect.collect` found of the same process *seconds* before
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    moment, threads = collect(session)
    verdicts, nodes, edges = concluded(moment, earlier, seconds)
    return WhyAnswer(
        threads.target, threads.runtimes, verdicts, threads.complete, threads.warnings, nodes=nodes, edges=edges
    )
