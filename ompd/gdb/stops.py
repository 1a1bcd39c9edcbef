"""Prints the line of ``omp auto`` when the program stops, and a line when a runtime begins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.commands.events import check_events
from ompd.commands.prompt import clean_lines
from ompd.contract.ompd import DLL_LOCATIONS_VALID
from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import BadInput, OmpdError
from ompd.gdb.prompts import PROMPT, Prompt, State, writable
from ompd.render.summary import format_summary
from ompd.render.words import basename, clean
from ompd.safety.isolation import Isolation


class AutoCommand(Prompt):
    """``omp auto on|off``: a line at each stop."""

    name = "auto"
    summary = "Turn the OpenMP summary at each stop on or off."

    def run(self, words: Sequence[str]) -> str:
        """Change the setting if there is a word, and return it."""
        given = [word for word in words if word != "--debug"]
        if given not in (["on"], ["off"], []):
            raise BadInput("expected on or off", hint="ompd auto on")
        if given:
            self.state.auto = given == ["on"]
            self.state.arm()
        return f"ompd auto is {'on' if self.state.auto else 'off'}"

    def completions(self) -> Sequence[str]:
        """Return the two settings."""
        return ("on", "off")

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "With `on`, each stop prints a line: how many threads are in how many regions, and what they do. A line"
            " also says when an OpenMP runtime begins; the program does not stop there.\n\n"
            f"  {PROMPT}ompd auto on\n"
        )


def summary_of(state: State) -> str:
    """Return the line of ``omp auto`` for this stop, an empty text if it is off."""
    if not state.auto:
        return ""
    try:
        session, thread = state.session(), thread_selected()
        return format_summary(session.ask_threads(), native_id(thread) if thread is not None else None)
    except OmpdError as error:
        name = f"process {gdb.selected_inferior().pid}: "
        return clean_lines(f"OpenMP: {str(error).removeprefix(name)}")


def add_stops(state: State, isolation: Isolation) -> None:
    """Have gdb call what prints at stops, and where a runtime begins."""
    begin: list[gdb.Breakpoint] = []

    @isolation
    def note_stop(_event: object) -> None:
        with suppress(gdb.error):
            line = "" if state.walks else summary_of(state)
            if line:
                gdb.write(writable(line) + "\n")

    @isolation
    def note_begin() -> None:
        with suppress(gdb.error):
            if state.auto:
                _say(f"{_module_here()} has begun")
            if _event_points(state):
                try:
                    check_events(state.session_of_thread())
                except OmpdError as error:
                    _say(str(error))

    @isolation
    def note_exit(event: Any) -> None:
        if not hasattr(event, "exit_code"):
            return  # it was killed
        with suppress(gdb.error):
            for point in _event_points(state):
                if point.pending:
                    _say(f"breakpoint {point.number} was nowhere: no runtime of the program has places for events")

    class Begin(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            # A breakpoint at a name: gdb finds the place again in the next run.
            super().__init__(DLL_LOCATIONS_VALID, internal=True)
            self.silent = True

        def stop(self) -> bool:
            note_begin()
            return False

    @isolation
    def arm(_event: object = None) -> None:
        # gdb complains about a breakpoint at a symbol that it does not have yet: so it waits for a file that has it.
        if any(point.is_valid() for point in begin) or not (state.auto or _event_points(state)):
            return
        with suppress(gdb.error):
            gdb.parse_and_eval(f"&{DLL_LOCATIONS_VALID}")
            begin[:] = [Begin()]

    state.arm = arm
    gdb.events.stop.connect(note_stop)
    gdb.events.exited.connect(note_exit)
    gdb.events.new_objfile.connect(arm)


def _event_points(state: State) -> list[Any]:
    return [point for point in gdb.breakpoints() or () if point.number in state.events]


def _say(text: str) -> None:
    gdb.write(writable(clean(f"OpenMP: {text}")) + "\n")


def _module_here() -> str:
    name: Any = gdb.solib_name(gdb.newest_frame().pc())
    return basename(name if name is not None else gdb.selected_inferior().progspace.filename or "the program")
