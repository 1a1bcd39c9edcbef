"""The records of one look at a program, on which the analysis is based."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model import HeldRecord, ParallelRecord, SchedulingRecord, SystemWait, TaskRecord, ThreadRecord
from ompd.model.kinds import Kind
from ompd.records import record


@record(kw_only=True)
class Moment:
    """The records of one stop, or of one core. Threads are identified by native ids, runtimes and regions by ids."""

    threads: tuple[ThreadRecord, ...]
    tasks: tuple[TaskRecord, ...] | None = None
    """The tasks; None if they were not read, because no thread waits for tasks."""
    regions: tuple[ParallelRecord, ...] | None = None
    """The regions; None if they were not read, because all barriers have lists of their missing members."""
    system: Mapping[int, SystemWait] = field(default_factory=dict)
    """The waits outside of OpenMP, of threads for which no runtime records a wait."""
    unread: Mapping[int, str] = field(default_factory=dict)
    """The reason why a thread's wait outside of OpenMP is unknown."""
    held: Mapping[int, tuple[HeldRecord, ...]] = field(default_factory=dict)
    """The constructs in which threads stand, by their code. Only threads that were examined have an entry."""
    variables: Mapping[int, int] = field(default_factory=dict)
    """The variables of locks whose name is unknown: the variable's address, by the address that the runtime records.
    For these locks, ``held`` has the address that the runtime records.
    """
    processor_ns: Mapping[int, int] = field(default_factory=dict)
    """The processor time that each thread has used so far, in nanoseconds."""
    has_all_threads: bool = True
    """Whether the target names all threads of the process."""
    is_fork: bool = False
    """Whether the process is a forked child without the threads of its parent."""
    forked: int | None = None
    """The thread that fork() copied. None unless fork() made the process, and it has executed no program since."""
    is_held: bool = False
    """Whether the process did not run, so that none of its threads could go on. A signal had stopped it, a debugger
    held it, or its control group was frozen.
    """
    outside: tuple[str, ...] = ()
    """Texts about anything outside of the process that may act on it."""
    signals: Mapping[int, str] = field(default_factory=dict)
    """How a signal may end a thread's wait."""
    cancels: Mapping[int, str] = field(default_factory=dict)
    """How another thread may end a thread's wait by cancelling the thread."""
    cancels_regions: frozenset[str] = frozenset()
    """The runtimes with cancellation, or for which it is unknown. There a member of a team may end its region, and the
    region's barriers, by ``cancel``.
    """
    makes_tasks: bool = False
    """Whether the program's code may create tasks."""
    moves_tasks: bool = False
    """Whether the program's untied tasks may continue on another thread."""
    points: Mapping[int, SchedulingRecord] = field(default_factory=dict)
    """The places where threads wait for tasks, with the tasks that they may execute there."""
    unfinished: Mapping[str, int | None] = field(default_factory=dict)
    """The least number of incomplete tasks of a region whose members wait at a barrier that others have not reached.
    None if the number is unknown.
    """
    how: Mapping[int, str | None] = field(default_factory=dict)
    """How threads wait, as in :class:`~ompd.model.Wait`, if no runtime records their wait."""
    alone: Mapping[int, str] = field(default_factory=dict)
    """The place of a branch through which only the primary thread came to its barrier, by the primary thread."""
    queued: frozenset[int] = frozenset()
    """Threads in the queue of a lock. They wait, whether they sleep or spin."""
    handlers: frozenset[int] = frozenset()
    """Threads that wait in a signal handler."""
    may_hold_interpreter: frozenset[int] = frozenset()
    """Threads that may hold Python's interpreter lock by their stacks, if the interpreter records no holder."""
    gone: Mapping[str, int] = field(default_factory=dict)
    """How many threads a runtime lists that the process no longer has. Empty if regions were not read."""
    processors: int | None = None
    """The number of processors that the process may use, None if it is unknown."""
    loss: str | None = None
    """The loss of a core that was cut off, None for a whole target."""
    unknowns: tuple[str, ...] = ()
    """Facts that could not be read."""


def is_at_barrier_inside(row: ThreadRecord) -> bool:
    """Return whether a thread waits at a barrier inside of its region, not at the region's end."""
    is_inside = row.where is not None and row.at_end_of is None
    return is_inside and row.wait is not None and row.wait.kind is Kind.BARRIER
