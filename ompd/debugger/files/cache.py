"""Facts derived from files, in the user's cache folder: ``$XDG_CACHE_HOME/ompd`` or ``~/.cache/ompd``.

All of them can be derived again, so the folder may be deleted at any time, and faults in it are ignored.
``OMPD_CACHE=off`` turns the cache off. The key of an entry is one version of a file: its device, inode, size and times,
which change with the file. A file that was written just now gets no entry, because the clock may not distinguish its
next change.

An entry is written to a temporary file and renamed, so readers see all of it or nothing. It is used only if it is
whole, repeats its key, and no one but the user could have written it.
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

# Change this whenever the format or the meaning of entries changes.
_MAGIC = b"ompd cache 1\n"
_HEADER = struct.Struct("<13sIIQ")  # magic, the body's CRC-32 and Adler-32, size of the key
_MAX_ENTRY = 16 << 20
_MAX_TOTAL, _MAX_ENTRIES = 64 << 20, 2048
_SETTLED_NS = 2_000_000_000
_DAY = 24 * 3600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class DiskCache:
    """The cache of one user. Its methods never raise: unreadable entries are missing, failed writes are ignored.

    :param folder: the cache's folder, None if the cache is turned off
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> DiskCache:
        """Return the cache of this process's user, by the environment variables."""
        environment = os.environ
        if environment.get("OMPD_CACHE") == "off":
            return cls(None)
        home = environment.get("HOME", "")
        root = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
        return cls(f"{root}/ompd" if root.startswith("/") else None)

    def of(self, data: object) -> FileCache | None:
        """Return the cache of one file, None if the cache is turned off or the data is no file on disk.

        :param data: the file as :func:`ompd.safety.reading.open_paged` returned it
        """
        if self._folder is None or not isinstance(data, PagedFile):
            return None
        return FileCache(self, data.identity)

    def read(self, name: str, key: bytes) -> bytes | None:
        """Return the contents of the entry *name* if it is valid and has the key *key*, else None."""
        with suppress(OSError, ValueError), self._opened() as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = os.open(name, flags, dir_fd=folder)
            with open(descriptor, "rb") as file:  # noqa: PTH123
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > _MAX_ENTRY:
                    return None
                raw = file.read(_MAX_ENTRY + 1)
                if status.st_mtime < time.time() - _DAY:
                    os.utime(descriptor)  # marks a use: the least recently used entries are removed first
                return _unpacked(raw, key)
        return None

    def write(self, name: str, key: bytes, payload: bytes) -> None:
        """Keep *payload* as the entry *name* of *key*, and replace an older one."""
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
        # The descriptor of the folder, if only this user can write to it. All operations use this descriptor.
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
    # If there are too many entries, remove those that were not used for the longest time, until half of the limit is
    # left. Temporary files of killed writers count as entries.
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
    """The entries of one file."""

    def __init__(self, cache: DiskCache, identity: tuple[int, ...]) -> None:
        self._cache = cache
        self._settled = max(identity[-2:]) + _SETTLED_NS < time.time_ns()
        self._key = "-".join(f"{number:x}" for number in identity)

    def get(self, entry: str) -> bytes | None:
        """Return the file's entry of that name, None if there is none."""
        name = f"{self._key}-{entry}"
        return self._cache.read(name, name.encode())

    def put(self, entry: str, payload: bytes) -> None:
        """Store *payload* as the file's entry called *entry*."""
        if self._settled:
            name = f"{self._key}-{entry}"
            self._cache.write(name, name.encode(), payload)


class KeptRows:
    """Facts about one file by keys, kept as one entry of rows in JSON.

    :param kept: the file's cache, None without one
    :param entry: the name of the entry; change it whenever the meaning of rows changes
    :param most: the largest number of rows
    """

    def __init__(self, kept: FileCache | None, entry: str, most: int) -> None:
        self._kept, self._entry, self._most = kept, entry, most
        self._is_new = False
        rows = _read_rows(kept.get(entry)) if kept is not None else {}
        self._rows: dict[str, Any] = rows if len(rows) < most else {}

    def _keep(self, key: str, value: object) -> None:
        if len(self._rows) < self._most:
            self._rows[key] = value
            self._is_new = True

    def save(self) -> None:
        """Write the rows to disk if there are new ones."""
        if self._is_new and self._kept is not None:
            self._kept.put(self._entry, json.dumps(self._rows, separators=(",", ":")).encode())
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
    body = key + payload
    sums = zlib.crc32(body, len(key)), zlib.adler32(body)
    return _HEADER.pack(_MAGIC, *sums, len(key)) + body


def _unpacked(raw: bytes, key: bytes) -> bytes | None:
    if len(raw) < _HEADER.size:
        return None
    magic, crc, adler, key_size = _HEADER.unpack_from(raw)
    body = raw[_HEADER.size :]
    if magic != _MAGIC or key_size != len(key) or not body.startswith(key):
        return None
    if (zlib.crc32(body, key_size), zlib.adler32(body)) != (crc, adler):
        return None
    return body[key_size:]
