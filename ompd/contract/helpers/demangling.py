"""``DMPL_demangle_name`` for all plugins: the source's names in compiler-made names.

Functions of constructs have the name of the function around them (gcc's ``main._omp_fn.0``, clang's
``main.omp_outlined`` since 17). Older ones of clang's need debug information. Copies of the user's variables have names
that say how the variable is shared.
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

# The control object and the initial value of emulated thread-local storage, and the cache that clang (with a point) and
# flang have for a threadprivate variable.
_VARIABLES: Sequence[re.Pattern[str]] = (
    re.compile(r"__emutls_[vt]\.(?P<name>.+)"),
    re.compile(r"(?P<name>[^.]+)\.cache\.?"),
)


def rtl_names(language: int, dispatcher: str, invoker: str) -> RtlNames | None:
    """Return the routines of a runtime, None for a language whose compilers are not known to call them."""
    return RtlNames(dispatcher, invoker) if language in _LANGUAGES else None


def demangle(
    mangled: str, buf_len: int, source_of: SourceOf | None = None, own: Sequence[re.Pattern[str]] = ()
) -> DemangledName:
    """Return the name in the source of a compiler-made name, by the rules of :class:`ompd.contract.dmpl.Library`.

    :param own: patterns of names that this runtime has for variables. The group ``name`` is the name in the source; the
        group ``clause``, if any, is the clause that lists the variable (else it is threadprivate); if a group
        ``address`` matches, the storage holds the variable's address
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
    """Return the name in the source that a compiler-made name contains, None if it contains none.

    :param own: as for :func:`demangle`
    """
    return _read(mangled, None, own)[0]


def named_variable(mangled: str, own: Sequence[re.Pattern[str]] = ()) -> NamedVariable | None:
    """Return the variable of a compiler-made name, None if the name does not say how a construct shares it.

    :param own: as for :func:`demangle`
    """
    return variable_of(demangle(mangled, _MAX_NAME, None, own))


def variable_of(name: DemangledName) -> NamedVariable | None:
    """Return the variable of a demangled name, None if the name does not say how a construct shares it."""
    try:
        sharing = VarInfo(name.flags & ~VARINFO_NEEDS_DEREFERENCE)
    except ValueError:
        return None
    if name.code != Result.OK or sharing == VarInfo.NONE:
        return None
    return NamedVariable(name.demangled, sharing, bool(name.flags & VARINFO_NEEDS_DEREFERENCE))


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
