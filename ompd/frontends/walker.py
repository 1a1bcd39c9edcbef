"""Steps through the code of regions and tasks, for any debugger that runs the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ompd.errors import NoAnswer, OmpdError, TargetGone
from ompd.frontends.debugger import Debugger
from ompd.frontends.selecting import innermost_of_users
from ompd.frontends.walking import FINISH, STEP, describe_end, place_of
from ompd.model import StackFrame
from ompd.questions import walking
from ompd.questions.walking import Begun, WayOut

_MOST_STEPS = 64  # how often a command steps on while the thread is in code that is not the user's
CONTINUE = "continue"
_NEXT_LINE = "the next line"


class Point(NamedTuple):
    """A breakpoint: an address, and the native id of the thread that stops there, None for any thread."""

    address: int
    thread: int | None


class Halt(NamedTuple):
    """The reason why a run has ended: the ``points`` that were reached, else ``why`` as text.

    ``why`` is None if the command is complete. ``thread`` is the native id of the thread that stopped.
    """

    thread: int
    points: Sequence[Point] = ()
    why: str | None = None


class Ended(NamedTuple):
    """The program has ended, with exit ``code``, None if that is unknown."""

    code: int | None = None


class Runner(Protocol):
    """Runs the program in a debugger."""

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        """Let *thread* step or continue until the command is complete or one of *points* is reached.

        The other threads run too, unless *only* is True. The breakpoints at *points* are removed in any case.
        """
        ...

    def pc(self, thread: int) -> int:
        """Return the program counter of a thread."""
        ...

    def behind_prologue(self, entry: int) -> int:
        """Return the address after the prologue of the function at *entry*, at which its variables are set up."""
        ...

    def report(self) -> Sequence[str]:
        """Return texts about the last stop that the debugger has not printed itself."""
        ...


def surely(undo: Callable[[], None]) -> None:
    """Call *undo* until it completes. Ctrl-C may interrupt it; then it is called again.

    :raises KeyboardInterrupt: after *undo* has completed, if Ctrl-C interrupted it
    """
    interrupted = False
    while True:
        try:
            undo()
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


class Walker:
    """A command that steps *thread*. With *only*, the other threads do not run while it steps through plain code."""

    def __init__(self, debugger: Debugger, runner: Runner, thread: int, *, only: bool = False) -> None:
        self._debugger, self._runner, self._thread, self._only = debugger, runner, thread, only

    def walk(self, command: str) -> str:
        """Run ``step``, ``next`` or ``finish``, and return a message for the user, ``""`` for none."""
        frame = self._user_frame()
        if command == FINISH:
            return self._leave(self._way_out(has_left=frame is None))
        if frame is None:
            way = self._way_out_or_none(has_left=True)
            return self._leave(way) if way is not None else self._run_to(command, _NEXT_LINE, None) or ""
        begun = self._constructs_begun_in(frame) if command == STEP else ()
        return self._enter(begun, frame) if begun else self._to_next_line(command, frame)

    # Where the thread is

    def _user_frame(self) -> StackFrame | None:
        return innermost_of_users(self._debugger.session(), self._thread)

    def _is_innermost(self, frame: StackFrame | None) -> bool:
        # Return whether the thread is in *frame* itself, not in a function that the frame called.
        return frame is not None and self._runner.pc(self._thread) == frame.address

    def _is_at_another_line(self) -> bool:
        # Return whether the thread, which has just returned from a call, is at the beginning of another line.
        return_address, places = self._runner.pc(self._thread), self._debugger.session().process.places
        return places.line_of(return_address) != places.line_of(return_address - 1)

    def _constructs_begun_in(self, frame: StackFrame) -> Sequence[Begun]:
        session, is_innermost = self._debugger.session(), self._is_innermost(frame)
        with suppress(OmpdError):
            return session.ask(lambda asked: walking.begun_by(asked, frame, innermost=is_innermost))
        return ()

    def _way_out(self, *, has_left: bool) -> WayOut:
        thread = self._thread
        return self._debugger.session().ask(lambda session: walking.way_out(session, thread, has_left=has_left))

    def _way_out_or_none(self, *, has_left: bool) -> WayOut | None:
        with suppress(NoAnswer):
            return self._way_out(has_left=has_left)
        return None

    # Where it goes

    def _run(self, command: str, points: Sequence[Point], goal: str) -> Halt:
        only = self._only and command != CONTINUE
        halt = self._runner.run(self._thread, command, points, only=only)
        if isinstance(halt, Ended):
            status = f" with status {halt.code}" if halt.code is not None else ""
            raise TargetGone(f"the program ended{status} before it came to {goal}")
        return halt

    def _run_to(self, command: str, goal: str, way: WayOut | None, addresses: Sequence[int] = ()) -> str | None:
        # Run until the command is complete, the thread reaches one of the addresses, or the region ends at the way out.
        # Return a message, None if the command is complete or an address is reached.
        points = [Point(address, self._thread) for address in addresses]
        exit_point = Point(way.address, way.thread) if way is not None else None
        if exit_point is not None:
            points.append(exit_point)
        while True:
            halt = self._run(command, points, goal)
            if way is not None and exit_point in halt.points:
                frame = innermost_of_users(self._debugger.session(), way.thread)
                if frame is not None and frame.cfa == way.cfa:
                    return self._describe_end(way)
                continue  # a different call of the same function
            if halt.points or halt.why is None:
                return None
            return f"stopped by {halt.why} before it came to {goal}"

    def _leave(self, way: WayOut) -> str:
        goal = f"the end of the region or task, in {place_of(way.frame)}"
        return self._run_to(CONTINUE, goal, way) or "stopped before the region or task has ended"

    def _describe_end(self, way: WayOut) -> str:
        self._debugger.select_thread(way.thread)
        if way.thread == self._thread:
            return describe_end(way)
        name = self._debugger.thread_name(way.thread)
        return f"{describe_end(way)}; the program goes on in {name}, which is selected"

    def _enter(self, begun: Sequence[Begun], frame: StackFrame) -> str:
        # Run to a region's code in this thread, or to a task's code in any thread.
        goal = f"the code that {place_of(frame)} begins"
        addresses = [self._runner.behind_prologue(code.entry) for code in begun]
        any_thread = any(code.is_task is not False for code in begun)
        while True:
            points = [Point(address, None if any_thread else self._thread) for address in addresses]
            halt = self._run(CONTINUE, points, goal)
            if not halt.points:
                return f"stopped by {halt.why or 'something else'} before it came to {goal}"
            if halt.thread == self._thread:
                self._debugger.select_thread(halt.thread)
                return ""
            if all(code.is_task for code in begun) or self._executes_task(halt.thread):
                self._debugger.select_thread(halt.thread)
                return f"{self._debugger.thread_name(halt.thread)} executes the task, and is selected"
            any_thread = False  # another thread of the region's team was first; wait for this thread

    def _executes_task(self, thread: int) -> bool:
        (row,) = self._debugger.session().ask_stacks(thread=thread).rows
        construct = next((frame.construct for frame in row.frames if frame.construct is not None), None)
        return construct is not None and (construct.kind or "").startswith("task")

    def _to_next_line(self, command: str, first: StackFrame) -> str:
        # Step with the debugger's own command, return from code that is not the user's, and leave a region if its code
        # ends.
        way = self._way_out_or_none(has_left=False)
        frame: StackFrame | None = first
        for _ in range(_MOST_STEPS):
            if frame is None:
                return self._run_on()
            steps = self._is_innermost(frame)
            if steps:
                message = self._run_to(command, _NEXT_LINE, way)
            else:
                message = self._run_to(CONTINUE, place_of(frame), way, [frame.address or 0])
            if message is not None:
                return message
            frame = self._user_frame()
            if self._is_innermost(frame) and (steps or self._is_at_another_line()):
                return ""
            if way is not None and (frame is None or _is_outer(frame, first)):
                return self._leave(way)
        raise NoAnswer("the thread stays in code that is not yours", hint="ompd finish")

    def _run_on(self) -> str:
        # The thread has no user frame any more: main has returned to the C library, for example. Stay if the stack was
        # not read to its end.
        (row,) = self._debugger.session().ask_stacks(thread=self._thread).rows
        return self._run_to(CONTINUE, _NEXT_LINE, None) or "" if row.stopped is None else ""


def _is_outer(frame: StackFrame, than: StackFrame) -> bool:
    return frame.cfa is not None and than.cfa is not None and frame.cfa > than.cfa
