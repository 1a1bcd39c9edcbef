"""Plays cases: as many in one process as it survives, and one that finds something again in a process of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from ompd.conformance.cases import API, Case, Plan, call, fill, full, loaded
from ompd.conformance.standard import VERSION, code_name
from ompd.errors import Rc
from ompd.model.conformance import ConformanceFinding, another
from ompd.records import record
from ompd.runtimes.hosted.process import Loads
from ompd.runtimes.hosted.trial.client import SECONDS, Answers, Question, Reply, Step, Trial

_CODES = {int(code) for code in Rc}
_MAX_SHOWN = 12
_MOST_SLOW = 3


@record
class Script:
    """What shows a finding: all steps from the start, how many of them the set-up has, what callbacks were answered by
    context, and what each step answered.
    """

    steps: tuple[Step, ...]
    prepared: int
    asked: tuple[tuple[int, Question], ...]
    replies: tuple[Reply, ...]


class Enough(Exception):
    """A finding was made, and no others are wanted."""


class Runs:
    """The processes of one library, and what was found in them.

    :param first: raise :class:`Enough` at the first finding
    """

    def __init__(self, library: Loads, answers: Mapping[int, Answers], plan: Plan, *, first: bool = False) -> None:
        self._library, self.answers, self.plan, self._first = library, answers, plan, first
        self._trials: dict[str, tuple[Trial, frozenset[int]]] = {}
        self.found: dict[str, ConformanceFinding] = {}
        self.scripts: dict[str, Script] = {}
        self._groups: dict[tuple[str, str, str], str] = {}
        self.tried = 0
        self.untried: dict[str, None] = {}
        self.unsteady: list[str] = []
        # How often a routine did not return: each time costs as long as one is waited for.
        self._slow: Counter[str] = Counter()
        self.broken: set[str] = set()
        """Set-ups that the library does not survive."""
        self.before: tuple[Step, ...] = ()
        """Steps before every set-up."""
        self.suffix = ""

    def setup(self, name: str) -> list[Step]:
        """Return the steps of a set-up."""
        if name in ("full", "ended"):
            steps = full(self.plan)
            steps += [call("ompd_finalize")] if name == "ended" else []
        else:
            steps = loaded(self.plan.api) if name == "loaded" else [fill(API)]
        return [*self.before, *steps]

    def begun(self, setup: str, *, alone: bool = False) -> tuple[Trial, frozenset[int]]:
        """Return a process in which a set-up was played, and the cells that hold a handle."""
        if not alone and setup in self._trials:
            return self._trials[setup]
        trial = Trial(self._library, self.answers)
        steps = self.setup(setup)
        replies = trial.play(steps)
        held = handles_in(steps, replies)
        if replies[-1].ended:
            trial.close()
            held = frozenset()
            self.broken.add(setup)
            self._find_in_setup(setup, steps[: len(replies)], replies[-1].ended)
        if not alone:
            self._trials[setup] = trial, held
        return trial, held

    def _find_in_setup(self, setup: str, steps: Sequence[Step], ended: str) -> None:
        # A library that does not survive right arguments before all else.
        function = steps[-1].get("function")
        own = tuple(steps[len(self.before) :])
        if function is not None and f"{function}/set-up{self.suffix}" not in self.found:
            title = "right arguments, before all else"
            case = Case(f"{function}/set-up", function, title, own, frozenset((Rc.OK,)), setup="nothing")
            self._confirm(case, f"{ended} in {function}")

    def drop(self, setup: str) -> None:
        """End the process of a set-up: its state is not known any more."""
        known = self._trials.pop(setup, None)
        if known is not None:
            known[0].close()

    def close(self) -> None:
        """End all processes."""
        self.broken.clear()
        for name in tuple(self._trials):
            self.drop(name)

    def try_case(self, case: Case) -> Sequence[Reply]:
        """Play a case, keep what it finds, and return its replies."""
        if case.setup in self.broken or self._slow[case.function] >= _MOST_SLOW:
            self.untried[case.function] = None
            return ()
        trial, held = self.begun(case.setup, alone=case.alone)
        if case.setup in self.broken or not set(case.needs) <= held:
            if case.alone:
                trial.close()
            self.untried[case.function] = None
            return ()
        self.tried += 1
        begun = time.monotonic()
        replies = trial.play(case.steps)
        if replies[-1].ended and time.monotonic() - begun > SECONDS / 2:
            self._slow[case.function] += 1
        if case.alone:
            trial.close()
        elif replies[-1].ended:
            self.drop(case.setup)
        seen = verdict(case, self.plan, replies)
        if seen:
            self._confirm(case, seen)
        return replies

    def _confirm(self, case: Case, seen: str) -> None:
        group = (case.function, case.key.split("/")[1], seen)
        if group in self._groups:
            key = self._groups[group]
            known = self.found[key]
            self.found[key] = another(known, case.title)
            return
        setup = self.setup(case.setup)
        with Trial(self._library, self.answers) as trial:
            replies = trial.play([*setup, *case.steps])
            asked = tuple(trial.asked)
        own = replies[len(setup) :]
        again = verdict(case, self.plan, own) if own else ""
        if not again:
            self.unsteady.append(f"{case.function}: {case.title}: {seen}, but not in a process of its own")
            self.drop(case.setup)
            return
        key = case.key + self.suffix
        self._groups[group] = key
        steps = (*setup, *case.steps)
        self.found[key] = ConformanceFinding(
            key,
            case.function,
            case.title,
            case.follows.level,
            VERSION,
            case.follows.section,
            case.follows.words,
            case.expected,
            again,
            0,
            (),
            lines(case.steps),
        )
        self.scripts[key] = Script(steps, len(setup), asked, tuple(replies))
        if self._first:
            raise Enough


def verdict(case: Case, plan: Plan, replies: Sequence[Reply]) -> str:
    """Return what is wrong with what a case's steps answered, ``""`` if nothing is."""
    for step, reply in zip(case.steps, replies, strict=False):
        if reply.ended:
            return f"{reply.ended} in {step.get('function', step['do'])}"
    codes = [reply.code for reply in replies if reply.code is not None]
    if len(replies) < len(case.steps) or not codes:
        return ""
    if replies[-1].found.get("skipped") and not case.judges_any:
        return ""
    if codes[-1] not in _CODES:
        return f"returned {codes[-1]}, which is no ompd_rc_t"
    if codes[-1] not in case.allowed:
        return f"returned {code_name(codes[-1])}"
    return case.law(plan, replies) if case.law is not None else ""


def handles_in(steps: Sequence[Step], replies: Sequence[Reply]) -> frozenset[int]:
    """Return which cells hold a handle after steps."""
    return frozenset(
        int(cell)
        for step, reply in zip(steps, replies, strict=False)
        if step["do"] == "call" and reply.code == Rc.OK
        for how, cell in step["arguments"]
        if how == "at" and reply.word(cell)
    )


def lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the calls of steps as C has them."""
    found = [line for step in steps if (line := line_of(step))]
    return (*found[:_MAX_SHOWN], "…") if len(found) > _MAX_SHOWN else tuple(found)


def line_of(step: Step) -> str:
    """Return a step's call as C has it, or what else it does that matters."""
    if step["do"] == "fault":
        return f"(call {step['nth']} of {CALLBACKS[step['which']]} fails with {code_name(step['code'])})"
    if step["do"] == "poison":
        return f"(memory is allocated with {step['byte']:#04x} in it)" if step["byte"] else ""
    if step["do"] != "call":
        return ""
    words = [_argument(how, value) for how, value in step["arguments"]]
    return f"{step['function']}({', '.join(words)})"


CALLBACKS = (
    *("alloc_memory", "free_memory", "print_string", "sizeof_type", "symbol_addr_lookup", "read_memory"),
    *("write_memory", "read_string", "device_to_host", "host_to_device", "get_thread_context_for_thread_id"),
)
"""In the order of ``ompd_callbacks_t``."""

_NAMES = ("space", "thread", "region", "task", "other_thread", "second_space", "thread_there", "implicit_task", "null")


def _argument(how: str, value: object) -> str:
    if how == "table":
        return "&nulls" if value else "&callbacks"
    if how == "raw":
        return f"&id /* {bytes.fromhex(str(value))[::-1].hex() or 'empty'} */"
    if how == "n":
        number = int(str(value))
        return "NULL or 0" if not number else str(number if number < 1 << 63 else number - (1 << 64))
    cell = int(str(value))
    name = _NAMES[cell] if cell < len(_NAMES) else f"result_{cell}"
    return f"&{name}" if how == "at" else name
