"""Paths for tools that split texts at spaces and know no quotes: the loader (LD_PRELOAD), and gdb 13 in some commands
for which later versions demand quotes.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path


def without_spaces(path: Path) -> Path:
    """Return *path*, or if it contains a space a symbolic link to it without one, which this process removes at its
    end.
    """
    if " " not in str(path):
        return path
    link = _folder() / hashlib.sha256(bytes(path)).hexdigest()[:16] / path.name.replace(" ", "_")
    if not link.is_symlink():
        link.parent.mkdir()
        link.symlink_to(path)
    return link


@lru_cache(maxsize=1)
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ompd-links-"))
    assert " " not in str(folder), f"the folder for temporary files has a space in its path: {folder}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
