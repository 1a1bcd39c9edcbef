"""Zstandard frames, made with the library that ompd uses: from Python 3.14 on, Python's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CompressionParameter = zstd.CompressionParameter
CHECKED = {CompressionParameter.checksum_flag: 1}


def zstd_frame(data: bytes, options: Mapping[int, int] | None = None) -> bytes:
    """Return a frame that records its content size."""
    return zstd.compress(data, options=dict(options or {}))


def zstd_stream(*parts: bytes, options: Mapping[int, int] | None = None) -> bytes:
    """Return a frame that was written in parts and does not record its content size."""
    made = zstd.ZstdCompressor(options=dict(options or {}))
    return b"".join([*map(made.compress, parts), made.flush()])
