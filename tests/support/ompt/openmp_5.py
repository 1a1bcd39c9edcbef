"""Numbers of OMPT in OpenMP 5.2, chapter 19 (``omp-tools.h``), with the names that 5.0 and 5.1 had.

19.4.2 has the callbacks' numbers, 19.4.3 the records, 19.4.4 the other types. States (19.4.4.28) and frame flags
(19.4.4.30) are in :mod:`ompd.contract.ompt`, because a stopped program shows them. The arguments and results of
``omp_control_tool`` are in 18.14 and in ``omp.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

from ompd.contract.ompt import FrameFlag, State
from tests.support.ompt.shared import Command as Command
from tests.support.ompt.shared import NativeMonitor as NativeMonitor
from tests.support.ompt.tables import Enumeration, enumeration


class Callback(IntEnum):
    """``ompt_callbacks_t``: the callbacks of a tool; :func:`callback_type` returns their types.

    ``MASTER`` is the name of ``MASKED`` in 5.0.
    """

    THREAD_BEGIN = 1
    THREAD_END = 2
    PARALLEL_BEGIN = 3
    PARALLEL_END = 4
    TASK_CREATE = 5
    TASK_SCHEDULE = 6
    IMPLICIT_TASK = 7
    TARGET = 8
    TARGET_DATA_OP = 9
    TARGET_SUBMIT = 10
    CONTROL_TOOL = 11
    DEVICE_INITIALIZE = 12
    DEVICE_FINALIZE = 13
    DEVICE_LOAD = 14
    DEVICE_UNLOAD = 15
    SYNC_REGION_WAIT = 16
    MUTEX_RELEASED = 17
    DEPENDENCES = 18
    TASK_DEPENDENCE = 19
    WORK = 20
    MASKED = 21
    MASTER = 21
    TARGET_MAP = 22
    SYNC_REGION = 23
    LOCK_INIT = 24
    LOCK_DESTROY = 25
    MUTEX_ACQUIRE = 26
    MUTEX_ACQUIRED = 27
    NEST_LOCK = 28
    FLUSH = 29
    CANCEL = 30
    REDUCTION = 31
    DISPATCH = 32
    TARGET_EMI = 33
    TARGET_DATA_OP_EMI = 34
    TARGET_SUBMIT_EMI = 35
    TARGET_MAP_EMI = 36
    ERROR = 37


class SetResult(IntEnum):
    """``ompt_set_result_t``: the results of ``ompt_set_callback``: whether and when a callback is called."""

    ERROR = 0
    NEVER = 1
    IMPOSSIBLE = 2
    SOMETIMES = 3
    SOMETIMES_PAIRED = 4
    ALWAYS = 5


class Thread(IntEnum):
    """``ompt_thread_t``: the kind of a thread: initial, a worker of the runtime's pool, or made by the program."""

    INITIAL = 1
    WORKER = 2
    OTHER = 3
    UNKNOWN = 4


class Endpoint(IntEnum):
    """``ompt_scope_endpoint_t``: whether a callback marks the beginning of a scope, its end, or both at once."""

    BEGIN = 1
    END = 2
    BEGINEND = 3


class SyncRegion(IntEnum):
    """``ompt_sync_region_t``: the construct at which threads or tasks wait for each other."""

    BARRIER = 1
    BARRIER_IMPLICIT = 2
    BARRIER_EXPLICIT = 3
    BARRIER_IMPLEMENTATION = 4
    TASKWAIT = 5
    TASKGROUP = 6
    REDUCTION = 7
    BARRIER_IMPLICIT_WORKSHARE = 8
    BARRIER_IMPLICIT_PARALLEL = 9
    BARRIER_TEAMS = 10


class Work(IntEnum):
    """``ompt_work_t``: a worksharing construct. 5.2 distinguishes loops by their schedules."""

    LOOP = 1
    SECTIONS = 2
    SINGLE_EXECUTOR = 3
    SINGLE_OTHER = 4
    WORKSHARE = 5
    DISTRIBUTE = 6
    TASKLOOP = 7
    SCOPE = 8
    LOOP_STATIC = 10
    LOOP_DYNAMIC = 11
    LOOP_GUIDED = 12
    LOOP_OTHER = 13


class Dispatch(IntEnum):
    """``ompt_dispatch_t``: the kind of work that a thread receives from a worksharing construct."""

    ITERATION = 1
    SECTION = 2
    WS_LOOP_CHUNK = 3
    TASKLOOP_CHUNK = 4
    DISTRIBUTE_CHUNK = 5


class Mutex(IntEnum):
    """``ompt_mutex_t``: the kind of a mutual exclusion."""

    LOCK = 1
    TEST_LOCK = 2
    NEST_LOCK = 3
    TEST_NEST_LOCK = 4
    CRITICAL = 5
    ATOMIC = 6
    ORDERED = 7


class TaskFlag(IntFlag):
    """``ompt_task_flag_t``: the kind of a task (the lowest bits), and how it may be executed."""

    INITIAL = 0x00000001
    IMPLICIT = 0x00000002
    EXPLICIT = 0x00000004
    TARGET = 0x00000008
    TASKWAIT = 0x00000010
    UNDEFERRED = 0x08000000
    UNTIED = 0x10000000
    FINAL = 0x20000000
    MERGEABLE = 0x40000000
    MERGED = 0x80000000


class TaskStatus(IntEnum):
    """``ompt_task_status_t``: why a thread leaves a task."""

    COMPLETE = 1
    YIELD = 2
    CANCEL = 3
    DETACH = 4
    EARLY_FULFILL = 5
    LATE_FULFILL = 6
    SWITCH = 7
    TASKWAIT_COMPLETE = 8


class ParallelFlag(IntFlag):
    """``ompt_parallel_flag_t``: the invoker of a region's function (program or runtime), and whether it is a team or a
    league.
    """

    INVOKER_PROGRAM = 0x00000001
    INVOKER_RUNTIME = 0x00000002
    LEAGUE = 0x40000000
    TEAM = 0x80000000


class DependenceType(IntEnum):
    """``ompt_dependence_type_t``: the kind of a dependence."""

    IN = 1
    OUT = 2
    INOUT = 3
    MUTEXINOUTSET = 4
    SOURCE = 5
    SINK = 6
    INOUTSET = 7
    OUT_ALL_MEMORY = 34
    INOUT_ALL_MEMORY = 35


class Severity(IntEnum):
    """``ompt_severity_t``: the severity of an ``error`` directive."""

    WARNING = 1
    FATAL = 2


class CancelFlag(IntFlag):
    """``ompt_cancel_flag_t``: the cancelled construct, and the thread's part in the cancellation."""

    PARALLEL = 0x01
    SECTIONS = 0x02
    LOOP = 0x04
    TASKGROUP = 0x08
    ACTIVATED = 0x10
    DETECTED = 0x20
    DISCARDED_TASK = 0x40


class Target(IntEnum):
    """``ompt_target_t``: the construct of a target task."""

    TARGET = 1
    ENTER_DATA = 2
    EXIT_DATA = 3
    UPDATE = 4
    NOWAIT = 9
    ENTER_DATA_NOWAIT = 10
    EXIT_DATA_NOWAIT = 11
    UPDATE_NOWAIT = 12


class TargetDataOp(IntEnum):
    """``ompt_target_data_op_t``: the operation on a device's data."""

    ALLOC = 1
    TRANSFER_TO_DEVICE = 2
    TRANSFER_FROM_DEVICE = 3
    DELETE = 4
    ASSOCIATE = 5
    DISASSOCIATE = 6
    ALLOC_ASYNC = 17
    TRANSFER_TO_DEVICE_ASYNC = 18
    TRANSFER_FROM_DEVICE_ASYNC = 19
    DELETE_ASYNC = 20


class MapFlag(IntFlag):
    """``ompt_target_map_flag_t``: how data is mapped."""

    TO = 0x01
    FROM = 0x02
    ALLOC = 0x04
    RELEASE = 0x08
    DELETE = 0x10
    IMPLICIT = 0x20
    ALWAYS = 0x40
    PRESENT = 0x80
    CLOSE = 0x100
    SHARED = 0x200


class RecordType(IntEnum):
    """``ompt_record_t``: the kind of a trace record."""

    OMPT = 1
    NATIVE = 2
    INVALID = 3


class NativeRecord(IntEnum):
    """``ompt_record_native_t``: whether a native record has information or stands for an event."""

    INFO = 1
    EVENT = 2


class CommandResult(IntEnum):
    """``omp_control_tool_result_t``: the results of ``omp_control_tool``."""

    NOTOOL = -2
    NOCALLBACK = -1
    SUCCESS = 0
    IGNORED = 1


ENUMERATIONS: Mapping[str, Enumeration] = {
    "ompt_state_t": enumeration("ompt_state_", State),
    "ompt_frame_flag_t": enumeration("ompt_frame_", FrameFlag),
    "ompt_callbacks_t": enumeration("ompt_callback_", Callback),
    "ompt_set_result_t": enumeration("ompt_set_", SetResult),
    "ompt_thread_t": enumeration("ompt_thread_", Thread),
    "ompt_scope_endpoint_t": enumeration("ompt_scope_", Endpoint),
    "ompt_sync_region_t": enumeration("ompt_sync_region_", SyncRegion),
    "ompt_work_t": enumeration("ompt_work_", Work),
    "ompt_dispatch_t": enumeration("ompt_dispatch_", Dispatch),
    "ompt_mutex_t": enumeration("ompt_mutex_", Mutex),
    "ompt_task_flag_t": enumeration("ompt_task_", TaskFlag),
    "ompt_task_status_t": enumeration(
        "ompt_task_", TaskStatus, {"ompt_taskwait_complete": TaskStatus.TASKWAIT_COMPLETE}
    ),
    "ompt_parallel_flag_t": enumeration("ompt_parallel_", ParallelFlag),
    "ompt_dependence_type_t": enumeration("ompt_dependence_type_", DependenceType),
    "ompt_severity_t": enumeration("ompt_", Severity),
    "ompt_cancel_flag_t": enumeration("ompt_cancel_", CancelFlag),
    "ompt_target_t": enumeration("ompt_target_", Target, {"ompt_target": Target.TARGET}),
    "ompt_target_data_op_t": enumeration("ompt_target_data_", TargetDataOp),
    "ompt_target_map_flag_t": enumeration("ompt_target_map_flag_", MapFlag),
    "ompt_native_mon_flag_t": enumeration("ompt_native_", NativeMonitor),
    "ompt_record_t": enumeration("ompt_record_", RecordType),
    "ompt_record_native_t": enumeration("ompt_record_native_", NativeRecord),
}
"""All OMPT enumerations of ``omp-tools.h``, by C type."""

_TYPES = {
    Callback.SYNC_REGION_WAIT: "sync_region",
    Callback.REDUCTION: "sync_region",
    Callback.MUTEX_RELEASED: "mutex",
    Callback.MUTEX_ACQUIRED: "mutex",
    Callback.LOCK_DESTROY: "mutex",
    Callback.LOCK_INIT: "mutex_acquire",
}


def callback_type(callback: Callback) -> str:
    """Return the C type of the function that a tool registers for *callback*; some callbacks share a type."""
    return f"ompt_callback_{_TYPES.get(callback, callback.name.lower())}_t"
