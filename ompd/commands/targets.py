"""What a user may call a target: a core file, or a process by its number."""

from __future__ import annotations

import os
import re
from typing import Any

from ompd.debugger.files.opening import MAX_SIZE
from ompd.debugger.files.progress import Progress
from ompd.session.session import Session

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


def _number(digits: str) -> int:
    # No process has a number of more digits than these, and very many of them are refused by Python.
    return int(digits.lstrip("0")[:20] or "0")


def open_target(
    target: str,
    *,
    nonblocking: bool = False,
    max_stop: float | None = None,
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
    **options: Any,
) -> Session:
    """Return a session on what the user called *target*."""
    process_id = process_id_of(target)
    if process_id is not None:
        return Session.attach(process_id, nonblocking=nonblocking, max_stop=max_stop, progress=progress, **options)
    return Session.open_core(target, max_size=max_size, progress=progress, **options)
