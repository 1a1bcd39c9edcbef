"""The page of ``ompd triage``."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import ompd
from ompd.model.triage import TriageAnswer
from ompd.report.template import fill
from ompd.report.triage import sections
from ompd.report.triage.sections import Names


def make_triage_page(answer: TriageAnswer, command: Sequence[str], when: str) -> str:
    """Return the text of the page.

    :param command: the words of the command
    :param when: the time, for a person
    """
    names = Names(answer)
    heading = sections.heading(answer)
    failures, more_failures = sections.failures(answer, names)
    return fill(
        "triage.html",
        title=f"ompd triage: {heading}",
        heading=heading,
        complete=answer.complete,
        beside=sections.beside(answer),
        warnings=answer.warnings,
        jobs=list(sections.jobs(answer)),
        more_jobs=sections.more_jobs(answer),
        groups=list(sections.groups(answer, names)),
        more_groups=sections.more_groups(answer),
        gone=sections.gone(answer),
        icicle=sections.icicle(answer),
        legend=sections.legend(answer),
        tree=sections.branches(answer),
        failures=failures,
        more_failures=more_failures,
        failed=len(answer.failed),
        key=answer.key,
        version=ompd.__version__,
        python=platform.python_version(),
        command=" ".join(command),
        when=when,
    )
