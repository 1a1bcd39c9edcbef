"""Where an address is in the source: symbol, file and line, functions and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ompd.binary.dwarf.source.lines import Function
from ompd.contract.process import Location, Module, SourceFrame
from ompd.debugger.modules.kept_places import KeptPlaces
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.symbols import Symbols
from ompd.errors import MalformedFile, OmpdError

_T = TypeVar("_T")
Line = tuple[str | None, int | None]


class CompilerNames(NamedTuple):
    """What is known of names that compilers make up. ``is_made`` says whether a function is called as compilers call
    what they make of a part of another one, which then keeps the linker's name; ``shares_variables`` whether such a
    function may describe variables of those around it once more.
    """

    is_made: Callable[[str], bool]
    shares_variables: Callable[[str], bool]


NO_NAMES = CompilerNames(lambda name: False, lambda name: False)


class KnownPlaces:
    """What files tell of addresses, which is the same at every stop of a process."""

    def __init__(self) -> None:
        self.locations: dict[int, Location] = {}
        self.lines: dict[tuple[int, bool], Line] = {}
        self.constructs: dict[int, Line] = {}
        self.sources: dict[int, tuple[SourceFrame, ...]] = {}
        self.names: dict[tuple[int, str], str] = {}


class Places:
    """The source of one process's code, as far as symbols and debug information have it. Damaged ones say nothing."""

    def __init__(self, modules: ModuleList, symbols: Symbols, names: CompilerNames, known: KnownPlaces) -> None:
        self._modules, self._symbols, self.names, self.known = modules, symbols, names, known

    def _told(self, address: int, ask: Callable[[KeptPlaces, int], _T]) -> _T | None:
        # What debug information says of an address, None without any.
        loaded = self._modules.at(address)
        try:
            if loaded is not None and loaded.lines is not None:
                return ask(loaded.lines, address - loaded.bias)
        except OmpdError:
            pass  # damaged debug information says nothing
        return None

    def locate(self, address: int) -> Location:
        """Return what is at *address*; never fails, unknown parts are None."""
        location = self.known.locations.get(address)
        if location is None:
            location = self.known.locations[address] = self._locate(address)
        return location

    def _locate(self, address: int) -> Location:
        loaded = self._modules.at(address)
        if loaded is None:
            vdso = self._symbols.vdso_at(address)
            symbol = vdso.symbol_at(address) if vdso is not None else None
            where = (symbol.name, symbol.address) if symbol is not None else (None, None)
            return Location(address, self._symbols.module_at(address), *where)
        try:
            symbol = loaded.symbols.at(address - loaded.bias) if loaded.symbols is not None else None
        except MalformedFile:
            symbol = None  # a damaged symbol table names nothing
        if symbol is None:
            return Location(address, loaded.record, None, None)
        return Location(address, loaded.record, symbol.name, symbol.address + loaded.bias)

    def symbol_at(self, address: int) -> str | None:
        """Return the name of the symbol that covers *address*, None without one."""
        return self.locate(address).symbol

    def symbolize(self, address: int) -> str | None:
        """Return the name of what is at *address*, ``name+8`` for an address inside of it; None without a symbol."""
        place = self.locate(address)
        if place.symbol is None or place.symbol_address is None:
            return None
        distance = address - place.symbol_address
        name = self.source_name(place.module, place.symbol)
        return f"{name}+{distance}" if distance else name

    def line_of(self, address: int, *, entry: bool = False) -> Line:
        """Return file and line of *address*, ``(None, None)`` where no debug information has them.

        :param entry: the function that begins at *address* is meant, not its first statement
        """
        key = (address, entry)
        found = self.known.lines.get(key)
        if found is None:
            found = self._told(address, lambda lines, at: lines.locate(at, entry=entry)) or (None, None)
            self.known.lines[key] = found
        return found

    def construct_line(self, entry: int) -> Line:
        """Return file and line of the construct of which a compiler made the function that begins at *entry*, ``(None,
        None)`` where no debug information has them.
        """
        found = self.known.constructs.get(entry)
        if found is None:
            found = self._told(entry, lambda lines, at: lines.construct(at)) or (None, None)
            self.known.constructs[entry] = found
        return found

    def source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        """Return the functions in the source at a code address; see :meth:`Process.source_frames`. Without debug
        information names are those of symbols.
        """
        found = self.known.sources.get(address)
        if found is None:
            found = self.known.sources[address] = self._source_frames(address)
        return found

    def _source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        file, line = self.line_of(address)
        frames: list[SourceFrame] = []
        for function in self._functions_at(address):
            frames.append(SourceFrame(function.name, file, line, function.is_inlined))
            file, line = function.call or (None, None)
        if not frames:
            frames = [SourceFrame(None, file, line, False)]
        symbol = self.symbol_at(address)
        if symbol is not None and (frames[-1].function is None or self.names.is_made(symbol)):
            name = symbol if self.names.is_made(symbol) else _demangled(symbol)
            frames[-1] = frames[-1]._replace(function=name)
        return tuple(frames)

    def _functions_at(self, address: int) -> Sequence[Function]:
        return self._told(address, lambda lines, at: lines.functions(at)) or ()

    def has_parameter(self, address: int, name: str) -> bool:
        """Return whether debug information knows a parameter called *name* of the function at an address of code, or of
        one that is inlined there.
        """
        return self._told(address, lambda lines, at: lines.has_parameter(at, name)) or False

    def declared_inside(self, address: int) -> str | None:
        """Return the function of the source in whose lines the one at an address of code is declared, as those are that
        compilers make of constructs; None if that is unknown.
        """
        return self._told(address, lambda lines, at: lines.declared_inside(at))

    def source_name(self, module: Module | None, symbol: str, made: int | None = None) -> str:
        """Return what the source calls the function *symbol* of *module*: as its debug information says, or by what a
        name of C++ says itself.

        For the names that compilers of Fortran (``name_``, ``__module_MOD_name``) and C++ (``_Z...``) make.

        :param made: an address of code that a compiler made of a construct in that function, which may itself be
            inlined everywhere
        """
        is_mangled = symbol.startswith("_Z")
        if not (is_mangled or symbol.endswith("_") or "_MOD_" in symbol):
            return symbol
        key = module.start if module is not None else 0, symbol
        name = self.known.names.get(key)
        if name is None:
            loaded = self._symbols.loaded(module) if module is not None else None
            found = self._described_name(loaded, symbol) if loaded is not None else None
            if found is None and loaded is not None and made is not None:
                found = self._name_around(made, symbol)
            name = self.known.names[key] = found or (_demangled(symbol) if is_mangled else symbol)
        return name

    def _described_name(self, loaded: LoadedModule, symbol: str) -> str | None:
        try:
            found = loaded.symbols.find(symbol) if loaded.symbols is not None and loaded.lines is not None else None
        except OmpdError:
            return None  # damaged symbols say nothing
        functions = self._functions_at(found.address + loaded.bias) if found is not None else ()
        return functions[-1].name if functions else None

    def _name_around(self, made: int, symbol: str) -> str | None:
        if not (self.symbol_at(made) or "").startswith(f"{symbol}."):
            return None  # it was made of another function
        return self._told(made, lambda lines, at: lines.function_around(at, symbol))


def _demangled(symbol: str) -> str:
    if not symbol.startswith("_Z"):
        return symbol
    from ompd.binary.demangle import demangle

    return demangle(symbol) or symbol
