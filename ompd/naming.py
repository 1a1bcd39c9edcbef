"""Names that compilers and OpenMP runtimes make: origin, construct, and whether user code calls the function.

This module looks at texts only, not at a target.

Functions of constructs: gcc writes ``main._omp_fn.0``, for parallel regions and tasks alike, and ``main._omp_cpyfn.1``
for copies of task arguments. clang up to 16 writes ``.omp_outlined.`` and ``.omp_outlined._debug__`` (with -g the body
is in the second one), from 17 on ``main.omp_outlined`` and ``main.omp_outlined_debug__``. A construct inside another
construct appends a second mark: ``main.omp_outlined_debug__.omp_outlined``. clang's tasks are entered at
``.omp_task_entry.`` and have their code in further ``.omp_outlined.`` functions: ``.omp_outlined..3.omp_outlined`` is a
region in a task. The code of a ``target`` construct is in ``__omp_offloading_DEVICE_FILE_main_l12``, to which
``_debug__`` is added as above. Copies of a function (``.isra.0``, ``.part.1``, ``.cold``) follow the name.

A runtime's functions: user code calls only its entry points (``__kmpc_barrier``, ``GOMP_parallel``, ``omp_set_lock``).
In the symbol table an entry point may have a prefix or a version: see :func:`routine_name`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from ompd.records import record

_compiled = cache(re.compile)  # compiled at first use, because most programs need only some of these expressions

# Functions that compilers make of constructs

# The suffixes after the compilers' marks. The search for marks goes backwards and visits each mark once, because a name
# in a damaged file may contain megabytes of marks.
_COPIES = r"(?:\.(?:constprop|isra|part|lto_priv|llvm|cold|clone)(?:\.\d+)?)*"
_GCC, _CLANG, _CLANG_TASK = "._omp_fn.", ".omp_outlined", ".omp_task_entry."
_BEHIND_GCC = r"\d+" + _COPIES
_BEHIND_CLANG = r"(?:_debug__|\._debug__|\.)?(?:\.?\d+)?" + _COPIES
_BEHIND_CLANG_TASK = r"(?:\.?\d+)?" + _COPIES
_BODY = r"_debug__(?:\.?\d+)?" + _COPIES + "$"
_CLANG_TARGET_MARK = "__omp_offloading_"
_CLANG_TARGET = r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(.+)_l\d+(?:_\d+)?(?:_debug__)?(?:\.\d+)?" + _COPIES

# Matches names with a compiler's mark of a construct at any place. Names of helper functions match, too.
_CONSTRUCT = re.compile(r"\._omp_(?:cpy)?fn\.\d|\.omp_(?:outlined|task_entry)|^__omp_offloading_")

CONSTRUCT_EXPRESSION = (
    r"(\._omp_fn\.[0-9]+|[._]omp_outlined(_debug__|\._debug__|\.)?(\.?[0-9]+)?)$"  # the code of regions and tasks
)
"""POSIX expression that matches outlined functions of regions and tasks."""

CLANG_EXPRESSION = "[.]omp_outlined|^[.]omp_task_entry[.]|^__omp_offloading_"
"""POSIX and Python expression that matches functions that clang makes from constructs."""

# The entry points, named GOMP_*, to which gcc passes the function of a construct. In libomp, a prefix may precede the
# name.
_GCC_ROUTINE = r"(?:^|__kmp_api_)GOMP_(parallel|taskloop|task|target)(?![a-z])"

# Helpers without a construct's code: clang's combiners, initialisers and copies of clauses, and gcc's copies of task
# arguments. CGOpenMPRuntime.cpp; from clang 17 on some begin with the name of a function.
_ADDED = (
    r"\.(?:omp_combiner|omp_initializer|omp_task_privates_map|omp_task_dup|omp_task_destructor|red_init|red_comb|red_fini"
    r"|__kmpc_global_[cd]tor_)\.(?:\.?\d+)?" + _COPIES
)
_ADDED_AT_END = r"(?:\.omp\.reduction\.reduction_func|\.omp\.copyprivate\.copy_func|\._omp_cpyfn)(?:\.\d+)?" + _COPIES
_ADDED_MARKS = (".omp.reduction.", ".omp.copyprivate.", "._omp_cpyfn")


def is_added(name: str) -> bool:
    """Return whether *name* is a compiler-made helper for a clause, not the code of a construct.

    A helper calls functions that the clause names: the combiner of a reduction, a constructor.
    """
    mark = max(map(name.rfind, _ADDED_MARKS))
    return _compiled(_ADDED).fullmatch(name) is not None or (
        mark >= 0 and _compiled(_ADDED_AT_END).fullmatch(name, mark) is not None
    )


@record
class Outlined:
    """An outlined function. ``parent`` is the function that has the construct, ``construct`` is ``task`` or ``target``.
    Each is None if the name does not show it.
    """

    parent: str | None
    construct: str | None


def is_body(name: str) -> bool:
    """Return whether *name* is a construct's body that clang calls from a wrapper, as with -g.

    The runtime knows the wrapper, whose name lacks the final ``_debug__``.
    """
    return _compiled(_BODY).search(name, max(name.rfind(_CLANG), name.rfind(_CLANG_TARGET_MARK), 0)) is not None


def is_by_gcc(name: str) -> bool:
    """Return whether *name* is an outlined function of gcc. Such names do not show the construct."""
    return _GCC in name


def is_construct(symbol: str) -> bool:
    """Return whether *symbol* is a function that a compiler made for an OpenMP construct, or a helper of it."""
    return _CONSTRUCT.search(symbol) is not None


def is_construct_code(symbol: str) -> bool:
    """Return whether *symbol* is the name of a construct's code, which a runtime calls."""
    return is_construct(symbol) and "._omp_cpyfn." not in symbol


def is_task_entry(name: str) -> bool:
    """Return whether *name* is clang's entry function of a task, which calls the task's code."""
    return name.startswith(_CLANG_TASK)


def without_cold(name: str) -> str | None:
    """Return the name of the function whose cold part is *name* (``.cold``), None if *name* is not a cold part."""
    whole, mark, number = name.rpartition(".cold")
    return whole if mark and whole and (not number or (number[0] == "." and number[1:].isdecimal())) else None


def construct_of_routine(name: str) -> str | None:
    """Return the construct that gcc's code begins by calling the runtime routine *name*, None for other routines."""
    match = _compiled(_GCC_ROUTINE).search(name)
    return match[1] if match is not None else None


def parse_outlined(name: str) -> Outlined | None:
    """Return the parent and the construct of an outlined function by its name, None for a function of the user."""
    if "omp_" not in name:
        return None
    parent, mark, rest = name.rpartition(_GCC)
    if mark and parent and _compiled(_BEHIND_GCC).fullmatch(rest):
        return Outlined(_written(parent), None)
    if _is_clang_task(name):
        return Outlined(None, "task")
    target = _compiled(_CLANG_TARGET).fullmatch(name)
    if target is not None:
        return Outlined(target[1], "target")
    parent = _without_marks(name)
    if parent == name or (parent.startswith(".") and not _is_clang_task(parent)):
        return None
    return Outlined(_written(parent), None)


def _without_marks(name: str) -> str:
    # Return *name* without clang's marks at its end.
    end = len(name)
    while True:
        mark = name.rfind(_CLANG, 0, end)
        if mark < 0 or _compiled(_BEHIND_CLANG).fullmatch(name, mark + len(_CLANG), end) is None:
            return name[:end]
        end = mark


def _is_clang_task(name: str) -> bool:
    return name.startswith(_CLANG_TASK) and _compiled(_BEHIND_CLANG_TASK).fullmatch(name, len(_CLANG_TASK)) is not None


def _written(parent: str) -> str | None:
    # Return the user's function from a name without marks. A target construct adds a prefix; a task's name does not
    # have the function.
    target = _compiled(_CLANG_TARGET).fullmatch(parent)
    return target[1] if target is not None else None if _is_clang_task(parent) else parent or None


# Functions of a runtime

# Prefixes of entry points: for compilers, for users by the specification, and for users by vendors. No internal
# function of a runtime has such a prefix.
_ENTRIES = (
    "__kmpc_",
    "GOMP_",
    "GOACC_",
    "omp_",
    "ompc_",
    "ompx_",
    "kmp_get_",
    "kmp_set_",
    "kmp_create_affinity",
    "kmp_destroy_affinity",
    "kmp_unset_affinity",
    "kmp_malloc",
    "kmp_aligned_malloc",
    "kmp_calloc",
    "kmp_realloc",
    "kmp_free",
)

# The names of all functions of libomp and libgomp, C++ members mangled. Users may have functions with the prefix omp_,
# too.
_RUNTIME_SYMBOL = re.compile(
    r"_{0,3}(?:kmpc?|itt|ompt|ompd)_|__kmp|GOMP_|GOACC_|gomp_|omp[cx]_|hwloc_"
    r"|omp_(?:(?:get|set|unset|init|destroy|test|in|is|pause|display|capture|control|target|fulfill)_"
    r"|(?:aligned_)?c?alloc$|realloc$|free$)"
    r"|_Z\w*(?:__kmp|kmp_|__itt|__ompt|distributedBarrier|hierarchy_info)"
)

# Names of libomp that no other module has.
_RESERVED = r"__kmp|_Z\w*(?:__kmp|\d+kmp_flag|__ompt|distributedBarrier|hierarchy_info)"

RUNTIME_EXPRESSION = (
    "(^|[ :])_*(kmp|itt_|ompt_|ompd_|omp[cx]_|hwloc_|GOMP_|GOACC_|gomp_|omp_[a-z])|distributedBarrier|hierarchy_info"
)
"""POSIX and Python expression for names of functions of runtimes, demangled or not. It matches few others."""

RUNTIME_FILE = re.compile(
    r"(?:^|/)lib(?:i?omp5?|gomp|omp_stub(?:_label)?)(?:-[0-9a-f]+)?\.so(?:\.\d+)*(?: \(deleted\))?$"
)
"""Matches the file name of an OpenMP runtime, with or without folders, even if a package has renamed the file."""

FORKS = ("__kmpc_fork_call", "GOMP_parallel")
"""The entry points by which clang's and gcc's code begins a region. Each runtime has one of them or both."""

FORK_IF, SERIALIZES = "__kmpc_fork_call_if", "__kmpc_serialized_parallel"
"""The entry points by which clang's code begins a region with an ``if`` clause, and one whose clause is false."""

PUSHES, UNREAD_PUSHES = ("__kmpc_push_num_threads", "__kmpc_push_num_threads_strict"), ("__kmpc_push_num_threads_list",)
"""The entry points that take the number of a ``num_threads`` clause, and those that take several numbers."""


def begins_region(routine: str) -> bool:
    """Return whether *routine* is an entry point that begins a region, with a team of any size."""
    return (
        routine in FORKS
        or routine == FORK_IF
        or (routine.startswith("GOMP_parallel") and routine != "GOMP_parallel_end")
    )


FIRST_ENTRIES = ("__kmpc_fork_", "__kmpc_serialized_parallel", "__kmpc_omp_task_alloc", "GOMP_parallel", "GOMP_task")
"""Prefixes of entry points that start a region or a task. A program enters a runtime by one of them."""

_WAITS = ("__kmp_suspend", "__kmp_acquire", "__kmp_yield", "__kmp_wait_4", "__kmp_futex")

_CPLUSPLUS = re.compile(r"_ZL?(\d{1,3})(\w+)")
# The names inside of libgomp of entry points that have several symbol versions (libgomp_g.h, lock.c).
_OF_A_RELEASE = re.compile(r"gomp_((?:set|unset|test|init|destroy)_(?:nest_)?lock)_(?:25|30)$")


BARRIERS = frozenset(
    (
        "GOMP_barrier",
        "GOMP_barrier_cancel",
        "GOMP_loop_end",
        "GOMP_loop_end_cancel",
        "GOMP_sections_end",
        "GOMP_sections_end_cancel",
        "__kmpc_barrier",
        "__kmpc_cancel_barrier",
    )
)
"""The entry points of barriers in a region's code."""


class Routine(NamedTuple):
    """The effect of a routine on an object of a ``kind``: it ``begins`` a hold of the object, or ends it.

    ``argument`` is the index of the argument with the object's address, None if there is none. ``on`` is the result
    that means success: True for nonzero, False for 0, None if the routine always succeeds. ``ends`` is False if no
    routine ends the hold. Such a hold ends where control flow with the hold and control flow without it join.
    ``pauses`` is True for a routine that releases the object and takes it again before it returns.
    """

    kind: str
    begins: bool
    argument: int | None = None
    on: bool | None = None
    ends: bool = True
    pauses: bool = False


def _routines() -> dict[str, Routine]:
    # For each kind of object: the index of the argument with the object, and the names of the routines that begin, try
    # to begin, and end a hold.
    kinds: tuple[tuple[str, int | None, str, str, str], ...] = (
        ("lock", 0, "omp_set_lock", "omp_test_lock", "omp_unset_lock"),
        ("nest_lock", 0, "omp_set_nest_lock", "omp_test_nest_lock", "omp_unset_nest_lock"),
        # Fortran's compilers and `omp_*_with_hint` call these routines. The third argument is the object.
        ("lock", 2, "__kmpc_set_lock", "__kmpc_test_lock", "__kmpc_unset_lock"),
        ("nest_lock", 2, "__kmpc_set_nest_lock", "__kmpc_test_nest_lock", "__kmpc_unset_nest_lock"),
        ("critical", None, "GOMP_critical_start", "", "GOMP_critical_end"),
        ("critical", 0, "GOMP_critical_name_start", "", "GOMP_critical_name_end"),
        ("critical", 2, "__kmpc_critical __kmpc_critical_with_hint", "", "__kmpc_end_critical"),
        # If __kmpc_reduce returns 1, the thread combines its part of the reduction in a critical section.
        ("critical", 6, "", "__kmpc_reduce __kmpc_reduce_nowait", ""),
        ("critical", 2, "", "", "__kmpc_end_reduce __kmpc_end_reduce_nowait"),
        ("atomic", None, "GOMP_atomic_start __kmpc_atomic_start", "", "GOMP_atomic_end __kmpc_atomic_end"),
        ("ordered", None, "GOMP_ordered_start __kmpc_ordered", "", "GOMP_ordered_end __kmpc_end_ordered"),
        ("single", None, "", "__kmpc_single", "__kmpc_end_single GOMP_single_copy_end"),
        ("master", None, "", "__kmpc_master", "__kmpc_end_master"),
        ("masked", None, "", "__kmpc_masked", "__kmpc_end_masked"),
    )
    routines: dict[str, Routine] = {}
    for kind, argument, begin, test, end in kinds:
        routines.update((name, Routine(kind, True, argument)) for name in begin.split())
        routines.update((name, Routine(kind, True, argument, on=True)) for name in test.split())
        routines.update((name, Routine(kind, False, argument)) for name in end.split())
    routines["GOMP_single_start"] = Routine("single", True, on=True, ends=False)
    routines["GOMP_single_copy_start"] = Routine("single", True, on=False)
    # The initialization of a static variable in C++. The hold ends where control flow with the hold and control flow
    # without it join.
    routines["__cxa_guard_acquire"] = Routine("once", True, 0, on=True, ends=False)
    routines["pthread_mutex_lock"] = Routine("mutex", True, 0)
    routines["pthread_mutex_unlock"] = Routine("mutex", False, 0)
    for name in ("pthread_mutex_trylock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"):
        routines[name] = Routine("mutex", True, 0, on=False)
    for name in ("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"):
        routines[name] = Routine("mutex", False, 1, pauses=True)
    return routines


ROUTINES = cache(_routines)
"""Returns the effects of routines of OpenMP and POSIX threads, by routine name."""


def routine_name(symbol: str | None) -> str:
    """Return the name of a runtime's routine as in user code that calls it; ``""`` without a symbol."""
    name = (symbol or "").partition("@")[0]
    if name.startswith("_Z") and (match := _CPLUSPLUS.match(name)):
        name = match[2][: int(match[1])]
    name = name.removeprefix("__kmp_api_").removeprefix("gomp_ialias_")
    return _OF_A_RELEASE.sub(r"omp_\1", name) if name.endswith(("_25", "_30")) else name


def is_once(symbol: str | None) -> bool:
    """Return whether *symbol* is a function of the C library that runs a ``pthread_once`` initializer."""
    return (symbol or "").partition("@")[0].strip("_") in ("pthread_once", "pthread_once_slow", "call_once")


def is_entry(symbol: str | None) -> bool:
    """Return whether *symbol* is the name of a runtime's entry point, which user code calls."""
    return routine_name(symbol).startswith(_ENTRIES)


def is_runtime_file(name: str) -> bool:
    """Return whether *name* is the file name of an OpenMP runtime."""
    return RUNTIME_FILE.search(name) is not None


def is_runtime_symbol(symbol: str) -> bool:
    """Return whether *symbol*, in a module with an OpenMP runtime, is a name of the runtime's functions."""
    return _RUNTIME_SYMBOL.match(symbol) is not None


def is_reserved(symbol: str) -> bool:
    """Return whether *symbol* is a name of libomp that no function of a user has."""
    return re.match(_RESERVED, symbol) is not None


def has_thread_wait(symbol: str) -> bool:
    """Return whether *symbol* is a routine that makes its thread wait and calls no user code."""
    return routine_name(symbol).startswith(_WAITS)


# Other names in the user's modules

PROCESS_BEGIN = "_start"
"""The start of a program. It is in the program's file, but not in its source."""

FORTRAN_PROGRAM = "MAIN__"
"""gfortran's name of the main program. The function ``main``, which gfortran adds, calls it."""

TASKLOOP_BOUND = ".lb."
"""The additional parameter of the code that clang makes from a taskloop."""

ITERATION, FIRST_ITERATION, LAST_ITERATION = ".omp.iv", ".omp.lb", ".omp.ub"
"""clang's names of the variables of a worksharing loop."""

CAPTURED = ".capture_expr."
"""The prefix of clang's variables for values that a clause computes."""

_OWN_VARIABLES = (".", "__context", "__vla_expr", "CHAIN.", "FRAME.", "D.")

CRITICAL_PREFIX = ".gomp_critical_user_"
"""The prefix of a critical section's variable; clang adds ``.var`` to the section's name, which may be empty."""


def is_own_variable(name: str) -> bool:
    """Return whether a compiler made the variable *name*.

    clang makes such variables for constructs and array sizes, gcc for nested functions and merged variables.
    """
    return name.startswith(_OWN_VARIABLES)


def critical_name(symbol: str) -> str | None:
    """Return the name of the critical section whose lock is the variable *symbol*.

    ``""`` for the critical section without a name, None for symbols that are no lock of a critical section.
    """
    if not symbol.startswith(CRITICAL_PREFIX):
        return None
    return symbol.removeprefix(CRITICAL_PREFIX).removesuffix(".var")


def source_place(text: str) -> tuple[str, str, int] | None:
    """Return file, function and line of an ``ident_t``'s text (``;file;function;line;column;;``), None if unknown."""
    parts = text.split(";")
    if len(parts) < 4 or parts[0] or "unknown" in parts[1:3] or not parts[2] or not parts[3].isdecimal():
        return None
    line = int(parts[3])
    return (parts[1], parts[2], line) if line else None


# Environment variables that MPI launchers set for each rank. MPI's variables come before the batch system's, because a
# launcher in a batch script inherits the script's variables.
RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "ALPS_APP_PE")
SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "COBALT_JOBID")
# A job of the batch system may run MPI more than once. Launchers give each run a name.
RUN = ("SLURM_STEP_ID", "SLURM_STEPID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")
# The launcher that sets a variable with the rank sets one of these, too. Other launchers give the run no name.
NAMES_ITS_RUN = {
    "OMPI_COMM_WORLD_RANK": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "PMIX_RANK": ("PMIX_NAMESPACE",),
    "PMI_RANK": ("PMI_JOBID",),
    "PMI_ID": ("PMI_JOBID",),
    "SLURM_PROCID": ("SLURM_STEP_ID", "SLURM_STEPID"),
}
HOST = ("SLURMD_NODENAME", "PMIX_HOSTNAME", "OMPI_MCA_orte_hostname", "HOSTNAME")
