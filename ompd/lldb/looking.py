"""Looking where a thread is: selecting it by its OpenMP number, and printing the variables that its code sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd import naming
from ompd.commands.printing import OPTIONS, SUMMARY, format_help, format_printed, parse_request
from ompd.commands.prompt import clean_lines
from ompd.commands.selecting import (
    format_current,
    format_selected,
    innermost_of_users,
    member_of,
    native_of,
    parse_thread,
    region_of,
    without_library,
)
from ompd.errors import TargetGone
from ompd.lldb.prompts import (
    LIBRARY_HELP,
    LIBRARY_OPTION,
    NO_COMPLETION,
    PROMPT,
    Prompt,
    process_of,
    run_command,
    thread_of,
)
from ompd.model import StackFrame
from ompd.questions import printing
from ompd.questions.printing import At

_MOST_FRAMES = 256  # between the innermost frame of a thread and the first of the user's


def select_frame(thread: Any, wanted: StackFrame) -> bool:
    """Select LLDB's frame for the frame *wanted* of *thread*, and return whether it has one."""
    for number in range(_MOST_FRAMES):
        frame = thread.GetFrameAtIndex(number)
        if not frame.IsValid():
            return False
        if frame.GetPC() == wanted.address and frame.GetCFA() == wanted.cfa:
            return bool(thread.SetSelectedFrame(number).IsValid())
    return False


def selected_at(thread: Any, exe_ctx: Any) -> At:
    """Return the frame of *thread* that is selected."""
    frame = exe_ctx.GetFrame()
    frame = frame if frame.IsValid() else thread.GetSelectedFrame()
    name = (frame.GetFunctionName() or "").partition("(")[0]
    outlined = naming.parse_outlined(name)
    sp = frame.GetSP()
    return At(sp if sp != lldb.LLDB_INVALID_ADDRESS else None, outlined.parent if outlined is not None else name)


def where(debugger: Any, thread: Any) -> str:
    """Return what LLDB prints of the selected frame of *thread*."""
    number = thread.GetSelectedFrame().GetFrameID()
    # Colours would be printed as what they are made of: of an escape nobody can tell whether LLDB has written it.
    colors = debugger.GetUseColor()
    debugger.SetUseColor(False)
    try:
        return clean_lines(run_command(debugger, f"frame select {number}", thread).rstrip("\n").expandtabs())
    finally:
        debugger.SetUseColor(colors)


class ThreadCommand(Prompt):
    """``ompd thread N``: select a thread by its OpenMP number, and its innermost frame of the user's."""

    summary = "Select a thread of the team by its OpenMP number."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Select the thread, and return where it is; without a number, which one is selected."""
        rest, library = without_library(words)
        number, level = parse_thread(rest)
        process = process_of(debugger, exe_ctx)
        session = self._state.session(process, library)
        here = thread_of(process, exe_ctx)
        if number is None and level is None:
            told = format_current(session, here.GetThreadID(), f"LLDB's thread #{here.GetIndexID()}")
            return f"{told}\n{where(debugger, here)}"
        region = region_of(session, here.GetThreadID(), level)
        native = member_of(region, here.GetThreadID(), number or 0)
        begins = any(row.native_thread_id == native and row.about_to_begin for row in session.ask_threads().rows)
        frame = innermost_of_users(session, native)
        thread = process.GetThreadByID(native)
        if not thread.IsValid() or not process.SetSelectedThread(thread):
            raise TargetGone(f"LLDB has no thread {native}")
        has_frame = frame is not None and select_frame(thread, frame)
        name = f"LLDB's thread #{thread.GetIndexID()}"
        return f"{format_selected(region, number or 0, name, begins, has_frame)}\n{where(debugger, thread)}"

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options."""
        return {
            "level": {
                "short_option": "l",
                "required": False,
                "help": "Take the team of the enclosing region at this level.",
                "value_type": lldb.eArgTypeUnsignedInteger,
                "completion_type": NO_COMPLETION,
                "dest": "level",
                "default": 0,
            },
            **LIBRARY_OPTION,
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that"
            " of its innermost region, or with --level that of an enclosing one; and in it the innermost frame of your"
            " code. Without a number it says which thread is selected.\n\n"
            f"  {PROMPT}ompd thread 2\n  {PROMPT}ompd thread --level 1 0\n\n"
            f"Options:\n  -l, --level L    Take the team of the enclosing region at this level.\n{LIBRARY_HELP}"
        )

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeUnsignedInteger, "repeat": "optional"}]]

    def handle_argument_completion(self, words: Sequence[str], position: int, cursor: int) -> dict[str, list[str]]:
        """Complete the number of a thread."""
        typed = words[position][:cursor] if position < len(words) else ""
        return {"values": [number for number in self.thread_numbers() if number.startswith(typed)]}


class PrintCommand(Prompt):
    """``ompd print NAME``: a variable as the code sees it where the selected thread is."""

    summary = SUMMARY

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return the variable's line."""
        rest, library = without_library(words)
        request = parse_request(rest)
        process = process_of(debugger, exe_ctx)
        session = self._state.session(process, library)
        thread = thread_of(process, exe_ctx)
        here = thread.GetThreadID()
        native = native_of(session, here, request.thread)
        at = selected_at(thread, exe_ctx) if native == here and request.frame is None else None
        found = session.ask(lambda each: printing.ask(each, request.name, native, at, request.frame))
        return format_printed(found, native, request.verbose)

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options."""
        numbers = {
            name: {
                "short_option": name[0],
                "required": False,
                "help": text,
                "value_type": lldb.eArgTypeUnsignedInteger,
                "completion_type": NO_COMPLETION,
                "dest": name,
            }
            for name, _, text in OPTIONS
        }
        verbose = {"short_option": "v", "required": False, "help": "Print its address, too."}
        return {**numbers, "verbose": verbose, **LIBRARY_OPTION}

    def help(self) -> str:
        """Return the help of the command."""
        return format_help(PROMPT) + LIBRARY_HELP

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeName, "repeat": "plus"}]]
