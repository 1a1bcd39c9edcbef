"""Safe opening of files whose names come from untrusted input, and safe reading of files that may change meanwhile.

A path in a core may name a device that acts when opened, or a pipe that blocks. So the path is first opened with
``O_PATH``, which only locates the file. If it is a regular file, it is reopened through that descriptor, so no other
file can take its place.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Any, overload
from zlib import crc32

from ompd.errors import BadFile, MalformedFile
from ompd.safety import limits

# The block cache of each file is small: some processes have hundreds of files.
_BLOCK, _MAX_BLOCKS = 1 << 12, 1 << 8
_PIECE, _LONGEST_READ = 1 << 20, 1 << 24
_MAX_LINKS = 40  # Linux's own limit (MAXSYMLINKS)
# At most this many extents of one range are counted, because a file may have many holes.
_MAX_EXTENTS = 1 << 16


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open the regular file at *path* for reading, and return its descriptor and status.

    :raises BadFile: if the file is missing, empty, not regular or unreadable
    """
    try:
        located = _locate(path)
        try:
            status = os.fstat(located)
            _check(path, status)
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
            return os.open(f"/proc/self/fd/{located}", flags), status
        finally:
            os.close(located)
    except FileNotFoundError as error:
        if str(error.filename).startswith("/proc/self/"):
            raise BadFile(path, "cannot be opened safely: /proc is not mounted") from error
        raise BadFile(path, "no such file") from error
    except PermissionError as error:
        raise BadFile(
            path, "no permission to read it", hint="become its owner or root, or have it made readable"
        ) from error
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise BadFile(path, f"cannot be opened: {reason}") from error


def read_head(path: str, size: int) -> bytes:
    """Return the first *size* bytes of the file *path*, fewer if it is smaller.

    :raises BadFile: as :func:`open_regular`, or if the file cannot be read
    """
    descriptor, _ = open_regular(path)
    try:
        return os.pread(descriptor, size, 0)
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _locate(path: str) -> int:
    # An O_PATH descriptor of the file at a path.
    if path.startswith("/proc/"):
        folder, mark, name = path.partition("/root/")
        if mark and folder.removeprefix("/proc/").isdigit():
            return _locate_inside(f"{folder}/root", name)
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _locate_inside(root: str, name: str) -> int:
    # The same inside another process's root folder: links and `..` cannot leave it. Each part is opened once, so it
    # cannot be swapped after the check.
    opened = [os.open(root, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)]
    waiting, links = name.split("/")[::-1], 0
    try:
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(opened) > 1:
                    os.close(opened.pop())
                continue
            opened.append(os.open(part, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=opened[-1]))
            if not stat.S_ISLNK(os.fstat(opened[-1]).st_mode):
                continue
            target = os.readlink("", dir_fd=opened[-1])
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), f"{root}/{name}")
            os.close(opened.pop())
            while target.startswith("/") and len(opened) > 1:
                os.close(opened.pop())
            waiting += target.split("/")[::-1]
        return opened.pop()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise BadFile(path, "is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise BadFile(path, "is not a regular file")
    # Most files of /proc and /sys have no size, and opening some has effects.
    if status.st_size == 0:
        raise BadFile(path, "is empty")
    if status.st_blocks == 0 and _is_of_the_kernel(status):
        raise BadFile(path, "is not a regular file")


def _is_of_the_kernel(status: os.stat_result) -> bool:
    try:
        return status.st_dev == os.stat("/sys").st_dev  # noqa: PTH116  no pathlib on the way to an answer
    except OSError:
        return False


class PagedFile:
    """An open file, read on demand, with the slices, items, ``find`` and ``len`` of ``bytes``.

    Files are never mapped. If a mapped file is truncated, the kernel kills its reader (SIGBUS), and with it a debugger
    or notebook around ``ompd``. Reading such a file here raises MalformedFile instead.

    ``identity`` identifies the file and its version: device, inode, size, and the times in nanoseconds of the last
    change of contents and inode. ``blocks`` is its number of 512-byte blocks on disk; holes have none.

    :param descriptor: the open file; this object duplicates it
    :param name: the file's name in errors
    :raises BadFile: if the descriptor cannot be used
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = -1
        try:
            status = os.fstat(descriptor)
            self._descriptor = os.dup(descriptor)
            # Read-ahead on an uncached sparse core of some gigabytes costs seconds.
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        except OSError as error:
            raise BadFile(name, f"cannot be opened: {error.strerror}") from error
        self.name = name
        self.identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        self.blocks = status.st_blocks
        self._size = status.st_size
        self._has_holes = 512 * status.st_blocks < status.st_size
        self._blocks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._descriptor < 0

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._blocks.clear()
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> PagedFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def has_changed(self) -> bool:
        """Return whether the file's size or modification time changed since it was opened."""
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) != self.identity[2:4]

    def will_need(self, start: int, size: int) -> None:
        """Have the kernel read ahead a part of the file."""
        with suppress(OSError):
            os.posix_fadvise(self._descriptor, start, size, os.POSIX_FADV_WILLNEED)

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any], /) -> bytes: ...
    def __getitem__(self, key: Any, /) -> int | bytes:
        if not isinstance(key, slice):
            block = self._blocks.get(key // _BLOCK)
            if block is None:
                key = range(self._size)[key]
                block = self._block(key // _BLOCK)
            byte: int = block[key % _BLOCK]
            return byte
        start, end = key.start, key.stop
        if start is None or end is None or not 0 <= start < end <= self._size:
            start, end, _ = key.indices(self._size)
            if start >= end:
                return b""
        number = start // _BLOCK
        place = number * _BLOCK
        if end - place > _BLOCK:
            return self._read(start, end - start)
        block = self._blocks.get(number)
        return (block if block is not None else self._block(number))[start - place : end - place]

    def __bytes__(self) -> bytes:
        return self._read(0, self._size)

    def find(self, wanted: bytes, start: int | None = None, end: int | None = None) -> int:
        """Return the first offset of *wanted* between *start* and *end*, -1 if there is none."""
        position, stop, _ = slice(start, end).indices(self._size)
        piece = 0
        while position + len(wanted) <= stop:
            # Read growing pieces: most matches are near, and a signal can end the search between two pieces.
            number, within = divmod(position, _BLOCK)
            if len(wanted) == 1 and not piece:
                block = self._blocks.get(number) or self._block(number)
                index, size = block.find(wanted, within, within + stop - position), len(block) - within
                index -= within if index >= 0 else 0
            else:
                # First the rest of the cached block.
                size = min(stop - position, max(piece or _BLOCK - within, len(wanted)))
                index = self[position : position + size].find(wanted)
            if index >= 0:
                return position + index
            piece = min(4 * piece or _BLOCK, _PIECE)
            position += size - len(wanted) + 1
        return -1

    def _block(self, number: int) -> bytes:
        start = number * _BLOCK
        data = self._read(start, min(_BLOCK, self._size - start))
        if len(self._blocks) >= _MAX_BLOCKS:
            self._blocks.clear()
        self._blocks[number] = data
        return data

    def _read(self, start: int, size: int) -> bytes:
        data = self._piece(start, size)
        if len(data) == size:
            return data
        pieces, end = [data], start + size
        while (start := start + len(pieces[-1])) < end:
            pieces.append(self._piece(start, end - start))
        return b"".join(pieces)

    def _piece(self, start: int, size: int) -> bytes:
        if self._descriptor < 0:
            raise ValueError("the file is closed")
        try:
            data = os.pread(self._descriptor, min(size, _LONGEST_READ), start)
        except OSError as error:
            raise MalformedFile(f"{self.name}: cannot be read: {error.strerror}", offset=start) from error
        if not data:
            raise MalformedFile(f"{self.name}: the file shrank while it was read", offset=start)
        return data

    def held(self, start: int, end: int) -> int:
        """Return how many bytes from *start* to *end* are on disk; the others are holes.

        In a file with very many holes, only some extents are looked at, and bytes behind them are not counted.
        """
        total = 0
        for _ in range(_MAX_EXTENTS if start < end else 0):
            low = self.data_from(start)
            if low is None or low >= end:
                break
            high = min(self.hole_from(low), end)
            total, start = total + high - low, high
            if start >= end:
                break
        return total

    def data_from(self, start: int) -> int | None:
        """Return the offset of the first data at or after *start*, None if there is none."""
        if not self._has_holes:
            return start
        try:
            return os.lseek(self._descriptor, start, os.SEEK_DATA)
        except OSError as error:
            return None if error.errno == errno.ENXIO else start

    def hole_from(self, start: int) -> int:
        """Return the offset of the first hole at or after *start*, or the end of the file."""
        if not self._has_holes:
            return len(self)
        try:
            return os.lseek(self._descriptor, start, os.SEEK_HOLE)
        except OSError:
            return len(self)


def is_on_disk(size: int, blocks: int) -> bool:
    """Return whether a file of *size* bytes in *blocks* blocks (``st_blocks``) may be read from end to end.

    A file of almost only holes may not: holes take no disk space, but as much time as data.
    """
    return limits.may_read(size, 512 * blocks)


def may_read_whole(data: PagedFile) -> bool:
    """Return :func:`is_on_disk` of an open file."""
    return is_on_disk(len(data), data.blocks)


def open_paged(path: str) -> PagedFile:
    """Open the regular file at *path* for reading.

    :raises BadFile: if the file is missing, empty or unreadable
    """
    descriptor, _ = open_regular(path)
    try:
        return PagedFile(descriptor, path)
    finally:
        os.close(descriptor)


def checksum(data: PagedFile) -> int | None:
    """Return the CRC-32 of a file, None if it is almost only holes. Ctrl-C can interrupt it.

    :raises MalformedFile: if the file shrinks meanwhile
    """
    if not may_read_whole(data):
        return None
    crc = 0
    for start in range(0, len(data), _PIECE):
        crc = crc32(data[start : start + _PIECE], crc)
    return crc
