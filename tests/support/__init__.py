"""Code that tests share: this machine's tools, programs with known truth, and their cores."""

from tests.support.build import COMPILERS, MODES, build
from tests.support.machine import FULL, Missing, clean_environment, intel_runtime, require
from tests.support.programs import (
    ALL_PROGRAMS,
    BARRIER_PROGRAMS,
    LOCK_KINDS,
    MISMATCHES,
    PROGRAMS,
    REDUCTIONS,
    STACK_PROGRAMS,
    TASK_PROGRAMS,
)
from tests.support.runs import KINDS, NotReady, Running, Stopped, running, stopped, stopped_twice
from tests.support.runtimes import INTEL, RUNTIMES, STRIPPED

__all__ = [
    "ALL_PROGRAMS",
    "BARRIER_PROGRAMS",
    "COMPILERS",
    "FULL",
    "INTEL",
    "KINDS",
    "LOCK_KINDS",
    "MISMATCHES",
    "MODES",
    "PROGRAMS",
    "REDUCTIONS",
    "RUNTIMES",
    "STACK_PROGRAMS",
    "STRIPPED",
    "TASK_PROGRAMS",
    "Missing",
    "NotReady",
    "Running",
    "Stopped",
    "build",
    "clean_environment",
    "intel_runtime",
    "require",
    "running",
    "stopped",
    "stopped_twice",
]
