"""Breakpoints by OpenMP number, and steps through the code of regions and tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd import naming
from ompd.errors import BadInput, OmpdError
from ompd.frontends import commands as shared
from ompd.frontends.walker import Walker
from ompd.frontends.walking import BreakRequest, Spot, choose_spots, format_threads, parse_break, refuse_core
from ompd.isa.processors import architecture_by_triple, references_of
from ompd.lldb.debugger import Lldb, state_of, where_is
from ompd.lldb.interrupts import stopping
from ompd.lldb.running import Driver, prologue_of
from ompd.questions import walking
from ompd.questions.numbers import numbers_of
from ompd.render.words import basename, clean

_LINE = re.compile(r"(?:(.+):)?(\d+)")
_MOST_CODE = 512  # bytes to read of a function that calls the user's code


class BreakCommand(shared.BreakCommand[Lldb]):
    """``ompd break LOCATION``: a breakpoint in a region's code, for threads by their OpenMP numbers."""

    def run(self, debugger: Lldb, words: Sequence[str]) -> str:
        """Set the breakpoint, and return its description."""
        request = parse_break(words)
        target = debugger.debugger.GetSelectedTarget()
        if not target.IsValid():
            raise BadInput("there is no program", hint="target create PROGRAM")
        process = target.GetProcess()
        if process.IsValid() and (process.GetPluginName() or "").endswith("-core"):
            refuse_core(self.name)
        spots = {_spot(address): address for address in _addresses(target, request.place, debugger)}
        lines = []
        for spot in choose_spots(list(spots)):
            breakpoint = target.BreakpointCreateBySBAddress(_body_of(target, spots[spot]))
            _restrict(breakpoint, request, debugger.module)
            lines.append(_describe(breakpoint) + format_threads(request))
        return "\n".join(lines)


def _restrict(breakpoint: Any, request: BreakRequest, script: str) -> None:
    if request.thread is None and request.level is None:
        return
    data, stream = lldb.SBStructuredData(), lldb.SBStream()
    stream.Print(json.dumps({"thread": request.thread, "level": request.level}))
    data.SetFromJSON(stream)
    breakpoint.SetScriptCallbackFunction(f"{script}.stops_at", data)


def stops_at(frame: Any, _location: Any, data: Any, internal_dict: dict[str, Any]) -> bool:
    """Return whether a breakpoint stops the thread of *frame*. If the thread's number cannot be read, print the reason
    and return True.
    """
    thread = frame.GetThread()
    try:
        level, number = (_number(data, key) for key in ("level", "thread"))
        session = state_of(internal_dict).session_of_hit(thread.GetProcess())
        known = numbers_of(session, thread.GetThreadID(), with_path=level is not None and number is not None)
    except OmpdError as error:
        print(clean(f"ompd: whether this breakpoint is for this thread is not known: {error}"))
        return True
    stops = known.level == level if number is None else known.at(level) == number
    if stops:
        # If several threads arrive at once, LLDB would select an arbitrary one.
        thread.GetProcess().SetSelectedThread(thread)
    return stops


def _number(data: Any, key: str) -> int | None:
    value = data.GetValueForKey(key)
    is_number = value.IsValid() and value.GetType() not in (
        lldb.eStructuredDataTypeNull,
        lldb.eStructuredDataTypeInvalid,
    )
    return int(value.GetIntegerValue()) if is_number else None


def _addresses(target: Any, location: str, debugger: Lldb) -> list[Any]:
    # Return the places at which LLDB would stop.
    line = _LINE.fullmatch(location)
    if line is None:
        point = target.BreakpointCreateByName(location)
    else:
        file = line[1]
        if file is None:
            entry = debugger.exe_ctx.GetFrame().GetLineEntry()
            if not entry.IsValid():
                raise BadInput("the selected frame has no file", hint=f"ompd break FILE:{location}")
            file = entry.GetFileSpec().fullpath
        point = target.BreakpointCreateByLocation(file, int(line[2]))
    try:
        found = [point.GetLocationAtIndex(number).GetAddress() for number in range(point.GetNumLocations())]
    finally:
        target.BreakpointDelete(point.GetID())
    if not found:
        raise BadInput(f"LLDB has no place for {location!r}", hint="a line, as prog.c:12, or a function")
    return found


def _name(address: Any) -> str:
    symbol = address.GetSymbol()
    return symbol.GetMangledName() or symbol.GetName() or ""


def _spot(address: Any) -> Spot:
    return Spot(address.GetFileAddress(), _name(address))


def _body_of(target: Any, address: Any) -> Any:
    # Return the start of the user's code if clang's function at *address* only calls it, otherwise *address*.
    name, symbol = _name(address), address.GetSymbol()
    if not naming.is_construct_code(name) or naming.is_by_gcc(name):
        return address
    module, start = address.GetModule(), symbol.GetStartAddress()

    def named_at(place: int) -> tuple[str, int] | None:
        found = module.ResolveFileAddress(place)
        begin = found.GetSymbol().GetStartAddress()
        return (_name(found), place - begin.GetFileAddress()) if begin.IsValid() else None

    architecture = architecture_by_triple((target.GetTriple() or "").partition("-")[0], target.GetAddressByteSize())
    references = references_of(architecture.e_machine) if architecture is not None else None
    if references is None:
        return address
    code, begin = target.ReadMemory(start, _MOST_CODE, lldb.SBError()), start.GetFileAddress()
    body = walking.body_called(references.calls(code, begin), begin, named_at) if code else None
    if body is None:
        return address
    found = module.ResolveFileAddress(body)
    return module.ResolveFileAddress(body + prologue_of(found))


def _describe(made: Any) -> str:
    # Return the description of a breakpoint, worded like LLDB's own.
    address = made.GetLocationAtIndex(0).GetAddress()
    entry = address.GetLineEntry()
    at = f" at {basename(entry.GetFileSpec().GetFilename() or '?')}:{entry.GetLine()}" if entry.IsValid() else ""
    return clean(f"Breakpoint {made.GetID()}: {_name(address) or '??'}{at}")


class WalkCommand(shared.WalkCommand[Lldb]):
    """``ompd step``, ``next`` and ``finish``."""

    def walk(self, debugger: Lldb, *, only: bool) -> str:
        """Run the program, and return the place of its stop as text."""
        if debugger.session().target.is_core:
            refuse_core(self.name)
        process = debugger.process()
        with stopping(process) as interrupts:
            walker = Walker(Driver(debugger, interrupts), debugger.selected_thread(), only=only)
            outcome = walker.walk(self.name)
        shown = where_is(debugger.debugger, process.GetSelectedThread())
        return f"{outcome}\n{shown}" if outcome else shown
