"""zstd from the standard library (Python 3.14 and later) or its backport."""

from __future__ import annotations

import sys

from ompd.errors import MalformedFile

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

__all__ = ["ZstdError", "decompressor", "inflate"]

# 128 MB: the zstd command's own limit. `zstd -19` needs a sixteenth of it.
_MAX_WINDOW_LOG = 27


def decompressor() -> ZstdDecompressor:
    """Return a decompressor for one frame, with the interface of :mod:`lzma`'s decompressor and a bounded window."""
    frame_decompressor: ZstdDecompressor = ZstdDecompressor(
        options={DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
    )
    return frame_decompressor


def inflate(data: bytes, limit: int) -> bytes:
    """Return the decompressed bytes of one zstd frame, at most *limit*.

    :raises MalformedFile: if the frame is damaged
    """
    try:
        return decompressor().decompress(data, limit)
    except ZstdError as error:
        raise MalformedFile(str(error)) from error
