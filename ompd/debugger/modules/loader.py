"""The loader's list of modules, which it provides for debuggers: ``struct r_debug`` of ``<link.h>``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from ompd.binary.elf.elf import DT_DEBUG, DT_NULL, PT_DYNAMIC, ElfFile
from ompd.contract.memory import Memory, read_unsigned
from ompd.contract.process import Module
from ompd.errors import CorruptState, MemoryFault, Unavailable

_MAX_DYNAMIC = 1 << 12
_MAX_MODULES = 1 << 16


class LinkMap(NamedTuple):
    """One ``struct link_map`` of the loader (``<link.h>``), at ``address``, for one module.

    ``l_addr`` is the module's load bias, ``l_ld`` the address of its dynamic section, and ``l_name`` the address of its
    file's name. ``namespace`` is the number of the list: 0 for the program's, others belong to ``dlmopen`` and tools.
    """

    address: int
    l_addr: int
    l_ld: int
    l_name: int
    namespace: int = 0


class Program(Protocol):
    """The program's own module. ``elf`` is its file, None if unknown; ``bias`` is its load bias."""

    @property
    def elf(self) -> ElfFile | None: ...

    @property
    def bias(self) -> int: ...


class SymbolSource(Protocol):
    """The modules of a process, with symbols at addresses of the target."""

    def modules(self) -> Sequence[Module]: ...

    def symbol_in(self, module: Module, name: str, /) -> int | None: ...

    def symbols_in(self, module: Module, names: Sequence[str], /) -> Mapping[str, int]: ...


class Loader:
    """The dynamic loader of one process.

    :param program: the program's own module, None if it is unknown
    """

    def __init__(self, memory: Memory, symbols: SymbolSource, program: Program | None) -> None:
        self._memory, self._symbols = memory, symbols
        self._program = program

    @cached_property
    def link_maps(self) -> tuple[LinkMap, ...]:
        """The modules of all namespaces, the program's namespace first, each namespace in the order of loading.

        :raises Unavailable: if the loader's list was not found
        :raises CorruptState: if the list does not end
        :raises MemoryFault: if a part of the list cannot be read
        """
        return tuple(iter_link_maps(self._memory, self._r_debug()))

    def position(self, start: int, end: int) -> int:
        """Return the index in :attr:`link_maps` of the module from *start* to *end*.

        For a module that is not found there, return a number larger than all indexes.
        """
        try:
            return next((n for n, m in enumerate(self.link_maps) if start <= m.l_ld < end), _MAX_MODULES)
        except (Unavailable, CorruptState, MemoryFault):
            return _MAX_MODULES

    def _r_debug(self) -> int:
        # The address of struct r_debug. The loader writes it into the program's dynamic section (DT_DEBUG). If it is
        # not there, the structure is found by the loader's symbol.
        program = self._program
        elf = program.elf if program is not None else None
        dynamic = next((s for s in elf.segments if s.p_type == PT_DYNAMIC), None) if elf is not None else None
        size = self._memory.pointer_size
        if program is not None and dynamic is not None:
            start = program.bias + dynamic.p_vaddr
            for entry in range(min(dynamic.p_memsz // (2 * size), _MAX_DYNAMIC)):
                try:
                    tag = read_unsigned(self._memory, start + entry * 2 * size, size)
                    value = read_unsigned(self._memory, start + entry * 2 * size + size, size)
                except MemoryFault:
                    break
                if tag == DT_DEBUG and value:
                    return value
                if tag == DT_NULL:
                    break
        for module in self._symbols.modules():
            address = self._symbols.symbol_in(module, "_r_debug")
            if address is not None:
                return address
        raise Unavailable("the loader's list of modules was not found (no DT_DEBUG in the program, no _r_debug)")


def iter_link_maps(process: Memory, r_debug: int) -> Iterator[LinkMap]:
    """Yield the loader's modules, starting at its ``struct r_debug``; see :attr:`Loader.link_maps`.

    :raises CorruptState: if the list does not end
    :raises MemoryFault: if the rest of the list cannot be read
    """
    size = process.pointer_size
    visited: set[int] = set()
    namespace = -1
    while r_debug and r_debug not in visited:
        namespace += 1
        visited.add(r_debug)
        version = read_unsigned(process, r_debug, 4)
        link_map = read_unsigned(process, r_debug + size, size)
        while link_map:
            if link_map in visited or len(visited) > _MAX_MODULES:
                raise CorruptState(link_map, "the loader's list of modules does not end")
            visited.add(link_map)
            raw = process.read(link_map, 4 * size)
            l_addr, l_name, l_ld, following = (
                int.from_bytes(raw[offset : offset + size], process.byte_order) for offset in range(0, 4 * size, size)
            )
            yield LinkMap(link_map, l_addr, l_ld, l_name, namespace)
            link_map = following
        # The members of struct r_debug: r_version, padding, r_map, r_brk, r_state, padding, r_ldbase. Since version 2
        # (glibc 2.35) r_next follows, the address of the next namespace's structure.
        try:
            r_debug = read_unsigned(process, r_debug + 5 * size, size) if version >= 2 else 0
        except MemoryFault:
            return
