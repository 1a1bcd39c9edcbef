"""Trials whose steps build on each other: enumerations, variables, failing callbacks, memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ompd.conformance.cases import (
    IMPLICIT,
    OUT,
    REGION,
    SPACE,
    TASK,
    THREAD,
    Case,
    Law,
    Plan,
    call,
    fill,
    good,
    needs,
    outs,
)
from ompd.conformance.laws import owned_text
from ompd.conformance.standard import RELEASES, ROUTINES
from ompd.conformance.trying import CALLBACKS, Runs
from ompd.contract.ompt import State
from ompd.errors import Rc
from ompd.records import record
from ompd.runtimes.hosted.trial.client import Reply, Step, Text

_MOST = 512
_STRANGE = re.compile(r"[^A-Za-z0-9_.=, -]")
_OK = frozenset((Rc.OK,))
HANDLE_OF_SCOPE = {1: SPACE, 2: SPACE, 3: THREAD, 4: REGION, 5: IMPLICIT, 6: TASK}
_TRUTHS = {"team-size-var": "team_size", "thread-num-var": "thread_num", "levels-var": "level"}
_FREE, _PRINT, _WRITE = 1, 2, 6
# The code that each callback returns when it is made to fail (20.4), by its index in the table of callbacks. The
# standard has no code for a failed allocation; here it is ompd_rc_nomem.
_FAULTS = {0: Rc.NOMEM, 4: Rc.ERROR, 5: Rc.ERROR, 7: Rc.ERROR, 10: Rc.UNSUPPORTED}
_MOST_FAULTS = 400
_ROUNDS = 5
_STATE_NAMES = {f"ompt_state_{state.name.lower()}" for state in State}


@record
class Icv:
    """A control variable that the library has."""

    name: str
    number: int
    scope: int


def _shown(text: Text | None) -> str:
    # The library's text as it goes into titles, file names and programs, "" for no text.
    return _STRANGE.sub("?", (text.raw or b"").decode("utf-8", "replace")) if text is not None else ""


def states(runs: Runs) -> frozenset[int]:
    """Enumerate all states, try each step, and return the numbers of the states."""
    names: dict[int, str] = {}

    def steps(current: int) -> tuple[Step, ...]:
        arguments = (("in", SPACE), ("n", current), ("at", OUT + 2), ("at", OUT + 3), ("at", OUT + 4))
        return (*outs(arguments), call("ompd_enumerate_states", *arguments), {"do": "text", "cell": OUT + 3})

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        number, more = replies[-2].word(OUT + 2), replies[-2].word(OUT + 4)
        if more not in (0, 1):
            return "more_enums is neither 0 nor 1"
        if number in names:
            return f"state {number:#x} a second time"
        return owned_text(plan, replies)

    def named(plan: Plan, replies: Sequence[Reply]) -> str:
        number, name = replies[-2].word(OUT + 2), _shown(replies[-1].text)
        if number in set(State) and name != f"ompt_state_{State(number).name.lower()}":
            return f"the name of state {number:#x} is not the standard's"
        return f"{name} is {number:#x}" if number not in set(State) and name in _STATE_NAMES else ""

    _enumerate(runs, "ompd_enumerate_states", State.UNDEFINED, steps, (law, named), names)
    return frozenset(names)


def icvs(runs: Runs) -> Sequence[Icv]:
    """Return the library's control variables, and try ompd_enumerate_icvs on the way to each of them."""
    names: dict[int, str] = {}
    scopes: dict[int, int] = {}

    def steps(current: int) -> tuple[Step, ...]:
        arguments = (("in", SPACE), ("n", current), *(("at", OUT + place) for place in range(2, 6)))
        return (*outs(arguments), call("ompd_enumerate_icvs", *arguments), {"do": "text", "cell": OUT + 3})

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        step = replies[-2]
        number = step.word(OUT + 2)
        name = _shown(replies[-1].text)
        scope, more = (int.from_bytes(step.raw(OUT + place)[:4], "little") for place in (4, 5))
        if not number or number in names:
            return f"variable {number} {'a second time' if number else 'for one that there is'}"
        if not 1 <= scope <= 8:
            return f"scope {scope} of {name}"
        if more not in (0, 1):
            return "more is neither 0 nor 1"
        scopes[number] = scope
        return owned_text(plan, replies)

    def named(plan: Plan, replies: Sequence[Reply]) -> str:
        name = _shown(replies[-1].text)
        return f"a second variable of the name {name}" if name in names.values() else ""

    _enumerate(runs, "ompd_enumerate_icvs", 0, steps, (law, named), names)
    return [Icv(name, number, scopes[number]) for number, name in names.items() if number in scopes]


def _enumerate(
    runs: Runs,
    function: str,
    current: int,
    steps: Callable[[int], tuple[Step, ...]],
    laws: tuple[Law, Law],
    names: dict[int, str],
) -> None:
    # Of *laws*, the first is for each step of the enumeration, the second for the name that the step gives.
    law, named = laws
    title = "all of them, one after the other"
    name_rule = "state-name" if "states" in function else "variable-name"
    for count in range(_MOST + 1):
        played = steps(current)
        case = Case(f"{function}/walk/{count}", function, title, played, _OK, "enumeration", law, needs=(SPACE,))
        count_before = len(runs.findings)
        replies = runs.try_case(case)
        has_failed = len(replies) < len(case.steps) or replies[-2].code != Rc.OK
        if has_failed or len(runs.findings) > count_before:
            return
        runs.try_case(Case(f"{function}/name/{count}", function, title, played, _OK, name_rule, named, needs=(SPACE,)))
        current = replies[-2].word(OUT + 2)
        names[current] = _shown(replies[-1].text)
        if not replies[-2].word(OUT + (4 if "states" in function else 5)) & 0xFFFFFFFF:
            break
    if count >= _MOST:

        def endless(plan: Plan, replies: Sequence[Reply]) -> str:
            return "the enumeration does not end"

        codes = frozenset(Rc)
        runs.try_case(
            Case(
                f"{function}/all",
                function,
                "all of them",
                steps(current),
                codes,
                "enumeration",
                endless,
                needs=(SPACE,),
            )
        )


def plan_with(plan: Plan, states: frozenset[int], icvs: Sequence[Icv]) -> Plan:
    """Return a plan with the states and variables that the library has."""
    by_name = {icv.name: icv for icv in icvs}
    number = next((by_name[name] for name in ("levels-var", "dyn-var", "team-size-var") if name in by_name), None)
    text = by_name.get("run-sched-var")
    as_plan = [
        (icv.number, icv.scope, HANDLE_OF_SCOPE[icv.scope])
        if icv is not None and icv.scope in HANDLE_OF_SCOPE
        else plan.number
        for icv in (number, text)
    ]
    numbers = frozenset(icv.number for icv in icvs)
    return replace(plan, number=as_plan[0], text=as_plan[1], states=states, icvs=numbers)


def values(plan: Plan, icvs: Sequence[Icv]) -> Iterator[Case]:
    """Yield cases that read each variable, as number and as text, and through wrong scopes."""
    number, text = "ompd_get_icv_from_scope", "ompd_get_icv_string_from_scope"
    may = frozenset((Rc.OK, Rc.UNAVAILABLE, Rc.INCOMPLETE))
    refused = frozenset(Rc) - {Rc.OK, Rc.INCOMPLETE}
    for icv in icvs:
        cell = HANDLE_OF_SCOPE.get(icv.scope)
        if cell is None:
            continue
        # Lists of expected findings have one key a line: it must not contain blanks.
        key = "-".join(icv.name.split()) or str(icv.number)
        arguments = (("in", cell), ("n", icv.scope), ("n", icv.number), ("at", OUT))
        law = _value(_TRUTHS.get(icv.name))
        yield Case(
            f"{number}/number/{key}",
            number,
            icv.name,
            (fill(OUT), call(number, *arguments)),
            may | {Rc.INCOMPATIBLE},
            law=law,
            needs=(cell,),
        )
        read: Step = {"do": "text", "cell": OUT}
        steps = (fill(OUT, 0), call(text, *arguments), read)
        allowed = may | {Rc.UNSUPPORTED}
        yield Case(f"{text}/text/{key}", text, icv.name, steps, allowed, "owned-text", owned_text, needs=(cell,))
        yield Case(f"{text}/has-text/{key}", text, icv.name, steps, may, "text-of-number", needs=(cell,))
        for scope, other in HANDLE_OF_SCOPE.items():
            scopes = {scope, icv.scope}
            has_same_handles = len(scopes) == 1 or scopes <= {1, 2} or scopes <= {5, 6}
            if has_same_handles:
                continue
            for function in (number, text):
                wrong = (fill(OUT), call(function, ("in", other), ("n", scope), ("n", icv.number), ("at", OUT)))
                title = f"{icv.name}, which has scope {icv.scope}, by scope {scope}"
                yield Case(
                    f"{function}/wrong-scope/{key}-{scope}",
                    function,
                    title,
                    wrong,
                    refused,
                    "variable-scope",
                    needs=(other,),
                )


def _value(truth: str | None) -> Law:
    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        if replies[-1].code not in (Rc.OK, Rc.INCOMPLETE):
            return ""
        word = replies[-1].word(OUT)
        if word == int.from_bytes(b"\x5a" * 8, "little"):
            return "success, and the value was not written"
        wanted = getattr(plan.subject.thread, truth) if truth else word
        return "" if word == wanted else f"{word} in place of {wanted}"

    return law


def display(runs: Runs) -> None:
    """Try the routines for the variables that the runtime displays."""
    function, release = "ompd_get_display_control_vars", "ompd_rel_display_control_vars"
    get = (fill(OUT, 0), call(function, ("in", SPACE), ("at", OUT)))

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        texts = replies[-1].texts
        if texts is None:
            return "no vector that a null pointer ends"
        for text in texts:
            name, equals, _ = _shown(text).partition("=")
            if not name or not equals:
                return "a text that is not of the form name=value"
        return ""

    runs.try_case(
        Case(
            f"{function}/good",
            function,
            "right arguments",
            (*get, {"do": "texts", "cell": OUT}),
            _OK,
            law=law,
            needs=(SPACE,),
        )
    )
    steps = (*get, call(release, ("at", OUT)))
    runs.try_case(Case(f"{release}/good", release, "what was given", steps, _OK, needs=(SPACE,)))
    null = frozenset(Rc) - {Rc.OK, Rc.INCOMPLETE}
    runs.try_case(
        Case(f"{release}/null", release, "NULL", (call(release, ("n", 0)),), null, "null-input", setup="loaded")
    )


def faults(runs: Runs, functions: frozenset[str]) -> None:
    """Try every routine with each call of each callback failing once."""
    for function, routine in ROUTINES.items():
        is_start_or_end = routine.section.startswith("20.5.1.") or function == "ompd_device_initialize"
        is_release = function.startswith("ompd_rel_") or "vector" in routine.takes
        if function not in functions or is_start_or_end or is_release or "compare" in function:
            continue
        _faults_of(runs, function, good(function, runs.plan), "")
        if "string" in function and "any" in routine.takes:
            # Both kinds of variables are tried: libraries read a number in another way than a text.
            icv, scope, handle = runs.plan.number
            _faults_of(runs, function, [("in", handle), ("n", scope), ("n", icv), ("at", OUT + 3)], "-of-number")


def _faults_of(runs: Runs, function: str, arguments: Sequence[tuple[str, Any]], key_suffix: str) -> None:
    plain = (*outs(arguments), call(function, *arguments))
    trial, handle_cells = runs.begun("full")
    if not set(needs(arguments)) <= handle_cells:
        return
    replies = trial.play((*plain, *plain, {"do": "called_back"}))
    if replies[-1].ended:
        runs.drop("full")
        return
    if replies[-2].code not in (Rc.OK, Rc.INCOMPLETE):
        return
    for which, count in enumerate(replies[-1].called_back[: len(CALLBACKS)]):
        if which in (_FREE, _PRINT, _WRITE):
            continue
        for nth in range(1, min(count, _MOST_FAULTS) + 1):
            runs.try_case(_faulty(runs.plan, function, arguments, which, nth, key_suffix))


def _faulty(
    plan: Plan, function: str, arguments: Sequence[tuple[str, Any]], which: int, nth: int, key_suffix: str
) -> Case:
    takes = ROUTINES[function].takes
    plain = (*outs(arguments), call(function, *arguments))
    code = _FAULTS.get(which, Rc.STALE_HANDLE)
    fault: Step = {"do": "fault", "which": which, "nth": nth, "code": int(code), "gives": True}
    over: Step = {"do": "fault", "which": which, "nth": 0, "code": 0}
    results = [(word, cell) for word, (kind, cell) in zip(takes, arguments, strict=True) if kind == "at"]
    compare: tuple[Step, ...] = ()
    letter = results[0][0][1:]
    if letter in ("T", "P", "K"):
        name = {"T": "thread", "P": "parallel", "K": "task"}[letter]
        cell = results[0][1]
        # The case first calls the routine without the fault, into another cell. That handle is later compared with the
        # handle that the routine gives in spite of the fault.
        first = call(
            function, *[(kind, OUT + 11 if value == cell and kind == "at" else value) for kind, value in arguments]
        )
        comparison = call(f"ompd_{name}_handle_compare", ("in", cell), ("in", OUT + 11), ("at", OUT + 10))
        # The comparison is left out if the faulty call gives no handle.
        compare = (fill(OUT + 10), {**comparison, "if_ok": True})
        steps = (fill(OUT + 11), first, *plain[:-1], fault, plain[-1], over, *compare)
    elif letter == "S":
        # An address space that was given in spite of the fault must find its threads.
        raw = plan.subject.thread.identifiers[plan.kind]
        into = OUT + 12
        thread = (("in", results[0][1]), ("n", plan.kind), ("n", len(raw)), ("raw", raw.hex()), ("at", into))
        used = {**call("ompd_get_thread_handle", *thread), "if_ok": True}
        steps = (*plain, *plain[:-1], fault, plain[-1], over, used)
    elif any(word == ">s" for word, _ in results):
        cell = next(cell for word, cell in results if word == ">s")
        read: Step = {"do": "text", "cell": cell}
        steps = (*plain, read, *plain[:-1], fault, plain[-1], over, read)
    else:
        steps = (*plain, *plain[:-1], fault, plain[-1], over)
    title = f"call {nth} of {CALLBACKS[which]} fails"
    return Case(
        f"{function}/fault-{CALLBACKS[which]}{key_suffix}/{nth}",
        function,
        title,
        steps,
        frozenset(Rc),
        "callback-error",
        law=_after_fault(results),
        needs=needs(arguments),
    )


def _after_fault(results: Sequence[tuple[str, object]]) -> Law:
    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        calls = [reply for reply in replies if reply.code is not None]
        texts = [reply.text.raw for reply in replies if reply.text is not None]
        is_compared = results[0][0][1:] in ("T", "P", "K")
        sound = calls[0]
        faulty = calls[1] if len(calls) > 1 else calls[0]
        if not faulty.is_faulty or faulty.code not in (Rc.OK, Rc.INCOMPLETE):
            return ""
        if is_compared:
            # A failed comparison counts as a difference, too.
            differs = calls[-1].code != Rc.OK or calls[-1].raw(OUT + 10)[:4] != bytes(4)
            return "success, with a handle that is not the one without the fault" if differs else ""
        for word, cell in results:
            if word not in (">s", ">S", ">v", ">k") and isinstance(cell, int) and sound.raw(cell) != faulty.raw(cell):
                return "success, with another result than without the fault"
            if word == ">S" and calls[-1].code != Rc.OK:
                return "success, with a handle that leads to no thread"
        return "success, with another text than without the fault" if texts and texts[0] != texts[-1] else ""

    return law


def balances(runs: Runs, functions: frozenset[str]) -> None:
    """Try whether the library's memory grows although each result is released."""
    for function, routine in ROUTINES.items():
        results = [word[1:] for word in routine.takes if word.startswith(">")]
        gives_one_to_release = len(results) == 1 and results[0] in (*RELEASES, "s", "v")
        if not gives_one_to_release or function == "ompd_device_initialize" or "enumerate" in function:
            continue
        if function not in functions:
            continue
        arguments = good(function, runs.plan)
        cell = next(value for kind, value in arguments if kind == "at")
        release: Step = {"do": "free", "cell": cell}
        if results[0] in RELEASES:
            release = call(RELEASES[results[0]], ("in", cell))
        elif results[0] == "v":
            release = call("ompd_rel_display_control_vars", ("at", cell))
        a_round: tuple[Step, ...] = (fill(cell, 0), call(function, *arguments), release, {"do": "blocks"})
        case = Case(
            f"{function}/memory",
            function,
            "given and given back, five times",
            a_round * _ROUNDS,
            frozenset(Rc),
            "balance",
            _growth,
            needs=needs(arguments),
        )
        runs.try_case(case)


def _growth(plan: Plan, replies: Sequence[Reply]) -> str:
    if any(reply.code not in (None, Rc.OK) for reply in replies):
        return ""
    counts = [reply.blocks for reply in replies if reply.blocks is not None]
    grown = [after - before for before, after in pairwise(counts[1:])]
    return f"{min(grown)} blocks more each time" if len(grown) > 1 and min(grown) > 0 else ""
