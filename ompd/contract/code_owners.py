"""The owner of the code at an address: the user, an OpenMP runtime, or the C and compiler libraries that both use.

Most modules have one owner. A runtime that is linked into the program or into a user's library shares its module with
user code; the names of the runtime's routines tell them apart. A static program also contains the C library. The C
library has no debug information and no OpenMP constructs, so code with either is the user's. An entry of a linkage
table, through which a module calls another module's routines, counts as the loader's in any module.
"""

from __future__ import annotations

from collections.abc import Collection

from ompd import naming
from ompd.contract.process import Module, Process

USER, RUNTIME, SYSTEM, UNKNOWN = "user", "runtime", "system", "unknown"


def entry_of(process: Process, address: int) -> int | None:
    """Return the start of the function whose code is at *address*, None if there is no symbol.

    Compilers move seldom executed parts of a function elsewhere (``.cold``). For code in such a part, return the start
    of the function itself, None if several functions of the module have its name.
    """
    place = process.locate(address)
    if place.symbol is None:
        return None
    whole_name = naming.without_cold(place.symbol)
    if whole_name is None:
        return place.symbol_address
    # Several files may each have a static function of this name, which cannot be told apart.
    symbols = process.symbols_with_prefix(whole_name)
    starts = {start for name, start in symbols if name == whole_name and process.module_at(start) is place.module}
    return starts.pop() if len(starts) == 1 else None


def construct_passed(process: Process, pc: int, routine: int | None) -> int | None:
    """Return the start of the construct's function that the call before *pc* passes to a runtime's routine, None if it
    is unknown.

    :param routine: the start of the called routine, which the call may have reached by a jump; None if the routine's
        name is unknown
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
    :param whole: modules that hold nothing but a runtime, so that all their functions are the runtime's, whatever their
        names
    """
    module = process.module_at(address)
    if module is None:
        return UNKNOWN
    if module.is_system_library:
        return SYSTEM
    if naming.is_runtime_file(module.name) or module in whole:
        return RUNTIME  # even without its file
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
