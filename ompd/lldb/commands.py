"""The commands at LLDB's prompt. Only LLDB has a command that hides frames."""

from __future__ import annotations

from collections.abc import Mapping

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.errors import Unsupported
from ompd.frontends import commands as shared
from ompd.frontends.commands import PromptCommand
from ompd.frontends.walking import WALKS
from ompd.lldb.debugger import Lldb
from ompd.lldb.hiding import Hiding
from ompd.lldb.walking import BreakCommand, WalkCommand

CAN_HIDE = hasattr(lldb.SBFrame, "IsHidden")
"""Whether LLDB can hide frames. Earlier versions accepted recognisers, but never asked them."""

_SINCE_WHEN = "LLDB 20 and later can; ompd stack leaves them out in every version"


class FramesCommand(shared.SwitchCommand[Lldb]):
    """``ompd bt on|off``: lets LLDB's own commands hide or show the frames of OpenMP runtimes."""

    name = "bt"
    summary = "Hide OpenMP runtimes' frames in bt, up and down, or show them."
    explanation = (
        "With `on`, the default if this LLDB can do it, LLDB's own `bt`, `up` and `down` leave out the frames of OpenMP"
        " runtimes, and an editor shows them as subtle. `bt -u` shows all frames. Without on or off, prints the current"
        " setting."
    )
    examples = (("bt off", ""),)

    def switch(self, debugger: Lldb, on: bool) -> None:
        """Hide the frames from now on, or show them again.

        :raises Unsupported: if this LLDB cannot
        """
        if on and not CAN_HIDE:
            raise Unsupported(_cannot_hide(debugger), hint=_SINCE_WHEN)
        debugger.state.hides = on
        if CAN_HIDE:
            Hiding(debugger).switch(on)

    def describe(self, debugger: Lldb) -> str:
        """Return the current setting, and its meaning, or why it cannot be changed."""
        if not CAN_HIDE:
            return f"off: {_cannot_hide(debugger)}, {_SINCE_WHEN}"
        if not Hiding(debugger).is_on():
            return "off: bt, up and down show the frames of OpenMP runtimes"
        return "on: bt, up and down leave out the frames of OpenMP runtimes; bt -u shows them"


def _cannot_hide(debugger: Lldb) -> str:
    return f"LLDB {debugger.version().partition('.')[0]} cannot leave frames out"


class StatusCommand(shared.StatusCommand[Lldb]):
    """``ompd status``: the versions, the process and its runtimes."""

    summary = explanation = "Versions of ompd and LLDB, the process, its runtimes, settings."

    def settings(self, debugger: Lldb) -> Mapping[str, str]:
        """Return whether frames are hidden."""
        return {"bt": FramesCommand().describe(debugger).partition(":")[0]}


COMMANDS: tuple[PromptCommand[Lldb], ...] = (
    *shared.SHARED,
    BreakCommand(),
    *(WalkCommand(name) for name in WALKS),
    FramesCommand(),
    StatusCommand(),
)
