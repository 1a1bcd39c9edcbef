"""Moments written by hand: records of threads, tasks and waits, and the verdicts on them."""

from __future__ import annotations

from typing import Any

from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import HeldRecord, Place, TaskRecord, ThreadRecord, VerdictRecord, Wait
from ompd.model.kinds import Kind

TEAM = 4
# A wait that only a thread of the process can end.
UNTIL_WOKEN: dict[str, Any] = {"is_timed": False, "is_shared": False}


def thread(native: int, wait: Wait | None = None, **more: Any) -> ThreadRecord:
    facts = {
        "native_thread_id": native,
        "thread_num": native,
        "team_size": TEAM,
        "runtime": "libgomp",
        "thread_type": "worker",
        "state": "work_parallel" if wait is None else f"wait_{wait.kind}",
        "wait": wait,
        "parallel": "region",
        "task": f"task{native}",
        "where": Place(0x1000 + native, "work", "work.c", 10 + native) if more.get("state") != "idle" else None,
    }
    return ThreadRecord(**{**facts, **more})


def barrier(missing: tuple[int, ...] | None, size: int = TEAM, **more: Any) -> Wait:
    arrived = size - len(missing) if missing is not None else None
    return Wait(Kind.BARRIER, **{"arrived": arrived, "expected": size, "missing": missing, "how": "blocked", **more})


def lock(symbol: str, owner: int | None = None, **more: Any) -> Wait:
    source = "runtime" if owner is not None else None
    facts = {"object": sum(map(ord, symbol)), "symbol": symbol, "owner": owner, "owner_source": source}
    return Wait(Kind.LOCK, **{**facts, "how": "blocked", **more})


def holds(symbol: str, kind: Kind = Kind.LOCK, *, is_certain: bool = True) -> tuple[HeldRecord, ...]:
    reason = f"{symbol} was set and not unset"
    return (HeldRecord(kind=kind, object=sum(map(ord, symbol)), symbol=symbol, is_certain=is_certain, reason=reason),)


def queued(identifier: str, generating: str) -> TaskRecord:
    return task(identifier, generating, None, "queued")


def task(identifier: str, generating: str | None, on: int | None, status: str, **more: Any) -> TaskRecord:
    facts = {
        "id": identifier,
        "runtime": "libgomp",
        "kind": "explicit" if generating is not None else "implicit",
        "thread": on,
        "generating": generating,
        "scheduling": None,
        "parallel": "region",
        "function": None,
        "exit_frame": None,
        "enter_frame": None,
        "status": status,
    }
    return TaskRecord(**{**facts, **more})


def first(*threads: ThreadRecord, earlier: Moment | None = None, **facts: Any) -> VerdictRecord:
    verdicts, nodes, edges = concluded(Moment(threads=threads, **facts), (earlier,) if earlier is not None else (), 0.5)
    keys = {node.id for node in nodes}
    assert all(edge.origin in keys and edge.target in keys for edge in edges)
    return verdicts[0]


def judged(*threads: ThreadRecord, **facts: Any) -> tuple[str, str, str]:
    verdict = first(*threads, **facts)
    return verdict.kind, verdict.stuck, verdict.confidence
