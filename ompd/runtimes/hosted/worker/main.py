"""What a worker does, whichever interface its library has: it confines itself, loads the library, and serves its host.

``main(["INTERFACE", "SOCKET", "PAGE", "LIFELINE", "MEMORY", "NAME", "DESCRIPTOR", "GLOBAL", ...])``: one of the
protocol's interfaces, numbers of descriptors, the bytes that the process may have, and what to load.
"""

from __future__ import annotations

import gc
import os

from ompd.runtimes.hosted.loading.loader import load
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED, confine, protects
from ompd.runtimes.hosted.protocol import DMPL, LOAD, OWN_FAULT, PAPER, TRIAL, UNLOADED
from ompd.runtimes.hosted.worker.channel import Channel
from ompd.runtimes.hosted.worker.lifeline import end_with

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Serve the host. Never returns."""
    try:
        gc.disable()  # what is made here lives as long as its space, or a moment
        _serve(*arguments)
    except BaseException as error:  # noqa: BLE001  its own words go where the library's output goes
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(OWN_FAULT)
    os._exit(0)


def _serve(interface: str, descriptor: str, page: str, lifeline: str, memory: str, *steps: str) -> None:
    end_with(int(lifeline))
    channel = Channel(int(descriptor), int(page))
    # Of the other interface nothing is imported; and nothing at all once this process is confined.
    if interface == DMPL:
        from ompd.runtimes.hosted.dmpl.worker import serve
    elif interface == PAPER:
        from ompd.runtimes.hosted.dmpl.worker import serve_paper as serve
    elif interface == TRIAL:
        from ompd.runtimes.hosted.trial.worker import serve
    else:
        from ompd.runtimes.hosted.worker.batches import serve
    run = serve(channel)
    if not protects(confine(int(memory))):
        channel.warn(UNCONFINED.encode())
    files = zip(steps[::3], steps[1::3], steps[2::3], strict=True)
    channel.begin(LOAD)
    try:
        loaded = load([(name, int(at), is_global == "1") for name, at, is_global in files])
    except (OSError, AttributeError) as error:
        channel.refuse(UNLOADED, 0, str(error))
        return
    channel.end()
    run(loaded)
