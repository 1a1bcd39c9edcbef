"""The symbols of a module, whichever of its tables and files they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from ompd.binary.elf.dynamic import dynamic_symbols
from ompd.binary.elf.elf import SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, ElfFile, Section
from ompd.binary.elf.symbols import Kept, Symbol, SymbolSection, is_symbol, preferred_of
from ompd.errors import MalformedFile
from ompd.safety import limits

_MOST_FOUND = 64  # lists of names whose symbols are kept: those in the code are few
_MOST_NAMES = 1 << 12  # single names: a hosted library may look up any number of them


class SymbolTable:
    """The defined symbols of one module: ``.dynsym``, ``.symtab`` and ``.symtab`` of its separate debug file, as one.

    Addresses are link-time addresses; the debug file's are those of the module (that is what makes it its debug file).
    Tables are read at first need and in that order, and a table that answers ends the search. A file without section
    headers has ``.dynsym`` by its dynamic section.

    :param debug_elf: the debug file, or a function that finds it (None: there is none), which is called once, when the
        module's own tables did not answer
    :param kept: finds what is kept of a file from before
    """

    def __init__(
        self,
        elf: ElfFile,
        debug_elf: ElfFile | Callable[[], ElfFile | None] | None = None,
        kept: Callable[[ElfFile], Kept | None] | None = None,
    ) -> None:
        self._elf = elf
        self._kept = kept
        self._debug_elf = debug_elf
        self._at: dict[int, Symbol | None] = {}
        self._found: dict[str, Symbol | None] = {}
        self._found_many: dict[frozenset[str], dict[str, Symbol]] = {}
        self._named: dict[str, bool] = {}

    @cached_property
    def _own_tables(self) -> list[SymbolSection]:
        return self._read_tables(self._elf, SHT_DYNSYM, SHT_SYMTAB)

    @cached_property
    def _debug_tables(self) -> list[SymbolSection]:
        elf = self._debug_elf() if callable(self._debug_elf) else self._debug_elf
        return self._read_tables(elf, SHT_SYMTAB) if elf is not None else []

    def _read_tables(self, elf: ElfFile, *kinds: int) -> list[SymbolSection]:
        found = [s for kind in kinds for s in elf.sections if s.sh_type == kind and s.sh_size]
        if len(found) > limits.MAX_SYMBOL_TABLES:
            raise MalformedFile(f"{elf.name}: {len(found)} tables of symbols")
        if not elf.sections and SHT_DYNSYM in kinds:
            # A loader needs none, and programs that make files small leave none.
            table = dynamic_symbols(elf)
            return [self._table(elf, *table)] if table is not None else []
        return [self._table(elf, section) for section in found]

    def _table(self, elf: ElfFile, section: Section, strings: Section | None = None) -> SymbolSection:
        return SymbolSection(elf, section, self._kept(elf) if self._kept is not None else None, strings=strings)

    def _tables(self) -> Iterator[SymbolSection]:
        yield from self._own_tables
        yield from self._debug_tables

    def find(self, name: str) -> Symbol | None:
        """Return the symbol called exactly *name*, or None; of several the global one, then weak, then local.

        Undefined symbols, sections and file names are no symbols here.

        :raises MalformedFile: if a table or its strings are malformed
        """
        if name in self._found:
            return self._found[name]
        symbol = next(filter(None, (t.preferred(name) for t in self._tables())), None)
        if len(self._found) < _MOST_NAMES:
            self._found[name] = symbol
        return symbol

    def find_many(self, names: Iterable[str]) -> dict[str, Symbol]:
        """Return those of *names* that there are, each as :meth:`find` would, in one pass over a table.

        :raises MalformedFile: if a table or its strings are malformed
        """
        wanted = frozenset(names)
        if wanted in self._found_many:
            return dict(self._found_many[wanted])
        missing = set(wanted)
        answer: dict[str, Symbol] = {}
        for table in self._tables():
            if not missing:
                break
            candidates: dict[str, list[Symbol]] = {}
            for symbol in table.find_many(missing):
                candidates.setdefault(symbol.name, []).append(symbol)
            for name, symbols in candidates.items():
                best = preferred_of(symbols)
                if best is not None:
                    answer[name] = best
                    missing.discard(name)
        if len(self._found_many) < _MOST_FOUND:
            self._found_many[wanted] = answer
        return dict(answer)

    def mentions(self, names: Iterable[str]) -> set[str]:
        """Return those of *names* that may be in the module's own tables, symbols of other modules included: all that
        are, and few that are not.

        :raises MalformedFile: if a table is malformed
        """
        return {name for name in names if any(table.mentions(name) for table in self._own_tables)}

    def names(self, wanted: Iterable[str]) -> set[str]:
        """Return those of the *wanted* names that a symbol of the module has, or one of another module to which it
        refers: by its dynamic symbols, by ``.symtab`` in a program without any. All of them may be in one without both.

        :raises MalformedFile: if a table is malformed
        """
        for name in wanted:
            if name not in self._named and len(self._named) < _MOST_NAMES:
                self._named[name] = not self._own_tables or bool(self._own_tables[0].find(name))
        return {name for name in wanted if self._named.get(name, True)}

    def passed_on(self, wanted: Iterable[str]) -> set[str]:
        """Return those of the *wanted* functions of other modules whose address a program has as a number in its code
        or data: then its linkage table has the function's address (psABI, "Function Addresses").

        :raises MalformedFile: if a table is malformed
        """
        tables = self._own_tables[:1]
        return {
            name
            for name in wanted
            for table in tables
            for symbol in table.find(name)
            if symbol.section == SHN_UNDEF and symbol.address
        }

    def data_names(self) -> list[str]:
        """Return the names of variables: of the first table that has some, at most some hundred thousand.

        :raises MalformedFile: if a table or its strings are malformed
        """
        for table in reversed(list(self._tables())):
            names = table.data_names()
            if names:
                return names
        return []

    def variables(self) -> Iterator[Symbol]:
        """Yield the variables that other modules may refer to, thread-local ones aside.

        :raises MalformedFile: if a table or its strings are malformed
        """
        for table in self._tables():
            yield from table.variables()

    @cached_property
    def exported_variables(self) -> Mapping[str, Symbol]:
        """The variables in ``.dynsym``, by name: what the loader binds references of other modules to.

        :raises MalformedFile: if the table or its strings are malformed
        """
        tables = self._read_tables(self._elf, SHT_DYNSYM)
        return {symbol.name: symbol for table in tables for symbol in table.variables()}

    def thread_local_at(self, offset: int) -> Symbol | None:
        """Return the thread-local variable *offset* bytes from the start of the module's TLS block, or None.

        :raises MalformedFile: if a table or its strings are malformed
        """
        return next(filter(None, (table.thread_local_at(offset) for table in self._tables())), None)

    def find_prefix(self, prefix: str) -> list[Symbol]:
        """Return every symbol whose name begins with *prefix*, by name, then address; the same one of two tables once.

        All tables are read for it.

        :raises MalformedFile: if a table or its strings are malformed
        """
        symbols: dict[tuple[str, int], Symbol] = {}
        for table in self._tables():
            for symbol in filter(is_symbol, table.find_prefix(prefix)):
                symbols.setdefault((symbol.name, symbol.address), symbol)
        return [symbols[key] for key in sorted(symbols)]

    def at(self, address: int) -> Symbol | None:
        """Return the function or object that covers the link-time *address*, or None.

        A symbol covers ``st_size`` bytes; one of size 0 reaches to the next symbol or the end of its section. Of
        symbols that begin at one address functions come before objects, global before weak and local. A version in the
        name (``name@@VERSION``) is cut off. TLS symbols have no address.

        :raises MalformedFile: if a table or its strings are malformed
        """
        if address not in self._at:
            symbol = next(filter(None, (table.covering(address) for table in self._tables())), None)
            if symbol is None:
                symbol = next(filter(None, (table.preceding(address) for table in self._tables())), None)
            self._at[address] = symbol and symbol._replace(name=symbol.name.partition("@")[0] or symbol.name)
        return self._at[address]
