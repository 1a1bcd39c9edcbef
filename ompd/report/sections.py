"""The sections of the page: records turned into texts, tables, trees and pictures. The template escapes every text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from markupsafe import Markup

from ompd.model import Answer, StackRecord, VariableAnswer, VerdictRecord, WhyAnswer
from ompd.model.kinds import VerdictKind
from ompd.questions.icvs import changed
from ompd.records import record
from ompd.render.answers.icvs import icvs_table
from ompd.render.answers.regions import region_lines
from ompd.render.answers.runtimes import runtime_lines
from ompd.render.answers.stacks import stack_lines
from ompd.render.answers.tasks import task_lines
from ompd.render.answers.threads import threads_table
from ompd.render.answers.variables import stats_lines, variable_heading, variable_table
from ompd.render.answers.why import beside_of, chain_rows, notes_on, said_of, sentence, steps_of, sureness_of
from ompd.render.answers.why import headline as headline_of
from ompd.render.excerpts import excerpt_lines
from ompd.render.words import Table, basename, format_count
from ompd.report.folders import Folders
from ompd.report.gather import PageAnswers
from ompd.report.histogram import draw_histogram
from ompd.report.icicle import draw_icicle
from ompd.report.states import WORDS, states_of
from ompd.report.teams import draw_teams
from ompd.report.template import drawn
from ompd.report.waits import draw_waits

_VERDICTS = 12  # shown in full
_LINKS = 40
_NOTES = 16  # on a verdict
_ROWS = 1200  # of a table
_BRANCHES = 1500  # lines of a tree
_DEEPEST = 30  # levels of a tree: browsers have a limit of their own
_LISTED = 512  # threads that have a line each
_REASONS = 60


@record
class Node:
    """A line of a tree, and the lines below it."""

    text: str
    children: list[Node]


@record(kw_only=True)
class Verdict:
    """A verdict as the page shows it."""

    summary: str
    others: Sequence[str]
    sources: Sequence[Sequence[tuple[str, str]]]
    steps: Sequence[tuple[str, str]]
    is_proven: bool
    goes_on: bool
    facts: Sequence[tuple[str, str]]
    chain: Sequence[tuple[str, str, str, str]]
    evidence: Sequence[str]
    stacks: Sequence[str]
    picture: Markup | None


@record(kw_only=True)
class Variable:
    """A variable as the page shows it."""

    name: str
    heading: str
    table: Table
    stats: Sequence[str]
    picture: Markup | None


def headline(why: WhyAnswer | None) -> str | None:
    """Return the first verdict's sentence, None without a verdict."""
    return sentence(headline_of(why.rows[0])) if why is not None and why.rows else None


def verdicts(answers: PageAnswers) -> Iterator[Verdict]:
    """Yield the verdicts, the surest one first."""
    why, folders = answers.why, answers.folders
    if why is None:
        return
    # The folder of the core is private.
    file = why.target.file
    target = replace(why.target, file=basename(file)) if file is not None else why.target
    for number, verdict in enumerate(why.rows[:_VERDICTS]):
        notes = [*notes_on(verdict, is_first=True, whole=True, verbose=False, has_values=False)]
        left_out = [("", f"… {len(notes) - _NOTES} more: ompd why --all")] if len(notes) > _NOTES else []
        steps = [(label, folders.without(text)) for label, text in steps_of(verdict, target)]
        shown = [(label, folders.without(text)) for label, text in (*notes[:_NOTES], *left_out)]
        yield _verdict(why, verdict, number, steps, shown, folders)


def _verdict(
    why: WhyAnswer,
    verdict: VerdictRecord,
    number: int,
    steps: Sequence[tuple[str, str]],
    notes: Sequence[tuple[str, str]],
    folders: Folders,
) -> Verdict:
    beside = map(said_of, beside_of(why) if number == 0 else ())
    facts: list[tuple[str, str]] = []
    if verdict.kind is not VerdictKind.NO_STALL:
        facts += sureness_of(verdict)
    return Verdict(
        summary=sentence(headline_of(verdict)),
        others=[*([sentence(verdict.others)] if verdict.others is not None else []), *beside],
        sources=[[*excerpt_lines(excerpt)] for excerpt in verdict.sources if excerpt.lines],
        steps=steps,
        is_proven=verdict.stuck == "proven",
        goes_on=verdict.kind is VerdictKind.NO_STALL,
        facts=[*facts, *notes],
        chain=list(chain_rows(verdict.cycle, _LINKS)),
        evidence=[f"{item.source}: {folders.without(item.text)}" for item in verdict.evidence[:_LINKS]],
        stacks=["\n".join(_stack(why, stack)) for stack in verdict.stacks],
        picture=drawn(draw_waits(verdict, f"waits{number}")),
    )


def _stack(why: WhyAnswer, stack: StackRecord) -> Iterator[str]:
    shown = Answer(why.target, why.runtimes, (stack,), True, ())
    yield from (line for line, _ in stack_lines(shown))


def goes_on(why: WhyAnswer | None) -> bool:
    """Return whether no thread is known to hang, so that the page needs no section about the cause."""
    return why is None or all(verdict.stuck not in ("proven", "likely", "possible") for verdict in why.rows)


def more_verdicts(why: WhyAnswer | None) -> str | None:
    """Return the text on how many more verdicts the page does not show, None if it shows all."""
    left = len(why.rows) - _VERDICTS if why is not None else 0
    return f"{format_count(left, 'more verdict')}: ompd why --all" if left > 0 else None


def teams(answers: PageAnswers) -> Markup | None:
    """Return the picture of teams."""
    if answers.threads is None:
        return None
    rows = answers.threads.rows
    regions = answers.regions.rows if answers.regions is not None else ()
    return drawn(draw_teams(regions, rows, states_of(rows), "teams"))


def legend(answers: PageAnswers) -> Sequence[tuple[str, str, int]]:
    """Return the states of the threads: class, words, number of threads."""
    counts = Counter(states_of(answers.threads.rows).values()) if answers.threads is not None else Counter[str]()
    return [(state, words, counts[state]) for state, words in WORDS.items() if counts[state]]


def threads(answers: PageAnswers) -> Table | None:
    """Return the table of threads. If there are very many, equal threads share a line."""
    if answers.threads is None:
        return None
    table = threads_table(answers.threads, unfold=len(answers.threads.rows) <= _LISTED)
    return cut(table)


def cut(table: Table) -> Table:
    """Return the first lines of a table."""
    return replace(table, lines=table.lines[:_ROWS]) if len(table.lines) > _ROWS else table


def tree(rows: Iterable[tuple[int, str]]) -> tuple[list[Node], bool]:
    """Return the trees that lines form by their depths, and whether lines are left out."""
    rows = iter(rows)
    roots: list[Node] = []
    path: list[list[Node]] = [roots]
    for depth, text in islice(rows, _BRANCHES):
        level = min(depth, _DEEPEST, len(path) - 1)
        node = Node(text, [])
        path[level].append(node)
        del path[level + 1 :]
        path.append(node.children)
    return roots, next(rows, None) is not None


def regions(answers: PageAnswers) -> tuple[list[Node], bool]:
    """Return the tree of regions."""
    return tree(region_lines(answers.regions)) if answers.regions is not None else ([], False)


def tasks(answers: PageAnswers) -> tuple[list[Node], bool]:
    """Return the tree of tasks."""
    return tree(task_lines(answers.tasks)) if answers.tasks is not None else ([], False)


def icicle(answers: PageAnswers) -> Markup | None:
    """Return the picture of stacks."""
    if answers.stacks is None:
        return None
    states = states_of(answers.threads.rows) if answers.threads is not None else {}
    return drawn(draw_icicle(answers.stacks.rows, states, "icicle"))


def runtimes(answers: PageAnswers) -> Sequence[str]:
    """Return the lines of ``runtimes``."""
    rows = [replace(row, file=basename(row.file)) for row in answers.runtimes.rows]
    return [*map(answers.folders.without, runtime_lines(replace(answers.runtimes, rows=tuple(rows))))]


def icvs(answers: PageAnswers) -> Table | None:
    """Return the table of control variables that differ."""
    table = icvs_table(changed(answers.icvs)) if answers.icvs is not None else None
    return cut(table) if table is not None and table.lines else None


def variables(answers: PageAnswers) -> Iterator[Variable]:
    """Yield the variables that were asked for."""
    for number, (name, answer) in enumerate(answers.variables.items()):
        yield _variable(name, answer, number)


def _variable(name: str, answer: VariableAnswer, number: int) -> Variable:
    return Variable(
        name=name,
        heading=variable_heading(answer),
        table=cut(variable_table(answer, mark=True)),
        stats=list(stats_lines(answer.stats)) if answer.stats is not None else [],
        picture=drawn(draw_histogram(answer.rows, name, f"var{number}")),
    )


def unknown(answers: PageAnswers) -> Sequence[tuple[str, str, int]]:
    """Return the unknown facts: the reason, the facts, and the number of rows that lack them."""
    reasons: dict[str, tuple[set[str], int]] = {}
    folders = answers.folders
    for name, answer in _rows(answers):
        for row in answer.rows:
            unavailable: Mapping[str, str] = getattr(row, "unavailable", {})
            for whole, keys in _by_reason(unavailable).items():
                reason = folders.without(whole)
                facts, count = reasons.get(reason, (set(), 0))
                reasons[reason] = (facts | {f"{name}: {key}" for key in keys}, count + 1)
    rows = [(reason, ", ".join(sorted(facts)), count) for reason, (facts, count) in reasons.items()]
    return sorted(rows, key=lambda row: -row[2])[:_REASONS]


def _rows(answers: PageAnswers) -> Iterator[tuple[str, Answer[Any]]]:
    named: dict[str, Answer[Any] | None] = {
        "threads": answers.threads,
        "parallel": answers.regions,
        "tasks": answers.tasks,
        "stack": answers.stacks,
        "runtimes": answers.runtimes,
        **answers.variables,
    }
    for name, answer in named.items():
        if answer is not None:
            yield name, answer


def _by_reason(unavailable: Mapping[str, str]) -> dict[str, list[str]]:
    keys_by_reason: dict[str, list[str]] = {}
    for key, reason in unavailable.items():
        # The facts of OMPT of 2015 are left out: all current runtimes lack them, so they would only lengthen the list.
        if not key.startswith("ompt_"):
            keys_by_reason.setdefault(reason, []).append(key)
    return keys_by_reason
