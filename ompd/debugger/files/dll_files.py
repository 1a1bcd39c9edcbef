"""Checks the files of debugger libraries that a runtime names, by their ELF headers. No library is loaded here."""

from __future__ import annotations

import os

from ompd.binary.elf.elf import Header, parse_header
from ompd.errors import BadFile, MalformedFile
from ompd.isa.processors import ARCHITECTURES
from ompd.safety.libraries import MAX_LIBRARY, NO_FILE, open_trusted
from ompd.safety.reading import read_head

_MAX_HEADER = 64
_OWN = "/proc/self/exe"  # in a debugger `sys.executable` may be any program


def unsuitable(path: str) -> str | None:
    """Return why ``--ompd-library`` would refuse the library at *path*, None if it would load it.

    Its owner, folders and ELF header are checked, but not its functions and dependencies.
    """
    try:
        header = _header(path)
        os.close(open_trusted(path, most=MAX_LIBRARY)[0])
    except BadFile as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return NO_FILE
        return f"it {error.fault}" if error.fault.startswith("is ") else f"it cannot be read: {error.fault}"
    except MalformedFile as error:
        return str(error)
    our_header = _header(_OWN)
    if header.ident_class != our_header.ident_class:
        return f"a library of {header.ident_class} bits, and this program has {our_header.ident_class}"
    if (header.e_machine, header.byte_order) != (our_header.e_machine, our_header.byte_order):
        architecture = ARCHITECTURES.get(header.e_machine)
        return f"a library for {architecture.name if architecture is not None else f'processor {header.e_machine}'}"
    return None


def _header(path: str) -> Header:
    # The path may come from the target, and may be that of a device. read_head() refuses all but regular files without
    # opening them.
    return parse_header(read_head(path, _MAX_HEADER), path)
