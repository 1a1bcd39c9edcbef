"""Layouts that were noted down beforehand, from the debug information of other builds: ``tables/*.json``.

What a table says holds for the releases it names, if they were built as usual. Which build lies in a process no name
tells, so a table may be used only where it was proven on that very image; see the plugins' ``proof`` modules.

A file is one object: ``format`` (1), ``runtime`` (kind of runtime), ``releases``, ``architectures`` (the psABI's
names), ``provenance`` (a sentence), ``build_ids`` (of files that are known to be laid out so: what each is),
``exports`` (``has`` and ``lacks``: names that its releases alone export, or do not), and ``structs``: by the type's
name its ``size`` and ``fields``. A field is ``[offset, size]``, or ``[offset, size, first bit, bits]`` for a bit field
in the integer of *size* bytes at *offset*. Members of members have names with dots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ompd.contract.memory import Field, StructLayout
from ompd.errors import BadFile, FieldNotFound, LayoutUnavailable

SOURCE = "table"

FORMAT = 1
FOLDER = Path(__file__).with_name("tables")
# A file of a user is input as any other.
_MAX_FILE = 4 << 20
_MAX_OFFSET = 1 << 20


@dataclass(frozen=True)
class Table:
    """The layouts of some releases of a runtime. ``name`` is that of its file."""

    name: str
    runtime: str
    releases: tuple[str, ...]
    architectures: tuple[str, ...]
    provenance: str
    build_ids: Mapping[str, str]
    has_exports: tuple[str, ...]
    lacks_exports: tuple[str, ...]
    structs: Mapping[str, StructLayout]

    def layout(self, name: str, members: Sequence[str] | None = None) -> StructLayout:
        """Return the layout of type *name*, of all its members or of those of *members* that it has.

        :raises LayoutUnavailable: if the table does not have the type
        """
        try:
            found = self.structs[name]
        except KeyError:
            raise LayoutUnavailable(f"the layouts of {', '.join(self.releases)} do not have {name}") from None
        if members is None:
            return found
        fields = {member: found.fields[member] for member in members if member in found.fields}
        return StructLayout(name, found.size, fields, SOURCE, found.masks)

    def offset(self, struct: str, member: str) -> int:
        """Return the offset of a member.

        :raises LayoutUnavailable: if the table does not have it
        """
        try:
            return self.layout(struct).field(member).offset
        except FieldNotFound as error:
            raise LayoutUnavailable(str(error)) from error


def tables(runtime: str, architecture: str) -> Iterator[Table]:
    """Yield the tables of a kind of runtime for an architecture, by the files' names.

    :raises BadFile: if a file is not what this page says
    """
    for path in sorted(FOLDER.glob(f"{runtime}-*.json")):
        table = load(path)
        if table.runtime == runtime and architecture in table.architectures:
            yield table


@cache
def load(path: Path) -> Table:
    """Return the table in the file *path*.

    :raises BadFile: if it is not one
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadFile(str(path), f"cannot be read: {error.strerror}") from error
    if len(raw) > _MAX_FILE:
        raise BadFile(str(path), f"is larger than {_MAX_FILE} bytes, which no table of layouts is")
    try:
        return _table(path.stem, json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadFile(str(path), f"is not a table of layouts: {type(error).__name__}: {error}") from error


def _table(name: str, told: Mapping[str, object]) -> Table:
    if told["format"] != FORMAT:
        raise ValueError(f"its format is {told['format']!r}, this release of ompd reads {FORMAT}")
    exports = _object(told.get("exports", {}))
    return Table(
        name,
        _text(told["runtime"]),
        _texts(told["releases"]),
        _texts(told["architectures"]),
        _text(told["provenance"]),
        {_text(key): _text(value) for key, value in _object(told["build_ids"]).items()},
        _texts(exports.get("has", [])),
        _texts(exports.get("lacks", [])),
        {key: _struct(key, _object(value)) for key, value in _object(told["structs"]).items()},
    )


def _struct(name: str, told: Mapping[str, object]) -> StructLayout:
    size = _number(told["size"])
    fields: dict[str, Field] = {}
    masks: dict[str, int] = {}
    for member, where in _object(told["fields"]).items():
        if not isinstance(where, list) or len(where) not in (2, 4):
            raise ValueError(f"{name}.{member} is {where!r}")
        offset, length, *bits = map(_number, where)
        if bits:
            first, count = bits
            masks[member] = ((1 << count) - 1) << (first + 8 * offset)
        else:
            fields[member] = Field(offset, length)
    return StructLayout(name, size, fields, SOURCE, masks)


def _object(told: object) -> Mapping[str, object]:
    if not isinstance(told, dict):
        raise TypeError(f"{told!r:.40} is no object")
    return told


def _text(told: object) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{told!r:.40} is no text")
    return told


def _texts(told: object) -> tuple[str, ...]:
    if not isinstance(told, list):
        raise TypeError(f"{told!r:.40} is no list")
    return tuple(map(_text, told))


def _number(told: object) -> int:
    if type(told) is not int or not 0 <= told <= _MAX_OFFSET:
        raise ValueError(f"{told!r:.40} is no offset or size")
    return told
