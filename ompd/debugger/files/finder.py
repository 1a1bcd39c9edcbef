"""Finds the files that a target names on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeAlias

from ompd.binary.elf.elf import ElfFile
from ompd.debugger.files.progress import Progress
from ompd.debugger.files.sources import Sources
from ompd.errors import BadFile, MalformedFile
from ompd.records import record
from ompd.safety.reading import PagedFile, checksum, open_paged

if TYPE_CHECKING:
    from ompd.debugger.files.debuginfod import Servers

SYSTEM_DEBUG_DIR = "/usr/lib/debug"
_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)
_MAX_COPIED = 1 << 20


_Path: TypeAlias = "str | PathLike[str]"


@record
class FileOptions:
    """The user's options for finding a target's files.

    ``exe`` is the program's executable, for a target that does not name it, or whose file has changed. ``sysroot``
    replaces the target machine's ``/``, None for this machine's. ``debug_dirs`` are searched for separate debug files
    and ``.build-id`` folders, before ``/usr/lib/debug``. With ``debuginfod``, missing files are downloaded from the
    servers in DEBUGINFOD_URLS. ``progress`` receives lines to show during long operations. ``source_dirs`` are searched
    for source files, before the paths in debug information.
    """

    exe: _Path | None = None
    sysroot: _Path | None = None
    debug_dirs: Sequence[_Path] = ()
    debuginfod: bool = False
    progress: Progress | None = None
    source_dirs: Sequence[_Path] = ()


class FileFinder:
    """Finds the files that a target names on this machine.

    Its results are only candidates: callers verify build-ids, checksums or contents.

    :raises BadInput: if ``debuginfod`` is set and DEBUGINFOD_URLS names no server
    """

    program_option = "--exe FILE"
    """The option by which the user names the program's file."""

    def __init__(self, options: FileOptions | None = None) -> None:
        options = options or FileOptions()
        self.exe = fspath(options.exe) if options.exe is not None else None
        self.sysroot = fspath(options.sysroot) if options.sysroot is not None else None
        self._debug_dirs = tuple(fspath(folder) for folder in options.debug_dirs)
        self.passed_by: dict[str, str] = {}
        """Candidates that were skipped, each with the reason."""
        self._servers: Servers | None = None
        if options.debuginfod:
            from ompd.debugger.files.debuginfod import Servers

            self._servers = Servers(os.environ, debuginfod_caches()[0], options.progress)
        folders = [fspath(folder) for folder in options.source_dirs]
        self.sources = Sources(folders, self.resolve, debuginfod_caches(), self._servers)

    def resolve(self, name: str) -> str:
        """Return the path on this machine of the target's file *name*.

        Inside a sysroot, ``..`` and links are resolved as on the target's machine, so they never leave it.

        :raises BadFile: if its links form a circle
        """
        return path_inside(self.sysroot, name) if self.sysroot is not None else name

    def unsuitable_library(self, path: str) -> str | None:
        """Return why ``--ompd-library`` would refuse the library at *path*, None if it would load it."""
        from ompd.debugger.files.dll_files import unsuitable

        return unsuitable(path)

    def executables(self, build_id: bytes) -> Iterator[str]:
        """Yield candidates for the executable or library with *build_id*. Files from servers come last."""
        yield from self._by_build_id(build_id, "")
        yield from self._kept(build_id, "executable")

    def _by_build_id(self, build_id: bytes, suffix: str) -> Iterator[str]:
        # Fedora has links to executables in /usr/lib/.build-id; all distributions have debug files in /usr/lib/debug.
        if len(build_id) < 2:
            return
        digits = build_id.hex()
        name = f".build-id/{digits[:2]}/{digits[2:]}{suffix}"
        for folder in self._debug_dirs:
            yield f"{folder}/{name}"
        for folder in (SYSTEM_DEBUG_DIR, "/usr/lib"):
            if self.sysroot is not None:
                with suppress(BadFile):
                    yield self.resolve(f"{folder}/{name}")
            yield f"{folder}/{name}"

    def _kept(self, build_id: bytes, kind: str) -> Iterator[str]:
        # First the files that debuginfod's own client has fetched, then the servers.
        for folder in debuginfod_caches():
            yield f"{folder}/{build_id.hex()}/{kind}"
        fetched = self._servers.fetch(build_id, kind) if self._servers is not None else None
        if fetched is not None:
            yield fetched

    def _debug_candidates(self, path: str, target_name: str, name: str, build_id: bytes | None) -> Iterator[str]:
        # The order is that of GDB's manual, "Debugging Information in Separate Files".
        if build_id is not None:
            yield from self._by_build_id(build_id, ".debug")
        if name:
            own_folder, target_folder = os.path.dirname(path), os.path.dirname(target_name)  # noqa: PTH120
            yield f"{own_folder}/{name}"
            yield f"{own_folder}/.debug/{name}"
            for folder in dict.fromkeys((target_folder, own_folder)):
                for debug_dir in self._debug_dirs:
                    yield path_inside(debug_dir, f"{folder}/{name}")
                yield self.resolve(f"{SYSTEM_DEBUG_DIR}/{folder}/{name}")
        if build_id is not None:
            yield from self._kept(build_id, "debuginfo")

    def debug_file(self, elf: ElfFile, path: str, target_name: str) -> ElfFile | None:
        """Return the verified separate debug file of *elf*, None if there is none.

        It is found by the build-id, then by ``.gnu_debuglink`` and its CRC.

        :param path: the path of *elf*
        :param target_name: its path on the target's machine
        """
        try:
            build_id, link = elf.build_id(), elf.debuglink()
        except MalformedFile:
            return None
        name, crc = link or ("", 0)
        with suppress(BadFile):
            for candidate in self._debug_candidates(path, target_name, name, build_id):
                debug_file = self._proven(candidate, elf, build_id, crc if link is not None else None)
                if debug_file is not None:
                    return debug_file
        return None

    def _proven(self, candidate: str, elf: ElfFile, build_id: bytes | None, crc: int | None) -> ElfFile | None:
        # The debug file at *candidate* if it belongs to *elf*, otherwise None.
        try:
            data = open_paged(candidate)
        except BadFile:
            return None
        is_itself = isinstance(elf.data, PagedFile) and elf.data.identity[:2] == data.identity[:2]
        if is_itself:
            return None
        try:
            debug_file = ElfFile(data, candidate)
            if build_id is not None and debug_file.build_id() == build_id:
                return debug_file
            if crc is None:
                return None
            actual_crc = checksum(data)
        except MalformedFile:
            return None
        if actual_crc is None:
            self.passed_by[candidate] = "is almost nothing but holes, and was not compared with its module's checksum"
        return debug_file if actual_crc == crc else None

    def companions(self, path: str, target_name: str, debug_path: str | None = None) -> Companions:
        """Return a finder of the files that a module's debug information refers to.

        :param path: the path of the module's file
        :param target_name: its path on the target's machine
        :param debug_path: the path of its separate debug file, None if it has debug information itself
        """
        return Companions(self, path, target_name, debug_path)

    def supplementary_candidates(self, path: str, name: str, build_id: bytes | None) -> Iterator[str]:
        """Yield candidates for the supplementary file *name* of the file at *path*. Files from servers come last."""
        if name.startswith("/"):
            yield self.resolve(name)
        else:
            # The name is relative to the debug file's folder, even if a link in .build-id led to the debug file.
            for folder in dict.fromkeys(os.path.dirname(p) for p in (path, os.path.realpath(path))):  # noqa: PTH120
                yield f"{folder}/{name}"
        if build_id is not None:
            yield from self._by_build_id(build_id, ".debug")
        base = name.rpartition("/")[2]
        for folder in (*self._debug_dirs, SYSTEM_DEBUG_DIR):
            yield f"{folder}/.dwz/{base}"
        yield self.resolve(f"{SYSTEM_DEBUG_DIR}/.dwz/{base}")
        if build_id is not None:
            yield from self._kept(build_id, "debuginfo")

    def split_candidates(self, paths: Sequence[str], folder: str, name: str) -> Iterator[str]:
        """Yield candidates for the split file *name*, written by a compiler in *folder*, for modules at *paths*."""
        written = name if name.startswith("/") else f"{folder}/{name}"
        base = name.rpartition("/")[2]
        if written.startswith("/"):
            yield self.resolve(written)
        for path in paths:
            beside = os.path.dirname(path)  # noqa: PTH120
            if not name.startswith("/"):
                yield f"{beside}/{name}"
            yield f"{beside}/{base}"
        for debug_dir in self._debug_dirs:
            yield path_inside(debug_dir, written)
            yield f"{debug_dir}/{base}"

    def package_candidates(self, paths: Sequence[str]) -> Iterator[str]:
        """Yield candidates for the package of the split files of modules at *paths*."""
        for path in paths:
            yield f"{path}.dwp"
            yield f"{path.removesuffix('.debug')}.dwp"
        for debug_dir in self._debug_dirs:
            for path in paths:
                yield f"{debug_dir}/{path.rpartition('/')[2]}.dwp"
                yield path_inside(debug_dir, f"{path}.dwp")


class Companions:
    """Finds the files that the debug information of one module refers to. Callers verify them.

    This implements :class:`ompd.binary.dwarf.files.OtherFiles`.
    """

    def __init__(self, finder: FileFinder, path: str, target_name: str, debug_path: str | None) -> None:
        self._finder = finder
        self._holder = path if debug_path is None else debug_path  # the file with the debug information
        paths = [path] if debug_path is None else [path, debug_path]
        with suppress(BadFile):
            paths.append(finder.resolve(target_name))
        self._paths = list(dict.fromkeys(paths))
        self._open: list[PagedFile] = []

    def supplementary(self, name: str, is_proven: Callable[[ElfFile], bool], build_id: bytes | None) -> ElfFile | None:
        """Return the first candidate for the supplementary file *name* that is proven, None if none is."""
        with suppress(BadFile):
            for elf in self._opened(self._finder.supplementary_candidates(self._holder, name, build_id)):
                with suppress(MalformedFile):
                    if is_proven(elf):
                        return elf
        return None

    def split(self, folder: str, name: str) -> Iterator[ElfFile]:
        """Yield candidates for the split file *name*, written by a compiler in *folder*."""
        with suppress(BadFile):
            yield from self._opened(self._finder.split_candidates(self._paths, folder, name))

    def packages(self) -> Iterator[ElfFile]:
        """Yield candidates for the package of the module's split files."""
        with suppress(BadFile):
            yield from self._opened(self._finder.package_candidates(self._paths))

    def _opened(self, candidates: Iterator[str]) -> Iterator[ElfFile]:
        tried: set[str] = set()
        for candidate in candidates:
            if candidate in tried:
                continue
            tried.add(candidate)
            try:
                file = open_paged(candidate)
                # Copy small files, because open ones keep descriptors, and a program may have a split file for each
                # source file.
                if len(file) <= _MAX_COPIED:
                    with file:
                        yield ElfFile(bytes(file), candidate)
                else:
                    self._open.append(file)
                    yield ElfFile(file, candidate)
            except (BadFile, MalformedFile):
                continue

    def close(self) -> None:
        """Close the files."""
        for file in self._open:
            file.close()


def debuginfod_caches() -> tuple[str, ...]:
    """Return the cache folders of debuginfod's client (debuginfod_find_debuginfo(3), "Cache"). New files go into the
    first folder. An empty file in a folder means that servers did not have the file.
    """
    environment = os.environ
    if environment.get("DEBUGINFOD_CACHE_PATH"):
        return (environment["DEBUGINFOD_CACHE_PATH"],)
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CACHE_HOME") or f"{home}/.cache"
    return f"{folder}/debuginfod_client", f"{home}/.debuginfod_client_cache"


def path_inside(root: str, name: str) -> str:
    """Return the path on this machine of the file that is called *name* if *root* is the root folder. Links are
    resolved. A part that is missing counts as no link.

    :raises BadFile: if its links form a circle
    """
    waiting = name.split("/")[::-1]
    passed: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del passed[-1:]
        elif part not in ("", "."):
            try:
                target = os.readlink("/".join((root, *passed, part)))  # noqa: PTH115
            except (OSError, ValueError):
                passed.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise BadFile(f"{root}/{name.lstrip('/')}", "has too many symbolic links in its path")
            if target.startswith("/"):
                passed.clear()
            waiting += target.split("/")[::-1]
    return "/".join((root, *passed))
