"""Source files on this machine, found by the names that debug information gives them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ompd.errors import BadFile, MalformedFile, Unavailable
from ompd.safety.reading import open_paged

_MAX_BYTES = 8 << 20
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


class Sources:
    """Finds and reads source files. Each is read once.

    :param folders: folders that are searched before the file's own path
    :param resolve: returns the path on this machine, given a file's path on the target's machine
    """

    def __init__(self, folders: Sequence[str], resolve: Callable[[str], str]) -> None:
        self._folders, self._resolve = folders, resolve
        self._files: dict[tuple[str, bytes | None], SourceFile | Unavailable] = {}

    def read(self, name: str, digest: bytes | None, module: str | None) -> SourceFile:
        """Return the source file *name*.

        :param digest: its MD5 when it was compiled, None if debug information has none. Without a digest, a file that
            is newer than the module gets a note
        :param module: the path of the module that was compiled from it, None if it is not known
        :raises Unavailable: if this machine has no file of that name, or if its contents are not those that were
            compiled
        """
        key = name, digest
        if key not in self._files:
            try:
                self._files[key] = self._read(name, digest, module)
            except Unavailable as error:
                self._files[key] = error
        file = self._files[key]
        if isinstance(file, Unavailable):
            raise file
        return file

    def _read(self, name: str, digest: bytes | None, module: str | None) -> SourceFile:
        if not any(name.endswith(suffix) for suffix in SUFFIXES):
            raise Unavailable(f"{name} is not called like a source file")
        fault = f"{name}: no such file"
        for path in self._candidates(name):
            try:
                with open_paged(path) as file:
                    if len(file) > _MAX_BYTES:
                        raise Unavailable(f"{path} is too large for a source file")
                    raw, written = bytes(file), file.identity[3]
            except (BadFile, MalformedFile):
                continue
            if digest is not None and hashlib.md5(raw, usedforsecurity=False).digest() != digest:
                fault = f"{path} has changed since it was compiled"
                continue
            note = None
            if digest is None and module is not None and _modified(module) < written:
                note = f"{path} is newer than {module}: these lines may not be those that were compiled"
            return SourceFile(path, raw.decode("utf-8", "replace").split("\n"), note)
        raise Unavailable(fault)

    def _candidates(self, name: str) -> Iterator[str]:
        parts = [part for part in name.split("/") if part not in ("", ".", "..")][-_MAX_FOLDERS:]
        for folder in self._folders:
            for index in range(len(parts)):
                yield f"{folder}/{'/'.join(parts[index:])}"
        with suppress(BadFile):
            yield self._resolve(name)
        yield name


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  no pathlib on the way to an answer
    except OSError:
        return 1 << 63
