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
    found = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield found  # an editor's console has no Ctrl-C
        return
    # Python can install a handler, but it cannot restore a handler that is not Python's.
    action = ctypes.CDLL(None).sigaction
    before = ctypes.create_string_buffer(_ACTION_SIZE)
    action(signal.SIGINT, None, before)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # While LLDB waits for the process, Python cannot run the handler in this thread, but it writes the signal's number
    # to the pipe.
    helper = threading.Thread(target=_stop_when_told, args=(reading, process, found), daemon=True)
    helper.start()
    try:
        known = signal.signal(signal.SIGINT, found.note)
        pipe_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield found
        finally:
            signal.set_wakeup_fd(pipe_before)
            signal.signal(signal.SIGINT, known if known is not None else signal.SIG_DFL)
    finally:
        action(signal.SIGINT, before, None)
        os.write(writing, _END)
        helper.join()
        os.close(reading)
        os.close(writing)


def _stop_when_told(reading: int, process: Any, found: Interrupts) -> None:
    while True:
        told = os.read(reading, 1)
        if told in (_END, b""):
            return
        if told == bytes([signal.SIGINT]) and found.runs:
            process.SendAsyncInterrupt()
