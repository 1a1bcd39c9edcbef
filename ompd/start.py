"""The installed command. Ctrl-C never prints a traceback: only built-in modules are imported before its handler is
set.
"""

from __future__ import annotations

import os
import sys

# The module `signal` is not used: creating its enumerations takes as long as starting Python.
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


# In class creation and in callbacks of weak references, an exception during an import may be replaced or ignored. So
# Ctrl-C ends the process at once; there is nothing to clean up yet. Another handler of SIGINT is kept, SIG_IGN too.
_IS_OURS = getsignal(SIGINT) is default_int_handler
if _IS_OURS:
    signal(SIGINT, _end)

import atexit  # noqa: E402  built in, like gc
import gc  # noqa: E402  built in, but the import system searches for it by name

# How a closed stream is opened. Its reads and writes fail, as they do for a closed stream, and messages are dropped.
_STREAMS = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def _repair_inheritance() -> None:
    # The parent process may have closed streams. Python has None for a closed stream, and the next opened file gets the
    # stream's number. The parent may also ignore SIGCHLD. Then the kernel keeps no exit status of this process's
    # children.
    for number, (name, mode, flags) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    signal(SIGCHLD, SIG_DFL)


def _pass_on(unraisable: UnraisableHookArgs) -> None:
    # Ctrl-C came in a callback of a weak reference or in a destructor, which no exception can leave. Send SIGINT again
    # a little later, because an exception raised in this hook would be lost, too.
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        start_new_thread(_interrupt_soon, (get_ident(),))
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon(thread: int) -> None:
    sleep(0.01)
    pthread_kill(thread, SIGINT)


def _end_now(code: object) -> None:
    # Skip the destruction of all objects, which takes a tenth of the time of an answer. If there is a message to print,
    # or a stream cannot be flushed, Python ends in the usual way.
    if code is not None and not isinstance(code, int):
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    # Exit functions remove temporary folders.
    atexit._run_exitfuncs()
    os._exit((code or 0) & 0xFF)


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    # An answer makes many records and classes, but few reference cycles. So garbage collection is not worth its time.
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
            # Ignore Ctrl-C from here on. All output is written, and Ctrl-C would print a traceback in the milliseconds
            # that Python takes to end.
            if _IS_OURS:
                signal(SIGINT, SIG_IGN)
    except SystemExit as ended:
        _end_now(ended.code)
        raise
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
