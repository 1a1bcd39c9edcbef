"""Texts of the commands for breakpoints by OpenMP number and for steps through regions and tasks."""

from __future__ import annotations

from collections.abc import Mapping

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


def format_threads(request: BreakRequest) -> str:
    """Return a text with the threads of a breakpoint, ``""`` for all threads."""
    if request.thread is None:
        return f", in regions of level {request.level}" if request.level is not None else ""
    level = f" of the team at level {request.level}" if request.level is not None else ""
    return f", in OpenMP thread {request.thread}{level}"


STEP, NEXT, FINISH = "step", "next", "finish"

_ALONE = "Breakpoints of yours count for this thread alone while it runs."
_ONLY = (
    "With --only the other threads stand meanwhile. At a line that begins a region they run until the region's code is"
    " reached, because a team forms only with them."
)

WALKS: Mapping[str, tuple[str, str]] = {
    STEP: (
        "Step into the region or task that the line begins, or into a function, in one thread.",
        "At a line that begins a parallel region, runs until this thread is in the region's code. At a line that begins"
        " a task, runs until a thread executes the task. At any other line it steps into the called function or to the"
        f" next line, past the code of the runtime and of the C library. {_ALONE} Ctrl-C ends it where the thread is."
        f" {_ONLY}",
    ),
    NEXT: (
        "Step over a line in one thread, out of a region where its code ends.",
        "Steps to the next line of the same function, over regions and tasks as over functions. At the end of the code"
        f" of a region or task it goes on as finish does. {_ONLY}",
    ),
    FINISH: (
        "Run to the end of the region or task that the thread is in.",
        "Runs until the region or task that the thread is in has ended, and stops where the program goes on: after a"
        " region in its primary thread, which is then selected, after a task in the code that waited.",
    ),
}
"""The commands that walk: summary and description by name."""


def describe_end(way: WayOut) -> str:
    """Return the message that the region or task of *way* has ended."""
    if way.ends is None:
        return "the region has ended"
    construct = way.ends.construct
    if construct is None:
        return "the construct has ended"
    kind = "region" if construct.kind == "parallel" else construct.kind or "construct"
    place = clean(f" {basename(construct.file)}:{construct.line}") if construct.file is not None else ""
    return f"the {kind}{place} has ended"


def place_of(frame: StackFrame) -> str:
    """Return function and line of a frame."""
    line = f" {basename(frame.file)}:{frame.line}" if frame.file is not None and frame.line is not None else ""
    return clean(f"{short_name(frame.function or '??')}{line}")
