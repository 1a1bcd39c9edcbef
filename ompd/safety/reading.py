"""Opening files whose names a stranger may have chosen, and reading files that a stranger may change meanwhile.

A name in a core may be that of a device, whose opening alone does something, or of a pipe, at which it waits. So what
has a name is looked at first, by a descriptor with which nothing can be read or done (``O_PATH``), and only a regular
file is opened, by that same descriptor, so that nothing else can have taken its place.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from typing import Any, SupportsIndex, overload
from zlib import crc32

from ompd.errors import BadFile, MalformedFile
from ompd.safety import limits
from ompd.safety.trust import is_ours

# So much is kept of each file: some processes have hundreds.
_BLOCK = 1 << 14
_MAX_BLOCKS = 64
_PIECE = 1 << 20
_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)
# Extents of one range that are looked at, of a file in which data and holes take turns.
_MAX_EXTENTS = 1 << 16


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open the regular file at *path* for reading, and return its descriptor and status. It has some bytes.

    :raises BadFile: if there is none, it is empty, is something else, or may not be read
    """
    try:
        found = _find(path)
        try:
            status = os.fstat(found)
            _check(path, status)
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
            return os.open(f"/proc/self/fd/{found}", flags), status
        finally:
            os.close(found)
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
    """Return the first *size* bytes of the file *path*, fewer of a smaller one.

    :raises BadFile: as :func:`open_regular`, or if it cannot be read
    """
    descriptor, _ = open_regular(path)
    try:
        return os.pread(descriptor, size, 0)
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _find(path: str) -> int:
    # A descriptor that says what is at a path, and no more.
    if path.startswith("/proc/"):
        folder, mark, name = path.partition("/root/")
        if mark and folder.removeprefix("/proc/").isdigit():
            return _find_inside(f"{folder}/root", name)
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _find_inside(root: str, name: str) -> int:
    # The same, where another process would find *name*: its links and `..` lead nowhere but in its root folder, and
    # each part is what was looked at, whatever takes its place meanwhile.
    held = [os.open(root, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)]
    waiting, links = name.split("/")[::-1], 0
    try:
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(held) > 1:
                    os.close(held.pop())
                continue
            held.append(os.open(part, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=held[-1]))
            if not stat.S_ISLNK(os.fstat(held[-1]).st_mode):
                continue
            target = os.readlink("", dir_fd=held[-1])
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), f"{root}/{name}")
            os.close(held.pop())
            while target.startswith("/") and len(held) > 1:
                os.close(held.pop())
            waiting += target.split("/")[::-1]
        return held.pop()
    finally:
        for descriptor in held:
            os.close(descriptor)


def _check(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise BadFile(path, "is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise BadFile(path, "is not a regular file")
    # Most of the kernel's files have no size, and opening some does something.
    if status.st_size == 0:
        raise BadFile(path, "is empty")
    if status.st_blocks == 0 and _is_of_the_kernel(status):
        raise BadFile(path, "is not a regular file")


def _is_of_the_kernel(status: os.stat_result) -> bool:
    try:
        return status.st_dev == os.stat("/sys").st_dev  # noqa: PTH116  no pathlib on the way to an answer
    except OSError:
        return False


class MappedFile(mmap.mmap):
    """A mapped file. ``identity`` distinguishes it from every other, and from itself before it was last written to:
    device, number and size, then the times of the last change of its contents and of its inode in nanoseconds.
    ``blocks`` is how many blocks of 512 bytes it has on its disk, where holes have none.
    """

    identity: tuple[int, ...] | None = None
    blocks: int | None = None
    _seekable = -1  # a descriptor, of files with holes alone

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._let_go()

    def __del__(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._seekable = self._seekable, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _note_holes(self, descriptor: int, size: int, blocks: int) -> None:
        self.blocks = blocks
        if 512 * blocks < size:
            self._seekable = os.dup(descriptor)

    def held(self, start: int, end: int) -> int:
        """Return how many bytes from *start* to *end* are on a disk: the others are holes. Of a file of very many
        holes it may be more.
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
        """Return the first place from *start* on that is no hole, None if there is none."""
        if self._seekable < 0:
            return start
        try:
            return os.lseek(self._seekable, start, os.SEEK_DATA)
        except OSError as error:
            return None if error.errno == errno.ENXIO else start

    def hole_from(self, start: int) -> int:
        """Return the first place from *start* on that is a hole, or the end of the file."""
        if self._seekable < 0:
            return len(self)
        try:
            return os.lseek(self._seekable, start, os.SEEK_HOLE)
        except OSError:
            return len(self)


class PagedFile(MappedFile):
    """A file that somebody else may shrink, read as it is wanted. It stands for a mapped one, and has what is used of
    that: slices, items, ``find``, ``len``.

    Where a mapped file has lost its pages the kernel ends the process that looks there (SIGBUS), and a debugger or
    notebook that it is in. Reading says so instead. What wants the memory itself (``memoryview``, ``struct``) gets a
    ValueError: there is none.

    :raises OSError: if the descriptor cannot be kept
    """

    _descriptor = -1
    _size = 0
    _name = ""
    _blocks: dict[int, bytes]

    def __new__(cls, descriptor: int, size: int, name: str) -> PagedFile:
        """Return one that reads from a copy of *descriptor*."""
        self = super().__new__(cls, -1, 1)
        mmap.mmap.close(self)
        self._size = size
        self._name = name
        self._blocks = {}
        self._descriptor = os.dup(descriptor)
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        return self

    def __init__(self, *_arguments: object) -> None:
        """All is done where it is made."""

    def __len__(self) -> int:
        return self._size

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether :meth:`close` was called."""
        return self._descriptor < 0

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, -1
        self._blocks.clear()
        self._let_go()
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> PagedFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        """Do nothing: it is about memory."""

    def size(self) -> int:
        """Return how many bytes the file had when it was opened."""
        return self._size

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice[Any, Any, Any], /) -> bytes: ...
    def __getitem__(self, key: Any, /) -> int | bytes:
        if not isinstance(key, slice):
            index: int = key.__index__()
            index += self._size if index < 0 else 0
            if not 0 <= index < self._size:
                raise IndexError("mmap index out of range")
            block = self._blocks.get(index // _BLOCK)
            return (block if block is not None else self._block(index // _BLOCK))[index % _BLOCK]
        start, end, step = key.indices(self._size)
        if step != 1:
            raise ValueError("a file is read forwards")
        first, last = start // _BLOCK, (end - 1) // _BLOCK
        if start >= end:
            return b""
        if first != last:
            return self._read(start, end - start)
        block = self._blocks.get(first) or self._block(first)
        return block[start - first * _BLOCK : end - first * _BLOCK]

    def __bytes__(self) -> bytes:
        return self._read(0, self._size)

    def find(self, wanted: Any, start: int | None = None, end: int | None = None) -> int:
        """Return where *wanted* is first found in part of the file, -1 if it is not there."""
        at, stop, _ = slice(start, end).indices(self._size)
        sought = bytes(wanted)
        piece = 0
        while at + len(sought) <= stop:
            # In pieces, small ones first: mostly it is near, and a signal ends the search between any two.
            number, within = divmod(at, _BLOCK)
            if len(sought) == 1:
                block = self._blocks.get(number) or self._block(number)
                found, size = block.find(sought, within, within + stop - at), len(block) - within
                found -= within if found >= 0 else 0
            else:
                # The rest of the block, which is kept, before anything else.
                size = min(stop - at, max(piece or _BLOCK - within, len(sought)))
                found = self[at : at + size].find(sought)
                piece = min(4 * piece or _BLOCK, _PIECE)
            if found >= 0:
                return at + found
            at += size - len(sought) + 1
        return -1

    def _block(self, number: int) -> bytes:
        start = number * _BLOCK
        data = self._read(start, min(_BLOCK, self._size - start))
        if len(self._blocks) >= _MAX_BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = data
        return data

    def _read(self, start: int, size: int) -> bytes:
        if self._descriptor < 0:
            raise ValueError("mmap closed or invalid")
        pieces, at, end = [], start, start + size
        while at < end:
            try:
                piece = os.pread(self._descriptor, min(end - at, _PIECE), at)
            except OSError as error:
                raise MalformedFile(f"{self._name}: cannot be read: {error.strerror}", offset=at) from error
            if not piece:
                raise MalformedFile(f"{self._name}: the file shrank while it was read", offset=at)
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def map_readable(descriptor: int, name: str) -> MappedFile:
    """Return an open file as a mapped one, without read-ahead; it is not really mapped if others might shrink it.

    :raises BadFile: if it cannot be mapped
    """
    try:
        status = os.fstat(descriptor)
        if is_ours(status):
            mapped = MappedFile(descriptor, 0, prot=mmap.PROT_READ)
            # Read-ahead on a sparse core of some gigabytes costs seconds when nothing of it is in memory yet.
            if hasattr(mmap, "MADV_RANDOM"):
                mapped.madvise(mmap.MADV_RANDOM)
        else:
            mapped = PagedFile(descriptor, status.st_size, name)
    except (OSError, ValueError) as error:
        what = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else ""
        raise BadFile(name, f"cannot be mapped: {error or what}") from error
    times = status.st_mtime_ns, status.st_ctime_ns
    mapped.identity = status.st_dev, status.st_ino, status.st_size, *times
    mapped._note_holes(descriptor, status.st_size, status.st_blocks)
    return mapped


def is_on_disk(size: int, blocks: int) -> bool:
    """Return whether a file of *size* bytes in *blocks* blocks (``st_blocks``) may be read from end to end: not if it
    is almost nothing but holes, which take no room on a disk and as much time as data.
    """
    return limits.may_read(size, 512 * blocks)


def may_read_whole(data: mmap.mmap) -> bool:
    """Tell the same of a file that was opened."""
    return not isinstance(data, MappedFile) or data.blocks is None or is_on_disk(len(data), data.blocks)


def open_mapped(path: str) -> MappedFile:
    """Map the regular file at *path* for reading, without read-ahead.

    :raises BadFile: if there is none, it is empty, or may not be read
    """
    descriptor, _ = open_regular(path)
    try:
        return map_readable(descriptor, path)
    finally:
        os.close(descriptor)


def checksum(data: mmap.mmap) -> int | None:
    """Return the CRC-32 of a file, None of one that is almost nothing but holes. Ctrl-C ends it between any two pieces.

    :raises MalformedFile: if the file shrinks meanwhile
    """
    if not may_read_whole(data):
        return None
    found = 0
    for start in range(0, len(data), _PIECE):
        found = crc32(data[start : start + _PIECE], found)
    return found
