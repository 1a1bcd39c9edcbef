"""Finds the addresses of thread-local variables, in static TLS and in blocks of modules that were loaded later.

The ELF ABI defines the place of the program's own TLS block, for every C library. The places of shared libraries'
blocks are in structures of glibc's loader, which :mod:`ompd.debugger.threads.glibc` reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.cursor import order_mark
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.elf import ElfFile, Section, Segment
from ompd.binary.elf.symbols import Symbol
from ompd.contract.memory import Memory, read_signed
from ompd.debugger.modules.loader import LinkMap, Loader
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.errors import CorruptState, MalformedFile, MemoryFault, NoStorage, OmpdError, Unavailable
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.debugger.threads.threads import Threads

# The most bytes of a thread-local block that a snapshot keeps.
_MAX_BLOCK = 1 << 24


class _Block(NamedTuple):
    # The place of a module's TLS block. A static block is at ``distance`` from the thread pointer. For a dynamic block
    # ``distance`` is None, and the module's number shows the block in each thread.
    distance: int | None
    module_id: int
    link_map: int


class ThreadLocalStorage:
    """The thread-local variables of one process.

    :param program: the program's own module, None if it is unknown
    """

    def __init__(
        self,
        memory: Memory,
        architecture: Architecture,
        glibc: GlibcThreads,
        loader: Loader,
        program: LoadedModule | None,
        threads: Threads,
    ) -> None:
        self._memory = memory
        self._architecture = architecture
        self._glibc = glibc
        self._loader = loader
        self._program = program
        self._threads = threads
        self._blocks: dict[int, _Block] = {}

    def address(self, module: LoadedModule, symbol: Symbol, thread: int) -> int:
        """Return the address of *thread*'s copy of the thread-local *symbol* of *module*.

        :raises NoStorage: if the thread has no copy yet
        :raises Unavailable: if this C library does not publish the place of the block
        :raises MalformedFile: if the symbol is not in the module's TLS segment
        :raises CorruptState: if the loader's structures contradict themselves
        """
        return self.offset_address(module, symbol.address, symbol.size, symbol.name, thread)

    def offset_address(self, module: LoadedModule, offset: int, size: int, name: str, thread: int) -> int:
        """Return the address of the variable at *offset* in *thread*'s TLS block of *module*.

        :param name: the variable's name in errors
        :raises NoStorage: if the thread has no block yet
        :raises Unavailable: if this C library does not publish the place of the block
        :raises MalformedFile: if the variable is not in the module's TLS segment
        :raises CorruptState: if the loader's structures contradict themselves
        """
        segment = _tls_segment(module)
        if segment is None or offset < 0 or offset + size > segment.p_memsz:
            raise MalformedFile(f"{module.name}: {name} is not in the segment of thread-local variables")
        return self._block_address(module, segment, name, thread) + offset

    def block(self, module: LoadedModule, thread: int) -> tuple[int, int] | None:
        """Return the address and size in bytes of *thread*'s TLS block of *module*; None if the module has no TLS
        segment.

        :raises NoStorage: if the thread has no block yet
        :raises Unavailable: if this C library does not publish the place of the block, or the module's file is unknown
        :raises CorruptState: if the loader's structures contradict themselves
        """
        if module.elf is None:
            raise Unavailable(f"{module.record.fault or module.name}: its thread-local storage is unknown")
        segment = _tls_segment(module)
        if segment is None:
            return None
        name = f"the thread-local storage of {module.name}"
        return self._block_address(module, segment, name, thread), segment.p_memsz

    def read_blocks(self, modules: Iterable[LoadedModule], thread: int) -> None:
        """Read *thread*'s TLS blocks and its ``struct pthread``, so that their pages are noted for a snapshot.

        Memory that cannot be read is left out.
        """
        ranges = [(self._threads.pthread_self(thread), self._glibc.sizeof_pthread)]
        for module in modules:
            segment = _tls_segment(module)
            if segment is not None:
                with suppress(OmpdError):
                    start = self._block_address(module, segment, module.name, thread)
                    ranges.append((start, min(segment.p_memsz, _MAX_BLOCK)))
        for start, size in ranges:
            with suppress(MemoryFault):
                self._memory.read(start, size)

    def _block_address(self, module: LoadedModule, segment: Segment, name: str, thread: int) -> int:
        thread_pointer = self._threads.thread_pointer(thread)
        if module.start not in self._blocks:
            self._blocks[module.start] = self._find_block(module, segment, name)
        distance, module_id, link_map = self._blocks[module.start]
        mask = (1 << 8 * self._architecture.pointer_size) - 1
        if distance is not None:
            return (thread_pointer + distance) & mask
        try:
            block = self._glibc.dynamic_block(self._threads.pthread_self(thread), module_id, link_map)
        except Unavailable as error:
            raise Unavailable(f"{name}: {error}", hint=error.hint) from error
        if block is None:
            raise NoStorage(
                f"{name}: thread {thread} has not used any thread-local variable of {module.name}, so it has no copy"
            )
        return block

    def key_value(self, thread: int, key: int) -> int | None:
        """Return *thread*'s value of a POSIX thread key, None if it is unset.

        :raises BadInput: if the process has no such key
        :raises Unavailable: if the process's C library does not publish the values
        """
        return self._glibc.key_value(self._threads.pthread_self(thread), key)

    def read_keys(self, thread: int) -> None:
        """Read *thread*'s values of all POSIX thread keys, so that their pages are noted for a snapshot."""
        self._glibc.read_keys(self._threads.pthread_self(thread))

    # Blocks

    def _find_block(self, module: LoadedModule, segment: Segment, name: str) -> _Block:
        if module is self._program:
            return _Block(_program_distance(segment, self._architecture), 1, 0)
        try:
            link_map = self._link_map(module, name)
            module_id, offset = self._glibc.tls_module(link_map.address)
        except Unavailable as error:
            distance = self._relocated_distance(module)
            if distance is not None:
                return _Block(distance, 0, 0)
            raise Unavailable(f"{name}: {error}", hint=error.hint) from error
        # These values of l_tls_offset mean that the module has no static block: NO_TLS_OFFSET and
        # FORCED_DYNAMIC_TLS_OFFSET. They are 0 and -1 in variant 2 of the TLS ABI, otherwise -1 and -2.
        mask = (1 << 8 * self._architecture.pointer_size) - 1
        is_dynamic = offset in (mask, mask - 1) or (offset == 0 and (self._architecture.tls_variant == 2))
        if is_dynamic:
            return _Block(None, module_id, link_map.address)
        return _Block(-offset if self._architecture.tls_variant == 2 else offset, module_id, link_map.address)

    def _relocated_distance(self, module: LoadedModule) -> int | None:
        # Return the distance of the module's block from the thread pointer, as every C library's loader stores it for
        # code of the "initial-exec" model. OpenMP runtimes use this model. None if the module has no such code.
        # Relocations of named symbols are skipped, because they may refer to another module's variable.
        elf = module.elf
        distances = set()
        for section in elf.sections if elf is not None else ():
            if (
                elf is None
                or section.sh_type not in (gabi.SHT_REL, gabi.SHT_RELA)
                or not section.sh_flags & gabi.SHF_ALLOC
            ):
                continue
            for r_offset, symbol, kind, addend in _relocations(elf, section):
                if kind == self._architecture.tpoff_relocation and symbol == 0:
                    value = read_signed(self._memory, module.bias + r_offset, elf.pointer_size)
                    distances.add(value - (_addend_in_place(elf, r_offset) if addend is None else addend))
        return distances.pop() if len(distances) == 1 else None

    def _link_map(self, module: LoadedModule, name: str) -> LinkMap:
        elf = module.elf
        dynamic = next((s for s in elf.segments if s.p_type == gabi.PT_DYNAMIC), None) if elf is not None else None
        for link_map in self._loader.link_maps:
            if dynamic is not None and link_map.l_ld == module.bias + dynamic.p_vaddr:
                if link_map.l_addr != module.bias:
                    raise CorruptState(link_map.address, f"the loader has {module.name} at {link_map.l_addr:#x}")
                return link_map
        raise Unavailable(f"{name}: the loader's list does not have {module.name}")


def thread_pointer_of(pthread: int, architecture: Architecture, glibc: GlibcThreads) -> int:
    """Return the thread pointer of the thread whose ``struct pthread`` is at *pthread*."""
    return pthread + (glibc.sizeof_pthread if architecture.has_pthread_below else 0)


def pthread_of(thread_pointer: int, architecture: Architecture, glibc: GlibcThreads) -> int:
    """Return the address of ``struct pthread``, as ``pthread_self()`` does, of the thread with *thread_pointer*."""
    return thread_pointer - thread_pointer_of(0, architecture, glibc)


def _tls_segment(module: LoadedModule) -> Segment | None:
    return next((s for s in module.elf.segments if s.p_type == gabi.PT_TLS), None) if module.elf is not None else None


def _relocations(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int, int | None]]:
    # Yield the fields of each relocation: r_offset, the symbol's number, the type, and r_addend, which is None for
    # ElfN_Rel.
    fields = ("QQ", "q") if elf.ident_class == 64 else ("II", "i")
    layout = struct.Struct(order_mark(elf.byte_order) + "".join(fields[: 1 + (section.sh_type == gabi.SHT_RELA)]))
    raw = elf.section_data(section)
    shift = 32 if elf.ident_class == 64 else 8
    for r_offset, r_info, *r_addend in layout.iter_unpack(raw[: len(raw) - len(raw) % layout.size]):
        yield r_offset, r_info >> shift, r_info & ((1 << shift) - 1), r_addend[0] if r_addend else None


def _addend_in_place(elf: ElfFile, address: int) -> int:
    # The addend of an ElfN_Rel relocation, which is in the file at the address that the loader relocates.
    offset = elf.file_offset(address, elf.pointer_size)
    if offset is None:
        raise MalformedFile(f"{elf.name}: a relocation of {address:#x}, which is not in it")
    return int.from_bytes(elf.data[offset : offset + elf.pointer_size], elf.byte_order, signed=True)


def _program_distance(segment: Segment, architecture: Architecture) -> int:
    # The distance of the program's TLS block from the thread pointer. The linker has put it into the program's code, so
    # every loader must keep to it ("ELF Handling For Thread-Local Storage", 3.4.6). If p_vaddr is not aligned, lld and
    # glibc's _dl_determine_tlsoffset compute it like this.
    align = max(segment.p_align, 1)
    if architecture.tls_variant == 2:
        return -(segment.p_memsz + (-segment.p_vaddr - segment.p_memsz) % align)
    return architecture.tcb_size + (segment.p_vaddr - architecture.tcb_size) % align
