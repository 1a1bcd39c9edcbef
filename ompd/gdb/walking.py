"""Breakpoints by OpenMP number or at an event, and steps through the code of regions and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.errors import Unavailable
from ompd.frontends import commands as shared
from ompd.frontends.events import EVENTS, check_events, symbol_of
from ompd.frontends.prompt import clean_lines
from ompd.frontends.spots import body_of, choose_spots
from ompd.frontends.walking import BreakRequest
from ompd.gdb.code import GdbCode
from ompd.gdb.debugger import Gdb
from ompd.gdb.running import GdbRunner
from ompd.render.words import basename

_NO_PLACES_HINT = (
    "libgomp has none in any build; an LLVM libomp has them unless it was stripped, as distributions' are, and Intel's"
    " libiomp5 has them"
)


class BreakCommand(shared.BreakCommand[Gdb]):
    """``omp break LOCATION``: a breakpoint in a region's code, for threads by their OpenMP numbers, or at an event."""

    explanation = (
        f"{shared.BreakCommand.explanation} LOCATION may also be an event: {', '.join(EVENTS)}. LLVM's and Intel's"
        " runtimes pass their places for events if the program was started with OMP_DEBUG=enabled."
    )
    examples = (*shared.BreakCommand.examples, ("break parallel_begin", ""))

    def set(self, debugger: Gdb, request: BreakRequest) -> Sequence[str]:
        """Set the breakpoints, and return gdb's description of each."""
        if request.place in EVENTS:
            return [_set_at_event(debugger, request)]
        code = GdbCode()
        spots = code.spots_of(request.place)
        chosen = [body_of(code, spot) for spot in choose_spots(spots)]
        if chosen == spots:
            return [_set(request.place, request)]
        descriptions = []
        for spot in chosen:
            expression = code.expression_of(spot)
            if expression is None and not gdb.selected_inferior().pid:
                raise Unavailable(
                    f"gdb has no name for the code at {spot.address:#x} that lasts until the program runs",
                    hint="set it once the program has begun: start",
                )
            descriptions.append(_set(expression or f"*{spot.address:#x}", request))
        return descriptions

    def argument_values(self, debugger: Gdb) -> Sequence[str]:
        """Return the events."""
        return EVENTS


def _set(location: str, request: BreakRequest) -> str:
    level = "" if request.level is None else request.level
    if request.thread is not None:
        condition = f" if $_ompd_thread_num({level}) == {request.thread}"
    else:
        condition = f" if $_ompd_level() == {level}" if request.level is not None else ""
    # The runtime with an event's symbol may not be loaded yet. gdb prints the place of a new breakpoint itself, so this
    # captures gdb's output.
    pending = "with breakpoint pending on -- " if request.place in EVENTS else ""
    description = gdb.execute(f"{pending}break {location}{condition}", to_string=True)
    return clean_lines(description.strip().rstrip("."))


def _set_at_event(debugger: Gdb, request: BreakRequest) -> str:
    symbol = symbol_of(request.place)
    if gdb.selected_inferior().pid:
        session = debugger.session()
        if session.runtimes and not check_events(session):
            names = " and ".join(basename(runtime.found.module.name) for runtime in session.runtimes)
            raise Unavailable(f"{names} has no places for events (ompd_bp_*)", hint=_NO_PLACES_HINT)
    number = int(_set(symbol, request).split("Breakpoint ")[1].split()[0])
    debugger.events.add(number)
    debugger.arm()
    return f"Breakpoint {number} at {request.place} ({symbol})"


class WalkCommand(shared.WalkCommand[Gdb]):
    """``omp step``, ``next`` and ``finish``."""

    @contextmanager
    def runner(self, debugger: Gdb) -> Iterator[GdbRunner]:
        """Yield the object that runs the program. Meanwhile, stops print no summary."""
        debugger.walks = True
        try:
            yield GdbRunner(debugger)
        finally:
            debugger.walks = False
