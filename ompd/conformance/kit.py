"""Runs all OMPD cases on one library, and combines the results of OMPD and DMPL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from ompd.conformance import sequences
from ompd.conformance.cases import (
    API,
    OUT,
    THREAD,
    Case,
    Plan,
    call,
    fill,
    full,
    life,
    missing,
    released,
    wrong_arguments,
)
from ompd.conformance.dmpl import DmplTried
from ompd.conformance.laws import laws
from ompd.conformance.rules import RULES
from ompd.conformance.standard import FIRST_WITH_KINDS, ROUTINES, VERSION
from ompd.conformance.subject import Subject, TeamThread
from ompd.conformance.trying import FirstFindingMade, Runs, Script, handles_in
from ompd.contract.dmpl import INTERFACE_COMPATIBILITY
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import NoAnswer, Rc
from ompd.model.conformance import ConformanceAnswer, ConformanceFinding
from ompd.records import record
from ompd.runtimes.hosted.messages import clean
from ompd.runtimes.hosted.process import Loads
from ompd.runtimes.hosted.trial.client import Answers, Trial

_NO_THREAD = TeamThread({kind: bytes(8) for kind in ThreadIdKind}, 0, 1, 0)
_SETUPS_WITHOUT_PROGRAM = ("nothing", "loaded")
_FIRST_API = 201811


@record
class Tried:
    """The answer about a library; and for each finding, by its key, the script and the callbacks' answers."""

    answer: ConformanceAnswer
    scripts: Mapping[str, Script]
    answers: Mapping[str, Mapping[int, Answers]]


@record
class OmpdTried:
    """The findings about OMPD's functions, their scripts and the callbacks' answers, by the findings' keys."""

    rows: Mapping[str, ConformanceFinding]
    scripts: Mapping[str, Script]
    answers: Mapping[str, Mapping[int, Answers]]
    version: str
    api_version: int
    functions: int
    tried: int
    untried: tuple[str, ...]
    notes: tuple[str, ...]


def combined(
    file: str, programs: Sequence[str], ompd: OmpdTried | None, dmpl: DmplTried | None, known_keys: Iterable[str] = ()
) -> Tried:
    """Return one result for a library, from those for its OMPD and its DMPL functions.

    :param known_keys: the keys in the user's list of known findings
    """
    parts = [part for part in (ompd, dmpl) if part is not None]
    findings = {key: finding for part in parts for key, finding in part.rows.items()}
    untried = sorted(name for part in parts for name in part.untried)
    expected = set(known_keys)
    rows = [replace(finding, is_known=key in expected) for key, finding in findings.items()]
    rows.sort(key=lambda row: (row.is_known, row.level, row.function, row.key))
    answer = ConformanceAnswer(
        tuple(rows),
        not untried,
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        file,
        parts[0].version if parts else "",
        ompd.api_version if ompd is not None else INTERFACE_COMPATIBILITY,
        tuple(programs),
        sum(part.functions for part in parts),
        sum(part.tried for part in parts),
        tuple(untried),
        tuple(sorted(expected - findings.keys())),
    )
    return Tried(answer, ompd.scripts if ompd is not None else {}, ompd.answers if ompd is not None else {})


def try_ompd(library: Loads, subjects: Sequence[Subject], *, first: bool = False) -> OmpdTried:
    """Return the findings about the OMPD functions of a library.

    :param library: an open library, which stays open until this returns
    :param subjects: the programs to try it on; without any, cases that need one are left out
    :param first: stop trying a program at its first finding
    :raises LibraryError: if the library cannot be loaded
    :raises NoAnswer: if it is no library of OMPD
    """
    functions, api, version = _introduced(library)
    notes: list[str] = []
    if api is None:
        notes.append(f"ompd_get_api_version gave no version, and {_FIRST_API} is tried")
        api = _FIRST_API
    findings: dict[str, ConformanceFinding] = {}
    scripts: dict[str, Script] = {}
    served: dict[str, Mapping[int, Answers]] = {}
    untried: dict[str, None] = {}
    tried = 0
    for function in missing(functions, api, FIRST_WITH_KINDS):
        rule = RULES["exported"]
        findings[f"{function}/there"] = ConformanceFinding(
            f"{function}/there",
            function,
            "is it there",
            rule.level,
            VERSION,
            rule.section,
            rule.words,
            "the routine",
            "the library does not have it",
            0,
            (),
            (),
        )
    for subject in subjects or (None,):
        runs = _runs(library, subject, api, first=first)
        with suppress(FirstFindingMade), closing(runs):
            _try_all(runs, functions, is_whole=subject is not None)
        tried += runs.tried
        for key, finding in runs.findings.items():
            if key not in findings:
                findings[key] = finding
                scripts[key] = runs.scripts[key]
                served[key] = runs.answers
        notes += runs.unsteady
        untried.update(runs.untried)
    if not subjects:
        notes.append("without a program there are no handles: only what needs none was tried")
    return OmpdTried(findings, scripts, served, version, api, len(functions), tried, tuple(untried), tuple(notes))


def _introduced(library: Loads) -> tuple[frozenset[str], int | None, str]:
    with Trial(library, {}) as trial:
        steps = [
            fill(API, 0),
            call("ompd_get_api_version", ("at", API)),
            fill(OUT, 0),
            call("ompd_get_version_string", ("at", OUT)),
            {"do": "text", "cell": OUT},
        ]
        functions = trial.functions & ROUTINES.keys()
        replies = trial.play(steps)
    if not functions:
        raise NoAnswer(f"{library.name} has no routine of OMPD")
    text = replies[-1].text
    version = clean(text.raw or b"") if text is not None else ""
    api = replies[1].word(API) if len(replies) > 1 and replies[1].code == Rc.OK else None
    return functions, api, version


def _runs(library: Loads, subject: Subject | None, api: int, *, first: bool) -> Runs:
    if subject is None:
        no_program = Subject("", Answers(None), _NO_THREAD, _NO_THREAD, False)  # type: ignore[arg-type]  # never called
        return Runs(library, {}, Plan(no_program, ThreadIdKind.PTHREAD, api), first=first)
    answers = {1: subject.answers, 2: subject.answers}
    plan = Plan(subject, ThreadIdKind.PTHREAD, api)
    # Use the first kind of identifiers that the library accepts.
    for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
        with Trial(library, answers) as trial:
            steps = full(replace(plan, kind=kind))
            if THREAD in handles_in(steps, trial.play(steps)):
                return Runs(library, answers, replace(plan, kind=kind), first=first)
    return Runs(library, answers, plan, first=first)


def _try_all(runs: Runs, functions: frozenset[str], *, is_whole: bool) -> None:
    def try_cases(cases: Iterable[Case]) -> None:
        for case in cases:
            has_setup = is_whole or case.setup in _SETUPS_WITHOUT_PROGRAM
            if has_setup and case.function in functions:
                runs.try_case(case)

    # Cases that each need a process of their own come last.
    if is_whole:
        states = sequences.states(runs) if "ompd_enumerate_states" in functions else frozenset()
        icvs = sequences.icvs(runs) if "ompd_enumerate_icvs" in functions else ()
        runs.plan = sequences.plan_with(runs.plan, states, icvs)
        try_cases(laws(functions, runs.plan))
        try_cases(sequences.values(runs.plan, icvs))
        sequences.display(runs)
    try_cases(wrong_arguments(functions, runs.plan))
    if is_whole:
        sequences.faults(runs, functions)
        sequences.balances(runs, functions)
    try_cases(life(functions, runs.plan))
    if is_whole:
        try_cases(released(functions, runs.plan))
        _repeat_with_poison(runs, functions)


def _repeat_with_poison(runs: Runs, functions: frozenset[str]) -> None:
    # Cases with right arguments are played again, with allocated memory that is not zero. A library fails them if it
    # leaves members uninitialised.
    runs.close()
    runs.before = ({"do": "poison", "byte": 0xA5},)
    runs.suffix = "/poisoned"
    for case in laws(functions, runs.plan):
        if case.key not in runs.findings:
            runs.try_case(case)
    sequences.display(runs)
