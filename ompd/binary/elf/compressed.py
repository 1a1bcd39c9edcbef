"""Compressed sections (gABI, "Section Compression"): zlib, zstd, and the older ``.zdebug_*`` without a header."""

from __future__ import annotations

import struct
import zlib

from ompd.errors import MalformedFile
from ompd.safety import limits

ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2
_OLD_MAGIC = b"ZLIB"
# Deflate codes at most 258 bytes in two bits (RFC 1951), so a larger ratio is false.
MAX_DEFLATE_RATIO = 1032
# zstd codes at most 128 KB, a block of one repeated byte, in four bytes (RFC 8878, 3.1.1.2).
MAX_ZSTD_RATIO = 1 << 15


def inflate_section(raw: bytes, header: struct.Struct | None, most: int) -> bytes:
    """Return the inflated bytes of the compressed section *raw*.

    :param header: the layout of ``ElfN_Chdr``; None for ``.zdebug_*``, which begins with "ZLIB" and the
        size, big-endian
    :param most: the largest size allowed, in bytes
    :raises MalformedFile: if the section is damaged, or claims a larger size
    """
    header_size = header.size if header is not None else len(_OLD_MAGIC) + 8
    if len(raw) < header_size:
        raise MalformedFile("has no header")
    if header is not None:
        ch_type, ch_size, _align = header.unpack_from(raw)
    else:
        ch_type = ELFCOMPRESS_ZLIB if raw.startswith(_OLD_MAGIC) else 0
        ch_size = int.from_bytes(raw[len(_OLD_MAGIC) : header_size], "big")
    if ch_type not in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD):
        raise MalformedFile(f"uses unknown method {ch_type}")
    ratio = MAX_DEFLATE_RATIO if ch_type == ELFCOMPRESS_ZLIB else MAX_ZSTD_RATIO
    if ch_size > min(len(raw) * ratio, limits.inflated(len(raw)), most):
        raise MalformedFile(f"claims {ch_size} bytes")
    try:
        if ch_type == ELFCOMPRESS_ZLIB:
            inflated = zlib.decompressobj().decompress(memoryview(raw)[header_size:], ch_size + 1)
        else:
            from ompd.binary.elf.zstd import inflate as inflate_zstd

            inflated = inflate_zstd(raw[header_size:], ch_size + 1)
    except ImportError as error:
        raise MalformedFile("needs the Python package backports.zstd") from error
    except (zlib.error, MalformedFile) as error:
        raise MalformedFile(f"is damaged: {error}") from error
    if len(inflated) != ch_size:
        raise MalformedFile(f"does not hold {ch_size} bytes")
    return inflated
