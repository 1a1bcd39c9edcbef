"""Names of files as words of a command that a user may copy."""

from __future__ import annotations

from shlex import quote


def quote_file(name: str) -> str:
    """Return the name of a file as one word for a shell, which no command takes for an option.

    >>> quote_file("-v")
    './-v'
    """
    return quote(f"./{name}" if name.startswith("-") else name)
