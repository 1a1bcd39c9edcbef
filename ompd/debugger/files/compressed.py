"""Compressed core files, as systemd and users keep them: unpacked into a sparse file without a name.

The format is recognised by the first bytes, never by the name. The file is unpacked in pieces, from start to end. So
the memory in use depends neither on the file's size nor on the sizes that it claims. The caller limits the disk space.
The unpacked file never has a name, so nothing remains of it, however this process ends.
"""

from __future__ import annotations

import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from ompd.debugger.files.progress import Progress, format_size
from ompd.errors import BadFile
from ompd.safety import limits
from ompd.safety.reading import PagedFile, is_on_disk, open_regular

_READ = 1 << 16
_PIECE = 1 << 20
_BLOCK = 4096
_ZEROS = bytes(_PIECE)
_FREE_CHECK = 64 << 20
# Bytes of disk space that file systems need besides the data.
_OVERHEAD = 2 << 20
# The most bytes of memory that the decompressor of xz may use, as many as the window of zstd. `xz -9` needs half of it.
_MAX_WINDOW = 128 << 20

_COPY_AGAIN = "copy the file again completely"

# The last bytes of the magic number of skippable frames, which readers ignore (RFC 8878, 3.1.2). The first byte is 0x50
# to 0x5f.
_SKIPPABLE = b"\x2a\x4d\x18"


class Unpacked(NamedTuple):
    """An unpacked core file. ``fault`` is why it is not whole, None if it is. ``note`` is an oddity, or None."""

    data: PagedFile
    fault: str | None
    note: str | None


class _Cut(Exception):
    """The compressed file ends before its data does."""


class _Damaged(Exception):
    """The compressed data is malformed; the text is the decompressor's."""


class SparseFile:
    """A temporary file without a name, written from start to end, with holes for zeros.

    It is in the folder TMPDIR or, without that, in ``/var/tmp``, which is always on a disk, unlike ``/tmp``.

    :param name: the name of the core in errors
    :param limit: its largest size in bytes
    :param packed: the size of the compressed data, None if the data was not compressed
    :raises BadFile: if there is no folder for it
    """

    def __init__(self, name: str, limit: int, packed: int | None = None) -> None:
        self._name = name
        self._limit = limit
        self._room = limits.unpacked(packed) if packed is not None else limit
        self._folder = _temporary_folder()
        self.size = 0
        self._unchecked = 0
        try:
            self._file = tempfile.TemporaryFile(prefix="ompd-", dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise BadFile(
                name,
                f"cannot be unpacked: {self._folder}: {error.strerror}",
                hint="TMPDIR names another folder for temporary files",
            ) from error

    def write(self, data: bytes) -> None:
        """Append *data*.

        :raises BadFile: if that exceeds a limit, or the free disk space
        """
        if self.size + len(data) > self._limit:
            raise BadFile(
                self._name,
                f"holds a core of more than {format_size(self._limit)}",
                hint=f"--max-size SIZE allows more; it is unpacked in {self._folder}, zeros take no room there",
            )
        start = block = 0  # where the data to write next begins, and where the block to examine begins
        if len(data) != _PIECE or data != _ZEROS:
            while block < len(data):
                end = min(block + _BLOCK - (self.size + block) % _BLOCK, len(data))
                if data[block:end] == _ZEROS[: end - block]:
                    self._put(data, start, block)
                    start = end
                block = end
            self._put(data, start, block)
        self.size += len(data)

    def _put(self, data: bytes, start: int, end: int) -> None:
        if start == end:
            return
        self._room -= end - start
        if self._room < 0:
            raise BadFile(
                self._name,
                "becomes more than its size justifies when it is unpacked",
                hint="if it is from somebody whom you trust, unpack it and give the core itself",
            )
        self._unchecked -= end - start
        if self._unchecked < 0:
            self._unchecked = self._check_room(end - start)
        try:
            self._file.seek(self.size + start)
            while start < end:
                start += self._file.write(memoryview(data)[start:end])
        except OSError as error:
            raise self._no_room(error.strerror or "") from error

    def _check_room(self, size: int) -> int:
        # Return how many bytes may be written after the next *size* bytes before the space is checked again. One check
        # is not enough, because other programs write to the disk, too.
        system = os.fstatvfs(self._file.fileno())
        free = system.f_bavail * system.f_frsize
        available = free - limits.KEPT_FREE - _OVERHEAD - size
        if available < 0:
            raise self._no_room(f"{format_size(free)} are free there")
        return min(_FREE_CHECK, available // 2)

    def _no_room(self, why: str) -> BadFile:
        return BadFile(
            self._name,
            f"does not fit into {self._folder} when it is unpacked ({why})",
            hint="make room there, or let TMPDIR name a folder of a larger disk",
        )

    def finish(self) -> PagedFile:
        """Return the finished file, open for reading.

        :raises BadFile: if nothing was written
        """
        if not self.size:
            raise BadFile(self._name, "is empty when it is unpacked", hint="copy or take the core again")
        os.ftruncate(self._file.fileno(), self.size)
        return PagedFile(self._file.fileno(), self._name)

    def close(self) -> None:
        """Close the file. It is deleted as soon as the file of :meth:`finish` is closed, too."""
        self._file.close()


def _temporary_folder() -> str:
    for folder in (os.environ.get("TMPDIR"), "/var/tmp"):
        if folder and os.access(folder, os.W_OK | os.X_OK) and Path(folder).is_dir():
            return folder
    return tempfile.gettempdir()


class _Input:
    """The compressed file, read once. ``taken`` is the number of used bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._given_back = b""
        self.taken = 0

    def read(self, size: int) -> bytes:
        """Return at most *size* bytes, none at the end of the file."""
        if self._given_back:
            data, self._given_back = self._given_back[:size], self._given_back[size:]
        else:
            data = self._file.read(size)
        self.taken += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return *size* bytes, fewer only at the end of the file."""
        data = self.read(size)
        return data if len(data) == size else data + self.read(size - len(data)) if data else data

    def give_back(self, data: bytes) -> None:
        """Put *data* back, to be read again."""
        self._given_back = data + self._given_back
        self.taken -= len(data)

    def skip(self, size: int) -> None:
        """Skip *size* bytes.

        :raises _Cut: if there are fewer
        """
        while size:
            skipped = len(self.read(min(size, _READ)))
            if not skipped:
                raise _Cut
            size -= skipped


class _Decoder(Protocol):
    # The interface of lzma's decompressors, for one member of a file.

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    # A _Decoder by zlib.

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._is_full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self._is_full = len(piece) == max_length
        return piece


def _decoder(name: str) -> tuple[_Decoder, type[Exception]]:
    # A decoder of the format, and its exception. Optional packages are imported only if they are needed.
    if name == "gzip":
        return _Gzip(), zlib.error
    if name == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_WINDOW), lzma.LZMAError
    if name == "lz4":
        import lz4.frame  # type: ignore[import-untyped]

        return lz4.frame.LZ4FrameDecompressor(), RuntimeError
    from ompd.binary.elf.zstd import ZstdError, decompressor

    return decompressor(), ZstdError


def _member(source: _Input, name: str) -> Iterator[bytes]:
    # Yield the decompressed contents of one member of a file in the format *name*.
    decoder, error = _decoder(name)
    while not decoder.eof:
        data = source.read(_READ) if decoder.needs_input else b""
        if decoder.needs_input and not data:
            raise _Cut
        try:
            yield decoder.decompress(data, _PIECE)
        except error as fault:
            raise _Damaged(str(fault)) from fault
    source.give_back(decoder.unused_data or b"")  # lz4 has None if no data is left


class _Format(NamedTuple):
    name: str
    magic: bytes
    package: str = ""  # the Python package that reads it, if it is optional


_FORMATS = (
    _Format("zstd", b"\x28\xb5\x2f\xfd", "backports.zstd"),
    _Format("lz4", b"\x04\x22\x4d\x18", "lz4"),
    _Format("xz", b"\xfd7zXZ\0"),
    _Format("gzip", b"\x1f\x8b\x08"),
)


def _format(head: bytes) -> _Format | None:
    if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
        return _FORMATS[0]  # pzstd begins with such a frame
    return next((form for form in _FORMATS if head.startswith(form.magic)), None)


def is_compressed(head: bytes) -> bool:
    """Return whether :func:`unpack` reads a file that begins with *head*, its first 6 bytes."""
    return _format(head) is not None


def _pieces(source: _Input, form: _Format) -> Iterator[bytes]:
    # Yield the contents of the file, member after member. Zeros behind a member are padding.
    is_first = True
    count = size = 0
    while head := source.exactly(6):
        source.give_back(head)
        count += 1
        if count > limits.members(size):
            raise _Damaged(f"{count} pieces that hold {size} bytes")
        if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5 and form.name in ("zstd", "lz4"):
            source.skip(4)
            source.skip(int.from_bytes(source.exactly(4), "little"))
        elif head.startswith(form.magic):
            for piece in _member(source, form.name):
                size += len(piece)
                yield piece
            is_first = False
        elif is_first and (other := _format(head)) is not None:
            form = other  # the first frames were skippable, which several formats have
        elif form.magic.startswith(head) or is_first:
            raise _Cut
        elif head[0] == 0:
            source.give_back(source.read(_READ).lstrip(b"\0"))
            count -= 1
        else:
            return


def unpack(path: str, name: str, limit: int, progress: Progress | None = None) -> Unpacked:
    """Unpack the core in the compressed file at *path*. If that is cut off, return the beginning of the core.

    :param name: its name in errors
    :param limit: the largest size of the core in bytes
    :param progress: receives lines to show during long operations
    :raises BadFile: if the data is damaged, exceeds *limit*, or does not fit on the disk
    """
    descriptor, status = open_regular(path)
    packed = min(status.st_size, 512 * status.st_blocks)
    with open(descriptor, "rb") as file, closing(SparseFile(name, limit, packed)) as out:  # noqa: PTH123
        form = _format(file.read(6))
        if form is None:
            raise BadFile(name, "is not compressed in a way that can be read")
        total = status.st_size
        if not is_on_disk(total, status.st_blocks):
            raise BadFile(name, f"has {format_size(total)}, almost all of it holes", hint=_COPY_AGAIN)
        file.seek(0)
        source = _Input(file)
        fault = note = None
        try:
            for piece in _pieces(source, form):
                out.write(piece)
                if progress is not None:
                    progress(f"unpacking {name}: {100 * source.taken // total} %, {format_size(out.size)}")
            if source.taken < total:
                note = f"{total - source.taken} bytes behind its {form.name} data are left out"
        except _Cut:
            fault = (
                f"the compressed file ({form.name}) is cut off: it holds the first {format_size(out.size)} of the core"
            )
            if not out.size:
                raise BadFile(name, "is cut off before its first byte of data", hint=_COPY_AGAIN) from None
        except _Damaged as error:
            raise BadFile(
                name,
                f"is damaged: its {form.name} data cannot be unpacked behind {format_size(out.size)} ({error})",
                hint=f"{_COPY_AGAIN}; if `{form.name} -t` finds no fault in it, unpack it and give the core itself",
            ) from error
        except ImportError as error:
            raise BadFile(
                name,
                f"is compressed by {form.name}, and the Python package that reads that is not installed",
                hint=f"install {form.package}, or unpack the file and give the core itself",
            ) from error
        now = os.fstat(descriptor)
        if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            fault = "the file changed while it was unpacked"
        return Unpacked(out.finish(), fault, note)
