"""Records of ``ompd conformance``: where a library for debuggers departs from the standard."""

from __future__ import annotations

from dataclasses import replace

from ompd.records import record

_MOST_OTHERS = 10


@record
class ConformanceFinding:
    """One departure of a library from the standard. ``key`` identifies the finding, and stays the same in later
    releases of ``ompd``. ``function`` is the routine, ``title`` says what was tried. ``rule`` is the standard's
    sentence in our words; ``version`` and ``section`` say where the standard has it. ``level`` is ``demands`` or
    ``suggests``, for a sentence that the standard demands or only suggests. ``expected`` is the right outcome, ``seen``
    the outcome of this library. ``more`` counts further cases with the same outcome; ``others`` has the titles of some
    of them. ``calls`` are the calls that show the fault, after the library's set-up. ``is_known`` is True if the user's
    list of known findings has the finding.
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
    """The findings about one library for debuggers, as ``rows``.

    ``file`` is the library's file, ``version`` its version, ``api_version`` the version of the interface that it has.
    ``functions`` counts the OMPD and DMPL functions that it exports. ``programs`` are the programs on which it was
    tried, ``tried`` is the number of cases. ``untried`` are functions that could not be tried; with any, ``complete``
    is False. ``gone`` are known findings that were not found this time. ``warnings`` are further remarks.
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
    """Return *finding* with one more case that has the same outcome; *title* says what the case tried."""
    others = (*finding.others, title) if len(finding.others) < _MOST_OTHERS else finding.others
    return replace(finding, more=finding.more + 1, others=others)
