"""Where thread-local variables are: static TLS, and blocks that a thread has of modules loaded later.

The ELF ABI fixes where the program's own block is, whatever the C library. Of shared libraries glibc's loader
knows; :mod:`ompd.debugger.threads.glibc` reads that.
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

# A thread-local block that is larger is not kept whole.
_MAX_BLOCK = 1 << 24


class _Block(NamedTuple):
    # A module's TLS block: static, at a distance from the thread pointer, or else by the module's number.
    distance: int | None
    module_id: int
    link_map: int


class ThreadLocalStorage:
    """Thread-local variables of one process.

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
        """Return where *thread* has its copy of the thread-local *symbol* of *module*.

        :raises NoStorage: if it has none yet
        :raises Unavailable: if this C library does not say
        :raises MalformedFile: if the symbol is not in the module's TLS segment
        :raises CorruptState: if the loader's structures contradict themselves
        """
        return self.offset_address(module, symbol.address, symbol.size, symbol.name, thread)

    def offset_address(self, module: LoadedModule, offset: int, size: int, name: str, thread: int) -> int:
        """Return where *thread* has what is *offset* bytes from the start of the TLS block of *module*.

        :param name: what to call it in errors
        :raises NoStorage: if it has no copy yet
        :raises Unavailable: if this C library does not say
        :raises MalformedFile: if it is not in the module's TLS segment
        :raises CorruptState: if the loader's structures contradict themselves
        """
        segment = _tls_segment(module)
        if segment is None or offset < 0 or offset + size > segment.p_memsz:
            raise MalformedFile(f"{module.name}: {name} is not in the segment of thread-local variables")
        return self._block_address(module, segment, name, thread) + offset

    def block(self, module: LoadedModule, thread: int) -> tuple[int, int] | None:
        """Return where *thread* has its TLS block of *module*, and the block's size in bytes; None if the module has no
        TLS segment.

        :raises NoStorage: if the thread has none yet
        :raises Unavailable: if this C library does not say, or the module's file is unknown
        :raises CorruptState: if the loader's structures contradict themselves
        """
        if module.elf is None:
            raise Unavailable(f"{module.record.fault or module.name}: its thread-local storage is unknown")
        segment = _tls_segment(module)
        if segment is None:
            return None
        what = f"the thread-local storage of {module.name}"
        return self._block_address(module, segment, what, thread), segment.p_memsz

    def read_blocks(self, modules: Iterable[LoadedModule], thread: int) -> None:
        """Read every block that *thread* has, and its control block; what cannot be read is left."""
        pointer = self._threads.thread_pointer(thread)
        ranges = [(self._pthread(pointer), self._glibc.sizeof_pthread)]
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
        pthread = self._pthread(thread_pointer)
        try:
            block = self._glibc.dynamic_block(pthread, module_id, link_map)
        except Unavailable as error:
            raise Unavailable(f"{name}: {error}", hint=error.hint) from error
        if block is None:
            raise NoStorage(
                f"{name}: thread {thread} has not used any thread-local variable of {module.name}, so it has no copy"
            )
        return block

    def key_value(self, thread: int, key: int) -> int | None:
        """Return what *thread* stored under a POSIX thread key, None if it stored nothing.

        :raises BadInput: if the process has no such key
        :raises Unavailable: if its C library does not say
        """
        return self._glibc.key_value(self._pthread(self._threads.thread_pointer(thread)), key)

    def read_keys(self, thread: int) -> None:
        """Read all that *thread* stored under POSIX thread keys, for a target that notes what is read."""
        self._glibc.read_keys(self._pthread(self._threads.thread_pointer(thread)))

    def _pthread(self, thread_pointer: int) -> int:
        return pthread_of(thread_pointer, self._architecture, self._glibc)

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
        # NO_TLS_OFFSET and FORCED_DYNAMIC_TLS_OFFSET: 0 and -1 where static TLS cannot begin at the thread pointer,
        # else -1 and -2.
        mask = (1 << 8 * self._architecture.pointer_size) - 1
        if offset in (mask, mask - 1) or (offset == 0 and (self._architecture.tls_variant == 2)):
            return _Block(None, module_id, link_map.address)
        return _Block(-offset if self._architecture.tls_variant == 2 else offset, module_id, link_map.address)

    def _relocated_distance(self, module: LoadedModule) -> int | None:
        # What the loader wrote where the module's own code reads the distance of variables of its own (the model
        # "initial-exec", which OpenMP runtimes are built for), None if there are none. It needs no knowledge of the C
        # library. A relocation of a named symbol may have been bound to another module's.
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
    """Return the thread pointer of the thread with a ``struct pthread`` at *pthread*."""
    return pthread + (glibc.sizeof_pthread if architecture.has_pthread_below else 0)


def pthread_of(thread_pointer: int, architecture: Architecture, glibc: GlibcThreads) -> int:
    """Return the address of ``struct pthread`` of the thread with *thread_pointer*: what ``pthread_self()`` returns."""
    return thread_pointer - thread_pointer_of(0, architecture, glibc)


def _tls_segment(module: LoadedModule) -> Segment | None:
    return next((s for s in module.elf.segments if s.p_type == gabi.PT_TLS), None) if module.elf is not None else None


def _relocations(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int, int | None]]:
    # ElfN_Rela: r_offset, number of the symbol, type, r_addend; ElfN_Rel has no addend.
    fields = ("QQ", "q") if elf.ident_class == 64 else ("II", "i")
    layout = struct.Struct(order_mark(elf.byte_order) + "".join(fields[: 1 + (section.sh_type == gabi.SHT_RELA)]))
    raw = elf.section_data(section)
    shift = 32 if elf.ident_class == 64 else 8
    for r_offset, r_info, *r_addend in layout.iter_unpack(raw[: len(raw) - len(raw) % layout.size]):
        yield r_offset, r_info >> shift, r_info & ((1 << shift) - 1), r_addend[0] if r_addend else None


def _addend_in_place(elf: ElfFile, address: int) -> int:
    # What the file has where the loader writes.
    offset = elf.file_offset(address, elf.pointer_size)
    if offset is None:
        raise MalformedFile(f"{elf.name}: a relocation of {address:#x}, which is not in it")
    return int.from_bytes(elf.data[offset : offset + elf.pointer_size], elf.byte_order, signed=True)


def _program_distance(segment: Segment, architecture: Architecture) -> int:
    # The linker fixed this in the program's code, so no loader can choose ("ELF Handling For Thread-Local Storage",
    # 3.4.6; lld and glibc's _dl_determine_tlsoffset agree where p_vaddr is not aligned).
    align = max(segment.p_align, 1)
    if architecture.tls_variant == 2:
        return -(segment.p_memsz + (-segment.p_vaddr - segment.p_memsz) % align)
    return architecture.tcb_size + (segment.p_vaddr - architecture.tcb_size) % align
