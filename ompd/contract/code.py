"""Whose code is at an address: the user's, an OpenMP runtime's, or that of the C and compiler libraries that both use.

By module, where a module has one owner. A runtime that is linked into the program, or into a library of the user's,
shares its module with the user; then the names of its routines tell. A program that is linked statically has the C
library in it too, whose routines nobody can list; but they come without debug information, and what has some is the
user's. So is what a compiler made of an OpenMP construct: the C library has none. An entry of a linkage table, by which
a module calls another one's routines, is the loader's, whatever module it is in."""

from __future__ import annotations

import re
from collections.abc import Collection

from ompd.contract.process import Module, Process

USER, RUNTIME, SYSTEM, UNKNOWN = "user", "runtime", "system", "unknown"

RUNTIME_FILE = re.compile(
    r"(?:^|/)lib(?:i?omp5?|gomp|omp_stub(?:_label)?)(?:-[0-9a-f]+)?\.so(?:\.\d+)*(?: \(deleted\))?$"
)
"""What the file of an OpenMP runtime is called, with or without folders, also where a package has renamed it."""

# What the sources of libomp and libgomp call their functions: entry points, their own, and C++ members by their mangled
# names.
_RUNTIME_SYMBOL = re.compile(
    r"_{0,3}(?:kmpc?|itt|ompt|ompd)_|__kmp|GOMP_|gomp_|ompc_|hwloc_"
    r"|omp_(?:get|set|unset|init|destroy|test|in|is|pause|display|capture|control|target|fulfill)_"
    r"|_Z\w*(?:__kmp|kmp_|__itt|__ompt|distributedBarrier|hierarchy_info)"
)

_CONSTRUCT = re.compile(r"\._omp_(?:cpy)?fn\.\d|\.omp_(?:outlined|task_entry)|^__omp_offloading_")


_COLD = re.compile(r"(.+?)\.cold(?:\.\d+)?")


def entry_of(process: Process, address: int) -> int | None:
    """Return where the function begins whose code is at *address*, None if there is no symbol.

    Of a part that a compiler put elsewhere since it is seldom executed (``.cold``), that is where the function itself
    begins.
    """
    place = process.locate(address)
    part = _COLD.fullmatch(place.symbol) if place.symbol is not None else None
    if part is None:
        return place.symbol_address if place.symbol is not None else None
    # Functions of one name, as static ones of several files, cannot be distinguished.
    known = process.symbols_with_prefix(part[1])
    whole = {at for name, at in known if name == part[1] and process.module_at(at) is place.module}
    return whole.pop() if len(whole) == 1 else None


def construct_passed(process: Process, pc: int, routine: int | None) -> int | None:
    """Return where the function of a construct begins that the call before *pc* passes to a runtime's routine, None
    if that is unknown.

    :param routine: where that begins, which may have been jumped to; None if its name is unknown
    """
    found = {at for at in process.addresses_passed(pc, routine) if is_construct_code(process.locate(at).symbol or "")}
    return found.pop() if len(found) == 1 else None


def is_runtime_file(name: str) -> bool:
    """Return whether a module's file is called as an OpenMP runtime is."""
    return RUNTIME_FILE.search(name) is not None


def is_runtime_symbol(symbol: str) -> bool:
    """Return whether *symbol*, of a module that holds an OpenMP runtime, is called as the runtime's functions are."""
    return _RUNTIME_SYMBOL.match(symbol) is not None


def is_construct_code(symbol: str) -> bool:
    """Return whether *symbol* is called as compilers call the code of a construct, which a runtime is to call."""
    return is_construct(symbol) and "._omp_cpyfn." not in symbol


def is_construct(symbol: str) -> bool:
    """Return whether *symbol* is called as compilers call what they make of an OpenMP construct; :mod:`ompd.outlined`
    has what such a name says.
    """
    return _CONSTRUCT.search(symbol) is not None


def owner(process: Process, runtimes: Collection[Module], address: int) -> str:
    """Return whose code is at *address*: ``user``, ``runtime``, ``system``, or ``unknown`` if that is unknown.

    :param runtimes: the modules that hold an OpenMP runtime
    """
    module = process.module_at(address)
    if module is None:
        return UNKNOWN
    if module.is_system_library:
        return SYSTEM
    if is_runtime_file(module.name):
        return RUNTIME  # also if its file is not available
    if process.is_linkage(address):
        return SYSTEM
    if module not in runtimes:
        return USER
    symbol = process.locate(address).symbol
    if symbol is None:
        return UNKNOWN
    if is_runtime_symbol(symbol):
        return RUNTIME
    if module.is_program and not any(other.is_system_library for other in process.modules()):
        is_users = process.line_of(address) != (None, None) or is_construct(symbol)
        return USER if is_users else UNKNOWN
    return USER
