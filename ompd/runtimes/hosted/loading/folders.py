"""The folders in which libraries are searched: the folder of the runtime that names them, and the folders of the
system's loader, except folders from the environment.

glibc: ``elf/cache.c`` and ``sysdeps/generic/dl-cache.h`` (``/etc/ld.so.cache``), ld.so(8).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from ompd.errors import BadFile
from ompd.safety.libraries import open_trusted

CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = struct.Struct("=20sII"), struct.Struct("=iIIIQ")
_HEADER_SIZE = 48
_MAX_CACHE = 16 << 20
_MAX_PATH, _MAX_SAME = 4096, 64
# Folders that are searched after the cache (ld.so(8)), for 64-bit and for 32-bit libraries. Distributions with both
# kinds of libraries have separate folders, which come first.
_FOLDERS = {64: ("/lib64", "/usr/lib64", "/lib", "/usr/lib"), 32: ("/lib32", "/usr/lib32", "/lib", "/usr/lib")}


def path_of(name: str, runtime: str) -> str | None:
    """Return the path in the target that a name in ``ompd_dll_locations`` refers to. OpenMP 5.2, 20.2.2.

    A relative name starts from the folder of the runtime's own file. None if that folder is unknown, or if *name* is
    empty.

    :param runtime: the path of the runtime's file in the target
    """
    if not name or name.startswith("/"):
        return name or None
    return f"{runtime.rpartition('/')[0]}/{name}" if runtime.startswith("/") else None


def is_plain(name: str) -> bool:
    """Return whether *name* is a file name of printable text, without a folder or a variable."""
    return bool(name) and name not in (".", "..") and not set(name) & set("/$\0\ufffd") and name.isprintable()


class Finder(Protocol):
    """Finds the target's files on this machine."""

    def resolve(self, path: str, /) -> str:
        """Return the path on this machine for a path in the target.

        :raises BadFile: if a chain of links does not end
        """


def places(name: str, runtime: str, finder: Finder | None, system: SystemFolders) -> Iterator[str]:
    """Yield candidate paths on this machine for a library that a runtime names, best first. They may not exist.

    :param runtime: the path of the runtime's file in the target
    :param finder: None for a target whose paths are this machine's
    """
    path = path_of(name, runtime)
    if path is not None:
        with suppress(BadFile):  # raised for an endless chain of links
            yield finder.resolve(path) if finder is not None else path
    if is_plain(name):
        yield from dict.fromkeys((*system.places(name, 64), *system.places(name, 32)))


class SystemFolders:
    """The system's libraries by name. The loader's cache is read once, at the first search."""

    def __init__(self, cache: str = CACHE) -> None:
        self._path = cache
        self._cache: _Cache | None = None

    def places(self, name: str, bits: int) -> Iterator[str]:
        """Yield candidate paths for a library of the system, best first. They may not exist, or may be for another
        processor.

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
    # struct cache_file_new. Offsets of strings count from its start. A structure of the older format may precede it.

    def __init__(self, data: bytes) -> None:
        start = data.find(_MAGIC)
        self._data = data = data[start:] if start >= 0 else b""
        self._end = _HEADER_SIZE
        if len(data) >= _HEADER_SIZE:
            self._end += _HEADER.unpack_from(data)[1] * _ENTRY.size
        if self._end > len(data):
            self._data, self._end = b"", 0

    def find(self, name: str) -> Iterator[str]:
        """Yield the cached paths of the library *name*."""
        data, wanted = self._data, os.fsencode(name) + b"\0"
        # Strings may share their tails, so a name may be the tail of a path.
        offsets: set[int] = set()
        offset = data.find(wanted, self._end)
        while offset >= 0 and len(offsets) < _MAX_SAME:
            offsets.add(offset)
            offset = data.find(wanted, offset + 1)
        if not offsets:
            return
        for _, own, path, _, capabilities in _ENTRY.iter_unpack(data[_HEADER_SIZE : self._end]):
            if own in offsets and not capabilities:  # entries with capabilities are for certain processors only
                place = data[path : data.find(b"\0", path, path + _MAX_PATH)]
                if place.startswith(b"/"):
                    yield os.fsdecode(place)
