"""The programs in C that host libraries of 32 bits for a debugger of 64."""

from __future__ import annotations

from pathlib import Path

from ompd.errors import Unsupported
from ompd.runtimes.hosted.loading.libraries import Opened

FOLDER = Path(__file__).parent
"""Where they are looked for, and nowhere else."""


def program_for(opened: Opened, name: str) -> Path | None:
    """Return the program that hosts a library, None for one that the worker in Python can load.

    :param name: of the program for one of 32 bits
    :raises Unsupported: if that is not here
    """
    if opened.worker == "python":
        return None
    program = FOLDER / name
    if not program.is_file():
        raise Unsupported(
            f"{opened.name} is a library of 32 bits, and {name} is not in {FOLDER}",
            hint=f"`make -C runtime_stub HOST32_CFLAGS=-m32` builds {name}, where the 32-bit C library is installed",
        )
    return program
