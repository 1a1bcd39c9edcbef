"""All names that compilers and OpenMP runtimes make, and what each says: whose code it is, whether user code calls it,
which construct it was made of. Text only; it knows no target.

Functions of constructs: gcc writes ``main._omp_fn.0``, for parallel regions and tasks alike, and
``main._omp_cpyfn.1`` for copies of task arguments. clang up to 16 writes ``.omp_outlined.`` and
``.omp_outlined._debug__`` (with -g the body is in the second), from 17 on ``main.omp_outlined`` and
``main.omp_outlined_debug__``, and for a construct inside of another's lines one mark behind the other:
``main.omp_outlined_debug__.omp_outlined``. Its tasks are entered at ``.omp_task_entry.`` and have their code in
``.omp_outlined.`` functions of their own: ``.omp_outlined..3.omp_outlined`` is a region in a task. The code of a
``target`` construct is ``__omp_offloading_DEVICE_FILE_main_l12``, with ``_debug__`` behind it as above. Copies of a
function (``.isra.0``, ``.part.1``, ``.cold``) follow the name.

A runtime's functions: user code calls its entry points (``__kmpc_barrier``, ``GOMP_parallel``, ``omp_set_lock``) and
nothing else of it. In the symbol table an entry point may have a prefix or a version: see :func:`routine_name`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from ompd.records import record

_compiled = cache(re.compile)  # few programs have names that need all of these expressions

# Functions that compilers make of constructs

# What follows the compilers' marks in a name, to its end. Marks are looked for from the end, each once: a name of a
# damaged file may be megabytes of them.
_COPIES = r"(?:\.(?:constprop|isra|part|lto_priv|llvm|cold|clone)(?:\.\d+)?)*"
_GCC, _CLANG, _CLANG_TASK = "._omp_fn.", ".omp_outlined", ".omp_task_entry."
_BEHIND_GCC = r"\d+" + _COPIES
_BEHIND_CLANG = r"(?:_debug__|\._debug__|\.)?(?:\.?\d+)?" + _COPIES
_BEHIND_CLANG_TASK = r"(?:\.?\d+)?" + _COPIES
_BODY = r"_debug__(?:\.?\d+)?" + _COPIES + "$"
_CLANG_TARGET_MARK = "__omp_offloading_"
_CLANG_TARGET = r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(.+)_l\d+(?:_\d+)?(?:_debug__)?(?:\.\d+)?" + _COPIES

# Wherever such a mark is, also in what a compiler added.
_CONSTRUCT = re.compile(r"\._omp_(?:cpy)?fn\.\d|\.omp_(?:outlined|task_entry)|^__omp_offloading_")

CONSTRUCT_EXPRESSION = (
    r"(\._omp_fn\.[0-9]+|[._]omp_outlined(_debug__|\._debug__|\.)?(\.?[0-9]+)?)$"  # the code of regions and tasks
)
"""What POSIX finds in the name of a function with the code of a region or task."""

CLANG_EXPRESSION = "[.]omp_outlined|^[.]omp_task_entry[.]|^__omp_offloading_"
"""What POSIX and Python find in the name of a function that clang makes of a construct."""

# Entry points of GOMP to which gcc passes the function of a construct; in libomp their names have a prefix.
_GCC_ROUTINE = r"(?:^|__kmp_api_)GOMP_(parallel|taskloop|task|target)(?![a-z])"

# What has no code of a construct: clang's functions that combine, initialise and copy for clauses, and gcc's copies of
# a task's arguments. CGOpenMPRuntime.cpp; clang from 17 on puts the name of a function before some.
_ADDED = (
    r"\.(?:omp_combiner|omp_initializer|omp_task_privates_map|omp_task_dup|omp_task_destructor|red_init|red_comb|red_fini"
    r"|__kmpc_global_[cd]tor_)\.(?:\.?\d+)?" + _COPIES
)
_ADDED_AT_END = r"(?:\.omp\.reduction\.reduction_func|\.omp\.copyprivate\.copy_func|\._omp_cpyfn)(?:\.\d+)?" + _COPIES
_ADDED_MARKS = (".omp.reduction.", ".omp.copyprivate.", "._omp_cpyfn")


def is_added(name: str) -> bool:
    """Return whether *name* is that of a function that a compiler made beside those with the code of constructs.

    Such a function calls what a clause of a construct names: the combiner of a reduction, a constructor.
    """
    at = max(map(name.rfind, _ADDED_MARKS))
    return _compiled(_ADDED).fullmatch(name) is not None or (
        at >= 0 and _compiled(_ADDED_AT_END).fullmatch(name, at) is not None
    )


@record
class Outlined:
    """A compiler-made function: the function whose construct it holds (None where its name does not say), and of what
    kind.

    ``construct`` is ``task``, ``target`` or None: all others have names that do not say.
    """

    parent: str | None
    construct: str | None


def is_body(name: str) -> bool:
    """Return whether *name* is that of the code of a construct that clang calls from a function of its own, as with -g.

    The runtime knows the caller, whose name is the same without ``_debug__`` at its end.
    """
    return _compiled(_BODY).search(name, max(name.rfind(_CLANG), name.rfind(_CLANG_TARGET_MARK), 0)) is not None


def is_by_gcc(name: str) -> bool:
    """Return whether *name* is one that gcc makes, which do not say of which construct they are."""
    return _GCC in name


def is_construct(symbol: str) -> bool:
    """Return whether *symbol* is called as compilers call what they make of an OpenMP construct."""
    return _CONSTRUCT.search(symbol) is not None


def is_construct_code(symbol: str) -> bool:
    """Return whether *symbol* is called as compilers call the code of a construct, which a runtime is to call."""
    return is_construct(symbol) and "._omp_cpyfn." not in symbol


def is_task_entry(name: str) -> bool:
    """Return whether *name* is that of the function around a task's code by which clang has the runtime enter it."""
    return name.startswith(_CLANG_TASK)


def without_cold(name: str) -> str | None:
    """Return the name of the function of which *name* is the seldom executed part (``.cold``), None for a whole one."""
    whole, mark, number = name.rpartition(".cold")
    return whole if mark and whole and (not number or (number[0] == "." and number[1:].isdecimal())) else None


def construct_of_routine(name: str) -> str | None:
    """Return the construct that code of gcc's begins by calling the runtime's routine *name*, None for another one."""
    match = _compiled(_GCC_ROUTINE).search(name)
    return match[1] if match is not None else None


def parse_outlined(name: str) -> Outlined | None:
    """Return what *name* says of the construct its code is from, None for a function the user wrote."""
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
    # What is left of a name of clang's without the marks at its end.
    end = len(name)
    while True:
        at = name.rfind(_CLANG, 0, end)
        if at < 0 or _compiled(_BEHIND_CLANG).fullmatch(name, at + len(_CLANG), end) is None:
            return name[:end]
        end = at


def _is_clang_task(name: str) -> bool:
    return name.startswith(_CLANG_TASK) and _compiled(_BEHIND_CLANG_TASK).fullmatch(name, len(_CLANG_TASK)) is not None


def _written(parent: str) -> str | None:
    # The function of the source in a name whose marks are off: in that of a target construct there is one more. That of
    # a task has none.
    target = _compiled(_CLANG_TARGET).fullmatch(parent)
    return target[1] if target is not None else None if _is_clang_task(parent) else parent or None


# What a runtime calls its functions

# How entry points begin: those for compilers, and those of the specification and of vendors for people. No function
# that a runtime keeps to itself is called so.
_ENTRIES = (
    *("__kmpc_", "GOMP_", "GOACC_", "omp_", "ompc_", "ompx_"),
    *("kmp_get_", "kmp_set_", "kmp_create_affinity", "kmp_destroy_affinity", "kmp_unset_affinity"),
    *("kmp_malloc", "kmp_aligned_malloc", "kmp_calloc", "kmp_realloc", "kmp_free"),
)

# How all functions of libomp and libgomp begin, C++ members by their mangled names. Users may have an omp_ of theirs.
_RUNTIME_SYMBOL = re.compile(
    r"_{0,3}(?:kmpc?|itt|ompt|ompd)_|__kmp|GOMP_|GOACC_|gomp_|omp[cx]_|hwloc_"
    r"|omp_(?:(?:get|set|unset|init|destroy|test|in|is|pause|display|capture|control|target|fulfill)_"
    r"|(?:aligned_)?c?alloc$|realloc$|free$)"
    r"|_Z\w*(?:__kmp|kmp_|__itt|__ompt|distributedBarrier|hierarchy_info)"
)

# Those of libomp that nobody else has, also where its source is known.
_RESERVED = r"__kmp|_Z\w*(?:__kmp|\d+kmp_flag|__ompt|distributedBarrier|hierarchy_info)"

RUNTIME_EXPRESSION = (
    "(^|[ :])_*(kmp|itt_|ompt_|ompd_|omp[cx]_|hwloc_|GOMP_|GOACC_|gomp_|omp_[a-z])|distributedBarrier|hierarchy_info"
)
"""What POSIX and Python find in all names of a runtime's functions, demangled ones too, and in few others."""

RUNTIME_FILE = re.compile(
    r"(?:^|/)lib(?:i?omp5?|gomp|omp_stub(?:_label)?)(?:-[0-9a-f]+)?\.so(?:\.\d+)*(?: \(deleted\))?$"
)
"""What the file of an OpenMP runtime is called, with or without folders, also where a package has renamed it."""

FORKS = ("__kmpc_fork_call", "GOMP_parallel")
"""The entry points by which clang's and gcc's code begins a region. Each runtime has the one, the other or both."""

FIRST_ENTRIES = ("__kmpc_fork_", "__kmpc_serialized_parallel", "__kmpc_omp_task_alloc", "GOMP_parallel", "GOMP_task")
"""How entry points begin that start a region or make a task: a program enters a runtime by one of them."""

_WAITS = ("__kmp_suspend", "__kmp_acquire", "__kmp_yield", "__kmp_wait_4", "__kmp_futex")

_CPLUSPLUS = re.compile(r"_ZL?(\d{1,3})(\w+)")
# What libgomp calls its entry points for itself, and for releases of the specification (libgomp_g.h, lock.c).
_OF_A_RELEASE = re.compile(r"gomp_((?:set|unset|test|init|destroy)_(?:nest_)?lock)_(?:25|30)$")


BARRIERS = frozenset(
    (
        *("GOMP_barrier", "GOMP_barrier_cancel", "GOMP_loop_end", "GOMP_loop_end_cancel", "GOMP_sections_end"),
        *("GOMP_sections_end_cancel", "__kmpc_barrier", "__kmpc_cancel_barrier"),
    )
)
"""The entry points at which all threads of a team meet, as code of a region calls them."""


class Routine(NamedTuple):
    """What a routine does with an object of a ``kind``: it ``begins`` or ends something, or does so if its result says.

    ``argument`` is the number of the argument with the object's address, None if there is none. ``on`` says which
    result means success: True for any but 0, False for 0, None where it always succeeds. ``ends`` is False for what no
    routine ends: that is over where ways meet that did and did not begin it. ``pauses`` is True for a routine that lets
    go of the object and takes it again before it returns.
    """

    kind: str
    begins: bool
    argument: int | None = None
    on: bool | None = None
    ends: bool = True
    pauses: bool = False


def _pairs() -> dict[str, Routine]:
    # Of each kind: which argument, and the names of routines that begin, try to begin, and end it.
    kinds: tuple[tuple[str, int | None, str, str, str], ...] = (
        ("lock", 0, "omp_set_lock", "omp_test_lock", "omp_unset_lock"),
        ("nest_lock", 0, "omp_set_nest_lock", "omp_test_nest_lock", "omp_unset_nest_lock"),
        # What Fortran's compilers and `omp_*_with_hint` come down to; the object is their third argument
        ("lock", 2, "__kmpc_set_lock", "__kmpc_test_lock", "__kmpc_unset_lock"),
        ("nest_lock", 2, "__kmpc_set_nest_lock", "__kmpc_test_nest_lock", "__kmpc_unset_nest_lock"),
        ("critical", None, "GOMP_critical_start", "", "GOMP_critical_end"),
        ("critical", 0, "GOMP_critical_name_start", "", "GOMP_critical_name_end"),
        ("critical", 2, "__kmpc_critical __kmpc_critical_with_hint", "", "__kmpc_end_critical"),
        # Whoever gets 1 combines its part of a reduction inside of the section.
        ("critical", 6, "", "__kmpc_reduce __kmpc_reduce_nowait", ""),
        ("critical", 2, "", "", "__kmpc_end_reduce __kmpc_end_reduce_nowait"),
        ("atomic", None, "GOMP_atomic_start __kmpc_atomic_start", "", "GOMP_atomic_end __kmpc_atomic_end"),
        ("ordered", None, "GOMP_ordered_start __kmpc_ordered", "", "GOMP_ordered_end __kmpc_end_ordered"),
        ("single", None, "", "__kmpc_single", "__kmpc_end_single GOMP_single_copy_end"),
        ("master", None, "", "__kmpc_master", "__kmpc_end_master"),
        ("masked", None, "", "__kmpc_masked", "__kmpc_end_masked"),
    )
    found: dict[str, Routine] = {}
    for kind, argument, begin, test, end in kinds:
        found.update((name, Routine(kind, True, argument)) for name in begin.split())
        found.update((name, Routine(kind, True, argument, on=True)) for name in test.split())
        found.update((name, Routine(kind, False, argument)) for name in end.split())
    found["GOMP_single_start"] = Routine("single", True, on=True, ends=False)
    found["GOMP_single_copy_start"] = Routine("single", True, on=False)
    # The initialization of a static variable in C++: over where ways meet that did and did not do it.
    found["__cxa_guard_acquire"] = Routine("once", True, 0, on=True, ends=False)
    found["pthread_mutex_lock"] = Routine("mutex", True, 0)
    found["pthread_mutex_unlock"] = Routine("mutex", False, 0)
    for name in ("pthread_mutex_trylock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"):
        found[name] = Routine("mutex", True, 0, on=False)
    for name in ("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"):
        found[name] = Routine("mutex", False, 1, pauses=True)
    return found


ROUTINES = cache(_pairs)
"""Returns what routines of OpenMP and POSIX threads begin and end, by the names by which code calls them."""


def routine_name(symbol: str | None) -> str:
    """Return the name of one of the runtime's routines as the source has it, and as user code calls it, ``""`` where
    there is no symbol.
    """
    name = (symbol or "").partition("@")[0]
    if name.startswith("_Z") and (match := _CPLUSPLUS.match(name)):
        name = match[2][: int(match[1])]
    name = name.removeprefix("__kmp_api_").removeprefix("gomp_ialias_")
    return _OF_A_RELEASE.sub(r"omp_\1", name) if name.endswith(("_25", "_30")) else name


def is_once(symbol: str | None) -> bool:
    """Return whether *symbol* is one of the C library's functions that call a function for ``pthread_once``."""
    return (symbol or "").partition("@")[0].strip("_") in ("pthread_once", "pthread_once_slow", "call_once")


def is_entry(symbol: str | None) -> bool:
    """Return whether *symbol* is called as an entry point of a runtime, which user code calls."""
    return routine_name(symbol).startswith(_ENTRIES)


def is_runtime_file(name: str) -> bool:
    """Return whether a module's file is called as an OpenMP runtime is."""
    return RUNTIME_FILE.search(name) is not None


def is_runtime_symbol(symbol: str) -> bool:
    """Return whether *symbol*, of a module that holds an OpenMP runtime, is called as the runtime's functions are."""
    return _RUNTIME_SYMBOL.match(symbol) is not None


def is_reserved(symbol: str) -> bool:
    """Return whether *symbol* is one of libomp's that no user's function has."""
    return re.match(_RESERVED, symbol) is not None


def has_thread_wait(symbol: str) -> bool:
    """Return whether *symbol* is a routine that has its thread wait, and calls nothing of the user's."""
    return routine_name(symbol).startswith(_WAITS)


# Other names in the user's modules

PROCESS_BEGIN = "_start"
"""Where the kernel has a program begin: nobody wrote it, though it is in the program's file."""

FORTRAN_PROGRAM = "MAIN__"
"""What gfortran calls the program; it adds a ``main`` that calls it."""

TASKLOOP_BOUND = ".lb."
"""The parameter that clang gives the code of a taskloop construct beside those of a task."""

ITERATION, FIRST_ITERATION, LAST_ITERATION = ".omp.iv", ".omp.lb", ".omp.ub"
"""What clang calls the variables of a worksharing loop."""

CAPTURED = ".capture_expr."
"""How clang's variables for what a clause computes begin."""

_OWN_VARIABLES = (".", "__context", "__vla_expr", "CHAIN.", "FRAME.", "D.")

CRITICAL_PREFIX = ".gomp_critical_user_"
"""How the variable of a critical section begins; clang adds ``.var`` to the section's name, which may be empty."""


def is_own_variable(name: str) -> bool:
    """Return whether a compiler made the variable *name*: clang for constructs and the sizes of arrays, gcc for the
    frame of the function around a nested one, and for what it made of several.
    """
    return name.startswith(_OWN_VARIABLES)


def critical_name(symbol: str) -> str | None:
    """Return the name of the critical section that *symbol* stands for, ``""`` for the unnamed one, None for none."""
    if not symbol.startswith(CRITICAL_PREFIX):
        return None
    return symbol.removeprefix(CRITICAL_PREFIX).removesuffix(".var")


def source_place(text: str) -> tuple[str, str, int] | None:
    """Return file, function and line in an ``ident_t``'s text (``;file;function;line;column;;``), None for none."""
    parts = text.split(";")
    if len(parts) < 4 or parts[0] or "unknown" in parts[1:3] or not parts[2] or not parts[3].isdecimal():
        return None
    line = int(parts[3])
    return (parts[1], parts[2], line) if line else None


# What launchers of MPI put into the environment of each rank. What MPI itself says comes first: a launcher within a
# batch script inherits the number of the script.
RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "ALPS_APP_PE")
SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "COBALT_JOBID")
# A job of the batch system may run MPI more than once. Launchers name their own runs.
RUN = ("SLURM_STEP_ID", "SLURM_STEPID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")
HOST = ("SLURMD_NODENAME", "PMIX_HOSTNAME", "OMPI_MCA_orte_hostname", "HOSTNAME")
