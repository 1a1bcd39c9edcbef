"""All answers on the page, from one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ompd.errors import OmpdError
from ompd.model import (
    Answer,
    IcvRecord,
    ParallelRecord,
    RuntimeRecord,
    StackRecord,
    TaskRecord,
    ThreadRecord,
    VariableAnswer,
    WhyAnswer,
)
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads, variables, why
from ompd.records import record
from ompd.report.folders import Folders
from ompd.session import Session


@record(kw_only=True)
class PageAnswers:
    """The answers that the page shows. A failed question has None, and its error in ``faults``."""

    runtimes: Answer[RuntimeRecord]
    threads: Answer[ThreadRecord] | None
    regions: Answer[ParallelRecord] | None
    tasks: Answer[TaskRecord] | None
    icvs: Answer[IcvRecord] | None
    stacks: Answer[StackRecord] | None
    why: WhyAnswer | None
    variables: Mapping[str, VariableAnswer]
    environment: Mapping[str, str] | None
    """None unless it was requested."""
    modules: Sequence[tuple[str, str | None]]
    """The name and build-id of each file of the process."""
    faults: Mapping[str, str]
    """The error of each failed question, by the question's name."""

    @property
    def answers(self) -> Sequence[Answer[Any]]:
        """The answers of the questions that did not fail."""
        several = (self.runtimes, self.why, self.threads, self.regions, self.tasks, self.icvs, self.stacks)
        return [answer for answer in (*several, *self.variables.values()) if answer is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all answers, each once."""
        return tuple(dict.fromkeys(warning for answer in self.answers for warning in answer.warnings))

    @property
    def folders(self) -> Folders:
        """The folders of the target's files."""
        target = self.runtimes.target
        return Folders((target.file, target.executable, *(name for name, _ in self.modules)))

    @property
    def complete(self) -> bool:
        """Whether all answers are complete."""
        return not self.faults and all(answer.complete for answer in self.answers)


def gather(
    session: Session, names: Sequence[str] = (), *, has_environment: bool = False, earlier: Any = None
) -> PageAnswers:
    """Return the answers that the page shows.

    :param names: variables to show in each thread
    :param has_environment: whether the page shows the environment
    :param earlier: the samples that ``why`` took earlier
    """
    attempts: list[PageAnswers] = []

    def question(session: Session) -> tuple[Any, ...]:
        answers = _ask(session, names, has_environment, earlier)
        attempts.append(answers)
        return (answers.runtimes,)

    # session.ask() may ask a live process several times, and the last attempt counts. It returns the answer of
    # ``runtimes`` with the lengths of the stops.
    (runtimes_answer,) = session.ask(question, may_stop=earlier is None or earlier.may_stop)
    return replace(attempts[-1], runtimes=runtimes_answer)


def _ask(session: Session, names: Sequence[str], has_environment: bool, earlier: Any) -> PageAnswers:
    faults: dict[str, str] = {}

    def ask(name: str, question: Callable[[Session], Any]) -> Any:
        try:
            return question(session)
        except OmpdError as error:
            faults[name] = str(error)
            return None

    shown: Mapping[str, str] | None = None
    if has_environment:
        try:
            shown, _ = session.process.environment.current()
        except OmpdError as error:
            faults["environment"] = str(error)
    values = {name: ask(name, partial(variables.ask, name=name, stats=True)) for name in names}
    modules: list[tuple[str, str | None]] = []
    with suppress(OmpdError):
        modules = [(module.name, module.build_id) for module in session.process.symbols.modules()]
    return PageAnswers(
        runtimes=runtimes.ask(session),
        why=ask("why", partial(why.ask, earlier=earlier)),
        threads=ask("threads", threads.ask),
        regions=ask("parallel", regions.ask),
        tasks=ask("tasks", tasks.ask),
        icvs=ask("icvs", icvs.ask),
        stacks=ask("stack", stacks.ask),
        variables={name: answer for name, answer in values.items() if answer is not None},
        environment=shown,
        modules=modules,
        faults=faults,
    )
