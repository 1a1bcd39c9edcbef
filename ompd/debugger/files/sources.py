"""Source files on this machine or on debuginfod servers, found by the names that debug information gives them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from string import ascii_letters, digits
from typing import TYPE_CHECKING, NamedTuple

from ompd.errors import BadFile, MalformedFile, Unavailable
from ompd.safety.reading import open_paged

if TYPE_CHECKING:
    from ompd.debugger.files.debuginfod import Servers

MAX_SOURCE = 8 << 20
"""The largest size of a source file in bytes."""
_MAX_PATH = 4096
_PLAIN = frozenset(f"{ascii_letters}{digits}.-_".encode())  # characters that names in the cache keep
_MAX_TAIL = 117
SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp", ".tcc", ".cu"),
        *(".f", ".F", ".for", ".f77", ".f90", ".F90", ".f95", ".F95", ".f03", ".F03", ".f08", ".F08"),
        *(".py", ".pyx", ".pxd", ".rs", ".zig", ".d", ".ada", ".adb"),
    )
)
"""A target may name any file that the user may read. Only files with these suffixes are shown."""
_MAX_FOLDERS = 64


class SourceFile(NamedTuple):
    """A source file: its ``path`` on this machine, its ``lines``, and a ``note`` if it may not be the one that was
    compiled.
    """

    path: str
    lines: Sequence[str]
    note: str | None


class Origin(NamedTuple):
    """What a source file was compiled into.

    ``digest`` is the file's MD5 at that time, None if debug information has none. ``build_id`` is that of the module,
    None if it has none. ``program`` is a file on this machine that is not older than the module: the module, or the
    core; None without one.
    """

    digest: bytes | None = None
    build_id: bytes | None = None
    program: str | None = None


class Sources:
    """Finds and reads source files. Each is read once.

    :param folders: folders that are searched before the file's own path
    :param resolve: returns the path on this machine, given a file's path on the target's machine
    :param caches: the cache folders of debuginfod's client
    :param servers: debuginfod servers, which are queried last; None to use no network
    """

    def __init__(
        self,
        folders: Sequence[str],
        resolve: Callable[[str], str],
        caches: Sequence[str] = (),
        servers: Servers | None = None,
    ) -> None:
        self._folders, self._resolve, self._caches, self._servers = folders, resolve, caches, servers
        self._files: dict[tuple[str, Origin], SourceFile | Unavailable] = {}

    def read(self, name: str, origin: Origin) -> SourceFile:
        """Return the source file *name* of *origin*.

        Without a digest, a file that is newer than the program gets a note.

        :raises Unavailable: if there is no file of that name, or if its contents are not those that were compiled
        """
        key = name, origin
        if key not in self._files:
            try:
                self._files[key] = self._read(name, origin)
            except Unavailable as error:
                self._files[key] = error
        file = self._files[key]
        if isinstance(file, Unavailable):
            raise file
        return file

    def _read(self, name: str, origin: Origin) -> SourceFile:
        if not any(name.endswith(suffix) for suffix in SUFFIXES) or len(name) > _MAX_PATH:
            raise Unavailable(f"{name[:_MAX_PATH]} is not called like a source file")
        faults, doubtful = [], None
        for path in self._candidates(name):
            try:
                raw, written = read_source(path)
            except BadFile as error:
                if os.path.lexists(path):
                    faults.append(str(error))
                continue
            if origin.digest not in (None, _digest(raw)):
                faults.append(f"{path} has changed since it was compiled")
                continue
            if origin.digest is not None or origin.program is None or written <= _modified(origin.program):
                return SourceFile(path, _lines(raw), None)
            note = f"{path} is newer than {origin.program}: these lines may not be those that were compiled"
            doubtful = SourceFile(path, _lines(raw), note)
            break
        for path in self._of_build(name, origin.build_id):
            with suppress(BadFile):
                raw, _ = read_source(path)
                if origin.digest in (None, _digest(raw)):
                    return SourceFile(path, _lines(raw), None)
        if doubtful is not None:
            return doubtful
        raise Unavailable(faults[0] if faults else f"{name}: no such file")

    def _candidates(self, name: str) -> Iterator[str]:
        parts = [part for part in name.split("/") if part not in ("", ".", "..")][-_MAX_FOLDERS:]
        for folder in self._folders:
            for index in range(len(parts)):
                yield f"{folder}/{'/'.join(parts[index:])}"
        with suppress(BadFile):
            yield self._resolve(name)
        yield name

    def _of_build(self, name: str, build_id: bytes | None) -> Iterator[str]:
        # The file that belongs to the module's build: first as debuginfod's client has fetched it, then from servers.
        if build_id is None or not name.startswith("/"):
            return
        for folder in self._caches:
            yield f"{folder}/{build_id.hex()}/{name_in_cache(name)}"
        fetched = self._servers.fetch_source(build_id, name) if self._servers is not None else None
        if fetched is not None:
            yield fetched


def read_source(path: str) -> tuple[bytes, int]:
    """Return the contents of the source file at *path*, and the time of its last change in nanoseconds.

    :raises BadFile: if it is missing, no text, or larger than :data:`MAX_SOURCE`
    """
    try:
        with open_paged(path) as file:
            if len(file) > MAX_SOURCE:
                raise BadFile(path, "is too large for a source file")
            raw, written = bytes(file), file.identity[3]
    except MalformedFile as error:
        raise BadFile(path, "changed while it was read") from error
    if b"\0" in raw:
        raise BadFile(path, "is no text")
    return raw, written


def name_in_cache(file: str) -> str:
    """Return the name that debuginfod's client gives to the source file *file* in its cache (``path_escape()`` of
    elfutils 0.192 and later).
    """
    path = file.encode("utf-8", "replace")
    checksum = 5381
    for byte in path:
        checksum = (33 * checksum + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF  # C's char is signed
    escaped = "".join(chr(byte) if byte in _PLAIN else "#" for byte in path)
    return f"source-{checksum:08x}-{escaped[-_MAX_TAIL:]}"


def _digest(raw: bytes) -> bytes:
    return hashlib.md5(raw, usedforsecurity=False).digest()


def _lines(raw: bytes) -> Sequence[str]:
    return raw.decode("utf-8", "replace").split("\n")


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  no pathlib on the way to an answer
    except OSError:
        return 1 << 63
