"""What was derived of files before, kept in the user's cache folder: ``$XDG_CACHE_HOME/ompd`` or ``~/.cache/ompd``.

Everything in it can be derived again, so that the folder may be deleted at any time, and every fault of it is as if
it were empty. ``OMPD_CACHE=off`` turns it off. What is kept belongs to one file at one moment: to its device, number,
size and times, which change whenever it is written to or another takes its place. A file that was written just now is
not kept anything of, since the clock might not distinguish the next change from it.

An entry is written beside and renamed, so that readers see all of it or nothing, whoever else writes. It is believed
only if it is whole, says itself what it is of, and no one but the user could have written it.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ompd.errors import BadFile
from ompd.safety.reading import PagedFile

# With what is kept, or how, changes this.
_MAGIC = b"ompd cache 1\n"
_HEADER = struct.Struct("<13sIIQ")  # magic, CRC-32 and Adler-32 of what follows them, size of the key
_MAX_ENTRY = 16 << 20
_MAX_TOTAL, _MAX_ENTRIES = 64 << 20, 2048
_SETTLED_NS = 2_000_000_000
_DAY = 24 * 3600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class DiskCache:
    """The cache of one user. Nothing raises: what cannot be read is not there, what cannot be written is let be.

    :param folder: where it is, None if it is turned off
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> DiskCache:
        """Return the cache of the user that this process runs as, as the environment says."""
        environment = os.environ
        if environment.get("OMPD_CACHE") == "off":
            return cls(None)
        home = environment.get("HOME", "")
        root = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
        return cls(f"{root}/ompd" if root.startswith("/") else None)

    def of(self, data: object) -> FileCache | None:
        """Return what is kept of a file, None if nothing may be kept of it.

        :param data: the file as :func:`ompd.safety.reading.open_paged` gave it
        """
        if self._folder is None or not isinstance(data, PagedFile):
            return None
        return FileCache(self, data.identity)

    def read(self, name: str, key: bytes) -> bytes | None:
        """Return the entry *name*, None if there is none that can be believed to be of *key*."""
        with suppress(OSError, ValueError), self._opened() as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = os.open(name, flags, dir_fd=folder)
            with open(descriptor, "rb") as file:  # noqa: PTH123
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > _MAX_ENTRY:
                    return None
                raw = file.read(_MAX_ENTRY + 1)
                if status.st_mtime < time.time() - _DAY:
                    os.utime(descriptor)  # the least recently used are removed first
                return _unpacked(raw, key)
        return None

    def write(self, name: str, key: bytes, payload: bytes) -> None:
        """Keep *payload* as the entry *name* of *key*, in place of what it was."""
        if self._folder is None or len(payload) + len(key) > _MAX_ENTRY - _HEADER.size:
            return
        with suppress(OSError, ValueError, BadFile):
            if not os.path.lexists(self._folder):
                from ompd.safety.writing import make_folder

                make_folder(self._folder)
            with self._opened() as folder:
                part = f".{name}.{os.getpid()}.{time.monotonic_ns():x}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                try:
                    with open(os.open(part, flags, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123
                        file.write(_packed(key, payload))
                    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with suppress(OSError):
                        os.unlink(part, dir_fd=folder)
                _trim(folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        # The folder, if it is this user's alone. All that is done in it goes by this descriptor.
        if self._folder is None:
            raise FileNotFoundError
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _is_private(os.fstat(folder)):
                raise PermissionError
            yield folder
        finally:
            os.close(folder)


def _trim(folder: int) -> None:
    # Remove the oldest entries of too many, and what is left of writers that were ended.
    rows = sorted(_entries(folder))
    total, count = sum(size for _, size, _ in rows), len(rows)
    if total <= _MAX_TOTAL and count <= _MAX_ENTRIES:
        return
    for _, size, name in rows:
        if total <= _MAX_TOTAL // 2 and count <= _MAX_ENTRIES // 2:
            return
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        total, count = total - size, count - 1


def _entries(folder: int) -> Iterator[tuple[float, int, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield status.st_mtime, status.st_size, entry.name


class FileCache:
    """What is kept of one file, by what it is."""

    def __init__(self, cache: DiskCache, identity: tuple[int, ...]) -> None:
        self._cache = cache
        self._settled = max(identity[-2:]) + _SETTLED_NS < time.time_ns()
        self._key = "-".join(f"{number:x}" for number in identity)

    def get(self, what: str) -> bytes | None:
        """Return what was kept of the file as *what*, None if nothing was."""
        return self._cache.read(f"{self._key}-{what}", f"{self._key}-{what}".encode())

    def put(self, what: str, payload: bytes) -> None:
        """Keep something of the file as *what*."""
        if self._settled:
            self._cache.write(f"{self._key}-{what}", f"{self._key}-{what}".encode(), payload)


class KeptRows:
    """What was found of one file before, in this process or another: rows of JSON by a key.

    :param kept: what is kept of the file on disk, None for nothing
    :param what: the name of the entry, another one where what is kept changes
    :param most: so many rows are kept
    """

    def __init__(self, kept: FileCache | None, what: str, most: int) -> None:
        self._kept, self._what, self._most = kept, what, most
        self._is_new = False
        rows = _read_rows(kept.get(what)) if kept is not None else {}
        self._rows: dict[str, Any] = rows if len(rows) < most else {}

    def _keep(self, key: str, value: object) -> None:
        if len(self._rows) < self._most:
            self._rows[key] = value
            self._is_new = True

    def save(self) -> None:
        """Keep on disk what was found, if anything was that is not there yet."""
        if self._is_new and self._kept is not None:
            self._kept.put(self._what, json.dumps(self._rows, separators=(",", ":")).encode())
            self._is_new = False


def _read_rows(raw: bytes | None) -> dict[str, Any]:
    try:
        rows = json.loads(raw) if raw is not None else {}
    except (ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _packed(key: bytes, payload: bytes) -> bytes:
    rest = key + payload
    sums = zlib.crc32(rest, len(key)), zlib.adler32(rest)
    return _HEADER.pack(_MAGIC, *sums, len(key)) + rest


def _unpacked(raw: bytes, key: bytes) -> bytes | None:
    if len(raw) < _HEADER.size:
        return None
    magic, crc, adler, key_size = _HEADER.unpack_from(raw)
    rest = raw[_HEADER.size :]
    if magic != _MAGIC or key_size != len(key) or not rest.startswith(key):
        return None
    if (zlib.crc32(rest, key_size), zlib.adler32(rest)) != (crc, adler):
        return None
    return rest[key_size:]
