"""Running the inferior in gdb from one stop to another, for the commands that walk.

After each run, the breakpoints that were set for it are deleted, and the user's breakpoints are unchanged. This also
holds if the program ends or gets a signal, if Ctrl-C stops it, or if an error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.errors import BadInput, OmpdError
from ompd.frontends.walker import Point, surely
from ompd.frontends.walking import Spot
from ompd.gdb.debugger import thread_of

_PLACE = re.compile(r"^(-?\d+)(\.\d+)? .*?(0x[0-9a-f]+)", re.MULTILINE)
_SYMBOL = re.compile(r"^(\S+)(?: \+ (\d+))? in section ")
_LOCKING = "scheduler-locking"


def symbol_at(address: int) -> tuple[str, int] | None:
    """Return the linker's name of the symbol around *address*, and the offset of *address* in it, in bytes.

    None if there is no symbol.
    """
    with suppress(gdb.error):
        found = _SYMBOL.match(gdb.execute(f"with print demangle off -- info symbol {address:#x}", to_string=True))
        if found is not None:
            return found[1], int(found[2] or 0)
    return None


def spots_of(location: str) -> list[Spot]:
    """Return the places at which gdb would stop for *location*. In a function this is behind the prologue.

    :raises BadInput: if there is no such place
    """
    try:
        made = gdb.Breakpoint(location, internal=True)
    except (gdb.error, RuntimeError) as error:
        raise BadInput(f"gdb has no place for {location!r}: {error}") from error
    try:
        if made.pending:
            raise BadInput(
                f"gdb has no place for {location!r}", hint="a line of the program, as prog.c:12, or a function"
            )
        listed = gdb.execute(f"maint info breakpoints {made.number}", to_string=True)
    finally:
        made.delete()
    rows = [(bool(row[2]), int(row[3], 16)) for row in _PLACE.finditer(listed)]
    addresses = [address for is_place, address in rows if is_place] or [address for _, address in rows]
    return [Spot(address, (symbol_at(address) or ("", 0))[0]) for address in addresses]


def expression_of(spot: Spot) -> str | None:
    """Return gdb's expression for the place, valid at any load address. None if gdb has no name for it."""
    known = symbol_at(spot.address)
    if known is None or "'" in known[0]:
        return None
    text = f"(char *) &'{known[0]}' + {known[1]}"
    with suppress(gdb.error):
        if int(gdb.parse_and_eval(f"(unsigned long) ({text})")) == spot.address:
            return f"*{text}"
    return None


class Stopped:
    """The reason of a stop: the breakpoints hit, the signal if there was one, and whether the inferior has ended."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.signal: str | None = None
        self.has_ended = False
        self.exit_status: int | None = None

    def note_stop(self, event: Any) -> None:
        """Note a stop, for gdb."""
        self.numbers = [point.number for point in getattr(event, "breakpoints", ())]
        self.signal = getattr(event, "stop_signal", None)

    def note_exit(self, event: Any) -> None:
        """Note the end of the inferior, for gdb."""
        self.has_ended = True
        self.exit_status = getattr(event, "exit_code", None)


def has_watchpoints() -> bool:
    """Return whether gdb would print more than the place at a point of the user, such as the values of a watchpoint."""
    return any(point.enabled and point.type != gdb.BP_BREAKPOINT for point in gdb.breakpoints() or ())


def run(command: str, *, quiet: bool) -> Stopped:
    """Run the inferior by one of gdb's commands, and return why it stopped. With *quiet*, gdb prints no place."""
    stopped = Stopped()
    events = gdb.events
    events.stop.connect(stopped.note_stop)
    events.exited.connect(stopped.note_exit)
    try:
        gdb.execute(f"with suppress-cli-notifications on -- {command}" if quiet else command, to_string=True)
    except gdb.error as error:
        raise OmpdError(f"gdb cannot run the program on: {error}") from error
    finally:
        events.stop.disconnect(stopped.note_stop)
        events.exited.disconnect(stopped.note_exit)
    return stopped


class _Temporary(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
    # A breakpoint that is deleted after the run. The object is added to *made*, the list of those to delete, before gdb
    # creates the breakpoint, because Ctrl-C may come between any two steps.

    def __init__(self, made: list[_Temporary], point: Point) -> None:
        made.append(self)
        super().__init__(f"*{point.address:#x}", internal=True)
        self.silent = True
        if point.thread is not None:
            self.thread = thread_of(point.thread).global_num


@contextmanager
def temporary(points: Sequence[Point]) -> Iterator[list[int]]:
    """Set breakpoints at *points* while the context lasts, and yield their numbers."""
    made: list[_Temporary] = []

    def undo() -> None:
        for one in made:
            with suppress(gdb.error, RuntimeError):
                if one.is_valid():  # gdb deletes a thread's breakpoints when the thread ends
                    one.delete()

    try:
        yield [_Temporary(made, point).number for point in points]
    finally:
        surely(undo)


@contextmanager
def alone(thread: Any, *, others_stand: bool = False) -> Iterator[None]:
    """Restrict the user's breakpoints to *thread*, a ``gdb.InferiorThread``, while the context lasts. With
    *others_stand* only this thread runs.
    """
    # This is done by conditions, because gdb deletes breakpoints with a ``thread`` when the thread ends.
    conditions: list[tuple[Any, str | None, str]] = []
    locking = gdb.parameter(_LOCKING)

    def undo() -> None:
        if others_stand:
            with suppress(gdb.error):
                gdb.execute(f"set {_LOCKING} {locking}", to_string=True)
        for point, before, ours in conditions:
            with suppress(gdb.error, RuntimeError):
                if point.is_valid() and point.condition == ours:
                    point.condition = before

    try:
        for point in gdb.breakpoints() or ():
            if point.is_valid() and point.enabled and point.number > 0 and point.thread is None:
                with suppress(gdb.error):
                    before = point.condition
                    ours = f"$_gthread == {thread.global_num}" + (f" && ({before})" if before else "")
                    conditions.append((point, before, ours))
                    point.condition = ours
        if others_stand:
            gdb.execute(f"set {_LOCKING} on", to_string=True)
        yield
    finally:
        surely(undo)
