"""The installed command. From its first line on Ctrl-C is quiet, so nothing is imported before but what is built in."""

from __future__ import annotations

import os
import sys

# Not `signal`, whose enumerations take as long to make as all of Python to start.
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGINT,
    default_int_handler,
    getsignal,
    pthread_kill,
    signal,
)
from _thread import get_ident, start_new_thread
from time import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
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

import atexit  # noqa: E402  built in, as the next one
import gc  # noqa: E402  built in, but looked for by name as others are

# How each stream is opened if it was closed: reading and writing fail as they should, messages are dropped.
_STREAMS = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def _repair_inheritance() -> None:
    # Our parent may have closed streams: Python has None for them, and the next open file gets their number. It may
    # also ignore SIGCHLD: the kernel then keeps no status of our children.
    for number, (name, mode, flags) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    signal(SIGCHLD, SIG_DFL)


def _pass_on(unraisable: UnraisableHookArgs) -> None:
    # Ctrl-C has come within a callback of a weak reference, or where an object goes, which no exception leaves. It
    # comes once more, a little later: what is raised in here is lost, too.
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        start_new_thread(_interrupt_soon, (get_ident(),))
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon(thread: int) -> None:
    sleep(0.01)
    pthread_kill(thread, SIGINT)


def _end_now(code: object) -> None:
    # Takes no leave of each object one by one, which takes as long as a tenth of an answer. Where something is still to
    # be said, or cannot be written, Python ends as ever.
    if code is not None and not isinstance(code, int):
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    # Temporary folders go.
    atexit._run_exitfuncs()
    os._exit((code or 0) & 0xFF)


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    # One answer makes many records, its modules many classes, and neither cycles worth finding before the process ends.
    gc.disable()
    _repair_inheritance()
    from ompd.commands.main import main as run

    try:
        if _IS_OURS:
            sys.unraisablehook = _pass_on
            signal(SIGINT, default_int_handler)
        try:
            run()
        finally:
            # All is said and written, and Python, which takes some milliseconds to end, would complain.
            if _IS_OURS:
                signal(SIGINT, SIG_IGN)
    except SystemExit as ended:
        _end_now(ended.code)
        raise
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
