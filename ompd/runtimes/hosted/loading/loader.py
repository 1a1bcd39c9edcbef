"""Load checked copies of libraries in a worker, in an order that leaves the system's loader nothing to search for.

This module runs in the worker's process. The interpreter there may not find the rest of ompd, so only Python's own
library is imported.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Sequence

_THERE = -1


def load(steps: Sequence[tuple[str, int, bool]]) -> ctypes.CDLL:
    """Load libraries, and return the last one.

    A library whose name the process has already loaded is not loaded again. Otherwise there might be, for example, two
    separate C libraries. The other libraries are loaded through their descriptors, with a path that a debugger of this
    process can also open.

    :param steps: for each library its name, its descriptor, and whether its symbols are global; the descriptor is -1
        for a library that must be loaded already
    :raises OSError: if a library cannot be loaded; the text is the loader's
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
    # ctypes never closes a library that it has loaded.
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
        # In glibc's message, replace the path of the descriptor by the library's name.
        raise OSError(str(error).replace(path, name)) from None
