"""Answers of ``triage`` for pages, about an MPI job of any number of ranks."""

from __future__ import annotations

from typing import Any

from ompd.model.triage import GoneGroup, TriageAnswer
from ompd.triage.baseline import Baseline
from ompd.triage.groups import Groups

JOB = "4711"


def of_job(size: int, *, failed: int = 0, baseline: bool = False) -> TriageAnswer:
    """Return the answer about a job in which all ranks wait for the middle one; one rank was not inspected."""
    groups = Groups()
    late, absent = size // 2, size - 1
    for rank in range(size):
        if rank == absent:
            continue
        call = {"routine": "MPI_Allreduce", "link": "members", "rank": None, "world": True}
        groups.add(result(rank, size, late=rank == late, mpi=[] if rank == late else [call]))
    for number in range(failed):
        name = f"/scratch/me/job/host{number}/core.{number}"
        groups.add({"target": name, "identity": [1, 2], "failed": f"{name}: the core file is cut off in {name}"})
    gone = GoneGroup("1-0000000000000000", "self_lock", "thread 1 waits for &lock, which it holds itself", 3)
    return groups.answer((), Baseline({gone.id: gone}) if baseline else None)


def result(rank: int | None, size: int | None, *, late: bool = False, **members: Any) -> dict[str, Any]:
    """Return the result of one rank, which waits in MPI or is late because one of its threads waits for a lock."""
    outer = [["main", 0, 10, None, 1, None], ["step", 0, 20, None, 1, None]]
    at_lock = [*outer, ["step", 0, 24, None, 1, "parallel"], ["update", 0, 31, None, 1, None]]
    at_end = [*outer, ["step", 0, 24, None, 1, "parallel"]]
    in_mpi = [*outer, ["exchange", 1, 7, None, 1, None], ["MPI_Allreduce", None, None, None, 1, None]]
    busy = [{"frames": at_lock, "threads": {"worker": 1}}, {"frames": at_end, "threads": {"primary": 1, "worker": 6}}]
    waits = [{"frames": in_mpi, "threads": {"initial": 1}}, {"frames": [], "threads": {"idle": 7}}]
    said = "7 threads wait for thread 7, which waits for &lock" if late else "1 thread waits in MPI_Allreduce"
    return {
        "target": f"/scratch/me/job/host{(rank or 0) // 64}/core.{rank}", "identity": [1, 2],
        "verdict": "lock_abandoned" if late else "external_wait", "stuck": "unknown", "summary": said,
        "runtimes": ["libgomp GCC 12"], "program": "solver", "pid": rank, "rank": rank, "size": size, "job": JOB,
        "host": None, "about": [0], "mpi": [], "complete": True, "files": ["/home/me/solver.c", "/home/me/halo.c"],
        "stacks": busy if late else waits, "left_out": 0, **members,
    }  # fmt: skip
