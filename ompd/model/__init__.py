"""Frozen records: what queries return, in the OpenMP specification's terms.

In every record None means that there is none, unless ``unavailable`` has the field's name as a key: then the value
exists and is unknown, and the text under the key says why. Addresses are virtual addresses in the target.

``openmp`` has those of threads, regions, tasks and whole answers, ``code`` those of places, frames and variables; all
are imported from here. Those of ``ompd layout`` are in ``layouts``, for that command alone. Nothing here reads a
target, and all of ompd may import it.
"""

from ompd.model.code import (
    Construct,
    DistinctValue,
    LocalRecord,
    LoopIteration,
    Place,
    RegionFunction,
    StackFrame,
    StackRecord,
    VariableRecord,
    VariableStats,
)
from ompd.model.openmp import (
    Answer,
    DependenceRecord,
    DllRecord,
    IcvRecord,
    OutsideRecord,
    ParallelRecord,
    RuntimeRecord,
    SnapshotRecord,
    TargetRecord,
    TaskFrame,
    TaskRecord,
    TaskWaitRecord,
    ThreadRecord,
    VariableAnswer,
    Wait,
)

__all__ = [
    "Answer",
    "Construct",
    "DependenceRecord",
    "DistinctValue",
    "DllRecord",
    "IcvRecord",
    "LocalRecord",
    "LoopIteration",
    "OutsideRecord",
    "ParallelRecord",
    "Place",
    "RegionFunction",
    "RuntimeRecord",
    "SnapshotRecord",
    "StackFrame",
    "StackRecord",
    "TargetRecord",
    "TaskFrame",
    "TaskRecord",
    "TaskWaitRecord",
    "ThreadRecord",
    "VariableAnswer",
    "VariableRecord",
    "VariableStats",
    "Wait",
]
