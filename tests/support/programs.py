"""The programs of ``fixtures/programs`` and what a test must know to run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    """How to run a program.

    *spins*: some threads use processor time while they wait. *environment* is added to what every program
    gets, None removes.
    """

    name: str
    spins: bool = False
    environment: Mapping[str, str | None] = field(default_factory=dict)


PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("nested"),
        Program("uneven"),
        Program("serialized_middle"),
        Program("serialized_three"),
        Program("serialized_initial"),
        Program("critical", spins=True),
        Program("lock", spins=True),
        Program("barrier"),
        Program("closing_barrier"),
        Program("two_initial"),
        Program("shrunk_pool"),
        Program("no_region"),
        Program("not_initialised"),
        Program("between"),
        Program("extra_pthread"),
        Program("hang", spins=True),
        Program("many", environment={"OMP_STACKSIZE": None}),
    )
}

# A thread at a barrier tries one other thread's queue at a time, by chance, and sleeps when its time is over.
STEADY = {"KMP_BLOCKTIME": "infinite"}

# Tasks, locks, barriers of constructs and control variables: what the truth's "tasks", "icvs" and "holder" are for.
TASK_PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("task_tree", environment=STEADY),
        Program("task_queued", environment={"KMP_ENABLE_TASK_THROTTLING": "0"}),
        Program("icvs"),
        Program("nest_lock", spins=True),
        Program("lock_kinds", spins=True),  # with LOCK_KINDS
    )
}

# Values of KMP_LOCK_KIND that are kinds of their own on any processor: the program lock_kinds runs with each.
LOCK_KINDS = ("tas", "futex", "ticket", "queuing", "drdpa")

ALL_PROGRAMS: Mapping[str, Program] = {**PROGRAMS, **TASK_PROGRAMS}
