"""Libraries for debuggers that a runtime names: what their files are, by their first bytes. None is loaded here."""

from __future__ import annotations

import sys
from pathlib import Path

from ompd.debugger.architecture import ARCHITECTURES
from ompd.debugger.formats.elf import Header, parse_header
from ompd.errors import MalformedFile

_MAX_HEADER = 64


def unsuitable(path: str) -> str | None:
    """Return why the library in a file cannot be loaded by the program that this is, None if it can.

    :param path: where its file is here
    """
    try:
        header = _header(path)
    except FileNotFoundError:
        return "there is no such file here"
    except (OSError, ValueError) as error:
        return f"it cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    except MalformedFile as error:
        return str(error)
    own = _header(sys.executable)
    if header.ident_class != own.ident_class:
        return f"a library of {header.ident_class} bits, and this program has {own.ident_class}"
    if (header.e_machine, header.byte_order) != (own.e_machine, own.byte_order):
        known = ARCHITECTURES.get(header.e_machine)
        return f"a library for {known.name if known is not None else f'processor {header.e_machine}'}"
    return None


def _header(path: str) -> Header:
    with Path(path).open("rb") as file:
        return parse_header(file.read(_MAX_HEADER), path)
