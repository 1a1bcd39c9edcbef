"""``DMPL_demangle_name`` for all plugins: find the source name inside a compiler-made name.

The name of a construct's function contains the name of the function around the construct (gcc's ``main._omp_fn.0``,
clang's ``main.omp_outlined`` since 17). Names that older clangs make need debug information. The name of a copy of a
user's variable shows how the variable is shared.
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

# Names of the control object and the initial value of emulated thread-local storage, and of the cache that clang (with
# a dot at the end) and flang keep for a threadprivate variable.
_VARIABLES: Sequence[re.Pattern[str]] = (
    re.compile(r"__emutls_[vt]\.(?P<name>.+)"),
    re.compile(r"(?P<name>[^.]+)\.cache\.?"),
)


def rtl_names(language: int, dispatcher: str, invoker: str) -> RtlNames | None:
    """Return *dispatcher* and *invoker* as the routines around a construct's code. None for a language whose compilers
    are not known to call them.
    """
    return RtlNames(dispatcher, invoker) if language in _LANGUAGES else None


def demangle(
    mangled: str, buf_len: int, source_of: SourceOf | None = None, own: Sequence[re.Pattern[str]] = ()
) -> DemangledName:
    """Return the source name in the compiler-made name *mangled*, by the rules of :class:`ompd.contract.dmpl.Library`.

    :param own: patterns of this runtime's names for variables. Their group ``name`` is the source name. Their group
        ``clause`` is the clause that lists the variable; without this group, the variable is threadprivate. If the
        group ``address`` matches, the storage holds the variable's address
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
    """Return the source name that a compiler-made name contains, None if it contains none.

    :param own: as for :func:`demangle`
    """
    return _read(mangled, None, own)[0]


def named_variable(mangled: str, own: Sequence[re.Pattern[str]] = ()) -> NamedVariable | None:
    """Return the variable that a compiler-made name stands for. None if the name does not show which data-sharing the
    variable has in its construct.

    :param own: as for :func:`demangle`
    """
    return variable_of(demangle(mangled, _MAX_NAME, None, own))


def variable_of(name: DemangledName) -> NamedVariable | None:
    """Return the variable that a demangled name stands for. None if the name does not show which data-sharing the
    variable has in its construct.
    """
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
