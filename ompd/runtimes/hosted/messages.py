"""The host's side of messages: calls are packed, results and callbacks are read."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as struct_error
from typing import TYPE_CHECKING, NamedTuple

from ompd.runtimes.hosted.protocol import CALL, CALLBACK_HEAD, COUNT, RESULT, RESULTS_HEAD, ROW

if TYPE_CHECKING:
    from ompd.runtimes.hosted.api import Ref

MAX_ROWS = 1 << 17
"""Limit for all results of an exchange."""
_MAX_LINE = 1 << 12


class Malformed(Exception):
    """A message does not follow the protocol."""


class Call(NamedTuple):
    """One call: the number of the function, its arguments, and the number for the handle that the call makes."""

    function: int
    arguments: Sequence[Ref | int | bytes]
    makes: int = 0


class Row(NamedTuple):
    """A row of a result, see :data:`~ompd.runtimes.hosted.protocol.ROW`."""

    first: int
    second: int
    raw: bytes

    @property
    def text(self) -> str:
        """The row's bytes as text."""
        return self.raw.decode("utf-8", "replace")


class Reply(NamedTuple):
    """The result of a call: the library's return code, the worker's outcome, the number of functions called so far, the
    words, and the rows. If there are rows, the first word has no meaning.
    """

    code: int
    outcome: int
    begun: int
    words: Sequence[int]
    rows: Sequence[Row]


class Callback(NamedTuple):
    """A callback of the library, see :data:`~ompd.runtimes.hosted.protocol.CALLBACK_HEAD`."""

    which: int
    context: int
    thread: int
    words: tuple[int, int, int]
    raw: bytes


def packed_calls(calls: Sequence[Call]) -> list[bytes]:
    """Return the body of a batch, in parts."""
    parts = [COUNT.pack(len(calls))]
    blob = bytearray()
    for function, arguments, makes in calls:
        words = []
        for argument in arguments:
            if isinstance(argument, int):
                words.append(argument & 0xFFFFFFFFFFFFFFFF)
            elif isinstance(argument, bytes):
                words.append(len(blob) << 32 | len(argument))
                blob += argument
            else:
                words.append(argument.number)
        parts.append(CALL.pack(function, len(words), makes, *words, *(0,) * (5 - len(words))))
    return [*parts, bytes(blob)]


def read_replies(body: bytes, expected: int) -> tuple[list[Reply], int]:
    """Return the replies to calls, and the number of blocks that the library has allocated and not freed.

    :param expected: the number of calls
    :raises Malformed: if the message does not follow the protocol
    """
    try:
        count, allocated = RESULTS_HEAD.unpack_from(body)
    except struct_error as error:
        raise Malformed("no head") from error
    end = RESULTS_HEAD.size + RESULT.size * expected
    if count != expected or len(body) < end:
        raise Malformed(f"{count} results for {expected} calls, in {len(body)} bytes")
    replies = []
    row_total = 0
    next_row = end  # two results cannot share rows
    for code, outcome, row_count, begun, *words in RESULT.iter_unpack(body[RESULTS_HEAD.size : end]):
        rows: Sequence[Row] = ()
        if row_count:
            first_row = end + (words[0] >> 32)
            row_total += row_count
            if first_row < next_row or row_total > MAX_ROWS:
                raise Malformed("rows that belong to another result, or too many")
            rows, next_row = _read_rows(body, first_row, row_count)
        replies.append(Reply(code, outcome, begun, words, rows))
    return replies, allocated


def _read_rows(body: bytes, offset: int, count: int) -> tuple[list[Row], int]:
    # Rows, and the offset of their end.
    rows = []
    try:
        for _ in range(count):
            first, second, size = ROW.unpack_from(body, offset)
            offset += ROW.size
            raw = body[offset : offset + size]
            if len(raw) != size:
                raise Malformed("a row ends early")
            offset += size
            rows.append(Row(first, second, raw))
    except struct_error as error:
        raise Malformed(f"rows: {error}") from error
    return rows, offset


def read_callback(body: bytes) -> Callback:
    """Return a callback.

    :raises Malformed: if the message does not follow the protocol
    """
    try:
        which, context, thread, *words = CALLBACK_HEAD.unpack_from(body)
    except struct_error as error:
        raise Malformed("no head") from error
    return Callback(which, context, thread, (words[0], words[1], words[2]), body[CALLBACK_HEAD.size :])


def clean(text: str | bytes) -> str:
    """Return a library's text, cut off if it is long, and without control characters for a terminal."""
    text = text[:_MAX_LINE]
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)
