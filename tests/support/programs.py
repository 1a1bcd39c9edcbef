"""The programs of ``fixtures/programs``, and the way tests run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.build import MODES
from tests.support.machine import FULL


@dataclass(frozen=True)
class Program:
    """How to run a program.

    *spins*: some threads use processor time while they wait. *environment* is added to the environment of all programs;
    None removes a variable. *compilers* are those whose code uses the runtime for the construct that the program shows.
    """

    name: str
    spins: bool = False
    environment: Mapping[str, str | None] = field(default_factory=dict)
    compilers: tuple[str, ...] = ("gcc", "clang")


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

# At a barrier a thread tries to steal from one random thread's queue at a time, and sleeps after KMP_BLOCKTIME.
STEADY = {"KMP_BLOCKTIME": "infinite"}
PATIENT = {"KMP_BLOCKTIME": "300"}

VARIABLES = {
    "OMP_NUM_THREADS": "4,3,2",
    "OMP_MAX_ACTIVE_LEVELS": "3",
    "OMP_PROC_BIND": "spread,close",
    "OMP_SCHEDULE": "monotonic:dynamic,7",
    "OMP_THREAD_LIMIT": "20",
    "OMP_CANCELLATION": "true",
    "OMP_MAX_TASK_PRIORITY": "5",
}

# Programs with tasks, locks, constructs' barriers and control variables, for "tasks", "icvs" and "holder" of the truth.
TASK_PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("task_tree", environment=STEADY),
        Program("task_queued", environment={"KMP_ENABLE_TASK_THROTTLING": "0"}),
        Program("icvs"),
        Program("nest_lock", spins=True),
        Program("lock_kinds", spins=True),  # with LOCK_KINDS
        Program("taskgroup", spins=True, environment=STEADY),
        Program("task_if0"),
        Program("task_depend", spins=True, environment=STEADY),
        Program("taskloop", environment=STEADY),
        Program("task_detach", spins=True, compilers=("clang",)),
        Program("task_in_barrier", environment=PATIENT),
        Program("two_criticals", spins=True),
        Program("deadlock", spins=True),
        Program("ordered", spins=True),
        Program("for_barrier"),
        Program("single_barrier"),
        Program("sections_barrier"),
        Program("reduction"),  # with REDUCTIONS
        Program("reduction_combiner", spins=True, environment={"KMP_FORCE_REDUCTION": "critical"}),
        Program("atomic_region", spins=True, compilers=("gcc",)),
        Program("icvs_env", environment=VARIABLES),
        Program("fortran", spins=True, compilers=("gfortran",)),
    )
}

# Values of KMP_LOCK_KIND that are distinct kinds on any processor. The program lock_kinds runs with each.
LOCK_KINDS = ("tas", "futex", "ticket", "queuing", "drdpa")
# Values of KMP_FORCE_REDUCTION, which affects clang's code. The program reduction runs with each.
REDUCTIONS = ("tree", "critical", "atomic")

# Programs with long or unusual stacks, for "stack" of the truth.
STACK_PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("deep"),
        Program("task_stack"),
        Program("single_taskloop", environment=STEADY),
        Program("callbacks"),
        Program("interrupted"),
        Program("orphaned"),
        Program("inlined"),
        Program("cplusplus", compilers=("g++", "clang++")),
        Program("modules", compilers=("gfortran",)),
    )
}

# Teams whose threads are at several barriers. $MISMATCH selects one in the program mismatched.
MISMATCHES = ("skipped", "primary", "twice", "late", "loop", "single", "sections", "reduction", "lock", "nested")
BARRIER_PROGRAMS: Mapping[str, Program] = {
    "mismatched": Program("mismatched", spins=True, environment={"KMP_FORCE_REDUCTION": "tree"})
}

ALL_PROGRAMS: Mapping[str, Program] = {**PROGRAMS, **TASK_PROGRAMS, **STACK_PROGRAMS}


def modes_of(program: str, compiler: str) -> tuple[str, ...]:
    """Return the MODES in which tests run a program that *compiler* built.

    With ``OMPD_FULL`` these are all modes. Otherwise the program's compilers take turns, so that each program and the
    code of each compiler run in every mode.
    """
    compilers = ALL_PROGRAMS[program].compilers
    if FULL or len(compilers) == 1:
        return MODES
    turn = [*ALL_PROGRAMS].index(program) + compilers.index(compiler)
    return tuple(mode for number, mode in enumerate(MODES) if (number + turn) % 2 == 0)
