"""Records of ``ompd conformance``: where a library for debuggers departs from the standard."""

from __future__ import annotations

from dataclasses import replace

from ompd.records import record

_MOST_OTHERS = 10


@record
class ConformanceFinding:
    """What is wrong. ``key`` names the case, the same in every release of ompd; ``function`` is the routine, ``title``
    what was tried. ``level`` is ``demands`` or ``suggests``, of which ``version`` and ``section`` have the text, and
    ``rule`` the sense; ``expected`` and ``seen`` are what was, and what happened. It was ``more`` times the same with
    other arguments, some of which are ``others``. ``calls`` are those that show it, after the library's set-up.
    ``is_known`` says that the user's list of known findings has it.
    """

    key: str
    function: str
    title: str
    level: str
    version: str
    section: str
    rule: str
    expected: str
    seen: str
    more: int
    others: tuple[str, ...]
    calls: tuple[str, ...]
    is_known: bool = False


@record
class ConformanceAnswer:
    """What came of a library: its ``file``, ``version`` and the ``api_version`` that it has, the ``programs`` that it
    was tried on, how many ``functions`` of OMPD and DMPL it exports. Of ``tried`` cases some led to ``rows``, the
    findings; ``untried`` are functions that could not be tried, and then the answer is not ``complete``. ``gone`` are
    known findings that were not found, ``warnings`` what else there is to say.
    """

    rows: tuple[ConformanceFinding, ...]
    complete: bool
    warnings: tuple[str, ...]
    file: str
    version: str
    api_version: int
    programs: tuple[str, ...]
    functions: int
    tried: int
    untried: tuple[str, ...]
    gone: tuple[str, ...]


def news(answer: ConformanceAnswer) -> tuple[ConformanceFinding, ...]:
    """Return the findings that are not in the user's list of known findings."""
    return tuple(row for row in answer.rows if not row.is_known)


def another(finding: ConformanceFinding, title: str) -> ConformanceFinding:
    """Return *finding* with one more case, called *title*, that has the same result."""
    others = (*finding.others, title) if len(finding.others) < _MOST_OTHERS else finding.others
    return replace(finding, more=finding.more + 1, others=others)
