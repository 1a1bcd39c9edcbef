"""The choice of the variables that a name means, by scopes, files and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.static import NamedVariable, Scope
from ompd.binary.types.type_names import shortened
from ompd.binary.types.types import TypeInfo
from ompd.contract.process import Module
from ompd.debugger.variables.names import BLANK, VariableName, canonical, is_called
from ompd.errors import NoAnswer
from ompd.records import record

TLS, EMUTLS, GLOBAL = "tls", "emutls", "global"
"""Mechanisms: native and emulated thread-local storage, one place for all threads."""

_MAX_LISTED = 20


@record
class StaticVariable:
    """A variable, or a part of one, that was found by name.

    ``name`` is its name in the source, ``mechanism`` one of :data:`TLS` …, None for a variable without a place.
    ``offset`` is a target address; for a thread-local variable, an offset in the module's TLS block; for an emulated
    one, the address of the control object. ``type`` is None if unknown. ``members`` are the members of a COMMON block,
    from its start. ``constant`` has the bytes of a variable that the compiler turned into a constant. ``fault`` is the
    reason why the place is unknown.
    """

    name: str
    module: Module
    mechanism: str | None
    offset: int
    size: int | None
    info: TypeInfo | None
    type: EntryRef | None
    file: str | None = None
    line: int | None = None
    linkage: str | None = None
    is_fortran: bool = False
    members: tuple[tuple[str, int, EntryRef], ...] = ()
    constant: bytes | None = None
    fault: str | None = None
    short_name: str = ""
    scopes: tuple[Scope, ...] = field(default=(), repr=False)


def list_choices(name: VariableName, variables: Sequence[StaticVariable]) -> NoAnswer:
    """Return the error for an ambiguous name, which lists each variable by a distinguishing name."""
    shown = [variable.name for variable in variables[:_MAX_LISTED]]
    remainder = f" and {len(variables) - _MAX_LISTED} more" if len(variables) > _MAX_LISTED else ""
    return NoAnswer(
        f"{name.text} may be any of {len(variables)} variables: {', '.join(shown)}{remainder}", hint="name one of them"
    )


def is_meant(entry: NamedVariable, name: VariableName) -> bool:
    """Return whether *name*, with its file and scopes, may mean the variable *entry* of debug information."""
    scopes = list(name.scopes)
    if name.is_global:
        return not any(not scope.optional for scope in entry.scopes) and entry.block is None and not scopes
    if scopes and entry.file is not None and is_path_end(scopes[0], entry.file):
        inner = scopes[1:]
        return not inner or _ends_with(entry.scopes, inner, entry.is_fortran)
    return not scopes or _ends_with(entry.scopes, scopes, entry.is_fortran)


def _ends_with(scopes: Sequence[Scope], names: Sequence[str], fold: bool) -> bool:
    # Return whether the innermost scopes match *names*, apart from scopes that the source may omit.
    remaining = list(names)
    for scope in reversed(scopes):
        if not remaining:
            return True
        if is_called(scope.name, remaining[-1], fold):
            remaining.pop()
        elif not scope.optional:
            return False
    return not remaining


def is_path_end(wanted: str, path: str) -> bool:
    """Return whether *wanted* is the name of a file, or the end of its *path*."""
    return path == wanted or path.endswith("/" + wanted.removeprefix("./"))


def identity(entry: NamedVariable) -> tuple[object, ...]:
    """Return a key that the definition and all declarations of one variable share."""
    if entry.is_external:
        return entry.name, tuple(scope.name for scope in entry.scopes), entry.block
    return entry.name, tuple(scope.name for scope in entry.scopes), entry.block, entry.file


def qualified_name(entry: NamedVariable) -> str:
    """Return a variable's qualified name: ``scope::x``, ``/block/x``."""
    if entry.block is not None:
        return f"/{'' if entry.block == BLANK else entry.block}/{entry.name}"
    return shortened("::".join((*(scope.name for scope in entry.scopes if scope.name), entry.name)))


def best(candidates: Sequence[StaticVariable], name: VariableName) -> list[StaticVariable]:
    """Return the variables that *name* means, one per place. If some have a place or a constant value, the others are
    left out. If *name* has scopes, and some variables have exactly this name, the others are left out, too.
    """
    unique: dict[object, StaticVariable] = {}
    for variable in candidates:
        key: object = (variable.module.start, variable.mechanism, variable.offset)
        if variable.mechanism is None:
            key = (variable.module.start, variable.name, variable.file)
        unique.setdefault(key, variable)
    variables = list(unique.values())
    placed = [variable for variable in variables if variable.mechanism is not None or variable.constant is not None]
    variables = placed or variables
    if name.scopes:
        spelling = "::".join((*name.scopes, name.name))
        exact = [variable for variable in variables if canonical(variable.name) == canonical(spelling)]
        variables = exact or variables
    return variables


def distinguished(variables: Sequence[StaticVariable]) -> list[StaticVariable]:
    """Return the variables with distinct names, sorted by name.

    Names that several of them have are preceded by the name of the file or the module.
    """
    if len(variables) < 2:
        return list(variables)
    named = [_in_file(v) if "::" not in v.name and "/" not in v.name else v for v in variables]
    for qualify in (_in_file, in_module):
        shared = {v.name for v in named if sum(other.name == v.name for other in named) > 1}
        named = [qualify(v) if v.name in shared else v for v in named]
    return sorted(named, key=lambda variable: variable.name)


def _in_file(variable: StaticVariable) -> StaticVariable:
    file = (variable.file or "").rpartition("/")[2]
    if not file or variable.name.startswith(f"{file}::"):
        return variable
    return replace(variable, name=f"{file}::{variable.name}")


def in_module(variable: StaticVariable) -> StaticVariable:
    """Return the variable with its name prefixed by the module's name."""
    return replace(variable, name=f"{variable.module.name.rpartition('/')[2]}::{variable.name}")
