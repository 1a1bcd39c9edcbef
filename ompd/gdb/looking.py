"""Looking where a thread is: selecting it by its OpenMP number, and printing the variables that its code sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd import naming
from ompd.commands.printing import SUMMARY, format_help, format_printed, parse_request
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
from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import TargetGone
from ompd.gdb.prompts import LIBRARY_HELP, PROMPT, Prompt
from ompd.inspection import Inspection
from ompd.model import StackFrame
from ompd.questions import printing
from ompd.questions.printing import At

_MOST_FRAMES = 256  # between the innermost frame of a thread and the first of the user's


def selected_thread() -> Any:
    """Return the ``gdb.InferiorThread`` that is selected.

    :raises TargetGone: if none is
    """
    thread = thread_selected()
    if thread is None:
        raise TargetGone("no thread is selected", hint="thread 1")
    return thread


def cfa_of(frame: Any, stack_pointer: str) -> int | None:
    """Return the canonical frame address of a ``gdb.Frame``, None if it is unknown: what the stack pointer is in its
    caller.
    """
    with suppress(gdb.error):
        while frame is not None and frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        caller = frame.older() if frame is not None else None
        return int(caller.read_register(stack_pointer)) & (1 << 64) - 1 if caller is not None else None
    return None


def select_frame(session: Inspection, wanted: StackFrame) -> bool:
    """Select gdb's frame for the frame *wanted* of the selected thread, and return whether it has one."""
    with suppress(gdb.error):
        frame: Any = gdb.newest_frame()
        for _ in range(_MOST_FRAMES):
            if frame is None:
                return False
            # gdb ends a stack with main, whose caller would tell its address.
            cfa = cfa_of(frame, session.target.architecture.sp) if frame.pc() == wanted.address else 0
            if cfa in (wanted.cfa, None):
                frame.select()
                return True
            frame = frame.older()
    return False


def selected_at(session: Inspection) -> At | None:
    """Return the frame that is selected, None if none is."""
    with suppress(gdb.error):
        frame = gdb.selected_frame()
        name = frame.name() or ""
        outlined = naming.parse_outlined(name)
        sp = int(frame.read_register(session.target.architecture.sp)) & (1 << 64) - 1
        return At(sp, outlined.parent if outlined is not None else name)
    return None


def where() -> str:
    """Return what gdb prints of the selected frame."""
    # Colours would be printed as what they are made of: of an escape nobody can tell whether gdb has written it.
    return clean_lines(gdb.execute("with style sources off -- frame", to_string=True).rstrip("\n").expandtabs())


class ThreadCommand(Prompt):
    """``omp thread N``: select a thread by its OpenMP number, and its innermost frame of the user's."""

    name = "thread"
    summary = "Select a thread of the team by its OpenMP number."

    def run(self, words: Sequence[str]) -> str:
        """Select the thread, and return where it is; without a number, which one is selected."""
        rest, library = without_library(words)
        number, level = parse_thread(rest)
        session = self.state.session(library)
        here = selected_thread()
        if number is None and level is None:
            told = format_current(session, native_id(here), f"gdb's thread {here.num}")
            return f"{told}\n{where()}"
        threads = {native_id(thread): thread for thread in gdb.selected_inferior().threads()}
        region = region_of(session, native_id(here), level)
        native = member_of(region, native_id(here), number or 0)
        if native not in threads:
            raise TargetGone(f"gdb has no thread {native}")
        begins = any(row.native_thread_id == native and row.about_to_begin for row in session.ask_threads().rows)
        frame = innermost_of_users(session, native)
        threads[native].switch()
        has_frame = frame is not None and select_frame(session, frame)
        name = f"gdb's thread {threads[native].num}"
        return f"{format_selected(region, number or 0, name, begins, has_frame)}\n{where()}"

    def options(self) -> Mapping[str, Sequence[str]]:
        """Return the options."""
        return {"--level": (), "--ompd-library": ("named",), "--help": ()}

    def completions(self) -> Sequence[str]:
        """Return the numbers of the team."""
        return self.state.thread_numbers()

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that"
            " of its innermost region, or with --level that of an enclosing one; and in it the innermost frame of your"
            " code. Without a number it says which thread is selected.\n\n"
            f"  {PROMPT}ompd thread 2\n  {PROMPT}ompd thread --level 1 0\n\n"
            f"Options:\n  -l, --level L    Take the team of the enclosing region at this level.\n{LIBRARY_HELP}"
        )


class PrintCommand(Prompt):
    """``omp print NAME``: a variable as the code sees it where the selected thread is."""

    name = "print"
    summary = SUMMARY

    def run(self, words: Sequence[str]) -> str:
        """Return the variable's line."""
        rest, library = without_library(words)
        request = parse_request(rest)
        session = self.state.session(library)
        here = native_id(selected_thread())
        native = native_of(session, here, request.thread)
        at = selected_at(session) if native == here and request.frame is None else None
        found = session.ask(lambda each: printing.ask(each, request.name, native, at, request.frame))
        return format_printed(found, native, request.verbose)

    def options(self) -> Mapping[str, Sequence[str]]:
        """Return the options."""
        numbers = self.state.thread_numbers()
        return {"--thread": numbers, "--frame": (), "--verbose": (), "--ompd-library": ("named",), "--help": ()}

    def help(self) -> str:
        """Return the help of the command."""
        return format_help(PROMPT) + LIBRARY_HELP
