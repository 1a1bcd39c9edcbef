"""Running the process in LLDB from one stop to another, for the commands that walk.

After each run, the breakpoints that were set for it are deleted, and the user's breakpoints are unchanged. This also
holds if the program ends or gets a signal, if Ctrl-C stops it, or if an error is raised.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.errors import OmpdError, TargetGone
from ompd.frontends.walker import CONTINUE, Ended, Halt, Point, surely
from ompd.frontends.walking import STEP
from ompd.lldb.code import LldbCode
from ompd.lldb.debugger import Lldb, run_command, thread_with
from ompd.lldb.interrupts import Interrupts

_OF_USERS = (lldb.eStopReasonBreakpoint, lldb.eStopReasonWatchpoint, lldb.eStopReasonSignal, lldb.eStopReasonException)


class LldbRunner:
    """Runs the program in LLDB; see :class:`ompd.frontends.walker.Runner`."""

    def __init__(self, debugger: Lldb, interrupts: Interrupts) -> None:
        self._debugger, self._interrupts = debugger, interrupts
        self._process = debugger.process()
        self._target = self._process.GetTarget()

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        """Run *thread* until its step is done, or until a thread reaches one of *points*."""
        self._debugger.select_thread(thread)
        walking = thread_with(self._process, thread)
        mode = lldb.eOnlyThisThread if only else lldb.eAllThreads
        with self._synchronous(), self._alone(thread), self._temporary(points) as breakpoints:
            self._interrupts.runs = True
            try:
                if command == CONTINUE:
                    error = self._process.Continue()
                    if error.Fail():
                        raise OmpdError(f"LLDB cannot run the program on: {error.GetCString()}")
                elif command == STEP:
                    walking.StepInto(mode)
                else:
                    walking.StepOver(mode)
            finally:
                self._interrupts.runs = False
            self._debugger.exe_ctx = lldb.SBExecutionContext(self._process)  # LLDB may have selected another thread
            halt = self._halt(thread, breakpoints)
            if self._interrupts.noted and isinstance(halt, Halt):
                # LLDB stops the process by a signal, which any thread may receive.
                self._debugger.select_thread(thread)
                halt = Halt(thread, why="Ctrl-C")
            is_complete = isinstance(halt, Ended) or not (halt.points or halt.why)
            if command != CONTINUE and not is_complete and walking.IsValid():
                # Otherwise LLDB would continue the interrupted step, and stop at its end.
                with suppress(OmpdError):
                    run_command(self._debugger.debugger, "thread plan discard 1", walking)
            return halt

    def _halt(self, thread: int, breakpoints: Mapping[int, Point]) -> Halt | Ended:
        process = self._process
        if process.GetState() == lldb.eStateExited:
            status = process.GetExitStatus()
            return Ended(status if status >= 0 else None)  # negative if LLDB lost its server
        if process.GetState() not in (lldb.eStateStopped, lldb.eStateCrashed):
            raise TargetGone("the process does not stop", hint="process interrupt")
        is_step_done = process.GetThreadByID(thread).GetStopReason() == lldb.eStopReasonPlanComplete
        # A thread's stop reason may still be an earlier breakpoint, from which the thread has not moved. So breakpoints
        # of users come last.
        stops: list[tuple[bool, bool, int, str]] = []
        for stopped in process:
            native, reason = stopped.GetThreadID(), stopped.GetStopReason()
            is_at_breakpoint = reason == lldb.eStopReasonBreakpoint
            if is_at_breakpoint:
                reached = [point for number, point in breakpoints.items() if number in _breakpoints_hit(stopped)]
                if reached:
                    return Halt(native, reached)
            if reason in _OF_USERS and not (is_step_done and _is_trap(stopped)):
                why = stopped.GetStopDescription(100) or "something else"
                stops.append((is_at_breakpoint, native != thread, native, why))
        if stops:
            _, _, native, why = min(stops)
            return Halt(native, why=why)
        return Halt(thread)

    @contextmanager
    def _synchronous(self) -> Iterator[None]:
        debugger = self._debugger.debugger
        was_asynchronous = debugger.GetAsync()
        try:
            debugger.SetAsync(False)
            yield
        finally:
            surely(lambda: debugger.SetAsync(was_asynchronous))

    @contextmanager
    def _alone(self, thread: int) -> Iterator[None]:
        # Restrict the user's breakpoints to one thread.
        restricted: list[int] = []

        def undo() -> None:
            for number in restricted:
                breakpoint = self._target.FindBreakpointByID(number)
                if breakpoint.IsValid() and breakpoint.GetThreadID() == thread:
                    breakpoint.SetThreadID(lldb.LLDB_INVALID_THREAD_ID)

        try:
            for breakpoint in self._target.breakpoint_iter():
                is_for_any_thread = breakpoint.GetThreadID() == lldb.LLDB_INVALID_THREAD_ID
                if breakpoint.IsEnabled() and not breakpoint.IsInternal() and is_for_any_thread:
                    restricted.append(breakpoint.GetID())
                    breakpoint.SetThreadID(thread)
            yield
        finally:
            surely(undo)

    @contextmanager
    def _temporary(self, points: Sequence[Point]) -> Iterator[Mapping[int, Point]]:
        # Set breakpoints at *points* while the context lasts, and yield the points by the breakpoints' numbers.
        numbered: dict[int, Point] = {}
        before = self._breakpoint_numbers()

        def undo() -> None:
            # Ctrl-C may have come before a breakpoint's number was noted.
            is_one_missing = len(numbered) < len(points)
            for number in self._breakpoint_numbers():
                if number in numbered or (number not in before and is_one_missing):
                    self._target.BreakpointDelete(number)

        try:
            for point in points:
                breakpoint = self._target.BreakpointCreateByAddress(point.address)
                numbered[breakpoint.GetID()] = point
                if point.thread is not None:
                    breakpoint.SetThreadID(point.thread)
            yield numbered
        finally:
            surely(undo)

    def _breakpoint_numbers(self) -> set[int]:
        return {breakpoint.GetID() for breakpoint in self._target.breakpoint_iter()}

    def pc(self, thread: int) -> int:
        """Return the program counter of a thread."""
        return int(thread_with(self._process, thread).GetFrameAtIndex(0).GetPC())

    def behind_prologue(self, entry: int) -> int:
        """Return the address at which LLDB would stop in the function that begins at *entry*."""
        return LldbCode(self._target).behind_prologue(entry)

    def report(self) -> Sequence[str]:
        """Return the place of the stop."""
        return [self._debugger.where()]


def _is_trap(thread: Any) -> bool:
    # Return whether SIGTRAP stopped a thread. LLDB 22 reports this signal if a thread comes to the breakpoint of
    # another thread's step when that step ends.
    return bool(
        thread.GetStopReason() == lldb.eStopReasonSignal and thread.GetStopReasonDataAtIndex(0) == signal.SIGTRAP
    )


def _breakpoints_hit(thread: Any) -> set[int]:
    # Return the numbers of the breakpoints that a thread has hit. LLDB's stop data have two numbers for each hit: that
    # of the breakpoint, and that of its location.
    return {thread.GetStopReasonDataAtIndex(n) for n in range(0, thread.GetStopReasonDataCount(), 2)}
