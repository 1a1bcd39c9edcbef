"""The installed command. It begins before anything slow is imported, so that Ctrl-C is quiet from then on."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    # What is being imported may turn an exception into another one, or ignore it (the making of classes, callbacks of
    # weak references), and there is nothing to clean up yet.
    usual = (
        signal.signal(signal.SIGINT, _end) if signal.getsignal(signal.SIGINT) is signal.default_int_handler else None
    )
    from ompd.commands.main import main as run  # noqa: PLC0415

    try:
        if usual is not None:
            signal.signal(signal.SIGINT, usual)
        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(EXIT_INTERRUPTED)
