"""The commands that only LLDB has: selecting a thread of a team, writing a snapshot, hiding frames, what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

import ompd
from ompd.debugger.targets.lldb.target import check_stopped
from ompd.errors import BadInput, NoAnswer, OmpdError, TargetGone, Unsupported
from ompd.lldb.control import LldbInspection
from ompd.lldb.frames import Frames
from ompd.lldb.prompts import FIRST_UNPRINTABLE, PROMPT, Prompt, Switch, cleaned, process_of, run_command, thread_of
from ompd.model import ParallelRecord, ThreadRecord
from ompd.render.words import describe_snapshot, format_count

CAN_HIDE = hasattr(lldb.SBFrame, "IsHidden")
"""Whether LLDB can leave frames out. Before it had this attribute, it accepted recognisers and never called them."""

_SINCE_WHEN = "LLDB 20 and later can; ompd stack leaves them out in every version"


class ThreadCommand(Prompt):
    """``ompd thread N``: select a thread by its OpenMP number."""

    summary = "Select a thread of the team by its OpenMP number."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Select the thread, and return where it is."""
        rest, library = _without_library(words)
        number, level = _parse_thread(rest)
        process = process_of(debugger, exe_ctx)
        session = self._state.session(process, library)
        here = thread_of(process, exe_ctx)
        region = _region(session, here.GetThreadID(), level)
        native = _member(session, region, here.GetThreadID(), number)
        thread = process.GetThreadByID(native)
        if not thread.IsValid() or not process.SetSelectedThread(thread):
            raise TargetGone(f"LLDB has no thread {native}")
        size = region.team_size if region is not None else 1
        at = region.level if region is not None else 0
        begins = any(row.native_thread_id == native and row.about_to_begin for row in session.ask_threads().rows)
        note = ", which is about to begin the region" if begins else ""
        where = lldb.SBStream()
        thread.GetStatus(where)
        known = f"OpenMP thread {number}/{size} at level {at} is LLDB's thread #{thread.GetIndexID()}{note}"
        return f"{known}\n{where.GetData()}"

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options."""
        return {
            "level": {
                "short_option": "l",
                "required": False,
                "help": "Take the team of the enclosing region at this level.",
                "value_type": lldb.eArgTypeUnsignedInteger,
                "completion_type": lldb.eNoCompletion,
                "dest": "level",
                "default": 0,
            },
            **_LIBRARY_OPTION,
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that"
            " of its innermost region, or with --level that of an enclosing one.\n\n"
            f"  {PROMPT}ompd thread 2\n  {PROMPT}ompd thread --level 1 0\n\n"
            "Options:\n  -l, --level L    Take the team of the enclosing region at this level.\n"
            f"      --ompd-library FILE|named   {_LIBRARY_HELP}\n"
        )

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeUnsignedInteger, "repeat": "plain"}]]


_LIBRARY_HELP = "Let an OMPD library answer."
_LIBRARY_OPTION: Mapping[str, Mapping[str, object]] = {
    "ompd-library": {
        "short_option": chr(FIRST_UNPRINTABLE + 1),
        "required": False,
        "help": _LIBRARY_HELP,
        "value_type": lldb.eArgTypeName,
        "dest": "ompd_library",
    }
}


def _without_library(words: Sequence[str]) -> tuple[list[str], str | None]:
    # The other words, and the OMPD library that is to answer, None if none is named.
    rest, library = [], None
    waiting = list(words)
    while waiting:
        word, equals, value = waiting.pop(0).partition("=")
        if word != "--ompd-library":
            rest.append(word + equals + value)
        elif equals or waiting:
            library = value if equals else waiting.pop(0)
        else:
            raise BadInput("--ompd-library needs a value: --ompd-library FILE|named")
    return rest, library


def _parse_thread(words: Sequence[str]) -> tuple[int, int | None]:
    rest, level = list(words), None
    for word in ("--level", "-l"):
        if word in rest:
            at = rest.index(word)
            level = _number(rest[at + 1] if at + 1 < len(rest) else "", "a level")
            del rest[at : at + 2]
    rest = [word for word in rest if word != "--debug"]
    if len(rest) != 1:
        raise BadInput("thread takes the OpenMP number of a thread", hint="ompd thread 2; ompd threads shows them")
    return _number(rest[0], "an OpenMP thread number"), level


def _number(word: str, what: str) -> int:
    if not word.isdecimal():
        raise BadInput(f"{word!r} is not {what}")
    return int(word)


def _region(session: LldbInspection, native: int, level: int | None) -> ParallelRecord | None:
    # The innermost region of the thread *native*, None outside of all, or the one at *level* around it. From a thread
    # that is in no team there is no other way to go than to the only one.
    regions = {(region.runtime, region.id): region for region in session.ask_parallel().rows}
    row = _row(session, native)
    if row is None and len(regions) != 1:
        raise BadInput(
            f"the selected thread, {native}, is in no team", hint="select one that is: ompd threads shows them"
        )
    if row is None:
        (only,) = regions.values()
        if level not in (None, only.level):
            raise BadInput(f"thread {native} is in no region of level {level}")
        return only
    region = regions.get((row.runtime or "", row.parallel or ""))
    if level == 0:
        raise BadInput("regions have levels from 1 on")
    while level is not None and region is not None and region.level != level:
        region = regions.get((region.runtime, region.enclosing or ""))
    if level is not None and region is None:
        raise BadInput(f"thread {native} is in no region of level {level}")
    return region


def _row(session: LldbInspection, native: int) -> ThreadRecord | None:
    # That of a thread of a team.
    rows = session.ask_threads().rows
    return next((row for row in rows if row.native_thread_id == native and row.thread_num is not None), None)


def _member(session: LldbInspection, region: ParallelRecord | None, native: int, number: int) -> int:
    members = region.threads if region is not None else (native,)
    if number >= len(members):
        size = format_count(len(members), "thread")
        raise BadInput(f"the team has {size}, 0 to {len(members) - 1}, and no {number}")
    found = members[number]
    if found is None:
        raise NoAnswer(f"which thread has number {number} could not be read")
    return found


class SnapshotCommand(Prompt):
    """``ompd snapshot FILE``: write a small core of the process."""

    summary = "Write a small core to send to somebody else."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Write the file, and say what is in it."""
        words, library = _without_library(words)
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
            **_LIBRARY_OPTION,
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
            " command works on it, without those files.\n\n"
            f"  {PROMPT}ompd snapshot small.core\n\n"
            "Options:\n      --keep-env   Keep the whole environment and the folders in arguments.\n"
            f"      --ompd-library FILE|named   {_LIBRARY_HELP}\n"
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
        return cleaned("\n".join(lines))

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
        states = {True: "keeps states", False: "keeps no states", None: "not initialised yet, or unreadable"}
        told = [f"{row.id} {row.version or ''}".rstrip() + f", {states[row.keeps_states]}" for row in answer.rows]
        return told or ["none is loaded"]
