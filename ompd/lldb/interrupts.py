"""Ctrl-C while a command runs the process.

LLDB runs the process to its next stop in one call. Ctrl-C during the call reaches LLDB's handler, which marks the
command as interrupted but does not stop the process. Ctrl-C could then not stop a program that never stops by itself.
This module makes Ctrl-C stop the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ACTION_SIZE = 512  # more than the C library's struct sigaction
_END = b"\0"  # no signal has that number


class Interrupts:
    """Handles Ctrl-C. While LLDB runs the process (``runs``), Ctrl-C sets ``noted``. At other times it raises."""

    def __init__(self) -> None:
        self.runs = False
        self.noted = False

    def note(self, _number: int, _frame: object) -> None:
        """Note the interrupt. This is Python's handler of the signal.

        :raises KeyboardInterrupt: unless LLDB runs the process
        """
        if not self.runs:
            raise KeyboardInterrupt
        self.noted = True


@contextmanager
def stopping(process: Any) -> Iterator[Interrupts]:
    """Let Ctrl-C stop *process*, an ``SBProcess``, and end the command that runs it."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # an editor's console has no Ctrl-C
        return
    # Python can install a handler, but it cannot restore a handler that is not Python's.
    sigaction = ctypes.CDLL(None).sigaction
    lldbs_action = ctypes.create_string_buffer(_ACTION_SIZE)
    sigaction(signal.SIGINT, None, lldbs_action)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    # While LLDB waits for the process, Python cannot run the handler in this thread, but it writes the signal's number
    # to the pipe.
    helper = threading.Thread(target=_stop_at_signals, args=(read_end, process, interrupts), daemon=True)
    helper.start()
    try:
        pythons_handler = signal.signal(signal.SIGINT, interrupts.note)
        earlier_end = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        try:
            yield interrupts
        finally:
            signal.set_wakeup_fd(earlier_end)
            signal.signal(signal.SIGINT, pythons_handler if pythons_handler is not None else signal.SIG_DFL)
    finally:
        sigaction(signal.SIGINT, lldbs_action, None)
        os.write(write_end, _END)
        helper.join()
        os.close(read_end)
        os.close(write_end)


def _stop_at_signals(read_end: int, process: Any, interrupts: Interrupts) -> None:
    # Stop the process at each SIGINT whose number comes through the pipe, until the pipe ends.
    while True:
        number = os.read(read_end, 1)
        if number in (_END, b""):
            return
        if number == bytes([signal.SIGINT]) and interrupts.runs:
            process.SendAsyncInterrupt()
