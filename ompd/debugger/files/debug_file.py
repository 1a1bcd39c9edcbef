"""The debug information of a file that no process has to have loaded: a library, or its separate debug file."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ompd.binary.dwarf.constants import DW_AT_COMP_DIR
from ompd.binary.elf.elf import SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, ElfFile, check_elf_magic
from ompd.binary.types.types import DwarfType, FlatMember, TypeInfo, flat_members
from ompd.debugger.files.finder import FileFinder
from ompd.errors import BadFile, LayoutUnavailable, MalformedFile
from ompd.isa.processors import LAYOUT_MACHINES
from ompd.safety.reading import PagedFile, may_read_whole, open_paged

_DW_AT_PRODUCER = 0x25
_SYM = struct.Struct("<IBBHQQ")  # Elf64_Sym: st_name, st_info, st_other, st_shndx, st_value, st_size
_SUFFIXES = (".debug", ".dbg")
# Who compiled it is a line of options at most.
_MAX_WORDS = 4096
_INTELS_MARK = b"@(#) Intel(R) OMP version: "
_MAX_VERSION = 80
_INTELS_VERSION = re.compile(rb"@\(#\) Intel\(R\) OMP version: (\d{1,4}(?:\.\d{1,9}){1,3})")


class DebugFile:
    """A file with debug information, and what belongs to it.

    :param path: the library, or its separate debug file
    :raises BadFile: if there is none, it is no ELF file, or of a machine whose layouts are unknown
    :raises LayoutUnavailable: if there is no debug information, neither in it nor in a separate file that is found
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
        """Where its debug information is: in itself, or in the separate debug file."""
        debug_path = holder.name if holder is not self._elf else None
        self._info = TypeInfo(holder, self._finder.companions(path, path, debug_path))

    @property
    def build_id(self) -> str | None:
        """The build-id in hexadecimal, None if it has none.

        :raises MalformedFile: if the notes that may hold it are malformed
        """
        found = self._elf.build_id()
        return found.hex() if found is not None else None

    def find(self, name: str) -> DwarfType | None:
        """Return the type called *name*, None if it is not defined.

        :raises TypeNotFound: if there are several by that name, and they differ in size
        :raises MalformedFile: if what leads there is malformed
        """
        return self._info.find(name)

    def members(self, found: DwarfType, is_wanted: Callable[[str], bool]) -> list[FlatMember]:
        """Return the members of a structure; see :func:`flat_members`."""
        return flat_members(self._info, found, is_wanted)

    def compiler(self, found: DwarfType) -> tuple[str, str]:
        """Return who compiled the source file that has the type, and in which folder; "" for what is unknown."""
        unit = found.place.unit
        try:
            producer, folder = (unit.string(unit.top.get(name)) or "" for name in (_DW_AT_PRODUCER, DW_AT_COMP_DIR))
        except MalformedFile:
            return "", ""
        return producer[:_MAX_WORDS], folder[:_MAX_WORDS]

    # The library it belongs to

    @cached_property
    def shared_object(self) -> ElfFile | None:
        """The library: the file itself, or the one whose debug file it is; None if that is not found.

        It is known by its build-id, or by a ``.gnu_debuglink`` that names this file with its checksum.
        """
        if _has_names(self._elf):
            return self._elf
        for candidate in self._library_candidates():
            with suppress(BadFile, MalformedFile):
                found = _opened(candidate)
                if _has_names(found) and self._is_of(found):
                    return found
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
        own, its = self._elf.build_id(), library.build_id()
        if own is not None or its is not None:
            return own == its
        found = self._finder.debug_file(library, library.name, library.name)
        return found is not None and Path(found.name).samefile(self.path)

    def exported(self, names: Collection[str]) -> frozenset[str] | None:
        """Return those of *names* that the library exports (``.dynsym``), None if the library is not available."""
        elf = self.shared_object
        if elf is None or _architecture(elf) != self.architecture:
            return None
        wanted = {name.encode(): name for name in names}
        try:
            section = next(section for section in elf.sections if section.sh_type == SHT_DYNSYM)
            strings = elf.section_data(elf.sections[section.sh_link])
            raw = elf.section_data(section)
        except (MalformedFile, IndexError):
            return None
        found = set()
        for st_name, _, _, st_shndx, _, _ in _SYM.iter_unpack(raw[: len(raw) - len(raw) % _SYM.size]):
            name = wanted.get(strings[st_name : strings.find(b"\0", st_name)]) if st_shndx != SHN_UNDEF else None
            if name is not None:
                found.add(name)
        return frozenset(found)

    def intels_version(self) -> str | None:
        """Return the version that Intel's runtime has among its strings, None if there is none, or no library."""
        if self.shared_object is None:
            return None
        data = self.shared_object.data
        if isinstance(data, memoryview) or (isinstance(data, PagedFile) and not may_read_whole(data)):
            return None
        at = data.find(_INTELS_MARK, 0, len(data))
        found = _INTELS_VERSION.match(data[at : at + _MAX_VERSION]) if at >= 0 else None
        return found[1].decode("ascii") if found is not None else None


def _opened(path: str) -> ElfFile:
    data = open_paged(path)
    if not check_elf_magic(data):
        raise BadFile(path, "is not an ELF file")
    try:
        return ElfFile(data, path)
    except MalformedFile as error:
        raise BadFile(path, f"is a damaged ELF file: {error}") from error


def _architecture(elf: ElfFile) -> str:
    found = LAYOUT_MACHINES.get(elf.e_machine)
    if found is None or elf.ident_class != 64 or elf.byte_order != "little":
        known = ", ".join(sorted(LAYOUT_MACHINES.values()))
        raise BadFile(
            elf.name,
            f"is of another architecture ({elf.ident_class} bits, {elf.byte_order}-endian, machine {elf.e_machine});"
            f" layouts are known of: {known}",
        )
    return found


def _has_dwarf(elf: ElfFile) -> bool:
    try:
        section = elf.section(".debug_info")
    except MalformedFile as error:
        raise BadFile(elf.name, f"is a damaged ELF file: {error}") from error
    return section is not None and section.sh_type != SHT_NOBITS and section.sh_size > 0


def _has_names(elf: ElfFile) -> bool:
    # A separate debug file has the header of the table only.
    try:
        return any(section.sh_type == SHT_DYNSYM and section.sh_size for section in elf.sections)
    except MalformedFile:
        return False
