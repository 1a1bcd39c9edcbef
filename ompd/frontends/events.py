"""The OpenMP events at which a debugger can stop the program: a runtime calls a routine ``ompd_bp_*`` for each.

OpenMP 5.2, 20.6. The environment decides, when a runtime is initialised, whether it calls these routines.
"""

from __future__ import annotations

from ompd.contract.memory import read_unsigned
from ompd.errors import Unavailable
from ompd.session import Session

EVENTS = ("parallel_begin", "parallel_end", "task_begin", "task_end", "thread_begin", "thread_end")

_STATE = "ompd_state"
_STATE_BREAKPOINTS = 1  # OMPD_ENABLE_BP of LLVM's ompd-specific.h
_NO_EVENTS = "the runtime passes its places for events only if the program was started with OMP_DEBUG=enabled"


def symbol_of(event: str) -> str:
    """Return the symbol of an event's routine."""
    return f"ompd_bp_{event}"


def check_events(session: Session) -> bool:
    """Return whether a runtime of the process has routines for events.

    :raises Unavailable: if an initialised runtime has them but does not call them
    """
    process, has_routines = session.process, False
    for runtime in session.runtimes:
        module = runtime.found.module
        if process.symbols.symbol_in(module, symbol_of(EVENTS[0])) is None:
            continue
        has_routines = True
        is_initialised = runtime.found.dll_locations(process.contract) is not None
        if not is_initialised:
            continue
        state_address = process.symbols.symbol_in(module, _STATE)
        if state_address is not None:
            calls = bool(read_unsigned(process.memory, state_address, 8) & _STATE_BREAKPOINTS)
        else:
            calls = runtime.space is not None and runtime.space.keeps_states()
        if not calls:
            raise Unavailable(_NO_EVENTS)
    return has_routines
