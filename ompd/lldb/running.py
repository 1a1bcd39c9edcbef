"""Running the process in LLDB from one stop to another, for the commands that walk.

After each run, the breakpoints that were set for it are deleted, and the user's breakpoints are unchanged. This also
holds if the program ends or gets a signal, if Ctrl-C stops it, or if an error is raised.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.errors import OmpdError, TargetGone
from ompd.frontends.walker import CONTINUE, Ended, Halt, Point, surely
from ompd.frontends.walking import STEP
from ompd.inspection import Inspection
from ompd.lldb.debugger import Lldb, run_command, thread_with
from ompd.lldb.interrupts import Interrupts

_OF_USERS = (lldb.eStopReasonBreakpoint, lldb.eStopReasonWatchpoint, lldb.eStopReasonSignal, lldb.eStopReasonException)


class Driver:
    """Runs the program in LLDB; see :class:`ompd.frontends.walker.Driver`."""

    def __init__(self, debugger: Lldb, interrupts: Interrupts) -> None:
        self._debugger, self._state = debugger.debugger, debugger.state
        self._interrupts = interrupts
        self._process = debugger.process()
        self._target = self._process.GetTarget()

    def session(self) -> Inspection:
        """Return a session on the present stop."""
        return self._state.session(self._process)

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        """Run *thread* until its step is done, or until a thread reaches one of *points*."""
        walking = self._thread(thread)
        self._process.SetSelectedThread(walking)
        walking.SetSelectedFrame(0)
        mode = lldb.eOnlyThisThread if only else lldb.eAllThreads
        with self._synchronous(), self._alone(thread), self._temporary(points) as made:
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
            halt = self._halt(thread, made)
            if self._interrupts.noted and isinstance(halt, Halt):
                # LLDB stops the process by a signal, which any thread may receive.
                self.select(thread)
                halt = Halt(thread, why="Ctrl-C")
            if command != CONTINUE and isinstance(halt, Halt) and (halt.points or halt.why):
                self._forget_plan(walking)
            return halt

    def _halt(self, thread: int, made: Sequence[tuple[Point, int]]) -> Halt | Ended:
        process = self._process
        if process.GetState() == lldb.eStateExited:
            status = process.GetExitStatus()
            return Ended(status if status >= 0 else None)  # negative if LLDB lost its server
        if process.GetState() not in (lldb.eStateStopped, lldb.eStateCrashed):
            raise TargetGone("the process does not stop", hint="process interrupt")
        # A thread's stop reason may still be an earlier breakpoint, from which the thread has not moved.
        reasons: list[tuple[bool, bool, int, str]] = []
        is_done = process.GetThreadByID(thread).GetStopReason() == lldb.eStopReasonPlanComplete
        for each in process:
            reason = each.GetStopReason()
            if reason not in _OF_USERS or (is_done and _is_trap(each)):
                continue
            hit = _numbers(each) if reason == lldb.eStopReasonBreakpoint else set()
            reached = [point for point, number in made if number in hit]
            if reached:
                return Halt(each.GetThreadID(), reached)
            why, native = each.GetStopDescription(100) or "something else", each.GetThreadID()
            reasons.append((reason == lldb.eStopReasonBreakpoint, native != thread, native, why))
        for _, _, native, why in sorted(reasons):
            return Halt(native, why=why)
        return Halt(thread)

    def _forget_plan(self, thread: Any) -> None:
        # Otherwise LLDB would continue the interrupted step, and stop at its end.
        with suppress(OmpdError):
            if thread.IsValid():
                run_command(self._debugger, "thread plan discard 1", thread)

    @contextmanager
    def _synchronous(self) -> Iterator[None]:
        asynchronous = self._debugger.GetAsync()
        try:
            self._debugger.SetAsync(False)
            yield
        finally:
            surely(lambda: self._debugger.SetAsync(asynchronous))

    @contextmanager
    def _alone(self, thread: int) -> Iterator[None]:
        # Restrict the user's breakpoints to one thread.
        changed: list[int] = []

        def undo() -> None:
            for number in changed:
                point = self._target.FindBreakpointByID(number)
                if point.IsValid() and point.GetThreadID() == thread:
                    point.SetThreadID(lldb.LLDB_INVALID_THREAD_ID)

        try:
            for point in self._target.breakpoint_iter():
                if point.IsEnabled() and not point.IsInternal() and point.GetThreadID() == lldb.LLDB_INVALID_THREAD_ID:
                    changed.append(point.GetID())
                    point.SetThreadID(thread)
            yield
        finally:
            surely(undo)

    @contextmanager
    def _temporary(self, points: Sequence[Point]) -> Iterator[list[tuple[Point, int]]]:
        made: list[tuple[Point, int]] = []
        before = {one.GetID() for one in self._target.breakpoint_iter()}

        def undo() -> None:
            # Ctrl-C may have come before a breakpoint's number was noted.
            ours = {number for _, number in made}
            for number in [one.GetID() for one in self._target.breakpoint_iter()]:
                if number in ours or (number not in before and len(made) < len(points)):
                    self._target.BreakpointDelete(number)

        try:
            for point in points:
                one = self._target.BreakpointCreateByAddress(point.address)
                made.append((point, one.GetID()))
                if point.thread is not None:
                    one.SetThreadID(point.thread)
            yield made
        finally:
            surely(undo)

    # Facts about threads

    def _thread(self, native: int) -> Any:
        return thread_with(self._process, native)

    def pc(self, thread: int) -> int:
        """Return the program counter of a thread."""
        return int(self._thread(thread).GetFrameAtIndex(0).GetPC())

    def select(self, thread: int) -> None:
        """Select a thread, and its innermost frame."""
        found = self._thread(thread)
        self._process.SetSelectedThread(found)
        found.SetSelectedFrame(0)

    def name(self, thread: int) -> str:
        """Return LLDB's name for a thread."""
        return f"LLDB's thread #{self._thread(thread).GetIndexID()}"

    def behind_prologue(self, entry: int) -> int:
        """Return the address behind the prologue of the function that begins at *entry*."""
        return entry + prologue_of(self._target.ResolveLoadAddress(entry))


def prologue_of(address: Any) -> int:
    """Return the prologue's size of the function that begins at an ``SBAddress``, 0 if none begins there."""
    function, symbol = address.GetFunction(), address.GetSymbol()
    for each in (function, symbol):
        if each.IsValid() and each.GetStartAddress() == address:
            return int(each.GetPrologueByteSize())
    return 0


def _is_trap(thread: Any) -> bool:
    # Return whether SIGTRAP stopped a thread. LLDB 22 reports this signal if a thread comes to the breakpoint of
    # another thread's step when that step ends.
    return bool(
        thread.GetStopReason() == lldb.eStopReasonSignal and thread.GetStopReasonDataAtIndex(0) == signal.SIGTRAP
    )


def _numbers(thread: Any) -> set[int]:
    # Return the numbers of the breakpoints that a thread has hit. LLDB's stop data have two numbers for each hit: that
    # of the breakpoint, and that of its location.
    return {thread.GetStopReasonDataAtIndex(n) for n in range(0, thread.GetStopReasonDataCount(), 2)}
