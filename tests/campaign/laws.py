"""Laws for the answers about any program: functions of the JSON, and of the threads in ``/proc``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Answer = Mapping[str, Any]

BOUND_MS, BOUND_THREADS, EACH_FURTHER_MS = 50.0, 256, 0.2
SLACK_MS = 2.0
"""Milliseconds by which a stop may exceed its bound: once a millisecond ``ompd`` checks whether to give a stop up."""
BOUND_BYTES = 512 << 20
"""The most bytes that a question may hold: 192 MiB copied of a process (docs/live.md), and bytes read from files."""
_COMPLETE, _INCOMPLETE = 0, 3


def broken(
    command: str, answer: Answer, code: int, before: Collection[int] = (), after: Collection[int] = ()
) -> list[str]:
    """Return the laws that an answer breaks.

    :param code: the exit code of the command
    :param before: the threads of the process just before the question
    :param after: the threads of the process just after the question
    """
    found = [*_of_exit(answer, code)]
    if command == "threads":
        found += [*_of_threads(answer["threads"]), *_of_process(answer["threads"], before, after)]
    elif command == "parallel":
        found += _of_regions(answer["parallel"], answer["complete"])
    elif command == "tasks":
        found += _of_tasks(answer["tasks"])
    elif command == "stack":
        found += _of_stacks(answer["stack"])
    return found


def broken_together(answers: Mapping[str, Answer]) -> list[str]:
    """Return the laws that the answers of one moment break together.

    An object in one answer must exist in the others, and no two answers may contradict one another. Missing answers are
    not compared.
    """
    is_whole = all(answer["complete"] for answer in answers.values())
    rows = {command: answer[command] for command, answer in answers.items() if command in answer}
    found: list[str] = []
    if {"threads", "parallel"} <= set(rows):
        found += _of_members(rows["threads"], rows["parallel"], is_whole)
    if {"threads", "tasks"} <= set(rows):
        found += _of_executing(rows["threads"], rows["tasks"], is_whole)
    if {"threads", "stack"} <= set(rows):
        found += _of_stacks_of_threads(rows["threads"], rows["stack"])
    if {"parallel", "tasks"} <= set(rows) and is_whole:
        regions = {row["id"] for row in rows["parallel"]}
        found += [
            f"task {row['id']} is of region {row['parallel']}, which is not listed"
            for row in rows["tasks"]
            if row["parallel"] is not None and row["parallel"] not in regions
        ]
    if {"stack", "tasks"} <= set(rows) and is_whole:
        tasks = {row["id"] for row in rows["tasks"]}
        found += [
            f"a frame of thread {row['native_thread_id']} is of task {frame['task']}, which is not listed"
            for row in rows["stack"]
            for frame in row["frames"]
            if frame["task"] is not None and frame["task"] not in tasks
        ]
    if "icvs" in rows and is_whole:
        found += _of_icvs(rows["icvs"], rows)
    if "runtimes" in rows:
        runtimes = {row["id"] for row in rows["runtimes"]}
        found += [
            f"a row of {command} is of runtime {runtime}, which is not listed"
            for command, listed in rows.items()
            for runtime in sorted({row["runtime"] for row in listed if row.get("runtime")} - runtimes)
        ]
    return found


def broken_stops(stops: Iterable[tuple[int, int]], threads: int = 0) -> tuple[list[str], int]:
    """Return the laws that stops break, and the number of stops that were too long only because the machine was busy.

    :param stops: for each stop its length, and the part of it spent waiting for a processor, in nanoseconds
    :param threads: the number of threads of the process
    """
    bound = BOUND_MS + EACH_FURTHER_MS * max(threads - BOUND_THREADS, 0)
    found, busy = [], 0
    for length, waited in stops:
        if length <= (bound + SLACK_MS) * 1e6:
            continue
        if length - waited <= (bound + SLACK_MS) * 1e6:
            busy += 1
        else:
            without = f"{waited / 1e6:.1f} ms of them without a processor"
            found.append(f"a stop of {length / 1e6:.1f} ms, {without}, where {bound:g} ms are the bound")
    return found, busy


def broken_memory(grown: int) -> list[str]:
    """Return the law that is broken if a question took *grown* bytes of memory."""
    if grown <= BOUND_BYTES:
        return []
    return [f"{grown >> 20} MiB of memory were taken, where {BOUND_BYTES >> 20} MiB are the bound"]


def broken_counts(rows: Sequence[Row], threads: Sequence[int], where: str) -> list[str]:
    """Return the law that is broken if an answer does not list exactly the true threads.

    :param threads: the threads in ``/proc`` of a stopped process, or in the notes of its core
    :param where: the name of that source
    """
    told, true = Counter(row["native_thread_id"] for row in rows), Counter(threads)
    if told == true:
        return []
    return [f"threads are not those of {where}: {sorted((told - true) | (true - told), key=str)}"]


def sampled(answer: Answer, command: str, most: int) -> Answer:
    """Return an answer with at most *most* of its rows: the first ones, and others evenly spaced. That is enough
    to validate rows with a schema.
    """
    rows = answer.get(command)
    if rows is None or len(rows) <= most:
        return answer
    half = most // 2
    rest = rows[half:]
    return {**answer, command: [*rows[:half], *rest[:: -(-len(rest) // half)]]}


def _of_members(threads: Sequence[Row], regions: Sequence[Row], is_whole: bool) -> Iterator[str]:
    by_id = {row["id"]: row for row in regions}
    known = {row["native_thread_id"] for row in threads}
    for row in regions:
        for thread in row["threads"] or ():
            if thread is not None and thread not in known:
                yield f"region {row['id']} has thread {thread}, which is not listed"
    told: dict[tuple[str, int], int] = {}
    for row in threads:
        own, region = row["native_thread_id"], row["parallel"]
        if region is None:
            continue
        if region not in by_id:
            yield f"thread {own} is in region {region}, which is not listed"
            continue
        if own not in (by_id[region]["threads"] or ()) and is_whole:
            yield f"region {region} does not list its thread {own}"
        if row["outside_of_target"] is None:
            for enclosing, number in _numbers(row, by_id):
                other = told.setdefault((enclosing, number), own)
                if other != own:
                    yield f"number {number} of region {enclosing} is told of threads {other} and {own}"
                listed = by_id[enclosing]["threads"] or ()
                if is_whole and (number >= len(listed) or listed[number] not in (own, None)):
                    yield f"region {enclosing} lists {list(listed)}, where thread {own} has number {number}"
        size, of_region = row["team_size"], by_id[region]["team_size"]
        if None not in (size, of_region) and size != of_region and row["outside_of_target"] is None:
            yield f"thread {own} is one of {size}, and its region {region} has {of_region}"
        if row["level"] != by_id[region]["level"] and None not in (row["level"], by_id[region]["level"]):
            yield f"thread {own} is at level {row['level']}, and its region {region} at {by_id[region]['level']}"
    if is_whole and all(row["thread_num"] is not None for row in threads if row["runtime"]):
        for row in regions:
            for number, thread in enumerate(row["threads"] or ()):
                if told.get((row["id"], number), thread) != thread:
                    yield f"region {row['id']} lists thread {thread} at {number}, which says another"


def _numbers(row: Row, regions: Mapping[str, Row]) -> Iterator[tuple[str, int]]:
    # Yield the regions that a thread is in, with its number in each. The thread is also in an enclosing region if it
    # began all regions between, as number 0 of each team.
    region, number, ancestors = regions.get(row["parallel"]), row["thread_num"], list(row["ancestors"] or ())
    seen = set()
    while region is not None and number is not None and region["id"] not in seen:
        seen.add(region["id"])
        yield region["id"], number
        outer = regions.get(region["enclosing"]) if region["enclosing"] is not None else None
        if number != 0 or outer is None or not ancestors or outer["level"] != len(ancestors):
            return
        region, number = outer, ancestors.pop()


def _of_executing(threads: Sequence[Row], tasks: Sequence[Row], is_whole: bool) -> Iterator[str]:
    by_id = {row["id"]: row for row in tasks}
    known = {row["native_thread_id"] for row in threads}
    executed = {}
    for row in threads:
        own, task = row["native_thread_id"], row["task"]
        if task is None:
            continue
        executed[own] = task
        if task not in by_id:
            if is_whole:
                yield f"thread {own} executes task {task}, which is not listed"
            continue
        if by_id[task]["thread"] not in (own, None):
            yield f"thread {own} executes task {task}, which says thread {by_id[task]['thread']}"
    for row in tasks:
        if row["thread"] is not None and row["thread"] not in known:
            yield f"task {row['id']} has thread {row['thread']}, which is not listed"
        elif row["status"] == "executing" and executed.get(row["thread"], row["id"]) != row["id"]:
            yield f"task {row['id']} says that thread {row['thread']} executes it, which executes another"


def _of_stacks_of_threads(threads: Sequence[Row], stacks: Sequence[Row]) -> Iterator[str]:
    by_thread = {row["native_thread_id"]: row for row in threads}
    listed = {thread for row in stacks for thread in row["threads"]}
    if listed != set(by_thread):
        yield f"threads with a stack are not those that are listed: {sorted(listed ^ set(by_thread), key=str)}"
    for row in stacks:
        own = row["native_thread_id"]
        # Equal stacks are one row, with the facts they share and the facts of each thread.
        for number, thread in enumerate(row["threads"]):
            theirs = by_thread.get(thread)
            if theirs is None:
                continue
            for key in ("runtime", "team_size", "level", "thread_num", "ancestors"):
                told = row[key]
                if key in ("thread_num", "ancestors"):
                    told = (row["thread_nums" if key == "thread_num" else key] or {number: None})[number]
                if None not in (told, theirs[key]) and told != theirs[key]:
                    yield f"thread {thread}: {key} is {theirs[key]}, and {told} with its stack"
        region = by_thread[own]["parallel"] if own in by_thread else None
        if None not in (row["parallel"], region) and row["parallel"] != region:
            yield f"thread {own}: its region is {region}, and {row['parallel']} with its stack"
        for frame in row["frames"]:
            if frame["thread"] is not None and frame["thread"] not in by_thread:
                yield f"a frame of thread {own} is of thread {frame['thread']}, which is not listed"


def _of_icvs(rows: Sequence[Row], others: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    known = {
        "thread": ("threads", "native_thread_id"),
        "parallel": ("parallel", "id"),
        "task": ("tasks", "id"),
        "address_space": ("runtimes", "id"),
    }
    for scope, (command, key) in known.items():
        if command in others:
            ids = {str(row[key]) for row in others[command]}
            for handle in sorted({row["handle"] for row in rows if row["scope"] == scope} - ids):
                yield f"icvs are told of {scope} {handle}, which is not listed"
    # Two questions must give the same value for the same fact.
    alike = {
        ("thread", "thread-num-var"): ("threads", "native_thread_id", "thread_num"),
        ("parallel", "team-size-var"): ("parallel", "id", "team_size"),
        ("parallel", "levels-var"): ("parallel", "id", "level"),
        ("parallel", "active-levels-var"): ("parallel", "id", "active_level"),
    }
    values = {
        (name, str(row[key])): row[told]
        for (_, name), (command, key, told) in alike.items()
        for row in others.get(command, ())
    }
    for row in rows:
        value = values.get((row["name"], row["handle"])) if (row["scope"], row["name"]) in alike else None
        if None not in (value, row["value"]) and value != row["value"]:
            yield f"{row['name']} of {row['handle']} is {row['value']}, where the other question has {value}"


def _of_exit(answer: Answer, code: int) -> Iterator[str]:
    wanted = _COMPLETE if answer["complete"] else _INCOMPLETE
    if code != wanted:
        yield f"exit code {code}, where complete is {answer['complete']}"
    if not answer["complete"] and not answer["warnings"]:
        yield "not complete, and no warning says why"


def proven(answer: Answer) -> Iterator[str]:
    """Return the law that is broken if ``why`` gives a running program as proven to be stuck."""
    for row in answer["why"]:
        if row["stuck"] == "proven":
            yield f"{row['kind']} is said to be stuck for certain: {row['summary']}"


def longest_stop_ms(answer: Answer) -> float:
    """Return the length of the longest stop, 0 if there was none."""
    return max(answer["target"]["stops_ns"], default=0) / 1e6


def _of_process(rows: Sequence[Row], before: Collection[int], after: Collection[int]) -> Iterator[str]:
    told = {row["native_thread_id"] for row in rows}
    stayed = set(before) & set(after)
    if not before:
        return
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
                elif by_thread[other]["parallel"] != row["parallel"]:
                    pass  # only the threads of a nested region come to its barrier
                elif theirs and theirs["kind"] == wait["kind"] and own not in (theirs["missing"] or (own,)):
                    yield f"thread {own} misses thread {other}, which does not miss it at its barrier"
        if wait["owner"] is not None and wait["owner"] not in by_thread:
            yield f"thread {own} waits for thread {wait['owner']}, which is not listed"


def _of_regions(rows: Sequence[Row], is_whole: bool) -> Iterator[str]:
    ids = Counter(row["id"] for row in rows)
    yield from (f"region {region} is listed {times} times" for region, times in ids.items() if times > 1)
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        threads = row["threads"]
        if row["enclosing"] is not None and row["enclosing"] not in ids:
            yield f"region {row['id']} is in region {row['enclosing']}, which is not listed"
        elif row["enclosing"] is not None:
            inner, outer = row["level"], by_id[row["enclosing"]]["level"]
            if None not in (inner, outer) and inner != outer + 1:
                yield f"region {row['id']} at level {inner} is in one at level {outer}"
        if threads is not None:
            known = Counter(thread for thread in threads if thread is not None)
            twice = [thread for thread, times in known.items() if times > 1]
            if twice:
                yield f"region {row['id']} lists thread {twice[0]} twice"
            if is_whole and row["team_size"] is not None and len(threads) != row["team_size"]:
                yield f"region {row['id']} of {row['team_size']} threads lists {len(threads)}"


def _of_tasks(rows: Sequence[Row]) -> Iterator[str]:
    ids = Counter(row["id"] for row in rows)
    yield from (f"task {task} is listed {times} times" for task, times in ids.items() if times > 1)
    for row in rows:
        for key in ("generating", "scheduling"):
            if row[key] is not None and row[key] not in ids:
                yield f"task {row['id']} has a {key} task {row[key]}, which is not listed"
        waits = row["waits_for"]
        for other in (waits["tasks"] or ()) if waits is not None else ():
            if other not in ids:
                yield f"task {row['id']} waits for task {other}, which is not listed"
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
