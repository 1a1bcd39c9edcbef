"""Running the inferior in gdb from one stop to another, for the commands that walk.

After each run, the breakpoints that were set for it are deleted, and the user's breakpoints are unchanged. This also
holds if the program ends or gets a signal, if Ctrl-C stops it, or if an error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.errors import OmpdError, TargetGone
from ompd.frontends.walker import CONTINUE, Ended, Halt, Point, surely
from ompd.gdb.code import GdbCode
from ompd.gdb.debugger import Gdb, thread_of

_LOCKING = "scheduler-locking"
_INTERRUPT = "SIGINT"


class GdbRunner:
    """Runs the program in gdb; see :class:`ompd.frontends.walker.Runner`."""

    def __init__(self, debugger: Gdb) -> None:
        self._debugger = debugger
        self._began_in = gdb.newest_frame()
        self._has_printed = False  # whether gdb has printed the place itself

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        """Run *thread* until its step is done, or until a thread reaches one of *points*."""
        walking = thread_of(thread)
        if thread_selected() != walking:
            walking.switch()
        gdb.newest_frame().select()
        quiet = command != CONTINUE and not _has_watchpoints()
        with _alone(walking, others_stand=only), _temporary(points) as numbers:
            stop = _run(command, quiet=quiet)
        if stop.has_ended or not gdb.selected_inferior().pid:
            return Ended(stop.exit_status)
        reached = [point for point, number in zip(points, numbers, strict=True) if number in stop.numbers]
        self._has_printed = not quiet and not reached
        try:
            stopped_thread = self._debugger.selected_thread()
        except TargetGone:  # the program is ending
            return Ended(stop.exit_status)
        if reached:
            return Halt(stopped_thread, reached)
        if stop.signal == _INTERRUPT and stopped_thread != thread:
            # Ctrl-C is meant for the whole program, but any thread may receive the signal.
            self._has_printed = False
            self._debugger.select_thread(thread)
        if stop.signal is not None:
            return Halt(stopped_thread, why=stop.signal)
        return Halt(stopped_thread, why=f"breakpoint {', '.join(map(str, stop.numbers))}" if stop.numbers else None)

    def pc(self, thread: int) -> int:
        """Return the program counter of a thread."""
        thread_of(thread).switch()
        return int(gdb.newest_frame().pc())

    def behind_prologue(self, entry: int) -> int:
        """Return the address at which gdb would stop in the function that begins at *entry*."""
        return GdbCode().behind_prologue(entry)

    def report(self) -> Sequence[str]:
        """Return the place unless gdb has printed it, only its line in the frame of the beginning; and the summary."""
        place = self._debugger.where()
        frame, _, line = place.partition("\n")
        is_mid_line = frame.startswith("#0  0x")
        if line and not is_mid_line and self._began_in == gdb.newest_frame():
            place = line
        return ["" if self._has_printed else place, self._debugger.summary()]


class _Stop:
    # The reason of a stop: the breakpoints hit, the signal if there was one, and whether the inferior has ended.

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.signal: str | None = None
        self.has_ended = False
        self.exit_status: int | None = None

    def note_stop(self, event: Any) -> None:
        self.numbers = [point.number for point in getattr(event, "breakpoints", ())]
        self.signal = getattr(event, "stop_signal", None)

    def note_exit(self, event: Any) -> None:
        self.has_ended = True
        self.exit_status = getattr(event, "exit_code", None)


def _has_watchpoints() -> bool:
    # Return whether gdb would print more than the place at a point of the user, such as the values of a watchpoint.
    return any(point.enabled and point.type != gdb.BP_BREAKPOINT for point in gdb.breakpoints() or ())


def _run(command: str, *, quiet: bool) -> _Stop:
    # Run the inferior by one of gdb's commands, and return why it stopped. With *quiet*, gdb prints no place.
    stop = _Stop()
    gdb.events.stop.connect(stop.note_stop)
    gdb.events.exited.connect(stop.note_exit)
    try:
        gdb.execute(f"with suppress-cli-notifications on -- {command}" if quiet else command, to_string=True)
    except gdb.error as error:
        raise OmpdError(f"gdb cannot run the program on: {error}") from error
    finally:
        gdb.events.stop.disconnect(stop.note_stop)
        gdb.events.exited.disconnect(stop.note_exit)
    return stop


class _Temporary(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
    # A breakpoint that is deleted after the run. The object is added to *to_delete* before gdb creates the breakpoint,
    # because Ctrl-C may come between any two steps.

    def __init__(self, to_delete: list[_Temporary], point: Point) -> None:
        to_delete.append(self)
        super().__init__(f"*{point.address:#x}", internal=True)
        self.silent = True
        if point.thread is not None:
            self.thread = thread_of(point.thread).global_num


@contextmanager
def _temporary(points: Sequence[Point]) -> Iterator[list[int]]:
    # Set breakpoints at *points* while the context lasts, and yield their numbers.
    to_delete: list[_Temporary] = []

    def undo() -> None:
        for breakpoint in to_delete:
            with suppress(gdb.error, RuntimeError):
                if breakpoint.is_valid():  # gdb deletes a thread's breakpoints when the thread ends
                    breakpoint.delete()

    try:
        yield [_Temporary(to_delete, point).number for point in points]
    finally:
        surely(undo)


@contextmanager
def _alone(thread: Any, *, others_stand: bool) -> Iterator[None]:
    # Restrict the user's breakpoints to *thread*, a gdb.InferiorThread, while the context lasts. With *others_stand*
    # only this thread runs.
    # This is done by conditions, because gdb deletes breakpoints with a ``thread`` when the thread ends.
    conditions: list[tuple[Any, str | None, str]] = []
    locking = gdb.parameter(_LOCKING)

    def undo() -> None:
        if others_stand:
            with suppress(gdb.error):
                gdb.execute(f"set {_LOCKING} {locking}", to_string=True)
        for breakpoint, users_condition, our_condition in conditions:
            with suppress(gdb.error, RuntimeError):
                if breakpoint.is_valid() and breakpoint.condition == our_condition:
                    breakpoint.condition = users_condition

    try:
        for breakpoint in gdb.breakpoints() or ():
            is_users = breakpoint.is_valid() and breakpoint.number > 0
            if is_users and breakpoint.enabled and breakpoint.thread is None:
                with suppress(gdb.error):
                    users_condition = breakpoint.condition
                    our_condition = f"$_gthread == {thread.global_num}"
                    if users_condition:
                        our_condition += f" && ({users_condition})"
                    conditions.append((breakpoint, users_condition, our_condition))
                    breakpoint.condition = our_condition
        if others_stand:
            gdb.execute(f"set {_LOCKING} on", to_string=True)
        yield
    finally:
        surely(undo)
