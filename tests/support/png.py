"""Read PNG pictures as browsers write them, without another package."""

from __future__ import annotations

import zlib
from pathlib import Path


def pixels(file: Path) -> tuple[int, int, list[bytes]]:
    """Return the width, height and rows of a PNG file, with three bytes per pixel."""
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, kind = 8, b"", 0, 0, 0
    while at < len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        inside = data[at + 8 : at + 8 + size]
        if name == b"IHDR":
            width, height, kind = int.from_bytes(inside[:4], "big"), int.from_bytes(inside[4:8], "big"), inside[9]
        packed += inside if name == b"IDAT" else b""
        at += size + 12
    depth = {2: 3, 6: 4}[kind]
    raw, rows, before = zlib.decompress(packed), [], bytes(width * depth)
    for number in range(height):
        start = number * (width * depth + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + width * depth], before, depth)
        rows.append(bytes(value for index, value in enumerate(before) if index % depth < 3))
    return width, height, rows


def _unfiltered(method: int, line: bytes, above: bytes, depth: int) -> bytes:
    # The filters of the standard: none, sub, up, average, Paeth.
    found = bytearray()
    for index, value in enumerate(line):
        left = found[index - depth] if index >= depth else 0
        corner = above[index - depth] if index >= depth else 0
        up = above[index]
        if method == 4:
            guess = left + up - corner
            added = min((left, up, corner), key=lambda other: abs(guess - other))
        else:
            added = (0, left, up, (left + up) // 2)[method]
        found.append((value + added) & 255)
    return bytes(found)
