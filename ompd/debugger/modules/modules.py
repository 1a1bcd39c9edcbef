"""The modules of a process: which files are mapped where, and whether a file here is the one that was mapped there.

A core names files of another moment, often of another machine. A file is believed only when it proves to be the same:
by build-id, or, where there is none, by every page that the target holds of what no one writes to. A target that has
lost the pages that would prove it, a core that was cut off, leaves a file unproven: then it must at least fill exactly
the mappings that the target names, and whatever is known by it has to be called unproven.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import ne
from typing import NamedTuple

from ompd.binary.cfi.tables import Row, UnwindTable
from ompd.binary.core.notes import AT_PHDR, AT_SYSINFO_EHDR, NT_OMPD_DEBUG_FILE, NT_OMPD_FILE, FileMapping
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.source.lines import LineInfo
from ompd.binary.elf.elf import (
    ELF_MAGIC,
    ET_EXEC,
    PF_W,
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_NOTE,
    ElfFile,
    Header,
    Segment,
    parse_header,
    parse_segments,
)
from ompd.binary.elf.notes import find_build_id
from ompd.binary.elf.symbol_table import SymbolTable
from ompd.contract.process import Module
from ompd.debugger.files.cache import DiskCache, FileCache
from ompd.debugger.files.finder import Companions, FileFinder, open_mapped
from ompd.debugger.modules.told_layouts import ToldLayouts
from ompd.debugger.modules.told_places import ToldPlaces
from ompd.debugger.targets.base import Loss, Target
from ompd.errors import BadFile, CorruptState, MalformedFile, MemoryFault
from ompd.safety import limits

_MAX_HEADERS = 64 * 1024
_MAX_NOTES = 64 * 1024
_PAGE = 4096
_MANY_PAGES = 16 * _PAGE  # are compared at once
# Large programs have some thousand modules. The loader maps a file once for each of its namespaces, of which there are
# 16 (DL_NNS).
_MAX_MODULES, _MAX_OF_ONE_FILE = 1 << 14, 32
_DELETED = " (deleted)"  # what Linux appends to the name of a mapped file that has none any more


class _Opened(NamedTuple):
    elf: ElfFile | None
    path: str
    fault: str | None


# A core in which bytes were changed, on a bad disk or by a bad cable, holds some bytes of a module with another value.
# Builds differ in most of their pages, and in most bytes of these; in a build-id in all of its bytes.
_MAX_DAMAGED = 2
_DAMAGE_RATIO = 400
_UNPROVEN = (
    "not proven to be the build that ran: the pages that would prove it are lost; its size and the places of its"
    " segments agree"
)
# Of a module's variables so many bytes are looked at, and pages that begin with so many bytes other than 0 in them.
_MAX_CHECKED = 1 << 20
_MIN_NONZERO = 16


class LoadedModule:
    """One module: its record, and its file once that is found and proven."""

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        mappings: Sequence[FileMapping],
        *,
        exe: str | None,
        located: tuple[str | None] | None,
        program: bool,
        cache: DiskCache | None = None,
        is_outlined: Callable[[str], bool],
    ) -> None:
        self._is_outlined = is_outlined
        self._target = target
        self._cache = cache
        self._finder = finder
        self.mappings = mappings
        self._exe = exe
        self._located = located
        self.is_program = program
        self._has_evidence = False
        self._is_elf_file = False
        self._debug_files: dict[str, DebugFiles] = {}
        self._extracts: dict[int, bytes | None] = {}
        self.looked_up: set[str] = set()
        """What its files were opened for so far: ``symbols``, ``lines``, ``unwind_table``, ``debug_elf``."""
        self.damaged_bytes = 0
        """How many bytes of its file the target holds with another value: few, or it would be another file."""
        self.name = mappings[0].name
        self.start = mappings[0].start
        self.end = max(m.end for m in mappings)

    @cached_property
    def _image(self) -> tuple[Header, tuple[Segment, ...]] | None:
        # The headers as they are in the target's memory, None if it does not hold them.
        try:
            header = parse_header(self._target.read(self.start, 64), self.name)
            size = min(header.e_phnum * header.e_phentsize, _MAX_HEADERS)
            table = self._target.read(self.start + header.e_phoff, size)
            return header, parse_segments(header, table, header.e_phnum, self.name)
        except (MemoryFault, MalformedFile):
            return None

    @cached_property
    def image_build_id(self) -> bytes | None:
        """The build-id that is in the target's memory, None if the module has none or the target does not hold it."""
        if self._image is None:
            return None
        header, segments = self._image
        bias = _bias(self.start, header.e_type, segments)
        places = [(s.p_vaddr, s.p_filesz, s.p_align) for s in segments if s.p_type == PT_NOTE]
        left = limits.FREE_BYTES
        for address, size, align in dict.fromkeys(places):
            left -= size
            if left >= 0 and size <= _MAX_NOTES:
                try:
                    notes = self._target.read(bias + address, size)
                    found = find_build_id(notes, header.byte_order, align)
                except (MemoryFault, MalformedFile):
                    continue
                if found is not None:
                    return found
        return None

    @cached_property
    def _opened(self) -> _Opened:
        # The file, proven to be this module's, or why there is none. A file named by hand is that one or none; else one
        # by the target's name for it is as good as one that is found by its build-id.
        if self._exe is not None:
            return self._open(self._exe)
        if self._is_extracted:
            return self._open_extract()
        named = self._open_located(*self._located) if self._located is not None else self._open_named()
        build_id = self.image_build_id
        if named.elf is None and build_id is not None:
            for path in self._finder.executables(build_id):
                found = self._open(path)
                if found.elf is not None:
                    return found
        return named

    def _open_located(self, path: str | None) -> _Opened:
        if path is None:
            return _Opened(None, self.name, "was not found: the notes that name its file are lost")
        return self._open(path)

    def _open_named(self) -> _Opened:
        try:
            found = self._open(self._finder.resolve(self.name))
            if found.elf is not None or not self.name.endswith(_DELETED):
                return found
            path = self._finder.resolve(self.name.removesuffix(_DELETED))
        except BadFile as error:
            return _Opened(None, error.path, error.fault)
        if not os.path.lexists(path):
            return _Opened(None, path, "was deleted while the program ran")
        found = self._open(path)
        if found.elf is not None:
            return found
        return found._replace(fault=f"was replaced while the program ran, and what is there now {found.fault}")

    def _open(self, path: str) -> _Opened:
        try:
            elf = ElfFile(open_mapped(path), path)
            self._is_elf_file = True
            fault = self._difference(elf)
            if fault is None and not self._has_evidence and self._target.loss is not None:
                fault = self._implausibility(elf, self._target.loss)
        except BadFile as error:
            return _Opened(None, path, error.fault)
        except MalformedFile as error:
            return _Opened(None, path, f"is damaged: {error}")
        return _Opened(elf if fault is None else None, path, fault)

    @cached_property
    def _is_extracted(self) -> bool:
        # Whether what is read of its file is what a snapshot holds of that.
        return self._exe is None and self._extract(NT_OMPD_FILE) is not None

    def _extract(self, kind: int) -> bytes | None:
        if kind not in self._extracts:
            try:
                self._extracts[kind] = self._target.extract(self.start, kind)
            except MalformedFile:
                self._extracts[kind] = b""  # which is no file
        return self._extracts[kind]

    def _open_extract(self) -> _Opened:
        # It has no memory to compare, but a build-id.
        name = f"{self._target.name}: the file of {self.name}"
        try:
            elf = ElfFile(self._extract(NT_OMPD_FILE) or b"", name)
            is_build = self.image_build_id is None or self.image_build_id == elf.build_id()
        except MalformedFile as error:
            return _Opened(None, name, f"is damaged: {error}")
        return _Opened(elf if is_build else None, name, None if is_build else "is not that of the module that ran")

    def _difference(self, elf: ElfFile) -> str | None:
        # Why *elf* cannot be the file that was mapped, None if it is.
        in_memory, in_file = self.image_build_id, elf.build_id()
        if in_memory is not None and in_file is not None:
            if len(in_memory) == len(in_file) and _is_damage(in_memory, in_file):
                self._has_evidence = True
                self.damaged_bytes = _count_different(in_memory, in_file)
                return None
            return f"is another build than the one that ran (build-id {in_file.hex()}, in the target {in_memory.hex()})"
        if self._image is not None:
            header, segments = self._image
            ours, theirs = _table(elf.header, elf.segments), _table(header, segments)
            if ours != theirs and (len(ours) != len(theirs) or not _is_damage(ours, theirs)):
                return "is another build than the one that ran (its program headers differ)"
        bias = _bias(self.start, elf.e_type, elf.segments)
        if any(s.p_type == PT_LOAD and s.p_offset + s.p_filesz > len(elf.data) for s in elf.segments):
            return "is cut off: its segments are not in it"
        different = 0
        for at, page in self._held_pages(elf, bias):
            ours = bytes(elf.data[at : at + len(page)])
            if page != ours:
                if not _is_damage(page, ours):
                    return (
                        f"is another build than the one that ran (its page at offset {at:#x} differs from the target's)"
                    )
                different += _count_different(page, ours)
            self._has_evidence = True
        self.damaged_bytes = different
        return self._dynamic_difference(elf, bias)

    def _held_pages(self, elf: ElfFile, bias: int) -> Iterator[tuple[int, bytes]]:
        # The pages that the target holds of what no one writes to, and where they are in the file.
        left = limits.pages(elf.disk_size)
        for segment in elf.segments:
            if segment.p_type != PT_LOAD or segment.p_flags & PF_W:
                continue
            compared = min(segment.p_filesz, left)
            left -= compared  # what lies in one another, or in holes, is not compared to its end
            end = min(-(-compared // _PAGE) * _PAGE, segment.p_filesz)
            for start in range(0, end, _MANY_PAGES):
                for offset, page in self._pages_read(bias + segment.p_vaddr, start, min(start + _MANY_PAGES, end)):
                    # A page that a damaged core has lost proves nothing, nor do zeros in the file.
                    if page.count(0) < len(page):
                        yield segment.p_offset + offset, page

    def _pages_read(self, address: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        # Those of a part of a segment: at once where the target has all of them.
        try:
            whole = self._target.read(address + start, end - start)
        except MemoryFault:
            whole = None
        for offset in range(start, end, _PAGE):
            size = min(_PAGE, end - offset)
            if whole is not None:
                yield offset, whole[offset - start : offset - start + size]
                continue
            try:
                yield offset, self._target.read(address + offset, size)
            except MemoryFault:
                continue

    def _dynamic_difference(self, elf: ElfFile, bias: int) -> str | None:
        # The dynamic section is written to (the loader relocates its addresses), so it is always in a core. It holds
        # the sizes and places of all that is linked: two builds that agree in it are hardly two.
        segment = next((s for s in elf.segments if s.p_type == PT_DYNAMIC), None)
        if segment is None or segment.p_filesz > _MAX_HEADERS:
            return None
        try:
            raw = self._target.read(bias + segment.p_vaddr, segment.p_filesz)
        except MemoryFault:
            return None
        if not any(raw):
            return None  # lost
        has_pages, self._has_evidence = self._has_evidence, True
        different = 0
        size = elf.pointer_size
        ours = elf.segment_data(segment)
        for at in range(0, len(raw) - 2 * size + 1, 2 * size):
            tag, value = (int.from_bytes(raw[at + i : at + i + size], elf.byte_order) for i in (0, size))
            file_tag, file_value = (int.from_bytes(ours[at + i : at + i + size], elf.byte_order) for i in (0, size))
            if file_tag == tag == 0:
                break
            if tag == file_tag and (not file_value or value in (file_value, file_value + bias)):
                continue
            # Linked otherwise, several entries differ; one byte is damage where pages agree.
            likely = file_value + bias if value >= bias else file_value
            different += (tag != file_tag) + _differ_in_bytes(value, likely, size) + (not has_pages)
            if different > 1:
                return "is another build than the one that ran (its dynamic section differs)"
        self.damaged_bytes += different
        return None

    def _implausibility(self, elf: ElfFile, loss: Loss) -> str | None:
        # Nothing that the target still holds proves the file. Why it cannot be the one, None if it might be.
        try:
            written = os.stat(elf.name).st_mtime  # noqa: PTH116  the hot path knows no pathlib
        except OSError as error:
            return f"cannot be looked at: {error.strerror}"
        if loss.since is not None and written > loss.since:
            return "was written after the core, which has lost what could prove that it is the build that ran"
        bias = _bias(self.start, elf.e_type, elf.segments)
        loads = [s for s in elf.segments if s.p_type == PT_LOAD and s.p_filesz]
        for segment in loads:
            low = bias + segment.p_vaddr
            begin, end = low // _PAGE * _PAGE, -(-(low + segment.p_filesz) // _PAGE) * _PAGE
            shift = begin - segment.p_offset // _PAGE * _PAGE
            covered = sum(
                max(0, min(end, m.end) - max(begin, m.start)) for m in self.mappings if m.start - m.offset == shift
            )
            if covered != end - begin:
                return "is another build than the one that ran (its segments do not fill the mappings of the core)"
        last = max((bias + s.p_vaddr + s.p_filesz for s in loads), default=0)
        if not loads or -(-last // _PAGE) * _PAGE != self.end:
            return "is another build than the one that ran (its segments do not fill the mappings of the core)"
        return None

    @cached_property
    def unproven(self) -> str | None:
        """Why the file is not proven to be the one that was mapped; None if it is, or if there is none.

        Of a target that is whole, what does not contradict its file is taken to be of it.
        """
        if self._target.loss is None or self.elf is None or self._has_evidence:
            return None
        return _UNPROVEN

    def lost_data(self) -> int | None:
        """Return the address of a page that reads as zeros though the module's file has something else to begin with,
        None if there is none.

        Where a disk was full, or a copy was interrupted, a file has a hole, which reads as zeros. A library does not
        set a whole page of its initialised variables to zero. The user's program may; but not what is read-only once
        the loader has relocated it.
        """
        elf, kind = self.elf, PT_GNU_RELRO if self.is_program else PT_LOAD
        for segment in elf.segments if elf is not None else ():
            if elf is None or segment.p_type != kind or (kind == PT_LOAD and not segment.p_flags & PF_W):
                continue
            start, end = segment.p_vaddr, segment.p_vaddr + segment.p_filesz
            for address in range(start // _PAGE * _PAGE, min(end, start + _MAX_CHECKED), _PAGE):
                low, high = max(address, start), min(address + _PAGE, end)
                at = segment.p_offset + low - start
                if bytes(elf.data[at : at + high - low]).count(0) > high - low - _MIN_NONZERO:
                    continue
                try:
                    held = self._target.read(self.bias + low, high - low)
                except MemoryFault:
                    continue
                if held.count(0) == len(held):
                    return self.bias + low
        return None

    def variable_ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Return of each of its writable segments in the target, by the module's file, where it starts, from where on
        the file has nothing of it, and where it ends; none without that file.
        """
        segments = self.elf.segments if self.elf is not None else ()
        return tuple(
            (self.bias + s.p_vaddr, self.bias + s.p_vaddr + s.p_filesz, self.bias + s.p_vaddr + s.p_memsz)
            for s in segments
            if s.p_type == PT_LOAD and s.p_flags & PF_W
        )

    def is_lost(self, address: int) -> bool:
        """Return whether the page at the target's *address* reads as zeros though the module's file has other values
        for it to begin with; see :meth:`lost_data`. That a program set all of a page to zero is not impossible, but
        rare.
        """
        elf, link = self.elf, address - self.bias
        for segment in elf.segments if elf is not None else ():
            start, end = segment.p_vaddr, segment.p_vaddr + segment.p_filesz
            if segment.p_type != PT_LOAD or not segment.p_flags & PF_W or not start <= link < end or elf is None:
                continue
            low, high = max(link // _PAGE * _PAGE, start), min((link // _PAGE + 1) * _PAGE, end)
            at = segment.p_offset + low - start
            if not any(elf.data[at : at + high - low]):
                return False
            try:
                return not any(self._target.read(self.bias + low, high - low))
            except MemoryFault:
                return False  # which says so itself
        return False

    @property
    def elf(self) -> ElfFile | None:
        """The module's file, proven to be the one that was mapped, or None; ``record.fault`` then says why."""
        return self._opened.elf

    @cached_property
    def bias(self) -> int:
        """What is added to an address in the file to get the target's."""
        if self.elf is not None:
            return _bias(self.start, self.elf.e_type, self.elf.segments)
        if self._image is not None:
            return _bias(self.start, self._image[0].e_type, self._image[1])
        return self.start

    @cached_property
    def record(self) -> Module:
        """What the contract says of this module."""
        elf, path, fault = self._opened
        in_file = elf.build_id() if elf is not None and self.unproven is None else None
        build_id = self.image_build_id or in_file
        return Module(
            name=self.name,
            bias=self.bias,
            start=self.start,
            end=self.end,
            path=path if elf is not None else None,
            build_id=build_id.hex() if build_id is not None else None,
            is_program=self.is_program,
            fault=f"{path} {fault}" if fault else None,
            unproven=self.unproven,
            damaged_bytes=self.damaged_bytes,
        )

    @cached_property
    def debug_elf(self) -> ElfFile | None:
        """The separate debug file, None if there is none that belongs to this module."""
        self.looked_up.add("debug_elf")
        elf, path, _ = self._opened
        if self._is_extracted:
            extract = self._extract(NT_OMPD_DEBUG_FILE)
            name = f"{self._target.name}: the debug file of {self.name}"
            return ElfFile(extract, name) if extract is not None else None
        return self._finder.debug_file(elf, path, self.name.removesuffix(_DELETED)) if elf is not None else None

    @cached_property
    def _minidebug_elf(self) -> ElfFile | None:
        # The functions that a stripped module still names, as Fedora builds them.
        if self.elf is None or self.elf.section(".gnu_debugdata") is None:
            return None
        from ompd.binary.elf.minidebuginfo import open_minidebuginfo  # noqa: PLC0415  few have it, lzma is slow

        return open_minidebuginfo(self.elf)

    @cached_property
    def symbols(self) -> SymbolTable | None:
        """The module's symbols, None without its file."""
        self.looked_up.add("symbols")
        if self.elf is None:
            return None
        # A module with a .symtab of its own has all that its debug file would add, and reading that costs a checksum.
        return SymbolTable.load(self.elf, None if self.elf.section(".symtab") else self._other_symbols, self._kept)

    def _kept(self, elf: ElfFile) -> FileCache | None:
        return self._cache.of(elf.data) if self._cache is not None else None

    def _other_symbols(self) -> ElfFile | None:
        return self.debug_elf or self._minidebug_elf

    @cached_property
    def lines(self) -> ToldPlaces | None:
        """The module's lines and functions, of its own debug information or its debug file's, None if there is none."""
        self.looked_up.add("lines")
        elf = self.elf
        if elf is None or elf.section(".debug_line") is None:
            elf = self.debug_elf
        if elf is None or elf.section(".debug_line") is None:
            return None
        return ToldPlaces(LineInfo(elf, self.companions, self.debug_files(elf), self._is_outlined), self._kept(elf))

    @cached_property
    def types_elf(self) -> ElfFile | None:
        """The file that has debug information of the module's types, itself or its debug file, None if none has."""
        # Finding a debug file may cost its checksum, so the module's own sections are looked at first.
        if self.elf is not None and self.elf.section(".debug_info") is not None:
            return self.elf
        if self.debug_elf is not None and self.debug_elf.section(".debug_info") is not None:
            return self.debug_elf
        return None

    @cached_property
    def layouts(self) -> ToldLayouts:
        """The layouts of structures that this file told before."""
        return ToldLayouts(self._kept(self.types_elf) if self.types_elf is not None else None)

    def debug_files(self, elf: ElfFile) -> DebugFiles:
        """Return the debug information of one of the module's files: lines and types share it."""
        if elf.name not in self._debug_files:
            self._debug_files[elf.name] = DebugFiles(elf, self.companions)
        return self._debug_files[elf.name]

    @cached_property
    def companions(self) -> Companions:
        """What finds the files that the module's debug information refers to."""
        elf, path, _ = self._opened
        own = elf is not None and elf.section(".debug_info") is not None
        debug = None if own or self.debug_elf is None else self.debug_elf.name
        return self._finder.companions(path, self.name.removesuffix(_DELETED), debug)

    @cached_property
    def unwind_table(self) -> UnwindTable | None:
        """The module's unwind table, None without its file or without one in it."""
        self.looked_up.add("unwind_table")
        elf = self.elf
        return UnwindTable.from_elf(elf) if elf is not None else None

    @cached_property
    def debug_frame(self) -> UnwindTable | None:
        """The unwind table of the module's debug information, its own or its debug file's, None if there is none."""
        for elf in (self.elf, self.debug_elf):
            try:
                table = UnwindTable.from_debug_frame(elf) if elf is not None else None
            except MalformedFile:
                continue
            if table is not None:
                return table
        return None

    def row(self, pc: int) -> Row | None:
        """Return the row of unwind data that holds at the link-time address *pc*, None if none covers it.

        Code that was built without ``.eh_frame`` may still have ``.debug_frame``, for debuggers.

        :raises MalformedFile: if what would cover it is damaged
        """
        fault: MalformedFile | None = None
        try:
            row = self.unwind_table.row(pc) if self.unwind_table is not None else None
        except MalformedFile as error:
            row, fault = None, error
        if row is None and self.debug_frame is not None:
            row = self.debug_frame.row(pc)
        if row is None and fault is not None:
            raise fault
        return row

    def close(self) -> None:
        """Let go of the module's files, as far as they were opened and no one holds a view of them."""
        if self.__dict__.get("lines") is not None and self.lines is not None:
            self.lines.save()
        if "layouts" in self.__dict__:
            self.layouts.save()
        for name in ("_opened", "debug_elf"):
            opened = self.__dict__.get(name)
            elf = opened.elf if isinstance(opened, _Opened) else opened
            if elf is not None and isinstance(elf.data, mmap.mmap):
                with suppress(BufferError):
                    elf.data.close()
        if "companions" in self.__dict__:
            self.companions.close()

    def read_file(self, address: int, size: int) -> bytes | None:
        """Return what the module's file holds for *size* bytes at the target's *address*, None if that is not
        available.
        """
        if self.elf is None or self._is_extracted or self.unproven is not None:
            return None
        for mapping in self.mappings:
            if mapping.start <= address and address + size <= mapping.end:
                offset = mapping.offset + address - mapping.start
                try:
                    data = self.elf.data[offset : offset + size]
                except MalformedFile as error:
                    raise MemoryFault(address, size, str(error)) from error
                # Behind the end of a file its last page is zeros.
                return (
                    bytes(data) + bytes(size - len(data))
                    if offset + size <= -(-len(self.elf.data) // _PAGE) * _PAGE
                    else None
                )
        return None


def _count_different(one: bytes, other: bytes) -> int:
    return sum(map(ne, one, other))


def _differ_in_bytes(one: int, other: int, size: int) -> int:
    words = ((word & ((1 << 8 * size) - 1)).to_bytes(size, "little") for word in (one, other))
    return _count_different(*words)


def _is_damage(held: bytes, ours: bytes) -> bool:
    # Whether some bytes that differ are damage done to the target, and not another build: that would differ in more.
    count = _count_different(held, ours)
    return count <= _MAX_DAMAGED or count * _DAMAGE_RATIO <= len(held)


def _table(header: Header, segments: Sequence[Segment]) -> bytes:
    words = [header.e_machine, header.e_type, *(word for segment in segments for word in segment)]
    return b"".join(word.to_bytes(8, "little") for word in words)


def _bias(start: int, e_type: int, segments: Sequence[Segment]) -> int:
    if e_type == ET_EXEC:
        return 0
    # A module's first mapping begins at the start of its file, whose link-time address the first segment says.
    first = next((s for s in segments if s.p_type == PT_LOAD), None)
    return start if first is None else start - (first.p_vaddr - first.p_offset)


def _groups(mappings: Sequence[FileMapping]) -> Iterator[list[FileMapping]]:
    # A module's mappings follow one another and begin at the start of its file. One file mapped twice is two modules.
    group: list[FileMapping] = []
    end = 0
    for mapping in mappings:
        if not end <= mapping.start < mapping.end:
            continue  # a damaged list: no process has two mappings at one address
        end = mapping.end
        if group and (mapping.name != group[0].name or mapping.offset == 0):
            yield group
            group = []
        if group or mapping.offset == 0:
            group.append(mapping)
    if group:
        yield group


class ModuleList:
    """All modules of a target, by address.

    :param exe: the program's file, where it is named by hand
    :param is_outlined: tells by its name whether a compiler made a function of a construct in another
    """

    def __init__(self, target: Target, finder: FileFinder, exe: str | None, is_outlined: Callable[[str], bool]) -> None:
        vector, mappings = target.auxiliary_vector(), target.mappings()
        program_headers, vdso = vector.get(AT_PHDR, 0), vector.get(AT_SYSINFO_EHDR)
        located: Mapping[int, str | None] = {}
        self.needed: tuple[str, ...] = ()
        if target.loss is not None and target.loss.files:
            import ompd.debugger.modules.images as images  # noqa: PLC0415  for damaged cores alone

            found = images.find(target, finder, exe)
            mappings, located, self.needed = found.mappings, found.paths, found.needed
            program_headers, vdso = program_headers or found.program or 0, vdso or found.vdso
            vector = vector or found.auxiliary_vector
        self.auxiliary_vector = vector
        self.vdso_start = vdso
        self._modules: list[LoadedModule] = []
        cache = DiskCache.of_user()
        copies: Counter[str] = Counter()
        for group in _groups(mappings):
            copies[group[0].name] += 1
            if copies[group[0].name] > _MAX_OF_ONE_FILE:
                continue  # data, whatever it looks like
            if len(self._modules) == _MAX_MODULES:
                raise CorruptState(group[0].start, f"the process has more than {_MAX_MODULES} modules")
            program = group[0].start <= program_headers < group[-1].end
            start, by_hand = group[0].start, exe if program else None
            at = (located[start],) if start in located else None
            module = LoadedModule(
                target,
                finder,
                group,
                exe=by_hand,
                located=at,
                program=program,
                cache=cache,
                is_outlined=is_outlined,
            )
            if program or _is_module(module):
                self._modules.append(module)
        self._starts = [m.start for m in self._modules]

    def __iter__(self) -> Iterator[LoadedModule]:
        return iter(self._modules)

    @cached_property
    def program(self) -> LoadedModule | None:
        """The program's own module, None if it is unknown."""
        return next((module for module in self._modules if module.is_program), None)

    def close(self) -> None:
        """Let go of all files."""
        for module in self._modules:
            module.close()

    def at(self, address: int) -> LoadedModule | None:
        """Return the module with *address* in its mappings or between them, None if there is none."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        module = self._modules[index]
        # The module's end is determined only where it matters: it is known by its file, which has to be proven.
        return module if address < module.end or address < _end(module) else None


def _end(module: LoadedModule) -> int:
    # The zeroed data behind a module's last page of file belongs to it and is no mapping of a file.
    segments = module.elf.segments if module.elf is not None else ()
    return max([module.end, *(module.bias + s.p_vaddr + s.p_memsz for s in segments if s.p_type == PT_LOAD)])


def _is_module(module: LoadedModule) -> bool:
    # Many files are mapped that hold no code (locale archives, data). The headers tell, in memory or in the file.
    if module._image is not None:
        return True
    try:
        begin = module._target.read(module.start, 64)
    except MemoryFault:
        begin = b""
    if not any(begin):
        # Left out, or lost. A file that is gone, or is another build now, was a module all the same.
        return module.elf is not None or module._is_elf_file or ".so" in module.name.rpartition("/")[2]
    if begin.startswith(ELF_MAGIC):
        return True
    # A damaged core may have lost the mark. The file has it.
    return ".so" in module.name.rpartition("/")[2] and (module.elf is not None or module._is_elf_file)
