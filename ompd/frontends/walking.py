"""Arguments and texts of the commands for breakpoints by OpenMP number and for steps through regions and tasks."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.errors import BadInput
from ompd.frontends.selecting import split_options
from ompd.model import StackFrame
from ompd.questions.walking import WayOut
from ompd.records import record
from ompd.render.words import basename, clean
from ompd.short_names import short_name


@record
class BreakRequest:
    """A breakpoint at ``place``, for threads with the number ``thread`` in their team, in regions at ``level``.

    ``thread`` and ``level`` are None for any.
    """

    place: str
    thread: int | None
    level: int | None


def parse_break(words: Sequence[str]) -> BreakRequest:
    """Return the request in the words after ``break``.

    :raises BadInput: if the words are not valid
    """
    # --omp-thread is the old name of --thread.
    rest, given = split_options("break", words, numbers=("thread", "omp-thread", "level"), short={"l": "level"})
    if not rest:
        raise BadInput("break needs LOCATION: a line or function", hint="ompd break prog.c:12 --thread 1")
    return BreakRequest(" ".join(rest), given.get("thread", given.get("omp-thread")), given.get("level"))


def format_threads(request: BreakRequest) -> str:
    """Return a text with the threads of a breakpoint, ``""`` for all threads."""
    if request.thread is None:
        return f", in regions of level {request.level}" if request.level is not None else ""
    level = f" of the team at level {request.level}" if request.level is not None else ""
    return f", in OpenMP thread {request.thread}{level}"


def parse_walk(command: str, words: Sequence[str]) -> bool:
    """Return whether the other threads stand still during ``step``, ``next`` or ``finish``.

    :raises BadInput: if the words are not valid
    """
    rest, given = split_options(command, words, flags=("only",) if command != "finish" else ())
    if rest:
        raise BadInput(f"{command} takes no {rest[0]!r}", hint=f"ompd {command}")
    return "only" in given


STEP, NEXT, FINISH, BREAK = "step", "next", "finish", "break"

SUMMARIES = {
    STEP: "Step into the region or task that the line begins, or into a function, in one thread.",
    NEXT: "Step over a line in one thread, out of a region where its code ends.",
    FINISH: "Run to the end of the region or task that the thread is in.",
    BREAK: "Stop at a line or function, once in a region's code, by OpenMP number if wanted.",
}

_ONLY = (
    "Options:\n      --only   The other threads stand meanwhile. Where the line begins a region they run until its code"
    " is reached:\n               a team forms only with them.\n"
)
_ALONE = " Breakpoints of yours count for this thread alone while it runs."

_HELP = {
    STEP: "At a line that begins a parallel region, runs until this thread is in the region's code. At a line that"
    " begins a task, runs until a thread executes the task. At any other line it steps into the called function or to"
    f" the next line, past the code of the runtime and of the C library.{_ALONE} Ctrl-C ends it where the thread is.",
    NEXT: "Steps to the next line of the same function, over regions and tasks as over functions. At the end of the"
    " code of a region or task it goes on as finish does.",
    FINISH: "Runs until the region or task that the thread is in has ended, and stops where the program goes on:"
    " after a region in its primary thread, which is then selected, after a task in the code that waited.",
    BREAK: "Sets a breakpoint. LOCATION is what the debugger takes, as prog.c:12 or a function. Of a line of a region"
    " or task it is in the code that the threads execute, not in what begins it. With --thread the program stops"
    " for the thread with that number in the team of its innermost region, with --level as well in that of the region"
    " at that level; --level alone is for regions of that level.",
}


def format_help(command: str, prompt: str) -> str:
    """Return the help of one of the commands."""
    if command == BREAK:
        return (
            f"{_HELP[BREAK]}\n\n  {prompt}ompd break prog.c:12 --thread 1\n\n"
            "Options:\n      --thread N   Only for the thread with this OpenMP number.\n"
            "  -l, --level L    In the team of the region at this level.\n"
        )
    return f"{_HELP[command]}\n\n  {prompt}ompd {command}\n" + (f"\n{_ONLY}" if command != FINISH else "")


def describe_end(way: WayOut) -> str:
    """Return the message that the region or task of *way* has ended."""
    construct = way.ends.construct if way.ends is not None else None
    kind = construct.kind if construct is not None and construct.kind is not None else "construct"
    kind = "region" if kind == "parallel" else kind
    at = ""
    if construct is not None and construct.file is not None:
        at = clean(f" {basename(construct.file)}:{construct.line}")
    return f"the {kind}{at} has ended" if way.ends is not None else "the region has ended"


def place_of(frame: StackFrame) -> str:
    """Return function and line of a frame."""
    at = f" {basename(frame.file)}:{frame.line}" if frame.file is not None and frame.line is not None else ""
    return clean(f"{short_name(frame.function or '??')}{at}")
