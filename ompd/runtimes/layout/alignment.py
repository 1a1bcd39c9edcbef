"""Alignment of members in structures."""

from __future__ import annotations

# The psABIs align an integer to its size, except 8 bytes on i386. Also, 8 bytes may be two integers of 4 bytes.
_ALIGNMENTS = {2: 2, 4: 4, 8: 4}


def is_aligned(offset: int, size: int) -> bool:
    """Return whether a member of *size* bytes can be at *offset*."""
    return offset % _ALIGNMENTS.get(size, 1) == 0
