"""The host's reader of rows in results."""

from __future__ import annotations

from struct import error
from typing import NamedTuple

from ompd.runtimes.hosted.protocol import ROW

MAX_ROWS = 1 << 17
"""Limit for all results of an exchange."""
_MAX_LINE = 1 << 12


class Malformed(Exception):
    """A message does not follow the protocol."""


class Row(NamedTuple):
    """A row of a result, see :data:`~ompd.runtimes.hosted.protocol.ROW`."""

    first: int
    second: int
    text: str


class RowReader:
    """Reads the rows of a message from start to end, so that two results cannot share rows.

    :param start: the offset in *body* at which the rows begin
    """

    def __init__(self, body: bytes, start: int) -> None:
        self._body, self._next, self._left = body, start, MAX_ROWS

    def read(self, offset: int, count: int) -> list[Row]:
        """Return *count* rows from *offset* on.

        :raises Malformed: if the rows are not there, or have already been read
        """
        self._left -= count
        if offset < self._next or self._left < 0:
            raise Malformed("rows that belong to another result, or too many")
        rows = []
        try:
            for _ in range(count):
                first, second, size = ROW.unpack_from(self._body, offset)
                offset += ROW.size
                raw = self._body[offset : offset + size]
                if len(raw) != size:
                    raise Malformed("a row ends early")
                offset += size
                rows.append(Row(first, second, raw.decode("utf-8", "replace")))
        except error as fault:
            raise Malformed(f"rows: {fault}") from fault
        self._next = offset
        return rows


def clean(text: str | bytes) -> str:
    """Return a library's text, cut off if it is long, and without control characters for a terminal."""
    text = text[:_MAX_LINE]
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)
