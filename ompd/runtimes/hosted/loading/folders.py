"""Where this machine's libraries are: the folders that its loader searches, without any that the environment names.

glibc: ``elf/cache.c`` and ``sysdeps/generic/dl-cache.h`` (``/etc/ld.so.cache``), ld.so(8).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from ompd.errors import BadFile
from ompd.safety.libraries import open_trusted

CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = struct.Struct("=20sII"), struct.Struct("=iIIIQ")
_HEADER_SIZE = 48
_MAX_CACHE = 16 << 20
_MAX_PATH, _MAX_SAME = 4096, 64
# After the cache, as ld.so(8) has it; the first ones are searched by distributions that keep both kinds of libraries.
_FOLDERS = {64: ("/lib64", "/usr/lib64", "/lib", "/usr/lib"), 32: ("/lib32", "/usr/lib32", "/lib", "/usr/lib")}


class SystemFolders:
    """The system's libraries by name. The cache is read once, at the first search."""

    def __init__(self, cache: str = CACHE) -> None:
        self._path = cache
        self._cache: _Cache | None = None

    def places(self, name: str, bits: int) -> Iterator[str]:
        """Yield where a library of the system may be, best first. There need be nothing, or one of another processor.

        :param name: a plain file name
        """
        if self._cache is None:
            self._cache = _Cache(self._read())
        yield from self._cache.find(name)
        for folder in _FOLDERS.get(bits, ()):
            yield f"{folder}/{name}"

    def _read(self) -> bytes:
        try:
            descriptor, status = open_trusted(self._path, most=_MAX_CACHE, runs=False)
        except BadFile:
            return b""
        try:
            return os.pread(descriptor, status.st_size, 0)
        except OSError:
            return b""
        finally:
            os.close(descriptor)


class _Cache:
    # struct cache_file_new, whose strings are counted from its start: an older form may come before it.

    def __init__(self, data: bytes) -> None:
        start = data.find(_MAGIC)
        self._data = data = data[start:] if start >= 0 else b""
        self._end = _HEADER_SIZE
        if len(data) >= _HEADER_SIZE:
            self._end += _HEADER.unpack_from(data)[1] * _ENTRY.size
        if self._end > len(data):
            self._data, self._end = b"", 0

    def find(self, name: str) -> Iterator[str]:
        """Yield the paths that it has for a name."""
        data, wanted = self._data, os.fsencode(name) + b"\0"
        # Strings may share their ends, so that a name may be the end of a path.
        offsets: set[int] = set()
        at = data.find(wanted, self._end)
        while at >= 0 and len(offsets) < _MAX_SAME:
            offsets.add(at)
            at = data.find(wanted, at + 1)
        if not offsets:
            return
        for _, own, path, _, capabilities in _ENTRY.iter_unpack(data[_HEADER_SIZE : self._end]):
            if own in offsets and not capabilities:  # else it is one for certain processors, beside one for all
                place = data[path : data.find(b"\0", path, path + _MAX_PATH)]
                if place.startswith(b"/"):
                    yield os.fsdecode(place)
