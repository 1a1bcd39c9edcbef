"""What compilers call the functions they make of OpenMP constructs: text only.

gcc writes ``main._omp_fn.0``, for parallel regions and tasks alike, and ``main._omp_cpyfn.1`` for copies of task
arguments. clang up to 16 writes ``.omp_outlined.`` and ``.omp_outlined._debug__`` (with -g the body is in the second),
from 17 on ``main.omp_outlined`` and ``main.omp_outlined_debug__``, and for a construct inside of another's lines one
mark behind the other: ``main.omp_outlined_debug__.omp_outlined``. Its tasks are entered at ``.omp_task_entry.`` and
have their code in ``.omp_outlined.`` functions of their own: ``.omp_outlined..3.omp_outlined`` is a region in a task.
The code of a ``target`` construct is ``__omp_offloading_DEVICE_FILE_main_l12``, with ``_debug__`` behind it as above.
Copies of a function (``.isra.0``, ``.part.1``, ``.cold``) follow the name.
"""

from __future__ import annotations

import re

from ompd.records import record

# What follows the compilers' marks in a name, to its end. Marks are looked for from the end, each once: a name of a
# damaged file may be megabytes of them.
_COPIES = r"(?:\.(?:constprop|isra|part|lto_priv|llvm|cold|clone)(?:\.\d+)?)*"
_GCC, _CLANG, _CLANG_TASK = "._omp_fn.", ".omp_outlined", ".omp_task_entry."
_BEHIND_GCC = re.compile(r"\d+" + _COPIES)
_BEHIND_CLANG = re.compile(r"(?:_debug__|\._debug__|\.)?(?:\.?\d+)?" + _COPIES)
_BEHIND_CLANG_TASK = re.compile(r"(?:\.?\d+)?" + _COPIES)
_BODY = re.compile(r"_debug__(?:\.?\d+)?" + _COPIES + "$")
_CLANG_TARGET_MARK = "__omp_offloading_"
_CLANG_TARGET = re.compile(r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(.+)_l\d+(?:_\d+)?(?:_debug__)?(?:\.\d+)?" + _COPIES)

# Entry points of GOMP to which gcc passes the function of a construct; in libomp their names have a prefix.
_GCC_ROUTINE = re.compile(r"(?:^|__kmp_api_)GOMP_(parallel|taskloop|task|target)(?![a-z])")

CRITICAL_PREFIX = ".gomp_critical_user_"
"""How the variable of a critical section begins; clang adds ``.var`` to the section's name, which may be empty."""


# What has no code of a construct: clang's functions that combine, initialise and copy for clauses, and gcc's copies of
# a task's arguments. CGOpenMPRuntime.cpp; clang from 17 on puts the name of a function before some.
_ADDED = re.compile(
    r"\.(?:omp_combiner|omp_initializer|omp_task_privates_map|omp_task_dup|omp_task_destructor|red_init|red_comb|red_fini"
    r"|__kmpc_global_[cd]tor_)\.(?:\.?\d+)?" + _COPIES
)
_ADDED_AT_END = re.compile(
    r"(?:\.omp\.reduction\.reduction_func|\.omp\.copyprivate\.copy_func|\._omp_cpyfn)(?:\.\d+)?" + _COPIES
)
_ADDED_MARKS = (".omp.reduction.", ".omp.copyprivate.", "._omp_cpyfn")


def is_added(name: str) -> bool:
    """Return whether *name* is that of a function that a compiler made beside those with the code of constructs.

    Such a function calls what a clause of a construct names: the combiner of a reduction, a constructor.
    """
    at = max(map(name.rfind, _ADDED_MARKS))
    return _ADDED.fullmatch(name) is not None or (at >= 0 and _ADDED_AT_END.fullmatch(name, at) is not None)


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
    return _BODY.search(name, max(name.rfind(_CLANG), name.rfind(_CLANG_TARGET_MARK), 0)) is not None


def is_by_gcc(name: str) -> bool:
    """Return whether *name* is one that gcc makes, which do not say of which construct they are."""
    return _GCC in name


def construct_of_routine(name: str) -> str | None:
    """Return the construct that code of gcc's begins by calling the runtime's routine *name*, None for another one."""
    match = _GCC_ROUTINE.search(name)
    return match[1] if match is not None else None


def parse(name: str) -> Outlined | None:
    """Return what *name* says of the construct its code is from, None for a function the user wrote."""
    if "omp_" not in name:
        return None
    parent, mark, rest = name.rpartition(_GCC)
    if mark and parent and _BEHIND_GCC.fullmatch(rest):
        return Outlined(_written(parent), None)
    if _is_clang_task(name):
        return Outlined(None, "task")
    target = _CLANG_TARGET.fullmatch(name)
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
        if at < 0 or _BEHIND_CLANG.fullmatch(name, at + len(_CLANG), end) is None:
            return name[:end]
        end = at


def _is_clang_task(name: str) -> bool:
    return name.startswith(_CLANG_TASK) and _BEHIND_CLANG_TASK.fullmatch(name, len(_CLANG_TASK)) is not None


def _written(parent: str) -> str | None:
    # The function of the source in a name whose marks are off: in that of a target construct there is one more. That of
    # a task has none.
    target = _CLANG_TARGET.fullmatch(parent)
    return target[1] if target is not None else None if _is_clang_task(parent) else parent or None
