"""Numbers of OMPT in appendix A of the technical report of November 2015.

A.1 has the states (:class:`~ompd.contract.ompt.State2015`), A.2 the events, A.3 the other types, A.6 the records. The
report's text on an event has its callback. It also explains codes and commands, which have no names in the report.
``docs/dev/ompt.md`` lists the contradictions in the report and our rulings.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ompd.contract.ompt import State2015
from tests.support.ompt.shared import Command as Command
from tests.support.ompt.shared import NativeMonitor as NativeMonitor
from tests.support.ompt.tables import Enumeration, enumeration


class Event(IntEnum):
    """``ompt_event_t``: the events of a tool; :data:`CALLBACK_TYPES` has the types of their callbacks.

    The list has two events for the end of a target task. The text calls the mandatory one ``TARGET_TASK_END``.
    """

    PARALLEL_BEGIN = 1
    PARALLEL_END = 2
    TASK_BEGIN = 3
    TASK_END = 4
    THREAD_BEGIN = 5
    THREAD_END = 6
    CONTROL = 7
    RUNTIME_SHUTDOWN = 8
    IDLE_BEGIN = 9
    IDLE_END = 10
    WAIT_BARRIER_BEGIN = 11
    WAIT_BARRIER_END = 12
    WAIT_TASKWAIT_BEGIN = 13
    WAIT_TASKWAIT_END = 14
    WAIT_TASKGROUP_BEGIN = 15
    WAIT_TASKGROUP_END = 16
    RELEASE_LOCK = 17
    RELEASE_NEST_LOCK_LAST = 18
    RELEASE_CRITICAL = 19
    RELEASE_ATOMIC = 20
    RELEASE_ORDERED = 21
    IMPLICIT_TASK_BEGIN = 22
    IMPLICIT_TASK_END = 23
    INITIAL_TASK_BEGIN = 24
    INITIAL_TASK_END = 25
    TASK_SWITCH = 26
    LOOP_BEGIN = 27
    LOOP_END = 28
    SECTIONS_BEGIN = 29
    SECTIONS_END = 30
    SINGLE_IN_BLOCK_BEGIN = 31
    SINGLE_IN_BLOCK_END = 32
    SINGLE_OTHERS_BEGIN = 33
    SINGLE_OTHERS_END = 34
    WORKSHARE_BEGIN = 35
    WORKSHARE_END = 36
    MASTER_BEGIN = 37
    MASTER_END = 38
    BARRIER_BEGIN = 39
    BARRIER_END = 40
    TASKWAIT_BEGIN = 41
    TASKWAIT_END = 42
    TASKGROUP_BEGIN = 43
    TASKGROUP_END = 44
    RELEASE_NEST_LOCK_PREV = 45
    WAIT_LOCK = 46
    WAIT_NEST_LOCK = 47
    WAIT_CRITICAL = 48
    WAIT_ATOMIC = 49
    WAIT_ORDERED = 50
    ACQUIRED_LOCK = 51
    ACQUIRED_NEST_LOCK_FIRST = 52
    ACQUIRED_NEST_LOCK_NEXT = 53
    ACQUIRED_CRITICAL = 54
    ACQUIRED_ATOMIC = 55
    ACQUIRED_ORDERED = 56
    INIT_LOCK = 57
    INIT_NEST_LOCK = 58
    DESTROY_LOCK = 59
    DESTROY_NEST_LOCK = 60
    FLUSH = 61
    TARGET_TASK_BEGIN = 62
    TARGET_TASK_END_SYNC = 63
    TARGET_TASK_END_ASYNC = 64
    TARGET_DATA_BEGIN = 65
    TARGET_DATA_END = 66
    TARGET_DATA_MAP_BEGIN = 67
    TARGET_DATA_MAP_END = 68
    TASK_DEPENDENCES = 69
    TASK_DEPENDENCE_PAIR = 70
    TARGET_TASK_END = TARGET_TASK_END_SYNC


class ThreadType(IntEnum):
    """``ompt_thread_type_t``: the kind of a thread: initial, a worker of the runtime's pool, or made by the program."""

    INITIAL = 1
    WORKER = 2
    OTHER = 3


class TaskType(IntEnum):
    """``ompt_task_type_t``: the kind of a task. A degenerate task belongs to a region with a single thread."""

    SERIAL = 1
    IMPLICIT = 2
    EXPLICIT = 3
    TARGET = 4
    DEGENERATE = 5


class Invoker(IntEnum):
    """``ompt_invoker_t``: the caller of a region's function in the thread that encountered the region."""

    PROGRAM = 0
    RUNTIME = 1


class TargetTaskType(IntEnum):
    """``ompt_target_task_type_t``: the construct of a target task."""

    TARGET = 1
    ENTER_DATA = 2
    EXIT_DATA = 3
    UPDATE = 4


class DependenceFlag(IntEnum):
    """``ompt_task_dependence_flag_t``: the kind of a dependence, in the lowest two bits of its flags."""

    OUT = 1
    IN = 2
    INOUT = 3


class MapFlag(IntEnum):
    """``ompt_target_map_flag_t``: the kind of a mapping in the lowest three bits, and ``SYNC``, a separate bit."""

    TO = 1
    FROM = 2
    TOFROM = 3
    ALLOC = 4
    RELEASE = 5
    DELETE = 6
    SYNC = 8


class RecordType(IntEnum):
    """``ompt_record_type_t``: the kind of a trace record."""

    OMPT = 0
    CORRELATION = 1
    NATIVE = 2
    INVALID = 3


class NativeRecordClass(IntEnum):
    """``ompt_record_native_class_t``: whether a native record has information or stands for an event."""

    INFO = 0
    EVENT = 1


class SetResult(IntEnum):
    """Results of ``ompt_set_callback`` and ``ompt_target_set_trace_ompt``: whether and when a callback is called."""

    ERROR = 0
    NO_CALLBACK = 1
    NEVER = 2
    SOMETIMES = 3
    ALWAYS = 4


class Version(IntEnum):
    """The version of OMPT that a tool's initializer receives, by the way the tool registered itself.

    ``INITIALIZE`` is the version of the draft before the report, in which a tool defines ``ompt_initialize``.
    """

    INITIALIZE = 1
    TOOL = 2


ENUMERATIONS: Mapping[str, Enumeration] = {
    "ompt_state_t": enumeration("ompt_state_", State2015),
    "ompt_event_t": enumeration("ompt_event_", Event),
    "ompt_thread_type_t": enumeration("ompt_thread_", ThreadType),
    "ompt_task_type_t": enumeration("ompt_task_", TaskType),
    "ompt_invoker_t": enumeration("ompt_invoker_", Invoker),
    "ompt_target_task_type_t": enumeration("ompt_target_task_", TargetTaskType),
    "ompt_task_dependence_flag_t": enumeration("ompt_task_dependence_type_", DependenceFlag),
    "ompt_target_map_flag_t": enumeration("ompt_target_map_flag_", MapFlag),
    "ompt_native_mon_flags_t": enumeration("ompt_native_", NativeMonitor),
    "ompt_record_type_t": enumeration("ompt_record_", RecordType),
    "ompt_record_native_class_t": enumeration("ompt_record_native_class_", NativeRecordClass),
}
"""All enumerations of the report, by C type."""

MANDATORY: frozenset[Event] = frozenset(
    {
        Event.THREAD_BEGIN,
        Event.THREAD_END,
        Event.PARALLEL_BEGIN,
        Event.PARALLEL_END,
        Event.TASK_BEGIN,
        Event.TASK_END,
        Event.TARGET_TASK_BEGIN,
        Event.TARGET_TASK_END_SYNC,
        Event.CONTROL,
        Event.RUNTIME_SHUTDOWN,
    }
)
"""Events that each runtime must support."""

BLAME_SHIFTING: frozenset[Event] = frozenset(
    {
        Event.TARGET_TASK_END_ASYNC,
        *(Event(number) for number in range(Event.IDLE_BEGIN, Event.RELEASE_ORDERED + 1)),
    }
)
"""Optional events for tools that blame a wait on the thread that causes it. Other optional events are for full traces.
"""

_EVENTS: Mapping[str, tuple[Event, ...]] = {
    "ompt_parallel_callback_t": (
        Event.WAIT_BARRIER_BEGIN,
        Event.WAIT_BARRIER_END,
        Event.WAIT_TASKWAIT_BEGIN,
        Event.WAIT_TASKWAIT_END,
        Event.WAIT_TASKGROUP_BEGIN,
        Event.WAIT_TASKGROUP_END,
        Event.IMPLICIT_TASK_BEGIN,
        Event.IMPLICIT_TASK_END,
        Event.LOOP_END,
        Event.SECTIONS_END,
        Event.SINGLE_IN_BLOCK_END,
        Event.SINGLE_OTHERS_BEGIN,
        Event.SINGLE_OTHERS_END,
        Event.WORKSHARE_END,
        Event.MASTER_END,
        Event.BARRIER_END,
        Event.TASKWAIT_END,
        Event.TASKGROUP_END,
    ),
    "ompt_wait_callback_t": (
        Event.RELEASE_LOCK,
        Event.RELEASE_NEST_LOCK_LAST,
        Event.RELEASE_CRITICAL,
        Event.RELEASE_ATOMIC,
        Event.RELEASE_ORDERED,
        Event.RELEASE_NEST_LOCK_PREV,
        Event.WAIT_LOCK,
        Event.WAIT_NEST_LOCK,
        Event.WAIT_ORDERED,
        Event.ACQUIRED_LOCK,
        Event.ACQUIRED_NEST_LOCK_FIRST,
        Event.ACQUIRED_NEST_LOCK_NEXT,
        Event.ACQUIRED_CRITICAL,
        Event.ACQUIRED_ATOMIC,
        Event.ACQUIRED_ORDERED,
        Event.DESTROY_LOCK,
        Event.DESTROY_NEST_LOCK,
    ),
    "ompt_task_callback_t": (Event.TASK_END, Event.INITIAL_TASK_BEGIN, Event.INITIAL_TASK_END, Event.TARGET_DATA_END),
    "ompt_workshare_begin_callback_t": (
        Event.LOOP_BEGIN,
        Event.SECTIONS_BEGIN,
        Event.SINGLE_IN_BLOCK_BEGIN,
        Event.WORKSHARE_BEGIN,
    ),
    "ompt_sync_callback_t": (Event.MASTER_BEGIN, Event.BARRIER_BEGIN, Event.TASKWAIT_BEGIN, Event.TASKGROUP_BEGIN),
    "ompt_thread_callback_t": (Event.IDLE_BEGIN, Event.IDLE_END, Event.FLUSH),
    "ompt_lock_callback_t": (Event.WAIT_CRITICAL, Event.INIT_LOCK, Event.INIT_NEST_LOCK),
    "ompt_thread_type_callback_t": (Event.THREAD_BEGIN, Event.THREAD_END),
    "ompt_task_pair_callback_t": (Event.TASK_SWITCH, Event.TASK_DEPENDENCE_PAIR),
    "ompt_target_task_end_callback_t": (Event.TARGET_TASK_END_SYNC, Event.TARGET_TASK_END_ASYNC),
    "ompt_parallel_begin_callback_t": (Event.PARALLEL_BEGIN,),
    "ompt_parallel_end_callback_t": (Event.PARALLEL_END,),
    "ompt_task_begin_callback_t": (Event.TASK_BEGIN,),
    "ompt_control_callback_t": (Event.CONTROL,),
    "ompt_callback_t": (Event.RUNTIME_SHUTDOWN,),
    "ompt_atomic_callback_t": (Event.WAIT_ATOMIC,),
    "ompt_target_task_begin_callback_t": (Event.TARGET_TASK_BEGIN,),
    "ompt_target_data_begin_callback_t": (Event.TARGET_DATA_BEGIN,),
    "ompt_target_data_map_begin_callback_t": (Event.TARGET_DATA_MAP_BEGIN,),
    "ompt_target_data_map_end_callback_t": (Event.TARGET_DATA_MAP_END,),
    "ompt_task_dependences_callback_t": (Event.TASK_DEPENDENCES,),
}
CALLBACK_TYPES: Mapping[Event, str] = {event: c_type for c_type, events in _EVENTS.items() for event in events}
"""The C type of each event's callback. Many callbacks receive only a region and a task."""
