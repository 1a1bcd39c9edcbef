"""Lines of the source of a process's code: those that a snapshot has, else those of files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ompd.binary.core.source_note import LONGEST_LINE, KeptFile, parse_source
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.files.sources import Origin
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.places import Places
from ompd.debugger.targets.base import Target
from ompd.errors import MalformedFile, Unavailable

_MAX_FILES, _MAX_CHARACTERS = 64, 500_000  # that are noted


class SourceLines(NamedTuple):
    """Lines of a source file.

    ``first`` is the number of the first of ``lines``, ``path`` the file on this machine, None for lines of a snapshot.
    ``note`` says why they may not be the lines that were compiled, None without a reason.
    """

    first: int
    lines: tuple[str, ...]
    path: str | None
    note: str | None


class SourceCode:
    """Reads lines of source. ``noted`` has the lines that were read since :meth:`note_reads`, by the names of files."""

    def __init__(self, target: Target, modules: ModuleList, places: Places, finder: FileFinder) -> None:
        self._target, self._modules, self._places, self._finder = target, modules, places, finder
        self.noted: dict[str, KeptFile] = {}
        self._is_noting, self._characters = False, 0

    def note_reads(self) -> None:
        """Begin to note the lines that are read, up to a limit."""
        self._is_noting = True

    def lines(self, address: int, file: str, line: int, first: int, last: int) -> SourceLines:
        """Return the lines around *line* of the source *file* of the code at *address*.

        :param first: the first line to return; of a snapshot's lines, only those without a gap are returned
        :param last: the last one
        :raises Unavailable: if there is no such file, if it is not the one that was compiled, or if it is shorter
        """
        kept = self._kept.get(file)
        if kept is not None and line in kept.lines:
            lines = _kept_lines(kept, line, first, last)
        else:
            source = self._finder.sources.read(file, self._origin(address, file))
            if line > len(source.lines):
                raise Unavailable(f"{source.path} has only {len(source.lines)} lines")
            shown = tuple(text.rstrip()[:LONGEST_LINE] for text in source.lines[first - 1 : last])
            lines = SourceLines(first, shown, source.path, source.note)
        if self._is_noting:
            self._note(file, lines)
        return lines

    @property
    def fault(self) -> str | None:
        """The reason why the lines that a snapshot has cannot be used, None if they can, or if there are none."""
        try:
            self._kept_or_fault()
        except MalformedFile as error:
            return str(error)
        return None

    @cached_property
    def _kept(self) -> Mapping[str, KeptFile]:
        with suppress(MalformedFile):
            return self._kept_or_fault()
        return {}

    def _kept_or_fault(self) -> Mapping[str, KeptFile]:
        note = self._target.kept_source()
        return parse_source(note) if note is not None else {}

    def _origin(self, address: int, file: str) -> Origin:
        module = self._modules.at(address)
        if module is None:
            return Origin(self._places.source_digest(address, file))
        build_id = module.record.build_id
        return Origin(
            self._places.source_digest(address, file),
            bytes.fromhex(build_id) if build_id is not None else None,
            self._target.name if module.is_extract else module.record.path,
        )

    def _note(self, file: str, lines: SourceLines) -> None:
        kept = self.noted.get(file, KeptFile(lines.note, {})).lines
        new = {number: text for number, text in enumerate(lines.lines, lines.first) if number not in kept}
        characters = self._characters + sum(len(text) for text in new.values())
        if characters <= _MAX_CHARACTERS and (file in self.noted or len(self.noted) < _MAX_FILES):
            self.noted[file] = KeptFile(lines.note, {**kept, **new})
            self._characters = characters


def _kept_lines(kept: KeptFile, line: int, first: int, last: int) -> SourceLines:
    low = high = line
    while low > first and low - 1 in kept.lines:
        low -= 1
    while high < last and high + 1 in kept.lines:
        high += 1
    return SourceLines(low, tuple(kept.lines[number] for number in range(low, high + 1)), None, kept.note)
