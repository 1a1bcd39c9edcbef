"""What a user may name as a target: a core file, or a process by its number."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ompd.debugger.files.finder import FileOptions
from ompd.debugger.files.opening import MAX_SIZE
from ompd.session import Session

# A word that can be nothing but a core file, whether or not it is there: no command has such a name.
_LIKE_A_FILE = re.compile(r"core([._-].*)?|.*[/.:].*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_FOLDER = re.compile(r"/proc/([0-9]+)/?", re.ASCII)


def process_id_of(target: str) -> int | None:
    """Return the number of the process that *target* names, None if it names a file.

    Digits are a process, unless there is a file of that name; ``/proc/1234`` is one in any case.
    """
    folder = _FOLDER.fullmatch(target)
    if folder is not None:
        return _number(folder[1])
    return _number(target) if _NUMBER.fullmatch(target) and not os.path.lexists(target) else None


def is_target(word: str) -> bool:
    """Return whether *word*, which is no command, names a core file or a process rather than a mistyped command."""
    return process_id_of(word) is not None or os.path.lexists(word) or _LIKE_A_FILE.fullmatch(word) is not None


def _number(digits: str) -> int:
    # No process has a number of more digits than these, and very many of them are refused by Python.
    return int(digits.lstrip("0")[:20] or "0")


def open_target(
    target: str,
    files: FileOptions,
    *,
    nonblocking: bool = False,
    max_stop: float | None = None,
    max_size: int = MAX_SIZE,
    plugins: Sequence[str] = (),
    ompd_library: str | None = None,
) -> Session:
    """Return a session on the core file or process that the user named *target*."""
    process_id = process_id_of(target)
    if process_id is not None:
        return Session.attach(
            process_id,
            files,
            nonblocking=nonblocking,
            max_stop=max_stop,
            plugins=plugins,
            ompd_library=ompd_library,
        )
    return Session.open_core(target, files, max_size=max_size, plugins=plugins, ompd_library=ompd_library)
