"""Frozen records: what queries return, in the OpenMP specification's terms.

A field is None if the value does not exist. If the value exists and is unknown, ``unavailable`` has the reason under
the field's name. Addresses are virtual addresses in the target.

``openmp`` has the records of threads, regions, tasks and whole answers; ``places`` has places, frames and variables.
Both are imported from here. ``layouts`` is for ``ompd layout`` only, ``findings`` for ``ompd doctor``. No module here
reads a target, and all of ompd may import them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ompd.model.checks import CheckAnswer as CheckAnswer
    from ompd.model.checks import CheckedLibrary as CheckedLibrary
    from ompd.model.checks import DifferenceRecord as DifferenceRecord
    from ompd.model.checks import EntrySeen as EntrySeen
    from ompd.model.differences import CounterChange as CounterChange
    from ompd.model.differences import DiffAnswer as DiffAnswer
    from ompd.model.differences import FactChange as FactChange
    from ompd.model.differences import TaskChange as TaskChange
    from ompd.model.differences import ThreadChange as ThreadChange
    from ompd.model.findings import DoctorAnswer as DoctorAnswer
    from ompd.model.findings import FindingRecord as FindingRecord
    from ompd.model.findings import LoadChain as LoadChain
    from ompd.model.openmp import Answer as Answer
    from ompd.model.openmp import DependenceRecord as DependenceRecord
    from ompd.model.openmp import DllRecord as DllRecord
    from ompd.model.openmp import IcvRecord as IcvRecord
    from ompd.model.openmp import OutsideRecord as OutsideRecord
    from ompd.model.openmp import OwnStateRecord as OwnStateRecord
    from ompd.model.openmp import ParallelRecord as ParallelRecord
    from ompd.model.openmp import RuntimeRecord as RuntimeRecord
    from ompd.model.openmp import SnapshotRecord as SnapshotRecord
    from ompd.model.openmp import TargetRecord as TargetRecord
    from ompd.model.openmp import TaskFrame as TaskFrame
    from ompd.model.openmp import TaskRecord as TaskRecord
    from ompd.model.openmp import TaskWaitRecord as TaskWaitRecord
    from ompd.model.openmp import ThreadRecord as ThreadRecord
    from ompd.model.openmp import VariableAnswer as VariableAnswer
    from ompd.model.openmp import Wait as Wait
    from ompd.model.places import Construct as Construct
    from ompd.model.places import DistinctValue as DistinctValue
    from ompd.model.places import LocalRecord as LocalRecord
    from ompd.model.places import LoopIteration as LoopIteration
    from ompd.model.places import Place as Place
    from ompd.model.places import RegionFunction as RegionFunction
    from ompd.model.places import StackFrame as StackFrame
    from ompd.model.places import StackRecord as StackRecord
    from ompd.model.places import VariableRecord as VariableRecord
    from ompd.model.places import VariableStats as VariableStats
    from ompd.model.profile import ActivityShare as ActivityShare
    from ompd.model.profile import Estimate as Estimate
    from ompd.model.profile import LineShare as LineShare
    from ompd.model.profile import ObjectShare as ObjectShare
    from ompd.model.profile import ProfileAnswer as ProfileAnswer
    from ompd.model.profile import ProfiledThread as ProfiledThread
    from ompd.model.profile import ProfileMoment as ProfileMoment
    from ompd.model.profile import ProfileStack as ProfileStack
    from ompd.model.profile import ProfileVerdict as ProfileVerdict
    from ompd.model.profile import RegionProfile as RegionProfile
    from ompd.model.profile import SamplingRecord as SamplingRecord
    from ompd.model.profile import SlowThreads as SlowThreads
    from ompd.model.stalls import ChildRecord as ChildRecord
    from ompd.model.stalls import DifferingVariable as DifferingVariable
    from ompd.model.stalls import Evidence as Evidence
    from ompd.model.stalls import GraphEdge as GraphEdge
    from ompd.model.stalls import GraphNode as GraphNode
    from ompd.model.stalls import GraphRecord as GraphRecord
    from ompd.model.stalls import HeldRecord as HeldRecord
    from ompd.model.stalls import Link as Link
    from ompd.model.stalls import OtherRanksRecord as OtherRanksRecord
    from ompd.model.stalls import SchedulingRecord as SchedulingRecord
    from ompd.model.stalls import SystemWait as SystemWait
    from ompd.model.stalls import VerdictRecord as VerdictRecord
    from ompd.model.stalls import WhyAnswer as WhyAnswer

# A module is imported when one of its records is first used, because most commands need few modules.
_NAMES = {
    "ompd.model.checks": ("CheckAnswer", "CheckedLibrary", "DifferenceRecord", "EntrySeen"),
    "ompd.model.differences": ("CounterChange", "DiffAnswer", "FactChange", "TaskChange", "ThreadChange"),
    "ompd.model.findings": ("DoctorAnswer", "FindingRecord", "LoadChain"),
    "ompd.model.openmp": (
        "Answer",
        "DependenceRecord",
        "DllRecord",
        "IcvRecord",
        "OutsideRecord",
        "OwnStateRecord",
        "ParallelRecord",
        "RuntimeRecord",
        "SnapshotRecord",
        "TargetRecord",
        "TaskFrame",
        "TaskRecord",
        "TaskWaitRecord",
        "ThreadRecord",
        "VariableAnswer",
        "Wait",
    ),
    "ompd.model.places": (
        "Construct",
        "DistinctValue",
        "LocalRecord",
        "LoopIteration",
        "Place",
        "RegionFunction",
        "StackFrame",
        "StackRecord",
        "VariableRecord",
        "VariableStats",
    ),
    "ompd.model.profile": (
        "ActivityShare",
        "Estimate",
        "LineShare",
        "ObjectShare",
        "ProfileAnswer",
        "ProfileMoment",
        "ProfileStack",
        "ProfileVerdict",
        "ProfiledThread",
        "RegionProfile",
        "SamplingRecord",
        "SlowThreads",
    ),
    "ompd.model.stalls": (
        "ChildRecord",
        "DifferingVariable",
        "Evidence",
        "GraphEdge",
        "GraphNode",
        "GraphRecord",
        "HeldRecord",
        "Link",
        "OtherRanksRecord",
        "SchedulingRecord",
        "SystemWait",
        "VerdictRecord",
        "WhyAnswer",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
