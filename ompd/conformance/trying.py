"""Plays cases on a library, many of them in one process. A case with a finding is repeated in a process of its own."""

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
    """The steps that show a finding, with the questions of the library's callbacks and the reply to each step."""

    steps: tuple[Step, ...]
    prepared: int
    """How many steps belong to the set-up."""
    questions: tuple[tuple[int, Question], ...]
    """The context and the question of each callback."""
    replies: tuple[Reply, ...]


class FirstFindingMade(Exception):
    """A finding was made, and the caller wants no others."""


class Runs:
    """The processes of one library, and their findings.

    :param first: raise :class:`FirstFindingMade` at the first finding
    """

    def __init__(self, library: Loads, answers: Mapping[int, Answers], plan: Plan, *, first: bool = False) -> None:
        self._library = library
        self.answers = answers
        self.plan = plan
        self._first = first
        self._trials: dict[str, tuple[Trial, frozenset[int]]] = {}
        self.findings: dict[str, ConformanceFinding] = {}
        self.scripts: dict[str, Script] = {}
        self._groups: dict[tuple[str, str, str], str] = {}
        self.tried = 0
        self.untried: dict[str, None] = {}
        self.unsteady: list[str] = []
        # Counts the time-outs of each routine, because every one costs seconds.
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
        handle_cells = handles_in(steps, replies)
        if replies[-1].ended:
            trial.close()
            handle_cells = frozenset()
            self.broken.add(setup)
            self._find_in_setup(setup, steps[: len(replies)], replies[-1].ended)
        if not alone:
            self._trials[setup] = trial, handle_cells
        return trial, handle_cells

    def _find_in_setup(self, setup: str, steps: Sequence[Step], ended: str) -> None:
        # This is a finding: the library did not survive a set-up, all of whose arguments are right.
        function = steps[-1].get("function")
        setup_steps = tuple(steps[len(self.before) :])
        if function is not None and f"{function}/set-up{self.suffix}" not in self.findings:
            title = "right arguments, before all else"
            case = Case(f"{function}/set-up", function, title, setup_steps, frozenset((Rc.OK,)), setup="nothing")
            self._confirm(case, f"{ended} in {function}")

    def drop(self, setup: str) -> None:
        """End the process of a set-up, because its state is unknown."""
        if setup in self._trials:
            trial, _ = self._trials.pop(setup)
            trial.close()

    def close(self) -> None:
        """End all processes."""
        self.broken.clear()
        for name in tuple(self._trials):
            self.drop(name)

    def try_case(self, case: Case) -> Sequence[Reply]:
        """Play a case, keep its finding if there is one, and return the replies."""
        if case.setup in self.broken or self._slow[case.function] >= _MOST_SLOW:
            self.untried[case.function] = None
            return ()
        trial, handle_cells = self.begun(case.setup, alone=case.alone)
        has_needs = case.setup not in self.broken and set(case.needs) <= handle_cells
        if not has_needs:
            if case.alone:
                trial.close()
            self.untried[case.function] = None
            return ()
        self.tried += 1
        started = time.monotonic()
        replies = trial.play(case.steps)
        if replies[-1].ended and time.monotonic() - started > SECONDS / 2:
            self._slow[case.function] += 1
        if case.alone:
            trial.close()
        elif replies[-1].ended:
            self.drop(case.setup)
        fault = verdict(case, self.plan, replies)
        if fault:
            self._confirm(case, fault)
        return replies

    def _confirm(self, case: Case, fault: str) -> None:
        group = (case.function, case.key.split("/")[1], fault)
        if group in self._groups:
            key = self._groups[group]
            self.findings[key] = another(self.findings[key], case.title)
            return
        setup = self.setup(case.setup)
        with Trial(self._library, self.answers) as trial:
            replies = trial.play([*setup, *case.steps])
            questions = tuple(trial.questions)
        case_replies = replies[len(setup) :]
        fault_again = verdict(case, self.plan, case_replies) if case_replies else ""
        if not fault_again:
            self.unsteady.append(f"{case.function}: {case.title}: {fault}, but not in a process of its own")
            self.drop(case.setup)
            return
        key = case.key + self.suffix
        self._groups[group] = key
        steps = (*setup, *case.steps)
        self.findings[key] = ConformanceFinding(
            key,
            case.function,
            case.title,
            case.follows.level,
            VERSION,
            case.follows.section,
            case.follows.words,
            case.expected,
            fault_again,
            0,
            (),
            lines(case.steps),
        )
        self.scripts[key] = Script(steps, len(setup), questions, tuple(replies))
        if self._first:
            raise FirstFindingMade


def verdict(case: Case, plan: Plan, replies: Sequence[Reply]) -> str:
    """Return the fault in the replies to a case's steps, ``""`` if there is none."""
    for step, reply in zip(case.steps, replies, strict=False):
        if reply.ended:
            return f"{reply.ended} in {step.get('function', step['do'])}"
    codes = [reply.code for reply in replies if reply.code is not None]
    if len(replies) < len(case.steps) or not codes:
        return ""
    if replies[-1].is_skipped and not case.judges_any:
        return ""
    if codes[-1] not in _CODES:
        return f"returned {codes[-1]}, which is no ompd_rc_t"
    if codes[-1] not in case.allowed:
        return f"returned {code_name(codes[-1])}"
    return case.law(plan, replies) if case.law is not None else ""


def handles_in(steps: Sequence[Step], replies: Sequence[Reply]) -> frozenset[int]:
    """Return the cells that hold a handle after these steps."""
    return frozenset(
        int(cell)
        for step, reply in zip(steps, replies, strict=False)
        if step["do"] == "call" and reply.code == Rc.OK
        for kind, cell in step["arguments"]
        if kind == "at" and reply.word(cell)
    )


def lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a line for each call of *steps*, in C's syntax. After twelve lines an ellipsis follows."""
    calls = [line for step in steps if (line := line_of(step))]
    return (*calls[:_MAX_SHOWN], "…") if len(calls) > _MAX_SHOWN else tuple(calls)


def line_of(step: Step) -> str:
    """Return a step's call in C's syntax, or a remark on what the step makes fail. ``""`` if it has neither."""
    if step["do"] == "fault":
        return f"(call {step['nth']} of {CALLBACKS[step['which']]} fails with {code_name(step['code'])})"
    if step["do"] == "poison":
        return f"(memory is allocated with {step['byte']:#04x} in it)" if step["byte"] else ""
    if step["do"] != "call":
        return ""
    words = [_argument(kind, value) for kind, value in step["arguments"]]
    return f"{step['function']}({', '.join(words)})"


CALLBACKS = (
    "alloc_memory",
    "free_memory",
    "print_string",
    "sizeof_type",
    "symbol_addr_lookup",
    "read_memory",
    "write_memory",
    "read_string",
    "device_to_host",
    "host_to_device",
    "get_thread_context_for_thread_id",
)
"""The names of the callbacks, in the order of ``ompd_callbacks_t``."""

_NAMES = ("space", "thread", "region", "task", "other_thread", "second_space", "thread_there", "implicit_task", "null")


def _argument(kind: str, value: object) -> str:
    if kind == "table":
        return "&nulls" if value else "&callbacks"
    if kind == "raw":
        return f"&id /* {bytes.fromhex(str(value))[::-1].hex() or 'empty'} */"
    if kind == "n":
        number = int(str(value))
        return "NULL or 0" if not number else str(number if number < 1 << 63 else number - (1 << 64))
    cell = int(str(value))
    name = _NAMES[cell] if cell < len(_NAMES) else f"result_{cell}"
    return f"&{name}" if kind == "at" else name
