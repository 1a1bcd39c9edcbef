"""The vocabulary of ``why``: kinds of waits and locks, verdicts, and degrees of confidence.

Each member is a string that answers contain unchanged. Code tests traits of a kind, not whether it is a certain kind.
So a new kind of wait needs only a row of :class:`Kind` and a builder in ``analysis/waits``.
"""

from __future__ import annotations

from enum import Enum, Flag, auto


class Word(str, Enum):
    """A string of a closed vocabulary, printed without the name of its class."""

    _value_: str

    def __str__(self) -> str:
        return self._value_

    def __repr__(self) -> str:
        return repr(self._value_)

    def __format__(self, form: str) -> str:
        return format(self._value_, form)


class Trait(Flag):
    """Properties of a kind of wait, and of the object that a thread waits for."""

    NONE = 0
    LOCK = auto()
    """A thread holds the object, and then releases it."""
    TASKS = auto()
    """The wait ends once tasks are complete. The thread may execute tasks meanwhile."""
    PLACE = auto()
    """Threads wait *at* the object, not *for* it."""
    VARIABLE = auto()
    """A variable of the program may represent the object."""
    PASSED_ON = auto()
    """A function may release the lock that did not set it."""
    FOR_SOME = auto()
    """The threads of a team do not all execute the construct at the same time."""
    BY_CODE = auto()
    """If no runtime records the holder, only the code of threads reveals it."""
    OUTER = auto()
    """The wait ends by itself, or by an event outside of this process."""


class Kind(Word):
    """Kinds of waits, of locks, and of other nodes of the wait-for graph, in OpenMP and outside of it.

    A row has the kind's value in answers, the noun for an object that has no name, and the kind's traits. In the graph
    the object's node has the same kind, unless a fourth item names another.
    """

    noun: str | None
    traits: Trait
    _node: str

    def __new__(cls, value: str, noun: str | None = None, traits: Trait = Trait.NONE, node: str | None = None) -> Kind:
        """Make a member of a row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.noun, member.traits, member._node = noun, traits, node or value
        return member

    # OpenMP
    BARRIER = "barrier", "a barrier", Trait.PLACE
    LOCK = "lock", "a lock", Trait.LOCK | Trait.VARIABLE | Trait.PASSED_ON
    NEST_LOCK = "nest_lock", "a nest lock", Trait.LOCK | Trait.VARIABLE | Trait.PASSED_ON
    CRITICAL = "critical", "a critical section", Trait.LOCK | Trait.VARIABLE | Trait.FOR_SOME
    ATOMIC = "atomic", "an atomic update", Trait.LOCK, "critical"
    ORDERED = "ordered", "ordered", Trait.LOCK | Trait.FOR_SOME
    DOACROSS = "doacross"
    INTERNAL_LOCK = "internal_lock", "internal lock", Trait.LOCK
    TASKWAIT = "taskwait", "a taskwait", Trait.TASKS | Trait.PLACE
    TASKGROUP = "taskgroup", "the end of a taskgroup", Trait.TASKS | Trait.PLACE
    DEPENDENCE = "dependence", "tasks that it depends on", Trait.TASKS
    SINGLE = "single", "a single construct", Trait.FOR_SOME
    MASTER = "master", None, Trait.FOR_SOME
    MASKED = "masked", None, Trait.FOR_SOME
    SECTION = "section", None, Trait.FOR_SOME
    TARGET = "target", "a device", Trait.NONE, "call"
    UNKNOWN = "unknown", "unknown", Trait.NONE, "call"

    # C library and kernel
    MUTEX = "mutex", "mutex", Trait.LOCK | Trait.PASSED_ON | Trait.BY_CODE
    CONDITION = "condition", "condition variable"
    JOIN = "join", "the end of a thread"
    SEMAPHORE = "semaphore", "semaphore", Trait.NONE, "call"
    RWLOCK = "rwlock", "read-write lock", Trait.NONE, "mutex"
    PTHREAD_BARRIER = "pthread_barrier", "POSIX barrier", Trait.PLACE, "call"
    ONCE = "once", "pthread_once", Trait.LOCK | Trait.BY_CODE, "call"
    GIL = "gil", "Python's interpreter lock", Trait.LOCK
    STREAM = "stream", "the lock of a stream", Trait.NONE, "mutex"
    FUTURE = "future", "a std::future", Trait.NONE, "call"
    LATCH = "latch", "std::latch", Trait.NONE, "call"
    STD_BARRIER = "std_barrier", "std::barrier", Trait.PLACE, "call"
    FUTEX = "futex", "the futex", Trait.BY_CODE, "call"
    SPIN = "spin", "a word in memory"
    SLEEP = "sleep", None, Trait.OUTER, "call"
    IO = "io", None, Trait.OUTER, "call"
    SIGNAL = "signal", None, Trait.OUTER, "call"
    CHILD = "child", None, Trait.OUTER, "call"
    MPI = "mpi", None, Trait.OUTER, "call"
    SYSTEM_CALL = "system_call", None, Trait.OUTER, "call"

    # Only nodes of the graph
    THREAD = "thread"
    TASK = "task"
    TEAM = "team"
    EVENT = "event"
    CALL = "call"
    OUTSIDE = "outside"
    PARENT = "parent"

    @classmethod
    def _missing_(cls, value: object) -> Kind:
        # An unknown word becomes UNKNOWN: a foreign plugin, or an answer saved by a later release, may contain one.
        return cls.UNKNOWN

    @property
    def is_lock(self) -> bool:
        """Whether a thread holds the object, and then releases it."""
        return Trait.LOCK in self.traits

    @property
    def is_task(self) -> bool:
        """Whether the wait ends once tasks are complete."""
        return Trait.TASKS in self.traits

    @property
    def is_scheduling_point(self) -> bool:
        """Whether a thread may execute other tasks of its team during a wait of this kind."""
        return self.is_task or self is Kind.BARRIER

    @property
    def is_place(self) -> bool:
        """Whether threads wait *at* the object, not *for* it."""
        return Trait.PLACE in self.traits

    @property
    def has_variable(self) -> bool:
        """Whether a variable of the program may represent the object."""
        return Trait.VARIABLE in self.traits

    @property
    def is_passed_on(self) -> bool:
        """Whether a function other than the one that set the lock may release it."""
        return Trait.PASSED_ON in self.traits

    @property
    def is_for_some(self) -> bool:
        """Whether the construct is never executed by all threads of a team at the same time."""
        return Trait.FOR_SOME in self.traits

    @property
    def is_set_by_code(self) -> bool:
        """Whether the code of threads is the only source for the holder, if no runtime records it."""
        return Trait.BY_CODE in self.traits

    @property
    def ends_from_outside(self) -> bool:
        """Whether the wait ends by itself, or by an event outside of this process."""
        return Trait.OUTER in self.traits

    @property
    def node(self) -> Kind:
        """The kind of the object's node in the wait-for graph."""
        return Kind(self._node)


class EdgeKind(Word):
    """Kinds of edges between nodes of the wait-for graph."""

    WAITS_FOR = "waits_for"
    HELD_BY = "held_by"
    MEMBER = "member"
    EXECUTES = "executes"
    CHILD = "child"
    DEPENDS_ON = "depends_on"
    MAY_RUN = "may_run"


class Confidence(Word):
    """How sure a verdict is, the surest first."""

    PROVEN = "proven"
    """The verdict follows from memory that was read, and everything that could set the threads free is excluded."""
    LIKELY = "likely"
    """The verdict rests on reasoning such as elimination, or something that could set the threads free is not excluded.
    """
    POSSIBLE = "possible"
    """The verdict holds only if unknown facts turn out badly."""
    UNKNOWN = "unknown"
    """Whether the verdict holds is undecided."""

    @property
    def rank(self) -> int:
        """The member's position in this class, 0 for the surest."""
        return list(Confidence).index(self)


class VerdictKind(Word):
    """Reasons why threads do not go on (docs/why.md), and causes of lost time (docs/profile.md). Among equally sure
    verdicts of ``why``, earlier members are listed first.
    """

    FORK_CHILD = "fork_child"
    RUNTIME_REENTRY = "runtime_reentry"
    SELF_LOCK = "self_lock"
    LOCK_CYCLE = "lock_cycle"
    BARRIER_MISMATCH = "barrier_mismatch"
    TASK_DEPENDENCE_CYCLE = "task_dependence_cycle"
    ORPHANED_WORKSHARING = "orphaned_worksharing"
    DUPLICATE_RUNTIMES = "duplicate_runtimes"
    OVERSUBSCRIBED = "oversubscribed"
    THROTTLED = "throttled"
    FEW_PROCESSORS = "few_processors"
    STARVED = "starved"
    SPIN_BURN = "spin_burn"
    LIMITS = "limits"
    EVENT_UNFULFILLED = "event_unfulfilled"
    TASKWAIT_STARVED = "taskwait_starved"
    LOCK_ABANDONED = "lock_abandoned"
    BARRIER_ABSENT = "barrier_absent"
    SPIN_WAIT = "spin_wait"
    EXTERNAL_WAIT = "external_wait"
    LAGGARD = "laggard"
    SMALL_TEAM = "small_team"
    UNDECIDED = "undecided"
    LOST_WAKEUP = "lost_wakeup"
    RUNTIME_UNLOADED = "runtime_unloaded"
    NO_STALL = "no_stall"

    # Causes of lost time
    IMBALANCE = "imbalance"
    SERIAL = "serial"
    CONVOY = "convoy"
    TINY_REGIONS = "tiny_regions"
    ORDERED_SERIAL = "ordered_serial"

    @property
    def rank(self) -> int:
        """The member's position in this class, 0 for the verdict to read first."""
        return list(VerdictKind).index(self)

    @property
    def is_cause(self) -> bool:
        """Whether this is a cause of lost time, of ``profile``."""
        return self.rank >= VerdictKind.IMBALANCE.rank

    @property
    def is_about_tasks(self) -> bool:
        """Whether the user finds more about this verdict in the list of tasks."""
        return self in (
            VerdictKind.EVENT_UNFULFILLED,
            VerdictKind.TASKWAIT_STARVED,
            VerdictKind.TASK_DEPENDENCE_CYCLE,
        )

    @property
    def has_workers(self) -> bool:
        """Whether the threads that the others wait for are working."""
        return self in (VerdictKind.LAGGARD, VerdictKind.OVERSUBSCRIBED)

    @property
    def is_about_supply(self) -> bool:
        """Whether verdicts of this kind are always about what the process gets from its machine."""
        return self in (
            VerdictKind.THROTTLED,
            VerdictKind.FEW_PROCESSORS,
            VerdictKind.STARVED,
            VerdictKind.SPIN_BURN,
            VerdictKind.LIMITS,
        )


class Activity(Word):
    """What a thread does at a moment of a profile (docs/profile.md)."""

    WORK = "work"
    """It executes user code of a region, or of one of its tasks."""
    IMBALANCE = "imbalance"
    """It waits at a barrier while a slower member of its team works."""
    LOCK = "lock"
    """It waits for a lock, a critical section or an atomic update."""
    TASKS = "tasks"
    """It waits for tasks: at a taskwait, a taskgroup's end or a dependence, or at a barrier for others' tasks."""
    ORDERED = "ordered"
    """It waits for its turn in an ordered construct."""
    OVERHEAD = "overhead"
    """It executes code of the runtime, or waits at a barrier while no member of its team works."""
    NO_PROCESSOR = "no_processor"
    """It could run, but has no processor."""
    ASLEEP = "asleep"
    """Its user code sleeps in a system call."""
    SERIAL = "serial"
    """It executes user code outside of all parallel regions."""
    IDLE = "idle"
    """It is in no team, and waits for the next region."""
    UNKNOWN = "unknown"
    """What it does could not be read."""


class Doubt(Word):
    """Reasons to doubt that a thread is still inside of a construct, or still holds a lock. A row has the reason's
    value in answers, then the reason in words.
    """

    reason: str

    def __new__(cls, value: str, reason: str = "") -> Doubt:
        """Make a member of a row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.reason = reason
        return member

    ENTERED = "entered", "whether it succeeded is not seen"
    BRANCH = "branch", "another way leads here without it"
    CALLEE = "callee", "a function that was called since may have let go of it"
    POINTER = "pointer", "a function that was called since by a pointer may have let go of it"
    OTHER = "other", "what was let go of since may be the same one"
    LEAVING = "leaving", "it is about to let go of it"
    PAUSED = "paused", "it lets go of it while it waits"
    JUMP = "jump", "a jump may lead here without it"
    TWICE = "twice", "the function may return to an earlier place"
