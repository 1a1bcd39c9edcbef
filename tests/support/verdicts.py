"""Compare the verdicts of ``why`` on a hanging program with the program's own truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ompd.model import DistinctValue, VerdictRecord, WhyAnswer
from tests.support.why import Hung, plain


def differences(hung: Hung, answer: WhyAnswer) -> list[str]:
    """Return the differences between the first verdict and the truth."""
    first = answer.rows[0]
    return [*_sureness(hung, first), *_threads(hung, first), *_ring(hung, first), *_place(hung, first)]


def in_short(row: VerdictRecord) -> dict[str, Any]:
    """Return the parts of a verdict, in JSON, that must be the same for every way of inspection."""
    place = [plain(row.place.function), row.place.line] if row.place is not None else None
    return {
        "kind": row.kind,
        "stuck": row.stuck,
        "confidence": row.confidence,
        "summary": row.summary,
        "roots": list(row.roots),
        "explains": list(row.explains),
        "cycle": [[link.thread, link.kind, link.object] for link in row.cycle],
        "place": place,
        "branch": [plain(row.branch.function), row.branch.line] if row.branch is not None else None,
        "variables": [
            [variable.name, *map(_values, (variable.arrived, variable.absent))] for variable in row.variables
        ],
    }


def _values(values: Sequence[DistinctValue]) -> list[list[Any]]:
    return [[value.text, list(value.threads)] for value in values]


def false_proofs(hung: Hung, answer: WhyAnswer) -> list[str]:
    """Return the verdicts that are called proven although the program's truth contradicts them."""
    expected = hung.expected
    found = []
    for row in answer.rows:
        if row.stuck == "proven" and "proven" not in (expected["stuck"] or ()):
            found.append(f"{row.kind} is said to be stuck for certain: {row.summary}")
        others = set(row.explains) - hung.threads()
        if row.stuck == "proven" and others:
            found.append(f"{row.kind}: {others} are said to be stuck for certain")
    return found


def _sureness(hung: Hung, first: VerdictRecord) -> Iterator[str]:
    expected = hung.expected
    for key, ours in (("kinds", first.kind), ("stuck", first.stuck), ("confidence", first.confidence)):
        if expected[key] is not None and ours not in expected[key]:
            yield f"{key}: {ours}, in truth {expected[key]}: {first.summary}"


def _threads(hung: Hung, first: VerdictRecord) -> Iterator[str]:
    roots, explained = hung.threads(is_root=True), hung.threads(is_explained=True)
    if not roots <= set(first.roots) or (roots and not set(first.roots) <= roots | explained):
        yield f"roots are {sorted(first.roots)}, in truth {sorted(roots)}"
    if expected_to_wait(hung) and (not explained - roots <= set(first.explains)):
        yield f"explained are {sorted(first.explains)}, in truth {sorted(explained)}"
    if not set(first.explains) <= hung.threads():
        yield f"explained are {sorted(first.explains)}, in truth at most {sorted(hung.threads())}"


def expected_to_wait(hung: Hung) -> bool:
    """Return whether the truth expects a verdict other than ``no_stall``."""
    return bool(hung.expected["kinds"] != ["no_stall"])


def _ring(hung: Hung, first: VerdictRecord) -> Iterator[str]:
    linked = sorted((t for t in hung.truth["threads"] if t["link"] is not None), key=lambda thread: thread["link"])
    true = [thread["native_thread_id"] for thread in linked]
    ours = [link.thread for link in first.cycle]
    if not true:
        return
    if not _same_ring(ours, true):
        yield f"the cycle is {ours}, in truth {true}"
    for thread in linked:
        objects = [link.object for link in first.cycle if link.thread == thread["native_thread_id"]]
        if thread["object"] is not None and not any(thread["object"] in name for name in objects):
            yield f"thread {thread['native_thread_id']} waits for {objects}, in truth for {thread['object']}"


def _same_ring(ours: Sequence[int | None], true: Sequence[int]) -> bool:
    if len(ours) != len(true) or ours[0] not in true:
        return False
    turn = true.index(ours[0])
    return list(ours) == [*true[turn:], *true[:turn]]


def _place(hung: Hung, first: VerdictRecord) -> Iterator[str]:
    true = places(hung.truth)
    if not true:
        return
    ours = (plain(first.place.function), first.place.line) if first.place is not None else None
    if ours not in true:
        yield f"the place is {ours}, in truth {sorted(true)}"


def places(truth: dict[str, Any]) -> set[tuple[str, int]]:
    """Return the functions and lines; a verdict must name one of them."""
    marked = [thread for thread in truth["threads"] if thread["is_place"] and thread["line"] is not None]
    return {(place["function"], place["line"]) for place in (*marked, *truth["places"])}
