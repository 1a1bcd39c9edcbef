"""Loads checked copies of libraries in a worker, in their order, so that the system's loader searches for nothing.

It runs in the worker's process, whose interpreter may know nothing else of ompd: it imports Python's own library alone.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Sequence

_THERE = -1


def load(steps: Sequence[tuple[str, int, bool]]) -> ctypes.CDLL:
    """Load libraries, and return the last one.

    What the process has already under a name stays: a second C library would be another one. The others are loaded by
    their descriptors, under a path that a debugger of this process can open, too.

    :param steps: name, descriptor, and whether its symbols are for all; -1 for what must be there already
    :raises OSError: if one cannot be loaded; the text is the loader's
    """
    process = os.getpid()
    for name, descriptor, is_global in steps[:-1]:
        mode = os.RTLD_NOW | (os.RTLD_GLOBAL if is_global else os.RTLD_LOCAL)
        if _is_there(name, mode):
            continue
        if descriptor == _THERE:
            raise OSError(f"the library needs {name}, which this Python does not have")
        _opened(f"/proc/{process}/fd/{descriptor}", mode, name)
    name, descriptor, _ = steps[-1]
    # ctypes never closes what it has loaded.
    return _opened(f"/proc/{process}/fd/{descriptor}", os.RTLD_NOW | os.RTLD_LOCAL, name)


def _is_there(name: str, mode: int) -> bool:
    try:
        ctypes.CDLL(name, mode | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _opened(path: str, mode: int, name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path, mode)
    except OSError as error:
        # glibc calls it by its path, which says nothing.
        raise OSError(str(error).replace(path, name)) from None
