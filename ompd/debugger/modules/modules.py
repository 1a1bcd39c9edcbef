"""The modules of a process: the addresses of mapped files, and the proof that a file here is the mapped one.

A core names files of an earlier moment, often of another machine. A file here is used only if it is proven to be the
same: by build-id, or, without one, by all read-only pages that the target holds. A truncated core may have lost these
pages. Then the file remains unproven. It must still fill exactly the mappings that the target names, and all results
based on it are marked as unproven.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ompd import naming
from ompd.binary.cfi.tables import Row, UnwindTable
from ompd.binary.core.notes import AT_PHDR, AT_SYSINFO_EHDR, NT_OMPD_DEBUG_FILE, NT_OMPD_FILE, FileMapping
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.elf.elf import (
    ELF_MAGIC,
    PF_W,
    PT_LOAD,
    ElfFile,
)
from ompd.binary.elf.symbols import SymbolTable
from ompd.contract.process import Module
from ompd.debugger.files.cache import DiskCache, FileCache
from ompd.debugger.files.finder import Companions, FileFinder
from ompd.debugger.modules.kept_layouts import KeptLayouts
from ompd.debugger.modules.kept_places import KeptPlaces
from ompd.debugger.modules.lost import first_lost_page, is_lost_page
from ompd.debugger.modules.proof import MappedImage, Proof, bias_of
from ompd.debugger.targets.base import Target, page_size
from ompd.errors import BadFile, CorruptState, MalformedFile, MemoryFault
from ompd.safety.reading import PagedFile, open_paged

# The most modules of a process, and the most of them with the same file. Large programs have thousands of modules. The
# loader maps a file once per namespace, at most 16 times (DL_NNS).
_MAX_MODULES, _MAX_OF_ONE_FILE = 1 << 14, 32
_DELETED = " (deleted)"  # Linux appends this to the name of a mapped file that was deleted


class _Opened(NamedTuple):
    # A module's file and its proof, or the reason why there is no file.
    elf: ElfFile | None
    path: str
    fault: str | None
    proof: Proof = Proof(None)


_UNPROVEN = (
    "not proven to be the build that ran: the pages that would prove it are lost; its size and the places of its"
    " segments agree"
)


class LoadedModule:
    """One module of the process. Its file is found and proven when it is first needed."""

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        mappings: Sequence[FileMapping],
        *,
        exe: str | None,
        located: tuple[str | None] | None,
        program: bool,
        cache: DiskCache | None,
    ) -> None:
        self._target = target
        self._cache = cache
        self._finder = finder
        self.program_option = finder.program_option
        """The option by which the user names the program's file."""
        self.mappings = mappings
        self._exe = exe
        self._located = located
        self.is_program = program
        self.files: list[PagedFile] = []
        """The module's opened files: its own file and its debug file."""
        self._at_close: list[Callable[[], None]] = []
        self._is_elf_file = False
        self._debug_files: dict[str, DebugFiles] = {}
        self._extracts: dict[int, bytes | None] = {}
        self.looked_up: set[str] = set()
        """Which of the attributes ``symbols``, ``lines``, ``unwind_table`` and ``debug_elf`` were used so far."""
        self.image, self._page_size = MappedImage(target, mappings), page_size(target)
        self.name, self.start, self.end = self.image.name, self.image.start, self.image.end

    @cached_property
    def _opened(self) -> _Opened:
        # The file that is proven to be this module's, or the reason why there is none. If the user named a file, only
        # that file is tried. Otherwise a snapshot's extract is, or the file with the target's name for it, and then the
        # files with the module's build-id.
        if self._exe is not None:
            return self._open(self._exe)
        if self.is_extract:
            return self._open_extract()
        named = self._open_located(*self._located) if self._located is not None else self._open_named()
        build_id = self.image.build_id
        if named.elf is None and build_id is not None:
            for path in self._finder.executables(build_id):
                opened = self._open(path)
                if opened.elf is not None:
                    return opened
        return named

    def _open_located(self, path: str | None) -> _Opened:
        if path is None:
            return _Opened(None, self.name, "was not found: the notes that name its file are lost")
        return self._open(path)

    def _open_named(self) -> _Opened:
        try:
            opened = self._open(self._finder.resolve(self.name))
            if opened.elf is not None or not self.name.endswith(_DELETED):
                return opened
            path = self._finder.resolve(self.name.removesuffix(_DELETED))
        except BadFile as error:
            return _Opened(None, error.path, error.fault)
        if not os.path.lexists(path):
            return _Opened(None, path, "was deleted while the program ran")
        opened = self._open(path)
        if opened.elf is not None:
            return opened
        return opened._replace(fault=f"was replaced while the program ran, and what is there now {opened.fault}")

    def _open(self, path: str) -> _Opened:
        try:
            elf = ElfFile(open_paged(path), path)
            self._is_elf_file = True
            proof = self.image.prove(elf)
            fault = proof.fault
            if fault is None and not proof.has_evidence and self._target.loss is not None:
                fault = self.image.implausibility(elf, self._target.loss)
        except BadFile as error:
            return _Opened(None, path, error.fault)
        except MalformedFile as error:
            return _Opened(None, path, f"is damaged: {error}")
        if fault is not None:
            return _Opened(None, path, fault, proof)
        self._close_later(elf)
        return _Opened(elf, path, None, proof)

    def _close_later(self, elf: ElfFile | None) -> None:
        if elf is not None and isinstance(elf.data, PagedFile):
            self.files.append(elf.data)
            self._at_close.append(elf.data.close)

    @cached_property
    def is_extract(self) -> bool:
        """Whether :attr:`elf` is an extract of the module's file, which the target has because it is a snapshot."""
        return self._exe is None and self._extract(NT_OMPD_FILE) is not None

    def _extract(self, kind: int) -> bytes | None:
        if kind not in self._extracts:
            try:
                self._extracts[kind] = self._target.extract(self.start, kind)
            except MalformedFile:
                self._extracts[kind] = b""  # not a valid file
        return self._extracts[kind]

    def _open_extract(self) -> _Opened:
        # A snapshot has no pages to compare, so only the build-ids are compared.
        name = f"{self._target.name}: the file of {self.name}"
        try:
            elf = ElfFile(self._extract(NT_OMPD_FILE) or b"", name)
            is_build = self.image.build_id is None or self.image.build_id == elf.build_id()
        except MalformedFile as error:
            return _Opened(None, name, f"is damaged: {error}")
        return _Opened(elf if is_build else None, name, None if is_build else "is not that of the module that ran")

    @cached_property
    def unproven(self) -> str | None:
        """The reason why the file is not proven to be the mapped one; None if it is proven, or without a file.

        If the target is whole, a file without contradictions counts as proven.
        """
        if self._target.loss is None or self.elf is None or self._opened.proof.has_evidence:
            return None
        return _UNPROVEN

    def lost_data(self) -> int | None:
        """Return the address of a lost page of the module's variables, None without one. See :mod:`.lost`."""
        return None if self.elf is None else first_lost_page(self._target, self.elf, self.bias, self.is_program)

    def variable_ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Return three addresses of each writable segment: its start, the end of its part from the file, and its end.

        Empty without the module's file.
        """
        segments = self.elf.segments if self.elf is not None else ()
        return tuple(
            (self.bias + s.p_vaddr, self.bias + s.p_vaddr + s.p_filesz, self.bias + s.p_vaddr + s.p_memsz)
            for s in segments
            if s.p_type == PT_LOAD and s.p_flags & PF_W
        )

    def is_lost(self, address: int) -> bool:
        """Return whether the page at the target's *address* was lost; see :func:`is_lost_page`."""
        return self.elf is not None and is_lost_page(self._target, self.elf, self.bias, address)

    @property
    def damaged_bytes(self) -> int:
        """The number of bytes that differ between target and file: few, or the file would not be proven."""
        return self._opened.proof.damaged_bytes

    @property
    def elf(self) -> ElfFile | None:
        """The module's file, proven to be the mapped one, or None with the reason in ``record.fault``."""
        return self._opened.elf

    @cached_property
    def bias(self) -> int:
        """The load bias: address in the target minus address in the file."""
        if self.elf is not None:
            return bias_of(self.start, self.elf.e_type, self.elf.segments)
        if self.image.headers is not None:
            header, segments = self.image.headers
            return bias_of(self.start, header.e_type, segments)
        return self.start

    @cached_property
    def record(self) -> Module:
        """The contract's record of this module."""
        elf, path, fault, _ = self._opened
        in_file = elf.build_id() if elf is not None and self.unproven is None else None
        build_id = self.image.build_id or in_file
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
        """The separate debug file of this module, None without one."""
        self.looked_up.add("debug_elf")
        elf, path, *_ = self._opened
        if self.is_extract:
            extract = self._extract(NT_OMPD_DEBUG_FILE)
            name = f"{self._target.name}: the debug file of {self.name}"
            return ElfFile(extract, name) if extract is not None else None
        debug_file = self._finder.debug_file(elf, path, self.name.removesuffix(_DELETED)) if elf is not None else None
        self._close_later(debug_file)
        return debug_file

    @cached_property
    def _minidebug_elf(self) -> ElfFile | None:
        # A small file in the module with the symbols of its functions, which Fedora adds (.gnu_debugdata). None without
        # it.
        if self.elf is None or self.elf.section(".gnu_debugdata") is None:
            return None
        from ompd.binary.elf.symbols import open_minidebuginfo

        return open_minidebuginfo(self.elf)

    @cached_property
    def symbols(self) -> SymbolTable | None:
        """The module's symbols, None without its file."""
        self.looked_up.add("symbols")
        if self.elf is None:
            return None
        # A module with .symtab has all symbols itself. Then the debug file is not opened, which would cost a checksum.
        open_debug_file = None if self.elf.section(".symtab") else lambda: self.debug_elf or self._minidebug_elf
        return SymbolTable(self.elf, open_debug_file, self._kept)

    def _kept(self, elf: ElfFile) -> FileCache | None:
        return self._cache.of(elf.data) if self._cache is not None else None

    @cached_property
    def lines(self) -> KeptPlaces | None:
        """The lines and functions that the module's or the debug file's debug information has, None without any."""
        self.looked_up.add("lines")
        elf = self.elf
        if elf is None or elf.section(".debug_line") is None:
            elf = self.debug_elf
        if elf is None or elf.section(".debug_line") is None:
            return None
        lines = LineInfo(elf, self.companions, self.debug_files(elf), naming.is_construct)
        places = KeptPlaces(lines, self._kept(elf))
        self._at_close.append(places.save)
        return places

    @cached_property
    def types_elf(self) -> ElfFile | None:
        """The file with debug information of types: the module's own or its debug file, None if neither has any."""
        # Finding a debug file may cost its checksum, so the module's own sections are tried first.
        if self.elf is not None and self.elf.section(".debug_info") is not None:
            return self.elf
        if self.debug_elf is not None and self.debug_elf.section(".debug_info") is not None:
            return self.debug_elf
        return None

    @cached_property
    def layouts(self) -> KeptLayouts:
        """The layouts of structures that were kept for :attr:`types_elf`."""
        layouts = KeptLayouts(self._kept(self.types_elf) if self.types_elf is not None else None)
        self._at_close.append(layouts.save)
        return layouts

    def debug_files(self, elf: ElfFile) -> DebugFiles:
        """Return the debug information in *elf*, a file of the module. Lines and types share the returned object."""
        if elf.name not in self._debug_files:
            self._debug_files[elf.name] = DebugFiles(elf, self.companions)
        return self._debug_files[elf.name]

    @cached_property
    def companions(self) -> Companions:
        """The finder of files that the module's debug information refers to."""
        elf, path, *_ = self._opened
        has_debug_info = elf is not None and elf.section(".debug_info") is not None
        debug = None if has_debug_info or self.debug_elf is None else self.debug_elf.name
        companions = self._finder.companions(path, self.name.removesuffix(_DELETED), debug)
        self._at_close.append(companions.close)
        return companions

    @cached_property
    def unwind_table(self) -> UnwindTable | None:
        """The unwind table in the module's file, None without the file or the table."""
        self.looked_up.add("unwind_table")
        elf = self.elf
        return UnwindTable.from_elf(elf) if elf is not None else None

    @cached_property
    def debug_frame(self) -> UnwindTable | None:
        """The unwind table for debuggers (``.debug_frame``) of the module or its debug file, None without one."""
        for elf in (self.elf, self.debug_elf):
            try:
                table = UnwindTable.from_debug_frame(elf) if elf is not None else None
            except MalformedFile:
                continue
            if table is not None:
                return table
        return None

    def row(self, pc: int) -> Row | None:
        """Return the row of unwind data for the link-time address *pc*, None if no row covers it.

        Code that was built without ``.eh_frame`` may still have ``.debug_frame``, for debuggers.

        :raises MalformedFile: if the unwind data there is damaged
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
        """Close the module's open files, and save the facts about them that are kept on disk."""
        # In reverse order: the facts about a file are saved before the file is closed.
        for close in reversed(self._at_close):
            close()
        self._at_close.clear()

    def read_file(self, address: int, size: int) -> bytes | None:
        """Return the *size* bytes of the module's file that are mapped at the target's *address*.

        None if the file is unknown, unproven or an extract, or if it is not mapped at all of these addresses.

        :raises MemoryFault: if the file can no longer be read
        """
        if self.elf is None or self.is_extract or self.unproven is not None:
            return None
        for mapping in self.mappings:
            if mapping.start <= address and address + size <= mapping.end:
                offset = mapping.offset + address - mapping.start
                try:
                    data = self.elf.data[offset : offset + size]
                except MalformedFile as error:
                    raise MemoryFault(address, size, str(error)) from error
                # The kernel fills the last page with zeros behind the end of the file.
                return (
                    bytes(data) + bytes(size - len(data))
                    if offset + size <= -(-len(self.elf.data) // self._page_size) * self._page_size
                    else None
                )
        return None


def _groups(mappings: Sequence[FileMapping]) -> Iterator[list[FileMapping]]:
    # Yield the mappings of each module. They follow each other, and the first one has the start of the file. A file
    # that is mapped twice makes two modules.
    group: list[FileMapping] = []
    end = 0
    for mapping in mappings:
        if not end <= mapping.start < mapping.end:
            continue  # the list is damaged: no process has two mappings at one address
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

    :param exe: the program's file, if the user named it
    """

    def __init__(self, target: Target, finder: FileFinder, exe: str | None) -> None:
        vector, mappings = target.auxiliary_vector(), target.mappings()
        program_headers, vdso = vector.get(AT_PHDR, 0), vector.get(AT_SYSINFO_EHDR)
        located: Mapping[int, str | None] = {}
        self.needed: tuple[str, ...] = ()
        if target.loss is not None and target.loss.files:
            import ompd.debugger.modules.images as images

            in_memory = images.find(target, finder, exe)
            mappings, located, self.needed = in_memory.mappings, in_memory.paths, in_memory.needed
            program_headers, vdso = program_headers or in_memory.program or 0, vdso or in_memory.vdso
            vector = vector or in_memory.auxiliary_vector
        self.auxiliary_vector = vector
        self.vdso_start = vdso
        self._modules: list[LoadedModule] = []
        cache = DiskCache.of_user()
        copies: Counter[str] = Counter()
        for group in _groups(mappings):
            copies[group[0].name] += 1
            if copies[group[0].name] > _MAX_OF_ONE_FILE:
                continue  # a file with so many copies is data, even if it looks like a module
            if len(self._modules) == _MAX_MODULES:
                raise CorruptState(group[0].start, f"the process has more than {_MAX_MODULES} modules")
            program = group[0].start <= program_headers < group[-1].end
            start, by_hand = group[0].start, exe if program else None
            path = (located[start],) if start in located else None
            module = LoadedModule(target, finder, group, exe=by_hand, located=path, program=program, cache=cache)
            if program or _is_module(module):
                self._modules.append(module)
        self._starts = [m.start for m in self._modules]

    def __iter__(self) -> Iterator[LoadedModule]:
        return iter(self._modules)

    @cached_property
    def program(self) -> LoadedModule | None:
        """The program's own module, None if it is unknown."""
        return next((module for module in self._modules if module.is_program), None)

    def function_extent(self, address: int) -> tuple[int, int] | None:
        """Return the start and end of the function, or of the part of one, that contains *address*.

        None if no unwind data covers the address. Stripped modules have unwind data, too.
        """
        module = self.at(address)
        try:
            row = module.row(address - module.bias) if module is not None else None
        except MalformedFile:
            return None
        if module is None or row is None:
            return None
        return row.function_start + module.bias, row.function_end + module.bias

    def close(self) -> None:
        """Close all files."""
        for module in self._modules:
            module.close()

    def at(self, address: int) -> LoadedModule | None:
        """Return the module that has *address* between its start and its end, None if there is none."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        module = self._modules[index]
        # Only the module's file, which must be proven first, shows where its zeroed data end. So this is looked up only
        # for an address behind the last mapping.
        return module if address < module.end or address < _end(module) else None


def _end(module: LoadedModule) -> int:
    # The end of the module with its zeroed data, which may be behind the mappings of the file.
    segments = module.elf.segments if module.elf is not None else ()
    return max([module.end, *(module.bias + s.p_vaddr + s.p_memsz for s in segments if s.p_type == PT_LOAD)])


def _is_module(module: LoadedModule) -> bool:
    # Whether a mapped file is a module: many are not, such as locale archives and data. The ELF headers in memory or in
    # the file show that.
    if module.image.headers is not None:
        return True
    try:
        begin = module._target.read(module.start, 64)
    except MemoryFault:
        begin = b""
    if not any(begin):
        # The page with the ELF header was omitted or lost. If the file was deleted or is of another build, its name
        # may still show that a module was mapped.
        return module.elf is not None or module._is_elf_file or ".so" in module.name.rpartition("/")[2]
    if begin.startswith(ELF_MAGIC):
        return True
    # A damaged core may have lost the magic number, but the file has it.
    return ".so" in module.name.rpartition("/")[2] and (module.elf is not None or module._is_elf_file)
