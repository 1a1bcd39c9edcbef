"""Frames of zstd, by the library that the product takes: Python's own from 3.14 on."""

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
    """Return a frame that says how many bytes it holds."""
    return zstd.compress(data, options=dict(options or {}))


def zstd_stream(*parts: bytes, options: Mapping[int, int] | None = None) -> bytes:
    """Return a frame that does not say how many bytes it holds, written in parts."""
    made = zstd.ZstdCompressor(options=dict(options or {}))
    return b"".join([*map(made.compress, parts), made.flush()])
