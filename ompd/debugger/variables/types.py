"""Types in the debug information of the target's modules, for DMPL's callbacks and the layouts of ompd's plugins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.types.static import find_variables
from ompd.binary.types.types import DwarfType, TypeInfo
from ompd.contract.callbacks import TypeRef
from ompd.contract.memory import Field, StructLayout
from ompd.contract.process import Module, Variable
from ompd.debugger.modules.kept_layouts import SOURCE
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.errors import (
    BadInput,
    FieldNotFound,
    LayoutUnavailable,
    MalformedFile,
    OmpdError,
    TypeNotFound,
    Unsupported,
)

if TYPE_CHECKING:
    from ompd.debugger.variables.static import Variables


class Types:
    """The types of all modules of a process. A module's debug information is opened when it is first needed."""

    def __init__(self, modules: ModuleList) -> None:
        self._modules = modules
        self._infos: dict[int, TypeInfo | None] = {}
        self._variables: dict[tuple[int, tuple[str, ...]], tuple[Variable, ...]] = {}

    def find(self, name: str) -> TypeRef:
        """Return the type *name* of the first module that defines it. The order is: the program, then modules by
        address, C and compiler libraries last.

        :raises TypeNotFound: if no module defines it
        """
        fault: MalformedFile | Unsupported | None = None
        order = sorted(self._modules, key=lambda m: (not m.record.is_program, m.record.is_system_library))
        for module in order:
            try:
                type_ref = self._find_in(module, name)
            except (MalformedFile, Unsupported) as error:
                fault = fault or error
                continue
            if type_ref is not None:
                return TypeRef(type_ref)
        raise TypeNotFound(name, f"the modules' debug information ({fault})" if fault else "") from fault

    def find_in(self, module: Module, name: str) -> TypeRef:
        """Return the type *name* of one module.

        :raises TypeNotFound: if the module's debug information does not define it
        :raises LayoutUnavailable: if the module has no debug information
        """
        return TypeRef(self._of(module, name))

    def layout(self, module: Module, name: str, members: Sequence[str]) -> StructLayout:
        """Return the offsets of *members* of the structure *name* in *module*, bit fields as masks.

        Members that are missing, or without a fixed place, are absent from the result.

        :raises TypeNotFound: if the module's debug information does not define it
        :raises LayoutUnavailable: if the module has no debug information
        """
        loaded = self._loaded(module)
        kept = loaded.layouts.get(name, members) if loaded is not None else None
        if kept is not None:
            return kept
        dwarf_type = self._of(module, name)
        layout = _layout(dwarf_type, name, members)
        info = self.info_of(loaded) if loaded is not None else None
        if loaded is not None and info is not None and info.index.files.is_whole:
            loaded.layouts.put(members, layout)
        return layout

    def variables_of_type(self, module: Module, names: Sequence[str]) -> Sequence[Variable]:
        """Return all objects in static storage of *module* whose type is named in *names*; see
        :meth:`Process.variables_of_type`. Arrays of more than 65,536 elements are left out.
        """
        key = module.start, tuple(names)
        if key not in self._variables:
            loaded = self._loaded(module)
            info = self.info_of(loaded) if loaded is not None else None
            try:
                rows = find_variables(info, names) if info is not None else []
            except OmpdError:
                rows = []  # damaged debug information counts as missing
            variables = (Variable(expression, address + module.bias) for expression, address in rows)
            self._variables[key] = tuple(v for v in variables if self._modules.at(v.address) is loaded)
        return self._variables[key]

    @cached_property
    def named(self) -> Variables:
        """The variables of all modules by their names."""
        from ompd.debugger.variables.static import Variables

        return Variables(self._modules, self.info_of)

    def _loaded(self, module: Module) -> LoadedModule | None:
        return next((m for m in self._modules if m.start == module.start), None)

    def _of(self, module: Module, name: str) -> DwarfType:
        loaded = self._loaded(module)
        if loaded is None or self.info_of(loaded) is None:
            raise LayoutUnavailable(
                f"{module.name} has no debug information",
                hint="install its separate debug file, or name the folder of it with --debug-dir",
            )
        type_ref = self._find_in(loaded, name)
        if type_ref is None:
            raise TypeNotFound(name, f"the debug information of {module.name}")
        return type_ref

    def _find_in(self, module: LoadedModule, name: str) -> DwarfType | None:
        info = self.info_of(module)
        return info.find(name) if info is not None else None

    def info_of(self, module: LoadedModule) -> TypeInfo | None:
        """Return the types of one module, None if it has no debug information."""
        if module.start not in self._infos:
            elf = module.types_elf
            self._infos[module.start] = (
                TypeInfo(elf, module.companions, module.debug_files(elf)) if elf is not None else None
            )
        return self._infos[module.start]


def sizeof(type_ref: TypeRef) -> int:
    """Return the size of a type in bytes.

    :raises BadInput: if *type_ref* is not from :class:`Types`
    """
    return _checked(type_ref).size


def field_offset(type_ref: TypeRef, field: str) -> int:
    """Return the offset of member *field* in bytes; ``a.b`` is member b of the structure in member a.

    :raises FieldNotFound: if the type has no such member
    :raises Unsupported: if the member is a bit field
    """
    dwarf_type = _checked(type_ref)
    member = dwarf_type.member(field)
    if member.bits is not None:
        raise Unsupported(f"{dwarf_type.name}.{field} is a bit field, whose place is not a number of bytes")
    return member.offset


def _checked(type_ref: TypeRef) -> DwarfType:
    if not isinstance(type_ref, DwarfType):
        raise BadInput(f"{type_ref!r} is not a type of this process")
    return type_ref


def _layout(dwarf_type: DwarfType, name: str, members: Sequence[str]) -> StructLayout:
    fields: dict[str, Field] = {}
    masks: dict[str, int] = {}
    size = dwarf_type.size
    for path in members:
        try:
            member = dwarf_type.member(path)
        except (FieldNotFound, Unsupported):
            continue
        if member.bits is None or member.first_bit is None:
            fields[path] = Field(member.offset, member.size)
        else:
            above = size * 8 - member.first_bit - member.bits
            low = member.first_bit if dwarf_type.byte_order == "little" else above
            masks[path] = ((1 << member.bits) - 1) << low
    return StructLayout(name, size, fields, SOURCE, masks)
