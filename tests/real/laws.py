"""What any answer has to obey, whatever the program does: functions of the JSON alone, and of what ``/proc`` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Answer = Mapping[str, Any]

BOUND_MS = 50.0
_COMPLETE, _INCOMPLETE = 0, 3


def broken(command: str, answer: Answer, code: int, before: Collection[int], after: Collection[int]) -> list[str]:
    """Return the laws that an answer breaks.

    :param code: the exit code of the command
    :param before: the threads that the process had just before the question was asked, *after*: just after
    """
    found = [*_of_exit(answer, code), *_of_stops(answer)]
    if command == "threads":
        found += [*_of_threads(answer["threads"]), *_of_process(answer["threads"], before, after)]
    elif command == "tasks":
        found += _of_tasks(answer["tasks"])
    elif command == "stack":
        found += _of_stacks(answer["stack"])
    return found


def broken_together(answers: Mapping[str, Answer]) -> list[str]:
    """Return the laws that answers of one moment break: what one of them refers to exists in the other."""
    threads, tasks = answers["threads"]["threads"], answers["tasks"]["tasks"]
    regions = {row["id"]: row for row in answers["parallel"]["parallel"]}
    by_id = {row["id"]: row for row in tasks}
    is_whole = all(answer["complete"] for answer in answers.values())
    found = []
    for row in threads:
        own, task, region = row["native_thread_id"], row["task"], row["parallel"]
        if region is not None and region not in regions:
            found.append(f"thread {own} is in region {region}, which is not listed")
        elif region is not None and own not in regions[region]["threads"] and is_whole:
            found.append(f"region {region} does not list its thread {own}")
        if task is not None and task not in by_id and is_whole:
            found.append(f"thread {own} executes task {task}, which is not listed")
        elif task in by_id and by_id[task]["thread"] not in (own, None):
            found.append(f"thread {own} executes task {task}, which says thread {by_id[task]['thread']}")
    if is_whole:
        found += [
            f"task {row['id']} is of region {row['parallel']}, which is not listed"
            for row in tasks
            if row["parallel"] is not None and row["parallel"] not in regions
        ]
    listed = {thread for row in answers["stack"]["stack"] for thread in row["threads"]}
    known = {row["native_thread_id"] for row in threads}
    if listed != known:
        found.append(f"threads with a stack are not those that are listed: {sorted(listed ^ known)}")
    return found


def _of_exit(answer: Answer, code: int) -> Iterator[str]:
    wanted = _COMPLETE if answer["complete"] else _INCOMPLETE
    if code != wanted:
        yield f"exit code {code}, where complete is {answer['complete']}"
    if not answer["complete"] and not answer["warnings"]:
        yield "not complete, and no warning says why"


def _of_stops(answer: Answer) -> Iterator[str]:
    longest = longest_stop_ms(answer)
    if longest > BOUND_MS:
        yield f"a stop of {longest:.1f} ms, where {BOUND_MS:g} ms are the bound"


def longest_stop_ms(answer: Answer) -> float:
    """Return the length of the longest stop, 0 if there was none."""
    return max(answer["target"]["stops_ns"], default=0) / 1e6


def _of_process(rows: Sequence[Row], before: Collection[int], after: Collection[int]) -> Iterator[str]:
    told = {row["native_thread_id"] for row in rows}
    stayed = set(before) & set(after)
    if not stayed <= told:
        yield f"threads that the process had all the time are missing: {sorted(stayed - told)}"
    if set(before) == set(after) and told - stayed:
        yield f"threads that the process did not have: {sorted(told - stayed, key=str)}"


def _of_threads(rows: Sequence[Row]) -> Iterator[str]:
    own = Counter(row["native_thread_id"] for row in rows)
    yield from (f"thread {thread} is listed {times} times" for thread, times in own.items() if times > 1)
    numbers = Counter((row["parallel"], row["thread_num"]) for row in rows if row["parallel"] is not None)
    for (region, number), times in numbers.items():
        if number is not None and times > 1:
            yield f"number {number} of region {region} is told of {times} threads"
    sizes = {(row["parallel"], row["team_size"]) for row in rows if row["parallel"] and row["team_size"]}
    if len({region for region, _ in sizes}) != len(sizes):
        yield f"a region has several sizes: {sorted(sizes)}"
    for row in rows:
        number, size = row["thread_num"], row["team_size"]
        if number is not None and size is not None and not 0 <= number < size:
            yield f"thread {row['native_thread_id']} has number {number} of {size}"
        if row["state"] is None and row["runtime"] is not None and "state" not in row["unavailable"]:
            yield f"thread {row['native_thread_id']} has no state, and nothing says why"
    if all(row["level"] in (0, 1, None) and row["thread_num"] is not None for row in rows if row["runtime"]):
        for region, size in sizes:
            there = sorted(number for other, number in numbers if other == region)
            if there != list(range(size)):
                yield f"region {region} of {size} threads has the numbers {there}"
    yield from _of_waits(rows)


def _of_waits(rows: Sequence[Row]) -> Iterator[str]:
    by_thread = {row["native_thread_id"]: row for row in rows}
    for row in rows:
        own, wait = row["native_thread_id"], row["wait"]
        if wait is None:
            continue
        missing = wait["missing"]
        if missing is not None:
            if own in missing:
                yield f"thread {own} is missing from the barrier at which it waits"
            if None not in (wait["arrived"], wait["expected"]) and wait["arrived"] + len(missing) != wait["expected"]:
                yield f"thread {own}: {wait['arrived']} arrived and {len(missing)} missing of {wait['expected']}"
            for other in missing:
                theirs = by_thread[other]["wait"] if other in by_thread else None
                if other not in by_thread:
                    yield f"thread {own} misses thread {other}, which is not listed"
                elif theirs and theirs["kind"] == wait["kind"] and own not in (theirs["missing"] or (own,)):
                    yield f"thread {own} misses thread {other}, which does not miss it at its barrier"
        if wait["owner"] is not None and wait["owner"] not in by_thread:
            yield f"thread {own} waits for thread {wait['owner']}, which is not listed"


def _of_tasks(rows: Sequence[Row]) -> Iterator[str]:
    ids = Counter(row["id"] for row in rows)
    yield from (f"task {task} is listed {times} times" for task, times in ids.items() if times > 1)
    for row in rows:
        for key in ("generating", "scheduling"):
            if row[key] is not None and row[key] not in ids:
                yield f"task {row['id']} has a {key} task {row[key]}, which is not listed"
        if row["status"] == "executing" and row["thread"] is None and "thread" not in row["unavailable"]:
            yield f"task {row['id']} is executed by no thread"
        if row["status"] == "queued" and row["thread"] is not None:
            yield f"task {row['id']} is queued, and thread {row['thread']} executes it"
    executing = Counter(row["thread"] for row in rows if row["status"] == "executing" and row["thread"] is not None)
    yield from (f"thread {thread} executes {n} tasks at once" for thread, n in executing.items() if n > 1)


def _of_stacks(rows: Sequence[Row]) -> Iterator[str]:
    threads = Counter(thread for row in rows for thread in row["threads"])
    yield from (f"thread {thread} has {times} stacks" for thread, times in threads.items() if times > 1)
    for row in rows:
        if not row["frames"] and not row["idle"] and row["stopped"] is None:
            yield f"thread {row['native_thread_id']} has no frame, and nothing says why"
        own = [int(f["cfa"], 16) for f in row["frames"] if f["thread"] == row["native_thread_id"] and f["cfa"]]
        if own != sorted(own) and not any(frame["signal"] for frame in row["frames"]):
            yield f"the frames of thread {row['native_thread_id']} are not in the order of its stack"
