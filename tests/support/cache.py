"""Folders under ``.cache/``, each made once and shared by test processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock *name*, which excludes all other processes that use this checkout."""
    locks = CACHE / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def key_of(*parts: object) -> str:
    """Return the SHA-256 of *parts*, which must be values that JSON can express."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def entry(room: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder ``.cache/ROOM/KEY``. If it is missing, *make* fills it; only a complete folder gets this name.

    A failure leaves ``KEY.part`` until the next attempt.
    """
    folder = CACHE / room / key
    if folder.is_dir():
        return folder
    with locked(f"{room}-{key}"):
        if not folder.is_dir():
            unfinished = folder.with_name(key + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder
