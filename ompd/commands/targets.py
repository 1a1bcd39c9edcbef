"""Recognises targets: core files, and processes by their numbers."""

from __future__ import annotations

import os
import re

# Matches words that name a core file, existing or not: no command has such a name.
_LIKE_A_FILE = re.compile(r"core([._-].*)?|.*[/.:].*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_FOLDER = re.compile(r"/proc/([0-9]+)/?", re.ASCII)


def process_id_of(target: str) -> int | None:
    """Return the number of the process that *target* names, None if it names a file.

    Digits are a process, unless a file has that name; ``/proc/1234`` is always a process.
    """
    folder = _FOLDER.fullmatch(target)
    if folder is not None:
        return _number(folder[1])
    return _number(target) if _NUMBER.fullmatch(target) and not os.path.lexists(target) else None


def is_target(word: str) -> bool:
    """Return whether *word* looks like a core file or a process, and not like a mistyped command."""
    return process_id_of(word) is not None or os.path.lexists(word) or _LIKE_A_FILE.fullmatch(word) is not None


def _number(digits: str) -> int:
    # No process number has more digits, and Python refuses to convert very long ones.
    return int(digits.lstrip("0")[:20] or "0")
