"""Groups of results with the same fault. The order in which results come makes no difference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ompd.model.triage import FailedTarget, GoneGroup, TriageAnswer, TriageFrame, TriageRecord
from ompd.triage.across import Jobs
from ompd.triage.baseline import Baseline
from ompd.triage.normal import KEY, Frame, function_name, group_id, part
from ompd.triage.ranks import Ranked, rank_sets
from ompd.triage.results import frames_of
from ompd.triage.targets import natural
from ompd.triage.tree import Tree

_MOST_NAMES = 8  # most targets that are named in a warning
_MOST_LINES = 16  # most lines of one loop that are listed
# Native ids behind names of threads, which differ between targets.
_THREAD_IDS = re.compile(r" \([0-9,…]+\)")


class Groups:
    """The groups so far."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._failed: list[tuple[str, str]] = []
        self._cut: list[str] = []
        self._tree = Tree()
        self._jobs = Jobs()

    def add(self, result: Mapping[str, Any]) -> None:
        """Put a result into its group."""
        target = result["target"]
        if "failed" in result:
            self._failed.append((target, result["failed"]))
            return
        if result.get("is_cut"):
            self._cut.append(target)
        stacks = [frames_of(result, number) for number in result["about"]]
        key = group_id(result["verdict"], stacks)
        rank = (result["job"], result["rank"]) if result["rank"] is not None else None
        self._groups.setdefault(key, _Group()).add(result, stacks, rank)
        self._jobs.add(result, _THREAD_IDS.sub("", result["summary"]))
        self._tree.add(
            ((frames_of(result, number), stack["threads"]) for number, stack in enumerate(result["stacks"])), rank
        )

    @property
    def failed(self) -> int:
        """The number of targets without an answer."""
        return len(self._failed)

    def answer(self, warnings: Sequence[str] = (), baseline: Baseline | None = None) -> TriageAnswer:
        """Return the groups, the smallest first, each compared with the baseline."""
        rows = [group.record(key, baseline) for key, group in self._groups.items()]
        failed = sorted(self._failed, key=lambda failure: natural(failure[0]))
        warnings = (*warnings, *_cut_off(sorted(self._cut, key=natural)))
        return TriageAnswer(
            rows=tuple(sorted(rows, key=lambda row: (len(row.targets), row.verdict, row.id))),
            failed=tuple(FailedTarget(target, reason) for target, reason in failed),
            gone=_gone(baseline, self._groups),
            tree=self._tree.nodes(),
            jobs=self._jobs.records(),
            inspected=sum(len(row.targets) for row in rows),
            key=KEY,
            complete=not self._failed and not warnings,
            warnings=warnings,
        )


def _cut_off(targets: Sequence[str]) -> Iterator[str]:
    if targets:
        more = f" and {len(targets) - _MOST_NAMES} more" if len(targets) > _MOST_NAMES else ""
        yield f"cut off, so that threads and waits may be missing: {', '.join(targets[:_MOST_NAMES])}{more}"


def _gone(baseline: Baseline | None, groups: Mapping[str, object]) -> tuple[GoneGroup, ...]:
    if baseline is None:
        return ()
    gone = (group for key, group in baseline.groups.items() if key not in groups)
    return tuple(sorted(gone, key=lambda group: (-group.before, group.id)))


class _Group:
    """The targets of one group. The first target by name represents it."""

    def __init__(self) -> None:
        self._targets: list[str] = []
        self._ranks: set[Ranked] = set()
        self._first: tuple[Any, str, str, Sequence[Frame]] | None = None
        # The differences between the group's targets that the key ignores, by frame: all lines within a loop, and the
        # least and greatest depth of a recursion.
        self._lines: dict[tuple[int, int, str, int], set[int]] = {}
        self._depths: dict[tuple[int, int, str], tuple[int, int]] = {}

    def add(self, result: Mapping[str, Any], stacks: Sequence[Sequence[Frame]], rank: Ranked | None) -> None:
        target = result["target"]
        self._targets.append(target)
        if rank is not None:
            self._ranks.add(rank)
        place = natural(target)
        if self._first is None or place < self._first[0]:
            frames = stacks[0] if stacks else ()
            self._first = (place, result["verdict"], _THREAD_IDS.sub("", result["summary"]), frames)
        for number, frames in enumerate(sorted(stacks, key=lambda frames: [*map(part, frames)])):
            for place_on_stack, frame in enumerate(frames):
                self._note((number, place_on_stack), frame)

    def _note(self, place: tuple[int, int], frame: Frame) -> None:
        # The group's key guarantees that all targets have the same function at a place.
        if frame.loop is not None and frame.line is not None:
            self._lines.setdefault((*place, function_name(frame.function), frame.loop), set()).add(frame.line)
        name = (*place, function_name(frame.function))
        least, most = self._depths.get(name, (frame.depth, frame.depth))
        self._depths[name] = min(least, frame.depth), max(most, frame.depth)

    def record(self, key: str, baseline: Baseline | None) -> TriageRecord:
        assert self._first is not None
        _, verdict, summary, frames = self._first
        before = baseline.before(key) if baseline is not None else None
        return TriageRecord(
            id=key,
            verdict=verdict,
            summary=summary,
            targets=tuple(sorted(self._targets, key=natural)),
            ranks=rank_sets(self._ranks),
            stack=tuple(_frame(f) for f in reversed(frames)),
            joined=tuple(self._joined()),
            baseline=_change(len(self._targets), before) if baseline is not None else None,
            before=before,
        )

    def _joined(self) -> Iterator[str]:
        remarks = [
            f"{name} calls itself, {least} to {most} deep"
            for (_, _, name), (least, most) in sorted(self._depths.items())
            if least != most
        ]
        remarks += (
            f"{name} is at lines {_lines(lines)} of the loop of line {loop}"
            for (_, _, name, loop), lines in sorted(self._lines.items())
            if len(lines) > 1
        )
        yield from dict.fromkeys(remarks)


def _frame(frame: Frame) -> TriageFrame:
    return TriageFrame(frame.function, frame.file, frame.line, frame.loop, frame.depth, frame.construct)


def _lines(lines: set[int]) -> str:
    shown = sorted(lines)
    more = f" … {shown[-1]}" if len(shown) > _MOST_LINES else ""
    return ", ".join(map(str, shown[: _MOST_LINES - bool(more)])) + more


def _change(now: int, before: int | None) -> str:
    if before is None:
        return "new"
    return "grown" if now > before else "fewer" if now < before else "same"
