"""Prints the processor time, in seconds, of what follows from the records of many threads and queued tasks."""

from __future__ import annotations

import sys
import time

from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import SchedulingRecord, TaskRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind


def moment(threads: int, tasks: int) -> Moment:
    """Return a moment of a team that hangs: half of its threads wait for locks of others, half for tasks in queues that
    nobody may execute where they are.
    """
    each = tasks * 2 // threads
    rows, points, records = [], {}, []
    for number in range(threads):
        native, own = 1000 + number, f"own{number}"
        following = 1000 + (number + 1) % threads
        records.append(task_of(own, None, native, "executing"))
        if number % 2:
            wait = Wait(Kind.LOCK, object=native, owner=following, owner_source="runtime", how="blocked")
        else:
            wait = Wait(Kind.TASKGROUP, how="blocked")
            child = f"child{number}"
            records.append(task_of(child, own, following, "suspended"))
            queued = [task_of(f"queued{number}.{index}", child, None, "queued") for index in range(each)]
            records += queued
            points[native] = SchedulingRecord(
                native_thread_id=native,
                kind=Kind.TASKGROUP,
                task=own,
                takes="children",
                tasks=tuple(task.id for task in queued),
                is_whole=True,
            )
        rows.append(thread_of(native, number, threads, own, wait))
    return Moment(threads=tuple(rows), tasks=tuple(records), points=points)


def thread_of(native: int, number: int, size: int, task: str, wait: Wait) -> ThreadRecord:
    """Return the record of a thread of the one team."""
    return ThreadRecord(
        native_thread_id=native,
        thread_type="worker",
        runtime="libomp",
        thread_num=number,
        team_size=size,
        state=f"wait_{wait.kind}",
        wait=wait,
        parallel="region",
        task=task,
    )


def task_of(name: str, generating: str | None, thread: int | None, status: str) -> TaskRecord:
    """Return the record of a task, an implicit one if none has generated it."""
    return TaskRecord(
        id=name,
        runtime="libomp",
        kind="explicit" if generating is not None else "implicit",
        thread=thread,
        generating=generating,
        scheduling=None,
        parallel="region",
        function=None,
        exit_frame=None,
        enter_frame=None,
        status=status,
    )


def main(threads: int, tasks: int) -> None:
    """Analyse such a moment once, in this fresh process, and print the seconds.

    :raises SystemExit: if it is not seen that all threads are stuck
    """
    made = moment(threads, tasks)
    start = time.process_time()
    verdicts, _, _ = concluded(made)
    seconds = time.process_time() - start
    if verdicts[0].stuck != "proven" or len(verdicts[0].explains) != threads:
        sys.exit("the graph was not solved")
    print(seconds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
