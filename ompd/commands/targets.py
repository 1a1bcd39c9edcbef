"""What a user may name as a target: a core file, or a process by its number."""

from __future__ import annotations

import os
import re

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
