"""How a worker ends with its host: by a pipe of which nobody but the host has the writing end."""

from __future__ import annotations

import ctypes
import fcntl
import os

_SIGKILL = 9
_PR_SET_PDEATHSIG = 1
_SETTING_SIGNAL = 10  # F_SETSIG, which has no name in fcntl


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the host's end of the pipe is closed, whatever runs here meanwhile."""
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_NONBLOCK
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, _SETTING_SIGNAL, _SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    except OSError:
        # Some kernels that imitate Linux know only this, which ends it with the thread that has started it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags)
    try:
        if os.read(lifeline, 1) == b"":  # it was closed before
            os._exit(0)
    except BlockingIOError:
        pass
