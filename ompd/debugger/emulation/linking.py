"""Finds the routines to which the loader would bind linkage table entries that the program has not called yet.

With lazy binding the loader binds an entry at its first call. But the loader's code cannot be emulated: it writes to
memory, and saves registers in ways that no emulator supports. So this module looks the entry's name up, like
``_dl_fixup`` of glibc. If several libraries have the name, their order may depend on how they were opened. Then there
is no result, because the loader does not record how.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from ompd.binary.elf.dynamic import Definition, DynamicLinking, Wanted
from ompd.binary.elf.elf import PT_DYNAMIC
from ompd.binary.elf.symbols import STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE
from ompd.contract.memory import read_unsigned
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.loader import LinkMap, Loader
from ompd.debugger.modules.modules import LoadedModule
from ompd.errors import CorruptState, MalformedFile, MemoryFault, Unavailable

_MAX_PATH = 1 << 12
# The table that a module shares with the loader begins with the address of the module's dynamic section, the loader's
# record of the module, and the loader's routine that binds. This is the index of the last one.
_BINDER = 2


class _Linked(NamedTuple):
    link_map: LinkMap
    module: LoadedModule
    dynamic: DynamicLinking


class Linkage:
    """The linkage tables of one process. Facts from files are computed once.

    :param module_at: returns the module that contains an address
    :param jump_slot: the type of the relocations of linkage table entries
    """

    def __init__(
        self,
        memory: TargetMemory,
        loader: Loader,
        module_at: Callable[[int], LoadedModule | None],
        jump_slot: int,
    ) -> None:
        self._memory = memory
        self._loader = loader
        self._module_at = module_at
        self._jump_slot = jump_slot
        self._linked: dict[int, _Linked | None] = {}
        self.bound: dict[tuple[int, int], int] = {}
        self._global: dict[int, tuple[_Linked, ...]] = {}
        self._names: dict[int, dict[str, tuple[int, LinkMap]]] = {}

    def is_binder(self, routine: int, link_map: int) -> bool:
        """Return whether the module with the record *link_map* calls *routine* to bind an entry."""
        if link_map not in self._maps:
            return False
        try:
            linked = self._of(self._maps[link_map])
            table = linked.dynamic.linkage_table if linked is not None else None
            if linked is None or table is None:
                return False
            size = self._memory.pointer_size
            return read_unsigned(self._memory, linked.module.bias + table + _BINDER * size, size) == routine
        except (MalformedFile, MemoryFault):
            return False

    def bind(self, link_map: int, index: int) -> int:
        """Return the address of the routine for entry *index* of a module's linkage table.

        :param link_map: the module's ``struct link_map``
        :raises Unavailable: if the routine depends on the processor (STT_GNU_IFUNC), if no module has it, or if the
            loader may choose between several
        :raises MalformedFile: if a module's tables are not in its file
        """
        key = link_map, index
        if key not in self.bound:
            self.bound[key] = self._bind(link_map, index)
        return self.bound[key]

    def _bind(self, link_map: int, index: int) -> int:
        asking = self._of(self._maps[link_map]) if link_map in self._maps else None
        if asking is None:
            raise Unavailable(f"the loader has no module with a record at {link_map:#x} whose file is known")
        symbol = asking.dynamic.wanted(index, self._jump_slot)
        if symbol.own is not None:
            return self._routine(symbol, asking, Definition(symbol.own, symbol.own_type))
        if asking.dynamic.is_symbolic:
            definition = asking.dynamic.find(symbol)
            if definition is not None:
                return self._routine(symbol, asking, definition)
        ordered = self._everywhere(asking.link_map.namespace)
        for linked in ordered:
            definition = linked.dynamic.find(symbol)
            if definition is not None:
                return self._routine(symbol, linked, definition)
        return self._among_opened(symbol, asking, ordered)

    def _among_opened(self, symbol: Wanted, asking: _Linked, ordered: tuple[_Linked, ...]) -> int:
        # The routine in a module that was opened at run time. Only one of these modules may have it: their order in the
        # lookup depends on which of them opened the others.
        searched = {linked.link_map.address for linked in ordered}
        definitions = []
        for link_map in self._maps.values():
            if link_map.namespace != asking.link_map.namespace or link_map.address in searched:
                continue
            linked = self._of(link_map)
            if linked is None:
                if self._is_kernels(link_map):
                    continue
                raise Unavailable(f"{symbol.name} may be in a module whose file is unknown")
            definition = linked.dynamic.find(symbol)
            if definition is not None:
                definitions.append((linked, definition))
        if not definitions:
            raise Unavailable(f"no module of the process has {symbol.name}")
        if len(definitions) > 1:
            names = " and ".join(linked.module.name for linked, _ in definitions[:2])
            raise Unavailable(f"{symbol.name} is in {names}: which of them the loader would take is unknown")
        linked, definition = definitions[0]
        if linked.link_map.address not in self._reached(asking):
            raise Unavailable(f"{symbol.name} is in {linked.module.name}, which {asking.module.name} does not need")
        return self._routine(symbol, linked, definition)

    def _reached(self, asking: _Linked) -> set[int]:
        # The records of a module and of its direct and indirect dependencies. The loader searches all of these, however
        # the module was opened.
        opened = self._opened_as(asking.link_map.namespace)
        reached, queue = {asking.link_map.address}, [asking]
        for linked in queue:
            for name in linked.dynamic.needed:
                place_and_map = opened.get(name.rpartition("/")[2])
                needed = self._of(place_and_map[1]) if place_and_map is not None else None
                if needed is not None and needed.link_map.address not in reached:
                    reached.add(needed.link_map.address)
                    queue.append(needed)
        return reached

    def _routine(self, symbol: Wanted, linked: _Linked, definition: Definition) -> int:
        if definition.type == STT_GNU_IFUNC:
            raise Unavailable(f"{symbol.name} of {linked.module.name} is chosen by the processor that runs it")
        if definition.type not in (STT_FUNC, STT_NOTYPE):
            raise Unavailable(f"{symbol.name} of {linked.module.name} is not a function")
        return linked.module.bias + definition.address

    @cached_property
    def _maps(self) -> dict[int, LinkMap]:
        # The loader's records of modules by their addresses. Empty if the list is damaged: nothing can be bound then.
        try:
            return {link_map.address: link_map for link_map in self._loader.link_maps}
        except (Unavailable, CorruptState, MemoryFault):
            return {}

    def _of(self, link_map: LinkMap) -> _Linked | None:
        if link_map.address not in self._linked:
            self._linked[link_map.address] = self._look(link_map)
        return self._linked[link_map.address]

    def _look(self, link_map: LinkMap) -> _Linked | None:
        module = self._module_at(link_map.l_ld)
        elf = module.elf if module is not None and module.unproven is None else None
        dynamic = next((s for s in elf.segments if s.p_type == PT_DYNAMIC), None) if elf is not None else None
        if module is None or elf is None or dynamic is None:
            return None
        if link_map.l_ld != module.bias + dynamic.p_vaddr or link_map.l_addr != module.bias:
            return None
        try:
            return _Linked(link_map, module, DynamicLinking(elf))
        except MalformedFile:
            return None

    def _everywhere(self, namespace: int) -> tuple[_Linked, ...]:
        # The modules that were loaded with the program, in order. Every lookup begins with them.
        if namespace not in self._global:
            maps = [link_map for link_map in self._maps.values() if link_map.namespace == namespace]
            count = self._count_first(maps)
            modules = [(link_map, self._of(link_map)) for link_map in maps[:count] if not self._is_kernels(link_map)]
            for link_map, linked in modules:
                if linked is None:
                    raise Unavailable(f"the loader's module {self._name(link_map)!r} has no file that is known")
            self._global[namespace] = tuple(linked for _, linked in modules if linked is not None)
        return self._global[namespace]

    def _count_first(self, maps: list[LinkMap]) -> int:
        # How many of *maps* were loaded with the program: the program, preloaded modules, and their dependencies. They
        # are first in the loader's list, before modules that were opened later.
        opened = self._opened_as(maps[0].namespace) if maps else {}
        count, index = min(1, len(maps)), 0
        while index < count:
            linked = self._of(maps[index])
            for name in linked.dynamic.needed if linked is not None else ():
                place_and_map = opened.get(name.rpartition("/")[2])
                place = place_and_map[0] if place_and_map is not None else self._place_by_soname(maps, name)
                count = max(count, place + 1)
            index += 1
        return count

    def _opened_as(self, namespace: int) -> dict[str, tuple[int, LinkMap]]:
        # The index in the loader's list and the record of each module. The key is the file name under which it was
        # opened, which is usually the name in other modules' DT_NEEDED.
        if namespace not in self._names:
            maps = [link_map for link_map in self._maps.values() if link_map.namespace == namespace]
            names: dict[str, tuple[int, LinkMap]] = {}
            for place, link_map in enumerate(maps):
                names.setdefault(self._name(link_map), (place, link_map))
            self._names[namespace] = names
        return self._names[namespace]

    def _place_by_soname(self, maps: list[LinkMap], name: str) -> int:
        for place, link_map in enumerate(maps):
            linked = self._of(link_map)
            if linked is not None and linked.dynamic.soname == name:
                return place
        raise Unavailable(f"the loader's list does not have {name}")

    def _name(self, link_map: LinkMap) -> str:
        # The file name under which the module was opened, perhaps the name of a symbolic link.
        raw = self._memory.read_string(link_map.l_name, _MAX_PATH) if link_map.l_name else b""
        return raw.decode("utf-8", "replace").rpartition("/")[2]

    def _is_kernels(self, link_map: LinkMap) -> bool:
        return self._name(link_map).startswith("linux-vdso")
