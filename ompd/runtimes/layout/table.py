"""Layouts that were noted down beforehand, from the debug information of other builds: ``tables/*.json``, and those
that the user made (``ompd layout add``) in ``$XDG_DATA_HOME/ompd/layouts`` or ``~/.local/share/ompd/layouts``.

What a table says holds for the releases it names, if they were built as usual. Which build is in a process no name
says, so a table may be used only where it was proven on that very image; see the plugins' ``proof`` modules. A file
of the user's that is no table is left out, and the others serve (:func:`user_tables` says why).

A file is one object: ``format`` (1), ``runtime`` (kind of runtime), ``releases``, ``architectures`` (the psABI's
names), ``provenance`` (a sentence), ``build_ids`` (of files that are known to be laid out so: what each is),
``exports`` (``has`` and ``lacks``: names that its releases alone export, or do not), and ``structs``: by the type's
name its ``size`` and ``fields``. A field is ``[offset, size]``, or ``[offset, size, first bit, bits]`` for a bit field
in the integer of *size* bytes at *offset*. Members of members have names with dots.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ompd.contract.memory import Field, StructLayout
from ompd.errors import BadFile, FieldNotFound, LayoutUnavailable
from ompd.records import record
from ompd.safety.reading import open_regular
from ompd.safety.trust import others_fault

SOURCE = "table"

FORMAT = 1
FOLDER = Path(__file__).with_name("tables")
# A file of a user is input as any other.
MAX_FILE = 4 << 20
_MAX_FILES = 256
_MAX_OFFSET = 1 << 20
_MAX_DIGITS = 20
_MAX_STRUCTS = 1 << 10
# A mask has as many bytes as are before its bits. Those of the runtimes' largest structure have ten thousand in all.
_MAX_MASK_BYTES = 1 << 16
_BUILD_ID = re.compile(r"(?:[0-9a-f]{2}){1,64}")


@record
class Table:
    """The layouts of some releases of a runtime. ``name`` is that of its ``path``, which is where it was read."""

    name: str
    runtime: str
    releases: tuple[str, ...]
    architectures: tuple[str, ...]
    provenance: str
    build_ids: Mapping[str, str]
    has_exports: tuple[str, ...]
    lacks_exports: tuple[str, ...]
    structs: Mapping[str, StructLayout]
    path: Path | None = None

    @property
    def is_shipped(self) -> bool:
        """Whether it came with this package; else it is the user's own."""
        return self.path is None or self.path.parent == FOLDER

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
    """Yield the tables of a kind of runtime for an architecture: the shipped ones by the files' names, then the user's.

    :raises BadFile: if a shipped file is not what this page says
    """
    for known in (*shipped_tables(runtime), *user_tables()[0]):
        if known.runtime == runtime and architecture in known.architectures:
            yield known


def naming(known: Iterable[Table], build_id: str | None) -> list[Table]:
    """Return those of some tables that name a build-id, the user's first: they were made for that very file."""
    found = [each for each in known if build_id is not None and build_id in each.build_ids]
    return sorted(found, key=lambda each: each.is_shipped)


def shipped_tables(runtime: str = "*") -> list[Table]:
    """Return the tables that came with this package, by the files' names; those of one kind of runtime, or all.

    :raises BadFile: if a file is not what this page says
    """
    if FOLDER.is_dir():
        return [load(path) for path in sorted(FOLDER.glob(f"{runtime}-*.json"))]
    from importlib.resources import files

    paths = {FOLDER / each.name: each for each in files(__package__).joinpath(FOLDER.name).iterdir()}
    return [_parsed(path, paths[path].read_bytes()) for path in sorted(paths) if path.match(f"{runtime}-*.json")]


def user_folder() -> Path | None:
    """Return where the user's tables are, there or not; None if the environment does not say (XDG Base Directory
    Specification: ``XDG_DATA_HOME``, which has to be absolute).
    """
    root = os.environ.get("XDG_DATA_HOME", "")
    if root.startswith("/"):
        return Path(root) / "ompd" / "layouts"
    home = os.environ.get("HOME", "")
    return Path(home) / ".local" / "share" / "ompd" / "layouts" if home.startswith("/") else None


def user_tables() -> tuple[list[Table], list[BadFile]]:
    """Return the user's tables, by the files' names, and why other files of the folder are none."""
    folder = user_folder()
    found: list[Table] = []
    faults: list[BadFile] = []
    if folder is None:
        return found, faults
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
        fault = others_fault(str(folder), private_groups=True)
        if fault is not None:
            return found, [BadFile(str(folder), f"is left out of the folders with tables of layouts: {fault}")]
    except FileNotFoundError:
        return found, faults
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return found, [BadFile(str(folder), f"cannot be read: {reason}")]
    for path in paths[:_MAX_FILES]:
        try:
            found.append(_load_own(path))
        except BadFile as error:
            faults.append(BadFile(error.path, f"is left out of the tables of layouts: it {error.fault}"))
    if len(paths) > _MAX_FILES:
        faults.append(BadFile(str(folder), f"has more than {_MAX_FILES} tables; {_MAX_FILES} are read"))
    return found, faults


def _load_own(path: Path) -> Table:
    try:
        fault = others_fault(str(path), private_groups=True)
    except OSError as error:
        fault = error.strerror
    if fault is not None:
        raise BadFile(str(path), f"cannot be trusted: {fault}")
    return load(path)


def load(path: Path) -> Table:
    """Return the table in the file *path*. What was read is kept until the file changes.

    :raises BadFile: if it is not one
    """
    descriptor, status = open_regular(str(path))
    try:
        with open(descriptor, "rb") as file:  # noqa: PTH123
            if status.st_size > MAX_FILE:
                raise BadFile(str(path), f"is larger than {MAX_FILE} bytes, which no table of layouts is")
            return _parsed(path, file.read(MAX_FILE))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadFile(str(path), f"cannot be read: {reason}") from error


@lru_cache(maxsize=64)
def _parsed(path: Path, raw: bytes) -> Table:
    try:
        return parse(path, json.loads(raw, parse_int=_integer))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadFile(str(path), f"is not a table of layouts: {told}") from error


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def parse(path: Path, told: Mapping[str, object]) -> Table:
    """Return what the JSON object of the file *path* says.

    :raises ValueError: if it says what cannot be
    :raises TypeError: if something in it is of another type
    :raises KeyError: if something is missing
    """
    return _table(path, _object(told))


def _table(path: Path, told: Mapping[str, object]) -> Table:
    if told["format"] != FORMAT:
        raise ValueError(f"its format is {told['format']!r}, this release of ompd reads {FORMAT}")
    exports, structs = _object(told.get("exports", {})), _object(told["structs"])
    if len(structs) > _MAX_STRUCTS:
        raise ValueError(f"it has {len(structs)} structures")
    return Table(
        path.stem,
        _text(told["runtime"]),
        _texts(told["releases"]),
        _texts(told["architectures"]),
        _text(told["provenance"]),
        {_build_id(key): _text(value) for key, value in _object(told["build_ids"]).items()},
        _texts(exports.get("has", [])),
        _texts(exports.get("lacks", [])),
        {key: _struct(key, _object(value)) for key, value in structs.items()},
        path,
    )


def _struct(name: str, told: Mapping[str, object]) -> StructLayout:
    size = _number(told["size"])
    fields: dict[str, Field] = {}
    masks: dict[str, int] = {}
    mask_bytes = 0
    for member, where in _object(told["fields"]).items():
        if not isinstance(where, list) or len(where) not in (2, 4):
            raise ValueError(f"{name}.{member} is {where!r:.80}")
        offset, length, *bits = map(_number, where)
        if bits:
            first, count = bits
            mask_bytes += offset + length
            # The integer may reach beyond the structure's end, its bits may not.
            if not 0 < count <= 8 * length - first or 8 * offset + first + count > 8 * size:
                raise ValueError(f"{name}.{member} is {where!r:.80} in {size} bytes")
            if mask_bytes > _MAX_MASK_BYTES:
                raise ValueError(f"{name} has too many bit fields")
            masks[member] = ((1 << count) - 1) << (first + 8 * offset)
        elif offset + length > size:
            raise ValueError(f"{name}.{member} is {where!r:.80} in {size} bytes")
        else:
            fields[member] = Field(offset, length)
    return StructLayout(name, size, fields, SOURCE, masks)


def _object(told: object) -> Mapping[str, object]:
    if not isinstance(told, dict):
        raise TypeError(f"{told!r:.40} is not an object")
    return told


def _text(told: object) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{told!r:.40} is not a string")
    return told


def _build_id(told: str) -> str:
    if not _BUILD_ID.fullmatch(told):
        raise ValueError(f"{told!r:.80} is not a build-id in lower-case hexadecimal")
    return told


def _texts(told: object) -> tuple[str, ...]:
    if not isinstance(told, list):
        raise TypeError(f"{told!r:.40} is not a list")
    return tuple(map(_text, told))


def _number(told: object) -> int:
    if type(told) is not int or not 0 <= told <= _MAX_OFFSET:
        raise ValueError(f"{told!r:.40} is not an offset or size")
    return told
