"""Open a library for debuggers and the libraries that it needs, as checked copies in memory that cannot be changed.

No library runs here. The copies are loaded later, in a separate process. A file loaded by its descriptor has no
meaningful ``$ORIGIN``, and the system's loader could find an unchecked file. So this module finds all libraries that a
library needs, and they are loaded before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from hashlib import sha256
from types import TracebackType

from ompd.errors import BadFile, MalformedFile
from ompd.records import record
from ompd.runtimes.hosted.loading.folders import Finder, SystemFolders, is_plain, path_of, places
from ompd.runtimes.hosted.loading.needs import Needs, is_narrow, read_needs, unfit
from ompd.safety.libraries import MAX_LIBRARY, open_trusted, sealed_copy
from ompd.safety.reading import PagedFile

OMPD_ENTRIES = ("ompd_initialize",)
DMPL_ENTRIES = ("DMPL_initialize", "DMPL_initialise")
ENTRIES = (*OMPD_ENTRIES, *DMPL_ENTRIES)

MAX_LIBRARIES = 64
_MAX_PLACES = 1 << 10
_MAX_NAMES = 64
# Every dynamically linked process already has these libraries. A copy would be a second C library.
_ALWAYS_THERE = ("libc.so.", "ld-linux", "ld64.so.", "ld.so.")
_CXX = "libstdc++.so.6"
_ORIGIN = re.compile(r"\$(?:ORIGIN(?![A-Za-z0-9_])|\{ORIGIN\})")
_HINT = "name a library that is suitable: --ompd-library /path/to/libompd.so"


@record
class Loadable:
    """A file to load.

    ``name`` is the library's soname, or the file's name without a soname. ``path`` is the file that was opened,
    ``descriptor`` is the copy. If ``is_global`` is True, libraries that do not name this one can use its symbols, too.
    """

    name: str
    path: str
    descriptor: int
    is_global: bool = False


class Opened:
    """A library and the libraries that it needs, opened. A ``with`` statement closes the descriptors.

    ``files`` is in the order of loading, and ends with the library itself. ``there`` names libraries that the worker
    must already have. ``bits`` is 64 or 32. ``worker`` is the program that can load the library: ``"python"``, or
    ``"c32"`` for a 32-bit library on a 64-bit machine. ``entries`` are the requested functions that the library has.
    ``passed_over`` are the reasons why earlier candidates were not used.
    """

    def __init__(
        self, files: Sequence[Loadable], present: Sequence[str], bits: int, worker: str, entries: frozenset[str]
    ) -> None:
        self.files = tuple(files)
        self.present = tuple(present)
        self.bits = bits
        self.worker = worker
        self.entries = entries
        self.passed_over: tuple[str, ...] = ()
        self._open = list(self.descriptors)

    @property
    def itself(self) -> Loadable:
        """The library itself."""
        return self.files[-1]

    @property
    def name(self) -> str:
        """The library's name in messages, which is the path of its file."""
        return self.itself.path

    def digest(self) -> str:
        """Return the SHA-256 of the library itself, in hexadecimal."""
        with PagedFile(self.itself.descriptor, self.itself.path) as data:
            return sha256(bytes(data)).hexdigest()

    @property
    def steps(self) -> tuple[tuple[str, int, bool], ...]:
        """The files for a worker, in order: name, descriptor, and whether its symbols are global. The descriptor is -1
        for a library that the worker must have already.
        """
        return (
            *((name, -1, False) for name in self.present),
            *((file.name, file.descriptor, file.is_global) for file in self.files),
        )

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files that the worker inherits."""
        return tuple(file.descriptor for file in self.files)

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.pop())

    def __enter__(self) -> Opened:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_library(path: str, entries: Collection[str] = ENTRIES) -> Opened:
    """Open the library at *path*, and the libraries that it needs.

    :param path: an absolute path
    :param entries: the library must have at least one of these functions, so that unrelated libraries are never loaded
    :raises BadFile: if the library, or a library that it needs, is missing, refused or unsuitable
    """
    return _Closure(SystemFolders()).of(path, entries)


def open_named(
    names: Sequence[str],
    runtime: str,
    finder: Finder | None = None,
    entries: Collection[str] = ENTRIES,
    *,
    system: SystemFolders | None = None,
) -> Opened:
    """Open the best suitable library that a runtime names for debuggers. OpenMP 5.2, 20.2.2 ``ompd_dll_locations``.

    A relative name starts from the folder of the runtime's own file, never from the current folder. A name without a
    folder is also searched for in the system's folders.

    :param names: the content of ``ompd_dll_locations``
    :param runtime: the path of the runtime's file in the target
    :param finder: finds the target's files; None for a target whose paths are this machine's
    :raises BadFile: if no library is suitable; the message has the reason for each
    """
    system = system if system is not None else SystemFolders()
    passed: list[str] = []
    others: dict[bool, str] = {}  # the first less suitable library; True if it has only DMPL's functions
    for name in names[:_MAX_NAMES]:
        missing = True
        for path in places(name, runtime, finder, system):
            try:
                opened = _Closure(system).of(path, entries)
            except BadFile as error:
                if isinstance(error.__cause__, FileNotFoundError) and error.path == path:
                    continue
                missing = False
                passed.append(str(error))
                continue
            opened.passed_over = tuple(passed)
            is_dmpl = opened.entries.isdisjoint(OMPD_ENTRIES)
            if opened.worker == "python" and not is_dmpl:
                return opened
            # An OMPD library for this program's processor is preferred to all others.
            opened.close()
            missing = False
            others.setdefault(is_dmpl, path)
        if missing:
            passed.append(_missing(name, runtime))
    if others:
        opened = _Closure(system).of(others[min(others)], entries)
        opened.passed_over = tuple(passed)
        return opened
    what = "; ".join(passed) if passed else "ompd_dll_locations names none"
    raise BadFile(runtime, f"names no library for debuggers that can be loaded: {what}", hint=_HINT)


def _missing(name: str, runtime: str) -> str:
    if is_plain(name):
        return f"{name}: neither beside the runtime nor in a folder of the system"
    path = path_of(name, runtime)
    if path is not None:
        return f"{path}: no such file"
    return f"{name!r}: a relative path, and the folder of the runtime is not known" if name else "an empty name"


class _Closure:
    # A library and the libraries that it needs, in the order of loading.

    def __init__(self, system: SystemFolders) -> None:
        self._system = system
        self._files: list[Loadable] = []
        self._present: list[str] = []
        self._known: set[str] = set()
        self._begun: list[str] = []
        self._left = _MAX_PLACES
        self._bits = 64
        self._is_cxx_for_all = False

    def of(self, path: str, entries: Collection[str]) -> Opened:
        try:
            return self._of(path, entries)
        except BaseException as error:
            for file in self._files:
                os.close(file.descriptor)
            if isinstance(error, BadFile) and error.path != path:
                raise BadFile(path, f"is refused for what it needs: {error}", hint=error.hint) from error
            raise

    def _of(self, path: str, entries: Collection[str]) -> Opened:
        copy, needs = _open(path, entries)
        name = needs.soname or path.rpartition("/")[2]
        try:
            if not needs.entries:
                raise BadFile(path, f"is no library for debuggers: it has none of {', '.join(entries)}", hint=_HINT)
            self._bits = needs.header.ident_class
            self._add_needs(name, path, needs, ())
        finally:
            self._files.append(Loadable(name, path, copy))
        files = [
            replace(file, is_global=True) if file.name == _CXX and self._is_cxx_for_all else file
            for file in self._files
        ]
        worker = "c32" if is_narrow(needs.header) else "python"
        return Opened(files, self._present, self._bits, worker, needs.entries)

    def _add_needs(self, own: str, path: str, needs: Needs, inherited: Sequence[str]) -> None:
        # Add the libraries that *path* needs, each after its own needs.
        self._known.add(own)
        self._begun.append(own)
        folder = path.rpartition("/")[0]
        inherited = (*(_folder(text, folder) for text in needs.inherited), *inherited)
        searched = tuple(_folder(text, folder) for text in needs.runpath) if needs.runpath else inherited
        for name in needs.needed:
            if name in self._begun[:-1]:
                # Two libraries that need each other have no order of loading: whichever came first, the system's loader
                # would search for the other.
                raise BadFile(path, f"is refused: it and {name} need each other")
            if name not in self._known:
                self._add(name, path, searched, inherited)
        if needs.wants_cxx:
            # Intel's library uses the C++ library without naming it, because it expects debuggers to have it loaded.
            self._is_cxx_for_all = True
            if _CXX not in self._known:
                self._add(_CXX, path, (), ())
        self._begun.pop()

    def _add(self, name: str, wanted_by: str, searched: Sequence[str], inherited: Sequence[str]) -> None:
        if len(self._known) > MAX_LIBRARIES:
            raise BadFile(wanted_by, f"is refused: it needs more than {MAX_LIBRARIES} libraries")
        if name.startswith(_ALWAYS_THERE):
            self._known.add(name)
            self._present.append(name)
            return
        path, copy, needs = self._find(name, wanted_by, searched)
        try:
            if needs.soname != name:
                raise BadFile(
                    wanted_by,
                    f"is refused: it needs {name}, and {path} calls itself {needs.soname or 'nothing'}, so that the"
                    " system's loader would search for another one",
                )
            self._add_needs(name, path, needs, inherited)
        finally:
            self._files.append(Loadable(name, path, copy))

    def _find(self, name: str, wanted_by: str, searched: Sequence[str]) -> tuple[str, int, Needs]:
        places = [f"{folder}/{name}" for folder in searched if folder]
        for path in (*places, *self._system.places(name, self._bits)):
            self._left -= 1
            if self._left < 0:
                raise BadFile(wanted_by, "is refused: what it needs may be in too many folders")
            try:
                copy, needs = _open(path, (), bits=self._bits)
            except BadFile as error:
                if isinstance(error.__cause__, FileNotFoundError) or isinstance(error, _OfAnother):
                    continue
                raise BadFile(wanted_by, f"is refused: it needs {name}, and {error}", hint=error.hint) from error
            return path, copy, needs
        skipped = "" if all(searched) else "; folders that it names relative to the current one are not searched"
        raise BadFile(
            wanted_by,
            f"is refused: it needs {name}, which is in none of its folders and the system's{skipped}",
            hint=f"install what has {name}",
        )


class _OfAnother(BadFile):
    # The error for a library for another processor. Like the system's loader, the search then goes on with the next
    # file.
    pass


def _folder(text: str, origin: str) -> str:
    # A folder of DT_RUNPATH or DT_RPATH, "" if the folder depends on the current folder or on the loader.
    text = _ORIGIN.sub(lambda _: origin, text)
    return text.rstrip("/") if text.startswith("/") and "$" not in text else ""


def _open(path: str, entries: Collection[str], *, bits: int | None = None) -> tuple[int, Needs]:
    descriptor, status = open_trusted(path, most=MAX_LIBRARY)
    try:
        copy = sealed_copy(descriptor, status, path)
    finally:
        os.close(descriptor)
    try:
        with PagedFile(copy, path) as data:
            needs = read_needs(data, path, entries)
        why = unfit(needs.header)
        if why is None and bits is not None and needs.header.ident_class != bits:
            why = f"a library of {needs.header.ident_class} bits, and {bits} are needed"
        if why is not None:
            raise _OfAnother(path, f"is unsuitable: {why}", hint=_HINT)
    except MalformedFile as error:
        os.close(copy)
        raise BadFile(path, f"is refused: {str(error).removeprefix(f'{path}: ')}") from error
    except BaseException:
        os.close(copy)
        raise
    return copy, needs
