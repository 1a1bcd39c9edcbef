"""The modules of the stopped process, and their symbols at the target's addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.core.notes import AT_SYSINFO
from ompd.binary.elf.symbols import STT_TLS, Symbol
from ompd.contract.process import Module
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.modules.vdso import Vdso
from ompd.debugger.targets.base import Target
from ompd.errors import BadInput, MalformedFile, SymbolNotFound

if TYPE_CHECKING:
    from ompd.debugger.threads.tls import ThreadLocalStorage


class Symbols:
    """Finds symbols by name, at one stop.

    A thread-local symbol has an address in each thread. ``storage`` finds that address. The process sets ``storage``
    later: to make it, the process needs the loader and glibc, which it finds by symbols.
    """

    storage: ThreadLocalStorage

    def __init__(self, target: Target, modules: ModuleList) -> None:
        self._target, self._modules = target, modules
        self._by_start = {module.start: module for module in modules}

    # Modules

    def modules(self) -> Sequence[Module]:
        """Return the records of all modules, by address."""
        return [module.record for module in self._modules]

    def loaded(self, module: Module) -> LoadedModule | None:
        """Return a module with its files, None for the vDSO, which has no file."""
        return self._by_start.get(module.start)

    def module_at(self, address: int) -> Module | None:
        """Return the module that contains *address*, None if *address* is in no module. The vDSO counts as a module."""
        module = self._modules.at(address)
        if module is not None:
            return module.record
        vdso = self.vdso_at(address)
        return vdso.record if vdso is not None else None

    @cached_property
    def _vdso(self) -> Vdso | None:
        start = self._modules.vdso_start
        entry = self._modules.auxiliary_vector.get(AT_SYSINFO)
        return Vdso(self._target, start, entry) if start is not None else None

    def vdso_at(self, address: int) -> Vdso | None:
        """Return the vDSO if *address* is in its known code, otherwise None."""
        vdso = self._vdso
        if vdso is None or not vdso.record.start <= address < vdso.record.end:
            return None
        return vdso if vdso.is_known(address) else None

    @cached_property
    def unproven(self) -> Mapping[str, str]:
        """The reasons why modules' files are unproven, by the module's name. Empty if the target is not damaged."""
        if self._target.loss is None:
            return {}
        return {module.name: module.unproven for module in self.modules() if module.unproven is not None}

    @property
    def unseen_libraries(self) -> Sequence[str]:
        """The names of libraries that modules need, but that the modules of a damaged target lack."""
        return self._modules.needed

    def lost_data(self, module: Module) -> int | None:
        """Return the address of a lost page of *module*'s variables, None if no page is known to be lost."""
        loaded = self.loaded(module)
        return loaded.lost_data() if loaded is not None else None

    def variable_ranges(self, module: Module) -> Sequence[tuple[int, int, int]]:
        """Return the ranges of the variables of *module* (:meth:`Process.variable_ranges`)."""
        loaded = self.loaded(module)
        return loaded.variable_ranges() if loaded is not None else ()

    # Symbols

    def find(self, module: Module, name: str) -> Symbol | None:
        """Return the symbol *name* of *module*, with its link-time address; None if there is no such symbol."""
        loaded = self._by_start.get(module.start)
        return loaded.symbols.find(name) if loaded is not None and loaded.symbols is not None else None

    def _replaced(self, module: Module, name: str) -> int | None:
        # Return the address of the program's variable if it replaces the library's exported variable *name*, else None.
        # If the program has a variable of that name, or a copy relocation of it, all modules use the program's.
        program, replacing = self._modules.program, self._exported.get(name)
        if replacing is None or program is None or module.is_program:
            return None
        loaded = self._by_start.get(module.start)
        if loaded is None or loaded.symbols is None or name not in loaded.symbols.exported_variables:
            return None
        return replacing.address + program.bias

    @cached_property
    def _exported(self) -> Mapping[str, Symbol]:
        # The program's variables that other modules may refer to, by their names.
        program = self._modules.program
        try:
            return program.symbols.exported_variables if program is not None and program.symbols is not None else {}
        except MalformedFile:
            return {}

    def symbol_in(self, module: Module, name: str) -> int | None:
        """Return the address of *module*'s symbol *name*, None if there is no such symbol, or if it is thread-local."""
        replaced = self._replaced(module, name)
        if replaced is not None:
            return replaced
        symbol = self.find(module, name)
        return symbol.address + module.bias if symbol is not None and symbol.type != STT_TLS else None

    def symbols_in(self, module: Module, names: Sequence[str]) -> Mapping[str, int]:
        """Return the addresses of the symbols of *names* in *module*, without missing and thread-local ones."""
        loaded = self._by_start.get(module.start)
        if loaded is None or loaded.symbols is None:
            return {}
        symbols = loaded.symbols.find_many(names)
        addresses = {name: symbol.address + module.bias for name, symbol in symbols.items() if symbol.type != STT_TLS}
        for name in addresses.keys() & self._exported.keys():
            addresses[name] = self._replaced(module, name) or addresses[name]
        return addresses

    def naming(self, names: Collection[str]) -> Iterator[tuple[LoadedModule, Collection[str] | None]]:
        """Yield each module that defines or refers to symbols with one of *names*, together with these names.

        A module whose symbols are unknown is yielded with None. C and compiler libraries are left out.
        """
        for loaded in self._modules:
            if loaded.record.is_system_library:
                continue
            try:
                symbols = loaded.symbols.names(names) if loaded.symbols is not None else None
            except MalformedFile:
                symbols = None
            if symbols is None or symbols:
                yield loaded, symbols

    def symbols_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """Return the name and address of each symbol that begins with *prefix*.

        Thread-local symbols, and those of C and compiler libraries, are left out.
        """
        rows: list[tuple[str, int]] = []
        for loaded in self._modules:
            if loaded.symbols is None or loaded.record.is_system_library:
                continue
            try:
                for symbol in loaded.symbols.find_prefix(prefix):
                    if symbol.type != STT_TLS:
                        rows.append((symbol.name, symbol.address + loaded.bias))
            except MalformedFile:
                continue  # a damaged symbol table has no names
        return rows

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """Return the address of symbol *name* of the first module that has it, the program first.

        :param thread: the thread whose copy of a thread-local symbol is meant
        :raises SymbolNotFound: if no module has a symbol of that name
        :raises BadInput: if the symbol is thread-local, and *thread* is None
        """
        for module in sorted(self.modules(), key=lambda m: not m.is_program):
            try:
                return self.find_symbol_in(module, name, thread=thread)
            except SymbolNotFound:
                continue
        raise SymbolNotFound(name)

    def find_symbol_in(self, module: Module, name: str, *, thread: int | None = None) -> int:
        """Return the address of symbol *name* of one module, in *thread* if the symbol is thread-local.

        :raises SymbolNotFound: if the module has no symbol of that name
        :raises BadInput: if the symbol is thread-local, and *thread* is None
        """
        symbol = self.find(module, name)
        if symbol is None:
            raise SymbolNotFound(name, module.name)
        if symbol.type != STT_TLS:
            return self._replaced(module, name) or symbol.address + module.bias
        if thread is None:
            raise BadInput(f"{symbol.name} is thread-local: it has an address in a thread only")
        return self.storage.address(self._by_start[module.start], symbol, thread)
