"""Automatic output at stops: the line of ``ompd auto``, and a line if a runtime begins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.contract.ompd import DLL_LOCATIONS_VALID
from ompd.debugger.targets.lldb.target import stop_of
from ompd.errors import NoAnswer, OmpdError
from ompd.frontends.prompt import clean_lines
from ompd.lldb.debugger import State, state_of
from ompd.render.summary import format_summary
from ompd.render.words import clean


class StopHook:
    """Prints the line of ``ompd auto``. LLDB makes one for each target."""

    def __init__(self, target: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._state = state_of(internal_dict)

    def handle_stop(self, exe_ctx: Any, stream: Any) -> bool:
        """Print the line of ``ompd auto``, once per stop. Return True, so that the program stays stopped."""
        with suppress(BaseException):
            process = exe_ctx.GetProcess()
            if self._state.auto and self._state.said != stop_of(process):
                self._state.said = stop_of(process)
                line = _line(self._state, process, exe_ctx.GetThread().GetThreadID())
                if line is not None:
                    stream.Print(line + "\n")
        return True


def _line(state: State, process: Any, thread: int | None) -> str | None:
    try:
        return format_summary(state.session(process).ask_threads(), thread)
    except NoAnswer as error:
        if process.GetStopID() <= 1:
            return None  # the program has not loaded its libraries yet
        return clean_lines(f"OpenMP: {str(error).removeprefix(f'process {process.GetProcessID()}: ')}")
    except OmpdError as error:
        return clean_lines(f"OpenMP: {error}")


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
        if state_of(internal_dict).auto:
            print(clean(f"OpenMP: {frame.GetModule().GetFileSpec().GetFilename()} has begun"))
    return False
