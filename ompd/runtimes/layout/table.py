"""Tables of layouts from the debug information of other builds: ``tables/*.json``, and the user's tables
(``ompd layout add``) in ``$XDG_DATA_HOME/ompd/layouts`` or ``~/.local/share/ompd/layouts``.

A table is valid for the usual builds of its releases. The name of a release does not identify the build in a process.
So a table is used only after a plugin's ``proof`` module has proven it on the image in the process. Files of the user
that are not valid tables are ignored; :func:`user_tables` returns the reasons.

A file is one object: ``format`` (1), ``runtime`` (kind of runtime), ``releases``, ``architectures`` (the psABI's
names), ``provenance`` (a sentence), ``build_ids`` (of files that have these layouts, each with a description),
``exports`` (``has`` and ``lacks``: names that only these releases export, or that only these releases lack), and
``structs``, which has ``size`` and ``fields`` of each type by the type's name. A field is ``[offset, size]``, or
``[offset, size, first bit, bits]`` for a bit field in the integer of *size* bytes at *offset*. Members of members have
names with dots.
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
# The user's files are untrusted, like all input.
MAX_FILE = 4 << 20
_MAX_FILES = 256
_MAX_OFFSET = 1 << 20
_MAX_DIGITS = 20
_MAX_STRUCTS = 1 << 10
# A mask has a byte for each byte before its bits. The largest structure of the runtimes needs masks of 10,000 bytes in
# all.
_MAX_MASK_BYTES = 1 << 16
_BUILD_ID = re.compile(r"(?:[0-9a-f]{2}){1,64}")


@record
class Table:
    """The layouts of some releases of a runtime. ``path`` is the table's file, ``name`` is the name of the file."""

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
        """Whether the table came with this package. Otherwise the user added it."""
        return self.path is None or self.path.parent == FOLDER

    def layout(self, name: str, members: Sequence[str] | None = None) -> StructLayout:
        """Return the layout of type *name*, with all members or only those in *members*.

        :raises LayoutUnavailable: if the table does not have the type
        """
        try:
            layout = self.structs[name]
        except KeyError:
            raise LayoutUnavailable(f"the layouts of {', '.join(self.releases)} do not have {name}") from None
        if members is None:
            return layout
        fields = {member: layout.fields[member] for member in members if member in layout.fields}
        return StructLayout(name, layout.size, fields, SOURCE, layout.masks)

    def offset(self, struct: str, member: str) -> int:
        """Return the offset of a member.

        :raises LayoutUnavailable: if the table does not have the member
        """
        try:
            return self.layout(struct).field(member).offset
        except FieldNotFound as error:
            raise LayoutUnavailable(str(error)) from error


def tables(runtime: str, architecture: str) -> Iterator[Table]:
    """Yield the tables for a kind of runtime and an architecture: first the shipped tables in the order of file names,
    then the user's.

    :raises BadFile: if a shipped file is not a valid table
    """
    for table in (*shipped_tables(runtime), *user_tables()[0]):
        if table.runtime == runtime and architecture in table.architectures:
            yield table


def naming(known: Iterable[Table], build_id: str | None) -> list[Table]:
    """Return the tables that list a build-id. The user's tables come first, because they were made from the file with
    that build-id.
    """
    fitting = [table for table in known if build_id is not None and build_id in table.build_ids]
    return sorted(fitting, key=lambda table: table.is_shipped)


def shipped_tables(runtime: str = "*") -> list[Table]:
    """Return the tables that came with this package, in the order of file names, for one kind of runtime or for all.

    :raises BadFile: if a file is not a valid table
    """
    if FOLDER.is_dir():
        return [load(path) for path in _listed(FOLDER, runtime)]
    from importlib.resources import files

    paths = {FOLDER / each.name: each for each in files(__package__).joinpath(FOLDER.name).iterdir()}
    return [_parsed(path, paths[path].read_bytes()) for path in sorted(paths) if path.match(f"{runtime}-*.json")]


@lru_cache
def _listed(folder: Path, runtime: str) -> Sequence[Path]:
    # A session looks for them at each stop.
    return sorted(folder.glob(f"{runtime}-*.json"))


def user_folder() -> Path | None:
    """Return the folder of the user's tables, which may not exist. None if the environment has no absolute path for it
    (``XDG_DATA_HOME`` of the XDG Base Directory Specification).
    """
    root = os.environ.get("XDG_DATA_HOME", "")
    if root.startswith("/"):
        return Path(root) / "ompd" / "layouts"
    home = os.environ.get("HOME", "")
    return Path(home) / ".local" / "share" / "ompd" / "layouts" if home.startswith("/") else None


def user_tables() -> tuple[list[Table], list[BadFile]]:
    """Return the user's tables, in the order of file names, and the faults of the folder's other files."""
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
    """Return the table in the file *path*. The table is cached until the file changes.

    :raises BadFile: if the file is not a valid table
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
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadFile(str(path), f"is not a table of layouts: {reason}") from error


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def parse(path: Path, document: Mapping[str, object]) -> Table:
    """Return the table in the JSON object of the file *path*.

    :raises ValueError: if a value is impossible
    :raises TypeError: if a value is of another type
    :raises KeyError: if a value is missing
    """
    return _table(path, _object(document))


def _table(path: Path, document: Mapping[str, object]) -> Table:
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, this release of ompd reads {FORMAT}")
    exports, structs = _object(document.get("exports", {})), _object(document["structs"])
    if len(structs) > _MAX_STRUCTS:
        raise ValueError(f"it has {len(structs)} structures")
    return Table(
        path.stem,
        _text(document["runtime"]),
        _texts(document["releases"]),
        _texts(document["architectures"]),
        _text(document["provenance"]),
        {_build_id(key): _text(value) for key, value in _object(document["build_ids"]).items()},
        _texts(exports.get("has", [])),
        _texts(exports.get("lacks", [])),
        {key: _struct(key, _object(value)) for key, value in structs.items()},
        path,
    )


def _struct(name: str, value: Mapping[str, object]) -> StructLayout:
    size = _number(value["size"])
    fields: dict[str, Field] = {}
    masks: dict[str, int] = {}
    mask_bytes = 0
    for member, where in _object(value["fields"]).items():
        if not isinstance(where, list) or len(where) not in (2, 4):
            raise ValueError(f"{name}.{member} is {where!r:.80}")
        offset, length, *bits = map(_number, where)
        if bits:
            first, count = bits
            mask_bytes += offset + length
            # The integer may extend beyond the structure's end, but its bits must not.
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


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is not an object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a string")
    return value


def _build_id(value: str) -> str:
    if not _BUILD_ID.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not a build-id in lower-case hexadecimal")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is not a list")
    return tuple(map(_text, value))


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_OFFSET:
        raise ValueError(f"{value!r:.40} is not an offset or size")
    return value
