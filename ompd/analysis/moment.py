"""The facts of one look at a program, from which the analysis starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model import HeldRecord, ParallelRecord, SchedulingRecord, SystemWait, TaskRecord, ThreadRecord
from ompd.model.kinds import Kind
from ompd.records import record


@record(kw_only=True)
class Moment:
    """The records of one stop, or of one core. Threads are named by native ids, runtimes and regions by their own."""

    threads: tuple[ThreadRecord, ...]
    tasks: tuple[TaskRecord, ...] | None = None
    """None if no thread waits for any, so that nobody looked."""
    regions: tuple[ParallelRecord, ...] | None = None
    """None if it is known of all barriers who is missing."""
    system: Mapping[int, SystemWait] = field(default_factory=dict)
    """What threads wait for of which no runtime names a wait."""
    unread: Mapping[int, str] = field(default_factory=dict)
    """Why that is unknown of a thread."""
    held: Mapping[int, tuple[HeldRecord, ...]] = field(default_factory=dict)
    """In which constructs threads stand by their code, of those threads that were looked at."""
    variables: Mapping[int, int] = field(default_factory=dict)
    """Which variable stands for the runtime's own object of a lock, by that object's address, where no name says it;
    ``held`` has the object then.
    """
    processor_ns: Mapping[int, int] = field(default_factory=dict)
    """How much processor time each thread has used, in nanoseconds."""
    has_all_threads: bool = True
    """Whether the target names all threads of the process."""
    is_fork: bool = False
    """Whether it is a forked child without the threads of its parent."""
    forked: int | None = None
    """The thread that fork() copied, None unless the process was made so and has executed no program since."""
    is_held: bool = False
    """Whether the process did not run: a signal had stopped it, a debugger held it, or its control group was frozen.
    Then none of its threads could go on.
    """
    outside: tuple[str, ...] = ()
    """What may act on the process from outside."""
    signals: Mapping[int, str] = field(default_factory=dict)
    """How a signal may take a thread out of its wait."""
    cancels: Mapping[int, str] = field(default_factory=dict)
    """How another thread may end a thread's wait by cancelling the thread."""
    cancels_regions: frozenset[str] = frozenset()
    """Runtimes in which a member may end its region, and its barriers, by ``cancel``, or of which that is unknown."""
    makes_tasks: bool = False
    """Whether the program's code may create tasks."""
    moves_tasks: bool = False
    """Whether its untied tasks may go on on another thread."""
    points: Mapping[int, SchedulingRecord] = field(default_factory=dict)
    """Where threads wait for tasks, and which ones they may execute there."""
    unfinished: Mapping[str, int | None] = field(default_factory=dict)
    """How many tasks of a region are not complete, at least, where members wait at a barrier that others have not
    reached. None where that is unknown.
    """
    how: Mapping[int, str | None] = field(default_factory=dict)
    """How threads wait, as :class:`~ompd.model.Wait` has it, of those of which no runtime names a wait."""
    alone: Mapping[int, str] = field(default_factory=dict)
    """Primary threads at a barrier behind a branch that lets them in alone, and where that branch is."""
    queued: frozenset[int] = frozenset()
    """Threads that a lock has in its queue: they wait, whether they sleep or spin."""
    handlers: frozenset[int] = frozenset()
    """Threads that wait in a handler of a signal."""
    may_hold_interpreter: frozenset[int] = frozenset()
    """Threads that may hold Python's interpreter lock by their stacks, where the interpreter does not say who does."""
    gone: Mapping[str, int] = field(default_factory=dict)
    """How many threads a runtime counts among its own that the process does not have, where regions were asked for."""
    processors: int | None = None
    """How many processors the process may use, None if that is unknown."""
    loss: str | None = None
    """The loss of a core that was cut off, None for a whole target."""
    unknowns: tuple[str, ...] = ()
    """Facts that could not be read."""


def is_at_barrier_inside(row: ThreadRecord) -> bool:
    """Return whether a thread waits at a barrier inside of its region, not at the region's end."""
    is_inside = row.where is not None and row.at_end_of is None
    return is_inside and row.wait is not None and row.wait.kind is Kind.BARRIER
