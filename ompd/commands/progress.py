"""A progress line on a terminal's standard error, for commands that take longer than a second."""

from __future__ import annotations

import os
import sys
import time

_PATIENCE = 1.0
_INTERVAL = 0.1


def harmless(text: str) -> str:
    """Return *text* with control characters escaped, because text from a target is untrusted."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def width_of_errors() -> int:
    """Return the number of columns of the terminal on standard error, 80 if it is unknown.

    As for the answer itself, the variable ``COLUMNS`` overrules the terminal.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 6 and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class Progress:
    """Shows the latest line after the first second, and erases it at the end of its context."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._is_shown = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._is_shown = True
        sys.stderr.write("\r\x1b[K" + harmless(f"ompd: {text}")[: width_of_errors() - 1])
        sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
