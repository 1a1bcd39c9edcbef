"""Records of ``ompd diff``: changes between two moments of a program, or between two of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.openmp import Answer, TargetRecord
from ompd.records import record


@record
class FactChange(Record):
    """A fact of a thread that differs between two moments: its ``name``, and its value at each in words, None where it
    has no value.
    """

    name: str
    earlier: str | None
    later: str | None


@record(kw_only=True)
class ThreadChange(Record):
    """A thread that exists at one or both of two moments.

    ``change`` is ``same``, ``moved`` (one of the ``facts`` differs), ``new`` or ``gone``. ``native_thread_id`` is its
    native id at the later moment, ``earlier_thread_id`` at the earlier one. ``thread_num``, ``state``, ``wait`` and
    ``where`` belong to the later moment; for a thread that is gone, to the earlier one. ``stuck`` is True for a thread
    that waits and has not moved, if both moments are of one process. ``processor_ns`` is the processor time that the
    thread used in between, in nanoseconds; None for two processes. ``unavailable`` has the facts that one moment lacks,
    so that they could not be compared.
    """

    native_thread_id: int | None
    earlier_thread_id: int | None
    change: str
    runtime: str | None = None
    thread_num: int | None = None
    team_size: int | None = None
    ancestors: tuple[int, ...] | None = ()
    state: str | None = None
    wait: str | None = None
    where: str | None = None
    stuck: bool = False
    facts: tuple[FactChange, ...] = ()
    processor_ns: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record(kw_only=True)
class TaskChange(Record):
    """All tasks of one ``kind`` and one construct. ``earlier`` and ``later`` are the numbers of such tasks at the two
    moments, by status.

    ``new`` and ``gone`` count the tasks that only the later or only the earlier moment has. ``changed`` counts those
    with another status or thread. Tasks are matched by id, so all three are None for two processes.
    """

    kind: str | None
    function: str | None
    earlier: Mapping[str, int]
    later: Mapping[str, int]
    new: int | None = None
    gone: int | None = None
    changed: int | None = None


@record
class CounterChange(Record):
    """A counter that both moments have, with its value at each."""

    name: str
    earlier: int
    later: int


@record
class DiffAnswer(Answer[ThreadChange]):
    """What differs between an ``earlier_target`` and the target.

    ``same_process`` is True if both are moments of one process. It is None if that is unknown; threads are then matched
    as if it were True. ``differs`` is True if anything differs.
    """

    earlier_target: TargetRecord | None = None
    same_process: bool | None = None
    differs: bool = False
    tasks: tuple[TaskChange, ...] = ()
    counters: tuple[CounterChange, ...] = ()
