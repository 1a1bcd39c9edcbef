"""The worker of any interface: it confines itself, loads the library, and serves its host.

``main(["INTERFACE", "SOCKET", "PAGE", "LIFELINE", "MEMORY", "NAME", "DESCRIPTOR", "GLOBAL", ...])``: one of the
protocol's interfaces, descriptor numbers, the memory limit in bytes, and the files to load.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os

from ompd.runtimes.hosted.loading.loader import load
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED, confine, protects
from ompd.runtimes.hosted.protocol import DMPL, LOAD, OWN_FAULT, PAPER, TRIAL, UNLOADED
from ompd.runtimes.hosted.worker.channel import Channel, refused

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ompd.runtimes.hosted.worker.channel import Library


_SIGKILL = 9
_PR_SET_PDEATHSIG = 1
_SETTING_SIGNAL = 10  # F_SETSIG, which has no name in fcntl


def main(arguments: Sequence[str]) -> None:
    """Serve the host. Never returns."""
    try:
        gc.disable()  # not needed: objects here live as long as their address space, or only for a moment
        _serve(*arguments)
    except BaseException as error:  # noqa: BLE001  the worker's own messages go to the library's output
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(OWN_FAULT)
    os._exit(0)


def _serve(interface: str, descriptor: str, page: str, lifeline: str, memory: str, *steps: str) -> None:
    _end_with(int(lifeline))
    channel = Channel(int(descriptor), int(page))
    # Only one interface is imported, and no module or file is opened once this process is confined.
    library = _library(interface, channel)
    if not protects(confine(int(memory))):
        channel.warn(UNCONFINED.encode())
    files = zip(steps[::3], steps[1::3], steps[2::3], strict=True)
    channel.begin(LOAD)
    try:
        loaded = load([(name, int(file), is_global == "1") for name, file, is_global in files])
    except (OSError, AttributeError) as error:
        channel.report_start(refused(UNLOADED, 0, str(error)))
        return
    channel.end()
    result = library.start(loaded)
    channel.report_start(result)
    if not result.outcome and not result.code:
        channel.serve(library)


def _library(interface: str, channel: Channel) -> Library:
    if interface in (DMPL, PAPER):
        from ompd.runtimes.hosted.dmpl.worker import DmplLibrary

        return DmplLibrary(channel, extends=interface == DMPL)
    if interface == TRIAL:
        from ompd.runtimes.hosted.trial.worker import TrialLibrary

        return TrialLibrary(channel)
    from ompd.runtimes.hosted.worker.calls import OmpdLibrary

    return OmpdLibrary(channel)


def _end_with(lifeline: int) -> None:
    # Make the kernel end this process, whatever its state, when the host closes the pipe's only writing end.
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_NONBLOCK
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, _SETTING_SIGNAL, _SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    except OSError:
        # Some imitations of the Linux kernel have only prctl(). With it, this process ends when the host's thread that
        # started it ends.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags)
    try:
        if os.read(lifeline, 1) == b"":  # the pipe is already closed
            os._exit(0)
    except BlockingIOError:
        pass
