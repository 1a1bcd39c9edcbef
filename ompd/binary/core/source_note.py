"""The note of a snapshot with lines of source: their CRC-32 in 4 bytes (little-endian), then JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from ompd.binary.core.notes import MAX_SOURCE_NOTE
from ompd.errors import MalformedFile

LONGEST_LINE = 240
"""The most characters of a line of source that are kept or shown."""
_CRC = 4


class KeptFile(NamedTuple):
    """Some lines of a source file, by their numbers. ``note`` says why they may not be those that were compiled."""

    note: str | None
    lines: Mapping[int, str]


def format_source(files: Mapping[str, KeptFile]) -> bytes:
    """Return the note with the lines of *files*."""
    rows = {name: [file.note, sorted(file.lines.items())] for name, file in files.items()}
    raw = json.dumps(rows, separators=(",", ":")).encode()
    return zlib.crc32(raw).to_bytes(_CRC, "little") + raw


def parse_source(data: bytes) -> dict[str, KeptFile]:
    """Return the lines in a note, by the names of files.

    :raises MalformedFile: if the note is damaged
    """
    if len(data) > MAX_SOURCE_NOTE or zlib.crc32(data[_CRC:]) != int.from_bytes(data[:_CRC], "little"):
        raise MalformedFile("the snapshot's lines of source are damaged")
    try:
        rows = json.loads(data[_CRC:])
        return {name: _parse_file(*row) for name, row in rows.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedFile("the snapshot's lines of source are malformed") from error


def _parse_file(note: object, rows: object) -> KeptFile:
    lines = {}
    for number, text in rows if isinstance(rows, list) else ():
        if type(number) is not int or not isinstance(text, str):
            raise ValueError
        lines[number] = text[:LONGEST_LINE]
    return KeptFile(note if isinstance(note, str) else None, lines)
