"""Automatic output at stops: the line of ``ompd auto``, and a line if a runtime begins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.contract.ompd import DLL_LOCATIONS_VALID
from ompd.debugger.targets.lldb.target import stop_of
from ompd.lldb.debugger import Lldb, state_of
from ompd.render.words import clean


class StopHook:
    """Prints the line of ``ompd auto``. LLDB makes one for each target."""

    def __init__(self, target: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._state = state_of(internal_dict)

    def handle_stop(self, exe_ctx: Any, stream: Any) -> bool:
        """Print the line of ``ompd auto``, once per stop. Return True, so that the program stays stopped."""
        with suppress(BaseException):
            stop = stop_of(exe_ctx.GetProcess())
            if self._state.prints_stops and self._state.last_printed != stop:
                self._state.last_printed = stop
                line = Lldb(exe_ctx.GetTarget().GetDebugger(), self._state, exe_ctx).summary()
                if line:
                    stream.Print(line + "\n")
        return True


class Arming:
    """Sets a breakpoint's location in each loaded module that has the symbol. LLDB makes one ``Arming`` for each such
    breakpoint.
    """

    def __init__(self, breakpoint: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._breakpoint = breakpoint

    def __callback__(self, context: Any) -> bool:
        """Add a location to the breakpoint if the module of *context* has the symbol ``ompd_dll_locations_valid``.

        Return True, so that LLDB goes on to the next module.
        """
        with suppress(BaseException):
            symbol = context.GetModule().FindSymbol(DLL_LOCATIONS_VALID)
            if symbol.IsValid():
                self._breakpoint.AddLocation(symbol.GetStartAddress())
        return True

    def __get_depth__(self) -> int:
        return int(lldb.eSearchDepthModule)

    def get_short_help(self) -> str:
        """Return the text for ``breakpoint list``."""
        return "ompd: an OpenMP runtime begins"


def note_begin(frame: Any, location: Any, internal_dict: dict[str, Any]) -> bool:
    """Print that a runtime has begun. Return False, so that the program continues."""
    with suppress(BaseException):
        if state_of(internal_dict).prints_stops:
            print(clean(f"OpenMP: {frame.GetModule().GetFileSpec().GetFilename()} has begun"))
    return False
