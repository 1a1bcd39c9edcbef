"""One line about an OpenMP program: numbers of threads and regions, and the states of the threads."""

from __future__ import annotations

from collections import Counter

from ompd.model import Answer, ThreadRecord
from ompd.render.words import clean, format_count


def format_summary(answer: Answer[ThreadRecord], thread: int | None = None) -> str:
    """Return the line; *thread* is the native id of the thread that stopped, None if there is none."""
    members = [row for row in answer.rows if row.parallel is not None]
    if members:
        regions = len({(row.runtime, row.parallel) for row in members})
        states = Counter(row.state or "of unknown state" for row in members)
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        text = f"{format_count(len(members), 'thread')} in {format_count(regions, 'region')}: {counts}"
    elif any(row.runtime is not None for row in answer.rows):
        text = "no parallel region is being executed" if answer.complete else "parallel regions unknown"
    else:
        text = "no OpenMP threads"
    row = next((r for r in answer.rows if r.native_thread_id == thread and r.thread_num is not None), None)
    if row is not None:
        text += f"; this is thread {row.thread_num}/{row.team_size} at level {row.level}"
    return clean(f"OpenMP: {text}")
