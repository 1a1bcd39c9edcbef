"""``DMPL_demangle_name`` for all plugins: what names tell that compilers make of the source's.

Functions of constructs have the name of the function they are in (gcc's ``main._omp_fn.0``, clang's
``main.omp_outlined`` from 17 on); older ones of clang's say nothing, and debug information has to. Variables that stand
for the user's say by their name what they are for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ompd import naming
from ompd.contract.dmpl import (
    VARINFO_NEEDS_DEREFERENCE,
    DemangledName,
    Language,
    NamedVariable,
    Result,
    RtlNames,
    SourceOf,
    VarInfo,
)

_MAX_NAME = 1 << 16

_LANGUAGES = frozenset((Language.C, Language.CPLUSPLUS, Language.F77, Language.F9X))

# What stands for a threadprivate variable: the control object of emulated thread-local storage and the initial value
# beside it, and the cache that clang (with a point) and flang put beside it.
_VARIABLES: Sequence[re.Pattern[str]] = (
    re.compile(r"__emutls_[vt]\.(?P<name>.+)"),
    re.compile(r"(?P<name>[^.]+)\.cache\.?"),
)


def rtl_names(language: int, dispatcher: str, invoker: str) -> RtlNames | None:
    """Return the routines of a runtime, None for a language whose compilers do not call them, as far as is known."""
    return RtlNames(dispatcher, invoker) if language in _LANGUAGES else None


def demangle(
    mangled: str, buf_len: int, source_of: SourceOf | None = None, own: Sequence[re.Pattern[str]] = ()
) -> DemangledName:
    """Return what the source calls what a compiler called *mangled*; see :meth:`ompd.contract.dmpl.Library`.

    :param own: what else stands for variables with this runtime: the group ``name`` is the source's, the group
        ``clause``, if there is one, the clause that lists the variable (else it is threadprivate), and a group
        ``address`` that matches says that the storage holds the variable's address
    """
    name, flags, line = _read(mangled, source_of, own)
    if name is None:
        name, code, line = mangled, Result.NAME_UNCHANGED, 0
    else:
        code = Result.OK
    length = len(name.encode("utf-8", "surrogateescape"))
    if length + 1 > buf_len:
        return DemangledName(Result.NAME_TOO_LONG, length + 1, "", flags, line)
    return DemangledName(code, length, name, flags, line)


def source_name(mangled: str, own: Sequence[re.Pattern[str]] = ()) -> str | None:
    """Return the source's name of a compiler-made one as far as the name itself tells it, None if it is none.

    :param own: as that of :func:`demangle`
    """
    return _read(mangled, None, own)[0]


def named_variable(mangled: str, own: Sequence[re.Pattern[str]] = ()) -> NamedVariable | None:
    """Return what a compiler-made name says of a variable, None if it does not say how a construct shares it.

    :param own: as that of :func:`demangle`
    """
    return variable_of(demangle(mangled, _MAX_NAME, None, own))


def variable_of(told: DemangledName) -> NamedVariable | None:
    """Return what a library says of a variable, None if it does not say how a construct shares it."""
    try:
        sharing = VarInfo(told.flags & ~VARINFO_NEEDS_DEREFERENCE)
    except ValueError:
        return None
    if told.code != Result.OK or sharing == VarInfo.NONE:
        return None
    return NamedVariable(told.demangled, sharing, bool(told.flags & VARINFO_NEEDS_DEREFERENCE))


def _read(mangled: str, source_of: SourceOf | None, own: Sequence[re.Pattern[str]]) -> tuple[str | None, int, int]:
    if len(mangled) > _MAX_NAME:
        return None, VarInfo.NONE, 0
    function = naming.parse_outlined(mangled)
    if function is not None:
        parent, line = source_of(mangled) if source_of is not None else (None, None)
        return function.parent or parent, VarInfo.NONE, line or 0
    critical = naming.critical_name(mangled)
    if critical:
        return critical, VarInfo.NONE, 0
    for pattern in (*_VARIABLES, *own):
        match = pattern.fullmatch(mangled)
        if match is not None:
            return match["name"], _flags(match.groupdict()), 0
    return None, VarInfo.NONE, 0


def _flags(groups: Mapping[str, str | None]) -> int:
    clause = groups.get("clause")
    flags = VarInfo[clause.upper()] if clause else VarInfo.THREADPRIVATE
    return flags | VARINFO_NEEDS_DEREFERENCE if groups.get("address") else flags
