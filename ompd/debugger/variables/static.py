"""Finds variables of a process by their names in the source.

The program's debug information is searched first, then its symbols. Other modules are searched only if the program has
no such variable, or if a module's name precedes the variable's. A symbol gives address and size, but no type.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ompd.binary.dwarf.index import EntryRef
from ompd.binary.elf.elf import PT_TLS
from ompd.binary.elf.symbols import STT_COMMON, STT_NOTYPE, STT_OBJECT, STT_TLS, Symbol, SymbolTable
from ompd.binary.types.static import CommonBlock, Location, NamedVariable, Scope, find_common, find_named
from ompd.binary.types.types import TypeInfo
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.threads.emutls import PREFIX
from ompd.debugger.variables.choices import (
    EMUTLS,
    GLOBAL,
    TLS,
    StaticVariable,
    best,
    distinguished,
    identity,
    in_module,
    is_meant,
    is_path_end,
    qualified_name,
)
from ompd.debugger.variables.names import BLANK, VariableName, linker_names, source_names, split_scopes
from ompd.errors import MalformedFile, NoAnswer, OmpdError, Unavailable

_DATA = frozenset((STT_OBJECT, STT_COMMON, STT_NOTYPE))
_MAX_NEAR = 5


class Variables:
    """Finds variables in the files of a process's modules. Results are kept, because they are the same at every stop.

    :param info_of: returns a module's types, None without debug information
    """

    def __init__(self, modules: Iterable[LoadedModule], info_of: Callable[[LoadedModule], TypeInfo | None]) -> None:
        self._modules = list(modules)
        self._info_of = info_of
        self._found: dict[str, tuple[StaticVariable, ...]] = {}

    def find(self, name: VariableName) -> tuple[StaticVariable, ...]:
        """Return the variables that *name* may mean, one per place. If there are several, their names differ.

        :raises NoAnswer: if there is no such variable
        """
        if name.text not in self._found:
            self._found[name.text] = tuple(self._find(name))
        return self._found[name.text]

    def _find(self, name: VariableName) -> list[StaticVariable]:
        faults: dict[str, str] = {}
        for modules, name_inside in self._searches(name):
            variables = self._in_modules(modules, name_inside, faults)
            if variables:
                return distinguished(best(variables, name_inside))
        raise self._not_found(name, faults)

    def _searches(self, name: VariableName) -> Iterator[tuple[list[LoadedModule], VariableName]]:
        # A module's name at the beginning selects that module.
        if name.scopes:
            named = [module for module in self._modules if is_path_end(name.scopes[0], module.record.name)]
            if named:
                yield named, replace(name, scopes=name.scopes[1:])
        program = [module for module in self._modules if module.record.is_program]
        libraries = [module for module in self._modules if not module.record.is_program]
        yield program, name
        yield [module for module in libraries if not module.record.is_system_library], name
        if name.scopes:
            # The C library and the loader share hundreds of names with users' code, such as "data".
            yield self._system_libraries(), name

    def _system_libraries(self) -> list[LoadedModule]:
        return [m for m in self._modules if m.record.is_system_library]

    def _in_modules(
        self, modules: Sequence[LoadedModule], name: VariableName, faults: dict[str, str]
    ) -> list[StaticVariable]:
        variables: list[StaticVariable] = []
        for module in modules:
            try:
                variables += self._in_debug_information(module, name)
            except NoAnswer:
                raise
            except OmpdError as error:
                faults[module.record.name] = str(error)
        if not variables:
            for module in modules:
                try:
                    variables += self._in_symbols(module, name)
                except OmpdError as error:
                    faults[module.record.name] = str(error)
        return variables

    # Debug information

    def _in_debug_information(self, module: LoadedModule, name: VariableName) -> list[StaticVariable]:
        info = self._info_of(module)
        if info is None:
            return []
        if name.block is not None:
            return self._in_blocks(module, info, name)
        entries = [_in_function(module, entry) for entry in _spelled(info, name.name)]
        entries = [entry for entry in entries if is_meant(entry, name)]
        placed = {identity(entry) for entry in entries if entry.location.kind in ("address", "tls", "constant")}
        variables: list[StaticVariable] = []
        for entry in entries:
            if entry.location.kind in ("declared", "none") and identity(entry) in placed:
                continue
            variable = self._variable(module, info, entry)
            if variable is not None:
                variables.append(variable)
        if not variables and not name.scopes:
            # The name may mean a COMMON block, although in the source its name is between slashes.
            variables = self._in_blocks(module, info, replace(name, block=name.name, name=""))
        return variables

    def _variable(self, module: LoadedModule, info: TypeInfo, entry: NamedVariable) -> StaticVariable | None:
        variable = StaticVariable(
            name=qualified_name(entry),
            module=module.record,
            mechanism=None,
            offset=0,
            size=_size(info, entry.type),
            info=info,
            type=entry.type,
            file=entry.file,
            line=entry.line,
            linkage=entry.linkage or entry.name,
            is_fortran=entry.is_fortran,
            short_name=entry.name,
            scopes=entry.scopes,
        )
        kind, number, raw = entry.location
        if kind == "address":
            return self._preempted(module, entry, replace(variable, mechanism=GLOBAL, offset=number + module.bias))
        if kind == "tls":
            return replace(variable, mechanism=TLS, offset=_block_offset(module, number))
        if kind == "constant" and (copy := _storage_of(module, entry.name)) is not None:
            # gcc 12 (-O0) describes a static variable used only in constructs by its initial value.
            return replace(
                variable, fault=f"its debug information gives only its initial value; its storage may be {copy}"
            )
        if kind == "constant":
            size = variable.size or 8
            order = module.elf.byte_order if module.elf is not None else "little"
            constant = raw or (number & (1 << 8 * size) - 1).to_bytes(size, order)
            return replace(
                variable, constant=constant, fault="the compiler made a constant of it, which is not in memory"
            )
        emulated = self._emulated(module, entry)
        if emulated is not None:
            return replace(variable, mechanism=EMUTLS, offset=emulated)
        if kind == "declared":
            return self._declared(variable)
        return replace(variable, fault="its debug information gives no location: the compiler may have removed it")

    def _preempted(self, module: LoadedModule, entry: NamedVariable, variable: StaticVariable) -> StaticVariable:
        # If a library's variable is also exported by the program, the loader binds the program and the library to the
        # program's copy (a copy relocation).
        name = entry.linkage or entry.name
        if module.record.is_program or not entry.is_external or name not in _exported(module):
            return variable
        for program in (m for m in self._modules if m.record.is_program):
            symbol = _exported(program).get(name)
            if symbol is not None:
                return replace(variable, offset=symbol.address + program.bias)
        return variable

    def _declared(self, variable: StaticVariable) -> StaticVariable | None:
        # A variable that is defined in a file without debug information: the symbol has its address.
        for module in sorted(self._modules, key=lambda m: (not m.record.is_program, m.record.is_system_library)):
            symbol = _symbol(module, variable.linkage or variable.short_name)
            if symbol is None:
                continue
            if symbol.type == STT_TLS:
                return replace(variable, module=module.record, mechanism=TLS, offset=symbol.address)
            if symbol.type in _DATA:
                return replace(variable, module=module.record, mechanism=GLOBAL, offset=symbol.address + module.bias)
        return None

    def _emulated(self, module: LoadedModule, entry: NamedVariable) -> int | None:
        # Return the address of the variable's control object. The object's symbol contains the variable's name and, for
        # a variable in a function, usually the function's name.
        symbols = _symbols(module)
        function = next((scope.name for scope in reversed(entry.scopes) if scope.kind == "function"), None)
        names = [entry.linkage or entry.name]
        if function is not None:
            names = [*([entry.linkage] if entry.linkage else []), f"{function}.{entry.name}"]
        controls = symbols.find_many([PREFIX + name for name in names])
        addresses = {symbol.address for symbol in controls.values()}
        if not addresses and function is not None:
            local = re.compile(rf"(?:{re.escape(entry.name)}\.\d+|_ZZ.*E\d+{re.escape(entry.name)}(?:_\d+)?)")
            candidates = symbols.find_prefix(PREFIX)
            addresses = {s.address for s in candidates if local.fullmatch(s.name.removeprefix(PREFIX))}
        return addresses.pop() + module.bias if len(addresses) == 1 else None

    def _in_blocks(self, module: LoadedModule, info: TypeInfo, name: VariableName) -> list[StaticVariable]:
        assert name.block is not None
        spellings = dict.fromkeys((name.block, name.block.lower(), name.block.upper()) if name.block else (BLANK,))
        blocks = [block for spelling in spellings for block in find_common(info, spelling)]
        variables: dict[Location, StaticVariable] = {}
        for block in blocks:
            for variable in self._of_block(module, info, block, name.name.lower()):
                variables.setdefault(Location(variable.mechanism or "", variable.offset), variable)
        if blocks and not variables:
            members = dict.fromkeys(member.name for block in blocks for member in block.members)
            raise NoAnswer(
                f"the debug information of {module.record.name} has no location of a member {name.name} of the COMMON"
                f" block /{name.block}/",
                hint=f"it has those of {', '.join(members)}" if members else "",
            )
        return list(variables.values())

    def _of_block(
        self, module: LoadedModule, info: TypeInfo, block: CommonBlock, member: str
    ) -> Iterator[StaticVariable]:
        if member:
            for entry in block.members:
                if entry.name.lower() == member:
                    variable = self._variable(module, info, entry)
                    if variable is not None:
                        yield variable
            return
        start = block.location.number
        rows = [(entry.name, entry.location.number - start, entry.type) for entry in block.members]
        members = tuple((name, offset, type_) for name, offset, type_ in rows if type_ is not None and offset >= 0)
        ends = [offset + (_size(info, type_) or 0) for _, offset, type_ in members]
        is_tls = block.location.kind == "tls"
        shown = "" if block.name == BLANK else block.name
        yield StaticVariable(
            name=f"/{shown}/",
            module=module.record,
            mechanism=TLS if is_tls else GLOBAL,
            offset=_block_offset(module, start) if is_tls else start + module.bias,
            size=max(ends, default=0),
            info=info,
            type=None,
            file=block.file,
            line=block.line,
            is_fortran=True,
            members=members,
            short_name=shown,
        )

    # Symbols

    def _in_symbols(self, module: LoadedModule, name: VariableName) -> Iterator[StaticVariable]:
        symbols = _symbols(module)
        spellings = list(linker_names(name))
        by_spelling = symbols.find_many([*spellings, *(PREFIX + spelling for spelling in spellings)])
        for spelling, symbol in by_spelling.items():
            variable = StaticVariable(
                name=spelling.removeprefix(PREFIX),
                module=module.record,
                mechanism=GLOBAL,
                offset=symbol.address + module.bias,
                size=symbol.size or None,
                info=None,
                type=None,
                linkage=spelling.removeprefix(PREFIX),
                short_name=name.name,
            )
            if spelling.startswith(PREFIX):
                yield replace(variable, mechanism=EMUTLS, size=None)
            elif symbol.type == STT_TLS:
                yield replace(variable, mechanism=TLS, offset=symbol.address)
            elif symbol.type in _DATA:
                yield variable

    def guards(self, variable: StaticVariable) -> list[Symbol]:
        """Return the symbols of possible guards of a thread-local *variable* of C++. A guard records that the variable
        was initialised.

        Empty for static initialisation (Itanium C++ ABI, 2.8, and the thread wrappers of gcc and clang).
        """
        module = next(m for m in self._modules if m.start == variable.module.start)
        symbols, linkage = _symbols(module), variable.linkage or variable.short_name
        mangled = linkage[2:] if linkage.startswith("_Z") else f"{len(linkage)}{linkage}"
        guard = symbols.find(f"_ZGV{mangled}")
        if guard is not None:
            return [guard] if guard.type == STT_TLS else []
        if symbols.find(f"_ZTH{mangled}") is not None:
            return [symbol for symbol in symbols.find_prefix("__tls_guard") if symbol.type == STT_TLS]
        if any(scope.kind == "function" for scope in variable.scopes) and linkage == variable.short_name:
            # The variable is in a function, and clang's debug information lacks the linker's name of such a variable.
            # So symbols are searched for the names of the variable and of the function.
            local = re.compile(rf"_ZGVZ.*E{len(linkage)}{re.escape(linkage)}(?:_\d+)?")
            function = next(s.name.partition("<")[0] for s in reversed(variable.scopes) if s.kind == "function")
            return [
                symbol
                for symbol in symbols.find_prefix("_ZGVZ")
                if symbol.type == STT_TLS
                and local.fullmatch(symbol.name)
                and f"{len(function)}{function}" in symbol.name
            ]
        return []

    # Errors for unknown names

    def _not_found(self, name: VariableName, faults: Mapping[str, str]) -> NoAnswer:
        near = self._near(name)
        hint = f"there is {', '.join(near)}" if near else "names are those of the source: x, file.c::x, ns::x, /block/x"
        unread = [f"{module} could not be searched: {fault}" for module, fault in list(faults.items())[:_MAX_NEAR]]
        without = [
            m.record.name.rpartition("/")[2]
            for m in self._modules
            if not m.record.is_system_library and (m.elf is None or self._info_of(m) is None)
        ]
        if without:
            more = "" if len(without) <= _MAX_NEAR else f" and {len(without) - _MAX_NEAR} more"
            unread.append(f"no debug information of {', '.join(without[:_MAX_NEAR])}{more}")
        reasons = f" ({'; '.join(unread)})" if unread else ""
        beneath = self._in_modules(self._system_libraries(), name, {}) if not name.scopes else []
        if beneath:
            named = list(dict.fromkeys(in_module(variable).name for variable in best(beneath, name)))
            return NoAnswer(
                f"no variable {name.text} of the program or its libraries in static storage{reasons}",
                hint=f"the C library and the loader have variables of their own: {', '.join(named[:_MAX_NEAR])}",
            )
        return NoAnswer(f"no variable {name.text} in static storage{reasons}", hint=hint)

    def _near(self, name: VariableName) -> list[str]:
        searched = name.name or name.block or ""
        names: dict[str, None] = {}
        for module in self._modules:
            if module.record.is_system_library:
                continue
            try:
                names.update(dict.fromkeys(source_names(_symbols(module).data_names())))
            except MalformedFile:
                continue
        by_end: dict[str, str] = {}
        for spelling in names:
            by_end.setdefault(re.split(r"::|/", spelling.rstrip("/"))[-1], spelling)
        ends = difflib.get_close_matches(searched, by_end, n=_MAX_NEAR, cutoff=0.6)
        return [by_end[end] for end in ends]


# Files


def _spelled(info: TypeInfo, name: str) -> list[NamedVariable]:
    # Fortran ignores case, and its compilers use either lower or upper case.
    entries = find_named(info, name)
    for other in dict.fromkeys((name.lower(), name.upper())):
        if other != name:
            entries += [entry for entry in find_named(info, other) if entry.is_fortran]
    return entries


def _symbols(module: LoadedModule) -> SymbolTable:
    if module.symbols is None:
        hint = f"{module.program_option} names the program" if module.record.is_program else ""
        raise Unavailable(module.record.fault or f"there is no file of {module.record.name}", hint=hint)
    return module.symbols


def _block_offset(module: LoadedModule, number: int) -> int:
    # The offset of a variable in the TLS block, given the number in debug information. With split debug information,
    # gcc makes the linker write an address there instead of the offset.
    segment = next((s for s in module.elf.segments if s.p_type == PT_TLS), None) if module.elf is not None else None
    if segment is not None and segment.p_memsz <= segment.p_vaddr <= number < segment.p_vaddr + segment.p_memsz:
        return number - segment.p_vaddr
    return number


def _in_function(module: LoadedModule, entry: NamedVariable) -> NamedVariable:
    # Return *entry* with the name of its function, if debug information lacks that name: clang omits it for a function
    # that is inlined everywhere. The linker's name of the variable contains the function's name.
    nameless = [index for index, scope in enumerate(entry.scopes) if scope.kind == "function" and not scope.name]
    if not nameless or entry.location.kind not in ("address", "tls", "none"):
        return entry
    try:
        symbols = _symbols(module)
        number, ending = entry.location.number, f".{entry.name}"
        if entry.location.kind == "none":
            end = re.compile(rf"(?:\.|E\d+){re.escape(entry.name)}(?:_\d+)?$")
            controls = [symbol for symbol in symbols.find_prefix(PREFIX) if end.search(symbol.name)]
            symbol = controls[0] if len(controls) == 1 else None
        else:
            symbol = symbols.at(number) if entry.location.kind == "address" else symbols.thread_local_at(number)
            symbol = symbol if symbol is not None and symbol.address == number else None
    except OmpdError:
        return entry
    if symbol is None:
        return entry
    name = symbol.name.removeprefix(PREFIX)
    around = [name.removesuffix(ending)] if name.endswith(ending) else _around(name, entry.name)
    if not around:
        return entry
    named = (*(Scope("type", part) for part in around[:-1]), Scope("function", around[-1]))
    return entry._replace(scopes=(*entry.scopes[: nameless[-1]], *named))


def _around(symbol: str, name: str) -> list[str]:
    # Return the scopes of a variable in a function of C++, by its linker's name.
    from ompd.binary.demangle import demangle

    parts = split_scopes(demangle(symbol) or "")
    return parts[:-1] if parts[-1] == name else []


def _exported(module: LoadedModule) -> Mapping[str, Symbol]:
    try:
        return module.symbols.exported_variables if module.symbols is not None else {}
    except OmpdError:
        return {}  # damaged symbols count as missing


def _symbol(module: LoadedModule, name: str) -> Symbol | None:
    try:
        return _symbols(module).find(name)
    except OmpdError:
        return None  # there is no file, or its table is damaged


def _storage_of(module: LoadedModule, name: str) -> str | None:
    # Return the symbol of a static variable in a function, which is called by the variable's name and a number.
    try:
        symbols = module.symbols.find_prefix(f"{name}.") if module.symbols is not None else ()
    except MalformedFile:
        return None
    return next((symbol.name for symbol in symbols if symbol.name[len(name) + 1 :].isdecimal()), None)


def _size(info: TypeInfo, type_: EntryRef | None) -> int | None:
    try:
        return info.size_at(type_) if type_ is not None else None
    except OmpdError:
        return None
