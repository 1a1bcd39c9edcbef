"""Compares two moments: matches threads and tasks, and compares states by their general name.

In the same process, threads are matched by the system's ids, and tasks by their addresses. Two runs of a program have
no ids and addresses in common. So their threads are matched by the number in the team, and their tasks only counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ompd.model import (
    CounterChange,
    FactChange,
    ParallelRecord,
    Place,
    RegionFunction,
    TaskChange,
    TaskRecord,
    ThreadChange,
    ThreadRecord,
    Wait,
)
from ompd.model.kinds import Kind
from ompd.records import record


@record(kw_only=True)
class Sight:
    """The records of one moment that are compared. A field is None if its records were not read, or not readable.

    ``processor_ns`` is the processor time that each thread has used, by its native id.
    """

    threads: tuple[ThreadRecord, ...] | None
    tasks: tuple[TaskRecord, ...] | None = None
    regions: tuple[ParallelRecord, ...] | None = None
    processor_ns: Mapping[int, int] = field(default_factory=dict)


@record
class Differences:
    """The records of :class:`~ompd.model.DiffAnswer`."""

    threads: tuple[ThreadChange, ...]
    tasks: tuple[TaskChange, ...]
    counters: tuple[CounterChange, ...]

    @property
    def differs(self) -> bool:
        """Whether anything differs. Processor time does not count: a process that spins uses some."""
        return (
            any(row.change != "same" for row in self.threads)
            or any(row.earlier != row.later or row.new or row.gone or row.changed for row in self.tasks)
            or any(row.earlier != row.later for row in self.counters)
        )


def general_state(state: str | None) -> str | None:
    """Return the name of a state that all runtimes use. Only libomp distinguishes kinds of barriers."""
    return "wait_barrier" if state is not None and state.startswith("wait_barrier") else state


def compare(before: Sight, after: Sight, *, same_process: bool | None) -> Differences:
    """Return the differences from one moment to a later one.

    :param same_process: whether both moments belong to one process. If this is unknown (None), they are compared as
        moments of one process, but without conclusions about the time in between
    """
    is_same = same_process is not False
    threads: tuple[ThreadChange, ...] = ()
    if before.threads is not None and after.threads is not None:
        pairs = _by_native(before.threads, after.threads) if is_same else _by_number(before.threads, after.threads)
        threads = tuple(
            _thread(old, new, before.processor_ns, after.processor_ns, is_same=is_same, is_known=same_process is True)
            for old, new in pairs
        )
    return Differences(
        threads,
        tuple(_tasks(before.tasks, after.tasks, is_same=is_same)),
        tuple(_counters(before, after)),
    )


_Pairs = Iterator[tuple[ThreadRecord | None, ThreadRecord | None]]


def _by_native(before: Sequence[ThreadRecord], after: Sequence[ThreadRecord]) -> _Pairs:
    return _matched(before, after, [row.native_thread_id for row in before], [row.native_thread_id for row in after])


def _by_number(before: Sequence[ThreadRecord], after: Sequence[ThreadRecord]) -> _Pairs:
    kinds = [{row.runtime for row in rows if row.runtime is not None} for rows in (before, after)]
    # Two runs may use different runtimes. So runtimes are matched by name only if one of the runs has several.
    has_names = any(len(names) > 1 for names in kinds)
    return _matched(
        before, after, [_number(row, has_names) for row in before], [_number(row, has_names) for row in after]
    )


def _number(row: ThreadRecord, is_named: bool) -> Hashable:
    runtime = row.runtime if is_named else row.runtime is not None
    if row.thread_num is None:
        return runtime, row.state == "idle", row.where.function if row.where is not None else None
    return runtime, row.level, row.ancestors, row.thread_num


def _matched(
    before: Sequence[ThreadRecord],
    after: Sequence[ThreadRecord],
    old_keys: Iterable[Hashable],
    new_keys: Iterable[Hashable],
) -> _Pairs:
    # Yield pairs of rows with the same key, in their order, and each other row with None. The key None matches nothing.
    unmatched: dict[Hashable, list[ThreadRecord]] = defaultdict(list)
    for row, key in zip(before, old_keys, strict=True):
        unmatched[key].append(row)
    for rows in unmatched.values():
        rows.reverse()
    for row, key in zip(after, new_keys, strict=True):
        yield unmatched[key].pop() if key is not None and unmatched[key] else None, row
    for rows in unmatched.values():
        yield from ((row, None) for row in reversed(rows))


def _thread(
    old: ThreadRecord | None,
    new: ThreadRecord | None,
    used_before: Mapping[int, int],
    used_after: Mapping[int, int],
    *,
    is_same: bool,
    is_known: bool,
) -> ThreadChange:
    row = new or old
    assert row is not None
    facts: tuple[FactChange, ...] = ()
    unknown: dict[str, str] = {}
    change = "gone" if new is None else "new"
    used = None
    if old is not None and new is not None:
        facts = tuple(_facts(old, new, unknown, is_same=is_same))
        change = "moved" if facts else "same"
        native = new.native_thread_id
        if is_known and native in used_before and native in used_after and native is not None:
            used = used_after[native] - used_before[native]
    return ThreadChange(
        native_thread_id=new.native_thread_id if new is not None else None,
        earlier_thread_id=old.native_thread_id if old is not None else None,
        change=change,
        runtime=row.runtime,
        thread_num=row.thread_num,
        team_size=row.team_size,
        ancestors=row.ancestors,
        state=general_state(row.state),
        wait=_wait(row.wait),
        where=_place(row.where),
        stuck=is_known and change == "same" and row.wait is not None and not unknown.keys() & {"wait", "where"},
        facts=facts,
        processor_ns=used,
        unavailable=unknown,
    )


def _facts(old: ThreadRecord, new: ThreadRecord, unknown: dict[str, str], *, is_same: bool) -> Iterator[FactChange]:
    # Yield the facts that differ. A fact that is unknown in one of the rows is noted in *unknown* instead.
    values_before, values_after = _values(old, is_same), _values(new, is_same)
    for name, keys in _FACTS.items():
        reasons = [row.unavailable[key] for row in (old, new) for key in keys if key in row.unavailable]
        if reasons:
            unknown[name] = reasons[0]
            continue
        if values_before[name] != values_after[name]:
            before, after = _text(values_before[name], name, old), _text(values_after[name], name, new)
            if before == after and name == "wait":
                # Two objects of one kind without names, such as barriers, are distinguished by their addresses.
                before, after = (_with_object(text, row) for text, row in ((before, old), (after, new)))
            yield FactChange(name, before, after)


# The fields of a row from which each fact is made, as keys of its ``unavailable``.
_FACTS: Mapping[str, tuple[str, ...]] = {
    "state": ("state",),
    "team": ("thread_num", "team_size", "level"),
    "region": ("parallel",),
    "task": ("task",),
    "wait": ("wait",),
    "arrived": ("wait", "wait.arrived"),
    "owner": ("wait", "wait.owner"),
    "passes": ("wait", "wait.generation"),
    "where": ("where",),
}


def _values(row: ThreadRecord, is_same: bool) -> Mapping[str, Hashable]:
    # Return the values of a row's facts. Addresses and native ids are left out unless both rows are of one process.
    wait = row.wait if is_same else None
    return {
        "state": general_state(row.state),
        "team": _place_in_team(row),
        "region": row.parallel if is_same else row.parallel is not None,
        "task": row.task if is_same else row.task is not None,
        "wait": _awaited(row.wait, is_same),
        "arrived": _arrived(row.wait),
        "owner": wait.owner if wait is not None else None,
        "passes": wait.generation if wait is not None else None,
        "where": _at(row.where, is_same),
    }


def _place_in_team(row: ThreadRecord) -> Hashable:
    place = (row.thread_num, row.team_size, row.level)
    return place if place != (None, None, None) else None


def _awaited(wait: Wait | None, is_same: bool) -> Hashable:
    return (wait.kind, wait.symbol, wait.object if is_same else None) if wait is not None else None


def _arrived(wait: Wait | None) -> Hashable:
    return (wait.arrived, wait.expected) if wait is not None and wait.arrived is not None else None


def _at(place: Place | None, is_same: bool) -> Hashable:
    if place is None:
        return None
    line = (place.function, place.file and place.file.rpartition("/")[2], place.line)
    return (*line, place.address) if is_same else line


def _text(value: Hashable, name: str, row: ThreadRecord) -> str | None:
    if value is None:
        return None
    if name == "where":
        # Two places in the same line differ in their addresses.
        address = row.where.address if row.where is not None and len(value) > 3 else None  # type: ignore[arg-type]
        return f"{_place(row.where)}" + (f" ({address:#x})" if address is not None else "")
    if name == "wait":
        return _wait(row.wait)
    if isinstance(value, tuple):
        return "/".join("?" if part is None else str(part) for part in value)
    return ("in one" if value else None) if isinstance(value, bool) else str(value)


def _wait(wait: Wait | None) -> str | None:
    if wait is None:
        return None
    if wait.symbol is not None:
        return wait.symbol if wait.symbol.startswith(wait.kind) else f"{wait.kind} {wait.symbol}"
    return wait.kind if wait.object is None or wait.kind is Kind.BARRIER else f"{wait.kind} {wait.object:#x}"


def _with_object(text: str | None, row: ThreadRecord) -> str:
    address = row.wait.object if row.wait is not None else None
    return f"{text} {address:#x}" if address is not None else f"{text} ?"


def _place(place: Place | RegionFunction | None) -> str | None:
    if place is None:
        return None
    if place.file is not None and place.line is not None:
        return f"{place.file.rpartition('/')[2]}:{place.line} {place.function or ''}".rstrip()
    return place.function or (f"{place.address:#x}" if place.address is not None else "?")


# Tasks


def _tasks(
    before: Sequence[TaskRecord] | None, after: Sequence[TaskRecord] | None, *, is_same: bool
) -> Iterator[TaskChange]:
    if before is None or after is None:
        return
    groups_before, groups_after = _grouped(before), _grouped(after)
    for key in dict.fromkeys((*groups_before, *groups_after)):
        old, new = groups_before.get(key, {}), groups_after.get(key, {})
        counts = [Counter(row.status or "?" for row in rows.values()) for rows in (old, new)]
        common = old.keys() & new.keys()
        changed = sum((old[name].status, old[name].thread) != (new[name].status, new[name].thread) for name in common)
        yield TaskChange(
            kind=key[0],
            function=key[1],
            earlier=dict(sorted(counts[0].items())),
            later=dict(sorted(counts[1].items())),
            new=len(new) - len(common) if is_same else None,
            gone=len(old) - len(common) if is_same else None,
            changed=changed if is_same else None,
        )


def _grouped(rows: Sequence[TaskRecord]) -> Mapping[tuple[str | None, str | None], dict[str, TaskRecord]]:
    # Return the tasks by kind and place, and each group by the tasks' ids.
    groups: defaultdict[tuple[str | None, str | None], dict[str, TaskRecord]] = defaultdict(dict)
    for row in rows:
        groups[row.kind, _place(row.function)][row.id] = row
    return groups


# Counters


def _state(row: ThreadRecord) -> str | None:
    return general_state(row.state)


def _counters(before: Sight, after: Sight) -> Iterator[CounterChange]:
    if before.threads is not None and after.threads is not None:
        yield CounterChange("threads", len(before.threads), len(after.threads))
        states = [Counter(filter(None, map(_state, rows))) for rows in (before.threads, after.threads)]
        for name in sorted(states[0].keys() | states[1].keys()):
            yield CounterChange(f"threads in {name}", *(count[name] for count in states))
    if before.regions is not None and after.regions is not None:
        yield CounterChange("regions", len(before.regions), len(after.regions))
    if before.tasks is not None and after.tasks is not None:
        yield CounterChange("tasks", len(before.tasks), len(after.tasks))
        statuses = [Counter(row.status or "?" for row in rows) for rows in (before.tasks, after.tasks)]
        for name in sorted(statuses[0].keys() | statuses[1].keys()):
            yield CounterChange(f"tasks {name}", *(count[name] for count in statuses))
