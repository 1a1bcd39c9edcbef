"""Breakpoints by OpenMP number, and steps through the code of regions and tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.errors import BadInput, OmpdError
from ompd.frontends import commands as shared
from ompd.frontends.spots import Spot, body_of, choose_spots
from ompd.frontends.walking import BreakRequest
from ompd.lldb.code import LldbCode, addresses_of, symbol_of
from ompd.lldb.debugger import Lldb, state_of
from ompd.lldb.interrupts import stopping
from ompd.lldb.running import LldbRunner
from ompd.questions.numbers import numbers_of
from ompd.render.words import basename, clean


class BreakCommand(shared.BreakCommand[Lldb]):
    """``ompd break LOCATION``: a breakpoint in a region's code, for threads by their OpenMP numbers."""

    def set(self, debugger: Lldb, request: BreakRequest) -> Sequence[str]:
        """Set the breakpoints, and return a description of each."""
        target = debugger.debugger.GetSelectedTarget()
        if not target.IsValid():
            raise BadInput("there is no program", hint="target create PROGRAM")
        addresses = addresses_of(target, request.place, debugger.exe_ctx.GetFrame())
        modules = {Spot(address.GetFileAddress(), symbol_of(address)): address.GetModule() for address in addresses}
        descriptions = []
        for spot in choose_spots(list(modules)):
            code = LldbCode(target, modules[spot])
            breakpoint = target.BreakpointCreateBySBAddress(code.resolve(body_of(code, spot).address))
            if request.thread is not None or request.level is not None:
                _restrict(breakpoint, request, debugger.state.module)
            descriptions.append(_describe(breakpoint))
        return descriptions


def _restrict(breakpoint: Any, request: BreakRequest, module: str) -> None:
    data, stream = lldb.SBStructuredData(), lldb.SBStream()
    stream.Print(json.dumps({"thread": request.thread, "level": request.level}))
    data.SetFromJSON(stream)
    breakpoint.SetScriptCallbackFunction(f"{module}.stops_at", data)


def _describe(breakpoint: Any) -> str:
    # Return the description of a breakpoint, worded like LLDB's own.
    address = breakpoint.GetLocationAtIndex(0).GetAddress()
    entry = address.GetLineEntry()
    place = f" at {basename(entry.GetFileSpec().GetFilename() or '?')}:{entry.GetLine()}" if entry.IsValid() else ""
    return clean(f"Breakpoint {breakpoint.GetID()}: {symbol_of(address) or '??'}{place}")


def stops_at(frame: Any, _location: Any, data: Any, internal_dict: dict[str, Any]) -> bool:
    """Return whether a breakpoint stops the thread of *frame*. If the thread's number cannot be read, print the reason
    and return True.
    """
    thread = frame.GetThread()
    level, number = _number(data, "level"), _number(data, "thread")
    try:
        session = state_of(internal_dict).session_of_hit(thread.GetProcess())
        numbers = numbers_of(session, thread.GetThreadID(), with_path=level is not None and number is not None)
    except OmpdError as error:
        print(clean(f"ompd: whether this breakpoint is for this thread is not known: {error}"))
        return True
    stops = numbers.level == level if number is None else numbers.at(level) == number
    if stops:
        # If several threads arrive at once, LLDB would select an arbitrary one.
        thread.GetProcess().SetSelectedThread(thread)
    return stops


def _number(data: Any, key: str) -> int | None:
    value = data.GetValueForKey(key)
    if not value.IsValid() or value.GetType() in (lldb.eStructuredDataTypeNull, lldb.eStructuredDataTypeInvalid):
        return None
    return int(value.GetIntegerValue())


class WalkCommand(shared.WalkCommand[Lldb]):
    """``ompd step``, ``next`` and ``finish``."""

    @contextmanager
    def runner(self, debugger: Lldb) -> Iterator[LldbRunner]:
        """Yield the object that runs the program. Meanwhile, Ctrl-C stops the program."""
        with stopping(debugger.process()) as interrupts:
            yield LldbRunner(debugger, interrupts)
