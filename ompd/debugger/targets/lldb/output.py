"""The standard error of a program that was started under LLDB.

It gets a pipe of its own, because LLDB has one terminal for both outputs. The line that the runtime writes because of
ompd's settings is dropped.
"""

from __future__ import annotations

import os
import sys
import threading

NOTE = b"OMP_OMPD active\n"
"""LLVM's runtime writes this if OMP_DEBUG=enabled is set."""

_PIECE = 1 << 14
_END_SECONDS = 2.0


class ErrorOutput:
    """A pipe from a program's standard error to ours, which is copied while the program runs.

    :param without_note: whether to drop :data:`NOTE`
    """

    def __init__(self, *, without_note: bool) -> None:
        self._reader, self._writer = os.pipe()
        self._without_note = without_note
        self._thread = threading.Thread(target=self._copy, daemon=True)

    @property
    def path(self) -> str:
        """The path that the program opens."""
        return f"/proc/{os.getpid()}/fd/{self._writer}"

    def start(self) -> None:
        """Begin to copy, after the program has opened the pipe."""
        os.close(self._writer)
        self._writer = -1
        self._thread.start()

    def close(self) -> None:
        """Copy the rest, without waiting for children of the program that still run."""
        if self._writer >= 0:  # nothing was started
            os.close(self._writer)
            os.close(self._reader)
        else:
            self._thread.join(_END_SECONDS)

    def _copy(self) -> None:
        waiting, begins_line = b"", True
        while piece := os.read(self._reader, _PIECE):
            waiting += piece
            shown, waiting, begins_line = self._split(waiting, begins_line)
            _show(shown)
        _show(waiting)
        os.close(self._reader)

    def _split(self, text: bytes, begins_line: bool) -> tuple[bytes, bytes, bool]:
        # Return the text to show, the text that may be the beginning of the note, and whether a line begins behind it.
        if not self._without_note:
            return text, b"", True
        shown = b""
        while text:
            if begins_line and text.startswith(NOTE):
                text = text[len(NOTE) :]
                continue
            if begins_line and NOTE.startswith(text):
                break
            line, newline, text = text.partition(b"\n")
            shown += line + newline
            begins_line = bool(newline)
        return shown, text, begins_line


def _show(text: bytes) -> None:
    if text:
        sys.stderr.write(text.decode("utf-8", "replace"))
        sys.stderr.flush()
