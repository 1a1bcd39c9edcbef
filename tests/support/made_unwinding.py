"""Entries of unwind data."""

from __future__ import annotations

import struct


def uleb(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes((value & 0x7F | 0x80,)), value >> 7
    return out + bytes((value,))


def entry(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def cie(augmentation: bytes = b"zR", data: bytes = b"\0", instructions: bytes = b"\x0c\x07\x08\x90\x01") -> bytes:
    head = bytes(4) + b"\x01" + augmentation + b"\0" + b"\x01\x78\x10"  # code 1, data -8, return address 16
    return entry(head + (uleb(len(data)) + data if augmentation.startswith(b"z") else b"") + instructions)
