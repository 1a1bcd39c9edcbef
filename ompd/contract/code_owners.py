"""The owner of the code at an address: the user, an OpenMP runtime, or the C and compiler libraries that both use.

Most modules have one owner. A runtime that is linked into the program, or into a library of the user's, shares its
module with the user; the names of its routines distinguish it. A static program also has the C library in it, which has
no debug information and no OpenMP constructs: code with either is the user's. An entry of a linkage table, by which a
module calls another one's routines, is the loader's in any module.
"""

from __future__ import annotations

from collections.abc import Collection

from ompd import naming
from ompd.contract.process import Module, Process

USER, RUNTIME, SYSTEM, UNKNOWN = "user", "runtime", "system", "unknown"


def entry_of(process: Process, address: int) -> int | None:
    """Return the start of the function whose code is at *address*, None if there is no symbol.

    For a part that a compiler put elsewhere because it is seldom executed (``.cold``), it is the start of the function
    itself.
    """
    place = process.locate(address)
    if place.symbol is None:
        return None
    whole_name = naming.without_cold(place.symbol)
    if whole_name is None:
        return place.symbol_address
    # Functions with the same name, such as static ones of several files, cannot be distinguished.
    symbols = process.symbols_with_prefix(whole_name)
    starts = {start for name, start in symbols if name == whole_name and process.module_at(start) is place.module}
    return starts.pop() if len(starts) == 1 else None


def construct_passed(process: Process, pc: int, routine: int | None) -> int | None:
    """Return the start of the function of a construct that the call before *pc* passes to a runtime's routine, None if
    it is unknown.

    :param routine: the start of the routine, which a jump may have reached; None if its name is unknown
    """
    functions = {
        address
        for address in process.addresses_passed(pc, routine)
        if naming.is_construct_code(process.locate(address).symbol or "")
    }
    return functions.pop() if len(functions) == 1 else None


def owner(process: Process, runtimes: Collection[Module], address: int, whole: Collection[Module] = ()) -> str:
    """Return the owner of the code at *address*: ``user``, ``runtime``, ``system``, or ``unknown``.

    :param runtimes: the modules that hold an OpenMP runtime
    :param whole: the modules of them that hold only the runtime, also in functions with other names
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
