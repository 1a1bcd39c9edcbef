"""Compressed core files, as systemd and people keep them: unpacked into a sparse file that has no name.

What is compressed is known by its first bytes, never by its name. The file is unpacked from end to end, piece by piece:
neither its size nor what it claims decides how much memory is used, and how much disk is the caller's to say. The
unpacked core has no name from the beginning, so nothing is left of it, however this process ends.
"""

from __future__ import annotations

import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
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
# What file systems add to what is written.
_OVERHEAD = 2 << 20
# As for zstd; `xz -9` needs half of it.
_MAX_WINDOW = 128 << 20

_COPY_AGAIN = "copy the file again completely"

# RFC 8878, 3.1.2: frames of any content that a reader passes over; the first byte of the magic number is 0x50 … 0x5f.
_SKIPPABLE = b"\x2a\x4d\x18"


class Unpacked(NamedTuple):
    """A core file that was unpacked. *fault*: why it is not whole, None if it is. *note*: what is odd."""

    data: PagedFile
    fault: str | None
    note: str | None


class _Cut(Exception):
    """The compressed file ends before its data does."""


class _Damaged(Exception):
    """The compressed data contradicts itself; the text is the decompressor's."""


class SparseFile:
    """A file without a name, written from its start to its end, with holes for zeros.

    It is in the folder that TMPDIR names, else in ``/var/tmp``, which, unlike ``/tmp``, is on a disk everywhere.

    :param name: what is written, for errors
    :param limit: how many bytes it may become
    :param packed: of how many compressed bytes it is made, None: of none, what is written is as it came
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

        :raises BadFile: if that is more than was allowed, or than the disk holds
        """
        if self.size + len(data) > self._limit:
            raise BadFile(
                self._name,
                f"holds a core of more than {format_size(self._limit)}",
                hint=f"--max-size SIZE allows more; it is unpacked in {self._folder}, zeros take no room there",
            )
        start = at = 0
        if len(data) != _PIECE or data != _ZEROS:
            while at < len(data):
                end = min(at + _BLOCK - (self.size + at) % _BLOCK, len(data))
                if data[at:end] == _ZEROS[: end - at]:
                    self._put(data, start, at)
                    start = end
                at = end
            self._put(data, start, at)
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
        # How many bytes may be written besides *size* before this has to be asked again. Others write, too.
        system = os.fstatvfs(self._file.fileno())
        free = system.f_bavail * system.f_frsize
        left = free - limits.KEPT_FREE - _OVERHEAD - size
        if left < 0:
            raise self._no_room(f"{format_size(free)} are free there")
        return min(_FREE_CHECK, left // 2)

    def _no_room(self, why: str) -> BadFile:
        return BadFile(
            self._name,
            f"does not fit into {self._folder} when it is unpacked ({why})",
            hint="make room there, or let TMPDIR name a folder of a larger disk",
        )

    def finish(self) -> PagedFile:
        """Return the whole file, open for reading.

        :raises BadFile: if nothing was written
        """
        if not self.size:
            raise BadFile(self._name, "is empty when it is unpacked", hint="copy or take the core again")
        os.ftruncate(self._file.fileno(), self.size)
        return PagedFile(self._file.fileno(), self._name)

    def close(self) -> None:
        """Let go of the file; it is gone once it is not open any more."""
        self._file.close()


def _temporary_folder() -> str:
    for folder in (os.environ.get("TMPDIR"), "/var/tmp"):
        if folder and os.access(folder, os.W_OK | os.X_OK) and Path(folder).is_dir():
            return folder
    return tempfile.gettempdir()


class _Input:
    """The compressed file, read once; *taken* bytes of it have been used."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""
        self.taken = 0

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end of the file."""
        data, self._held = (self._held[:size], self._held[size:]) if self._held else (self._file.read(size), b"")
        self.taken += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return *size* bytes, fewer at the end of the file only."""
        data = self.read(size)
        return data if len(data) == size else data + self.read(size - len(data)) if data else data

    def give_back(self, data: bytes) -> None:
        """Have *data* read again."""
        self._held = data + self._held
        self.taken -= len(data)

    def skip(self, size: int) -> None:
        """Pass over *size* bytes.

        :raises _Cut: if there are fewer
        """
        while size:
            passed = len(self.read(min(size, _READ)))
            if not passed:
                raise _Cut
            size -= passed


class _Decoder(Protocol):
    # What lzma's decompressors are, for one member of a file.

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
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


def _gzip(source: _Input) -> Iterator[bytes]:
    return _decoded(source, _Gzip(), zlib.error)


def _xz(source: _Input) -> Iterator[bytes]:
    return _decoded(source, lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_WINDOW), lzma.LZMAError)


def _lz4(source: _Input) -> Iterator[bytes]:
    import lz4.frame  # type: ignore[import-untyped]

    return _decoded(source, lz4.frame.LZ4FrameDecompressor(), RuntimeError)


def _decoded(source: _Input, decoder: _Decoder, error: type[Exception]) -> Iterator[bytes]:
    while not decoder.eof:
        data = source.read(_READ) if decoder.needs_input else b""
        if decoder.needs_input and not data:
            raise _Cut
        try:
            yield decoder.decompress(data, _PIECE)
        except error as fault:
            raise _Damaged(str(fault)) from fault
    source.give_back(decoder.unused_data or b"")  # lz4 has None for none


def _zstd(source: _Input) -> Iterator[bytes]:
    from ompd.binary.elf.zstd import ZstdError, decompressor

    return _decoded(source, decompressor(), ZstdError)


class _Format(NamedTuple):
    name: str
    magic: bytes
    member: Callable[[_Input], Iterator[bytes]]
    package: str = ""


_FORMATS = (
    _Format("zstd", b"\x28\xb5\x2f\xfd", _zstd, "backports.zstd"),
    _Format("lz4", b"\x04\x22\x4d\x18", _lz4, "lz4"),
    _Format("xz", b"\xfd7zXZ\0", _xz),
    _Format("gzip", b"\x1f\x8b\x08", _gzip),
)


def _format(head: bytes) -> _Format | None:
    if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
        return _FORMATS[0]  # pzstd begins with such a frame
    return next((known for known in _FORMATS if head.startswith(known.magic)), None)


def is_compressed(head: bytes) -> bool:
    """Return whether a file that begins with *head*, 6 bytes of it, is compressed so that :func:`unpack` reads it."""
    return _format(head) is not None


def _pieces(source: _Input, known: _Format) -> Iterator[bytes]:
    # What the file holds, member after member; zeros behind one are padding.
    is_first = True
    count = size = 0
    while head := source.exactly(6):
        source.give_back(head)
        count += 1
        if count > limits.members(size):
            raise _Damaged(f"{count} pieces that hold {size} bytes")
        if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5 and known.name in ("zstd", "lz4"):
            source.skip(4)
            source.skip(int.from_bytes(source.exactly(4), "little"))
        elif head.startswith(known.magic):
            for piece in known.member(source):
                size += len(piece)
                yield piece
            is_first = False
        elif is_first and (other := _format(head)) is not None:
            known = other  # behind frames that several formats have
        elif known.magic.startswith(head) or is_first:
            raise _Cut
        elif head[0] == 0:
            source.give_back(source.read(_READ).lstrip(b"\0"))
            count -= 1
        else:
            return


def unpack(path: str, name: str, limit: int, progress: Progress | None = None) -> Unpacked:
    """Return the core that the compressed file at *path* holds; of one that was cut off, what it still holds.

    :param name: what to call it in errors
    :param limit: how many bytes it may become
    :param progress: receives lines to show while something takes long
    :raises BadFile: if its data is damaged, becomes more than *limit*, or does not fit on the disk
    """
    descriptor, status = open_regular(path)
    packed = min(status.st_size, 512 * status.st_blocks)
    with open(descriptor, "rb") as file, closing(SparseFile(name, limit, packed)) as out:  # noqa: PTH123
        known = _format(file.read(6))
        if known is None:
            raise BadFile(name, "is not compressed in a way that can be read")
        total = status.st_size
        if not is_on_disk(total, status.st_blocks):
            raise BadFile(name, f"has {format_size(total)}, almost all of it holes", hint=_COPY_AGAIN)
        file.seek(0)
        source = _Input(file)
        fault = note = None
        try:
            for piece in _pieces(source, known):
                out.write(piece)
                if progress is not None:
                    progress(f"unpacking {name}: {100 * source.taken // total} %, {format_size(out.size)}")
            if source.taken < total:
                note = f"{total - source.taken} bytes behind its {known.name} data are left out"
        except _Cut:
            fault = (
                f"the compressed file ({known.name}) is cut off: it holds the first {format_size(out.size)} of the core"
            )
            if not out.size:
                raise BadFile(name, "is cut off before its first byte of data", hint=_COPY_AGAIN) from None
        except _Damaged as error:
            raise BadFile(
                name,
                f"is damaged: its {known.name} data cannot be unpacked behind {format_size(out.size)} ({error})",
                hint=f"{_COPY_AGAIN}; if `{known.name} -t` finds no fault in it, unpack it and give the core itself",
            ) from error
        except ImportError as error:
            raise BadFile(
                name,
                f"is compressed by {known.name}, and the Python package that reads that is not installed",
                hint=f"install {known.package}, or unpack the file and give the core itself",
            ) from error
        now = os.fstat(descriptor)
        if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            fault = "the file changed while it was unpacked"
        return Unpacked(out.finish(), fault, note)
