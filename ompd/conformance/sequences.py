"""Trials of which each step depends on the one before: enumerations, variables, failing callbacks, memory."""

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
from ompd.contract.ompt.states import State
from ompd.errors import Rc
from ompd.records import record
from ompd.runtimes.hosted.trial.client import Reply, Step

_MOST = 512
_STRANGE = re.compile(r"[^A-Za-z0-9_.=, -]")
_OK = frozenset((Rc.OK,))
HANDLE_OF_SCOPE = {1: SPACE, 2: SPACE, 3: THREAD, 4: REGION, 5: IMPLICIT, 6: TASK}
_TRUTHS = {"team-size-var": "team_size", "thread-num-var": "thread_num", "levels-var": "level"}
_FREE, _PRINT, _WRITE = 1, 2, 6
# With what callbacks fail: the codes that the standard has for each of them (20.4), and for memory that there is not
# that of ompd_rc_t, since it names none there.
_FAULTS = {0: Rc.NOMEM, 4: Rc.ERROR, 5: Rc.ERROR, 7: Rc.ERROR, 10: Rc.UNSUPPORTED}
_MOST_FAULTS = 400
_ROUNDS = 5
_STATE_NAMES = {f"ompt_state_{state.name.lower()}" for state in State}


@record
class Icv:
    """A variable that the library has."""

    name: str
    number: int
    scope: int


def _hex_text(reply: Reply) -> str | None:
    text = reply.found.get("text")
    try:
        # It comes from the library, and goes into titles, files' names and programs.
        return _STRANGE.sub("?", bytes.fromhex(text).decode("utf-8", "replace")) if isinstance(text, str) else None
    except ValueError:
        return None


def states(runs: Runs) -> frozenset[int]:
    """Walk all states, and return them."""
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
        number, name = replies[-2].word(OUT + 2), _hex_text(replies[-1]) or ""
        if number in set(State) and name != f"ompt_state_{State(number).name.lower()}":
            return f"the name of state {number:#x} is not the standard's"
        return f"{name} is {number:#x}" if number not in set(State) and name in _STATE_NAMES else ""

    _walk(runs, "ompd_enumerate_states", State.UNDEFINED, steps, (law, named), names)
    return frozenset(names)


def icvs(runs: Runs) -> Sequence[Icv]:
    """Walk all variables, and return them."""
    names: dict[int, str] = {}
    scopes: dict[int, int] = {}

    def steps(current: int) -> tuple[Step, ...]:
        arguments = (("in", SPACE), ("n", current), *(("at", OUT + place) for place in range(2, 6)))
        return (*outs(arguments), call("ompd_enumerate_icvs", *arguments), {"do": "text", "cell": OUT + 3})

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        number, name, call_ = replies[-2].word(OUT + 2), _hex_text(replies[-1]) or "", replies[-2]
        scope, more = (int.from_bytes(call_.raw(OUT + place)[:4], "little") for place in (4, 5))
        if not number or number in names:
            return f"variable {number} {'a second time' if number else 'for one that there is'}"
        if not 1 <= scope <= 8:
            return f"scope {scope} of {name}"
        if more not in (0, 1):
            return "more is neither 0 nor 1"
        scopes[number] = scope
        return owned_text(plan, replies)

    def named(plan: Plan, replies: Sequence[Reply]) -> str:
        name = _hex_text(replies[-1]) or ""
        return f"a second variable of the name {name}" if name in names.values() else ""

    _walk(runs, "ompd_enumerate_icvs", 0, steps, (law, named), names)
    return [Icv(name, number, scopes[number]) for number, name in names.items() if number in scopes]


def _walk(
    runs: Runs,
    function: str,
    current: int,
    steps: Callable[[int], tuple[Step, ...]],
    walked: tuple[Law, Law],
    names: dict[int, str],
) -> None:
    law, named = walked
    title, name_rule = "all of them, one after the other", "state-name" if "states" in function else "variable-name"
    for count in range(_MOST + 1):
        played, key = steps(current), f"{function}/walk/{count}"
        case = Case(key, function, title, played, _OK, "enumeration", law, needs=(SPACE,))
        before = len(runs.found)
        replies = runs.try_case(case)
        if len(replies) < len(case.steps) or replies[-2].code != Rc.OK or len(runs.found) > before:
            return
        runs.try_case(Case(f"{function}/name/{count}", function, title, played, _OK, name_rule, named, needs=(SPACE,)))
        current = replies[-2].word(OUT + 2)
        names[current] = _hex_text(replies[-1]) or ""
        if not replies[-2].word(OUT + (4 if "states" in function else 5)) & 0xFFFFFFFF:
            break
    if count >= _MOST:

        def said(plan: Plan, replies: Sequence[Reply]) -> str:
            return "the enumeration does not end"

        codes = frozenset(Rc)
        runs.try_case(
            Case(f"{function}/all", function, "all of them", steps(current), codes, "enumeration", said, needs=(SPACE,))
        )


def plan_with(plan: Plan, states: frozenset[int], found: Sequence[Icv]) -> Plan:
    """Return a plan with the states and variables that the library has."""
    by_name = {icv.name: icv for icv in found}
    number = next((by_name[name] for name in ("levels-var", "dyn-var", "team-size-var") if name in by_name), None)
    text = by_name.get("run-sched-var")
    as_plan = [
        (icv.number, icv.scope, HANDLE_OF_SCOPE[icv.scope])
        if icv is not None and icv.scope in HANDLE_OF_SCOPE
        else plan.number
        for icv in (number, text)
    ]
    numbers = frozenset(icv.number for icv in found)
    return replace(plan, number=as_plan[0], text=as_plan[1], states=states, icvs=numbers)


def values(plan: Plan, found: Sequence[Icv]) -> Iterator[Case]:
    """Yield cases that read each variable, both ways, and by scopes that are not its own."""
    number, text = "ompd_get_icv_from_scope", "ompd_get_icv_string_from_scope"
    may = frozenset((Rc.OK, Rc.UNAVAILABLE, Rc.INCOMPLETE))
    refused = frozenset(Rc) - {Rc.OK, Rc.INCOMPLETE}
    for icv in found:
        cell = HANDLE_OF_SCOPE.get(icv.scope)
        if cell is None:
            continue
        # A key is one word of the list of what is known, whatever the library calls its variables.
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
            if {scope, icv.scope} <= {1, 2} or {scope, icv.scope} <= {5, 6} or scope == icv.scope:
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
    """Try the variables that the runtime displays."""
    function, release = "ompd_get_display_control_vars", "ompd_rel_display_control_vars"
    get = (fill(OUT, 0), call(function, ("in", SPACE), ("at", OUT)))

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        texts = replies[-1].found.get("texts")
        if not isinstance(texts, list):
            return "no vector that a null pointer ends"
        for text in texts:
            name, equals, _ = (_hex_text(Reply(text)) or "").partition("=")
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
    """Have every call of every callback fail once, in every routine."""
    for function, routine in ROUTINES.items():
        own = routine.section.startswith("20.5.1.") or function.startswith("ompd_rel_") or "vector" in routine.takes
        if function not in functions or own or "compare" in function or function == "ompd_device_initialize":
            continue
        _faults_of(runs, function, good(function, runs.plan), "")
        if "string" in function and "any" in routine.takes:
            # The text of a number is read in another way than that of a text.
            icv, scope, handle = runs.plan.number[0], *runs.plan.number[1:]
            _faults_of(runs, function, [("in", handle), ("n", scope), ("n", icv), ("at", OUT + 3)], "-of-number")


def _faults_of(runs: Runs, function: str, arguments: Sequence[tuple[str, Any]], of: str) -> None:
    plain = (*outs(arguments), call(function, *arguments))
    trial, held = runs.begun("full")
    if not set(needs(arguments)) <= held:
        return
    replies = trial.play((*plain, *plain))
    if replies[-1].ended or replies[-1].code not in (Rc.OK, Rc.INCOMPLETE):
        if replies[-1].ended:
            runs.drop("full")
        return
    called = replies[-1].found.get("called")
    counts = called if isinstance(called, list) else []
    for which, count in enumerate(counts[: len(CALLBACKS)]):
        if which in (_FREE, _PRINT, _WRITE) or not isinstance(count, int):
            continue
        for nth in range(1, min(count, _MOST_FAULTS) + 1):
            runs.try_case(_faulty(runs.plan, function, arguments, which, nth, of))


def _faulty(plan: Plan, function: str, arguments: Sequence[tuple[str, Any]], which: int, nth: int, of: str) -> Case:
    takes, plain = ROUTINES[function].takes, (*outs(arguments), call(function, *arguments))
    code = _FAULTS.get(which, Rc.STALE_HANDLE)
    fault: Step = {"do": "fault", "which": which, "nth": nth, "code": int(code), "gives": True}
    over: Step = {"do": "fault", "which": which, "nth": 0, "code": 0}
    given = [(word, cell) for word, (how, cell) in zip(takes, arguments, strict=True) if how == "at"]
    compare: tuple[Step, ...] = ()
    letter = given[0][0][1:]
    if letter in ("T", "P", "K"):
        name = {"T": "thread", "P": "parallel", "K": "task"}[letter]
        cell = given[0][1]
        # What the good call gave is moved away by making it again: the handles are compared.
        first = call(function, *[(how, OUT + 11 if at == cell and how == "at" else at) for how, at in arguments])
        asked = call(f"ompd_{name}_handle_compare", ("in", cell), ("in", OUT + 11), ("at", OUT + 10))
        # Without a handle there is nothing to compare.
        compare = (fill(OUT + 10), {**asked, "if_ok": True})
        steps = (fill(OUT + 11), first, *plain[:-1], fault, plain[-1], over, *compare)
    elif letter == "S":
        # One that was given in spite of the fault has to lead to a thread, as any other.
        raw, into = plan.subject.thread.identifiers[plan.kind], OUT + 12
        thread = (("in", given[0][1]), ("n", plan.kind), ("n", len(raw)), ("raw", raw.hex()), ("at", into))
        used = {**call("ompd_get_thread_handle", *thread), "if_ok": True}
        steps = (*plain, *plain[:-1], fault, plain[-1], over, used)
    elif any(word == ">s" for word, _ in given):
        cell = next(cell for word, cell in given if word == ">s")
        read: Step = {"do": "text", "cell": cell}
        steps = (*plain, read, *plain[:-1], fault, plain[-1], over, read)
    else:
        steps = (*plain, *plain[:-1], fault, plain[-1], over)
    title = f"call {nth} of {CALLBACKS[which]} fails"
    return Case(
        f"{function}/fault-{CALLBACKS[which]}{of}/{nth}",
        function,
        title,
        steps,
        frozenset(Rc),
        "callback-error",
        law=_after_fault(function, given),
        needs=needs(arguments),
    )


def _after_fault(function: str, given: Sequence[tuple[str, object]]) -> Law:
    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        own = [reply for reply in replies if reply.code is not None]
        texts = [reply.found.get("text") for reply in replies if "text" in reply.found]
        is_compared = given[0][0][1:] in ("T", "P", "K")
        good_, bad = (own[0], own[1]) if len(own) > 1 else (own[0], own[0])
        if not bad.found.get("fired") or bad.code not in (Rc.OK, Rc.INCOMPLETE):
            return ""
        if is_compared:
            # A handle that does not compare is no right one either.
            differs = own[-1].code != Rc.OK or own[-1].raw(OUT + 10)[:4] != bytes(4)
            return "success, with a handle that is not the one without the fault" if differs else ""
        for word, cell in given:
            if word not in (">s", ">S", ">v", ">k") and isinstance(cell, int) and good_.raw(cell) != bad.raw(cell):
                return "success, with another result than without the fault"
            if word == ">S" and own[-1].code != Rc.OK:
                return "success, with a handle that leads to no thread"
        return "success, with another text than without the fault" if texts and texts[0] != texts[-1] else ""

    return law


def balances(runs: Runs, functions: frozenset[str]) -> None:
    """Look whether memory grows where all that is given is given back."""
    for function, routine in ROUTINES.items():
        given = [word[1:] for word in routine.takes if word.startswith(">")]
        if function not in functions or function == "ompd_device_initialize" or "enumerate" in function:
            continue
        if len(given) != 1 or given[0] not in (*RELEASES, "s", "v"):
            continue
        arguments = good(function, runs.plan)
        cell = next(at for how, at in arguments if how == "at")
        back: Step = {"do": "free", "cell": cell}
        if given[0] in RELEASES:
            back = call(RELEASES[given[0]], ("in", cell))
        elif given[0] == "v":
            back = call("ompd_rel_display_control_vars", ("at", cell))
        one: tuple[Step, ...] = (fill(cell, 0), call(function, *arguments), back, {"do": "blocks"})
        case = Case(
            f"{function}/memory",
            function,
            "given and given back, five times",
            one * _ROUNDS,
            frozenset(Rc),
            "balance",
            _growth,
            needs=needs(arguments),
        )
        runs.try_case(case)


def _growth(plan: Plan, replies: Sequence[Reply]) -> str:
    if any(reply.code not in (None, Rc.OK) for reply in replies):
        return ""
    counts = [reply.found["live"] for reply in replies if isinstance(reply.found.get("live"), int)]
    grown = [after - before for before, after in pairwise(counts[1:])]
    return f"{min(grown)} blocks more each time" if len(grown) > 1 and min(grown) > 0 else ""
