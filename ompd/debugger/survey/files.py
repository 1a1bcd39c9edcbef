"""The contents of a module's files for a debugger: names, lines and types, and the separate debug file."""

from __future__ import annotations

from typing import NamedTuple

from ompd.binary.elf.elf import SHT_NOBITS, ElfFile
from ompd.contract.process import Module
from ompd.debugger.modules.modules import LoadedModule
from ompd.errors import MalformedFile


class ModuleFiles(NamedTuple):
    """The contents of one module's files.

    ``has_names``: whether the module's own functions have names (``.symtab``). ``has_lines`` and ``has_types``: whether
    there is debug information. Each of the three is None if a damaged file leaves it open. ``debug_link`` is the name
    of the separate debug file in its ``.gnu_debuglink``, None without one; ``debug_path`` is the debug file that was
    found. ``is_extract``: the file is a snapshot's extract, which may lack contents of the original.
    """

    module: Module
    has_names: bool | None
    has_lines: bool | None
    has_types: bool | None
    debug_link: str | None
    debug_path: str | None
    is_extract: bool


def survey(loaded: LoadedModule) -> ModuleFiles | None:
    """Return what a module's files have for a debugger, None without the module's own file."""
    elf = loaded.elf
    if elf is None:
        return None
    debug = loaded.debug_elf
    files = [elf] if debug is None else [elf, debug]
    try:
        link = elf.debuglink()
    except MalformedFile:
        link = None
    has_names = _have_section(files, ".symtab")
    if has_names is False:
        has_names = _have_section(files, ".gnu_debugdata")
    return ModuleFiles(
        module=loaded.record,
        has_names=has_names,
        has_lines=_have_section(files, ".debug_line"),
        has_types=_have_section(files, ".debug_info"),
        debug_link=link[0] if link is not None else None,
        debug_path=debug.name if debug is not None else None,
        is_extract=loaded.is_extract,
    )


def _have_section(files: list[ElfFile], name: str) -> bool | None:
    # Return whether one of the files has the section *name* with contents, None if a damaged file may have it.
    is_damaged = False
    for file in files:
        try:
            section = file.section(name)
        except MalformedFile:
            is_damaged = True
            continue
        if section is not None and section.sh_type != SHT_NOBITS and section.sh_size > 0:
            return True
    return None if is_damaged else False
