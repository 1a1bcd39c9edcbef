"""zstd: of the standard library from Python 3.14 on, of the package that has the same for older ones before."""

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
    """Return a decompressor for one frame, like those of :mod:`lzma`; a frame that needs more memory is an error."""
    made: ZstdDecompressor = ZstdDecompressor(options={DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})
    return made


def inflate(data: bytes, limit: int) -> bytes:
    """Return what one frame of zstd data holds, at most *limit* bytes of it.

    :raises MalformedFile: if it is damaged
    """
    try:
        return decompressor().decompress(data, limit)
    except ZstdError as error:
        raise MalformedFile(str(error)) from error
