"""Steps through the code of regions and tasks, for any debugger that runs the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ompd.errors import NoAnswer, OmpdError, TargetGone
from ompd.frontends.selecting import innermost_of_users
from ompd.frontends.walking import FINISH, STEP, describe_end, place_of
from ompd.inspection import Inspection
from ompd.model import StackFrame
from ompd.questions import walking
from ompd.questions.walking import Begun, WayOut

_MOST_STEPS = 64  # how often a command steps on while the thread is in code that is not the user's
CONTINUE = "continue"


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


class Driver(Protocol):
    """A debugger that runs the program."""

    def session(self) -> Inspection:
        """Return a session on the current stop."""
        ...

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        """Let *thread* step or continue until the command is complete or one of *points* is reached.

        The other threads run too, unless *only* is True. The breakpoints at *points* are removed in any case.
        """
        ...

    def pc(self, thread: int) -> int:
        """Return the program counter of a thread."""
        ...

    def select(self, thread: int) -> None:
        """Select a thread, and its innermost frame."""
        ...

    def name(self, thread: int) -> str:
        """Return the debugger's name of a thread."""
        ...

    def behind_prologue(self, entry: int) -> int:
        """Return the address after the prologue of the function at *entry*, at which its variables are set up."""
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

    def __init__(self, driver: Driver, thread: int, *, only: bool = False) -> None:
        self._driver, self._thread, self._only = driver, thread, only

    def walk(self, command: str) -> str:
        """Run ``step``, ``next`` or ``finish``, and return a message for the user, ``""`` for none."""
        frame = self._here()
        if command == FINISH:
            return self._leave(has_left=frame is None)
        if frame is None:
            if self._way(has_left=True) is not None:
                return self._leave(has_left=True)
            return self._go(command, "the next line", None) or ""
        begun = self._begun(frame) if command == STEP else ()
        return self._enter(begun, frame) if begun else self._line(command, frame)

    # Where the thread is

    def _here(self) -> StackFrame | None:
        return innermost_of_users(self._driver.session(), self._thread)

    def _is_in(self, frame: StackFrame | None) -> bool:
        # Return whether the thread is in *frame* itself, not in a function that the frame called.
        return frame is not None and self._driver.pc(self._thread) == frame.address

    def _begun(self, frame: StackFrame) -> Sequence[Begun]:
        is_innermost = self._is_in(frame)
        with suppress(OmpdError):
            return self._driver.session().ask(lambda each: walking.begun_by(each, frame, innermost=is_innermost))
        return ()

    def _way(self, *, has_left: bool = False) -> WayOut | None:
        try:
            return self._way_out(has_left=has_left)
        except NoAnswer:
            return None

    def _way_out(self, *, has_left: bool) -> WayOut:
        return self._driver.session().ask(lambda each: walking.way_out(each, self._thread, has_left=has_left))

    # Where it goes

    def _run(self, command: str, points: Sequence[Point], what: str) -> Halt:
        only = self._only and command != CONTINUE
        halt = self._driver.run(self._thread, command, points, only=only)
        if isinstance(halt, Ended):
            code = f" with status {halt.code}" if halt.code is not None else ""
            raise TargetGone(f"the program ended{code} before it came to {what}")
        return halt

    def _go(self, command: str, what: str, way: WayOut | None, points: Sequence[int] = ()) -> str | None:
        # Run until the command is complete, the thread reaches one of the points, or the region ends at the way out.
        # Return a message, None if the command is complete or a point is reached.
        out = Point(way.address, way.thread) if way is not None else None
        wanted = [Point(address, self._thread) for address in points]
        while True:
            halt = self._run(command, [*wanted, *((out,) if out is not None else ())], what)
            if out in halt.points and way is not None:
                now = innermost_of_users(self._driver.session(), way.thread)
                if now is not None and now.cfa == way.cfa:
                    return self._ended(way)
                continue  # a different call of the same function
            if halt.points or halt.why is None:
                return None
            return f"stopped by {halt.why} before it came to {what}"

    def _leave(self, *, has_left: bool) -> str:
        way = self._way_out(has_left=has_left)
        return self._out(way)

    def _out(self, way: WayOut) -> str:
        told = self._go(CONTINUE, f"the end of the region or task, in {place_of(way.frame)}", way)
        return told if told is not None else "stopped before the region or task has ended"

    def _ended(self, way: WayOut) -> str:
        self._driver.select(way.thread)
        if way.thread == self._thread:
            return describe_end(way)
        return f"{describe_end(way)}; the program goes on in {self._driver.name(way.thread)}, which is selected"

    def _enter(self, begun: Sequence[Begun], frame: StackFrame) -> str:
        # Run to a region's code in this thread, or to a task's code in any thread.
        what = f"the code that {place_of(frame)} begins"
        addresses = [self._driver.behind_prologue(each.entry) for each in begun]
        of_any = any(each.is_task is not False for each in begun)
        while True:
            points = [Point(address, None if of_any else self._thread) for address in addresses]
            halt = self._run(CONTINUE, points, what)
            if not halt.points:
                return f"stopped by {halt.why or 'something else'} before it came to {what}"
            if halt.thread == self._thread:
                self._driver.select(halt.thread)
                return ""
            if all(each.is_task for each in begun) or self._executes_task(halt.thread):
                self._driver.select(halt.thread)
                return f"{self._driver.name(halt.thread)} executes the task, and is selected"
            of_any = False  # another thread of the region's team was first; wait for this thread

    def _executes_task(self, thread: int) -> bool:
        (row,) = self._driver.session().ask_stacks(thread=thread).rows
        construct = next((frame.construct for frame in row.frames if frame.construct is not None), None)
        return construct is not None and (construct.kind or "").startswith("task")

    def _line(self, command: str, frame: StackFrame) -> str:
        # Step with the debugger's own command, return from code that is not the user's, and leave a region if its code
        # ends.
        way = self._way()
        here: StackFrame | None = frame
        for _ in range(_MOST_STEPS):
            if here is None:
                return self._run_on()
            steps = self._is_in(here)
            if steps:
                message = self._go(command, "the next line", way)
            else:
                message = self._go(CONTINUE, place_of(here), way, [here.address or 0])
            if message is not None:
                return message
            here = self._here()
            if self._is_in(here) and (steps or self._is_at_next_line()):
                return ""
            if way is not None and (here is None or _is_outer(here, frame)):
                return self._out(way)
        raise NoAnswer("the thread stays in code that is not yours", hint="ompd finish")

    def _is_at_next_line(self) -> bool:
        # Return whether the thread, which has just returned from a call, is at the beginning of another line.
        return_address, places = self._driver.pc(self._thread), self._driver.session().process.places
        return places.line_of(return_address) != places.line_of(return_address - 1)

    def _run_on(self) -> str:
        # The thread is in no code of the user's any more: main has returned to the C library, for example.
        (row,) = self._driver.session().ask_stacks(thread=self._thread).rows
        is_certain = row.stopped is None
        return (self._go(CONTINUE, "the next line", None) or "") if is_certain else ""


def _is_outer(frame: StackFrame, than: StackFrame) -> bool:
    return frame.cfa is not None and than.cfa is not None and frame.cfa > than.cfa
