"""Names of files without their folders, which say more of a person than of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Where a path begins, and not the second number of 1/4.
_ABSOLUTE = re.compile(r"(?<![\w./-])/(?:[^\s/:,;'\"()\[\]]+/)+")


class Folders:
    """Folders of files that texts may name.

    :param paths: the files that are known, whose folders may have any characters
    """

    def __init__(self, paths: Iterable[str | None]) -> None:
        folders = {path[: path.rindex("/") + 1] for path in paths if path is not None and path.rfind("/") > 0}
        # Of two that begin alike the longer one first.
        longest = sorted(folders, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest))) if longest else None

    def without(self, text: str) -> str:
        """Return a text in which files have their names alone."""
        found = self._known.sub("", text) if self._known is not None else text
        return _ABSOLUTE.sub("", found)
