"""The output file of an HTML page, checked before the work for the page begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ompd.errors import BadFile
from ompd.safety.writing import Destination

STDOUT = "-"


class Page:
    """A file that a page will be written to."""

    def __init__(self, place: Destination) -> None:
        self._place = place
        self.size = ""

    def write(self, text: str) -> None:
        """Write the page atomically: other readers see the old file or the whole page.

        :raises BadFile: if the file cannot be written
        """
        data = text.encode("utf-8", "replace")
        with self._place.written() as stream:
            stream.write(data)
        self.size = f"{len(data) / 1e6:.1f} MB" if len(data) >= 1_000_000 else f"{max(1, len(data) // 1000)} KB"


@contextmanager
def page_file(output: str | None, inputs: Iterable[str]) -> Iterator[Page | None]:
    """Yield the page's file, None if *output* is None or standard output.

    :param inputs: the page's input files, which it must not replace
    :raises BadFile: if the file cannot be created or is an input
    """
    if output is None:
        yield None
        return
    if output == STDOUT:
        yield None
        return
    for path in inputs:
        if _is_same(path, output):
            raise BadFile(output, "is what the page would be about", hint="name another file for the page")
    with Destination(output) as place:
        yield Page(place)


def _is_same(first: str, second: str) -> bool:
    try:
        return Path(first).samefile(second)
    except (OSError, ValueError):
        return False
