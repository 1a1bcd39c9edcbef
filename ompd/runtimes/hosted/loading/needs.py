"""The processor of a library, and the libraries that it needs, read from its file before it is loaded.

gABI, "ELF Header" and "Dynamic Section". glibc's loader must never search for a file itself. So a library is refused if
it would cause a search in any other way than by a name in ``needed``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from functools import lru_cache

from ompd.binary.cursor import Buffer
from ompd.binary.elf.elf import (
    DT_NEEDED,
    DT_RPATH,
    DT_RUNPATH,
    DT_STRTAB,
    ET_DYN,
    PT_DYNAMIC,
    SHN_UNDEF,
    SHT_DYNSYM,
    ElfFile,
    Header,
    parse_header,
)
from ompd.binary.elf.symbols import Symbol, SymbolSection
from ompd.errors import MalformedFile
from ompd.isa.processors import NARROW
from ompd.records import record
from ompd.runtimes.hosted.loading.folders import is_plain

DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000
DT_CONFIG, DT_DEPAUDIT, DT_AUDIT, DT_AUXILIARY, DT_FILTER = 0x6FFFFEFA, 0x6FFFFEFB, 0x6FFFFEFC, 0x7FFFFFFD, 0x7FFFFFFF

_LOADS_MORE = {
    DT_CONFIG: "DT_CONFIG",
    DT_AUDIT: "DT_AUDIT",
    DT_DEPAUDIT: "DT_DEPAUDIT",
    DT_AUXILIARY: "DT_AUXILIARY",
    DT_FILTER: "DT_FILTER",
}
_MAX_NEEDED = 256  # real libraries need a dozen; the parser reads no more than 1,024
# Code with C++ exceptions refers to the function _PERSONALITY, which the libraries with these prefixes define.
_PERSONALITY = "__gxx_personality_v0"
_CXX_LIBRARIES = ("libstdc++.so.", "libc++.so.", "libc++abi.so.")


@record
class Needs:
    """The needs of a library.

    ``soname`` is the library's own name, None without one. ``runpath`` are the folders in which to search for
    ``needed`` (DT_RUNPATH). ``inherited`` are folders for ``needed`` and for everything that those libraries need
    (DT_RPATH). ``wants_cxx`` is True if the library uses the C++ library without naming it. ``entries`` are the
    requested functions that the library defines.
    """

    header: Header
    soname: str | None
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    inherited: tuple[str, ...]
    wants_cxx: bool
    entries: frozenset[str]


@lru_cache(maxsize=1)
def own_header() -> Header:
    """Return the ELF header of the program that this process runs. It decides which libraries the workers can load.

    :raises MalformedFile: if the header cannot be read
    """
    try:
        with open("/proc/self/exe", "rb") as file:  # noqa: PTH123
            return parse_header(file.read(64), "this program")
    except OSError as error:
        raise MalformedFile(f"this program cannot be read: {error.strerror}") from error


def unfit(header: Header) -> str | None:
    """Return why no worker can load a library with this header, None if one can."""
    own = own_header()
    if (header.ident_class, header.e_machine, header.byte_order) == _kind(own):
        return None
    if is_narrow(header):
        return None
    if header.ident_class != own.ident_class:
        return f"a library of {header.ident_class} bits, and this program has {own.ident_class}"
    return f"a library for another processor (machine {header.e_machine}, {header.byte_order} endian)"


def is_narrow(header: Header) -> bool:
    """Return whether a library with this header is a 32-bit library that this 64-bit machine can run."""
    own = own_header()
    narrow = NARROW.get(own.e_machine)
    return own.ident_class == 64 and _kind(header) == (32, narrow, own.byte_order)


def read_needs(data: Buffer, name: str, entries: Collection[str] = ()) -> Needs:
    """Return the needs of a library.

    :param data: the whole file
    :param name: the file's name in errors
    :param entries: the requested functions
    :raises MalformedFile: if the file is not a shared library, or needs more from the loader than libraries by name
    """
    try:
        return _read_needs(ElfFile(data, name), name, entries)
    except (struct.error, ValueError, OverflowError) as error:
        raise MalformedFile(f"{name}: {error}") from error


def _read_needs(elf: ElfFile, name: str, entries: Collection[str]) -> Needs:
    if elf.e_type != ET_DYN:
        raise MalformedFile(f"{name}: not a shared library")
    places = [segment for segment in elf.segments if segment.p_type == PT_DYNAMIC]
    if not places:
        raise MalformedFile(f"{name}: not a shared library: it has no dynamic section")
    # The loader uses the address of the last dynamic segment, the parser uses the offset of the first. Both must agree.
    if len(places) > 1 or elf.file_offset(places[0].p_vaddr, places[0].p_filesz) != places[0].p_offset:
        raise MalformedFile(f"{name}: its dynamic section is not where it says")
    dynamic = elf.dynamic()
    tags = [tag for tag, _ in dynamic]
    if tags.count(DT_STRTAB) > 1 or tags.count(DT_NEEDED) > _MAX_NEEDED:
        raise MalformedFile(f"{name}: its dynamic section is not one that a linker makes")
    more = next((_LOADS_MORE[tag] for tag in tags if tag in _LOADS_MORE), None)
    if more is not None:
        raise MalformedFile(f"{name}: it has other libraries loaded in its place ({more}), which is refused")
    if any(tag == DT_FLAGS_1 and value & DF_1_PIE for tag, value in dynamic):
        raise MalformedFile(f"{name}: a program, not a shared library")
    needed = elf.dynamic_strings(DT_NEEDED)
    not_plain = next((name for name in needed if not is_plain(name)), None)
    if not_plain is not None:
        raise MalformedFile(f"{name}: it needs a library by what is not a plain name: {not_plain!r}")
    soname = elf.soname()
    has_cxx = any(name.startswith(_CXX_LIBRARIES) for name in (*needed, soname or ""))
    symbols = _dynamic_symbols(elf, {*entries} if has_cxx else {_PERSONALITY, *entries})
    runpath, rpath = elf.dynamic_strings(DT_RUNPATH), elf.dynamic_strings(DT_RPATH)
    return Needs(
        elf.header,
        soname,
        needed,
        tuple(folder for text in runpath for folder in text.split(":")),
        # glibc ignores DT_RPATH if there is a DT_RUNPATH.
        () if runpath else tuple(folder for text in rpath for folder in text.split(":")),
        any(symbol.name == _PERSONALITY and symbol.section == SHN_UNDEF for symbol in symbols),
        frozenset(symbol.name for symbol in symbols if symbol.name in entries and symbol.section != SHN_UNDEF),
    )


def _dynamic_symbols(elf: ElfFile, names: set[str]) -> list[Symbol]:
    # The symbols that a library exports or imports, by its section headers. Files without section headers are refused.
    tables = [section for section in elf.sections if section.sh_type == SHT_DYNSYM]
    if len(tables) > 1 or any(table.sh_link >= len(elf.sections) for table in tables):
        raise MalformedFile(f"{elf.name}: {len(tables)} tables of dynamic symbols")
    for table in tables:
        strings = elf.section_data(elf.sections[table.sh_link])
        names = {name for name in names if name.encode() + b"\0" in strings}
    if not names:
        return []
    return [symbol for section in tables for symbol in SymbolSection(elf, section).find_many(names)]


def _kind(header: Header) -> tuple[int, int, str]:
    return header.ident_class, header.e_machine, header.byte_order
