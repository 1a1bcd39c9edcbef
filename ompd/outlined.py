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

_GCC = re.compile(r"(?P<parent>.+)\._omp_fn\.\d+")
_CLANG = re.compile(r"(?P<parent>[^.].*)?\.omp_outlined(?:_debug__|\._debug__|\.)?(?:\.?\d+)?")
_CLANG_TASK = re.compile(r"\.omp_task_entry\.(?:\.?\d+)?")
_COPY = re.compile(r"(?:\.(?:constprop|isra|part|lto_priv|llvm|cold|clone)(?:\.\d+)?)+$")

CRITICAL_PREFIX = ".gomp_critical_user_"
"""How the variable of a critical section begins; clang adds ``.var`` to the section's name, which may be empty."""


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


def parse(name: str) -> Outlined | None:
    """Return what *name* says of the construct its code is from, None for a function the user wrote."""
    plain = _COPY.sub("", name)
    if match := _GCC.fullmatch(plain):
        return Outlined(match["parent"], None)
    if _CLANG_TASK.fullmatch(plain):
        return Outlined(None, "task")
    if match := _CLANG.fullmatch(plain):
        return Outlined(match["parent"], None)
    return None
