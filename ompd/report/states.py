"""The states in which threads are drawn. Each has a colour, a height and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ompd.model import StackRecord, ThreadRecord

WORDS: Mapping[str, str] = {
    "arrived": "at a barrier",
    "missing": "not yet at a barrier where others wait",
    "waits": "waiting for a lock, a task or a call",
    "works": "working",
    "idle": "idle in the pool",
    "unknown": "unknown, or not OpenMP",
}
"""The states, with their words on the page."""

HEIGHTS: Mapping[str, float] = {
    "arrived": 0.55,
    "missing": 1.0,
    "waits": 0.8,
    "works": 0.7,
    "idle": 0.25,
    "unknown": 0.4,
}
"""The filled part of a cell, for readers who see no colours."""


def states_of(rows: Iterable[ThreadRecord]) -> dict[int, str]:
    """Return the state of each thread, by its native id."""
    rows = list(rows)
    missing = {native for row in rows if row.wait is not None for native in row.wait.missing or ()}
    return {row.native_thread_id: _state(row, missing) for row in rows if row.native_thread_id is not None}


def _state(row: ThreadRecord, missing: set[int]) -> str:
    if row.wait is not None and row.wait.kind != "barrier":
        return "waits"
    if row.native_thread_id in missing:
        return "missing"
    if row.wait is not None:
        return "arrived"
    if row.state is None:
        return "unknown"
    if row.state == "idle":
        return "idle"
    if row.state.startswith("wait_barrier"):
        return "arrived"
    return "waits" if row.state.startswith("wait") else "works"


def state_of_stack(row: StackRecord, states: Mapping[int, str]) -> str:
    """Return the state of a stack's thread."""
    return states.get(row.native_thread_id or 0, "idle" if row.idle else "unknown")
