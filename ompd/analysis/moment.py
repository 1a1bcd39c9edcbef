"""What one look at a program gives the analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model import HeldRecord, ParallelRecord, SchedulingRecord, SystemWait, TaskRecord, ThreadRecord
from ompd.records import record


@record(kw_only=True)
class Moment:
    """The records of one stop, or of one core.

    ``tasks`` are None if no thread waits for any, so that nobody looked; ``regions`` if all who are missing at barriers
    are known. ``cancels`` are the runtimes, by id, in which a member may end its region, and its barriers, by
    ``cancel``; where that is unknown, too. ``makes_tasks`` says whether the program's code may create tasks,
    ``moves_tasks`` whether its untied ones may go on on another thread. ``system`` says what threads wait for of which
    no runtime names a wait, by native id; ``unread`` why that
    is unknown of others. ``held`` says in which constructs threads stand by their code, of those threads that were
    looked at, and ``variables`` which variable was found to stand for the runtime's own object of a lock, by that
    object's address, where no name says it: then ``held`` has the object; ``processor_ns`` how much processor time each
    has used. ``has_all_threads`` says whether the target names all threads of the process; ``is_fork`` whether it is a
    forked child without the threads of its parent. ``forked`` is the native id of the thread that fork() copied, None
    unless the process was made so and has executed no program since. ``outside`` lists what may act on the process from
    outside, as an armed timer. ``points`` says where threads wait for tasks, and which ones they may execute there, by
    native id; ``unfinished`` how many tasks are not complete, at least, by region, where members wait at a barrier that
    others have not reached, None where that is unknown. ``how`` says how threads wait, as :class:`~ompd.model.Wait` has
    it, of those of which no runtime names a wait; ``queued`` are the native ids of threads that a lock has in its
    queue, so that they wait, whether they sleep or spin. ``handlers`` are the native ids of threads that are in a
    handler of a signal; ``may_hold_interpreter`` those that may hold Python's interpreter lock by their stacks, where a
    thread waits for it and the interpreter does not say who holds it; ``gone`` how many threads each runtime counts
    among its own that the process does not have, by its id, where regions were asked for; ``processors`` how many the
    process may use, None if that is unknown. ``is_held`` says that the process did not run, because a signal had
    stopped it, a debugger held it, or its control group was frozen: then none of its threads could go on. ``loss`` is
    the loss of a core that was cut off, None for a whole target. ``unknowns`` are facts that could not be read.
    """

    threads: tuple[ThreadRecord, ...]
    tasks: tuple[TaskRecord, ...] | None = None
    regions: tuple[ParallelRecord, ...] | None = None
    system: Mapping[int, SystemWait] = field(default_factory=dict)
    unread: Mapping[int, str] = field(default_factory=dict)
    held: Mapping[int, tuple[HeldRecord, ...]] = field(default_factory=dict)
    variables: Mapping[int, int] = field(default_factory=dict)
    processor_ns: Mapping[int, int] = field(default_factory=dict)
    has_all_threads: bool = True
    is_fork: bool = False
    forked: int | None = None
    is_held: bool = False
    outside: tuple[str, ...] = ()
    cancels: frozenset[str] = frozenset()
    makes_tasks: bool = False
    moves_tasks: bool = False
    points: Mapping[int, SchedulingRecord] = field(default_factory=dict)
    unfinished: Mapping[str, int | None] = field(default_factory=dict)
    how: Mapping[int, str | None] = field(default_factory=dict)
    queued: frozenset[int] = frozenset()
    handlers: frozenset[int] = frozenset()
    may_hold_interpreter: frozenset[int] = frozenset()
    gone: Mapping[str, int] = field(default_factory=dict)
    processors: int | None = None
    loss: str | None = None
    unknowns: tuple[str, ...] = ()
