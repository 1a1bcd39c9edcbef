"""Parse the files of modules once for all cases. They are this machine's own, and no case damages them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.modules import modules
from ompd.debugger.variables import types
from ompd.safety.reading import PagedFile


class Kept(PagedFile):
    """A file that stays open when a session closes it."""

    def close(self) -> None:
        """Do nothing: the next case reads on."""


class Memory(mmap.mmap):
    """Memory in place of a file without holes, which stays open when a session closes it."""

    def close(self) -> None:
        """Do nothing: the next case reads on."""

    def will_need(self, start: int, size: int) -> None:
        """Do nothing: it is in memory."""

    def data_from(self, start: int) -> int | None:
        """Return *start*, which is no hole."""
        return start

    def hole_from(self, start: int) -> int:
        """Return the end."""
        return len(self)

    def has_changed(self) -> bool:
        """Return False: only cases make changes."""
        return False


def kept(path: str) -> Kept:
    """Open a file for reading."""
    with Path(path).open("rb") as file:
        return Kept(file.fileno(), path)


class _Loader:
    # Replaces a class. Modules call only two of its constructors, both class methods.

    def __init__(self, from_elf: Callable[..., Any], from_debug_frame: Callable[..., Any]) -> None:
        self.from_elf, self.from_debug_frame = from_elf, from_debug_frame


def _once(make: Callable[..., Any], key: Callable[..., object]) -> Callable[..., Any]:
    known: dict[object, Any] = {}
    alive: list[object] = []  # keep the objects of the keys: a collected one's id may return

    def made(*arguments: Any) -> Any:
        name = key(*arguments)
        if name not in known:
            alive.append(arguments)
            known[name] = make(*arguments)
        return known[name]

    return made


def _first(first: object, *_: object) -> object:
    return id(first)


@contextmanager
def parsed_once() -> Iterator[None]:
    """Let all sessions in the context share the parsed files of modules."""
    original_open, original_elf = modules.open_paged, modules.ElfFile
    tables, unwinding, lines, info = modules.SymbolTable, modules.UnwindTable, modules.LineInfo, types.TypeInfo
    find = types.find_variables
    separate = _once(FileFinder.debug_file, lambda finder, elf, *_: id(elf))
    opened = _once(lambda path: _kept(original_open, path), lambda path: path)
    replaced: Sequence[tuple[Any, str, Any]] = (
        (modules, "open_paged", opened),
        (modules, "ElfFile", _once(original_elf, lambda data, name: (id(data), name))),
        (modules, "SymbolTable", _once(tables, _first)),
        (
            modules,
            "UnwindTable",
            _Loader(_once(unwinding.from_elf, _first), _once(unwinding.from_debug_frame, _first)),
        ),
        (modules, "LineInfo", _once(lines, _first)),
        (types, "TypeInfo", _once(info, _first)),
        (FileFinder, "debug_file", lambda finder, *arguments: separate(finder, *arguments)),
        (types, "find_variables", _once(find, lambda info, names: (id(info), tuple(names)))),
    )
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _kept(open_paged: Callable[[str], PagedFile], path: str) -> Kept:
    open_paged(path).close()  # raises the errors of the original
    return kept(path)
