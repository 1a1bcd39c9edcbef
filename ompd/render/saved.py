"""Answers that were saved as JSON, read back as records.

The file is untrusted input: contents that do not fit the schema are refused, and contents are only used as data.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TextIO

from ompd import model
from ompd.errors import BadFile
from ompd.model import Answer
from ompd.model.base import addresses_of
from ompd.model.kinds import Kind
from ompd.safety.reading import open_regular, read_head

# The limit for a file. 230,000 tasks, the most of one answer, are 160 MB.
_MOST_BYTES, _LONGEST_VALUE, _PIECE = 1 << 28, 1 << 24, 1 << 20
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
# Commands with rows that can be compared.
_ROWS: Mapping[str, type[Any]] = {
    "threads": model.ThreadRecord,
    "tasks": model.TaskRecord,
    "parallel": model.ParallelRecord,
}


class _Wrong(Exception):
    """The file does not fit the schema; the message names the place."""


def is_saved(path: str) -> bool:
    """Return whether the file begins as an object in JSON does."""
    try:
        return read_head(path, 64).lstrip().startswith(b"{")
    except (BadFile, OSError, ValueError):
        return False


def read_answer(path: str) -> tuple[str, Answer[Any]]:
    """Return the command and the answer in the file at *path*.

    Rows are read one after the other: 100,000 of them are 70 MB of text, and 20 MB of records.

    :raises BadFile: if it is not the JSON of ``threads``, ``tasks`` or ``parallel``
    """
    try:
        descriptor, status = open_regular(path)
        with open(descriptor, encoding="utf-8") as stream:  # noqa: PTH123
            if status.st_size > _MOST_BYTES:
                large = f"has more than {_MOST_BYTES >> 20} MB, which no answer has"
                raise BadFile(path, large, hint="compare the cores or processes themselves")
            return _answer(_Text(stream))
    except _Wrong as error:
        hint = "compare two files of `ompd threads --json`, of `tasks --json` or of `parallel --json`"
        raise BadFile(path, str(error), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise BadFile(path, "is not JSON that ompd wrote") from error


class _Text:
    """Reads the text of one JSON object, a member or an item of a list at a time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._at_end = False

    def members(self) -> Iterator[str]:
        """Yield the name of each member. The caller must read its value before the next."""
        yield from (self._name() for _ in self._separated("{", "}"))
        if self._mark():
            raise ValueError

    def _name(self) -> str:
        name = self.value()
        if not isinstance(name, str):
            raise _Wrong("is not JSON that ompd wrote")
        self._take(":")
        return name

    def items(self) -> Iterator[Any]:
        """Yield the items of a list."""
        yield from (self.value() for _ in self._separated("[", "]"))

    def _separated(self, begin: str, end: str) -> Iterator[None]:
        self._take(begin)
        if self._mark() != end:
            yield
            while self._mark() == ",":
                self._at += 1
                yield
        self._take(end)

    def value(self) -> Any:
        """Read any value."""
        self._mark()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if self._at_end:
                    raise
            else:
                if end < len(self._text) or self._at_end:  # else a number may go on
                    self._at = end
                    return value
            self._read_more()

    def _take(self, mark: str) -> None:
        if self._mark() != mark:
            raise ValueError
        self._at += 1

    def _mark(self) -> str:
        # Return the next character that is not a space, "" at the end.
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._at_end:
                return self._text[self._at : self._at + 1]
            self._read_more()

    def _read_more(self) -> None:
        # Read at least as much text as is left. So the text doubles at each attempt, and a long value is not parsed too
        # often.
        unread = self._text[self._at :]
        if len(unread) > _LONGEST_VALUE:
            raise _Wrong(f"has a value of more than {_LONGEST_VALUE >> 20} MB, which no answer has")
        piece = self._stream.read(max(_PIECE, len(unread)))
        self._text, self._at, self._at_end = unread + piece, 0, not piece


def _answer(text: _Text) -> tuple[str, Answer[Any]]:
    members: dict[str, Any] = {}
    for name in text.members():
        if name not in _ROWS:
            members[name] = text.value()
        elif members.get("schema") in (None, f"ompd/{name}/1"):
            members[name] = tuple(_records(_ROWS[name], text.items()))
        else:
            break
    schema = members.get("schema")
    command = next((name for name in _ROWS if schema == f"ompd/{name}/1"), None)
    if command is None:
        raise _Wrong("is not an answer that can be compared")
    rows, runtimes = members.get(command), members.get("runtimes")
    if rows is None or not isinstance(runtimes, list):
        raise _Wrong("is not as its schema has it")
    return command, Answer(
        _record(model.TargetRecord, members.get("target")),
        tuple(_record(model.RuntimeRecord, runtime) for runtime in runtimes),
        rows,
        _value(bool, members.get("complete")),
        _value(tuple[str, ...], members.get("warnings")),
        query=command,
    )


def _records(kind: type[Any], rows: Iterator[Any]) -> Iterator[Any]:
    previous: tuple[Any, Any] | None = None
    for row in rows:
        parsed = _record(kind, row, previous)
        previous = row, parsed
        yield parsed


def _record(kind: type[Any], value: Any, previous: tuple[Any, Any] | None = None) -> Any:
    # Neighbouring rows have many equal values. The record shares these with *previous*: the row before and its record.
    if not isinstance(value, dict):
        raise _Wrong(f"has no {kind.__name__} where there should be one")
    hints, addresses = _hints(typing.cast("Any", kind)), addresses_of(typing.cast("Any", kind))
    members: dict[str, Any] = {}
    for member in fields(kind):
        if member.name not in value:
            if member.default is MISSING and member.default_factory is MISSING:
                raise _Wrong(f"has a {kind.__name__} without {member.name}")
            continue  # missing in files of earlier releases
        item = value[member.name]
        if previous is not None and _is_same(previous[0].get(member.name, ...), item):
            members[member.name] = getattr(previous[1], member.name)
            continue
        members[member.name] = _address(item) if member.name in addresses else _value(hints[member.name], item)
    return kind(**members)


def _is_same(value: Any, other: Any) -> bool:
    return value.__class__ is other.__class__ and bool(value == other)  # 1 is not True


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _address(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("0x") or len(value) > 18:
        raise _Wrong("has an address that is none")
    return int(value, 16)


def _value(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (argument for argument in arguments if argument is not type(None))
        return _value(hint, value)
    if is_dataclass(hint):
        return _record(typing.cast("type[Any]", hint), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], item) for item in value)
    if origin is not None and origin is not tuple and isinstance(value, dict):
        return {name: _value(arguments[1], item) for name, item in value.items()}
    if hint in (int, bool, str) and type(value) is hint:
        return value
    if hint is Kind and type(value) is str:
        return Kind(value)
    raise _Wrong("is not as its schema has it")
