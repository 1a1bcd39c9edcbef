"""Finds the place in the source for an address of code: its symbol, file and line, and the functions there."""

from __future__ import annotations

from collections.abc import Sequence

from ompd import naming
from ompd.binary.dwarf.lines import Function
from ompd.contract.process import Location, Module, SourceFrame
from ompd.debugger.modules.kept_places import KeptPlaces
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.symbols import Symbols
from ompd.errors import MalformedFile, OmpdError

Line = tuple[str | None, int | None]
"""A file and a line, None if they are unknown."""


class KnownPlaces:
    """The results of earlier searches for places. They depend only on files, so they are kept for later stops."""

    def __init__(self) -> None:
        self.locations: dict[int, Location] = {}
        self.lines: dict[tuple[int, bool], Line] = {}
        self.constructs: dict[int, Line] = {}
        self.sources: dict[int, tuple[SourceFrame, ...]] = {}
        self.names: dict[tuple[int, str], str] = {}


class Places:
    """Finds places of one process's code, by symbols and debug information. Damaged ones count as missing."""

    def __init__(self, modules: ModuleList, symbols: Symbols, known: KnownPlaces) -> None:
        self._modules, self._symbols, self.known = modules, symbols, known

    def _lines_at(self, address: int) -> tuple[KeptPlaces, int] | None:
        # The debug information for an address of code, and the address as in the module's file; None without debug
        # information.
        loaded = self._modules.at(address)
        try:
            lines = loaded.lines if loaded is not None else None
        except OmpdError:
            return None  # damaged
        return (lines, address - loaded.bias) if loaded is not None and lines is not None else None

    def locate(self, address: int) -> Location:
        """Return the symbol and the module of *address*, each None if unknown. This raises no errors."""
        location = self.known.locations.get(address)
        if location is None:
            location = self.known.locations[address] = self._locate(address)
        return location

    def _locate(self, address: int) -> Location:
        loaded = self._modules.at(address)
        if loaded is None:
            vdso = self._symbols.vdso_at(address)
            symbol = vdso.symbol_at(address) if vdso is not None else None
            name_and_start = (symbol.name, symbol.address) if symbol is not None else (None, None)
            return Location(address, self._symbols.module_at(address), *name_and_start)
        try:
            symbol = loaded.symbols.at(address - loaded.bias) if loaded.symbols is not None else None
        except MalformedFile:
            symbol = None  # a damaged symbol table counts as missing
        if symbol is None:
            return Location(address, loaded.record, None, None)
        return Location(address, loaded.record, symbol.name, symbol.address + loaded.bias)

    def symbol_at(self, address: int) -> str | None:
        """Return the name of the symbol that covers *address*, None without one."""
        return self.locate(address).symbol

    def symbolize(self, address: int) -> str | None:
        """Return *address* as text: the name of its symbol, with the distance from the symbol's start as in ``name+8``.

        None if no symbol covers the address.
        """
        place = self.locate(address)
        if place.symbol is None or place.symbol_address is None:
            return None
        distance = address - place.symbol_address
        name = self.source_name(place.module, place.symbol)
        return f"{name}+{distance}" if distance else name

    def line_of(self, address: int, *, entry: bool = False) -> Line:
        """Return the file and line of *address*, ``(None, None)`` if no debug information has them.

        :param entry: whether *address* is where a function begins, and the line of the function is meant, not that of
            its first statement
        """
        key = (address, entry)
        line = self.known.lines.get(key)
        if line is None:
            described = self._lines_at(address)
            line = described[0].locate(described[1], entry=entry) if described is not None else None
            line = self.known.lines[key] = line or (None, None)
        return line

    def source_digest(self, address: int, file: str) -> bytes | None:
        """Return the MD5 that the source *file* had when the code at *address* was compiled, None if it is unknown."""
        described = self._lines_at(address)
        return described[0].digest(described[1], file) if described is not None else None

    def construct_line(self, entry: int) -> Line:
        """Return the file and line of the construct whose outlined function begins at *entry*.

        ``(None, None)`` if no debug information has them.
        """
        line = self.known.constructs.get(entry)
        if line is None:
            described = self._lines_at(entry)
            line = described[0].construct(described[1]) if described is not None else None
            line = self.known.constructs[entry] = line or (None, None)
        return line

    def source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        """Return the functions of the source that an address of code is in, innermost first.

        Each function but the last is inlined into the next one. Without debug information, the only function has the
        symbol as its name.
        """
        frames = self.known.sources.get(address)
        if frames is None:
            frames = self.known.sources[address] = self._source_frames(address)
        return frames

    def _source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        file, line = self.line_of(address)
        frames: list[SourceFrame] = []
        for function in self._functions_at(address):
            frames.append(SourceFrame(function.name, file, line, function.is_inlined))
            file, line = function.call or (None, None)
        if not frames:
            frames = [SourceFrame(None, file, line, False)]
        symbol = self.symbol_at(address)
        # A construct's outlined function keeps the symbol as its name, even if debug information has another name.
        if symbol is not None and (frames[-1].function is None or naming.is_construct(symbol)):
            name = symbol if naming.is_construct(symbol) else _demangled(symbol)
            frames[-1] = frames[-1]._replace(function=name)
        return tuple(frames)

    def _functions_at(self, address: int) -> Sequence[Function]:
        described = self._lines_at(address)
        return described[0].functions(described[1]) if described is not None else ()

    def has_parameter(self, address: int, name: str) -> bool:
        """Return whether a function at an address of code has a parameter called *name*, by debug information.

        Functions that are inlined there count, too.
        """
        described = self._lines_at(address)
        return described is not None and described[0].has_parameter(described[1], name)

    def declared_inside(self, address: int) -> str | None:
        """Return the source function around the declaration of the function at an address of code, None if unknown.

        This is meant for outlined functions: the declared line of one is among the lines of the function that has the
        construct.
        """
        described = self._lines_at(address)
        return described[0].declared_inside(described[1]) if described is not None else None

    def source_name(self, module: Module | None, symbol: str, outlined: int | None = None) -> str:
        """Return the name that the function *symbol* of *module* has in the source, else *symbol*.

        Only symbols of Fortran (``name_``, ``__module_MOD_name``) and C++ (``_Z...``) are looked up, in debug
        information or by demangling.

        :param outlined: an address in a function that was outlined from the function *symbol*, None if there is none;
            it helps if the function *symbol* is inlined everywhere
        """
        is_mangled = symbol.startswith("_Z")
        if not (is_mangled or symbol.endswith("_") or "_MOD_" in symbol):
            return symbol
        key = module.start if module is not None else 0, symbol
        name = self.known.names.get(key)
        if name is None:
            loaded = self._symbols.loaded(module) if module is not None else None
            described = self._described_name(loaded, symbol) if loaded is not None else None
            if described is None and loaded is not None and outlined is not None:
                described = self._name_around(outlined, symbol)
            name = self.known.names[key] = described or (_demangled(symbol) if is_mangled else symbol)
        return name

    def _described_name(self, loaded: LoadedModule, symbol: str) -> str | None:
        try:
            has_names = loaded.symbols is not None and loaded.lines is not None
            definition = loaded.symbols.find(symbol) if loaded.symbols is not None and has_names else None
        except OmpdError:
            return None  # damaged symbols count as missing
        functions = self._functions_at(definition.address + loaded.bias) if definition is not None else ()
        return functions[-1].name if functions else None

    def _name_around(self, outlined: int, symbol: str) -> str | None:
        if not (self.symbol_at(outlined) or "").startswith(f"{symbol}."):
            return None  # the code there was outlined from another function
        described = self._lines_at(outlined)
        return described[0].function_around(described[1], symbol) if described is not None else None


def _demangled(symbol: str) -> str:
    if not symbol.startswith("_Z"):
        return symbol
    from ompd.binary.demangle import demangle

    return demangle(symbol) or symbol
