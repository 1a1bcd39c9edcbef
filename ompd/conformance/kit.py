"""The kit: everything that there is to try of OMPD, on one library; and what came of all."""

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
from ompd.conformance.subject import Known, Subject
from ompd.conformance.trying import Enough, Runs, Script, handles_in
from ompd.contract.dmpl import INTERFACE_COMPATIBILITY
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import NoAnswer, Rc
from ompd.model.conformance import ConformanceAnswer, ConformanceFinding
from ompd.records import record
from ompd.runtimes.hosted.process import Loads
from ompd.runtimes.hosted.results import clean
from ompd.runtimes.hosted.trial.client import Answers, Trial

_NOBODY = Known({kind: bytes(8) for kind in ThreadIdKind}, 0, 1, 0)
_OF_ALL = ("nothing", "loaded")
_FIRST_API = 201811


@record
class Tried:
    """What came of it, and what shows each finding, by its key."""

    answer: ConformanceAnswer
    scripts: Mapping[str, Script]
    answers: Mapping[str, Mapping[int, Answers]]


@record
class OmpdTried:
    """What came of OMPD's functions: findings, and what shows each, by their keys."""

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
    file: str, programs: Sequence[str], ompd: OmpdTried | None, dmpl: DmplTried | None, known: Iterable[str] = ()
) -> Tried:
    """Return what came of a library, by the interfaces that it has.

    :param known: keys of findings that are expected
    """
    parts = [part for part in (ompd, dmpl) if part is not None]
    found = {key: finding for part in parts for key, finding in part.rows.items()}
    untried = sorted(name for part in parts for name in part.untried)
    listed = set(known)
    rows = [replace(finding, is_known=key in listed) for key, finding in found.items()]
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
        tuple(sorted(listed - found.keys())),
    )
    return Tried(answer, ompd.scripts if ompd is not None else {}, ompd.answers if ompd is not None else {})


def try_ompd(library: Loads, subjects: Sequence[Subject], *, first: bool = False) -> OmpdTried:
    """Put the OMPD functions of a library to the test.

    :param library: opened, and not closed before this returns
    :param subjects: the programs that it is tried on; without any, what needs one is left out
    :param first: stop trying a program at its first finding
    :raises LibraryError: if the library cannot be loaded
    :raises NoAnswer: if it is no library of OMPD
    """
    functions, api, version = _introduced(library)
    notes: list[str] = []
    if api is None:
        notes.append(f"ompd_get_api_version gave no version, and {_FIRST_API} is tried")
        api = _FIRST_API
    found: dict[str, ConformanceFinding] = {}
    scripts: dict[str, Script] = {}
    served: dict[str, Mapping[int, Answers]] = {}
    untried: dict[str, None] = {}
    tried = 0
    for function in missing(functions, api, FIRST_WITH_KINDS):
        rule = RULES["exported"]
        found[f"{function}/there"] = ConformanceFinding(
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
        with suppress(Enough), closing(runs):
            _try_all(runs, functions, is_whole=subject is not None)
        tried += runs.tried
        for key, finding in runs.found.items():
            if key not in found:
                found[key], scripts[key], served[key] = finding, runs.scripts[key], runs.answers
        notes += runs.unsteady
        untried.update(runs.untried)
    if not subjects:
        notes.append("without a program there are no handles: only what needs none was tried")
    return OmpdTried(found, scripts, served, version, api, len(functions), tried, tuple(untried), tuple(notes))


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
    text = replies[-1].found.get("text")
    version = clean(bytes.fromhex(text)) if isinstance(text, str) else ""
    api = replies[1].word(API) if len(replies) > 1 and replies[1].code == Rc.OK else None
    return functions, api, version


def _runs(library: Loads, subject: Subject | None, api: int, *, first: bool) -> Runs:
    if subject is None:
        nobody = Subject("", Answers(None), _NOBODY, _NOBODY, False)  # type: ignore[arg-type]  # nobody is asked
        return Runs(library, {}, Plan(nobody, ThreadIdKind.PTHREAD, api), first=first)
    answers = {1: subject.answers, 2: subject.answers}
    plan = Plan(subject, ThreadIdKind.PTHREAD, api)
    # The first kind of identifiers that the library takes.
    for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
        with Trial(library, answers) as trial:
            steps = full(replace(plan, kind=kind))
            if THREAD in handles_in(steps, trial.play(steps)):
                return Runs(library, answers, replace(plan, kind=kind), first=first)
    return Runs(library, answers, plan, first=first)


def _try_all(runs: Runs, functions: frozenset[str], *, is_whole: bool) -> None:
    def every(cases: Iterable[Case]) -> None:
        for case in cases:
            if case.function in functions and (is_whole or case.setup in _OF_ALL):
                runs.try_case(case)

    # What needs a process of its own for each case comes last.
    if is_whole:
        states = sequences.states(runs) if "ompd_enumerate_states" in functions else frozenset()
        icvs = sequences.icvs(runs) if "ompd_enumerate_icvs" in functions else ()
        runs.plan = sequences.plan_with(runs.plan, states, icvs)
        every(laws(functions, runs.plan))
        every(sequences.values(runs.plan, icvs))
        sequences.display(runs)
    every(wrong_arguments(functions, runs.plan))
    if is_whole:
        sequences.faults(runs, functions)
        sequences.balances(runs, functions)
    every(life(functions, runs.plan))
    if is_whole:
        every(released(functions, runs.plan))
        _poisoned(runs, functions)


def _poisoned(runs: Runs, functions: frozenset[str]) -> None:
    # The same again, with memory that is not all zeros: what is found by that alone.
    runs.close()
    runs.before, runs.suffix = ({"do": "poison", "byte": 0xA5},), "/poisoned"
    for case in laws(functions, runs.plan):
        if case.key not in runs.found:
            runs.try_case(case)
    sequences.display(runs)
