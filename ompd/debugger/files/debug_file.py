"""Debug information of a library that no process has loaded, read from the library or its separate debug file."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ompd.binary.dwarf.constants import DW_AT_COMP_DIR
from ompd.binary.elf.elf import SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, ElfFile, check_elf_magic
from ompd.binary.types.types import DwarfType, TypeInfo
from ompd.debugger.files.finder import FileFinder
from ompd.errors import BadFile, LayoutUnavailable, MalformedFile
from ompd.isa.processors import LAYOUT_MACHINES
from ompd.safety.reading import PagedFile, may_read_whole, open_paged

_DW_AT_PRODUCER = 0x25
_SYM = struct.Struct("<IBBHQQ")  # Elf64_Sym: st_name, st_info, st_other, st_shndx, st_value, st_size
_SUFFIXES = (".debug", ".dbg")
# The longest text about the compiler, which may list its options.
_MAX_WORDS = 4096
_INTELS_MARK = b"@(#) Intel(R) OMP version: "
_MAX_VERSION = 80
_INTELS_VERSION = re.compile(rb"@\(#\) Intel\(R\) OMP version: (\d{1,4}(?:\.\d{1,9}){1,3})")


class DebugFile:
    """A file with debug information, and the files that belong to it. ``types`` are its types.

    :param path: the library, or its separate debug file
    :raises BadFile: if it is missing, no ELF file, or of a machine without layouts
    :raises LayoutUnavailable: if neither it nor a separate debug file has debug information
    """

    def __init__(self, path: str, finder: FileFinder | None = None) -> None:
        self.path = path
        self._finder = finder if finder is not None else FileFinder()
        self._elf = _opened(path)
        self.architecture = _architecture(self._elf)
        """The psABI's name of its machine: ``x86_64`` or ``aarch64``."""
        holder = self._elf if _has_dwarf(self._elf) else self._finder.debug_file(self._elf, path, path)
        if holder is None or not _has_dwarf(holder):
            raise LayoutUnavailable(
                f"{path} has no debug information (DWARF), and no separate debug file of it is found",
                hint="name the separate debug file itself, or install it where the file's build-id or its"
                " .gnu_debuglink leads",
            )
        self.debug_path = holder.name
        """The file with the debug information: itself, or the separate debug file."""
        debug_path = holder.name if holder is not self._elf else None
        self.types = TypeInfo(holder, self._finder.companions(path, path, debug_path))

    @property
    def build_id(self) -> str | None:
        """The build-id in hexadecimal, None if it has none.

        :raises MalformedFile: if the notes are malformed
        """
        identifier = self._elf.build_id()
        return identifier.hex() if identifier is not None else None

    def compiler(self, type_: DwarfType) -> tuple[str, str]:
        """Return the compiler of the type's source file, and the folder where it ran; each is "" if unknown."""
        unit = type_.place.unit
        try:
            producer, folder = (unit.string(unit.top.get(name)) or "" for name in (_DW_AT_PRODUCER, DW_AT_COMP_DIR))
        except MalformedFile:
            return "", ""
        return producer[:_MAX_WORDS], folder[:_MAX_WORDS]

    # The library

    @cached_property
    def shared_object(self) -> ElfFile | None:
        """The library: this file itself, or the library of this debug file; None if that is not found.

        It is verified by its build-id, or by a ``.gnu_debuglink`` with this file's name and checksum.
        """
        if _has_names(self._elf):
            return self._elf
        for candidate in self._library_candidates():
            with suppress(BadFile, MalformedFile):
                library = _opened(candidate)
                if _has_names(library) and self._is_of(library):
                    return library
        return None

    def _library_candidates(self) -> Iterator[str]:
        with suppress(MalformedFile):
            build_id = self._elf.build_id()
            if build_id is not None:
                yield from self._finder.executables(build_id)
        for suffix in _SUFFIXES:
            if self.path.endswith(suffix):
                bare = self.path.removesuffix(suffix)
                yield bare
                yield f"{bare}.so"

    def _is_of(self, library: ElfFile) -> bool:
        # Return whether this is the debug file of *library*.
        build_id, library_build_id = self._elf.build_id(), library.build_id()
        if build_id is not None or library_build_id is not None:
            return build_id == library_build_id
        debug_file = self._finder.debug_file(library, library.name, library.name)
        return debug_file is not None and Path(debug_file.name).samefile(self.path)

    def exported(self, names: Collection[str]) -> frozenset[str] | None:
        """Return the names of *names* that the library exports (``.dynsym``), None without the library."""
        elf = self.shared_object
        if elf is None or _architecture(elf) != self.architecture:
            return None
        spellings = {name.encode(): name for name in names}
        try:
            section = next(section for section in elf.sections if section.sh_type == SHT_DYNSYM)
            strings = elf.section_data(elf.sections[section.sh_link])
            raw = elf.section_data(section)
        except (MalformedFile, IndexError):
            return None
        exports = set()
        for st_name, _, _, st_shndx, _, _ in _SYM.iter_unpack(raw[: len(raw) - len(raw) % _SYM.size]):
            name = spellings.get(strings[st_name : strings.find(b"\0", st_name)]) if st_shndx != SHN_UNDEF else None
            if name is not None:
                exports.add(name)
        return frozenset(exports)

    def intels_version(self) -> str | None:
        """Return the version in a string of Intel's runtime, None for other libraries, or without the library."""
        if self.shared_object is None:
            return None
        data = self.shared_object.data
        if isinstance(data, memoryview) or (isinstance(data, PagedFile) and not may_read_whole(data)):
            return None
        start = data.find(_INTELS_MARK, 0, len(data))
        version = _INTELS_VERSION.match(data[start : start + _MAX_VERSION]) if start >= 0 else None
        return version[1].decode("ascii") if version is not None else None


def _opened(path: str) -> ElfFile:
    data = open_paged(path)
    if not check_elf_magic(data):
        raise BadFile(path, "is not an ELF file")
    try:
        return ElfFile(data, path)
    except MalformedFile as error:
        raise BadFile(path, f"is a damaged ELF file: {error}") from error


def _architecture(elf: ElfFile) -> str:
    name = LAYOUT_MACHINES.get(elf.e_machine)
    if name is None or elf.ident_class != 64 or elf.byte_order != "little":
        supported = ", ".join(sorted(LAYOUT_MACHINES.values()))
        raise BadFile(
            elf.name,
            f"is of another architecture ({elf.ident_class} bits, {elf.byte_order}-endian, machine {elf.e_machine});"
            f" layouts are known of: {supported}",
        )
    return name


def _has_dwarf(elf: ElfFile) -> bool:
    try:
        section = elf.section(".debug_info")
    except MalformedFile as error:
        raise BadFile(elf.name, f"is a damaged ELF file: {error}") from error
    return section is not None and section.sh_type != SHT_NOBITS and section.sh_size > 0


def _has_names(elf: ElfFile) -> bool:
    # Return whether there is a table of dynamic symbols. A separate debug file has only the section header of that
    # table.
    try:
        return any(section.sh_type == SHT_DYNSYM and section.sh_size for section in elf.sections)
    except MalformedFile:
        return False
