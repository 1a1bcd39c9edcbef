"""What the cache on disk keeps of a file."""

from __future__ import annotations

from pathlib import Path

from ompd.debugger.files.cache import DiskCache, FileCache
from ompd.debugger.files.finder import MappedFile, open_mapped


def settled(path: Path) -> MappedFile:
    """Map a file that was last written to long ago, as far as it says."""
    mapped = open_mapped(str(path))
    assert isinstance(mapped, MappedFile) and mapped.identity is not None
    mapped.identity = (*mapped.identity[:3], *(time_ns - 10**10 for time_ns in mapped.identity[3:]))
    return mapped


def kept_of(cache: DiskCache, path: Path) -> FileCache:
    kept = cache.of(settled(path))
    assert kept is not None
    return kept
