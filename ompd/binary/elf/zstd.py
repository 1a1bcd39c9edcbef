"""Sections that are compressed by zstd (ELFCOMPRESS_ZSTD)."""

from __future__ import annotations

import zstandard

from ompd.errors import MalformedFile

_PIECE = 1 << 20
_MAX_WINDOW = 128 << 20


def inflate(data: bytes, limit: int) -> bytes:
    """Return what one frame of zstd data holds, at most *limit* bytes of it.

    :raises MalformedFile: if it is damaged
    """
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(data)
    pieces, size = [], 0
    try:
        # Piece by piece: what a header claims is not worth as much memory.
        while size < limit and (piece := reader.read(min(_PIECE, limit - size))):
            pieces.append(piece)
            size += len(piece)
    except zstandard.ZstdError as error:
        raise MalformedFile(str(error)) from error
    return b"".join(pieces)
