"""``limits``: a limit on threads or memory at which the next region will fail."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.analysis.words import counted
from ompd.model import Evidence, ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.model.supply import RoomForThreads, Supply


def narrow_room(supply: Supply, rows: Sequence[ThreadRecord]) -> VerdictRecord | None:
    """Return the verdict on a limit that leaves too little room for the threads of the next region, None without one.

    :param rows: the rows of the process's threads
    """
    team_size = supply.settings.team_size
    if team_size is None:
        return None
    pool = sum(row.runtime is not None and row.native_thread_id is not None for row in rows)
    needed = team_size - max(1, pool)
    short = sorted((room for room in supply.rooms if room.threads < needed), key=lambda room: room.threads)
    if not short:
        return None
    room = short[0]
    fails = "its next thread fails" if room.threads == 0 else f"only {counted(room.threads, 'more thread')} can begin"
    return VerdictRecord(
        kind=VerdictKind.LIMITS,
        stuck=Confidence.UNKNOWN,
        confidence=Confidence.LIKELY,
        summary=f"the next region needs {counted(needed, 'more thread')}, and {fails}: {room.name} is limited to"
        f" {_amount(room, room.most)} ({room.setting})",
        advice=(f"a higher limit ({room.setting}), or fewer threads: OMP_NUM_THREADS={pool + room.threads}",),
        evidence=tuple(
            Evidence(
                f"{each.name}: {_amount(each, each.used)} of {_amount(each, each.most)} are in use, which leaves room"
                f" for {counted(each.threads, 'thread')}",
                "runtime",
            )
            for each in short
        ),
        next_step="ompd icvs TARGET",
    )


def _amount(room: RoomForThreads, value: int) -> str:
    return f"{value / (1 << 20):,.0f} MB" if "address space" in room.name else f"{value:,}"
