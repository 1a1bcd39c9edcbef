"""The program's code in LLDB: symbols, the places of a location, and the beginning of functions."""

from __future__ import annotations

import re
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.errors import BadInput
from ompd.isa.architecture import Architecture
from ompd.isa.processors import architecture_by_triple

_LINE = re.compile(r"(?:(.+):)?(\d+)")
_MOST_CODE = 512  # bytes to read of a function that calls the user's code


class LldbCode:
    """The code of a program; see :class:`ompd.frontends.spots.Code`.

    :param target: an ``SBTarget``
    :param module: an ``SBModule``; addresses are those in its file. None for addresses in the process
    """

    def __init__(self, target: Any, module: Any = None) -> None:
        self._target, self._module = target, module

    @property
    def architecture(self) -> Architecture | None:
        """The program's architecture, None if it is not supported."""
        processor = (self._target.GetTriple() or "").partition("-")[0]
        return architecture_by_triple(processor, self._target.GetAddressByteSize())

    def resolve(self, address: int) -> Any:
        """Return the ``SBAddress`` of an address."""
        if self._module is None:
            return self._target.ResolveLoadAddress(address)
        return self._module.ResolveFileAddress(address)

    def symbol_at(self, address: int) -> tuple[str, int] | None:
        """Return the linker's name of the symbol around *address*, and the offset of *address* in it, in bytes.

        None if there is no symbol.
        """
        resolved = self.resolve(address)
        start = resolved.GetSymbol().GetStartAddress()
        if not start.IsValid():
            return None
        return symbol_of(resolved), resolved.GetFileAddress() - start.GetFileAddress()

    def read(self, start: int) -> bytes:
        """Return the first bytes of the function at *start*. Empty if they are unreadable."""
        return self._target.ReadMemory(self.resolve(start), _MOST_CODE, lldb.SBError()) or b""

    def behind_prologue(self, entry: int) -> int:
        """Return the address at which LLDB would stop in the function that begins at *entry*."""
        address = self.resolve(entry)
        for function in (address.GetFunction(), address.GetSymbol()):
            if function.IsValid() and function.GetStartAddress() == address:
                return entry + int(function.GetPrologueByteSize())
        return entry


def symbol_of(address: Any) -> str:
    """Return the linker's name of the symbol at an ``SBAddress``, ``""`` without one."""
    symbol = address.GetSymbol()
    return symbol.GetMangledName() or symbol.GetName() or ""


def addresses_of(target: Any, location: str, frame: Any) -> list[Any]:
    """Return the places at which LLDB would stop for *location*, as ``SBAddress`` objects.

    :param frame: the ``SBFrame`` with the file of a line that is given without a file
    :raises BadInput: if there is no such place
    """
    line = _LINE.fullmatch(location)
    if line is None:
        breakpoint = target.BreakpointCreateByName(location)
    else:
        file = line[1]
        if file is None:
            entry = frame.GetLineEntry()
            if not entry.IsValid():
                raise BadInput("the selected frame has no file", hint=f"ompd break FILE:{location}")
            file = entry.GetFileSpec().fullpath
        breakpoint = target.BreakpointCreateByLocation(file, int(line[2]))
    try:
        addresses = [breakpoint.GetLocationAtIndex(n).GetAddress() for n in range(breakpoint.GetNumLocations())]
    finally:
        target.BreakpointDelete(breakpoint.GetID())
    if not addresses:
        raise BadInput(f"LLDB has no place for {location!r}", hint="a line, as prog.c:12, or a function")
    return addresses
