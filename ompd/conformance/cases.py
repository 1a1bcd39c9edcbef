"""The test cases: tables of wrong arguments, and the cases that they give for each routine.

A case is data: the steps after a set-up, the codes that the last call may return, and the law that its results must
obey. The set-up puts handles into numbered cells, by which the steps name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ompd.conformance.rules import RULES, Rule
from ompd.conformance.standard import RELEASES, ROUTINES, SINCE_5_2
from ompd.conformance.subject import Subject
from ompd.errors import Rc
from ompd.records import record
from ompd.runtimes.hosted.trial.client import Reply, Step

SPACE, THREAD, REGION, TASK, OTHER, SPACE_B, THREAD_B, IMPLICIT, NULLS = range(9)
OUT = 20
"""The first cell for results of a case."""
API = 60
CELL_COUNT = 64
"""The number of cells in ``runtimes/hosted/trial/worker``."""
HANDLES = {"S": SPACE, "T": THREAD, "P": REGION, "K": TASK}
UNWRITTEN = 0x5A
_UNKNOWN_CONTEXT = 77
_TEAM_SIZE = -2  # a placeholder in WRONG

Law = Callable[["Plan", Sequence[Reply]], str]

_OK = frozenset((Rc.OK,))
_STATES = _OK | {Rc.NEEDS_STATE_TRACKING}
_REFUSED = frozenset(Rc) - {Rc.OK, Rc.INCOMPLETE}
"""Any code of failure: the standard's own for a fault, or one that all routines may return."""


@record
class Plan:
    """The data that all cases of a library share."""

    subject: Subject
    kind: int
    """The kind of thread identifiers that the library accepts."""
    api: int
    """The library's version of the interface."""
    number: tuple[int, int, int] = (1, 3, THREAD)
    """A control variable whose value is a number: the variable's number, its scope, and the cell of a handle of that
    scope.
    """
    text: tuple[int, int, int] = (1, 3, THREAD)
    """A control variable whose value is a text, in the same form."""
    states: frozenset[int] = frozenset()
    """The states that the library enumerates."""
    icvs: frozenset[int] = frozenset()
    """The control variables that the library enumerates."""


@record
class Case:
    """One trial: steps, and the outcomes that the standard allows."""

    key: str
    function: str
    title: str
    steps: tuple[Step, ...]
    allowed: frozenset[Rc]
    rule: str = "result"
    """The key of the standard's sentence in :data:`RULES`."""
    law: Law | None = None
    setup: str = "full"
    """What was done before the steps: ``nothing``, ``loaded`` (the library is initialised), ``full`` or ``ended``."""
    alone: bool = False
    """Whether the case leaves its process unfit for others."""
    needs: tuple[int, ...] = ()
    """The cells that must hold a handle."""
    judges_any: bool = False
    """Whether the case is judged even if its last call was left out because an earlier one had failed."""

    @property
    def follows(self) -> Rule:
        """The sentence of the standard behind the case, with its section."""
        rule = RULES[self.rule]
        return rule if rule.section else Rule(ROUTINES[self.function].section, rule.level, rule.words)

    @property
    def expected(self) -> str:
        """The right outcome, in words."""
        if self.allowed == _REFUSED:
            return "a code that says that it failed"
        names = " or ".join(f"ompd_rc_{code.name.lower()}" for code in sorted(self.allowed))
        return names if self.law is None else f"{names}, and results that are consistent"


def call(function: str, *arguments: tuple[str, Any]) -> Step:
    """Return the step that calls a function."""
    return {"do": "call", "function": function, "arguments": [list(argument) for argument in arguments]}


def if_ok(step: Step) -> Step:
    """Return *step* with the condition that it is left out if the call before it failed."""
    return {**step, "if_ok": True}


def fill(cell: int, byte: int = UNWRITTEN) -> Step:
    """Return the step that fills a cell."""
    return {"do": "fill", "cell": cell, "byte": byte}


def loaded(api: int) -> list[Step]:
    """Return the steps that initialise the library."""
    return [fill(API), call("ompd_get_api_version", ("at", API)), call("ompd_initialize", ("n", api), ("table", 0))]


def space(api: int) -> list[Step]:
    """Return the steps that initialise the library and the first address space."""
    return [*loaded(api), fill(SPACE, 0), call("ompd_process_initialize", ("n", 1), ("at", SPACE))]


def full(plan: Plan) -> list[Step]:
    """Return the steps of the whole set-up: the library, an address space, and handles of two threads, a region and two
    tasks. Each step may fail.
    """
    subject, kind = plan.subject, plan.kind
    first, second = subject.thread.identifiers[kind], subject.other.identifiers[kind]
    handles = [
        *(fill(cell, 0) for cell in (THREAD, REGION, TASK, OTHER, SPACE_B, THREAD_B, IMPLICIT, NULLS)),
        _thread(SPACE, kind, first, THREAD),
        _thread(SPACE, kind, second, OTHER),
        call("ompd_get_curr_parallel_handle", ("in", THREAD), ("at", REGION)),
        call("ompd_get_curr_task_handle", ("in", THREAD), ("at", TASK)),
        call("ompd_get_task_in_parallel", ("in", REGION), ("n", subject.thread.thread_num), ("at", IMPLICIT)),
    ]
    return [*space(plan.api), *handles]


def _thread(space_cell: int, kind: int, identifier: bytes, into: int) -> Step:
    arguments = (("in", space_cell), ("n", kind), ("n", len(identifier)), ("raw", identifier.hex()), ("at", into))
    return call("ompd_get_thread_handle", *arguments)


def good(function: str, plan: Plan) -> list[tuple[str, Any]]:
    """Return right arguments of a routine. Its results go into cells from :data:`OUT` on."""
    arguments: list[tuple[str, Any]] = []
    subject, kind = plan.subject, plan.kind
    identifier = subject.thread.identifiers[kind]
    icv, scope, handle = plan.text if "string" in function else plan.number
    values: dict[str, tuple[str, Any]] = {
        "version": ("n", plan.api),
        "table": ("table", 0),
        "context": ("n", 1),
        "num": ("n", subject.thread.thread_num),
        "kind": ("n", kind),
        "size": ("n", len(identifier)),
        "id": ("raw", identifier.hex()),
        "scope": ("n", scope),
        "icv": ("n", 0 if "enumerate" in function else icv),
        "state": ("n", 0x102),
        "any": ("in", handle),
        "vector": ("at", OUT),
    }
    for place, word in enumerate(ROUTINES[function].takes):
        if word.startswith(">"):
            arguments.append(("at", OUT + place))
        elif word in HANDLES:
            # Comparisons get two different threads, but the same region or task twice.
            is_second = word == "T" and place == 1
            arguments.append(("in", OTHER if is_second else HANDLES[word]))
        else:
            arguments.append(values[word])
    return arguments


def outs(arguments: Sequence[tuple[str, Any]]) -> list[Step]:
    """Return the steps that fill the result cells of a call."""
    return [fill(cell) for kind, cell in arguments if kind == "at"]


def needs(arguments: Sequence[tuple[str, Any]]) -> tuple[int, ...]:
    """Return the cells whose handles a call takes."""
    return tuple(cell for kind, cell in arguments if kind == "in")


_GETTERS = {
    "S": "ompd_process_initialize",
    "T": "ompd_get_thread_handle",
    "P": "ompd_get_curr_parallel_handle",
    "K": "ompd_get_curr_task_handle",
}
_POINTERS = {*HANDLES, "any", "context", "id", "vector"}
"""Arguments that are pointers."""
_NO_CASES = {"ompd_initialize", "ompd_finalize", "ompd_device_initialize", "ompd_rel_display_control_vars"}
# Wrong values for each argument: title, value, the codes that the standard allows, rule.
WRONG: dict[str, tuple[tuple[str, int, frozenset[Rc], str], ...]] = {
    "num": (
        ("-1", -1 & 0xFFFFFFFF, frozenset((Rc.BAD_INPUT,)), "thread-number"),
        ("the team's size", _TEAM_SIZE, frozenset((Rc.BAD_INPUT,)), "thread-number"),
        ("the largest int", 0x7FFFFFFF, frozenset((Rc.BAD_INPUT,)), "thread-number"),
    ),
    "kind": (("a kind that nobody has", 0x7FFFFFFF, frozenset((Rc.UNSUPPORTED, Rc.BAD_INPUT)), "thread-kind"),),
    "size": tuple(
        (f"{size} bytes", size, frozenset((Rc.BAD_INPUT, Rc.UNSUPPORTED, Rc.ERROR)), "thread-size")
        for size in (0, 1, 3, 63)
    ),
    "scope": (
        ("no scope", 0, _REFUSED, "no-scope"),
        ("99", 99, _REFUSED, "no-scope"),
    ),
    "icv": (
        ("the largest number", 0xFFFFFFFFFFFFFFFF, frozenset((Rc.BAD_INPUT,)), "unknown-number"),
        ("4096", 4096, frozenset((Rc.BAD_INPUT,)), "unknown-number"),
    ),
    "state": (
        ("0x7777, a state that nobody has", 0x7777, frozenset((Rc.BAD_INPUT,)), "unknown-number"),
        ("-5", -5 & 0xFFFFFFFFFFFFFFFF, frozenset((Rc.BAD_INPUT,)), "unknown-number"),
    ),
    "context": (
        ("a context that is not the tool's", _UNKNOWN_CONTEXT, _REFUSED, "foreign-context"),
        ("NULL", 0, _REFUSED, "null-input"),
    ),
}


def wrong_arguments(functions: frozenset[str], plan: Plan) -> Iterator[Case]:
    """Yield calls of each routine with one wrong argument."""
    for function, routine in ROUTINES.items():
        if function not in functions or function in _NO_CASES:
            continue
        arguments = good(function, plan)
        for place, word in enumerate(routine.takes):
            is_result = word.startswith(">")
            may_be_null = word == ">?" or not (is_result or word in HANDLES or word in ("any", "id"))
            if not may_be_null:
                rule = "null-result" if is_result else "null-input"
                yield _changed(function, arguments, place, ("n", 0), "NULL", _REFUSED, word, rule)
            for title, value, allowed, rule in WRONG.get(word, ()):
                if value in _known_numbers(plan).get(word, ()):
                    continue
                value = plan.subject.thread.team_size if value == _TEAM_SIZE else value
                yield _changed(function, arguments, place, ("n", value), title, allowed, word, rule)
    yield from _nothing_but_null(functions)


def _known_numbers(plan: Plan) -> dict[str, frozenset[int]]:
    return {"state": plan.states, "icv": plan.icvs}


def _changed(
    function: str,
    arguments: Sequence[tuple[str, Any]],
    place: int,
    value: tuple[str, Any],
    title: str,
    allowed: frozenset[Rc],
    word: str,
    rule: str,
) -> Case:
    changed = [*arguments[:place], value, *arguments[place + 1 :]]
    if word.startswith(">"):
        noun = "result"
    elif word in HANDLES or word == "any":
        noun = "handle"
    else:
        noun = {"num": "thread number", "icv": "variable"}.get(word, word)
    routine = ROUTINES[function]
    takes_no_handle = routine.section.startswith("20.5.1.") or "context" in routine.takes
    return Case(
        "-".join(f"{function}/{noun}-{place + 1}/{title}".split()),
        function,
        f"argument {place + 1}, {noun}: {title}",
        (*outs(changed), call(function, *changed)),
        allowed,
        rule,
        setup="loaded" if takes_no_handle else "full",
        needs=needs(changed),
    )


def _nothing_but_null(functions: frozenset[str]) -> Iterator[Case]:
    for function, routine in ROUTINES.items():
        if function in functions and routine.takes and function != "ompd_initialize":
            arguments = [("n", 0)] * len(routine.takes)
            steps = (call(function, *arguments),)
            title = "nothing but null pointers and zeros"
            # The standard does not demand that null pointers for results are refused.
            rule = "null-input" if _POINTERS & set(routine.takes) else "null-result"
            yield Case(f"{function}/all-null", function, title, steps, _REFUSED, rule, setup="loaded")


def life(functions: frozenset[str], plan: Plan) -> Iterator[Case]:
    """Yield cases for the library's begin and end: its first routines, calls before it is initialised, and calls after
    it is finalised.
    """
    bad, unsupported = frozenset((Rc.BAD_INPUT,)), frozenset((Rc.UNSUPPORTED,))

    def first(key: str, function: str, title: str, steps: Sequence[Step], allowed: frozenset[Rc], **more: Any) -> Case:
        options = {"setup": "nothing", "alone": True, **more}
        return Case(f"{function}/{key}", function, title, tuple(steps), allowed, **options)

    yield first(
        "first",
        "ompd_get_api_version",
        "before initialisation",
        [fill(OUT), call("ompd_get_api_version", ("at", OUT))],
        _OK,
        rule="version-first",
    )
    begun = loaded(plan.api)[1:]
    yield first("good", "ompd_initialize", "the version of ompd_get_api_version", begun, _OK)
    text = [fill(OUT), call("ompd_get_version_string", ("at", OUT))]
    yield first("first", "ompd_get_version_string", "before initialisation", text, _OK, rule="version-first")
    no_end = [call("ompd_finalize")]
    yield first("first", "ompd_finalize", "before initialisation", no_end, unsupported, rule="not-initialised")
    no_table = [call("ompd_initialize", ("n", plan.api), ("n", 0))]
    yield first("no-table", "ompd_initialize", "a null pointer for the callbacks", no_table, bad, rule="no-callbacks")
    empty = [call("ompd_initialize", ("n", plan.api), ("table", 1))]
    any_bad = bad | {Rc.CALLBACK_ERROR, Rc.ERROR}
    yield first("empty-table", "ompd_initialize", "a table of null pointers", empty, any_bad, rule="null-callbacks")
    for version in (0, 1, 197001, -1 & 0xFFFFFFFFFFFFFFFF):
        old = [call("ompd_initialize", ("n", version), ("table", 0))]
        title = f"version {version if version < 1 << 63 else -1} of the interface"
        yield first(f"version-{version}", "ompd_initialize", title, old, unsupported, rule="no-version")
    for version in (202111, 209912, (1 << 63) - 1):
        if version > plan.api:
            newer = [call("ompd_initialize", ("n", version), ("table", 0))]
            title = f"version {version} of the interface, which is newer than the library's latest"
            yield first(f"newer-{version}", "ompd_initialize", title, newer, unsupported, rule="newer-version")
    begin = [fill(SPACE, 0), call("ompd_process_initialize", ("n", 1), ("at", SPACE))]
    yield first("first", "ompd_process_initialize", "before initialisation", begin, _REFUSED, rule="not-begun")
    ended = [call("ompd_finalize")]
    twice = [*ended, call("ompd_finalize")]
    yield first("end", "ompd_finalize", "after initialisation", ended, _OK, setup="loaded")
    yield first("twice", "ompd_finalize", "a second time", twice, unsupported, setup="loaded", rule="not-initialised")
    yield first(
        "end",
        "ompd_process_initialize",
        "after the end",
        [*ended, *begin],
        _REFUSED,
        setup="loaded",
        rule="ended",
    )
    for function, routine in ROUTINES.items():
        if function in functions and routine.takes and routine.takes[0] in HANDLES and function not in _NO_CASES:
            arguments = good(function, plan)
            # Any code is right here: the handles are from before the library's end, and it only has to survive the
            # call.
            steps = (*outs(arguments), call(function, *arguments))
            title = "with a handle from before the end"
            yield first(
                "end",
                function,
                title,
                steps,
                frozenset(Rc),
                setup="ended",
                # A released handle would make the cases after this one fail, too.
                alone=function in RELEASES.values(),
                needs=needs(arguments),
                rule="ended",
            )


def released(functions: frozenset[str], plan: Plan) -> Iterator[Case]:
    """Yield cases that release a handle, release it a second time, or use it after its release."""
    for letter, release in RELEASES.items():
        if release not in functions:
            continue
        cell = HANDLES[letter]
        # The case releases a handle of its own, not the handle of the set-up, which other cases need. Both handles are
        # of the same address space, thread, region or task.
        getter = _GETTERS[letter]
        spare = OUT + 15
        get_arguments = [(kind, spare if kind == "at" else value) for kind, value in good(getter, plan)]
        gone = [fill(spare, 0), call(getter, *get_arguments), if_ok(call(release, ("in", spare)))]
        yield Case(
            f"{release}/good",
            release,
            "a handle",
            tuple(gone),
            _OK,
            needs=(cell,),
        )
        again = (*gone, if_ok(call(release, ("in", spare))))
        stale = frozenset((Rc.STALE_HANDLE, Rc.BAD_INPUT, Rc.ERROR, Rc.INCOMPATIBLE_HANDLE, Rc.UNAVAILABLE))
        yield Case(
            f"{release}/twice",
            release,
            "the same handle a second time",
            again,
            stale,
            "released",
            needs=(cell,),
        )
        for function in ROUTINES:
            takes_it = ("in", cell) in good(function, plan) if function not in _NO_CASES else False
            if function in functions and function != release and takes_it:
                arguments = [
                    (kind, spare if kind == "in" and value == cell else value) for kind, value in good(function, plan)
                ]
                steps = (*gone, *outs(arguments), if_ok(call(function, *arguments)))
                title = f"a handle that {release} has released"
                yield Case(
                    f"{function}/released",
                    function,
                    title,
                    steps,
                    stale,
                    "released",
                    needs=needs(good(function, plan)),
                )


def missing(functions: frozenset[str], api: int, first: int) -> Iterator[str]:
    """Yield the routines that a library of this version must have but lacks."""
    for function in ROUTINES:
        if function not in functions and (function not in SINCE_5_2 or api >= first):
            yield function
