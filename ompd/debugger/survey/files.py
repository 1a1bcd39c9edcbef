"""What the files of a module have for a debugger: names, lines, types; and where what is missing would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ompd.binary.elf.elf import SHT_NOBITS, ElfFile
from ompd.contract.process import Module
from ompd.debugger.modules.modules import LoadedModule
from ompd.errors import MalformedFile


class ModuleFiles(NamedTuple):
    """What is known of one module by its files.

    ``has_names`` says whether its own functions have names (``.symtab``), ``has_lines`` and ``has_types`` whether there
    is debug information; all are None if its file is damaged. ``is_extract`` says that a snapshot holds parts of its
    file only, which need not be all that the file has. ``debug_link`` is the name of the separate debug file
    that its file asks for, None without one; ``debug_path`` is where that was found.
    """

    module: Module
    has_names: bool | None
    has_lines: bool | None
    has_types: bool | None
    debug_link: str | None
    debug_path: str | None
    is_extract: bool


def survey(loaded: LoadedModule) -> ModuleFiles | None:
    """Return what the files of a module have, None without its own file."""
    elf = loaded.elf
    if elf is None:
        return None
    debug = loaded.debug_elf
    files = [elf] if debug is None else [elf, debug]
    try:
        link = elf.debuglink()
    except MalformedFile:
        link = None

    def has(name: str) -> bool | None:
        return _any(files, lambda file: _holds(file, name))

    names = has(".symtab")
    if names is False:
        names = has(".gnu_debugdata")
    return ModuleFiles(
        module=loaded.record,
        has_names=names,
        has_lines=has(".debug_line"),
        has_types=has(".debug_info"),
        debug_link=link[0] if link is not None else None,
        debug_path=debug.name if debug is not None else None,
        is_extract=loaded.is_extract,
    )


def _any(files: list[ElfFile], holds: Callable[[ElfFile], bool]) -> bool | None:
    is_damaged = False
    for file in files:
        try:
            if holds(file):
                return True
        except MalformedFile:
            is_damaged = True
    return None if is_damaged else False


def _holds(file: ElfFile, name: str) -> bool:
    section = file.section(name)
    return section is not None and section.sh_type != SHT_NOBITS and section.sh_size > 0
