"""The query ``why``."""

from __future__ import annotations

from ompd.analysis.answers import concluded
from ompd.model import WhyAnswer
from ompd.questions.why.collect import collect
from ompd.session import Session


def ask(session: Session) -> WhyAnswer:
    """Return the reasons why threads of the process do not go on, the one to read first in front.

    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    moment, threads = collect(session)
    verdicts, nodes, edges = concluded(moment)
    return WhyAnswer(
        threads.target, threads.runtimes, verdicts, threads.complete, threads.warnings, nodes=nodes, edges=edges
    )
