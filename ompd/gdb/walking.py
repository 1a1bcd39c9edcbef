"""Breakpoints by OpenMP number, and steps through the code of regions and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd import naming
from ompd.debugger.targets.gdb.inferior import core_of, thread_selected
from ompd.errors import OmpdError, TargetGone, Unavailable
from ompd.frontends import commands as shared
from ompd.frontends.events import EVENTS, check_events, symbol_of
from ompd.frontends.prompt import clean_lines
from ompd.frontends.walker import CONTINUE, Ended, Halt, Point, Walker
from ompd.frontends.walking import BreakRequest, Spot, choose_spots, format_threads, parse_break, refuse_core
from ompd.gdb.debugger import Gdb, thread_of
from ompd.gdb.running import alone, expression_of, has_watchpoints, run, spots_of, symbol_at, temporary
from ompd.gdb.stops import summary_of
from ompd.inspection import Inspection
from ompd.isa.processors import architecture_by_gdb_name, references_of
from ompd.questions import walking
from ompd.render.words import basename

_INTERRUPT = "SIGINT"
_NO_PLACES_HINT = (
    "libgomp has none in any build; an LLVM libomp has them unless it was stripped, as distributions' are, and Intel's"
    " libiomp5 has them"
)
_CODE_SIZES = (512, 256, 128, 64, 32)  # tried sizes, in bytes, of the code of a function that calls the user's code


class BreakCommand(shared.BreakCommand[Gdb]):
    """``omp break LOCATION``: a breakpoint in a region's code, for threads by their OpenMP numbers, or at an event."""

    def run(self, debugger: Gdb, words: Sequence[str]) -> str:
        """Set the breakpoint, and return its description."""
        request = parse_break(words)
        _check_runs(self.name)
        if request.place in EVENTS:
            return _break_at_event(debugger, request)
        spots = spots_of(request.place)
        chosen = [_body_of(spot) for spot in choose_spots(spots)]
        condition = _condition(request.thread, request.level)
        if chosen == spots:
            return _set(request.place, condition) + format_threads(request)
        lines = []
        for spot in chosen:
            expression = expression_of(spot)
            if expression is None and not gdb.selected_inferior().pid:
                raise Unavailable(
                    f"gdb has no name for the code at {spot.address:#x} that lasts until the program runs",
                    hint="set it once the program has begun: start",
                )
            lines.append(_set(expression or f"*{spot.address:#x}", condition) + format_threads(request))
        return "\n".join(lines)

    def argument_values(self, debugger: Gdb) -> Sequence[str]:
        """Return the events."""
        return EVENTS

    def help(self, prompt: str) -> str:
        """Return the help of the command, with the list of events."""
        return (
            f"{super().help(prompt)}\nLOCATION may be an event: {', '.join(EVENTS)}. LLVM's and Intel's runtimes pass"
            " their places for events if the program was started with OMP_DEBUG=enabled.\n\n"
            f"  {prompt}ompd break parallel_begin\n"
        )


def _break_at_event(debugger: Gdb, request: BreakRequest) -> str:
    # Set a breakpoint at the runtime's place for an event, and return its description. The runtime may not be loaded
    # yet, so the breakpoint may be pending.
    symbol = symbol_of(request.place)
    if gdb.selected_inferior().pid:
        session = debugger.session()
        if session.runtimes and not check_events(session):
            names = " and ".join(basename(runtime.found.module.name) for runtime in session.runtimes)
            raise Unavailable(f"{names} has no places for events (ompd_bp_*)", hint=_NO_PLACES_HINT)
    reply = _set(symbol, _condition(request.thread, request.level), may_wait=True)
    number = int(reply.split("Breakpoint ")[1].split()[0])
    debugger.events.add(number)
    debugger.arm()
    return f"Breakpoint {number} at {request.place} ({symbol}){format_threads(request)}"


def _check_runs(command: str) -> None:
    if core_of(gdb.selected_inferior()) is not None:
        refuse_core(command)


def _body_of(spot: Spot) -> Spot:
    # Return the place of the user's code if clang's function at *spot* only calls it, otherwise *spot*.
    known = symbol_at(spot.address)
    if known is None or not naming.is_construct_code(spot.function) or naming.is_by_gcc(spot.function):
        return spot
    start = spot.address - known[1]
    architecture = architecture_by_gdb_name(gdb.selected_inferior().architecture().name())
    references = references_of(architecture.e_machine) if architecture is not None else None
    if references is None:
        return spot
    for size in _CODE_SIZES:
        try:
            code = bytes(gdb.selected_inferior().read_memory(start, size))
        except gdb.error:  # the section ends before
            continue
        body = walking.body_called(references.calls(code, start), start, symbol_at)
        if body is not None:
            named = symbol_at(body)
            return Spot(_behind_prologue(body), named[0] if named is not None else "")
        break
    return spot


def _condition(thread: int | None, level: int | None) -> str | None:
    if thread is None:
        return f"$_ompd_level() == {level}" if level is not None else None
    return f"$_ompd_thread_num({level if level is not None else ''}) == {thread}"


def _set(location: str, condition: str | None, *, may_wait: bool = False) -> str:
    # gdb prints the place of a new breakpoint itself, so this captures gdb's output.
    words = "with breakpoint pending on -- break" if may_wait else "break"
    made = gdb.execute(f"{words} {location}" + (f" if {condition}" if condition else ""), to_string=True)
    return clean_lines(made.strip().rstrip("."))


def _behind_prologue(entry: int) -> int:
    # Return the address at which gdb would stop in the function that begins at *entry*.
    known = symbol_at(entry)
    if known is not None and known[1] == 0 and "'" not in known[0]:
        with suppress(OmpdError):
            for spot in spots_of(f"'{known[0]}'"):
                if spot.function == known[0] and spot.address >= entry:
                    return spot.address
    return entry


class _Driver:
    # The driver that runs the program, see :class:`ompd.frontends.walker.Driver`.

    def __init__(self, debugger: Gdb) -> None:
        self._debugger = debugger
        self._has_printed = False  # whether gdb has printed the place itself
        self._began_in = gdb.newest_frame()

    def session(self) -> Inspection:
        return self._debugger.session()

    def run(self, thread: int, command: str, points: Sequence[Point], *, only: bool) -> Halt | Ended:
        walking_one = thread_of(thread)
        if thread_selected() != walking_one:
            walking_one.switch()
        gdb.newest_frame().select()
        quiet = command != CONTINUE and not has_watchpoints()
        with alone(walking_one, others_stand=only), temporary(points) as numbers:
            stopped = run(command, quiet=quiet)
        if stopped.has_ended or not gdb.selected_inferior().pid:
            return Ended(stopped.exit_status)
        reached = [point for point, number in zip(points, numbers, strict=True) if number in stopped.numbers]
        self._has_printed = not quiet and not reached
        try:
            here = self._debugger.selected_thread()
        except TargetGone:  # the program is ending
            return Ended(stopped.exit_status)
        if reached:
            return Halt(here, reached)
        if stopped.signal == _INTERRUPT and here != thread:
            # Ctrl-C is meant for the whole program, but any thread may receive the signal.
            self._has_printed = False
            self.select(thread)
        if stopped.signal is not None:
            return Halt(here, why=stopped.signal)
        by = ", ".join(map(str, stopped.numbers))
        return Halt(here, why=f"breakpoint {by}" if by else None)

    def pc(self, thread: int) -> int:
        thread_of(thread).switch()
        return int(gdb.newest_frame().pc())

    def select(self, thread: int) -> None:
        thread_of(thread).switch()

    def name(self, thread: int) -> str:
        return self._debugger.thread_name(thread)

    def behind_prologue(self, entry: int) -> int:
        return _behind_prologue(entry)

    def place(self) -> str:
        # Return gdb's text for the place of the stop: only the line if the function is the same. "" if gdb has printed
        # the place.
        if self._has_printed:
            return ""
        frame, _, line = self._debugger.where().partition("\n")
        is_whole_line = not frame.startswith("#0  0x")
        is_same = line and is_whole_line and self._began_in == gdb.newest_frame()
        return line if is_same else f"{frame}\n{line}".rstrip("\n")


class WalkCommand(shared.WalkCommand[Gdb]):
    """``omp step``, ``next`` and ``finish``."""

    def walk(self, debugger: Gdb, *, only: bool) -> str:
        """Run the program, and return the part of the stop's description that gdb has not printed."""
        _check_runs(self.name)
        debugger.session()  # raises an error with the reason if the program cannot be inspected
        driver = _Driver(debugger)
        debugger.walks = True
        try:
            outcome = Walker(driver, debugger.selected_thread(), only=only).walk(self.name)
        finally:
            debugger.walks = False
        texts = (outcome, driver.place(), summary_of(debugger))
        return "\n".join(text for text in texts if text)
