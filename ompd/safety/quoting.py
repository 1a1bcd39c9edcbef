"""Quoting of file names in commands for users to copy."""

from __future__ import annotations

from shlex import quote


def quote_file(name: str) -> str:
    """Return a file name as one word for a shell, never mistaken for an option.

    >>> quote_file("-v")
    './-v'
    """
    return quote(f"./{name}" if name.startswith("-") else name)
