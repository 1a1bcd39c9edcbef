"""The program's code in gdb: symbols, the places of a location, and the beginning of functions."""

from __future__ import annotations

import re
from contextlib import suppress

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.errors import BadInput, OmpdError
from ompd.frontends.spots import Spot
from ompd.isa.architecture import Architecture
from ompd.isa.processors import architecture_by_gdb_name

_PLACE = re.compile(r"^(-?\d+)(\.\d+)? .*?(0x[0-9a-f]+)", re.MULTILINE)
_SYMBOL = re.compile(r"^(\S+)(?: \+ (\d+))? in section ")
_CODE_SIZES = (512, 256, 128, 64, 32)  # tried sizes, in bytes, of the code of a function that calls the user's code


class GdbCode:
    """The code of the selected inferior; see :class:`ompd.frontends.spots.Code`."""

    @property
    def architecture(self) -> Architecture | None:
        """The inferior's architecture, None if it is not supported."""
        return architecture_by_gdb_name(gdb.selected_inferior().architecture().name())

    def symbol_at(self, address: int) -> tuple[str, int] | None:
        """Return the linker's name of the symbol around *address*, and the offset of *address* in it, in bytes.

        None if there is no symbol.
        """
        with suppress(gdb.error):
            printed = gdb.execute(f"with print demangle off -- info symbol {address:#x}", to_string=True)
            symbol = _SYMBOL.match(printed)
            if symbol is not None:
                return symbol[1], int(symbol[2] or 0)
        return None

    def read(self, start: int) -> bytes:
        """Return the first bytes of the function at *start*. Empty if they are unreadable."""
        for size in _CODE_SIZES:
            with suppress(gdb.error):  # the section ends before
                return bytes(gdb.selected_inferior().read_memory(start, size))
        return b""

    def spots_of(self, location: str) -> list[Spot]:
        """Return the places at which gdb would stop for *location*. In a function this is behind the prologue.

        :raises BadInput: if there is no such place
        """
        try:
            breakpoint = gdb.Breakpoint(location, internal=True)
        except (gdb.error, RuntimeError) as error:
            raise BadInput(f"gdb has no place for {location!r}: {error}") from error
        try:
            if breakpoint.pending:
                raise BadInput(
                    f"gdb has no place for {location!r}", hint="a line of the program, as prog.c:12, or a function"
                )
            printed = gdb.execute(f"maint info breakpoints {breakpoint.number}", to_string=True)
        finally:
            breakpoint.delete()
        rows = [(bool(row[2]), int(row[3], 16)) for row in _PLACE.finditer(printed)]
        addresses = [address for is_place, address in rows if is_place] or [address for _, address in rows]
        return [Spot(address, (self.symbol_at(address) or ("", 0))[0]) for address in addresses]

    def behind_prologue(self, entry: int) -> int:
        """Return the address at which gdb would stop in the function that begins at *entry*."""
        symbol = self.symbol_at(entry)
        if symbol is not None and symbol[1] == 0 and "'" not in symbol[0]:
            with suppress(OmpdError):
                for spot in self.spots_of(f"'{symbol[0]}'"):
                    if spot.function == symbol[0] and spot.address >= entry:
                        return spot.address
        return entry

    def expression_of(self, spot: Spot) -> str | None:
        """Return gdb's expression for the place, valid at any load address. None if gdb has no name for it."""
        symbol = self.symbol_at(spot.address)
        if symbol is None or "'" in symbol[0]:
            return None
        text = f"(char *) &'{symbol[0]}' + {symbol[1]}"
        with suppress(gdb.error):
            if int(gdb.parse_and_eval(f"(unsigned long) ({text})")) == spot.address:
                return f"*{text}"
        return None
