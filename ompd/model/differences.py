"""Records of ``ompd diff``: changes between two moments of a program, or between two of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.openmp import Answer, TargetRecord
from ompd.records import record


@record
class FactChange(Record):
    """A fact of a thread that differs: its ``name``, and its two values in words, None where there is none."""

    name: str
    earlier: str | None
    later: str | None


@record(kw_only=True)
class ThreadChange(Record):
    """A thread of either moment, or of both.

    ``change`` is ``same``, ``moved`` (one of the ``facts`` differs), ``new`` or ``gone``. The ids are native ids at the
    two moments. The number in the team, ``state`` (its general name), ``wait`` and ``where`` belong to the later
    moment; for a thread that is gone, to the earlier one. ``stuck`` is True for a thread of the same process that waits
    and has not moved. ``processor_ns`` is the processor time used in between, in nanoseconds; None for two processes.
    ``unavailable`` lists the facts that could not be compared because one moment lacks them.
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
    """All tasks of one ``kind`` and one construct: how many there are at the two moments, by their status.

    ``new``, ``gone`` and ``changed`` (in status or thread) count tasks by their ids. All three are None for two
    processes.
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
    """What differs between an ``earlier_target`` and the target. ``same_process`` says whether both are moments of one
    process, None if that is unknown; threads are then matched as if they were. ``differs`` says whether anything does.
    """

    earlier_target: TargetRecord | None = None
    same_process: bool | None = None
    differs: bool = False
    tasks: tuple[TaskChange, ...] = ()
    counters: tuple[CounterChange, ...] = ()
