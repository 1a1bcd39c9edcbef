"""Prints the line of ``omp auto`` when the program stops, and a line when a runtime begins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.contract.ompd import DLL_LOCATIONS_VALID
from ompd.errors import OmpdError
from ompd.frontends.events import check_events
from ompd.gdb.debugger import Gdb, writable
from ompd.render.words import basename, clean
from ompd.safety.isolation import Isolation


def add_stops(debugger: Gdb, isolation: Isolation) -> None:
    """Register the functions that print at stops, and when a runtime begins."""
    begin: list[gdb.Breakpoint] = []

    @isolation
    def note_stop(_event: object) -> None:
        with suppress(gdb.error):
            line = "" if debugger.walks else debugger.summary()
            if line:
                gdb.write(writable(line) + "\n")

    @isolation
    def note_begin() -> None:
        with suppress(gdb.error):
            if debugger.prints_stops:
                _say(f"{_module_here()} has begun")
            if _event_points(debugger):
                try:
                    check_events(debugger.session_of_thread())
                except OmpdError as error:
                    _say(str(error))

    @isolation
    def note_exit(event: Any) -> None:
        if not hasattr(event, "exit_code"):
            return  # the program was killed
        with suppress(gdb.error):
            for point in _event_points(debugger):
                if point.pending:
                    _say(f"breakpoint {point.number} was nowhere: no runtime of the program has places for events")

    class Begin(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            # The breakpoint is set by name and not by address, so that gdb finds its place again in the next run.
            super().__init__(DLL_LOCATIONS_VALID, internal=True)
            self.silent = True

        def stop(self) -> bool:
            note_begin()
            return False

    @isolation
    def arm(_event: object = None) -> None:
        # For a breakpoint at an unknown symbol gdb reports an error. So wait until a file with the symbol is loaded.
        if any(point.is_valid() for point in begin) or not (debugger.prints_stops or _event_points(debugger)):
            return
        with suppress(gdb.error):
            gdb.parse_and_eval(f"&{DLL_LOCATIONS_VALID}")
            begin[:] = [Begin()]

    debugger.arm = arm
    gdb.events.stop.connect(note_stop)
    gdb.events.exited.connect(note_exit)
    gdb.events.new_objfile.connect(arm)


def _event_points(debugger: Gdb) -> list[Any]:
    return [point for point in gdb.breakpoints() or () if point.number in debugger.events]


def _say(text: str) -> None:
    gdb.write(writable(clean(f"OpenMP: {text}")) + "\n")


def _module_here() -> str:
    name: Any = gdb.solib_name(gdb.newest_frame().pc())
    return basename(name if name is not None else gdb.selected_inferior().progspace.filename or "the program")
