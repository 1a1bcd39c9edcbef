"""Whose code is at an address: the user's, an OpenMP runtime's, or that of the C and compiler libraries that both use.

By module, where a module has one owner. A runtime that is linked into the program, or into a library of the user's,
shares its module with the user; then the names of its routines tell. A program that is linked statically has the C
library in it too, whose routines nobody can list; but they come without debug information, and what has some is the
user's. So is what a compiler made of an OpenMP construct: the C library has none. An entry of a linkage table, by which
a module calls another one's routines, is the loader's, whatever module it is in."""

from __future__ import annotations

from collections.abc import Collection

from ompd import naming
from ompd.contract.process import Module, Process

USER, RUNTIME, SYSTEM, UNKNOWN = "user", "runtime", "system", "unknown"


def entry_of(process: Process, address: int) -> int | None:
    """Return where the function begins whose code is at *address*, None if there is no symbol.

    Of a part that a compiler put elsewhere since it is seldom executed (``.cold``), that is where the function itself
    begins.
    """
    place = process.locate(address)
    if place.symbol is None:
        return None
    whole_name = naming.without_cold(place.symbol)
    if whole_name is None:
        return place.symbol_address
    # Functions of one name, as static ones of several files, cannot be distinguished.
    known = process.symbols_with_prefix(whole_name)
    whole = {at for name, at in known if name == whole_name and process.module_at(at) is place.module}
    return whole.pop() if len(whole) == 1 else None


def construct_passed(process: Process, pc: int, routine: int | None) -> int | None:
    """Return where the function of a construct begins that the call before *pc* passes to a runtime's routine, None
    if that is unknown.

    :param routine: where that begins, which may have been jumped to; None if its name is unknown
    """
    found = {
        at for at in process.addresses_passed(pc, routine) if naming.is_construct_code(process.locate(at).symbol or "")
    }
    return found.pop() if len(found) == 1 else None


def owner(process: Process, runtimes: Collection[Module], address: int, whole: Collection[Module] = ()) -> str:
    """Return whose code is at *address*: ``user``, ``runtime``, ``system``, or ``unknown`` if that is unknown.

    :param runtimes: the modules that hold an OpenMP runtime
    :param whole: those of them that hold nothing else, whatever their functions are called
    """
    module = process.module_at(address)
    if module is None:
        return UNKNOWN
    if module.is_system_library:
        return SYSTEM
    if naming.is_runtime_file(module.name) or module in whole:
        return RUNTIME  # also if its file is not available
    if process.is_linkage(address):
        return SYSTEM
    if module not in runtimes:
        return USER
    symbol = process.locate(address).symbol
    if symbol is None:
        return UNKNOWN
    if naming.is_runtime_symbol(symbol):
        return RUNTIME
    if module.is_program and not any(other.is_system_library for other in process.modules()):
        is_users = process.line_of(address) != (None, None) or naming.is_construct(symbol)
        return USER if is_users else UNKNOWN
    return USER
