"""Loads checked copies of libraries in a worker, in their order, so that the system's loader searches for nothing.

It runs in the worker's process, whose interpreter may not find the rest of ompd, so it imports only Python's library.
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

    A library that the process already has by name is not loaded again, because a second C library would be another one.
    The others are loaded by their descriptors, by a path that a debugger of this process can open, too.

    :param steps: name, descriptor, and whether its symbols are global; -1 for a library that must be there already
    :raises OSError: if one cannot be loaded, with the loader's text
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
        # Replace glibc's path, which is the path of a descriptor.
        raise OSError(str(error).replace(path, name)) from None
