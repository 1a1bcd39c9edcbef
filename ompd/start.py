"""The installed command. From its first line on Ctrl-C is quiet, so nothing is imported before but what is built in."""

from __future__ import annotations

import os
import sys

# Not `signal`, whose enumerations take as long to make as all of Python to start.
from _signal import SIG_IGN, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

EXIT_INTERRUPTED = 130


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(EXIT_INTERRUPTED)


# What is being imported may turn an exception into another one, or ignore it (the making of classes, callbacks of weak
# references), and there is nothing to clean up yet. Where Ctrl-C is ignored, or somebody else's, it stays so.
_IS_OURS = getsignal(SIGINT) is default_int_handler
if _IS_OURS:
    signal(SIGINT, _end)


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    from ompd.commands.main import main as run  # noqa: PLC0415

    try:
        if _IS_OURS:
            signal(SIGINT, default_int_handler)
        try:
            run()
        finally:
            # All is said and written, and Python, which takes some milliseconds to end, would complain.
            if _IS_OURS:
                signal(SIGINT, SIG_IGN)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
