"""``triage`` as text: the groups, outliers first, what failed, and the tree of stacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ompd.model.triage import JobRecord, RankEnd, RankSet, TreeNode, TriageAnswer, TriageFrame, TriageRecord
from ompd.render.words import clean
from ompd.short_names import short_name

_NAMES = 3  # targets shown of a group
_FRAMES = 12
_FAILED = 20
_DEEPEST = 24  # steps of indentation
MARKS = {"new": "NEW", "grown": "GROWN", "fewer": "FEWER", "same": "SAME"}
"""The mark of a group, by how it compares with an earlier triage."""


def describe_triage(answer: TriageAnswer, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of the answer.

    :param verbose: show all targets, all failures, and all frames
    """
    total = answer.inspected + len(answer.failed)
    counts = [_counted(total, "target"), _counted(len(answer.rows), "group")]
    if answer.failed:
        counts.append(f"{len(answer.failed)} failed")
    yield ", ".join(counts)
    for job in answer.jobs:
        yield ""
        yield from job_lines(job)
    for row in answer.rows:
        yield ""
        yield from _group(row, verbose=verbose)
    if answer.gone:
        yield ""
        yield "GONE since the earlier triage"
        for gone in answer.gone:
            yield f"  {_counted(gone.before, 'target')}   {clean(gone.verdict)}   {clean(gone.summary)}"
    if answer.failed:
        yield ""
        yield "FAILED"
        for failed in answer.failed if verbose else answer.failed[:_FAILED]:
            # A message begins with the target's name, as commands about one target print it. Do not repeat the name.
            reason = clean(failed.reason).removeprefix(f"{clean(failed.target)}: ")
            yield f"  {clean(failed.target)}: {reason}"
        if len(answer.failed) > _FAILED and not verbose:
            yield f"  and {len(answer.failed) - _FAILED} more (-v)"
    if answer.tree:
        yield ""
        yield "STACKS   targets: [ranks]   function   threads that are there"
        for steps, text in tree_lines(answer.tree):
            yield f"  {'  ' * min(steps, _DEEPEST)}{text}"


def job_lines(job: JobRecord) -> Iterator[str]:
    """Yield the lines on one job of MPI."""
    named = f"job {clean(job.job)}" if job.job is not None else "job"
    of = f" of {job.size}" if job.size is not None and job.size != len(job.ranks) else ""
    yield f"{named}: ranks [{folded(job.ranks)}]{of} inspected"
    for wait in job.waits:
        ranks = f"{_counted(len(wait.ranks), 'rank')} [{folded(wait.ranks)}] in {clean(wait.call)}"
        if wait.missing:
            yield f"  {ranks}, for {len(wait.missing)}: [{folded(wait.missing)}]"
        elif wait.unknown is not None:
            yield f"  {ranks}; {wait.unknown}"
        else:
            yield f"  {ranks}, in which all ranks are"
    for end in job.ends:
        yield f"  {_end(end)}"
    if job.more_ends:
        yield f"  and {job.more_ends} more on which others depend"


def _end(end: RankEnd) -> str:
    ranks = f"{'rank' if len(end.ranks) == 1 else 'ranks'} [{folded(end.ranks)}]"
    waiting = f"{_counted(len(end.waiting), 'rank')} [{folded(end.waiting)}] in the end {_verb(end)} {ranks}"
    if end.kind == "cycle":
        return f"{ranks} wait for each other" + (f"; {waiting}" if end.waiting else "")
    if end.kind == "not_inspected":
        return f"{waiting}, which {'was' if len(end.ranks) == 1 else 'were'} not inspected"
    return f"{waiting}: {clean(end.verdict or '?')}: {clean(end.summary or '?')}"


def _verb(end: RankEnd) -> str:
    return "waits for" if len(end.waiting) == 1 else "wait for"


def _group(row: TriageRecord, *, verbose: bool) -> Iterator[str]:
    mark = MARKS.get(row.baseline or "", "")
    before = f" ({row.before} before)" if row.before is not None and row.before != len(row.targets) else ""
    head = [f"{_counted(len(row.targets), 'target')}{before}", clean(row.verdict), *format_rank_sets(row.ranks), row.id]
    yield "   ".join([*([mark] if mark else []), *head])
    yield f"  {clean(row.summary)}"
    for number, frame in enumerate(row.stack if verbose else row.stack[:_FRAMES]):
        yield f"    #{number} {format_frame(frame)}"
    if len(row.stack) > _FRAMES and not verbose:
        yield f"    and {len(row.stack) - _FRAMES} more (-v)"
    for text in row.joined:
        yield f"  joined: {clean(text)}"
    names = row.targets if verbose else row.targets[:_NAMES]
    hidden = len(row.targets) - len(names)
    yield f"  {' '.join(map(clean, names))}{f' and {hidden} more' if hidden else ''}"


def format_frame(frame: TriageFrame | TreeNode) -> str:
    """Return a function and the line in it at which threads are."""
    parts = [clean(short_name(frame.function or "?"))]
    if frame.file is not None:
        parts.append(_place(frame.file, frame.line))
    if isinstance(frame, TriageFrame) and frame.loop is not None and frame.loop != frame.line:
        parts.append(f"in the loop of line {frame.loop}")
    if frame.construct is not None:
        parts.append(f"body of {clean(frame.construct)}")
    if isinstance(frame, TriageFrame) and frame.depth > 1:
        parts.append(f"{frame.depth} deep")
    return "  ".join(parts)


def _place(file: str, line: int | None) -> str:
    name = clean(file.rpartition("/")[2])
    return name if line is None else f"{name}:{line}"


def tree_lines(nodes: Sequence[TreeNode]) -> Iterator[tuple[int, str]]:
    """Yield each function of a tree, as its indentation in steps and its text."""
    # If a function is the only callee of its caller and has the same number of targets, it is not indented more than
    # the caller, and has no count.
    children: dict[int | None, int] = {}
    for node in nodes:
        children[node.parent] = children.get(node.parent, 0) + 1
    steps: dict[int | None, int] = {None: 0}
    targets: dict[int | None, int] = {None: -1}
    widths: dict[int | None, int] = {}
    for node in nodes:
        is_alone = children[node.parent] == 1 and targets[node.parent] == node.targets
        steps[node.id] = steps[node.parent] + (node.parent is not None and not is_alone)
        targets[node.id] = node.targets
        count = f"{node.targets}:" + "".join(f" {text}" for text in format_rank_sets(node.ranks))
        count = " " * widths.get(node.parent, 0) if is_alone else count
        widths[node.id] = len(count)
        ends = f"   {format_roles(node.ends)}" if node.ends else ""
        yield steps[node.id], f"{count}  {format_frame(node)}{ends}"


def format_roles(ends: Mapping[str, int]) -> str:
    """Return how many threads there are of each role."""
    return ", ".join(
        _counted(count, "other thread" if role == "other" else f"{role} thread") for role, count in ends.items()
    )


def format_rank_sets(ranks: Iterable[RankSet]) -> Iterator[str]:
    """Yield a text for the ranks of each job. It begins with the job's name if there are several jobs."""
    rank_sets = list(ranks)
    for rank_set in rank_sets:
        job = f"{clean(rank_set.job)}:" if len(rank_sets) > 1 and rank_set.job else ""
        yield f"{job}[{folded(rank_set.ranks)}]"


def folded(numbers: Iterable[int]) -> str:
    """Return numbers as people write sets of ranks: ``0-16,18``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
