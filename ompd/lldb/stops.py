"""What happens by itself when the program stops: the line of ``ompd auto``, also where a runtime begins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.commands.prompt import clean_lines
from ompd.contract.ompd import DLL_LOCATIONS_VALID
from ompd.debugger.targets.lldb.target import stop_of
from ompd.errors import NoAnswer, OmpdError
from ompd.lldb.prompts import PROMPT, State, Switch, run_command, state_of
from ompd.render.summary import format_summary
from ompd.render.words import clean


class AutoCommand(Switch):
    """``ompd auto on|off``: a line at each stop."""

    name = "auto"
    summary = "Turn the OpenMP summary at each stop on or off."

    def switch(self, debugger: Any, on: bool) -> None:
        """Print them from now on, or no more."""
        self._state.auto = on
        if on:
            _hook(debugger, self._state, self.script)

    def tell(self, debugger: Any) -> str:
        """Return the current setting."""
        return "on" if self._state.auto else "off"

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "With `on`, each stop prints a line: how many threads are in how many regions, and what they do. A line"
            " also says when an OpenMP runtime begins; the program does not stop there.\n\n"
            f"  {PROMPT}ompd auto on\n"
        )


def _hook(debugger: Any, state: State, script: str) -> None:
    # LLDB has no way to make a stop hook but the command, and gives nobody its number: it stays, and may be silent. The
    # dummy is what every target is copied from that is made later.
    if state.hooked:
        return
    state.hooked = True
    targets = (debugger.GetTargetAtIndex(number) for number in range(debugger.GetNumTargets()))
    for target in (debugger.GetDummyTarget(), *targets):
        run_command(debugger, f"target stop-hook add -P {script}.StopHook", target)
        _arm(target, script)


class StopHook:
    """Prints the line of ``ompd auto``. LLDB makes one for each target."""

    def __init__(self, target: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._state = state_of(internal_dict)

    def handle_stop(self, exe_ctx: Any, stream: Any) -> bool:
        """Print, once a stop; True lets the program stop."""
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
            return None  # the program has not even loaded its libraries
        return clean_lines(f"OpenMP: {str(error).removeprefix(f'process {process.GetProcessID()}: ')}")
    except OmpdError as error:
        return clean_lines(f"OpenMP: {error}")


# A runtime passes this place once it is initialised. By name LLDB would skip what it takes for the beginning of a
# function, and this may be a label: so the breakpoint is at its address, in each module that is loaded. Only `ompd
# auto` needs it.


class Arming:
    """Finds the place of a breakpoint in each module that is loaded. LLDB makes one for each breakpoint."""

    def __init__(self, breakpoint: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._breakpoint = breakpoint

    def __callback__(self, context: Any) -> bool:
        """Add the place in the module of *context*, if it has it; True to go on."""
        with suppress(BaseException):
            symbol = context.GetModule().FindSymbol(DLL_LOCATIONS_VALID)
            if symbol.IsValid():
                self._breakpoint.AddLocation(symbol.GetStartAddress())
        return True

    def __get_depth__(self) -> int:
        return int(lldb.eSearchDepthModule)

    def get_short_help(self) -> str:
        """Return what ``breakpoint list`` shows."""
        return "ompd: an OpenMP runtime begins"


def note_begin(frame: Any, location: Any, internal_dict: dict[str, Any]) -> bool:
    """Print that a runtime has begun; False lets the program go on."""
    with suppress(BaseException):
        if state_of(internal_dict).auto:
            print(clean(f"OpenMP: {frame.GetModule().GetFileSpec().GetFilename()} has begun"))
    return False


def _arm(target: Any, script: str) -> None:
    armed = target.BreakpointCreateFromScript(
        f"{script}.Arming", lldb.SBStructuredData(), lldb.SBFileSpecList(), lldb.SBFileSpecList()
    )
    armed.AddName("ompd")
    armed.SetAutoContinue(True)
    armed.SetScriptCallbackFunction(f"{script}.note_begin")
