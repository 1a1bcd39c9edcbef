"""What compilers call the functions they make of OpenMP constructs: text only.

gcc writes ``main._omp_fn.0``, for parallel regions and tasks alike, and ``main._omp_cpyfn.1`` for copies of task
arguments. clang up to 16 writes ``.omp_outlined.`` and ``.omp_outlined._debug__`` (with -g the body is in the second),
from 17 on ``main.omp_outlined`` and ``main.omp_outlined_debug__``; its tasks are entered at ``.omp_task_entry.`` and
have their code in ``.omp_outlined.`` functions of their own. Copies of a function (``.isra.0``, ``.part.1``, ``.cold``)
follow the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What follows the compilers' marks in a name, to its end. Marks are looked for from the end, once: a name of a damaged
# file may be megabytes of them.
_COPIES = r"(?:\.(?:constprop|isra|part|lto_priv|llvm|cold|clone)(?:\.\d+)?)*"
_GCC, _CLANG, _CLANG_TASK = "._omp_fn.", ".omp_outlined", ".omp_task_entry."
_BEHIND_GCC = re.compile(r"\d+" + _COPIES)
_BEHIND_CLANG = re.compile(r"(?:_debug__|\._debug__|\.)?(?:\.?\d+)?" + _COPIES)
_BEHIND_CLANG_TASK = re.compile(r"(?:\.?\d+)?" + _COPIES)

# Entry points of GOMP to which gcc passes the function of a construct; in libomp their names have a prefix.
_GCC_ROUTINE = re.compile(r"(?:^|__kmp_api_)GOMP_(parallel|taskloop|task)(?![a-z])")

CRITICAL_PREFIX = ".gomp_critical_user_"
"""How the variable of a critical section begins; clang adds ``.var`` to the section's name, which may be empty."""


_ADDED = re.compile(r"\.omp_(?:combiner|initializer)\.(?:\.?\d+)?" + _COPIES)


def is_added(name: str) -> bool:
    """Tell whether *name* is that of a function in which clang calls what a ``declare reduction`` names."""
    return _ADDED.fullmatch(name) is not None


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


@dataclass(frozen=True, slots=True)
class Outlined:
    """A compiler-made function: the function whose construct it holds (None where its name does not say), and of what
    kind.

    ``construct`` is ``parallel``, ``task`` or None: gcc gives both the same name.
    """

    parent: str | None
    construct: str | None


def is_by_gcc(name: str) -> bool:
    """Tell whether *name* is one that gcc makes, which do not say of which construct they are."""
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
        return Outlined(parent, None)
    if name.startswith(_CLANG_TASK) and _BEHIND_CLANG_TASK.fullmatch(name, len(_CLANG_TASK)):
        return Outlined(None, "task")
    parent, mark, rest = name.rpartition(_CLANG)
    if mark and not parent.startswith(".") and _BEHIND_CLANG.fullmatch(rest):
        return Outlined(parent or None, None)
    return None
