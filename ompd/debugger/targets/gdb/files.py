"""Finds files of a target in gdb by gdb's settings, and where gdb has found them. These files are verified, too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.files.finder import FileFinder, FileOptions

_OF_TARGET = "target:"


def file_options() -> FileOptions:
    """Return the options from gdb's settings ``sysroot`` and ``debug-file-directory``."""
    # The default, "target:", means the machine of the process. Here that is always this machine.
    sysroot = (gdb.parameter("sysroot") or "").removeprefix(_OF_TARGET).rstrip("/")
    folders = (gdb.parameter("debug-file-directory") or "").split(os.pathsep)
    return FileOptions(sysroot=sysroot or None, debug_dirs=[folder for folder in folders if folder.startswith("/")])


class GdbFiles(FileFinder):
    """Finds the files of a core in gdb: at their own paths, or where gdb has found a file of that name, for example by
    ``solib-search-path`` or the command ``file``.
    """

    program_option = "the command file FILE"

    def __init__(self, progspace: Any) -> None:
        super().__init__(file_options())
        self._path_by_name: dict[str, str] = {}
        self._symbols: dict[str, list[str]] = {}
        for objfile in progspace.objfiles():
            path = objfile.filename or ""
            if objfile.owner is not None:
                self._symbols.setdefault(os.path.realpath(objfile.owner.filename or ""), []).append(path)
            elif path.startswith("/"):
                self._path_by_name.setdefault(os.path.basename(path), path)  # noqa: PTH119

    def resolve(self, name: str) -> str:
        """Return the path of the target's file *name* on this machine."""
        path = super().resolve(name)
        if os.access(path, os.R_OK):
            return path
        return self._path_by_name.get(os.path.basename(name), path)  # noqa: PTH119

    def _debug_candidates(self, path: str, target_name: str, name: str, build_id: bytes | None) -> Iterator[str]:
        yield from self._symbols.get(os.path.realpath(path), ())
        yield from super()._debug_candidates(path, target_name, name, build_id)
