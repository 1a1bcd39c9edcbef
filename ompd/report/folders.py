"""Removes folders from texts, because folders reveal more about a person than about a program."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The folders of an absolute path, but not the slash in 1/4.
_ABSOLUTE = re.compile(r"(?<![\w./-])/(?:[^\s/:,;'\"()\[\]]+/)+")


class Folders:
    """The folders to remove from texts.

    :param paths: known files; their folders are found even with blanks in their names
    """

    def __init__(self, paths: Iterable[str | None]) -> None:
        folders = {path[: path.rindex("/") + 1] for path in paths if path is not None and path.rfind("/") > 0}
        # The alternatives of a pattern are tried in order: the longer of two folders must come first.
        longest = sorted(folders, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest))) if longest else None

    def without(self, text: str) -> str:
        """Return *text* with the folders of files removed."""
        shortened = self._known.sub("", text) if self._known is not None else text
        return _ABSOLUTE.sub("", shortened)
