"""Modules of a target that lacks a list of files, found by ELF headers in memory and the loader's list.

In cores of gdb's ``gcore`` the notes that name files are at the end. If a quota or a full disk cuts a core off, the
notes are lost. The memory before them still has the modules: a module's first page begins with its ELF header, and the
program headers give the other segments. The program's dynamic section has the address of the loader's list
(``DT_DEBUG``, ``struct r_debug`` of ``<link.h>``), which names files. If the list is lost, only a module's own name
(``DT_SONAME``) is known. Its file is then searched as the loader does, in the folders that modules name
(``DT_RUNPATH``), then in the system's folders. A file that is found in this way must be proven like any other.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ompd.binary.core.notes import AT_EXECFN, AT_PHDR, FileMapping, parse_auxv
from ompd.binary.cursor import order_mark
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.elf import ElfFile, Header, Segment, parse_header, parse_segments
from ompd.binary.elf.symbols import SymbolTable
from ompd.contract.memory import ByteOrder
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.modules.loader import LinkMap, iter_link_maps
from ompd.debugger.targets.base import Target, page_size
from ompd.errors import BadFile, CorruptState, MalformedFile, MemoryFault
from ompd.records import record
from ompd.safety.reading import open_paged

_MAX_HEADERS = 1 << 16
_MAX_DYNAMIC = 1 << 16
_MAX_STRING = 4096
_MAX_ARGUMENTS = 1 << 16
# By default Linux limits a process to 65,530 mappings, and a module has several.
_MAX_STARTS = 1 << 17
_MAX_IMAGES = 1 << 12
_MAX_FOLDERS = 64
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_LOADER = re.compile(r"ld(?:-linux[-\w]*|64)?\.so")
_VDSO = ("linux-vdso.so.1", "linux-gate.so.1")  # the names of the vDSO, which has no file


@record
class Image:
    """A module as it is in memory.

    ``r_debug`` (from ``DT_DEBUG``), ``soname``, ``needed`` and ``folders`` (for the loader's search) are from its
    dynamic section. ``has_debug_entry`` is whether it has ``DT_DEBUG``, perhaps still without an address. ``name`` is
    its file in the loader's list, None if that is unknown.
    """

    start: int
    bias: int
    header: Header
    segments: tuple[Segment, ...]
    r_debug: int | None
    has_debug_entry: bool
    soname: str | None
    needed: tuple[str, ...]
    folders: tuple[str, ...]
    name: str | None = None

    @property
    def is_program(self) -> bool:
        """Whether the module is the program. Only a program has fixed addresses or ``DT_DEBUG``.

        A module with an interpreter and without ``DT_SONAME`` counts as the program, too.
        """
        interpreted = any(segment.p_type == gabi.PT_INTERP for segment in self.segments)
        return self.header.e_type == gabi.ET_EXEC or self.has_debug_entry or (interpreted and self.soname is None)

    @property
    def dynamic(self) -> int | None:
        """The address of the dynamic section, None without one."""
        segment = next((s for s in self.segments if s.p_type == gabi.PT_DYNAMIC), None)
        return None if segment is None else self.bias + segment.p_vaddr

    def mappings(self, name: str, page: int) -> list[FileMapping]:
        """Return the mappings of the module's file, in the form of ``NT_FILE``.

        :param name: the name of the file
        :param page: the size of a page in bytes
        """
        mappings = []
        for segment in self.segments:
            if segment.p_type != gabi.PT_LOAD or not segment.p_filesz:
                continue
            low = self.bias + segment.p_vaddr
            begin, end = low // page * page, -(-(low + segment.p_filesz) // page) * page
            mappings.append(FileMapping(begin, end, segment.p_offset // page * page, name))
        return mappings


@record
class ModulesInMemory:
    """The modules in memory. ``mappings`` are those of their files, in the form of ``NT_FILE``.

    ``program`` and ``vdso`` are the starts of the program and the vDSO, None if unknown. ``paths`` has, by the module's
    start, the path on this machine of each module's file that the loader's list does not name. The path is None if no
    file was found. ``needed`` are the names of libraries that modules need, but that are not among the modules.
    ``auxiliary_vector`` is empty if the initial stack was not found.
    """

    mappings: tuple[FileMapping, ...]
    program: int | None
    vdso: int | None
    paths: Mapping[int, str | None]
    needed: tuple[str, ...]
    auxiliary_vector: Mapping[int, int]


def find(target: Target, finder: FileFinder, exe: str | None = None) -> ModulesInMemory:
    """Return the modules in the memory of *target*. ELF headers are looked for at the start of each segment only.

    :param exe: the program's file as the user named it, None if the user named none
    """
    everything = list(_iter_images(target))
    vdso = next((image.start for image in everything if image.soname in _VDSO), None)
    images = _named(target, [image for image in everything if image.soname not in _VDSO])
    program = next((image for image in images if image.is_program), None)
    vector = _auxiliary_vector(target, finder, images, program) if program is not None else {}
    mappings: list[FileMapping] = []
    page = page_size(target)
    located: dict[int, str | None] = {}
    folders = tuple(dict.fromkeys(_folders(images, program, finder, exe, target.architecture.multiarch)))
    if len(folders) > _MAX_FOLDERS:  # the system's folders are last
        folders = folders[: _MAX_FOLDERS // 2] + folders[-_MAX_FOLDERS // 2 :]
    for image in images:
        name = image.name or (_program_name(target, vector) if image is program else image.soname)
        if name is None:
            name = exe if exe is not None and image is program else _nameless(image)
            located[image.start] = None
        elif image.name is None and image is not program:
            name, path = _locate(image, name, folders)
            located[image.start] = path if "/" in path else None
        mappings += image.mappings(name, page)
    names = {Path(image.name).name for image in images if image.name} | {image.soname for image in images}
    needed = dict.fromkeys(name for image in images for name in image.needed if name not in names)
    mappings.sort(key=lambda mapping: mapping.start)
    start = program.start if program is not None else None
    return ModulesInMemory(tuple(mappings), start, vdso, located, tuple(needed), vector)


def _nameless(image: Image) -> str:
    return "(the program)" if image.is_program else f"(the module at {image.start:#x})"


# Images


def _iter_images(target: Target) -> Iterator[Image]:
    count, page = 0, page_size(target)
    for start in target.segment_starts()[:_MAX_STARTS]:
        if start % page or count >= _MAX_IMAGES:
            continue
        try:
            if target.read(start, 4) != gabi.ELF_MAGIC:
                continue
            image = _read_image(target, start)
        except (MemoryFault, MalformedFile):
            continue
        if image is not None:
            count += 1
            yield image


def _read_image(target: Target, start: int) -> Image | None:
    header = parse_header(target.read(start, 64))
    architecture = target.architecture
    if header.e_type not in (gabi.ET_EXEC, gabi.ET_DYN) or header.e_machine != architecture.e_machine:
        return None
    if header.e_phnum == gabi.PN_XNUM or header.ident_class != architecture.elf_class:
        return None
    table = target.read(start + header.e_phoff, min(header.e_phnum * header.e_phentsize, _MAX_HEADERS))
    segments = parse_segments(header, table, header.e_phnum)
    first = next((s for s in segments if s.p_type == gabi.PT_LOAD), None)
    if first is None or first.p_offset:
        return None  # a loaded module begins with its file, so this is a file that the program has read into memory
    bias = start - first.p_vaddr
    limit = 1 << 8 * architecture.pointer_size
    if bias < 0 or any(s.p_type == gabi.PT_LOAD and bias + s.p_vaddr + s.p_memsz > limit for s in segments):
        return None
    if header.e_type == gabi.ET_EXEC and bias:
        return None
    entries = _dynamic(target, bias, segments, header.byte_order)
    strings = _strings(target, bias, entries)
    names = [_string(strings, value) for tag, value in entries if tag == gabi.DT_SONAME]
    needed = [_string(strings, value) for tag, value in entries if tag == gabi.DT_NEEDED]
    searched = [_string(strings, value) for tag, value in entries if tag in (gabi.DT_RUNPATH, gabi.DT_RPATH)]
    return Image(
        start,
        bias,
        header,
        segments,
        r_debug=next((value for tag, value in entries if tag == gabi.DT_DEBUG and value), None),
        has_debug_entry=any(tag == gabi.DT_DEBUG for tag, _ in entries),
        soname=next((name for name in names if name), None),
        needed=tuple(name for name in needed if name),
        folders=tuple(folder for text in searched if text for folder in text.split(":")),
    )


def _dynamic(
    target: Target, bias: int, segments: Sequence[Segment], byte_order: ByteOrder
) -> Sequence[tuple[int, int]]:
    segment = next((s for s in segments if s.p_type == gabi.PT_DYNAMIC), None)
    if segment is None:
        return ()
    layout = struct.Struct(order_mark(byte_order) + ("qQ" if target.architecture.pointer_size == 8 else "iI"))
    size = min(segment.p_memsz, _MAX_DYNAMIC)
    try:
        raw = target.read(bias + segment.p_vaddr, size - size % layout.size)
    except MemoryFault:
        return ()
    entries: list[tuple[int, int]] = []
    for tag, value in layout.iter_unpack(raw):
        if tag == gabi.DT_NULL:
            break
        entries.append((tag, value))
    return entries


def _strings(target: Target, bias: int, entries: Sequence[tuple[int, int]]) -> bytes:
    # The value of DT_STRTAB is an address if the loader has relocated it, as glibc's does. Other loaders leave it as it
    # is in the file, without the bias.
    table = next((value for tag, value in entries if tag == gabi.DT_STRTAB), 0)
    size = min(next((value for tag, value in entries if tag == gabi.DT_STRSZ), 0), 1 << 24)
    for address in (table, bias + table):
        try:
            raw = target.read(address, size)
        except MemoryFault:
            continue
        if raw[:1] == b"\0":  # a string table begins with an empty string (gABI, "String Table")
            return raw
    return b""


def _string(strings: bytes, offset: int) -> str | None:
    end = strings.find(b"\0", offset, offset + _MAX_STRING)
    return strings[offset:end].decode("utf-8", "surrogateescape") or None if end >= 0 else None


# Names


class _Memory:
    # The target in the form that iter_link_maps() needs.
    def __init__(self, target: Target) -> None:
        self.read = target.read
        self.byte_order = target.architecture.byte_order
        self.pointer_size = target.architecture.pointer_size


def _named(target: Target, images: Sequence[Image]) -> list[Image]:
    # Return the images with the names of their files, from the readable part of the loader's list.
    names: dict[int, str] = {}
    for image in images:
        if image.r_debug is None:
            continue
        try:
            for link_map in iter_link_maps(_Memory(target), image.r_debug):
                name = _name_of(target, link_map)
                if name:
                    names.setdefault(link_map.l_ld, name)
        except (MemoryFault, CorruptState):
            pass  # the names that were read before the fault remain valid
    return [replace(image, name=names.get(image.dynamic or 0)) for image in images]


def _auxiliary_vector(target: Target, finder: FileFinder, images: Sequence[Image], program: Image) -> Mapping[int, int]:
    # The auxiliary vector, empty if it was not found. glibc's loader exports the address of the initial stack, which
    # has a count, arguments, a null, the environment, a null, and the vector. The symbol is from a file of the loader
    # that is not proven yet. If it is the wrong file, the address has no vector with the program's headers.
    loader = next((image for image in images if image.name is not None and _LOADER.match(image.soname or "")), None)
    if loader is None or loader.name is None:
        return {}
    size, order = target.architecture.pointer_size, target.architecture.byte_order
    try:
        path = finder.resolve(loader.name)
        symbol = SymbolTable(ElfFile(open_paged(path), path), None).find("__libc_stack_end")
        if symbol is None:
            return {}
        address = int.from_bytes(target.read(loader.bias + symbol.address, size), order)
        arguments = int.from_bytes(target.read(address, size), order)
        if arguments > _MAX_ARGUMENTS:
            return {}
        address += (arguments + 2) * size
        for _ in range(_MAX_ARGUMENTS):
            address += size
            if not any(target.read(address - size, size)):
                break
        vector = parse_auxv(_read_up_to(target, address, 64 * 2 * size), size, order)
    except (BadFile, MalformedFile, MemoryFault):
        return {}
    return vector if vector.get(AT_PHDR) == program.start + program.header.e_phoff else {}


def _program_name(target: Target, vector: Mapping[int, int]) -> str | None:
    # The name of the file that was passed to execve(). None for a relative name, because its folder is unknown.
    name = _string_at(target, vector.get(AT_EXECFN, 0))
    return name if name is not None and name.startswith("/") else None


def _read_up_to(target: Target, address: int, size: int) -> bytes:
    # Returns *size* bytes, or fewer if memory ends before: the top of the stack may be near.
    while size:
        try:
            return target.read(address, size)
        except MemoryFault:
            size //= 2
    return b""


def _name_of(target: Target, link_map: LinkMap) -> str | None:
    return _string_at(target, link_map.l_name)


def _string_at(target: Target, address: int) -> str | None:
    text = b""
    while address and len(text) < _MAX_STRING:
        place = address + len(text)
        try:
            piece = target.read(place, 64 - place % 64)
        except MemoryFault:
            return None
        end = piece.find(b"\0")
        if end >= 0:
            return (text + piece[:end]).decode("utf-8", "surrogateescape")
        text += piece
    return None


def _folders(
    images: Sequence[Image], program: Image | None, finder: FileFinder, exe: str | None, multiarch: str
) -> Iterator[tuple[str, str]]:
    # Yield the folders to search, each as its name in the target and its path on this machine: folders that modules
    # name, folders of known modules, the folder of the program that the user named, and the system's folders.
    first = [program] if program is not None else []
    beside = str(Path(exe).absolute().parent) if exe is not None else None
    for image in [*first, *images]:
        origin = str(Path(image.name).parent) if image.name else None
        for word in image.folders:
            folder = word.replace("${ORIGIN}", "$ORIGIN")
            if "$ORIGIN" in folder and image is program and beside is not None:
                yield folder.replace("$ORIGIN", beside), folder.replace("$ORIGIN", beside)
            elif folder.startswith("/") or ("$ORIGIN" in folder and origin is not None):
                folder = folder.replace("$ORIGIN", origin or "")
                yield folder, finder.resolve(folder)
        if origin:
            yield origin, finder.resolve(origin)
    if beside is not None:
        yield beside, beside
    for folder in _SYSTEM_FOLDERS:
        for name in (f"{folder}/{multiarch}", folder):
            yield name, finder.resolve(name)


def _locate(image: Image, soname: str, folders: Sequence[tuple[str, str]]) -> tuple[str, str]:
    # Return the name in the target, and the path on this machine, of the first file *soname* that has the image's
    # program headers. Without such a file, both are *soname*.
    for folder, folder_name in folders if "/" not in soname else ():
        candidate = str(Path(folder_name, soname))
        try:
            elf = ElfFile(open_paged(candidate), candidate)
        except (BadFile, MalformedFile):
            continue
        if elf.segments == image.segments and elf.e_machine == image.header.e_machine:
            return str(Path(folder, soname)), candidate
    return soname, soname
