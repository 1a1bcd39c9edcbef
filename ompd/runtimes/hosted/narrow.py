"""The C program that hosts 32-bit libraries for a 64-bit debugger."""

from __future__ import annotations

from pathlib import Path

from ompd.errors import Unsupported
from ompd.runtimes.hosted.loading.libraries import Opened

PROGRAM = Path(__file__).with_name("host32")
"""The program's file, if it has been built."""


def program_for(opened: Opened) -> Path | None:
    """Return the program that hosts a library, None for a library that the Python worker can load.

    :raises Unsupported: if the library has 32 bits, and the program has not been built
    """
    if opened.worker == "python":
        return None
    if not PROGRAM.is_file():
        raise Unsupported(
            f"{opened.name} is a library of 32 bits, and the program that hosts such libraries is not there: {PROGRAM}",
            hint="`make host32` in ompd's sources builds it, where gcc has -m32 and the 32-bit C library is installed",
        )
    return PROGRAM
