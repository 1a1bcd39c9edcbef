"""The commands that only LLDB has: selecting a thread of a team, writing a snapshot, hiding frames, what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

import ompd
from ompd.commands.prompt import clean_lines, format_runtimes
from ompd.commands.selecting import without_library
from ompd.debugger.targets.lldb.target import check_stopped
from ompd.errors import BadInput, OmpdError, Unsupported
from ompd.lldb.frames import Frames
from ompd.lldb.prompts import (
    FIRST_UNPRINTABLE,
    LIBRARY_HELP,
    LIBRARY_OPTION,
    PROMPT,
    Prompt,
    Switch,
    process_of,
    run_command,
)
from ompd.render.words import describe_snapshot, format_count

CAN_HIDE = hasattr(lldb.SBFrame, "IsHidden")
"""Whether LLDB can leave frames out. Before it had this attribute, it accepted recognisers and never called them."""

_SINCE_WHEN = "LLDB 20 and later can; ompd stack leaves them out in every version"


class SnapshotCommand(Prompt):
    """``ompd snapshot FILE``: write a small core of the process."""

    summary = "Write a small core to send to somebody else."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Write the file, and say what is in it."""
        words, library = without_library(words)
        keep = "--keep-env" in words
        rest = [word for word in words if word not in ("--keep-env", "--debug", "-o", "--output")]
        if len(rest) != 1 or rest[0].startswith("-"):
            raise BadInput("snapshot takes the name of the file to write", hint="ompd snapshot small.core")
        session = self._state.session(process_of(debugger, exe_ctx), library)
        taken = session.snapshot(rest[0], keep_environment=keep)
        problems = [f"ompd: warning: {problem}" for problem in taken.problems]
        return "\n".join([describe_snapshot(taken), *problems])

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options."""
        return {
            "keep-env": {
                "short_option": chr(FIRST_UNPRINTABLE),
                "required": False,
                "help": "Keep the whole environment and the folders in arguments.",
            },
            **LIBRARY_OPTION,
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
            " command works on it, without those files.\n\n"
            f"  {PROMPT}ompd snapshot small.core\n\n"
            "Options:\n      --keep-env   Keep the whole environment and the folders in arguments.\n"
            f"{LIBRARY_HELP}"
        )

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeFilename, "repeat": "plain"}]]


class FramesCommand(Switch):
    """``ompd bt on|off``: whether LLDB's own commands leave out the frames of OpenMP runtimes."""

    name = "bt"
    summary = "Hide OpenMP runtimes' frames in bt, up and down, or show them."

    def switch(self, debugger: Any, on: bool) -> None:
        """Leave them out from now on, or no more.

        :raises Unsupported: if this LLDB cannot
        """
        if on and not CAN_HIDE:
            raise Unsupported(_cannot_hide(debugger), hint=_SINCE_WHEN)
        self._state.hides = on
        if CAN_HIDE:
            frames_of(debugger, self.script).switch(on)

    def tell(self, debugger: Any) -> str:
        """Return the current setting, and what it means or why it cannot be changed."""
        return _describe_frames(debugger, self.script)

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "With `on`, the default if this LLDB can do it, LLDB's own `bt`, `up` and `down` leave out the frames of"
            " OpenMP runtimes, and an editor shows them as subtle. `bt -u` shows all frames. Without on or off, prints"
            f" the current setting.\n\n  {PROMPT}ompd bt off\n"
        )


def _cannot_hide(debugger: Any) -> str:
    return f"LLDB {_version(debugger).partition('.')[0]} cannot leave frames out"


def _describe_frames(debugger: Any, script: str) -> str:
    if not CAN_HIDE:
        return f"off: {_cannot_hide(debugger)}, {_SINCE_WHEN}"
    if not frames_of(debugger, script).are_on():
        return "off: bt, up and down show the frames of OpenMP runtimes"
    return "on: bt, up and down leave out the frames of OpenMP runtimes; bt -u shows them"


def frames_of(debugger: Any, script: str) -> Frames:
    """Return the recognisers of frames in the targets of *debugger*; *script* is as in :class:`Prompt`."""
    return Frames(debugger, lambda text, target: run_command(debugger, text, target), script)


def _version(debugger: Any) -> str:
    return str(debugger.GetVersionString()).splitlines()[0].removeprefix("lldb version ")


class StatusCommand(Prompt):
    """``ompd status``: what these commands see."""

    summary = "Versions of ompd and LLDB, the process, its runtimes, settings."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return a line for each of it."""
        process = process_of(debugger, exe_ctx)
        lines = [
            f"ompd      {ompd.__version__}, {Path(ompd.__file__).resolve().with_name('lldb_script.py')}",
            f"lldb      {_version(debugger)}",
            f"process   {self._of_process(process)}",
            *(f"runtime   {text}" for text in self._of_runtimes(process)),
            f"auto      {'on' if self._state.auto else 'off'}",
            f"bt        {_describe_frames(debugger, self.script).partition(':')[0]}",
        ]
        return clean_lines("\n".join(lines))

    def _of_process(self, process: Any) -> str:
        try:
            check_stopped(lldb, process)
        except OmpdError as error:
            return str(error).removeprefix("process ")
        kind = "core file" if process.GetPluginName().endswith("-core") else "stopped"
        return f"{process.GetProcessID()}, {kind}, {format_count(process.GetNumThreads(), 'thread')}"

    def _of_runtimes(self, process: Any) -> list[str]:
        try:
            answer = self._state.session(process).ask_runtimes()
        except OmpdError:
            return []
        return format_runtimes(answer)
