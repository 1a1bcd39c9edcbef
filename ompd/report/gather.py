"""Everything that is on the page, of one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
class Found:
    """The answers that the page shows; None for one that could not be given, and ``faults`` says why, by its name.

    ``environment`` is None unless it was asked for. ``modules`` are names and build-ids of the process's files.
    """

    runtimes: Answer[RuntimeRecord]
    threads: Answer[ThreadRecord] | None
    regions: Answer[ParallelRecord] | None
    tasks: Answer[TaskRecord] | None
    icvs: Answer[IcvRecord] | None
    stacks: Answer[StackRecord] | None
    why: WhyAnswer | None
    variables: Mapping[str, VariableAnswer]
    environment: Mapping[str, str] | None
    modules: Sequence[tuple[str, str | None]]
    faults: Mapping[str, str]

    @property
    def answers(self) -> Sequence[Answer[Any]]:
        """All answers that there are."""
        several = (self.runtimes, self.why, self.threads, self.regions, self.tasks, self.icvs, self.stacks)
        return [answer for answer in (*several, *self.variables.values()) if answer is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What all answers say besides, each thing once."""
        return tuple(dict.fromkeys(warning for answer in self.answers for warning in answer.warnings))

    @property
    def folders(self) -> Folders:
        """The folders of the target's files."""
        target = self.runtimes.target
        return Folders((target.file, target.executable, *(name for name, _ in self.modules)))

    @property
    def complete(self) -> bool:
        """Whether all could be read."""
        return not self.faults and all(answer.complete for answer in self.answers)


def gather(session: Session, names: Sequence[str] = (), *, has_environment: bool = False, earlier: Any = None) -> Found:
    """Return what the page shows.

    :param names: variables to show in each thread
    :param has_environment: whether the environment is to be on the page
    :param earlier: what ``why`` knows of an earlier moment
    """
    kept: list[Found] = []

    def question(session: Session) -> tuple[Any, ...]:
        found = _ask(session, names, has_environment, earlier)
        kept.append(found)
        return (found.runtimes,)

    # Of a live process the last time counts, and the answer has the lengths of the stops.
    (first,) = session.ask(question, may_stop=earlier is None or earlier.may_stop)
    found = kept[-1]
    return _with(found, first)


def _with(found: Found, runtimes: Answer[RuntimeRecord]) -> Found:
    members = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    return Found(**{**members, "runtimes": runtimes})


def _ask(session: Session, names: Sequence[str], has_environment: bool, earlier: Any) -> Found:
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
    return Found(
        runtimes=runtimes.ask(session),
        why=ask("why", lambda session: why.ask(session, earlier)),
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
