"""The sections of the page of ``ompd triage``: texts, tables and pictures. The template escapes every text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from markupsafe import Markup

from ompd.model.triage import JobRecord, TriageAnswer, TriageRecord
from ompd.records import record
from ompd.render.answers.triage import MARKS, format_frame, format_rank_sets, job_lines, tree_lines
from ompd.render.words import format_count
from ompd.report.folders import Folders
from ompd.report.sections import Node, tree
from ompd.report.template import drawn
from ompd.report.triage.jobs import draw_job
from ompd.report.triage.ranks import draw_ranks, legend_of, letter, names_of
from ompd.report.triage.tree import SHARES, draw_tree, share

_GROUPS = 400  # shown in full
_NAMES = 2000  # targets of a group that are listed
_ALL_NAMES = 40_000  # of all groups
_FAILURES = 400  # reasons
_FEW = 3  # targets that are named in front of why they failed
_FRAMES = 64
_JOBS = 12
_LINES = 64  # on a job
_LONGEST = 2000  # characters of a list of ranks
_COLOURS = 24  # groups in a legend
_OPEN = 12  # targets of a group that are shown unfolded

# HOST:PATH or PATH: the host, the folder, the name.
_PATH = re.compile(r"([^/]*:)?(.*/)?[^/]*", re.DOTALL)


@record(kw_only=True)
class Group:
    """A group as the page shows it."""

    letter: str
    mark: str | None
    count: str
    verdict: str
    summary: str
    facts: Sequence[tuple[str, str]]
    stack: Sequence[str]
    names: Sequence[str]
    more: int
    is_open: bool


@record(kw_only=True)
class Job:
    """A job of MPI as the page shows it."""

    name: str | None
    lines: Sequence[str]
    waits: Markup | None
    map: Markup | None
    legend: Sequence[tuple[str, str, int]]
    more: int  # groups that the legend leaves out


@record(kw_only=True)
class Failure:
    """A reason why targets have no answer."""

    who: str
    reason: str
    names: Sequence[str]
    more: int


class Names:
    """The names of targets on the page: without the folder that all targets share."""

    def __init__(self, answer: TriageAnswer) -> None:
        all_names = [name for row in answer.rows for name in row.targets] + [failed.target for failed in answer.failed]
        folders = [match[2] for name in all_names if (match := _PATH.fullmatch(name)) is not None and match[2]]
        self.shared = _shared(folders)
        self._folders = Folders(all_names)

    def short(self, name: str) -> str:
        """Return a target's name without the shared folder."""
        match = _PATH.fullmatch(name)
        if match is None or not match[2] or not match[2].startswith(self.shared):
            return name
        job = match[1] or ""
        return job + name.removeprefix(job).removeprefix(self.shared)

    def reason(self, name: str, reason: str) -> str:
        """Return the reason of a failure, without the target's name in front, and without folders."""
        return self._folders.without(reason.removeprefix(f"{name}: "))


def _shared(folders: Sequence[str]) -> str:
    # Return the longest common prefix of *folders* that ends with a slash, "" without one.
    if not folders:
        return ""
    first, last = min(folders), max(folders)
    differing = (index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: first.rfind("/", 0, next(differing, len(first))) + 1]


def heading(answer: TriageAnswer) -> str:
    """Return the number of targets, of groups and of failures, in words."""
    total = answer.inspected + len(answer.failed)
    parts = [format_count(total, "target"), format_count(len(answer.rows), "group")]
    return ", ".join([*parts, *([f"{len(answer.failed)} failed"] if answer.failed else [])])


def beside(answer: TriageAnswer) -> str | None:
    """Return the changes since the baseline in words, None without one."""
    counts = Counter(row.baseline for row in answer.rows if row.baseline is not None)
    if not counts and not answer.gone:
        return None
    parts = [f"{counts[name]} {mark}" for name, mark in MARKS.items() if counts[name]]
    return ", ".join([*parts, *([f"{len(answer.gone)} GONE"] if answer.gone else [])])


def groups(answer: TriageAnswer, names: Names) -> Iterator[Group]:
    """Yield the groups, outliers first."""
    room = _ALL_NAMES
    for number, row in enumerate(answer.rows[:_GROUPS]):
        shown = row.targets[: min(_NAMES, max(room, 1))]
        room -= len(shown)
        yield _group(number, row, [names.short(name) for name in shown])


def _group(number: int, row: TriageRecord, names: Sequence[str]) -> Group:
    before = f" ({row.before} before)" if row.before is not None and row.before != len(row.targets) else ""
    facts = [("verdict", row.verdict)]
    facts += [("ranks", _cut(ranks)) for ranks in format_rank_sets(row.ranks)]
    facts += [("joined", text) for text in row.joined]
    facts.append(("group", row.id))
    stack = [f"#{place} {format_frame(frame)}" for place, frame in enumerate(row.stack[:_FRAMES])]
    if len(row.stack) > _FRAMES:
        stack.append(f"and {len(row.stack) - _FRAMES} more")
    return Group(
        letter=letter(number),
        mark=MARKS.get(row.baseline or ""),
        count=f"{format_count(len(row.targets), 'target')}{before}",
        verdict=row.verdict,
        summary=row.summary,
        facts=facts,
        stack=stack,
        names=names,
        more=len(row.targets) - len(names),
        is_open=len(row.targets) <= _OPEN,
    )


def more_groups(answer: TriageAnswer) -> str | None:
    """Return the text on how many more groups the page does not show, None if it shows all."""
    left = answer.rows[_GROUPS:]
    targets = sum(len(row.targets) for row in left)
    return f"{format_count(len(left), 'more group')} of {format_count(targets, 'target')}" if left else None


def jobs(answer: TriageAnswer) -> Iterator[Job]:
    """Yield the jobs whose ranks are known or wait for each other."""
    job_names = list(dict.fromkeys([*(job.job for job in answer.jobs), *names_of(answer.rows)]))
    for number, name in enumerate(job_names[:_JOBS]):
        record = next((job for job in answer.jobs if job.job == name), None)
        colours = legend_of(name, answer.rows)
        yield Job(
            name=name,
            lines=_job(record) if record is not None else [],
            waits=drawn(draw_job(record, f"job{number}")) if record is not None else None,
            map=drawn(draw_ranks(name, answer.rows, answer.jobs, f"map{number}")),
            legend=colours[:_COLOURS],
            more=len(colours[_COLOURS:]),
        )


def _job(job: JobRecord) -> list[str]:
    lines = [_cut(line.strip()) for line in islice(job_lines(job), _LINES)]
    left = 1 + len(job.waits) + len(job.ends) - len(lines)
    return [*lines, f"and {left} more"] if left > 0 else lines


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def more_jobs(answer: TriageAnswer) -> str | None:
    """Return the text on how many more jobs the page does not show, None if it shows all."""
    left = len({*(job.job for job in answer.jobs), *names_of(answer.rows)}) - _JOBS
    return format_count(left, "more job") if left > 0 else None


def icicle(answer: TriageAnswer) -> Markup | None:
    """Return the picture of the tree of stacks."""
    return drawn(draw_tree(answer.tree, answer.inspected, "tree"))


def legend(answer: TriageAnswer) -> Sequence[tuple[str, str]]:
    """Return the colours of the picture of the tree: each colour's class, and its meaning in words."""
    shares = {share(node.targets, answer.inspected) for node in answer.tree}
    return [(shade, words) for shade, words in SHARES.items() if shade in shares]


def branches(answer: TriageAnswer) -> tuple[list[Node], bool]:
    """Return the tree of stacks in words, and whether lines are left out."""
    return tree(tree_lines(answer.tree))


def failures(answer: TriageAnswer, names: Names) -> tuple[Sequence[Failure], int]:
    """Return the reasons of failures, the most frequent first, and the number of reasons left out."""
    reasons: dict[str, list[str]] = {}
    for failed in answer.failed:
        reasons.setdefault(names.reason(failed.target, failed.reason), []).append(names.short(failed.target))
    order = sorted(reasons.items(), key=lambda item: -len(item[1]))
    shown = [_failure(reason, targets) for reason, targets in order[:_FAILURES]]
    return shown, len(order) - len(shown)


def _failure(reason: str, names: Sequence[str]) -> Failure:
    if len(names) <= _FEW:
        return Failure(who=", ".join(names), reason=reason, names=(), more=0)
    who = format_count(len(names), "target")
    return Failure(who=who, reason=reason, names=names[:_NAMES], more=len(names[_NAMES:]))


def gone(answer: TriageAnswer) -> Sequence[tuple[str, str, str]]:
    """Return the groups of the baseline that are gone: number of targets, verdict, summary."""
    return [(format_count(group.before, "target"), group.verdict, group.summary) for group in answer.gone[:_GROUPS]]
